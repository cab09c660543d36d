//! Passes over the latents of all rows: k-means, EM, nearest neighbours.

use std::ops::Range;

use crate::{Components, Memory, Moments, Result};

/// Clustering and neighbour search on the latents of all rows of one restart.
pub trait Points: Memory {
    /// The latents, with the result of the last [`Points::assign`].
    type Points<'a>;

    /// Makes the latents of all rows, [N, J], available to the operations below.
    fn points<'a>(&self, latents: &'a [f32], n_latent: usize) -> Result<Self::Points<'a>>;

    /// Chooses initial centres by k-means++: the first row of `sample`, then one row per draw except the last, each with
    /// probability proportional to its squared distance from the nearest centre so far. A draw is uniform in [0, 1) and
    /// selects the position in the sample where the cumulative sum exceeds that fraction of the total.
    fn kmeans_plus_plus(
        &self,
        points: &mut Self::Points<'_>,
        sample: &[u32],
        draws: &[f64],
    ) -> Result<Vec<u32>>;

    /// The E-step of EM: moments under the responsibilities, and the sum of the rows' log densities.
    fn e_step(&self, points: &mut Self::Points<'_>, components: &Components) -> Result<(Moments, f64)>;

    /// The E-step of k-means: moments with each row assigned to its most probable component (ties go to the first), and
    /// whether any assignment changed since the last call.
    fn assign(&self, points: &mut Self::Points<'_>, components: &Components) -> Result<(Moments, bool)>;

    /// The result of `assign`: the component of each row, and minus twice the log joint with it (the squared
    /// distance where variances are one and constants zero).
    fn assigned(&self, points: &Self::Points<'_>) -> Result<(Vec<u32>, Vec<f64>)>;

    /// The `n_neighbours` nearest of the other `rows` for each of `rows[queries]`, as positions in `rows`, nearest first; ties
    /// go to the smaller position. Distances are sums of squared differences in single precision, column by column, without
    /// fused multiply-adds: the same on every device. [m, k] for m queries, with k < n. Calls `keep_going` several times per second and
    /// stops with [`Error::Interrupted`](crate::Error::Interrupted) when it returns false.
    fn neighbours(
        &self,
        points: &Self::Points<'_>,
        rows: &[u32],
        queries: Range<usize>,
        n_neighbours: usize,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<u32>>;
}
