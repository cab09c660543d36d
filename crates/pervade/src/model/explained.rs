//! How much of each column a model explains.

use serde::{Deserialize, Serialize};

use super::Vade;
use crate::Result;
use crate::compute::{ColumnFamily, Device, Gamma, Likelihood, TypedColumn};
use crate::data::Dataset;
use crate::infer::BLOCK;

/// Rows on which it is measured, about.
const SAMPLE_ROWS: usize = 20_000;

/// How much of a column the model explains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainedColumn {
    /// The column's name.
    pub name: String,
    /// Of numbers the share of the variance, of counts that of log1p, and of categories the share of the entropy: one if
    /// the latents determine the column, zero if they say nothing about it.
    pub share: f64,
}

/// The loss of a column at the latent means, and without them.
#[derive(Clone, Default)]
struct Loss {
    with: f64,
    /// Sums of the values and of their squares; for levels, the number of each.
    sum: f64,
    squares: f64,
    levels: Vec<f64>,
    n: f64,
}

impl Vade {
    /// The share of each column that the latents explain; empty unless the columns have types.
    pub fn explained<D: Device>(&self, device: &D, data: &Dataset) -> Result<Vec<ExplainedColumn>> {
        let columns = self.metadata.preparation.columns();
        if !matches!(self.metadata.likelihood, Likelihood::Typed { .. }) {
            return Ok(Vec::new());
        }
        let data = &*self.matched(data)?;
        let (j, observed) = (self.n_latents(), self.observed());
        let stride = data.n_rows().div_ceil(SAMPLE_ROWS);
        let mut losses = vec![Loss::default(); columns.len()];
        let (mut x, mut mean, mut latents) = (vec![0.0; columns.len()], Vec::new(), Vec::new());
        self.for_each_block(device, data, Gamma::Sampled, |pass| {
            if !(pass.first / BLOCK).is_multiple_of(stride) {
                return Ok(());
            }
            latents.clear();
            latents.extend(pass.heads.chunks_exact(2 * j).flat_map(|head| &head[..j]));
            let outputs = self.outputs(device, &latents)?;
            for (i, output) in outputs.chunks_exact(self.architecture.n_outputs()).enumerate() {
                self.metadata.preparation.prepared_row_into(data, pass.first + i, &mut x);
                mean.clear();
                observed.append_mean(output, &mut mean);
                for (index, loss) in losses.iter_mut().enumerate() {
                    loss.add(&columns[index], x[index], mean[index], output, &observed.scales);
                }
            }
            Ok(())
        })?;
        let names = self.column_names().unwrap_or_default();
        let share = |(index, loss): (usize, &Loss)| ExplainedColumn {
            name: names.get(index).cloned().unwrap_or_else(|| (index + 1).to_string()),
            share: loss.share(),
        };
        Ok(losses.iter().enumerate().map(share).collect())
    }
}

impl Loss {
    fn add(&mut self, column: &TypedColumn, x: f32, mean: f32, output: &[f32], scales: &[f32]) {
        if !column.is_observed(x) {
            return;
        }
        self.n += 1.0;
        let n_levels = match column.family {
            ColumnFamily::Bernoulli => 2,
            ColumnFamily::Categorical { levels } => levels as usize,
            ColumnFamily::Gaussian | ColumnFamily::Count => {
                let is_count = column.family == ColumnFamily::Count;
                let scaled = |x: f32| f64::from(if is_count { x.max(0.0).ln_1p() } else { x });
                let (x, mean) = (scaled(x), scaled(mean));
                self.with += (x - mean).powi(2);
                self.sum += x;
                self.squares += x * x;
                return;
            }
        };
        self.levels.resize(n_levels, 0.0);
        self.levels[x as usize] += 1.0;
        self.with -= column.log_density(x, output, scales).unwrap_or(0.0);
    }

    fn share(&self) -> f64 {
        let without = if self.levels.is_empty() {
            self.squares - self.sum * self.sum / self.n.max(1.0)
        } else {
            self.levels.iter().filter(|&&n| n > 0.0).map(|n| -n * (n / self.n).ln()).sum()
        };
        if without > 0.0 { 1.0 - self.with / without } else { 0.0 }
    }
}
