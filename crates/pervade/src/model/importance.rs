//! Importance sampling of the latents of rows: the integrals over z that log densities and missing cells need.

use rayon::prelude::*;

use super::Vade;
use crate::Result;
use crate::compute::math::normal_pair;
use crate::compute::{Device, LOG_VARIANCE_LIMIT};
use crate::data::Dataset;
use crate::infer::Pass;
use crate::seed::{Key, Stream};

/// Samples of z per row.
pub(super) const N_SAMPLES: usize = 128;
/// Half of the samples come from a Gaussian that is so much wider than q(z|x): weights are then bounded where q(z|x) is too
/// narrow, as it is for rows with many gaps.
const WIDE: f32 = 2.0;

/// Some rows of a table, prepared, and what the encoder says of them.
pub(super) struct EncodedRows {
    /// Prepared cells; NaN where they are missing. `[n, D]`
    pub(super) cells: Vec<f32>,
    /// Means and log variances of q(z|x). `[n, 2J]`
    heads: Vec<f32>,
}

/// One sample of z for each row.
pub(super) struct Sample<'s> {
    /// The decoder's output. `[n, outputs]`
    pub(super) outputs: &'s [f32],
    /// Logarithms of p(x|z) p(z) over the density that z was drawn from. `[n]`
    pub(super) log_weights: &'s [f64],
}

impl Vade {
    /// The rows of a block for which `wanted` is true; indices count from the first row of the table.
    pub(super) fn encoded_rows(
        &self,
        data: &Dataset,
        pass: &Pass<'_>,
        wanted: impl Fn(usize) -> bool,
    ) -> EncodedRows {
        let (j, d) = (self.n_latents(), data.n_columns());
        let (mut cells, mut heads) = (Vec::new(), Vec::new());
        let blocks = pass.heads.chunks_exact(2 * j).enumerate();
        for (i, head) in blocks.filter(|(i, _)| wanted(pass.first + i)) {
            let start = cells.len();
            cells.resize(start + d, 0.0);
            self.metadata.preparation.prepared_row_into(data, pass.first + i, &mut cells[start..]);
            heads.extend_from_slice(head);
        }
        EncodedRows { cells, heads }
    }

    /// Calls `visit` with samples of z for the rows (Burda et al., 2016). The noise is the same for every row, so that the
    /// result of a row depends on the row alone.
    pub(super) fn for_each_sample<D: Device>(
        &self,
        device: &D,
        rows: &EncodedRows,
        mut visit: impl FnMut(Sample<'_>) -> Result<()>,
    ) -> Result<()> {
        let (j, d, observed) = (self.n_latents(), self.n_columns(), self.observed());
        let n = rows.heads.len() / (2 * j);
        if n == 0 {
            return Ok(());
        }
        let mixture = LogMixture::new(self);
        let (mut latents, mut log_weights) = (vec![0.0f32; n * j], vec![0.0; n]);
        for sample in 0..N_SAMPLES {
            let noise = noise(sample, j);
            for (z, head) in latents.chunks_exact_mut(j).zip(rows.heads.chunks_exact(2 * j)) {
                sample_into(head, &noise, z);
            }
            let outputs = self.outputs(device, &latents)?;
            let n_outputs = outputs.len() / n;
            log_weights.par_iter_mut().enumerate().for_each(|(i, weight)| {
                let (z, x) = (&latents[i * j..][..j], &rows.cells[i * d..][..d]);
                let head = &rows.heads[2 * j * i..][..2 * j];
                let reconstruction = observed.log_density(x, &outputs[i * n_outputs..][..n_outputs]);
                *weight = reconstruction + mixture.log_density(z) - log_proposal(head, &noise);
            });
            visit(Sample { outputs: &outputs, log_weights: &log_weights })?;
        }
        Ok(())
    }
}

/// The noise of one sample. `[J]`
pub(super) fn noise(sample: usize, n_latents: usize) -> Vec<f32> {
    let key = Key::new(0, Stream::Score, 0);
    let width = if sample.is_multiple_of(2) { 1.0 } else { WIDE };
    (0..n_latents).map(|column| width * normal(key, sample, column)).collect()
}

fn normal(key: Key, sample: usize, column: usize) -> f32 {
    let [a, b, ..] = key.draw(sample as u64, 0, column as u32);
    normal_pair(a, b)[0]
}

fn log_variance(raw: f32) -> f32 {
    raw.clamp(-LOG_VARIANCE_LIMIT, LOG_VARIANCE_LIMIT)
}

/// z = mu~ + sigma~ noise.
fn sample_into(head: &[f32], noise: &[f32], z: &mut [f32]) {
    let (means, log_variances) = head.split_at(noise.len());
    for (((z, mean), &l), eps) in z.iter_mut().zip(means).zip(log_variances).zip(noise) {
        *z = mean + (0.5 * log_variance(l)).exp() * eps;
    }
}

/// The log density that the latent with this noise was drawn from: one half q(z|x), one half a wider Gaussian.
fn log_proposal(head: &[f32], noise: &[f32]) -> f64 {
    let log_variances: f64 = head[noise.len()..].iter().map(|&l| f64::from(log_variance(l))).sum();
    noise_log_density(noise) - 0.5 * log_variances
}

/// The log density of noise: one half standard normal, one half wider.
pub(super) fn noise_log_density(noise: &[f32]) -> f64 {
    let j = noise.len() as f64;
    let square: f64 = noise.iter().map(|&eps| f64::from(eps).powi(2)).sum();
    let wide = f64::from(WIDE);
    let logs = [-0.5 * square, -0.5 * square / (wide * wide) - j * wide.ln()];
    log_sum_exp(&logs) - std::f64::consts::LN_2 - 0.5 * j * std::f64::consts::TAU.ln()
}

/// The prior, with what does not depend on z computed once.
struct LogMixture {
    n_latents: usize,
    /// Log weight and normalisation of each component. `[C]`
    constants: Vec<f64>,
    means: Vec<f64>,
    precisions: Vec<f64>,
}

impl LogMixture {
    fn new(model: &Vade) -> Self {
        let (n_latents, (weights, means, variances)) = (model.n_latents(), model.components());
        let constant = |(weight, variances): (&f64, &[f64])| {
            let norm: f64 = variances.iter().map(|v| (std::f64::consts::TAU * v).ln()).sum();
            weight.ln() - 0.5 * norm
        };
        let constants = weights.iter().zip(variances.chunks_exact(n_latents)).map(constant).collect();
        Self { n_latents, constants, means, precisions: variances.iter().map(|v| 1.0 / v).collect() }
    }

    /// log p(z).
    fn log_density(&self, z: &[f32]) -> f64 {
        let j = self.n_latents;
        let component = |m: usize| {
            let (means, precisions) = (&self.means[m * j..][..j], &self.precisions[m * j..][..j]);
            let squares: f64 =
                z.iter().zip(means).zip(precisions).map(|((&z, m), p)| (f64::from(z) - m).powi(2) * p).sum();
            self.constants[m] - 0.5 * squares
        };
        let logs: Vec<f64> = (0..self.constants.len()).map(component).collect();
        log_sum_exp(&logs)
    }
}

/// ln of the sum of e^x.
pub(super) fn log_sum_exp(values: &[f64]) -> f64 {
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if greatest == f64::NEG_INFINITY {
        return greatest;
    }
    greatest + values.iter().map(|v| (v - greatest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The integral of the proposal's density is one: the mean of q / proposal over its own samples is one, too.
    #[test]
    fn the_proposal_is_a_density() {
        let head = [0.3f32, -1.0, 0.4, -2.0];
        let key = Key::new(3, Stream::Score, 0);
        let n = 20_000;
        let mean: f64 = (0..n)
            .map(|sample| {
                let width = if sample % 2 == 0 { 1.0 } else { WIDE };
                let noise = [width * normal(key, sample, 0), width * normal(key, sample, 1)];
                let square: f64 = noise.iter().map(|&eps| f64::from(eps).powi(2)).sum();
                let norm: f64 = head[2..].iter().map(|&l| std::f64::consts::TAU.ln() + f64::from(l)).sum();
                (-0.5 * (square + norm) - log_proposal(&head, &noise)).exp()
            })
            .sum::<f64>()
            / n as f64;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }
}
