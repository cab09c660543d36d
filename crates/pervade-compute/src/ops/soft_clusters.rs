//! DEC's clustering loss (Xie, Girshick and Farhadi, 2016).

use crate::{Matrix, MixtureSlots, Params, Result, Sums};

/// Soft clusters around means.
pub trait SoftClusters: Sums {
    /// Soft clusters around the mixture's means (DEC; Xie, Girshick and Farhadi, 2016): q_m in proportion to
    /// 1 / (1 + |z - mu_m|^2). Adds minus KL(P || Q) of each row to the sums, as the cluster term; the
    /// gradient of its mean over rows goes to the means and to `dz` (overwritten). `targets` is P, and `affinity_gradient`
    /// is scratch memory; both are [R, B, C].
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
