//! The families of p(x|z): all that is known of one, but its kernels, is in this file.

use std::f64::consts::TAU;
use std::fmt;

use crate::math::softplus_and_logistic;
use crate::{DECODER_LOG_VARIANCE_LIMIT, Matrix, Result, Sums};

/// log p(x|z) from the decoder's output.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Likelihood {
    /// Data in [0, 1]; the output o is a logit: sum of x o - softplus(o).
    Bernoulli,
    /// The output is D means followed by D log variances.
    Gaussian,
    /// The output is D means; one variance for all.
    GaussianFixed {
        /// The noise variance.
        variance: f32,
    },
}

impl fmt::Display for Likelihood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Likelihood::Bernoulli => f.write_str("bernoulli"),
            Likelihood::Gaussian => f.write_str("gaussian with a variance for every value"),
            Likelihood::GaussianFixed { variance } => write!(f, "gaussian with variance {variance}"),
        }
    }
}

impl Likelihood {
    /// One of each family, for checks that go through all of them.
    pub const EXAMPLES: [Likelihood; 3] =
        [Likelihood::Bernoulli, Likelihood::Gaussian, Likelihood::GaussianFixed { variance: 0.7 }];

    /// Columns of the decoder's output for D columns of data.
    pub fn n_outputs(self, n_columns: usize) -> usize {
        match self {
            Likelihood::Gaussian => 2 * n_columns,
            Likelihood::Bernoulli | Likelihood::GaussianFixed { .. } => n_columns,
        }
    }

    /// The values that x may have, lowest and highest.
    pub fn support(self) -> [f32; 2] {
        match self {
            Likelihood::Bernoulli => [0.0, 1.0],
            Likelihood::Gaussian | Likelihood::GaussianFixed { .. } => [f32::NEG_INFINITY, f32::INFINITY],
        }
    }

    /// Its number in the kernels, and its parameter there.
    #[cfg(feature = "cuda")]
    pub(crate) fn kernel_code(self) -> (u32, f32) {
        match self {
            Likelihood::Bernoulli => (0, 1.0),
            Likelihood::Gaussian => (1, 1.0),
            Likelihood::GaussianFixed { variance } => (2, variance),
        }
    }

    /// Whether its parameters are ones that it may have; what is read from a file may be anything.
    pub fn is_valid(self) -> bool {
        match self {
            Likelihood::Bernoulli | Likelihood::Gaussian => true,
            Likelihood::GaussianFixed { variance } => variance.is_normal() && variance > 0.0,
        }
    }

    /// Whether `other` is of the same family, whatever its parameters.
    pub fn is_same_family(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// The same family with the parameters that suit an auto-encoder whose rows have this mean log likelihood.
    ///
    /// For one variance v of D columns the mean is -D/2 ln(2 pi v) - S / (2 v), with S the mean squared error of a row; the
    /// variance that suits the residual is S / D.
    pub fn refitted(self, mean_log_likelihood: f64, n_columns: usize) -> Self {
        match self {
            Likelihood::Bernoulli | Likelihood::Gaussian => self,
            Likelihood::GaussianFixed { variance } => {
                let (d, v) = (n_columns as f64, f64::from(variance));
                let squares = 2.0 * v * (-mean_log_likelihood - 0.5 * d * (TAU * v).ln());
                Likelihood::GaussianFixed { variance: (squares / d).max(LEAST_NOISE) as f32 }
            }
        }
    }

    /// The mean of p(x|z) of one row, appended to `mean`.
    pub fn append_mean(self, output: &[f32], mean: &mut Vec<f32>) {
        match self {
            Likelihood::Bernoulli => mean.extend(output.iter().map(|&o| softplus_and_logistic(o).1)),
            Likelihood::Gaussian => mean.extend_from_slice(&output[..output.len() / 2]),
            Likelihood::GaussianFixed { .. } => mean.extend_from_slice(output),
        }
    }

    /// log p(x|z) of one row, in double precision.
    pub fn log_density(self, x: &[f32], output: &[f32]) -> f64 {
        let pairs = x.iter().zip(output).map(|(&x, &o)| (f64::from(x), f64::from(o)));
        match self {
            Likelihood::Bernoulli => {
                pairs.map(|(x, o)| x * o - (o.max(0.0) + (-o.abs()).exp().ln_1p())).sum()
            }
            Likelihood::GaussianFixed { variance } => {
                let v = f64::from(variance);
                pairs.map(|(x, o)| -0.5 * ((TAU * v).ln() + (x - o).powi(2) / v)).sum()
            }
            Likelihood::Gaussian => {
                let limit = f64::from(DECODER_LOG_VARIANCE_LIMIT);
                let logs = output[x.len()..].iter().map(|&l| f64::from(l).clamp(-limit, limit));
                pairs.zip(logs).map(|((x, o), l)| -0.5 * (TAU.ln() + l + (x - o).powi(2) * (-l).exp())).sum()
            }
        }
    }
}

/// An auto-encoder that reproduces the data exactly still leaves this much noise.
const LEAST_NOISE: f64 = 1e-4;

/// The likelihood of the rows and its gradient.
pub trait Likelihoods: Sums {
    /// Adds log p(x|z) of the first B rows of each restart's `x` to the sums, which were made for B rows, and replaces the decoder's output by the gradient of the loss,
    /// the mean of -log p(x|z) over B and L. One family per restart.
    fn likelihood(
        &self,
        families: &[Likelihood],
        x: &Matrix<Self::Buffer>,
        output: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
}
