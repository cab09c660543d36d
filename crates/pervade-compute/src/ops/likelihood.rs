//! log p(x|z) from the decoder's output.

use crate::{Matrix, Result, Sums};

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

impl Likelihood {
    /// Columns of the decoder's output for D columns of data.
    pub fn n_outputs(self, n_columns: usize) -> usize {
        if self == Likelihood::Gaussian { 2 * n_columns } else { n_columns }
    }
}

/// The likelihood of the rows and its gradient.
pub trait Likelihoods: Sums {
    /// Adds log p(x|z) to the sums and replaces the decoder's output by the gradient of the loss,
    /// the mean of -log p(x|z) over B and L. One family per restart.
    fn likelihood(
        &self,
        families: &[Likelihood],
        x: &Matrix<Self::Buffer>,
        output: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
}
