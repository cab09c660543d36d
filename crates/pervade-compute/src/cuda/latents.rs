//! Sampling of latents.

use super::driver::{Arg, Kernel, Keys, Launch};
use super::{Cuda, M, blocks};
use crate::{Draw, Latents, Result};

/// Threads per block of elementwise kernels.
const THREADS: u32 = 128;

impl Cuda {
    /// A draw as kernel arguments: keys, the clock's address, and the step relative to the clock.
    pub(super) fn draw_arguments(&self, draw: Draw<'_>) -> (Keys, u64, u64) {
        let (clock, tick) = self.clock();
        (Keys::new(draw.keys), clock, draw.step.wrapping_sub(tick.draw))
    }
}

impl Latents for Cuda {
    fn sample_latents(&self, draw: Option<Draw<'_>>, n_rows: usize, head: &M, z: &mut M) -> Result<()> {
        let noisy = draw.is_some();
        let (keys, clock, step) = draw.map_or((Keys::new(&[]), 0, 0), |draw| self.draw_arguments(draw));
        let n = z.rows * z.columns.div_ceil(4);
        let launch = Launch {
            kernel: Kernel::SampleLatents,
            grid: (blocks(n, THREADS), z.restarts as u32, 1),
            threads: THREADS,
            shared: 0,
        };
        let (from, to) = (head.data.address(0), z.data.address(0));
        let args = [Arg::of(&keys), noisy.into(), clock.into(), step.into(), from.into(), to.into()];
        let sizes = [n_rows.into(), head.rows.into(), z.rows.into(), z.columns.into()];
        self.driver.launch(launch, &args.into_iter().chain(sizes).collect::<Vec<_>>())?;
        // The prior needs only the latents, nothing of the decoder.
        if self.is_recording() { self.driver.mark_sampled() } else { Ok(()) }
    }

    fn sample_latents_backward(
        &self,
        n_rows: usize,
        head: &M,
        z: &M,
        dz: &M,
        dz_prior: Option<&M>,
        d_head: &mut M,
    ) -> Result<()> {
        self.sync_pending(&d_head.data.addresses())?;
        let launch = Launch {
            kernel: Kernel::SampleLatentsBackward,
            grid: (blocks(n_rows * z.columns, THREADS), z.restarts as u32, 1),
            threads: THREADS,
            shared: 0,
        };
        let at = |matrix: &M| matrix.data.address(0);
        let matrices = [at(head), at(z), at(dz), dz_prior.map_or(0, at), at(d_head)].map(Arg::from);
        let sizes = [n_rows, head.rows, z.rows, z.columns].map(Arg::from);
        self.driver.launch(launch, &matrices.into_iter().chain(sizes).collect::<Vec<_>>())
    }
}
