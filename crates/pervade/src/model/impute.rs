//! Filling the gaps of rows.
//!
//! The distribution of a missing cell given the observed ones is the mean of p(x_j|z) over z given those: samples of q(z|x) with
//! importance weights, in which only observed cells count (Mattei and Frellsen, "MIWAE", 2019).

use rayon::prelude::*;

use super::importance::{EncodedRows, Sample};
use super::{Cells, Vade};
use crate::compute::{ColumnFamily, Device, Gamma, TypedColumn};
use crate::data::Dataset;
use crate::infer::Observed;
use crate::seed::{Key, Stream};
use crate::{Error, Hint, Result};

impl Vade {
    /// The cells of the rows, [N, D], with missing ones filled in: their mean given the observed cells (of a category the most
    /// likely level) or, with [`Cells::Draw`], a sample of their distribution, which depends on the row's number in the table: the
    /// parts of a table that [`Dataset::slice`] makes give the same samples as the whole. Observed cells are returned as they are.
    pub fn impute<D: Device>(&self, device: &D, data: &Dataset, cells: Cells, seed: u64) -> Result<Vec<f64>> {
        let (d, n) = (self.n_columns(), data.n_rows());
        self.require_memory(device, "filling the gaps", n, self.n_latents() + 6 * d, true)?;
        let data = &*self.matched(data)?;
        let mut filled = data.cells();
        if !filled.iter().any(|cell| cell.is_nan()) {
            return Ok(filled);
        }
        if self.metadata.preparation.columns().is_empty() {
            let problem = "cells are missing, but the model's columns have no types";
            let hint = Hint::new("fit the table with its gaps, without ").setting("prepare");
            return Err(Error::data(data.source(), problem).with_hint(hint));
        }
        self.check_magnitude(data, true)?;
        let key = (cells == Cells::Draw).then(|| Key::new(seed, Stream::GenerateCells, 0));
        self.for_each_block(device, data, Gamma::Sampled, |pass| {
            let has_gaps = |row: &usize| filled[row * d..][..d].iter().any(|cell| cell.is_nan());
            let n_block = pass.heads.len() / (2 * self.n_latents());
            let gaps: Vec<usize> = (pass.first..pass.first + n_block).filter(has_gaps).collect();
            let rows = self.encoded_rows(data, &pass, |row| gaps.binary_search(&row).is_ok());
            let numbers: Vec<u64> = gaps.iter().map(|&row| data.row_number(row) as u64 - 1).collect();
            let found = self.missing_cells(device, &rows, &numbers, key)?;
            for (row, cells) in gaps.into_iter().zip(found) {
                cells.into_iter().for_each(|(j, value)| filled[row * d + j] = value);
            }
            Ok(())
        })?;
        Ok(filled)
    }

    /// The missing cells of some rows: column and value of each. `numbers` are the rows' in the table, from zero.
    fn missing_cells<D: Device>(
        &self,
        device: &D,
        rows: &EncodedRows,
        numbers: &[u64],
        key: Option<Key>,
    ) -> Result<Vec<Vec<(usize, f64)>>> {
        let (d, observed) = (self.n_columns(), self.observed());
        let columns = self.metadata.preparation.columns();
        let new =
            |cells: &[f32]| Posterior::new((0..d).filter(|&j| !columns[j].is_observed(cells[j])).collect());
        let mut posteriors: Vec<Posterior> = rows.cells.chunks_exact(d).map(new).collect();
        let mut index = 0;
        self.for_each_sample(device, rows, |Sample { outputs, log_weights }| {
            let n_outputs = outputs.len() / posteriors.len();
            let each = posteriors.par_iter_mut().zip(outputs.par_chunks_exact(n_outputs));
            each.zip(log_weights).enumerate().for_each(|(i, ((posterior, output), &log_weight))| {
                let draw = key.map(|key| key.uniform(numbers[i], u32::MAX, index));
                posterior.add(&observed, output, log_weight, draw);
            });
            index += 1;
            Ok(())
        })?;
        let finish = |(i, posterior): (usize, Posterior)| posterior.cells(&observed, key, numbers[i]);
        Ok(posteriors.into_iter().enumerate().map(finish).collect())
    }
}

/// The missing cells of a row, given samples of its latents.
struct Posterior {
    missing: Vec<usize>,
    /// The largest log weight so far; the sums are relative to it.
    log_top: f64,
    total: f64,
    /// Weighted sums of the expected values of each missing cell.
    sums: Vec<Vec<f64>>,
    /// The decoder's output of the sample that was drawn, by weight.
    drawn: Vec<f32>,
}

impl Posterior {
    fn new(missing: Vec<usize>) -> Self {
        let sums = vec![Vec::new(); missing.len()];
        Self { missing, log_top: f64::NEG_INFINITY, total: 0.0, sums, drawn: Vec::new() }
    }

    /// Adds a sample; with a uniform random number `draw` it replaces the drawn one in proportion to its weight.
    fn add(&mut self, observed: &Observed<'_>, output: &[f32], log_weight: f64, draw: Option<f64>) {
        if log_weight.is_nan() || log_weight == f64::NEG_INFINITY {
            return;
        }
        if log_weight > self.log_top {
            let factor = (self.log_top - log_weight).exp();
            self.total *= factor;
            self.sums.iter_mut().flatten().for_each(|sum| *sum *= factor);
            self.log_top = log_weight;
        }
        let weight = (log_weight - self.log_top).exp();
        self.total += weight;
        for (sums, &j) in self.sums.iter_mut().zip(&self.missing) {
            let expected = expected_cell(observed, j, output);
            sums.resize(expected.len(), 0.0);
            sums.iter_mut().zip(expected).for_each(|(sum, x)| *sum += weight * x);
        }
        if draw.is_some_and(|draw| draw * self.total < weight) {
            self.drawn = output.to_vec();
        }
    }

    /// Column and value of each cell: its mean, or a sample if there is a key.
    fn cells(self, observed: &Observed<'_>, key: Option<Key>, row: u64) -> Vec<(usize, f64)> {
        let preparation = observed.preparation;
        let columns = preparation.columns();
        let sampled = key.filter(|_| !self.drawn.is_empty()).map(|key| {
            let mut cells = Vec::with_capacity(columns.len());
            observed.append_draw(&self.drawn, key, row, &mut cells);
            preparation.undo(&mut cells);
            cells
        });
        let value = |(j, sums): (usize, Vec<f64>)| {
            let value = match &sampled {
                Some(cells) => f64::from(cells[j]),
                None => most_likely(&columns[j], &sums, self.total),
            };
            (j, preparation.cell(j, value as f32))
        };
        self.missing.into_iter().zip(self.sums).map(value).collect()
    }
}

/// The expected values of a cell in the units of the data: its mean, or the probability of each level.
fn expected_cell(observed: &Observed<'_>, j: usize, output: &[f32]) -> Vec<f64> {
    let column = &observed.preparation.columns()[j];
    let mut expected = column.expected(output);
    if column.family == ColumnFamily::Gaussian {
        expected[0] = observed.preparation.undo_mean(j, expected[0], column.variance(&observed.scales));
    }
    expected
}

/// The mean of a number, or the level with the highest probability; ties go to the first.
fn most_likely(column: &TypedColumn, sums: &[f64], total: f64) -> f64 {
    if matches!(column.family, ColumnFamily::Categorical { .. }) {
        return (1..sums.len()).fold(0, |best, level| if sums[level] > sums[best] { level } else { best })
            as f64;
    }
    sums.first().map_or(0.0, |sum| sum / total)
}
