//! Stick-breaking posteriors (Nalisnick and Smyth, 2017).

use crate::{Draw, Matrix, Result, Sums};

/// The largest number of weights of a stick-breaking process.
pub const MAX_STICKS: usize = 1024;
/// Bounds on the parameters of a Kumaraswamy distribution: beyond them its gamma functions lose all precision; clamped
/// parameters get no gradient.
pub(crate) const KUMARASWAMY_LIMITS: [f64; 2] = [1e-4, 1e4];
/// The interval of the uniform numbers from which fractions are drawn: at 0 and 1 their gradients would be infinite.
pub(crate) const DRAWN_FRACTION: [f64; 2] = [0.01, 0.99];
/// Terms of the series for E ln(1 - v).
pub(crate) const SERIES_TERMS: u32 = 10;

/// The prior of the stick-breaking fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StickPrior {
    /// Beta(1, c) for each fraction: decreasing weights, as in a Dirichlet process.
    Falling {
        /// c.
        concentration: f32,
    },
    /// Beta(c, c n), where n is the number of weights that follow: a symmetric Dirichlet distribution with parameter c.
    Dirichlet {
        /// c.
        concentration: f32,
    },
}

impl StickPrior {
    /// Both Beta parameters of fraction `k` for `n_weights` weights.
    pub(crate) fn beta(self, k: usize, n_weights: usize) -> [f64; 2] {
        match self {
            StickPrior::Falling { concentration } => [1.0, f64::from(concentration)],
            StickPrior::Dirichlet { concentration } => {
                let c = f64::from(concentration);
                [c, c * (n_weights - 1 - k) as f64]
            }
        }
    }
}

/// Stick-breaking weights with Kumaraswamy fractions, and their prior.
pub trait StickBreaking: Sums {
    /// Weights that sum to one, [R, B, J], by breaking a stick J - 1 times. The head, [R, B, 2J], holds J values whose
    /// softplus is a, then J whose softplus is b, the last of each unused. Each fraction of the remaining stick is drawn
    /// from Kumaraswamy(a, b) or, without a draw, is its mean. At most [`MAX_STICKS`] weights.
    fn stick_breaking(
        &self,
        draw: Option<Draw<'_>>,
        head: &Matrix<Self::Buffer>,
        weights: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// Adds the gradient of the weights to that of the head; redraws the same fractions.
    fn stick_breaking_backward(
        &self,
        draw: Option<Draw<'_>>,
        head: &Matrix<Self::Buffer>,
        d_weights: &Matrix<Self::Buffer>,
        d_head: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// Adds minus KL(q || prior) of each row's fractions to the cluster term, and writes the gradient of the mean KL over
    /// rows to `d_head`.
    fn stick_prior(
        &self,
        prior: StickPrior,
        head: &Matrix<Self::Buffer>,
        d_head: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
}
