//! The mixture prior's kernels.

use super::driver::{Arg, Kernel, Launch, MAX_SHARED, StreamId};
use super::{Cuda, CudaBuffer, CudaSums, M, blocks};
use crate::{Error, Gamma, Memory, MixtureSlots, Params, Prior, Result};

/// Elements in the tables of a restart (see `prior_tables`).
pub(super) fn tables_len(slots: MixtureSlots) -> usize {
    slots.n_components() * (2 + slots.n_latents())
}

/// Elements of scratch: tables, then d loss / d l for the rows and for their samples.
fn scratch_len(restarts: usize, n_rows: usize, n_samples: usize, slots: MixtureSlots) -> usize {
    restarts * (tables_len(slots) + (2 * n_rows).max(n_rows + n_samples) * slots.n_components())
}

/// Shared memory of a row's block: variances, and three values per component.
fn shared_bytes(slots: MixtureSlots) -> u32 {
    4 * (slots.n_latents() + 3 * slots.n_components()) as u32
}

/// Threads per block: one block per row or per component.
pub(super) const THREADS: u32 = 128;

impl Cuda {
    fn tables(
        &self,
        params: &Params<CudaBuffer>,
        slots: MixtureSlots,
        to: u64,
        stream: StreamId,
    ) -> Result<()> {
        let launch = Launch {
            kernel: Kernel::PriorTables,
            grid: (params.restarts as u32, 1, 1),
            threads: 256,
            shared: 0,
        };
        let args = [
            params.values.address(0).into(),
            params.stride.into(),
            slots.logits.offset.into(),
            slots.log_variances.offset.into(),
            slots.n_components().into(),
            slots.n_latents().into(),
            Arg::from(to),
        ];
        self.driver.launch_on(stream, launch, &args)
    }
}

impl Prior for Cuda {
    fn prior_scratch(
        &self,
        restarts: usize,
        n_rows: usize,
        n_samples: usize,
        slots: MixtureSlots,
    ) -> Result<CudaBuffer> {
        if shared_bytes(slots) > MAX_SHARED {
            return Err(Error::TooManyComponents { components: slots.n_components() });
        }
        self.zeros(scratch_len(restarts, n_rows, n_samples, slots))
    }

    fn prior(
        &self,
        gamma: Gamma,
        params: &mut Params<CudaBuffer>,
        slots: MixtureSlots,
        head: &M,
        z: &M,
        scratch: &mut CudaBuffer,
        d_head: &mut M,
        dz: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        // The prior needs nothing of the decoder: within a recorded step both run concurrently.
        let mixture = params.gradients.address(slots.logits.offset)
            ..params.gradients.address(slots.log_variances.range().end);
        let stream = self.fork_prior([d_head.data.addresses(), dz.data.addresses(), mixture])?;
        let (r, b, n_samples) = (params.restarts, sums.n_rows, z.rows);
        let (c, j) = (slots.n_components(), slots.n_latents());
        assert!(n_samples == sums.n_samples, "sums made for batches of this size");
        assert!(scratch.len() >= scratch_len(r, b, n_samples, slots), "scratch made for this mixture");
        let tables = scratch.address(0);
        let weights = scratch.address(r * tables_len(slots));
        let weights_z = scratch.address(r * (tables_len(slots) + b * c));
        self.tables(params, slots, tables, stream)?;
        let exact = gamma == Gamma::Exact;
        let sizes = || [b, head.rows, n_samples, c, j].map(Arg::from).into_iter().chain([Arg::from(exact)]);
        let grid = |n: usize| (n as u32, r as u32, 1);
        let rows = [
            params.values.address(0),
            params.stride as u64,
            slots.means.offset as u64,
            tables,
            head.data.address(0),
            z.data.address(0),
            weights,
            weights_z,
            d_head.data.address(0),
            dz.data.address(0),
            sums.address(),
        ];
        let shared = shared_bytes(slots);
        // One warp per 32 components: idle warps would keep the chain's kernels waiting for resources.
        let threads = (c as u32).next_multiple_of(32).min(THREADS);
        let launch = Launch { kernel: Kernel::PriorRows, grid: grid(b), threads, shared };
        self.driver.launch_on(
            stream,
            launch,
            &rows.map(Arg::from).into_iter().chain(sizes()).collect::<Vec<_>>(),
        )?;
        let gradients = [
            params.values.address(0),
            params.gradients.address(0),
            params.stride as u64,
            slots.logits.offset as u64,
            slots.means.offset as u64,
            slots.log_variances.offset as u64,
            tables,
            head.data.address(0),
            z.data.address(0),
            weights,
            weights_z,
        ];
        let launch = Launch { kernel: Kernel::PriorGradients, grid: grid(c), threads: THREADS, shared: 0 };
        self.driver.launch_on(
            stream,
            launch,
            &gradients.map(Arg::from).into_iter().chain(sizes()).collect::<Vec<_>>(),
        )
    }

    fn log_joint(
        &self,
        gamma: Gamma,
        params: &Params<CudaBuffer>,
        slots: MixtureSlots,
        head: &M,
        out: &mut M,
    ) -> Result<()> {
        let tables = self.zeros(params.restarts * tables_len(slots))?;
        self.tables(params, slots, tables.address(0), StreamId::Main)?;
        let launch = Launch {
            kernel: Kernel::LogJoint,
            grid: (blocks(head.rows * slots.n_components(), THREADS), params.restarts as u32, 1),
            threads: THREADS,
            shared: 0,
        };
        let args = [
            params.values.address(0).into(),
            params.stride.into(),
            slots.means.offset.into(),
            tables.address(0).into(),
            head.data.address(0).into(),
            out.data.address(0).into(),
            head.rows.into(),
            slots.n_components().into(),
            slots.n_latents().into(),
            Arg::from(gamma == Gamma::Exact),
        ];
        self.driver.launch(launch, &args)
    }
}
