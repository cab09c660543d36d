//! Log densities of rows in tables whose columns have types, and how unusual rows are.

use rayon::prelude::*;

use super::Vade;
use super::importance::{N_SAMPLES, log_sum_exp};
use crate::Result;
use crate::compute::math::normal_pair;
use crate::compute::{Device, Gamma, Likelihood};
use crate::data::Dataset;
use crate::infer::Pass;
use crate::plain::{COLUMNS_WEIGHT, RowDensity};
use crate::seed::{Key, Stream};

/// Rows of the prior that stand for the distribution of each column by itself.
const N_PRIOR_ROWS: usize = 256;

impl Vade {
    /// log p(x) of the rows in a block, estimated from samples of the latents; with a density of the rows, that of an even mixture
    /// of both, which is at most ln 2 below the better of the two.
    fn log_densities<D: Device>(
        &self,
        device: &D,
        data: &Dataset,
        pass: &Pass<'_>,
        density: Option<&RowDensity>,
    ) -> Result<Vec<f64>> {
        let rows = self.encoded_rows(data, pass, |_| true);
        let mut log_weights: Vec<Vec<f64>> = Vec::with_capacity(N_SAMPLES);
        self.for_each_sample(device, &rows, |sample| {
            log_weights.push(sample.log_weights.to_vec());
            Ok(())
        })?;
        let log_density = |(i, x): (usize, &[f32])| {
            let of_row: Vec<f64> = log_weights.iter().map(|sample| sample[i]).collect();
            let own = log_mean_exp(&of_row);
            density.map_or(own, |rows| log_mean_exp(&[own, rows.log_density(x)]))
        };
        Ok(rows.cells.par_chunks_exact(data.n_columns()).enumerate().map(log_density).collect())
    }

    /// How unusual each row is: high for rows unlike those of the fit. For tables whose columns have types it is
    /// -(log p(x) + 3 sum_j log p(x_j)), which counts the row as a whole and each of its cells alone; otherwise minus the
    /// [score](Vade::score). On small tables of numbers p(x) is one Gaussian and p(x_j) a kernel density, which have no clusters:
    /// a few anomalies that are alike cannot vouch for each other. Elsewhere they are the model's.
    ///
    /// # Shapes
    /// - scores: `[N]`, those of the same rows
    pub fn anomaly<D: Device>(&self, device: &D, data: &Dataset, scores: &[f64]) -> Result<Vec<f64>> {
        let data = &*self.matched(data)?;
        let (of_cells, d) = (&self.metadata.preparation, data.n_columns());
        if let Some(density) = &self.density {
            let of_row = |x: &mut Vec<f32>, i: usize| {
                of_cells.prepared_row_into(data, i, x);
                unless_nan(density.anomaly(x))
            };
            let all = (0..data.n_rows()).into_par_iter();
            return data.unless_changed(Ok(all.map_init(|| vec![0.0; d], of_row).collect()));
        }
        let columns = self.column_log_densities(device, data)?;
        let unusual = |(i, score): (usize, &f64)| {
            unless_nan(-(score + COLUMNS_WEIGHT * columns.get(i).copied().unwrap_or(0.0)))
        };
        Ok(scores.iter().enumerate().map(unusual).collect())
    }

    /// What a score is: `log_density` for tables whose columns have types, otherwise `elbo`.
    pub fn score_name(&self) -> &'static str {
        match self.metadata.likelihood {
            Likelihood::Typed { .. } => "log_density",
            _ => "elbo",
        }
    }

    /// The sum over the observed cells of log p(x_j), each column by itself: the mean of p(x_j|z) over samples of the prior.
    /// Empty unless the columns have types.
    fn column_log_densities<D: Device>(&self, device: &D, data: &Dataset) -> Result<Vec<f64>> {
        if !matches!(self.metadata.likelihood, Likelihood::Typed { .. }) {
            return Ok(Vec::new());
        }
        let outputs = self.outputs(device, &self.prior_latents(N_PRIOR_ROWS))?;
        let n_outputs = outputs.len() / N_PRIOR_ROWS;
        let (columns, observed) = (self.metadata.preparation.columns(), self.observed());
        let of_row = |cells: &mut Vec<f32>, i: usize| -> f64 {
            self.metadata.preparation.prepared_row_into(data, i, cells);
            let known = columns.iter().zip(cells.iter()).filter(|(column, x)| column.is_observed(**x));
            let of_cell = |(column, &x): (&crate::compute::TypedColumn, &f32)| {
                let each = outputs.chunks_exact(n_outputs);
                let logs: Vec<f64> =
                    each.filter_map(|output| column.log_density(x, output, &observed.scales)).collect();
                log_mean_exp(&logs)
            };
            known.map(of_cell).sum()
        };
        let all = (0..data.n_rows()).into_par_iter();
        let sums = all.map_init(|| vec![0.0; columns.len()], of_row).collect();
        data.unless_changed(Ok(sums))
    }

    /// Latents of the prior: components in the order of their weights' sums, so that few rows represent it well. `[n, J]`
    fn prior_latents(&self, n: usize) -> Vec<f32> {
        let (j, key) = (self.n_latents(), Key::new(0, Stream::Score, 1));
        let (weights, means, variances) = self.components();
        let (mut m, mut below) = (0, weights[0]);
        let mut latents = Vec::with_capacity(n * j);
        for row in 0..n {
            while (row as f64 + 0.5) / n as f64 > below && m + 1 < weights.len() {
                m += 1;
                below += weights[m];
            }
            latents.extend((0..j).map(|column| {
                let [a, b, ..] = key.draw(row as u64, 0, column as u32);
                let deviation = variances[m * j + column].sqrt();
                (means[m * j + column] + deviation * f64::from(normal_pair(a, b)[0])) as f32
            }));
        }
        latents
    }

    /// Scores of the rows of a table with types; the Gaussian mixture on the rows counts if `with_mixture`.
    pub(super) fn typed_scores<D: Device>(
        &self,
        device: &D,
        data: &Dataset,
        with_mixture: bool,
    ) -> Result<Vec<f64>> {
        let density = self.density.as_ref().filter(|_| with_mixture);
        let mut scores = Vec::with_capacity(data.n_rows());
        self.for_each_block(device, data, Gamma::Exact, |pass| {
            scores.extend(self.log_densities(device, data, &pass, density)?);
            Ok(())
        })?;
        Ok(scores)
    }
}

/// A row whose values overflow is as unusual as possible.
fn unless_nan(anomaly: f64) -> f64 {
    if anomaly.is_nan() { f64::INFINITY } else { anomaly }
}

fn log_mean_exp(values: &[f64]) -> f64 {
    let mean = log_sum_exp(values) - (values.len() as f64).ln();
    // A row whose values overflow is as unlike the data as possible.
    if mean.is_nan() { f64::NEG_INFINITY } else { mean }
}
