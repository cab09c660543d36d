//! A sparse symmetric matrix and its product with a block of vectors.

use rayon::prelude::*;

/// Rows per task of a product.
const TASK_ROWS: usize = 256;

/// A sparse symmetric matrix in compressed rows.
pub(crate) struct Sparse {
    /// The start of each row's entries, and the end of the last. `[n + 1]`
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Sparse {
    /// From entries in any order; duplicates are added up.
    pub(crate) fn from_entries(n: usize, mut entries: Vec<(u32, u32, f64)>) -> Self {
        // A stable sort, so that duplicates are summed in their original order.
        entries.par_sort_by_key(|&(row, column, _)| (row, column));
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::<f64>::new());
        let mut last = None;
        for (row, column, value) in entries {
            if last == Some((row, column)) {
                *values.last_mut().expect("a value was pushed") += value;
                continue;
            }
            starts.resize(row as usize + 1, columns.len());
            columns.push(column);
            values.push(value);
            last = Some((row, column));
        }
        starts.resize(n + 1, columns.len());
        Self { starts, columns, values }
    }

    /// n
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The entries of a row: columns, ascending, and values.
    pub(crate) fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let entries = self.starts[i]..self.starts[i + 1];
        entries.map(|entry| (self.columns[entry] as usize, self.values[entry]))
    }

    /// The sums of the rows. `[n]`
    pub(crate) fn row_sums(&self) -> Vec<f64> {
        (0..self.len()).map(|i| self.row(i).map(|(_, value)| value).sum()).collect()
    }

    /// An upper bound on the eigenvalues (Gershgorin).
    pub(crate) fn eigenvalue_bound(&self) -> f64 {
        (0..self.len()).map(|i| self.row(i).map(|(_, value)| value.abs()).sum()).fold(0.0, f64::max)
    }

    /// Every entry times `scales[row] * scales[column]`.
    pub(crate) fn scaled(mut self, scales: &[f64]) -> Self {
        for i in 0..self.len() {
            for entry in self.starts[i]..self.starts[i + 1] {
                self.values[entry] *= scales[i] * scales[self.columns[entry] as usize];
            }
        }
        self
    }

    /// out = a A x + b x + c out
    ///
    /// # Shapes
    /// - x, out: `[n, m]`
    pub(crate) fn multiply(&self, x: &[f64], m: usize, [a, b, c]: [f64; 3], out: &mut [f64]) {
        out.par_chunks_mut(TASK_ROWS * m).enumerate().for_each(|(task, block)| {
            let mut sum = vec![0.0; m];
            for (offset, row) in block.chunks_exact_mut(m).enumerate() {
                let i = task * TASK_ROWS + offset;
                sum.fill(0.0);
                for (column, value) in self.row(i) {
                    let other = &x[column * m..(column + 1) * m];
                    sum.iter_mut().zip(other).for_each(|(s, o)| *s += value * o);
                }
                let own = &x[i * m..(i + 1) * m];
                for j in 0..m {
                    row[j] = a * sum[j] + b * own[j] + if c == 0.0 { 0.0 } else { c * row[j] };
                }
            }
        });
    }
}
