//! DEC's clustering loss (Xie, Girshick and Farhadi, 2016).

use crate::{Matrix, MixtureSlots, Params, Result, Sums};

/// Soft cluster assignment by Student's t kernel around means.
pub trait SoftClusters: Sums {
    /// DEC's loss with soft assignments q_m proportional to 1 / (1 + |z - mu_m|^2), where mu are the mixture's means. Adds
    /// minus KL(P || Q) of each row to the cluster term, and writes the gradients of the mean KL over rows for the means
    /// and `dz`. `targets` is P, and `affinity_gradient` is scratch memory; both are [R, B, C].
    fn soft_clusters(
        &self,
        params: &mut Params<Self::Buffer>,
        mixture: MixtureSlots,
        targets: &Matrix<Self::Buffer>,
        z: &Matrix<Self::Buffer>,
        affinity_gradient: &mut Matrix<Self::Buffer>,
        dz: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
}
