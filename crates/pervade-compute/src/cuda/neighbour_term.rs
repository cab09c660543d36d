//! The neighbour term's kernels.

use super::driver::{Arg, Kernel, Launch, MAX_SHARED};
use super::prior::{THREADS, tables_len};
use super::{Cuda, CudaBuffer, CudaSums, M};
use crate::{Error, MixtureSlots, NeighbourAgreement, NeighbourTerm, Params, Result};

impl NeighbourAgreement for Cuda {
    fn neighbour_term(
        &self,
        term: NeighbourTerm<'_, CudaBuffer>,
        params: &mut Params<CudaBuffer>,
        slots: MixtureSlots,
        head: &M,
        scratch: &mut CudaBuffer,
        d_head: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        // On the prior's stream, whose tables and gradients it continues from.
        let stream = self.prior_stream();
        let (r, b, c, j) = (params.restarts, sums.n_rows, slots.n_components(), slots.n_latents());
        assert!(head.rows >= 2 * b, "a neighbour for each row");
        let shared = 4 * (2 * c + 2 * term.n_clusters) as u32;
        if shared > MAX_SHARED {
            return Err(Error::TooManyComponents { components: c });
        }
        let tables = scratch.address(0);
        let weights = scratch.address(r * tables_len(slots));
        let grid = |n: usize| (n as u32, r as u32, 1);
        let mixture = [params.values.address(0), params.stride as u64, slots.means.offset as u64, tables];
        let of_rows =
            [term.groups.address(0), head.data.address(0), weights, d_head.data.address(0), sums.address()];
        let sizes = [b, head.rows, sums.n_samples, c, j, term.n_clusters].map(Arg::from);
        let args =
            mixture.into_iter().chain(of_rows).map(Arg::from).chain(sizes).chain([Arg::from(term.weight)]);
        let threads = (c as u32).next_multiple_of(32).min(THREADS);
        let launch = Launch { kernel: Kernel::NeighbourRows, grid: grid(b), threads, shared };
        self.driver.launch_on(stream, launch, &args.collect::<Vec<_>>())?;
        let gradients = [
            params.values.address(0),
            params.gradients.address(0),
            params.stride as u64,
            slots.logits.offset as u64,
            slots.means.offset as u64,
            slots.log_variances.offset as u64,
            tables,
            head.data.address(0),
            weights,
        ];
        let sizes = [b, head.rows, c, j].map(Arg::from);
        let launch =
            Launch { kernel: Kernel::NeighbourGradients, grid: grid(c), threads: THREADS, shared: 0 };
        self.driver.launch_on(
            stream,
            launch,
            &gradients.map(Arg::from).into_iter().chain(sizes).collect::<Vec<_>>(),
        )
    }
}
