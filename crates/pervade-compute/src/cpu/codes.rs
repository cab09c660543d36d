//! Latent codes with a categorical part and a continuous part (InfoGAN; Chen et al., 2016).

use std::ops::Range;

use rayon::prelude::*;

use super::likelihood::LN_TAU;
use super::team::TeamForEach;
use super::{Cpu, CpuSums, M};
use crate::math::{exp, ln};
use crate::{Codes, DECODER_LOG_VARIANCE_LIMIT, Draw, Result};

/// The random counter of a row's category: larger than that of any continuous column.
const CHOICE: u32 = u32::MAX;

impl Codes for Cpu {
    fn softmax(&self, n: usize, x: &mut M) -> Result<()> {
        for row in x.data.chunks_exact_mut(x.columns) {
            let row = &mut row[..n];
            let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            row.iter_mut().for_each(|x| *x = exp(*x - greatest));
            let total: f32 = row.iter().sum();
            row.iter_mut().for_each(|x| *x /= total);
        }
        Ok(())
    }

    fn softmax_backward(&self, n: usize, y: &M, dy: &mut M) -> Result<()> {
        for (y, dy) in y.data.chunks_exact(y.columns).zip(dy.data.chunks_exact_mut(dy.columns)) {
            let mean: f32 = y[..n].iter().zip(&dy[..n]).map(|(y, d)| y * d).sum();
            dy[..n].iter_mut().zip(&y[..n]).for_each(|(d, y)| *d = y * (*d - mean));
        }
        Ok(())
    }

    fn copy_block(
        &self,
        x: &M,
        rows: Range<usize>,
        columns: Range<usize>,
        y: &mut M,
        [row, column]: [usize; 2],
    ) -> Result<()> {
        for restart in 0..x.restarts {
            for i in 0..rows.len() {
                let at = (restart * y.rows + row + i) * y.columns + column;
                let source = (restart * x.rows + rows.start + i) * x.columns;
                let values = &x.data[source + columns.start..source + columns.end];
                y.data[at..at + columns.len()].copy_from_slice(values);
            }
        }
        Ok(())
    }

    fn draw_codes(&self, draw: Draw<'_>, n_choices: usize, z: &mut M) -> Result<()> {
        let (rows, columns) = (z.rows, z.columns);
        z.data.par_chunks_mut(columns).with_min_len(16).enumerate().team_for_each(|(index, z)| {
            let (key, row) = (draw.keys[index / rows], (index % rows) as u32);
            let (choices, continuous) = z.split_at_mut(n_choices);
            let choice = (u64::from(key.draw(draw.step, row, CHOICE)[0]) * n_choices as u64) >> 32;
            choices.iter_mut().enumerate().for_each(|(m, x)| *x = f32::from(u8::from(m as u64 == choice)));
            for (quad, four) in continuous.chunks_mut(4).enumerate() {
                let words = key.draw(draw.step, row, quad as u32);
                // Multiples of 2^-23: exact.
                four.iter_mut()
                    .zip(words)
                    .for_each(|(x, w)| *x = (w >> 8) as f32 * (1.0 / 8_388_608.0) - 1.0);
            }
        });
        Ok(())
    }

    fn code_likelihood(
        &self,
        (n_choices, n_continuous): (usize, usize),
        weight: f32,
        codes: &M,
        output: &mut M,
        sums: &mut CpuSums,
    ) -> Result<()> {
        let (b, n_rows, width, columns) = (codes.rows, output.rows, output.columns, codes.columns);
        assert!(b <= n_rows && n_choices + n_continuous <= columns, "codes for these outputs");
        let head = width - n_choices;
        assert!(head == n_continuous || head == 2 * n_continuous, "means, and log variances or none");
        let scale = weight / n_rows as f32;
        let per_row = sums.rows(output.restarts * n_rows);
        output
            .data
            .par_chunks_mut(width)
            .zip(per_row.par_iter_mut())
            .with_min_len(16)
            .enumerate()
            .team_for_each(|(index, (out, row_sums))| {
                let (restart, row) = (index / n_rows, index % n_rows);
                if row >= b {
                    out.fill(0.0);
                    *row_sums = [0.0; 3];
                    return;
                }
                let code = &codes.data[(restart * b + row) * columns..][..n_choices + n_continuous];
                let (choice, continuous) = code.split_at(n_choices);
                let (logits, head) = out.split_at_mut(n_choices);
                let categorical = categorical_likelihood(scale, choice, logits);
                *row_sums =
                    [f64::from(categorical), f64::from(gaussian_likelihood(scale, continuous, head)), 0.0];
            });
        for (restart, total) in sums.totals.iter_mut().enumerate() {
            let rows = &sums.per_row[restart * n_rows..(restart + 1) * n_rows];
            total.cluster += rows.iter().map(|r| r[0]).sum::<f64>();
            total.latent += rows.iter().map(|r| r[1]).sum::<f64>();
        }
        Ok(())
    }
}

/// The log softmax at the choice; the logits become the gradient, softmax - choice.
fn categorical_likelihood(scale: f32, choice: &[f32], logits: &mut [f32]) -> f32 {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f32 = logits.iter().map(|&o| exp(o - greatest)).sum();
    let (log_total, mut log_density) = (greatest + ln(total), 0.0);
    for (o, &c) in logits.iter_mut().zip(choice) {
        log_density = c.mul_add(*o - log_total, log_density);
        *o = scale * (exp(*o - greatest) / total - c);
    }
    log_density
}

/// -1/2 (ln 2 pi + l + (c - m)^2 e^-l), where l is the second half of the head if it has one, else zero.
fn gaussian_likelihood(scale: f32, codes: &[f32], head: &mut [f32]) -> f32 {
    const LIMIT: f32 = DECODER_LOG_VARIANCE_LIMIT;
    let (means, log_variances) = head.split_at_mut(codes.len());
    let mut log_density = 0.0;
    for (i, (&c, m)) in codes.iter().zip(means).enumerate() {
        let l = log_variances.get(i).map_or(0.0, |l| l.clamp(-LIMIT, LIMIT));
        let error = *m - c;
        let weighted = error * exp(-l);
        log_density -= 0.5 * (LN_TAU + l + error * weighted);
        *m = scale * weighted;
        if let Some(raw) = log_variances.get_mut(i) {
            *raw = if raw.abs() < LIMIT { 0.5 * scale * (1.0 - error * weighted) } else { 0.0 };
        }
    }
    log_density
}

#[cfg(test)]
mod tests {
    use crate::random::Key;
    use crate::{Codes as _, Cpu, Draw, Matrix};

    /// One of the choices each, all about as often; numbers evenly distributed, and different in every row and step.
    #[test]
    fn codes_are_drawn_evenly() {
        let (b, k, columns) = (3000, 5, 9);
        let keys = [Key::new(11, 6u32, 0)];
        let drawn = |step: u64| {
            let mut z = Matrix::zeros(&Cpu::new(), 1, b, columns).unwrap();
            Cpu::new().draw_codes(Draw { keys: &keys, step }, k, &mut z).unwrap();
            z.data
        };
        let (z, later) = (drawn(0), drawn(1));
        assert!(z.chunks(columns).all(|row| row[..k].iter().sum::<f32>() == 1.0));
        for choice in 0..k {
            let count = z.chunks(columns).filter(|row| row[choice] == 1.0).count() as f64;
            // Five standard deviations of a binomial.
            assert!((count - 600.0).abs() < 5.0 * (600.0 * 0.8f64).sqrt(), "{count} of 3000 chose {choice}");
        }
        let numbers: Vec<f64> =
            z.chunks(columns).flat_map(|row| row[k..].iter().map(|&x| f64::from(x))).collect();
        let n = numbers.len() as f64;
        let (mean, square) =
            (numbers.iter().sum::<f64>() / n, numbers.iter().map(|x| x * x).sum::<f64>() / n);
        assert!(
            mean.abs() < 5.0 * (1.0 / 3.0 / n).sqrt()
                && (square - 1.0 / 3.0).abs() < 5.0 * (4.0 / 45.0 / n).sqrt()
        );
        assert!(numbers.iter().all(|x| (-1.0..1.0).contains(x)));
        let same = z.iter().zip(&later).enumerate().filter(|(i, (a, b))| i % columns >= k && a == b).count();
        assert!(same < 5, "{same} numbers are the same in two steps");
    }
}
