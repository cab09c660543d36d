//! Passes over the latents of all rows: k-means, EM, nearest neighbours.

use crate::{Components, Memory, Moments, Result};

/// Operations on the latents of all rows of one restart.
pub trait Points: Memory {
    /// The latents, and where [`Points::assign`] last put them.
    type Points<'a>;

    /// Takes the latents of all rows, [N, J], for the operations below.
    fn points<'a>(&self, latents: &'a [f32], n_latent: usize) -> Result<Self::Points<'a>>;

    /// Rows far from each other (k-means++): the first of `sample`, then one per draw but the last, each with probability
    /// proportional to its squared distance from those before. A draw is uniform in [0, 1) and selects the position in
    /// the sample where the running sum exceeds that fraction of the total.
    fn kmeans_plus_plus(
        &self,
        points: &mut Self::Points<'_>,
        sample: &[u32],
        draws: &[f64],
    ) -> Result<Vec<u32>>;

    /// The E-step of EM: moments under the responsibilities, and the sum of the rows' log densities.
    fn e_step(&self, points: &mut Self::Points<'_>, components: &Components) -> Result<(Moments, f64)>;

    /// The same with each row assigned to its most probable component (ties go to the first); and whether any
    /// assignment changed since the last call.
    fn assign(&self, points: &mut Self::Points<'_>, components: &Components) -> Result<(Moments, bool)>;

    /// The result of `assign`: the component of each row, and minus twice the log joint with it (the squared
    /// distance where variances are one and constants zero).
    fn assigned(&self, points: &Self::Points<'_>) -> Result<(Vec<u32>, Vec<f64>)>;

    /// For each of `rows` the `n_neighbours` others (positions in `rows`) at the least Euclidean distance, nearest
    /// first; ties go to the smaller position. Sums of squared differences in single precision,
    /// column after column, without fused operations: the same on every device. [n, k], with k < n.
    /// Long work calls `keep_going` several times a second and stops with [`Error::Interrupted`](crate::Error::Interrupted)
    /// when it returns false.
    fn neighbours(
        &self,
        points: &Self::Points<'_>,
        rows: &[u32],
        n_neighbours: usize,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<u32>>;
}
