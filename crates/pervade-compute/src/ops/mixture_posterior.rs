//! Gaussian-mixture posteriors (Nalisnick, Hertel and Smyth, 2016).

use crate::{Likelihood, Matrix, Result, Sums};

/// A posterior that is a mixture of K Gaussians per row; component k of row i is stored in row k B + i.
#[derive(Clone, Copy, Debug)]
pub struct PosteriorMixture<'a, B> {
    /// Means and log variances: [R, K B, 2J].
    pub head: &'a Matrix<B>,
    /// One latent sampled from each component: [R, K B, J].
    pub z: &'a Matrix<B>,
    /// Expected weights of the components: [R, B, K].
    pub shares: &'a Matrix<B>,
    /// Sampled weights of the components: [R, B, K].
    pub drawn: &'a Matrix<B>,
}

/// The terms of the ELBO for a Gaussian-mixture posterior.
pub trait MixturePosterior: Sums {
    /// Like `likelihood`, with each row's samples weighted by its shares, [R, B, L]: adds sum_l share_l log p(x|z_l)
    /// to the sums. The output is replaced by the gradient of minus its mean over rows, and the gradient for the shares is
    /// added to `d_shares`.
    fn weighted_likelihood(
        &self,
        families: &[Likelihood],
        x: &Matrix<Self::Buffer>,
        shares: &Matrix<Self::Buffer>,
        output: &mut Matrix<Self::Buffer>,
        d_shares: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;

    /// Prior and entropy terms. For each row's mixture, adds sum_k share_k E ln N(z; m_k, I), the expectation taken under
    /// component k, to the latent term, and -ln sum_k drawn_k N(z_k; component k) to the entropy; the m_k are evenly spaced
    /// from -`max_mean` to `max_mean` in every column. The gradients of minus the mean over rows overwrite `d_head`,
    /// `d_shares` and `d_drawn`; z has none, since it moves with its component.
    fn posterior_mixture(
        &self,
        max_mean: f32,
        posterior: PosteriorMixture<'_, Self::Buffer>,
        d_head: &mut Matrix<Self::Buffer>,
        d_shares: &mut Matrix<Self::Buffer>,
        d_drawn: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
}
