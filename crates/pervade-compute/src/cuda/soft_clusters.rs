//! The kernels of DEC's clustering loss.

use super::driver::{Arg, Kernel, Launch};
use super::{Cuda, CudaBuffer, CudaSums, M};
use crate::{MixtureSlots, Params, Result, SoftClusters};

/// Threads per row's block: four warps, each for some of the latent columns.
const ROW_THREADS: u32 = 128;
/// Threads per mean's block: one warp for each of ten latent columns.
const MEAN_THREADS: u32 = 320;

impl SoftClusters for Cuda {
    fn soft_clusters(
        &self,
        params: &mut Params<CudaBuffer>,
        slots: MixtureSlots,
        targets: &M,
        z: &M,
        affinity_gradient: &mut M,
        dz: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        let (r, b, c, j) = (params.restarts, z.rows, slots.n_components(), slots.n_latents());
        assert!(b == sums.n_samples, "sums made for batches of this size");
        let shape = [r, b, c];
        assert!([targets.restarts, targets.rows, targets.columns] == shape, "a target for each row and mean");
        assert!(
            [affinity_gradient.restarts, affinity_gradient.rows, affinity_gradient.columns] == shape,
            "scratch for each row and mean"
        );
        let grid = |n: usize| (n as u32, r as u32, 1);
        let rows = [
            params.values.address(0),
            params.stride as u64,
            slots.means.offset as u64,
            targets.data.address(0),
            z.data.address(0),
            affinity_gradient.data.address(0),
            dz.data.address(0),
            sums.address(),
        ];
        let sizes = || [b, c, j].map(Arg::from);
        let launch = Launch { kernel: Kernel::SoftRows, grid: grid(b), threads: ROW_THREADS, shared: 0 };
        self.driver.launch(launch, &rows.map(Arg::from).into_iter().chain(sizes()).collect::<Vec<_>>())?;
        let means = [
            params.values.address(0),
            params.gradients.address(0),
            params.stride as u64,
            slots.means.offset as u64,
            z.data.address(0),
            affinity_gradient.data.address(0),
        ];
        let launch =
            Launch { kernel: Kernel::SoftGradients, grid: grid(c), threads: MEAN_THREADS, shared: 0 };
        self.driver.launch(launch, &means.map(Arg::from).into_iter().chain(sizes()).collect::<Vec<_>>())
    }
}
