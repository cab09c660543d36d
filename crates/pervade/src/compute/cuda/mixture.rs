//! The mixture prior's kernels.

use super::driver::{Arg, Kernel, Lane, Launch, MOST_SHARED};
use super::{Cuda, CudaBuffer, CudaSums, Device, Gamma, M, MixtureSlots, Params, Result, blocks};
use crate::Error;

/// Tables of a restart (see `prior_tables`).
fn tables_len(slots: MixtureSlots) -> usize {
    slots.n_components() * (2 + slots.n_latents())
}

/// Tables, then d loss / d l for the rows and for their samples.
fn scratch_len(restarts: usize, n_rows: usize, n_places: usize, slots: MixtureSlots) -> usize {
    restarts * (tables_len(slots) + (n_rows + n_places) * slots.n_components())
}

/// Shared memory of a row's block: variances, and three numbers a component.
fn shared_bytes(slots: MixtureSlots) -> u32 {
    4 * (slots.n_latents() + 3 * slots.n_components()) as u32
}

/// Threads of a row's or a component's block.
const THREADS: u32 = 128;

impl Cuda {
    /// Room for [`Cuda::prior_terms`]; the place to refuse a mixture that no block can hold.
    pub(super) fn scratch(
        &self,
        restarts: usize,
        n_rows: usize,
        n_places: usize,
        slots: MixtureSlots,
    ) -> Result<CudaBuffer> {
        if shared_bytes(slots) > MOST_SHARED {
            let problem = "are more than the CUDA device's kernels have room for";
            return Err(Error::setting("components", slots.n_components(), problem)
                .with_hint("use fewer, or `--device cpu`"));
        }
        self.zeros(scratch_len(restarts, n_rows, n_places, slots))
    }

    fn tables(&self, params: &Params<CudaBuffer>, slots: MixtureSlots, to: u64, lane: Lane) -> Result<()> {
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
        self.driver.launch_on(lane, launch, &args)
    }

    pub(super) fn log_joints(
        &self,
        gamma: Gamma,
        params: &Params<CudaBuffer>,
        slots: MixtureSlots,
        head: &M,
        out: &mut M,
    ) -> Result<()> {
        let tables = self.zeros(params.restarts * tables_len(slots))?;
        self.tables(params, slots, tables.at, Lane::Main)?;
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
            tables.at.into(),
            head.data.address(0).into(),
            out.data.address(0).into(),
            head.rows.into(),
            slots.n_components().into(),
            slots.n_latents().into(),
            Arg::from(gamma == Gamma::Exact),
        ];
        self.driver.launch(launch, &args)
    }

    pub(super) fn prior_terms(
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
        lane: Lane,
    ) -> Result<()> {
        let (r, b, places) = (params.restarts, head.rows, z.rows);
        let (c, j) = (slots.n_components(), slots.n_latents());
        assert!(places == sums.n_places, "sums made for batches of this size");
        assert!(scratch.len >= scratch_len(r, b, places, slots), "scratch made for this mixture");
        let tables = scratch.address(0);
        let weights = scratch.address(r * tables_len(slots));
        let weights_z = scratch.address(r * (tables_len(slots) + b * c));
        self.tables(params, slots, tables, lane)?;
        let exact = gamma == Gamma::Exact;
        let sizes = || [b, places, c, j].map(Arg::from).into_iter().chain([Arg::from(exact)]);
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
            sums.at,
        ];
        let shared = shared_bytes(slots);
        // A warp for each 32 components: idle ones would keep the chain's kernels waiting for room.
        let threads = (c as u32).next_multiple_of(32).min(THREADS);
        let launch = Launch { kernel: Kernel::PriorRows, grid: grid(b), threads, shared };
        self.driver.launch_on(
            lane,
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
            lane,
            launch,
            &gradients.map(Arg::from).into_iter().chain(sizes()).collect::<Vec<_>>(),
        )
    }
}
