//! What the operations of stick-breaking posteriors are told.

use super::Matrix;

/// Weights that a stick is broken into at the most.
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

/// A posterior that is a mixture of K Gaussians a row; component k of row i is row k B + i.
#[derive(Clone, Copy, Debug)]
pub struct PosteriorMixture<'a, B> {
    /// Means and log variances: [R, K B, 2J].
    pub head: &'a Matrix<B>,
    /// A latent drawn from each component: [R, K B, J].
    pub z: &'a Matrix<B>,
    /// Expected weights of the components: [R, B, K].
    pub shares: &'a Matrix<B>,
    /// Weights that were drawn: [R, B, K].
    pub drawn: &'a Matrix<B>,
}
