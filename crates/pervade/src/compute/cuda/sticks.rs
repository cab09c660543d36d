//! The kernels of stick-breaking posteriors and of mixtures as posteriors.

use super::driver::{Arg, Kernel, Launch};
use super::{Cuda, CudaBuffer, CudaSums, Draw, Keys, M, PosteriorMixture, Result, StickPrior};
use crate::compute::MOST_STICKS;

/// Threads of a row's block.
const THREADS: u32 = 64;
/// The same where a warp has one component.
const COMPONENT_THREADS: u32 = 128;

impl Cuda {
    pub(super) fn break_stick(&self, draw: Option<Draw<'_>>, head: &M, weights: &mut M) -> Result<()> {
        let (b, j) = (weights.rows, weights.columns);
        check_sticks(head, b, j);
        let (keys, drawn, clock, step) = self.drawn_or_mean(draw);
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

    pub(super) fn break_stick_backward(
        &self,
        draw: Option<Draw<'_>>,
        head: &M,
        d_weights: &M,
        d_head: &mut M,
    ) -> Result<()> {
        let (b, j) = (d_weights.rows, d_weights.columns);
        check_sticks(head, b, j);
        check_sticks(d_head, b, j);
        let (keys, drawn, clock, step) = self.drawn_or_mean(draw);
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

    pub(super) fn stick_divergence(
        &self,
        prior: StickPrior,
        head: &M,
        d_head: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        let (b, j) = (head.rows, head.columns / 2);
        check_sticks(d_head, b, j);
        assert!(b <= sums.n_places, "sums made for batches of this size");
        let (dirichlet, concentration) = match prior {
            StickPrior::Falling { concentration } => (false, concentration),
            StickPrior::Dirichlet { concentration } => (true, concentration),
        };
        let args = [
            head.data.address(0).into(),
            d_head.data.address(0).into(),
            sums.at.into(),
            b.into(),
            sums.n_places.into(),
            j.into(),
            dirichlet.into(),
            concentration.into(),
        ];
        let grid = (b as u32, head.restarts as u32, 1);
        self.driver.launch(Launch { kernel: Kernel::StickPrior, grid, threads: THREADS, shared: 0 }, &args)
    }

    pub(super) fn posterior_terms(
        &self,
        spread: f32,
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
        assert!(k <= MOST_STICKS && b <= sums.n_places, "sums made for batches of this size");
        let matrices = [head, z, shares, drawn, d_head, d_shares, d_drawn].map(|m| m.data.address(0).into());
        let numbers = [sums.at.into(), b.into(), sums.n_places.into(), k.into(), j.into()];
        let args: Vec<Arg<'_>> = [spread.into()].into_iter().chain(matrices).chain(numbers).collect();
        let launch = Launch {
            kernel: Kernel::PosteriorMixture,
            grid: (b as u32, shares.restarts as u32, 1),
            threads: COMPONENT_THREADS,
            shared: (k * size_of::<f32>()) as u32,
        };
        self.driver.launch(launch, &args)
    }

    /// Keys, whether there is a draw, the clock's address, and the draw's number relative to it.
    fn drawn_or_mean(&self, draw: Option<Draw<'_>>) -> (Keys, bool, u64, u64) {
        let Some(draw) = draw else { return (Keys::new(&[]), false, 0, 0) };
        let (keys, clock, step) = self.drawn(draw);
        (keys, true, clock, step)
    }
}

fn check_sticks(head: &M, b: usize, j: usize) {
    assert!([head.rows, head.columns] == [b, 2 * j], "two numbers for each weight");
    assert!((1..=MOST_STICKS).contains(&j), "as many weights as a block has room for");
}
