//! log p(x|z) with its gradient.

use rayon::prelude::*;

use super::simd::{Isa, for_isa};
use super::team::TeamForEach;
use super::{Cpu, CpuSums, M};
use crate::math::{exp, ln, softplus_and_logistic};
use crate::ops::NEEDS_COLUMNS;
use crate::{DECODER_LOG_VARIANCE_LIMIT, Likelihood, Likelihoods, Result};

pub(super) const LN_TAU: f32 = 1.837_877_1; // ln(2 pi)

/// Sums are kept in this many lanes, so that they vectorise without a change of order.
const LANES: usize = 16;

impl Likelihoods for Cpu {
    fn likelihood(&self, families: &[Likelihood], x: &M, output: &mut M, sums: &mut CpuSums) -> Result<()> {
        let n_samples = output.rows;
        log_likelihoods(self.isa, families, x, |_| 1.0 / n_samples as f32, output, sums);
        sums.add_reconstruction(n_samples);
        Ok(())
    }
}

/// log p(x|z) of each sample into the rows' sums; the output becomes the gradient of minus it, times the sample's scale.
pub(super) fn log_likelihoods(
    isa: Isa,
    families: &[Likelihood],
    x: &M,
    scale: impl Fn(usize) -> f32 + Sync,
    output: &mut M,
    sums: &mut CpuSums,
) {
    let (b, n_samples, width) = (sums.n_rows, output.rows, output.columns);
    let per_row = sums.rows(output.restarts * n_samples);
    output.data.par_chunks_mut(width).zip(per_row.par_iter_mut()).with_min_len(4).enumerate().team_for_each(
        |(sample, (out, row_sums))| {
            let (restart, i) = (sample / n_samples, sample % n_samples % b);
            let target = &x.data[restart * x.stride() + i * x.columns..][..x.columns];
            let (scale, mut total) = (scale(sample), [0.0f32; LANES]);
            match families[restart] {
                Likelihood::Bernoulli => bernoulli(isa, scale, target, out, &mut total),
                Likelihood::Gaussian => gaussian(isa, scale, target, out, &mut total),
                Likelihood::GaussianFixed { variance } => {
                    gaussian_fixed(isa, scale, variance, target, out, &mut total);
                }
                Likelihood::Multinomial => multinomial(isa, scale, target, out, &mut total),
                Likelihood::Typed { .. } | Likelihood::Counts => panic!("{NEEDS_COLUMNS}"),
            }
            row_sums[0] = total.iter().map(|&t| f64::from(t)).sum();
        },
    );
}

for_isa! {
    /// x o - softplus(o); gradient logistic(o) - x.
    fn bernoulli(scale: f32, x: &[f32], out: &mut [f32], total: &mut [f32; LANES]) {
        for (x, out) in x.chunks(LANES).zip(out.chunks_mut(LANES)) {
            for ((t, &x), o) in total.iter_mut().zip(x).zip(out) {
                let (softplus, logistic) = softplus_and_logistic(*o);
                *t += x.mul_add(*o, -softplus);
                *o = scale * (logistic - x);
            }
        }
    }
}

for_isa! {
    /// -1/2 (ln 2 pi v + (x - m)^2 / v), v one number; gradient (m - x) / v.
    fn gaussian_fixed(scale: f32, variance: f32, x: &[f32], out: &mut [f32], total: &mut [f32; LANES]) {
        let inverse = 1.0 / variance;
        let constant = LN_TAU + ln(variance);
        for (x, out) in x.chunks(LANES).zip(out.chunks_mut(LANES)) {
            for ((t, &x), o) in total.iter_mut().zip(x).zip(out) {
                let error = *o - x;
                *t -= 0.5 * (error * error).mul_add(inverse, constant);
                *o = scale * error * inverse;
            }
        }
    }
}

for_isa! {
    /// -1/2 (ln 2 pi + l + (x - m)^2 e^-l), l the second half of the output.
    fn gaussian(scale: f32, x: &[f32], out: &mut [f32], total: &mut [f32; LANES]) {
        const LIMIT: f32 = DECODER_LOG_VARIANCE_LIMIT;
        let (means, log_variances) = out.split_at_mut(x.len());
        let blocks = x.chunks(LANES).zip(means.chunks_mut(LANES)).zip(log_variances.chunks_mut(LANES));
        for ((x, means), log_variances) in blocks {
            for (((t, &x), m), l) in total.iter_mut().zip(x).zip(means).zip(log_variances) {
                let log_variance = l.clamp(-LIMIT, LIMIT);
                let error = *m - x;
                let weighted = error * exp(-log_variance);
                let squared = error * weighted;
                *t -= 0.5 * (LN_TAU + log_variance + squared);
                *m = scale * weighted;
                *l = if l.abs() < LIMIT { 0.5 * scale * (1.0 - squared) } else { 0.0 };
            }
        }
    }
}

for_isa! {
    /// The sum of x_j log softmax(o)_j; gradient (sum of x) softmax(o) - x.
    fn multinomial(scale: f32, x: &[f32], out: &mut [f32], total: &mut [f32; LANES]) {
        let mut largest = [f32::NEG_INFINITY; LANES];
        for out in out.chunks(LANES) {
            largest.iter_mut().zip(out).for_each(|(most, &o)| *most = if o > *most { o } else { *most });
        }
        let largest = largest.into_iter().fold(f32::NEG_INFINITY, f32::max);
        let (mut powers, mut weights) = ([0.0f32; LANES], [0.0f32; LANES]);
        for (x, out) in x.chunks(LANES).zip(out.chunks_mut(LANES)) {
            let lanes = total.iter_mut().zip(&mut powers).zip(&mut weights);
            for (((t, power), weight), (&x, o)) in lanes.zip(x.iter().zip(out)) {
                let below = *o - largest;
                *t = x.mul_add(below, *t);
                *weight += x;
                *o = exp(below);
                *power += *o;
            }
        }
        let (sum, weight) = (powers.iter().sum::<f32>(), weights.iter().sum::<f32>());
        total.iter_mut().zip(weights).for_each(|(t, weight)| *t -= weight * ln(sum));
        let factor = weight / sum;
        for (o, &x) in out.iter_mut().zip(x) {
            *o = scale * o.mul_add(factor, -x);
        }
    }
}
