//! The setting `likelihood`, and the choice of p(x|z) from it and the data.

use serde::{Deserialize, Serialize};

use crate::compute::Likelihood;
use crate::{Error, Hint, Result};

/// The family of p(x|z).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LikelihoodKind {
    /// Multinomial for sparse rows that are weights of terms, Bernoulli if all prepared data lie in [0, 1], otherwise Gaussian
    /// with one fixed variance.
    Auto,
    /// Bernoulli, for data in [0, 1].
    Bernoulli,
    /// Gaussian with mean and log variance for every column, as in the paper.
    Gaussian,
    /// Gaussian with one fixed variance for all columns.
    GaussianFixed,
    /// Counts, such as reads per gene: negative binomial given the sum of the row, one dispersion per column.
    Counts,
    /// Weights of terms in documents, such as tf-idf: sum of x log softmax.
    Multinomial,
}

names!(LikelihoodKind, "likelihood": "auto" => LikelihoodKind::Auto, "bernoulli" => LikelihoodKind::Bernoulli,
    "gaussian" => LikelihoodKind::Gaussian, "gaussian-fixed" => LikelihoodKind::GaussianFixed,
    "counts" => LikelihoodKind::Counts, "multinomial" => LikelihoodKind::Multinomial);

/// The variance before it is estimated; also that of the authors' code, which sums squared errors.
const NOISE_VARIANCE: f32 = 0.5;

impl LikelihoodKind {
    /// The likelihood for prepared data in the range from `low` to `high`.
    pub(super) fn resolve(self, low: f32, high: f32, noise_variance: Option<f32>) -> Result<Likelihood> {
        let likelihood = match self {
            LikelihoodKind::Auto if low >= 0.0 && high <= 1.0 => Likelihood::Bernoulli,
            LikelihoodKind::Bernoulli => Likelihood::Bernoulli,
            LikelihoodKind::Gaussian => Likelihood::Gaussian,
            LikelihoodKind::Counts => Likelihood::Counts,
            LikelihoodKind::Multinomial => Likelihood::Multinomial,
            LikelihoodKind::Auto | LikelihoodKind::GaussianFixed => {
                Likelihood::GaussianFixed { variance: noise_variance.unwrap_or(NOISE_VARIANCE) }
            }
        };
        let [lowest, highest] = likelihood.support();
        if low >= lowest && high <= highest {
            return Ok(likelihood);
        }
        let must = format!("but the prepared data range from {low} to {high}, outside [{lowest}, {highest}]");
        let hint = Hint::new("use ").setting_to("prepare", "unit").text(", or ");
        Err(Error::setting("likelihood", self, must)
            .with_hint(hint.setting_to("likelihood", LikelihoodKind::GaussianFixed)))
    }
}
