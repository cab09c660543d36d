//! Sums of each column over the rows of each cluster.

use std::ops::Range;

use rayon::prelude::*;

use crate::data::{Dataset, Values};

/// Columns that are read together: a few cache lines per row.
pub(super) const COLUMN_BLOCK: usize = 64;

/// What is summed over the rows of one cluster in one column.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    /// Missing cells.
    pub(super) missing: usize,
    /// Cells above zero.
    pub(super) above: usize,
    /// Cells below zero.
    pub(super) below: usize,
    pub(super) sum: f64,
    pub(super) squares: f64,
}

impl Moments {
    fn add(&mut self, x: f64) {
        if x.is_nan() {
            self.missing += 1;
            return;
        }
        self.above += usize::from(x > 0.0);
        self.below += usize::from(x < 0.0);
        self.sum += x;
        self.squares += x * x;
    }

    pub(super) fn join(mut self, other: &Self) -> Self {
        self.missing += other.missing;
        self.above += other.above;
        self.below += other.below;
        self.sum += other.sum;
        self.squares += other.squares;
        self
    }
}

/// The moments of each column and cluster, `[D, K]`; rows with cluster K or more are left out. Each is summed in the order of the rows, so that the number of
/// threads does not change it.
pub(super) fn moments(data: &Dataset, clusters: &[u32], k: usize) -> Vec<Moments> {
    let blocks: Vec<Range<usize>> = column_blocks(data.n_columns());
    let of_block = |block: Range<usize>| {
        let mut sums = vec![Moments::default(); block.len() * k];
        let in_a_cluster = clusters.iter().enumerate().filter(|&(_, &cluster)| (cluster as usize) < k);
        for (row, &cluster) in in_a_cluster {
            for_each_cell(data, row, &block, |j, x| {
                sums[(j - block.start) * k + cluster as usize].add(x);
            });
        }
        sums
    };
    blocks.into_par_iter().flat_map_iter(of_block).collect()
}

pub(super) fn column_blocks(n_columns: usize) -> Vec<Range<usize>> {
    let starts = (0..n_columns).step_by(COLUMN_BLOCK);
    starts.map(|start| start..(start + COLUMN_BLOCK).min(n_columns)).collect()
}

/// Visits the cells of a row in some columns; of a sparse row the stored ones only, as the others are zero.
pub(super) fn for_each_cell(
    data: &Dataset,
    row: usize,
    block: &Range<usize>,
    mut visit: impl FnMut(usize, f64),
) {
    let Values::Csr(csr) = data.values() else {
        return block.clone().for_each(|j| visit(j, data.cell(row, j)));
    };
    let (columns, values) = csr.row(row);
    let first = columns.partition_point(|&j| (j as usize) < block.start);
    let entries = columns[first..].iter().zip(&values[first..]);
    entries
        .take_while(|(j, _)| (**j as usize) < block.end)
        .for_each(|(&j, &x)| visit(j as usize, f64::from(x)));
}
