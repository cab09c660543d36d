//! The neighbour term: a row and its neighbour should belong to the same cluster.

use crate::{Matrix, MixtureSlots, Params, Prior, Result};

/// The neighbour term's weight, and which components make up a cluster.
#[derive(Clone, Copy, Debug)]
pub struct NeighbourTerm<'a, B> {
    /// lambda, in nats.
    pub weight: f32,
    /// The cluster of each component, [R, C]: whole numbers below `n_clusters`.
    pub groups: &'a B,
    /// Clusters, K.
    pub n_clusters: usize,
}

/// The share of neighbours that may belong to different clusters. It bounds the neighbour term below, so that a wrong
/// neighbour does not count without limit.
pub(crate) const WRONG_NEIGHBOURS: f32 = 1e-6;

/// The probability that rows and their neighbours belong to the same cluster.
pub trait NeighbourAgreement: Prior {
    /// Adds weight x log(wrong + sum over clusters k of q(k|x) q(k|x')), the log probability that a row and its neighbour
    /// belong to the same cluster, to the sums; q is the posterior at the latent mean, summed over the components of a
    /// cluster, and `wrong` a small share of neighbours that need not agree. Rows B..2B of each restart's head are the
    /// neighbours of rows 0..B. Follows [`Prior::prior`]: the gradients of the loss are added to those of the mixture's
    /// parameters and of rows 0..B of `d_head`; rows B..2B are written.
    fn neighbour_term(
        &self,
        term: NeighbourTerm<'_, Self::Buffer>,
        params: &mut Params<Self::Buffer>,
        mixture: MixtureSlots,
        head: &Matrix<Self::Buffer>,
        scratch: &mut Self::Buffer,
        d_head: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
}
