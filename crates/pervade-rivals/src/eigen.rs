//! The smallest eigenvalues and eigenvectors of a large sparse symmetric matrix.
//!
//! Paper: Zhou, Saad, Tiago and Chelikowsky, "Self-consistent-field calculations using Chebyshev-filtered
//! subspace iteration" (2006). A block of vectors is multiplied by a Chebyshev polynomial of the matrix that is
//! small on the unwanted interval [edge, upper] and grows fast below it, then orthonormalised, and rotated to the
//! eigenvectors of the matrix projected onto the block (Rayleigh-Ritz). Unlike single vectors, a block handles multiple
//! eigenvalues, which a graph with several connected components has.
//! Departures: the polynomial's degree is chosen from the distance of the wanted eigenvalues to the edge.

use pervade::seed::Key;
use pervade::{Error, Result};
use rayon::prelude::*;

use crate::small::symmetric_eigen;
use crate::sparse::Sparse;

/// The minimum number of extra vectors: the farther the edge from the wanted eigenvalues, the faster the convergence.
const MIN_GUARDS: usize = 8;
/// Each pass reduces the unwanted part of the last wanted vector by about this factor.
const GAIN: f64 = 1e3;
/// The minimum and maximum degree of the polynomial.
const DEGREES: [usize; 2] = [8, 1000];
/// Up to this many rows, a matrix that would need more than the maximum degree is solved as a dense one.
const DENSE_ROWS: usize = 500;
/// Residuals below this fraction of the upper bound on the eigenvalues are rounding errors.
const ROUNDING: f64 = 1e-14;
/// Passes after which the edge is reliable.
const EARLY_PASSES: usize = 8;
/// Rows per task of a sum; fixed, so that the order of sums does not depend on the number of threads.
const TASK_ROWS: usize = 1024;

/// The required accuracy of the eigenvectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accuracy {
    /// |A x - t x| of each wanted pair, relative to the first unwanted eigenvalue.
    pub(crate) residual: f64,
    /// The maximum number of passes.
    pub(crate) max_passes: usize,
}

impl Default for Accuracy {
    /// Accurate enough for stable clusters: an angle's error is the residual over the gap to the next eigenvalue.
    fn default() -> Self {
        Self { residual: 1e-4, max_passes: 60 }
    }
}

/// Eigenvalues, ascending, and eigenvectors as columns.
pub(crate) struct Eigen {
    /// `[k]`
    #[cfg_attr(not(test), expect(dead_code, reason = "clustering needs only the vectors; tests check both"))]
    pub(crate) values: Vec<f64>,
    /// `[n, k]`
    pub(crate) vectors: Vec<f64>,
}

/// The `wanted` smallest eigenpairs of `matrix`, whose eigenvalues are at most `upper`.
pub(crate) fn smallest(
    matrix: &Sparse,
    wanted: usize,
    upper: f64,
    key: Key,
    accuracy: Accuracy,
) -> Result<Eigen> {
    let n = matrix.len();
    let m = (wanted + MIN_GUARDS.max(wanted / 2)).min(n);
    let start = |i: usize| key.uniform(i as u64, 0, 0) - 0.5;
    let mut block = VectorBlock { x: (0..n * m).map(start).collect(), ax: vec![0.0; n * m], n, m };
    block.orthonormalise(key, 0);
    let mut values = block.rayleigh_ritz(matrix);
    // The first unwanted eigenvalue (not the block's largest, which is unreliable), and not below rounding errors.
    let scale = |values: &[f64]| values[wanted.min(m - 1)].max(ROUNDING * upper / accuracy.residual);
    let mut max_degree = 2 * DEGREES[0];
    for pass in 1..=accuracy.max_passes {
        let edge = values[m - 1];
        let worst = block.residuals(&values).into_iter().take(wanted).fold(0.0, f64::max);
        if worst <= accuracy.residual * scale(&values) || m == n {
            return Ok(block.leading(wanted, &values));
        }
        let degree = degree(values[wanted - 1], edge, upper);
        if degree == DEGREES[1] && pass > EARLY_PASSES && n <= DENSE_ROWS {
            return Ok(dense(matrix, wanted));
        }
        let degree = degree.min(max_degree);
        block.filter(matrix, degree, values[0], edge, upper);
        block.orthonormalise(key, pass as u32);
        values = block.rayleigh_ritz(matrix);
        // Early edges are far too high: high degrees only pay off later.
        max_degree = (2 * max_degree).min(DEGREES[1]);
    }
    let worst = block.residuals(&values).into_iter().take(wanted).fold(0.0, f64::max);
    if worst <= 100.0 * accuracy.residual * scale(&values) {
        return Ok(block.leading(wanted, &values));
    }
    let problem = format!("the eigenvectors of its graph were not found in {} passes", accuracy.max_passes);
    Err(Error::data("data", problem).with_hint("ask for fewer clusters, or use more neighbours"))
}

/// Solves the matrix as a dense one, for few rows.
fn dense(matrix: &Sparse, wanted: usize) -> Eigen {
    let n = matrix.len();
    let mut full = vec![0.0; n * n];
    for i in 0..n {
        matrix.row(i).for_each(|(j, value)| full[i * n + j] = value);
    }
    let (mut values, all) = symmetric_eigen(&full, n);
    values.truncate(wanted);
    let vectors = (0..n * wanted).map(|i| all[i / wanted * n + i % wanted]).collect();
    Eigen { values, vectors }
}

/// The degree at which the polynomial is `GAIN` times larger at `last` than on [edge, upper].
fn degree(last: f64, edge: f64, upper: f64) -> usize {
    let below = (2.0 * (edge - last) / (upper - edge)).max(f64::MIN_POSITIVE);
    let rate = (1.0 + below).acosh();
    ((2.0 * GAIN).ln() / rate).ceil().clamp(DEGREES[0] as f64, DEGREES[1] as f64) as usize
}

/// A block of vectors, and its product with the matrix. `[n, m]`
struct VectorBlock {
    x: Vec<f64>,
    ax: Vec<f64>,
    n: usize,
    m: usize,
}

impl VectorBlock {
    /// Replaces x by p(A) x, where p is a Chebyshev polynomial on [edge, upper], scaled to one at `lowest` to avoid
    /// overflow.
    fn filter(&mut self, matrix: &Sparse, degree: usize, lowest: f64, edge: f64, upper: f64) {
        let (half, centre) = ((upper - edge) / 2.0, f64::midpoint(upper, edge));
        let first = half / (lowest - centre);
        let mut sigma = first;
        let (m, mut y) = (self.m, vec![0.0; self.x.len()]);
        matrix.multiply(&self.x, m, [sigma / half, -centre * sigma / half, 0.0], &mut y);
        for _ in 2..=degree {
            let next = 1.0 / (2.0 / first - sigma);
            let scale = 2.0 * next / half;
            matrix.multiply(&y, m, [scale, -centre * scale, -sigma * next], &mut self.x);
            std::mem::swap(&mut self.x, &mut y);
            sigma = next;
        }
        self.x = y;
    }

    /// Gram-Schmidt, twice; a vector in the span of the earlier ones is redrawn.
    fn orthonormalise(&mut self, key: Key, pass: u32) {
        let m = self.m;
        for j in 0..m {
            for attempt in 1.. {
                let before = self.columns_dot(j)[j].sqrt();
                for _ in 0..2 {
                    let shared = self.columns_dot(j);
                    self.x.par_chunks_mut(TASK_ROWS * m).for_each(|rows| {
                        for row in rows.chunks_exact_mut(m) {
                            let sum: f64 = (0..j).map(|i| shared[i] * row[i]).sum();
                            row[j] -= sum;
                        }
                    });
                }
                let length = self.columns_dot(j)[j].sqrt();
                if length > 1e-10 * before && length.is_finite() {
                    self.x.par_chunks_exact_mut(m).for_each(|row| row[j] /= length);
                    break;
                }
                let draw = |i: usize| key.uniform((i * m + j) as u64, attempt, pass + 1) - 0.5;
                self.x.par_chunks_exact_mut(m).enumerate().for_each(|(i, row)| row[j] = draw(i));
            }
        }
    }

    /// Inner products of column j with columns 0..=j.
    fn columns_dot(&self, j: usize) -> Vec<f64> {
        let m = self.m;
        let part = |rows: &[f64]| {
            let mut sums = vec![0.0; j + 1];
            for row in rows.chunks_exact(m) {
                (0..=j).for_each(|i| sums[i] += row[i] * row[j]);
            }
            sums
        };
        add_up(self.x.par_chunks(TASK_ROWS * m).map(part).collect(), j + 1)
    }

    /// Rotates the block to the eigenvectors of Xᵀ A X; returns the eigenvalues, ascending.
    fn rayleigh_ritz(&mut self, matrix: &Sparse) -> Vec<f64> {
        let m = self.m;
        matrix.multiply(&self.x, m, [1.0, 0.0, 0.0], &mut self.ax);
        let part = |(x, ax): (&[f64], &[f64])| {
            let mut sums = vec![0.0; m * m];
            for (x, ax) in x.chunks_exact(m).zip(ax.chunks_exact(m)) {
                for i in 0..m {
                    (0..m).for_each(|j| sums[i * m + j] += x[i] * ax[j]);
                }
            }
            sums
        };
        let blocks = self.x.par_chunks(TASK_ROWS * m).zip(self.ax.par_chunks(TASK_ROWS * m));
        let projected = add_up(blocks.map(part).collect(), m * m);
        let symmetric: Vec<f64> =
            (0..m * m).map(|i| f64::midpoint(projected[i], projected[i % m * m + i / m])).collect();
        let (values, rotation) = symmetric_eigen(&symmetric, m);
        for block in [&mut self.x, &mut self.ax] {
            block.par_chunks_exact_mut(m).for_each_init(
                || vec![0.0; m],
                |rotated, row| {
                    rotated.fill(0.0);
                    for (x, rotation_row) in row.iter().zip(rotation.chunks_exact(m)) {
                        rotated.iter_mut().zip(rotation_row).for_each(|(sum, t)| *sum += x * t);
                    }
                    row.copy_from_slice(rotated);
                },
            );
        }
        values
    }

    /// |A x - t x| of each pair.
    fn residuals(&self, values: &[f64]) -> Vec<f64> {
        let m = self.m;
        let part = |(x, ax): (&[f64], &[f64])| {
            let mut sums = vec![0.0; m];
            for (x, ax) in x.chunks_exact(m).zip(ax.chunks_exact(m)) {
                (0..m).for_each(|j| sums[j] += (ax[j] - values[j] * x[j]).powi(2));
            }
            sums
        };
        let blocks = self.x.par_chunks(TASK_ROWS * m).zip(self.ax.par_chunks(TASK_ROWS * m));
        add_up(blocks.map(part).collect(), m).into_iter().map(f64::sqrt).collect()
    }

    fn leading(&self, wanted: usize, values: &[f64]) -> Eigen {
        let k = wanted.min(self.m);
        let vectors = (0..self.n * k).map(|i| self.x[i / k * self.m + i % k]).collect();
        Eigen { values: values[..k].to_vec(), vectors }
    }
}

/// The sum of the parts, in order.
fn add_up(parts: Vec<Vec<f64>>, len: usize) -> Vec<f64> {
    let mut sums = vec![0.0; len];
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    sums
}
