//! Stick-breaking posteriors (Nalisnick and Smyth, 2017).

use crate::{Draw, Matrix, Result, Sums};

/// The most weights that a stick can be broken into.
pub const MOST_STICKS: usize = 1024;
/// Bounds on the parameters of a Kumaraswamy distribution: beyond them its gamma functions have no digits left, and no
/// gradient passes.
pub(crate) const KUMARASWAMY_LIMITS: [f64; 2] = [1e-4, 1e4];
/// The uniform numbers that fractions are drawn from: at 0 and 1 their gradients would be infinite.
pub(crate) const DRAWN_FRACTION: [f64; 2] = [0.01, 0.99];
/// Terms of the series for E ln(1 - v).
pub(crate) const SERIES_TERMS: u32 = 10;

/// The distribution that the fractions of a stick are held to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StickPrior {
    /// Beta(1, c) each: weights that fall off, as in a Dirichlet process.
    Falling {
        /// c.
        concentration: f32,
    },
    /// Beta(c, c n), n the weights behind it: a Dirichlet distribution with c for every weight.
    Dirichlet {
        /// c.
        concentration: f32,
    },
}

impl StickPrior {
    /// Both parameters for fraction `k` of J weights.
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

/// Weights by stick breaking, and their prior.
pub trait StickBreaking: Sums {
    /// Weights that sum to one, [R, B, J], by breaking a stick J - 1 times (Nalisnick and Smyth, 2017). The head,
    /// [R, B, 2J], is J numbers whose softplus is a and J whose softplus is b, the last of each unused; a fraction of
    /// what is left is drawn from Kumaraswamy(a, b) and, without a draw, its mean. At most [`MOST_STICKS`] weights.
    fn stick_breaking(
        &self,
        draw: Option<Draw<'_>>,
        head: &Matrix<Self::Buffer>,
        weights: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// Adds the weights' gradient to that of the head; the same fractions are drawn again.
    fn stick_breaking_backward(
        &self,
        draw: Option<Draw<'_>>,
        head: &Matrix<Self::Buffer>,
        d_weights: &Matrix<Self::Buffer>,
        d_head: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// Adds minus KL(q || prior) of each row's fractions to the sums, as the cluster term; the gradient of its mean
    /// over rows goes to `d_head` (overwritten).
    fn stick_prior(
        &self,
        prior: StickPrior,
        head: &Matrix<Self::Buffer>,
        d_head: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
}
