//! Latent codes with a categorical part and a continuous part.

use std::ops::Range;

use super::driver::{Arg, Kernel, Launch};
use super::{Cuda, CudaSums, M, blocks, elementwise};
use crate::{Codes, Draw, Result};

/// Threads per block.
const THREADS: u32 = 128;

impl Codes for Cuda {
    fn softmax(&self, n: usize, x: &mut M) -> Result<()> {
        assert!(n <= x.columns, "a softmax over existing columns");
        let rows = x.restarts * x.rows;
        let args = [Arg::from(x.data.address(0)), rows.into(), x.columns.into(), n.into()];
        self.driver.launch(elementwise(Kernel::Softmax, rows), &args)
    }

    fn softmax_backward(&self, n: usize, y: &M, dy: &mut M) -> Result<()> {
        assert!(y.columns == dy.columns && n <= y.columns, "a gradient for each column");
        let rows = y.restarts * y.rows;
        let addresses = [y.data.address(0), dy.data.address(0)].map(Arg::from);
        let sizes = [rows, y.columns, n].map(Arg::from);
        let args: Vec<Arg<'_>> = addresses.into_iter().chain(sizes).collect();
        self.driver.launch(elementwise(Kernel::SoftmaxBackward, rows), &args)
    }

    fn copy_block(
        &self,
        x: &M,
        rows: Range<usize>,
        columns: Range<usize>,
        y: &mut M,
        [row, column]: [usize; 2],
    ) -> Result<()> {
        assert!(columns.end <= x.columns && column + columns.len() <= y.columns, "existing columns");
        assert!(rows.end <= x.rows && row + rows.len() <= y.rows, "existing rows");
        assert!(x.restarts == y.restarts, "the same number of restarts");
        let addresses = [x.data.address(0), y.data.address(0)].map(Arg::from);
        let all = x.restarts * rows.len();
        let from = [x.rows, x.columns, rows.start, columns.start];
        let sizes = [all, rows.len(), columns.len()].into_iter().chain(from);
        let to = [y.rows, y.columns, row, column];
        let launch = elementwise(Kernel::CopyBlock, all * columns.len());
        let args: Vec<Arg<'_>> = addresses.into_iter().chain(sizes.chain(to).map(Arg::from)).collect();
        self.driver.launch(launch, &args)
    }

    fn draw_codes(&self, draw: Draw<'_>, n_choices: usize, z: &mut M) -> Result<()> {
        assert!(n_choices <= z.columns, "a choice among existing columns");
        let (keys, clock, step) = self.draw_arguments(draw);
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

    fn code_likelihood(
        &self,
        (n_choices, n_continuous): (usize, usize),
        weight: f32,
        codes: &M,
        output: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        assert!(
            codes.rows <= output.rows && n_choices + n_continuous <= codes.columns,
            "codes for these outputs"
        );
        let width = output.columns - n_choices;
        assert!(width == n_continuous || width == 2 * n_continuous, "means, and log variances or none");
        assert!(output.rows == sums.n_samples, "sums made for batches of this size");
        let launch = Launch {
            kernel: Kernel::CodeLikelihood,
            grid: (blocks(output.rows, THREADS), output.restarts as u32, 1),
            threads: THREADS,
            shared: 0,
        };
        let addresses = [codes.data.address(0), output.data.address(0), sums.address()].map(Arg::from);
        let sizes =
            [codes.rows, output.rows, codes.columns, output.columns, n_choices, n_continuous].map(Arg::from);
        let scale = Arg::from(weight / output.rows as f32);
        self.driver.launch(launch, &addresses.into_iter().chain(sizes).chain([scale]).collect::<Vec<_>>())
    }
}
