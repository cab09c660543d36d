//! Between the networks: the sampled latent, dropout, and log p(x|z) with its gradient.

use rayon::prelude::*;

use super::math::{exp, normal_pair, softplus_and_logistic};
use super::simd::{Isa, for_isa};
use super::{CpuSums, Draw, Likelihood, M};
use crate::compute::{DECODER_LOG_VARIANCE_LIMIT, LOG_VARIANCE_LIMIT};

pub(super) const LN_TAU: f32 = 1.837_877_1; // ln(2 pi)

/// Sums are kept in this many lanes, so that they vectorise without a change of order.
const LANES: usize = 16;

/// z = mu + sigma eps; sample l of row i is row l B + i.
pub(super) fn sample_latents(draw: Option<Draw<'_>>, head: &M, z: &mut M) {
    let (b, j) = (head.rows, z.columns);
    let z_stride = z.stride();
    for (restart, z) in z.data.chunks_exact_mut(z_stride).enumerate() {
        let head = &head.data[restart * head.stride()..];
        z.par_chunks_exact_mut(j).with_min_len(16).enumerate().for_each(|(place, z)| {
            let (means, log_variances) = head[place % b * 2 * j..][..2 * j].split_at(j);
            let Some(draw) = draw else {
                return z.copy_from_slice(means);
            };
            for quad in 0..j.div_ceil(4) {
                let [w0, w1, w2, w3] = draw.keys[restart].draw(draw.step, place as u32, quad as u32);
                let noise = [normal_pair(w0, w1), normal_pair(w2, w3)];
                for column in 4 * quad..(4 * quad + 4).min(j) {
                    let eps = noise[column % 4 / 2][column % 2];
                    z[column] =
                        exp(0.5 * clamp_log_variance(log_variances[column])).mul_add(eps, means[column]);
                }
            }
        });
    }
}

/// Adds dz to the means' gradient and dz (z - mu) / 2 to the log variances': sigma eps = z - mu.
pub(super) fn sample_latents_backward(head: &M, z: &M, dz: &M, d_head: &mut M) {
    let (b, j) = (head.rows, z.columns);
    for restart in 0..head.restarts {
        let base = restart * head.stride();
        for place in 0..z.rows {
            let at = base + place % b * 2 * j;
            let from = restart * z.stride() + place * j;
            for column in 0..j {
                let gradient = dz.data[from + column];
                let offset = z.data[from + column] - head.data[at + column];
                d_head.data[at + column] += gradient;
                if inside(head.data[at + j + column]) {
                    d_head.data[at + j + column] += 0.5 * gradient * offset;
                }
            }
        }
    }
}

#[inline(always)]
pub(super) fn clamp_log_variance(x: f32) -> f32 {
    x.clamp(-LOG_VARIANCE_LIMIT, LOG_VARIANCE_LIMIT)
}

/// Whether a log variance is within its bounds, so that a gradient passes.
#[inline(always)]
pub(super) fn inside(log_variance: f32) -> bool {
    log_variance.abs() < LOG_VARIANCE_LIMIT
}

/// Each number is dropped with probability `rate`; the rest are scaled up.
pub(super) fn dropout(draw: Draw<'_>, rate: f32, x: &mut M) {
    let (columns, rows) = (x.columns, x.rows);
    let keep = 1.0 / (1.0 - rate);
    let threshold = (f64::from(rate) * 4_294_967_296.0) as u32;
    x.data.par_chunks_mut(columns).with_min_len(8).enumerate().for_each(|(place, line)| {
        let key = draw.keys[place / rows];
        for (quad, numbers) in line.chunks_mut(4).enumerate() {
            let words = key.draw(draw.step, (place % rows) as u32, quad as u32);
            for (x, word) in numbers.iter_mut().zip(words) {
                *x = if word < threshold { 0.0 } else { *x * keep };
            }
        }
    });
}

/// Adds log p(x|z) to the sums; the output becomes the gradient of -log p(x|z) / (B L).
pub(super) fn likelihood(isa: Isa, families: &[Likelihood], x: &M, output: &mut M, sums: &mut CpuSums) {
    let (b, places) = (x.rows, output.rows);
    log_likelihoods(isa, families, x, |_| 1.0 / places as f32, output, sums);
    let samples = (places / b) as f64;
    for (restart, total) in sums.totals.iter_mut().enumerate() {
        let rows = &sums.per_row[restart * places..(restart + 1) * places];
        total.reconstruction += rows.iter().map(|r| r[0]).sum::<f64>() / samples;
    }
}

/// See [`crate::compute::Device::shared_likelihood`].
pub(super) fn shared_likelihood(
    isa: Isa,
    families: &[Likelihood],
    x: &M,
    shares: &M,
    output: &mut M,
    d_shares: &mut M,
    sums: &mut CpuSums,
) {
    let (b, places, samples) = (x.rows, output.rows, shares.columns);
    let of_place = |place: usize| {
        let (restart, sample, i) = (place / places, place % places / b, place % places % b);
        (restart * b + i) * samples + sample
    };
    log_likelihoods(isa, families, x, |place| shares.data[of_place(place)] / b as f32, output, sums);
    for place in 0..output.restarts * places {
        let (at, log_likelihood) = (of_place(place), sums.per_row[place][0]);
        sums.totals[place / places].reconstruction += f64::from(shares.data[at]) * log_likelihood;
        d_shares.data[at] -= (log_likelihood / b as f64) as f32;
    }
}

/// log p(x|z) of each place into the rows' sums; the output becomes the gradient of minus it, times the place's scale.
fn log_likelihoods(
    isa: Isa,
    families: &[Likelihood],
    x: &M,
    scale: impl Fn(usize) -> f32 + Sync,
    output: &mut M,
    sums: &mut CpuSums,
) {
    let (b, places, width) = (x.rows, output.rows, output.columns);
    let per_row = sums.rows(output.restarts * places);
    output.data.par_chunks_mut(width).zip(per_row.par_iter_mut()).with_min_len(4).enumerate().for_each(
        |(place, (out, row_sums))| {
            let (restart, i) = (place / places, place % places % b);
            let target = &x.data[restart * x.stride() + i * x.columns..][..x.columns];
            let (scale, mut total) = (scale(place), [0.0f32; LANES]);
            match families[restart] {
                Likelihood::Bernoulli => bernoulli(isa, scale, target, out, &mut total),
                Likelihood::Gaussian => gaussian(isa, scale, target, out, &mut total),
                Likelihood::GaussianFixed { variance } => {
                    gaussian_fixed(isa, scale, variance, target, out, &mut total);
                }
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
        let constant = LN_TAU + super::math::ln(variance);
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
