//! Convolution of charges on a square grid with the kernels of t-SNE, by Fourier transforms.
//!
//! The charges are padded with zeros to twice their side, so that the circular convolution is the plain one. Lines
//! are transformed in groups of [`LANES`], and every group writes its own piece: sums have one order for any number of
//! threads.

use rayon::prelude::*;

use super::fft::{Complex, Fft, LANES, Lanes};

/// Kernels over a grid of `side` x `side` nodes, as spectra.
///
/// Both spectra have the layout `[P / LANES, P]`, P = 2 x side: column groups, rows.
pub(super) struct Convolution {
    side: usize,
    /// Of q² dx + i q² dy: both components of the force in one complex convolution.
    force: Vec<Complex>,
    /// Of q = 1 / (1 + dx² + dy²), which is real because q is even.
    potential: Vec<Lanes>,
    forward: Fft,
    inverse: Fft,
}

/// The result of a convolution.
pub(super) struct Field {
    /// The force on each node. `[side, side, 2]`
    pub(super) forces: Vec<[f32; 2]>,
    /// The sum over all pairs of nodes of charge x q x charge.
    pub(super) total: f64,
}

impl Convolution {
    /// `side` is a multiple of [`LANES`] of the form 2^a or 3 x 2^a; `spacing` is the distance between nodes.
    pub(super) fn new(side: usize, spacing: f64) -> Self {
        let padded = 2 * side;
        let (forward, inverse) = (Fft::new(padded, false), Fft::new(padded, true));
        let offset = |i: usize| (if i < side { i as f64 } else { i as f64 - padded as f64 }) * spacing;
        let spectrum = |kernel: &(dyn Fn(f64, f64) -> [f64; 2] + Sync)| {
            let value = |row: usize, column: usize| kernel(offset(column), offset(row)).map(|x| x as f32);
            let lines = row_spectra(&forward, padded, padded, value);
            let mut columns = vec![Complex::default(); padded * padded / LANES];
            let work = || vec![Complex::default(); padded];
            columns.par_chunks_mut(padded).enumerate().for_each_init(work, |scratch, (group, column)| {
                gather_transposed(&lines, padded, group, column);
                forward.run(column, scratch);
            });
            columns
        };
        let force = spectrum(&|dx, dy| {
            let q = 1.0 / (1.0 + dx * dx + dy * dy);
            [q * q * dx, q * q * dy]
        });
        let potential = spectrum(&|dx, dy| [1.0 / (1.0 + dx * dx + dy * dy), 0.0]);
        let potential = potential.into_iter().map(|value| value.re).collect();
        Self { side, force, potential, forward, inverse }
    }

    /// The force of all charges on each node.
    ///
    /// # Shapes
    /// - charges: `[side, side]`
    pub(super) fn apply(&self, charges: &[f32]) -> Field {
        let (side, padded) = (self.side, 2 * self.side);
        let lines = row_spectra(&self.forward, side, side, |row, column| [charges[row * side + column], 0.0]);
        let mut columns = vec![Complex::default(); side * padded / LANES];
        let totals: Vec<f64> = columns
            .par_chunks_mut(side)
            .enumerate()
            .map_init(
                || [vec![Complex::default(); padded], vec![Complex::default(); padded]],
                |[column, scratch], (group, kept)| self.column_group(&lines, group, column, scratch, kept),
            )
            .collect();
        let forces = self.row_forces(&columns);
        let squared = (padded * padded) as f64;
        // In the order of the groups, independent of the threads.
        Field { forces, total: totals.iter().sum::<f64>() / squared }
    }

    /// Transforms a group of columns, multiplies by the kernel, transforms back, and keeps the rows of the grid.
    /// Returns the group's part of the total, by Parseval's theorem.
    fn column_group(
        &self,
        lines: &[Complex],
        group: usize,
        column: &mut [Complex],
        scratch: &mut [Complex],
        kept: &mut [Complex],
    ) -> f64 {
        let padded = column.len();
        gather_transposed(lines, padded, group, &mut column[..self.side]);
        column[self.side..].fill(Complex::default());
        self.forward.run(column, scratch);
        let spectra = group * padded..(group + 1) * padded;
        let mut total = [0.0f64; LANES];
        for (value, potential) in column.iter().zip(&self.potential[spectra.clone()]) {
            for l in 0..LANES {
                let power = value.re[l] * value.re[l] + value.im[l] * value.im[l];
                total[l] += f64::from(power * potential[l]);
            }
        }
        column.iter_mut().zip(&self.force[spectra]).for_each(|(value, force)| *value = value.times(*force));
        self.inverse.run(column, scratch);
        kept.copy_from_slice(&column[..self.side]);
        total.iter().sum()
    }

    /// The inverse transform along rows: `columns` is `[P / LANES, side]`.
    fn row_forces(&self, columns: &[Complex]) -> Vec<[f32; 2]> {
        let (side, padded) = (self.side, 2 * self.side);
        let scale = 1.0 / (padded * padded) as f32;
        let mut forces = vec![[0.0; 2]; side * side];
        let work = || [vec![Complex::default(); padded], vec![Complex::default(); padded]];
        forces.par_chunks_mut(LANES * side).enumerate().for_each_init(
            work,
            |[line, scratch], (group, kept)| {
                gather_transposed(columns, side, group, line);
                self.inverse.run(line, scratch);
                for (l, row) in kept.chunks_exact_mut(side).enumerate() {
                    row.iter_mut()
                        .zip(&*line)
                        .for_each(|(force, v)| *force = [v.re[l] * scale, v.im[l] * scale]);
                }
            },
        );
        forces
    }
}

/// The spectra of `n_rows` rows of `n_columns` values, each padded with zeros to the transform's length P.
///
/// # Shapes
/// - result: `[n_rows / LANES, P]`, row groups
fn row_spectra(
    fft: &Fft,
    n_rows: usize,
    n_columns: usize,
    value: impl Fn(usize, usize) -> [f32; 2] + Sync,
) -> Vec<Complex> {
    let padded = fft.len();
    let mut lines = vec![Complex::default(); n_rows * padded / LANES];
    let work = || vec![Complex::default(); padded];
    lines.par_chunks_mut(padded).enumerate().for_each_init(work, |scratch, (group, line)| {
        for l in 0..LANES {
            for column in 0..n_columns {
                [line[column].re[l], line[column].im[l]] = value(group * LANES + l, column);
            }
        }
        fft.run(line, scratch);
    });
    lines
}

/// Lines of the other direction: from groups of lines of `length` values, the group `group` of crossing lines.
///
/// # Shapes
/// - lines: `[M / LANES, length]`, crossing: `[M]`
fn gather_transposed(lines: &[Complex], length: usize, group: usize, crossing: &mut [Complex]) {
    for (line, block) in lines.chunks_exact(length).zip(crossing.chunks_exact_mut(LANES)) {
        let square = &line[group * LANES..(group + 1) * LANES];
        for (l, to) in block.iter_mut().enumerate() {
            for (c, from) in square.iter().enumerate() {
                (to.re[c], to.im[c]) = (from.re[l], from.im[l]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums over all pairs of nodes.
    #[test]
    fn it_is_the_sum_over_all_nodes() {
        for (side, spacing) in [(8, 0.5), (24, 0.3)] {
            let charges: Vec<f32> =
                (0..side * side).map(|i| ((i * 7919) % 101) as f32 / 50.0 - 0.7).collect();
            let field = Convolution::new(side, spacing).apply(&charges);
            let mut total = 0.0;
            for at in 0..side * side {
                let mut force = [0.0f64; 2];
                for from in 0..side * side {
                    let along = |a: usize, b: usize| (a as f64 - b as f64) * spacing;
                    let (dx, dy) = (along(at % side, from % side), along(at / side, from / side));
                    let (q, charge) = (1.0 / (1.0 + dx * dx + dy * dy), f64::from(charges[from]));
                    force = [force[0] + charge * q * q * dx, force[1] + charge * q * q * dy];
                    total += f64::from(charges[at]) * q * charge;
                }
                for axis in 0..2 {
                    let error = (f64::from(field.forces[at][axis]) - force[axis]).abs();
                    assert!(error < 1e-4, "{side}: {error}");
                }
            }
            assert!((field.total / total - 1.0).abs() < 1e-5, "{} {total}", field.total);
        }
    }
}
