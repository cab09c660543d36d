//! Codes that are partly a choice of one of many: softmax over some columns, and columns put side by side.

use std::ops::Range;

use super::M;
use super::math::exp;

/// See [`crate::compute::Device::softmax`].
pub(super) fn softmax(n: usize, x: &mut M) {
    for row in x.data.chunks_exact_mut(x.columns) {
        let row = &mut row[..n];
        let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut().for_each(|x| *x = exp(*x - greatest));
        let total: f32 = row.iter().sum();
        row.iter_mut().for_each(|x| *x /= total);
    }
}

/// dx_m = y_m (dy_m - sum of y dy).
pub(super) fn softmax_backward(n: usize, y: &M, dy: &mut M) {
    for (y, dy) in y.data.chunks_exact(y.columns).zip(dy.data.chunks_exact_mut(dy.columns)) {
        let mean: f32 = y[..n].iter().zip(&dy[..n]).map(|(y, d)| y * d).sum();
        dy[..n].iter_mut().zip(&y[..n]).for_each(|(d, y)| *d = y * (*d - mean));
    }
}

/// See [`crate::compute::Device::copy_block`].
pub(super) fn copy_block(
    x: &M,
    rows: Range<usize>,
    columns: Range<usize>,
    y: &mut M,
    [row, column]: [usize; 2],
) {
    for restart in 0..x.restarts {
        for i in 0..rows.len() {
            let at = (restart * y.rows + row + i) * y.columns + column;
            let source = (restart * x.rows + rows.start + i) * x.columns;
            let values = &x.data[source + columns.start..source + columns.end];
            y.data[at..at + columns.len()].copy_from_slice(values);
        }
    }
}
