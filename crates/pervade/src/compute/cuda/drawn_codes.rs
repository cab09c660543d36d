//! Codes that are drawn and found again.

use super::driver::{Arg, Kernel, Launch};
use super::{Cuda, CudaSums, Draw, M, Result, blocks};

/// Threads of a block where each works for itself.
const THREADS: u32 = 128;

impl Cuda {
    pub(super) fn draw_code_rows(&self, draw: Draw<'_>, n_choices: usize, z: &mut M) -> Result<()> {
        assert!(n_choices <= z.columns, "a choice among columns that are there");
        let (keys, clock, step) = self.drawn(draw);
        let launch = Launch {
            kernel: Kernel::DrawCodes,
            grid: (blocks(z.stride(), THREADS), z.restarts as u32, 1),
            threads: THREADS,
            shared: 0,
        };
        let args = [Arg::of(&keys), clock.into(), step.into(), z.data.address(0).into()];
        let sizes = [z.rows, z.columns, n_choices].map(Arg::from);
        self.driver.launch(launch, &args.into_iter().chain(sizes).collect::<Vec<_>>())
    }

    pub(super) fn code_log_likelihood(
        &self,
        (n_choices, n_numbers): (usize, usize),
        weight: f32,
        codes: &M,
        output: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        assert!(
            codes.rows <= output.rows && n_choices + n_numbers <= codes.columns,
            "codes for these outputs"
        );
        let width = output.columns - n_choices;
        assert!(width == n_numbers || width == 2 * n_numbers, "means, and log variances or none");
        assert!(output.rows == sums.n_places, "sums made for batches of this size");
        let launch = Launch {
            kernel: Kernel::CodeLikelihood,
            grid: (blocks(output.rows, THREADS), output.restarts as u32, 1),
            threads: THREADS,
            shared: 0,
        };
        let addresses = [codes.data.address(0), output.data.address(0), sums.at].map(Arg::from);
        let sizes =
            [codes.rows, output.rows, codes.columns, output.columns, n_choices, n_numbers].map(Arg::from);
        let scale = Arg::from(weight / output.rows as f32);
        self.driver.launch(launch, &addresses.into_iter().chain(sizes).chain([scale]).collect::<Vec<_>>())
    }
}
