//! log p(x|z) of one cell of a typed table and its derivatives, in double precision: what the CPU computes, and what the host
//! reports of a fitted model.

use crate::math::double::{exp, exp_lanes, ln, ln_1p, ln_1p_nonnegative, log_coefficient};
use crate::{LEAST_LOG_VARIANCE, LOG_DISPERSION_LIMIT, LOG_MEAN_LIMIT};

const LN_TAU: f64 = 1.837_877_066_409_345_5;

/// log p(x|z) of a cell, and its derivatives for the decoder's output and for the log scale.
#[derive(Clone, Copy, Default)]
pub(crate) struct Explained {
    pub(crate) log_density: f64,
    pub(crate) for_output: f64,
    pub(crate) for_scale: f64,
}

/// The variance of a Gaussian column is never less than its lower bound, below which its logarithm has no gradient.
pub(crate) fn log_variance(scale: f32) -> f64 {
    f64::from(scale.max(LEAST_LOG_VARIANCE))
}

pub(crate) fn gaussian(x: f32, mean: f32, scale: f32) -> Explained {
    let (log_variance, error) = (log_variance(scale), f64::from(x) - f64::from(mean));
    let weighted = error * exp(-log_variance);
    let squared = error * weighted;
    Explained {
        log_density: -0.5 * (LN_TAU + log_variance + squared),
        for_output: weighted,
        for_scale: if scale > LEAST_LOG_VARIANCE { 0.5 * (squared - 1.0) } else { 0.0 },
    }
}

pub(crate) fn bernoulli(x: f32, logit: f32) -> Explained {
    let (x, o) = (f64::from(x), f64::from(logit));
    let e = exp(-o.abs());
    Explained { log_density: x * o - (o.max(0.0) + ln_1p(e)), for_output: x - logistic(o), for_scale: 0.0 }
}

/// 1 / (1 + e^-x)
pub(crate) fn logistic(x: f64) -> f64 {
    let e = exp(-x.abs());
    if x >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

/// The logarithm of a count's mean m, within bounds beyond which it has no gradient.
#[inline(always)]
fn bounded_log_mean(log_mean: f64) -> f64 {
    log_mean.clamp(-LOG_MEAN_LIMIT, LOG_MEAN_LIMIT)
}

/// The logarithm of a count's dispersion r, within bounds beyond which it has no gradient. The variance is m + m^2 / r.
#[inline(always)]
fn bounded_log_dispersion(scale: f32) -> f64 {
    f64::from(scale.clamp(-LOG_DISPERSION_LIMIT, LOG_DISPERSION_LIMIT))
}

/// Mean and dispersion of a count.
#[inline(always)]
pub(crate) fn count_parameters(log_mean: f64, scale: f32) -> (f64, f64) {
    (exp_lanes(bounded_log_mean(log_mean)), exp_lanes(bounded_log_dispersion(scale)))
}

/// The derivative of the log density of a count for the logarithm of its mean: (k - m) r / (r + m).
#[inline(always)]
pub(crate) fn count_slope(k: f32, log_mean: f64, scale: f32) -> f64 {
    let (mean, r) = count_parameters(log_mean, scale);
    if log_mean.abs() < LOG_MEAN_LIMIT { (f64::from(k.max(0.0)) - mean) * (r / (r + mean)) } else { 0.0 }
}

/// Negative binomial with mean m and dispersion r: ln of Gamma(k + r) / (Gamma(r) k!) + k ln(m / (r + m)) + r ln(r / (r + m)).
/// `for_output` is the derivative for ln m. Counts below zero count as zero.
pub(crate) fn count(k: f32, log_mean: f64, scale: f32) -> Explained {
    let mut explained = count_without_coefficient(k, log_mean, scale);
    explained.add_coefficient(k, scale);
    explained
}

/// [`count`] without the coefficient, which is one for a count of zero. No branch and no call, so that it runs in vector lanes.
#[inline(always)]
pub(crate) fn count_without_coefficient(k: f32, log_mean: f64, scale: f32) -> Explained {
    let (mean, r) = count_parameters(log_mean, scale);
    let for_output = count_slope(k, log_mean, scale);
    let k = f64::from(k.max(0.0));
    let log_ratio = bounded_log_mean(log_mean) - bounded_log_dispersion(scale);
    // -ln(r / (r + m))
    let surprise = ln_1p_nonnegative(mean / r);
    let for_r = (mean - k) / (r + mean) - surprise;
    Explained {
        log_density: k * log_ratio - (k + r) * surprise,
        for_output,
        for_scale: if scale.abs() < LOG_DISPERSION_LIMIT { r * for_r } else { 0.0 },
    }
}

impl Explained {
    /// Adds the coefficient of a count.
    #[inline]
    pub(crate) fn add_coefficient(&mut self, k: f32, scale: f32) {
        if k > 0.0 {
            let r = exp_lanes(bounded_log_dispersion(scale));
            let (log, slope) = log_coefficient(r, f64::from(k));
            self.log_density += log;
            self.for_scale += if scale.abs() < LOG_DISPERSION_LIMIT { r * slope } else { 0.0 };
        }
    }
}

/// ln of the sum of e^o.
pub(crate) fn log_sum_exp(output: &[f32]) -> f64 {
    let largest = f64::from(output.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    largest + ln(output.iter().map(|&o| exp(f64::from(o) - largest)).sum())
}

/// The sum of a row of counts.
pub(crate) fn row_sum(x: impl Iterator<Item = f32>) -> f64 {
    x.map(f64::from).sum()
}
