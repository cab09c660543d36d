//! Stick-breaking posteriors.

use super::driver::{Arg, Kernel, Keys, Launch};
use super::{Cuda, CudaSums, M};
use crate::{Draw, MAX_STICKS, Result, StickBreaking, StickPrior};

/// Threads per block: one block per row.
const THREADS: u32 = 64;

impl Cuda {
    /// An optional draw as kernel arguments: keys, whether there is a draw, the clock's address, and the step relative to
    /// the clock.
    fn optional_draw_arguments(&self, draw: Option<Draw<'_>>) -> (Keys, bool, u64, u64) {
        let Some(draw) = draw else { return (Keys::new(&[]), false, 0, 0) };
        let (keys, clock, step) = self.draw_arguments(draw);
        (keys, true, clock, step)
    }
}

impl StickBreaking for Cuda {
    fn stick_breaking(&self, draw: Option<Draw<'_>>, head: &M, weights: &mut M) -> Result<()> {
        let (b, j) = (weights.rows, weights.columns);
        check_sticks(head, b, j);
        let (keys, drawn, clock, step) = self.optional_draw_arguments(draw);
        let args = [
            Arg::of(&keys),
            drawn.into(),
            clock.into(),
            step.into(),
            head.data.address(0).into(),
            weights.data.address(0).into(),
            b.into(),
            j.into(),
        ];
        let shared = (j * size_of::<f64>()) as u32;
        let grid = (b as u32, head.restarts as u32, 1);
        self.driver.launch(Launch { kernel: Kernel::StickBreaking, grid, threads: THREADS, shared }, &args)
    }

    fn stick_breaking_backward(
        &self,
        draw: Option<Draw<'_>>,
        head: &M,
        d_weights: &M,
        d_head: &mut M,
    ) -> Result<()> {
        let (b, j) = (d_weights.rows, d_weights.columns);
        check_sticks(head, b, j);
        check_sticks(d_head, b, j);
        let (keys, drawn, clock, step) = self.optional_draw_arguments(draw);
        let args = [
            Arg::of(&keys),
            drawn.into(),
            clock.into(),
            step.into(),
            head.data.address(0).into(),
            d_weights.data.address(0).into(),
            d_head.data.address(0).into(),
            b.into(),
            j.into(),
        ];
        let shared = (4 * j * size_of::<f64>()) as u32;
        let grid = (b as u32, head.restarts as u32, 1);
        let launch = Launch { kernel: Kernel::StickBreakingBackward, grid, threads: THREADS, shared };
        self.driver.launch(launch, &args)
    }

    fn stick_prior(&self, prior: StickPrior, head: &M, d_head: &mut M, sums: &mut CudaSums) -> Result<()> {
        let (b, j) = (head.rows, head.columns / 2);
        check_sticks(d_head, b, j);
        assert!(b <= sums.n_samples, "sums made for batches of this size");
        let (dirichlet, concentration) = match prior {
            StickPrior::Falling { concentration } => (false, concentration),
            StickPrior::Dirichlet { concentration } => (true, concentration),
        };
        let args = [
            head.data.address(0).into(),
            d_head.data.address(0).into(),
            sums.address().into(),
            b.into(),
            sums.n_samples.into(),
            j.into(),
            dirichlet.into(),
            concentration.into(),
        ];
        let grid = (b as u32, head.restarts as u32, 1);
        self.driver.launch(Launch { kernel: Kernel::StickPrior, grid, threads: THREADS, shared: 0 }, &args)
    }
}

fn check_sticks(head: &M, b: usize, j: usize) {
    assert!([head.rows, head.columns] == [b, 2 * j], "two parameters for each weight");
    assert!((1..=MAX_STICKS).contains(&j), "a supported number of weights");
}
