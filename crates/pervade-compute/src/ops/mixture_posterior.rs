//! Mixtures of Gaussians as posteriors (Nalisnick, Hertel and Smyth, 2016).

use crate::{Likelihood, Matrix, Result, Sums};

/// A posterior that is a mixture of K Gaussians per row; component k of row i is row k B + i.
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

/// The terms of the ELBO that a mixture as posterior has.
pub trait MixturePosterior: Sums {
    /// As `likelihood`, with each row's samples counted by its shares, [R, B, L]: adds the sum of share_l log p(x|z_l)
    /// to the sums; the output becomes the gradient of minus its mean over rows, which is added to `d_shares`, too.
    fn weighted_likelihood(
        &self,
        families: &[Likelihood],
        x: &Matrix<Self::Buffer>,
        shares: &Matrix<Self::Buffer>,
        output: &mut Matrix<Self::Buffer>,
        d_shares: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;

    /// Adds, for each row's mixture of Gaussians, the sum of share_k E ln N(z; m_k, I) under component k to the sums, as
    /// the latent term, and -ln of the sum of drawn_k N(z_k; component k), as the entropy; m_k has -`spread` to
    /// `spread` in all its columns, in even steps. Gradients of minus the mean over rows go to the components' heads,
    /// to the shares and to the drawn weights (all overwritten); none goes to z, which moves with its component.
    fn posterior_mixture(
        &self,
        spread: f32,
        posterior: PosteriorMixture<'_, Self::Buffer>,
        d_head: &mut Matrix<Self::Buffer>,
        d_shares: &mut Matrix<Self::Buffer>,
        d_drawn: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
}
