//! The E-step's arithmetic: a few rows at a time against all components.
//!
//! Components are the inner, contiguous index, so that every loop runs over whole vectors. Sums over
//! components use `LANES` lanes on every machine.

use std::ops::Range;

use crate::components::{Components, LANES, Moments};
use crate::math::double::exp_lanes;
use crate::wide::{VectorKernel, run_widest};

/// Rows computed together: they share the loads of a component.
const BLOCK_ROWS: usize = 8;
/// Rows whose sums are held in registers at once.
const TILE_ROWS: usize = 4;

/// A block of rows with their log joints or responsibilities.
pub struct Block {
    /// The rows of the block.
    pub rows: Range<usize>,
    n_padded: usize,
    /// Latents relative to the centre, zero below the last row. `[BLOCK_ROWS, J]`
    latents: Vec<f64>,
    /// Log joint l, or responsibilities once [`Block::softmax`] has run. `[BLOCK_ROWS, C']`
    values: Vec<f64>,
}

impl Components {
    /// Calls `visit` with the log joint of every block of `rows`, in order.
    ///
    /// # Shapes
    /// - latents: `[N, J]`
    pub fn for_each_block(&self, latents: &[f32], rows: Range<usize>, mut visit: impl FnMut(&mut Block)) {
        let mut block = Block {
            rows: 0..0,
            n_padded: self.n_padded,
            latents: vec![0.0; BLOCK_ROWS * self.n_latent],
            values: vec![0.0; BLOCK_ROWS * self.n_padded],
        };
        for first in rows.clone().step_by(BLOCK_ROWS) {
            block.rows = first..(first + BLOCK_ROWS).min(rows.end);
            block.latents.fill(0.0);
            let source = &latents[first * self.n_latent..block.rows.end * self.n_latent];
            for (row, z) in block.latents.chunks_exact_mut(self.n_latent).zip(source.chunks(self.n_latent)) {
                for j in 0..self.n_latent {
                    row[j] = f64::from(z[j]) - self.centre[j];
                }
            }
            run_widest(LogJoint { components: self, block: &mut block });
            visit(&mut block);
        }
    }
}

impl Block {
    /// The first `n_components` values of each row.
    pub fn rows_mut(&mut self, n_components: usize) -> impl Iterator<Item = &mut [f64]> {
        let n_rows = self.rows.len();
        self.values.chunks_exact_mut(self.n_padded).take(n_rows).map(move |row| &mut row[..n_components])
    }

    /// Turns the log joints into responsibilities; returns the log density of each row (the first
    /// `rows.len()` entries).
    pub fn softmax(&mut self) -> [f64; BLOCK_ROWS] {
        run_widest(Softmax { block: self })
    }
}

impl Moments {
    /// Adds a block whose values are responsibilities.
    pub fn add(&mut self, block: &Block) {
        run_widest(AddMoments { moments: self, block });
    }

    /// Adds the sums of a later chunk.
    pub fn merge(&mut self, other: &Self) {
        for (into, from) in [
            (&mut self.mass, &other.mass),
            (&mut self.first, &other.first),
            (&mut self.second, &other.second),
        ] {
            into.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        }
    }
}

/// l_m = constant_m - 1/2 sum_j (z_j - mu_mj)^2 / s2_mj, for a block.
struct LogJoint<'a> {
    components: &'a Components,
    block: &'a mut Block,
}

impl VectorKernel for LogJoint<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (components, block) = (self.components, self.block);
        let (n_padded, n_latent) = (components.n_padded, components.n_latent);
        for m in (0..n_padded).step_by(LANES) {
            for tile in (0..BLOCK_ROWS).step_by(TILE_ROWS) {
                let mut square = [[0.0; LANES]; TILE_ROWS];
                for j in 0..n_latent {
                    let mean = lanes(&components.means, j * n_padded + m);
                    let inverse = lanes(&components.inverse_variances, j * n_padded + m);
                    for row in 0..TILE_ROWS {
                        let z = block.latents[(tile + row) * n_latent + j];
                        for lane in 0..LANES {
                            let difference = z - mean[lane];
                            square[row][lane] += difference * difference * inverse[lane];
                        }
                    }
                }
                let constant = lanes(&components.log_constants, m);
                for row in 0..TILE_ROWS {
                    let out = lanes_mut(&mut block.values, (tile + row) * n_padded + m);
                    for lane in 0..LANES {
                        out[lane] = constant[lane] - 0.5 * square[row][lane];
                    }
                }
            }
        }
    }
}

/// Softmax of each row, in place; returns the log-sum-exp.
struct Softmax<'a> {
    block: &'a mut Block,
}

impl VectorKernel for Softmax<'_> {
    type Output = [f64; BLOCK_ROWS];

    #[inline(always)]
    fn run(self) -> [f64; BLOCK_ROWS] {
        let n_padded = self.block.n_padded;
        let mut log_sums = [0.0; BLOCK_ROWS];
        for row in 0..self.block.rows.len() {
            let values = &mut self.block.values[row * n_padded..(row + 1) * n_padded];
            let mut highest = [f64::NEG_INFINITY; LANES];
            for m in (0..n_padded).step_by(LANES) {
                let value = lanes(values, m);
                for lane in 0..LANES {
                    highest[lane] = if value[lane] > highest[lane] { value[lane] } else { highest[lane] };
                }
            }
            let highest = highest.into_iter().fold(f64::NEG_INFINITY, f64::max);
            let mut sums = [0.0; LANES];
            for m in (0..n_padded).step_by(LANES) {
                let value = lanes_mut(values, m);
                for lane in 0..LANES {
                    value[lane] = exp_lanes(value[lane] - highest);
                    sums[lane] += value[lane];
                }
            }
            let sum: f64 = sums.into_iter().sum();
            let scale = 1.0 / sum;
            for value in values {
                *value *= scale;
            }
            log_sums[row] = highest + sum.ln();
        }
        log_sums
    }
}

struct AddMoments<'a> {
    moments: &'a mut Moments,
    block: &'a Block,
}

impl VectorKernel for AddMoments<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (moments, block) = (self.moments, self.block);
        let (n_padded, n_rows) = (block.n_padded, block.rows.len());
        let n_latent = moments.first.len() / n_padded;
        for m in (0..n_padded).step_by(LANES) {
            let mass = lanes_mut(&mut moments.mass, m);
            for row in 0..n_rows {
                let gamma = lanes(&block.values, row * n_padded + m);
                for lane in 0..LANES {
                    mass[lane] += gamma[lane];
                }
            }
            for j in 0..n_latent {
                let first_out = lanes_mut(&mut moments.first, j * n_padded + m);
                let second_out = lanes_mut(&mut moments.second, j * n_padded + m);
                let (mut first, mut second) = (*first_out, *second_out);
                for row in 0..n_rows {
                    let gamma = lanes(&block.values, row * n_padded + m);
                    let z = block.latents[row * n_latent + j];
                    for lane in 0..LANES {
                        let weighted = gamma[lane] * z;
                        first[lane] += weighted;
                        second[lane] += weighted * z;
                    }
                }
                (*first_out, *second_out) = (first, second);
            }
        }
    }
}

/// The index of the largest value; ties go to the first.
pub fn argmax(values: &[f64]) -> usize {
    let mut best = 0;
    for i in 1..values.len() {
        if values[i] > values[best] {
            best = i;
        }
    }
    best
}

#[inline(always)]
fn lanes(values: &[f64], start: usize) -> &[f64; LANES] {
    values[start..start + LANES].try_into().expect("a slice of LANES")
}

#[inline(always)]
fn lanes_mut(values: &mut [f64], start: usize) -> &mut [f64; LANES] {
    (&mut values[start..start + LANES]).try_into().expect("a slice of LANES")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wide::{Width, run_at, supported_widths};

    #[test]
    fn every_vector_width_gives_the_same_bits() {
        let (n_components, n_latent) = (13, 3);
        let wave = |i: usize| (i as f64 * 0.7).sin() * 3.0;
        let means: Vec<f64> = (0..n_components * n_latent).map(wave).collect();
        let components =
            Components::new(&vec![-1.0; n_components], &means, |i| 1.0 + wave(i).abs(), &[0.1, 0.2, 0.3]);
        let latents: Vec<f32> = (0..21 * n_latent).map(|i| wave(i * 5 + 1) as f32).collect();
        let at = |width: Width| {
            let mut moments = components.zero_moments();
            let mut bits = Vec::new();
            components.for_each_block(&latents, 0..21, |block| {
                block.values.fill(0.0);
                run_at(width, LogJoint { components: &components, block });
                bits.extend(block.values.iter().map(|value| value.to_bits()));
                bits.extend(run_at(width, Softmax { block }).map(f64::to_bits));
                bits.extend(block.values.iter().map(|value| value.to_bits()));
                run_at(width, AddMoments { moments: &mut moments, block });
            });
            let sums = moments.mass.iter().chain(&moments.first).chain(&moments.second);
            bits.extend(sums.map(|value| value.to_bits()));
            bits
        };
        for width in supported_widths() {
            assert_eq!(at(width), at(Width::Portable), "{width:?}");
        }
    }
}
