//! Codes that are partly a choice of one of many: softmax over some columns, and columns put side by side.

use std::ops::Range;

use super::driver::{Arg, Kernel, Launch};
use super::{Cuda, M, Result, blocks};

/// Threads of a block where each works for itself.
const THREADS: u32 = 128;

impl Cuda {
    pub(super) fn softmax_rows(&self, n: usize, x: &mut M) -> Result<()> {
        assert!(n <= x.columns, "a softmax over columns that are there");
        let rows = x.restarts * x.rows;
        let args = [Arg::from(x.data.address(0)), rows.into(), x.columns.into(), n.into()];
        self.driver.launch(one_each(Kernel::Softmax, rows), &args)
    }

    pub(super) fn softmax_rows_backward(&self, n: usize, y: &M, dy: &mut M) -> Result<()> {
        assert!(y.columns == dy.columns && n <= y.columns, "a gradient for each column");
        let rows = y.restarts * y.rows;
        let addresses = [y.data.address(0), dy.data.address(0)].map(Arg::from);
        let sizes = [rows, y.columns, n].map(Arg::from);
        let args: Vec<Arg<'_>> = addresses.into_iter().chain(sizes).collect();
        self.driver.launch(one_each(Kernel::SoftmaxBackward, rows), &args)
    }

    pub(super) fn copy_part(
        &self,
        x: &M,
        rows: Range<usize>,
        columns: Range<usize>,
        y: &mut M,
        [row, column]: [usize; 2],
    ) -> Result<()> {
        assert!(columns.end <= x.columns && column + columns.len() <= y.columns, "columns that are there");
        assert!(rows.end <= x.rows && row + rows.len() <= y.rows, "rows that are there");
        assert!(x.restarts == y.restarts, "as many restarts");
        let addresses = [x.data.address(0), y.data.address(0)].map(Arg::from);
        let all = x.restarts * rows.len();
        let from = [x.rows, x.columns, rows.start, columns.start];
        let sizes = [all, rows.len(), columns.len()].into_iter().chain(from);
        let to = [y.rows, y.columns, row, column];
        let launch = one_each(Kernel::CopyBlock, all * columns.len());
        let args: Vec<Arg<'_>> = addresses.into_iter().chain(sizes.chain(to).map(Arg::from)).collect();
        self.driver.launch(launch, &args)
    }
}

/// A thread for each of `n`.
fn one_each(kernel: Kernel, n: usize) -> Launch {
    Launch { kernel, grid: (blocks(n, THREADS), 1, 1), threads: THREADS, shared: 0 }
}
