//! The log density of rows by importance sampling.

use rayon::prelude::*;

use super::Vade;
use crate::Result;
use crate::compute::math::normal_pair;
use crate::compute::{Device, LOG_VARIANCE_LIMIT};
use crate::data::Dataset;
use crate::infer::Pass;
use crate::seed::{Key, Stream};

/// Samples of z per row.
const N_SAMPLES: usize = 64;

impl Vade {
    /// log p(x) of the rows in a block, estimated from samples of q(z|x) (Burda et al., 2016): the logarithm of the mean
    /// of p(x|z) p(z) / q(z|x). The noise is the same for every row, so that a row's score depends on the row alone.
    pub(super) fn log_densities<D: Device>(
        &self,
        device: &D,
        data: &Dataset,
        pass: &Pass<'_>,
    ) -> Result<Vec<f64>> {
        let (j, observed) = (self.n_latents(), self.observed());
        let n = pass.heads.len() / (2 * j);
        let mut rows = vec![0.0f32; n * data.n_columns()];
        for (i, row) in rows.chunks_exact_mut(data.n_columns()).enumerate() {
            self.metadata.preparation.prepared_row_into(data, pass.first + i, row);
        }
        let mixture = LogMixture::new(self);
        let key = Key::new(0, Stream::Score, 0);
        let mut log_weights = vec![[0.0f64; N_SAMPLES]; n];
        let mut latents = vec![0.0f32; n * j];
        for sample in 0..N_SAMPLES {
            let noise: Vec<f32> = (0..j).map(|column| normal(key, sample, column)).collect();
            for (z, head) in latents.chunks_exact_mut(j).zip(pass.heads.chunks_exact(2 * j)) {
                sample_into(head, &noise, z);
            }
            let outputs = self.outputs(device, &latents)?;
            let width = outputs.len() / n;
            log_weights.par_iter_mut().enumerate().for_each(|(i, weights)| {
                let (z, x) = (&latents[i * j..][..j], &rows[i * data.n_columns()..][..data.n_columns()]);
                let head = &pass.heads[2 * j * i..][..2 * j];
                let reconstruction = observed.log_density(x, &outputs[i * width..][..width]);
                weights[sample] = reconstruction + mixture.log_density(z) - log_q(head, &noise);
            });
        }
        Ok(log_weights.into_iter().map(|weights| log_mean_exp(&weights)).collect())
    }
}

fn normal(key: Key, sample: usize, column: usize) -> f32 {
    let [a, b, ..] = key.draw(sample as u64, 0, column as u32);
    normal_pair(a, b)[0]
}

fn log_variance(raw: f32) -> f32 {
    raw.clamp(-LOG_VARIANCE_LIMIT, LOG_VARIANCE_LIMIT)
}

/// z = mu~ + sigma~ eps.
fn sample_into(head: &[f32], noise: &[f32], z: &mut [f32]) {
    let (means, log_variances) = head.split_at(noise.len());
    for (((z, mean), &l), eps) in z.iter_mut().zip(means).zip(log_variances).zip(noise) {
        *z = mean + (0.5 * log_variance(l)).exp() * eps;
    }
}

/// log q(z|x) of the sample with this noise.
fn log_q(head: &[f32], noise: &[f32]) -> f64 {
    let each = |(&l, &eps): (&f32, &f32)| {
        -0.5 * (std::f64::consts::TAU.ln() + f64::from(log_variance(l)) + f64::from(eps).powi(2))
    };
    head[noise.len()..].iter().zip(noise).map(each).sum()
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

fn log_sum_exp(values: &[f64]) -> f64 {
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if greatest == f64::NEG_INFINITY {
        return greatest;
    }
    greatest + values.iter().map(|v| (v - greatest).exp()).sum::<f64>().ln()
}

fn log_mean_exp(values: &[f64]) -> f64 {
    let mean = log_sum_exp(values) - (values.len() as f64).ln();
    // A row whose values overflow is as unlike the data as possible.
    if mean.is_nan() { f64::NEG_INFINITY } else { mean }
}
