//! Gaussian-mixture posteriors.

use super::driver::{Arg, Kernel, Launch};
use super::{Cuda, CudaBuffer, CudaSums, M};
use crate::{Likelihood, MAX_STICKS, MixturePosterior, PosteriorMixture, Result};

/// Threads per block: one block per row, one component per warp at a time.
const THREADS: u32 = 128;

impl MixturePosterior for Cuda {
    fn weighted_likelihood(
        &self,
        families: &[Likelihood],
        x: &M,
        shares: &M,
        output: &mut M,
        d_shares: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        self.log_likelihood(families, x, Some((shares, d_shares)), output, sums)
    }

    fn posterior_mixture(
        &self,
        max_mean: f32,
        posterior: PosteriorMixture<'_, CudaBuffer>,
        d_head: &mut M,
        d_shares: &mut M,
        d_drawn: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        let PosteriorMixture { head, z, shares, drawn } = posterior;
        let (b, k, j) = (shares.rows, shares.columns, z.columns);
        assert!([head.rows, head.columns] == [k * b, 2 * j] && z.rows == k * b, "a row for each component");
        assert!([d_head.rows, d_head.columns] == [k * b, 2 * j], "a gradient for each component");
        let each = [drawn.stride(), d_shares.stride(), d_drawn.stride()];
        assert!(each == [b * k; 3], "a weight for each component");
        assert!(k <= MAX_STICKS && b <= sums.n_samples, "sums made for batches of this size");
        let matrices = [head, z, shares, drawn, d_head, d_shares, d_drawn].map(|m| m.data.address(0).into());
        let sums_and_sizes = [sums.address().into(), b.into(), sums.n_samples.into(), k.into(), j.into()];
        let args: Vec<Arg<'_>> =
            [max_mean.into()].into_iter().chain(matrices).chain(sums_and_sizes).collect();
        let launch = Launch {
            kernel: Kernel::PosteriorMixture,
            grid: (b as u32, shares.restarts as u32, 1),
            threads: THREADS,
            shared: (k * size_of::<f32>()) as u32,
        };
        self.driver.launch(launch, &args)
    }
}
