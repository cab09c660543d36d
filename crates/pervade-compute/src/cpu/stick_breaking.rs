//! Stick-breaking weights whose fractions have Kumaraswamy distributions (Nalisnick and Smyth, 2017), the KL divergence
//! of these from Beta distributions, and the gradients of both.
//!
//! A row's head holds J values whose softplus is a, then J whose softplus is b; the last of each is unused, because the
//! last weight is the remainder of the stick. Fraction k is v_k = (1 - u^(1/b))^(1/a) with u uniform, or its mean
//! b B(1 + 1/a, b); weight k is v_k times the product of 1 - v over the fractions before it. In double precision, since
//! fractions can be close to one and the differences of gamma functions close to zero.

use rayon::prelude::*;

use super::team::TeamForEach;
use super::{Cpu, CpuSums, M};
use crate::math::double::{exp, ln, ln_gamma_and_digamma, trigamma};
use crate::{
    DRAWN_FRACTION, Draw, KUMARASWAMY_LIMITS, MAX_STICKS, Result, SERIES_TERMS, StickBreaking, StickPrior,
};

const EULER: f64 = 0.577_215_664_901_532_9;

/// a or b from its raw value in the head, and its derivative.
fn parameter(raw: f32) -> (f64, f64) {
    let raw = f64::from(raw);
    let e = exp(-raw.abs());
    let logistic = if raw >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) };
    let value = raw.max(0.0) + ln(1.0 + e);
    let [least, most] = KUMARASWAMY_LIMITS;
    if value > least && value < most { (value, logistic) } else { (value.clamp(least, most), 0.0) }
}

/// v = (1 - u^(1/b))^(1/a), and the derivatives of ln v with respect to a and b.
fn drawn_fraction(word: u32, a: f64, b: f64) -> (f64, [f64; 2]) {
    let [low, high] = DRAWN_FRACTION;
    let u = low + (high - low) * ((f64::from(word >> 8) + 0.5) / 16_777_216.0);
    let log_power = ln(u) / b;
    let power = exp(log_power);
    let log_v = ln(1.0 - power) / a;
    (exp(log_v), [-log_v / a, log_power * power / (a * b * (1.0 - power))])
}

/// The mean of v, and the derivatives of its logarithm with respect to a and b.
fn mean_fraction(a: f64, b: f64) -> (f64, [f64; 2]) {
    let inverse = 1.0 / a;
    let (gamma_a, psi_a) = ln_gamma_and_digamma(1.0 + inverse);
    let (gamma_b, psi_b) = ln_gamma_and_digamma(b);
    let (gamma_ab, psi_ab) = ln_gamma_and_digamma(1.0 + inverse + b);
    let log_mean = ln(b) + gamma_a + gamma_b - gamma_ab;
    (exp(log_mean), [(psi_ab - psi_a) * inverse * inverse, 1.0 / b + psi_b - psi_ab])
}

/// Fraction `k` of a row, and the derivatives of its logarithm with respect to the head's two raw values.
fn fraction(draw: Option<Draw<'_>>, restart: usize, row: usize, head: &[f32], k: usize) -> (f64, [f64; 2]) {
    let (a, a_slope) = parameter(head[k]);
    let (b, b_slope) = parameter(head[head.len() / 2 + k]);
    let (v, [for_a, for_b]) = match draw {
        None => mean_fraction(a, b),
        Some(draw) => {
            let words = draw.keys[restart].draw(draw.step, row as u32, k as u32 / 4);
            drawn_fraction(words[k % 4], a, b)
        }
    };
    (v, [for_a * a_slope, for_b * b_slope])
}

/// KL(Kumaraswamy(a, b) || Beta(first, second)) without ln B(first, second), and its derivatives with respect to a and
/// b.
fn divergence(a: f64, b: f64, [first, second]: [f64; 2]) -> (f64, [f64; 2]) {
    let (gamma_b, psi_b) = ln_gamma_and_digamma(b);
    // a E ln v.
    let log_mean = -EULER - psi_b - 1.0 / b;
    let mut kl = (a - first) / a * log_mean + ln(a) + ln(b) - (b - 1.0) / b;
    let mut for_a = first / (a * a) * log_mean + 1.0 / a;
    let mut for_b = (a - first) / a * (1.0 / (b * b) - trigamma(b)) + 1.0 / b - 1.0 / (b * b);
    // -E ln(1 - v) is the sum over m of E v^m / m.
    let share = second - 1.0;
    for m in 1..=if share == 0.0 { 0 } else { SERIES_TERMS } {
        let m = f64::from(m);
        let (gamma_a, psi_a) = ln_gamma_and_digamma(m / a);
        let (gamma_ab, psi_ab) = ln_gamma_and_digamma(m / a + b);
        let over = 1.0 / (m + a * b);
        let term = share * b * over * exp(gamma_a + gamma_b - gamma_ab);
        kl += term;
        for_a += term * ((psi_ab - psi_a) * m / (a * a) - b * over);
        for_b += term * (1.0 / b + psi_b - psi_ab - a * over);
    }
    (kl, [for_a, for_b])
}

impl StickBreaking for Cpu {
    fn stick_breaking(&self, draw: Option<Draw<'_>>, head: &M, weights: &mut M) -> Result<()> {
        let (j, rows) = (weights.columns, weights.rows);
        weights.data.par_chunks_exact_mut(j).with_min_len(8).enumerate().team_for_each(|(index, weights)| {
            let head = &head.data[index * 2 * j..(index + 1) * 2 * j];
            let mut left = 1.0;
            for k in 0..j - 1 {
                let (v, _) = fraction(draw, index / rows, index % rows, head, k);
                weights[k] = (v * left) as f32;
                left *= 1.0 - v;
            }
            weights[j - 1] = left as f32;
        });
        Ok(())
    }

    fn stick_breaking_backward(
        &self,
        draw: Option<Draw<'_>>,
        head: &M,
        d_weights: &M,
        d_head: &mut M,
    ) -> Result<()> {
        let (j, rows) = (d_weights.columns, d_weights.rows);
        d_head.data.par_chunks_exact_mut(2 * j).with_min_len(8).enumerate().team_for_each(
            |(index, d_head)| {
                let head = &head.data[index * 2 * j..(index + 1) * 2 * j];
                let dw = &d_weights.data[index * j..(index + 1) * j];
                // Fractions, the derivatives of their logarithms, and the length of the stick before each.
                let (mut fractions, mut left) = ([(0.0, [0.0; 2], 0.0); MAX_STICKS], 1.0);
                for k in 0..j - 1 {
                    let (v, slopes) = fraction(draw, index / rows, index % rows, head, k);
                    fractions[k] = (v, slopes, left);
                    left *= 1.0 - v;
                }
                // All later weights depend on the remaining stick.
                let mut d_left = f64::from(dw[j - 1]);
                for k in (0..j - 1).rev() {
                    let (v, slopes, left) = fractions[k];
                    let d_weight = f64::from(dw[k]);
                    let d_log_v = v * left * (d_weight - d_left);
                    d_left = v * d_weight + (1.0 - v) * d_left;
                    d_head[k] += (d_log_v * slopes[0]) as f32;
                    d_head[j + k] += (d_log_v * slopes[1]) as f32;
                }
            },
        );
        Ok(())
    }

    fn stick_prior(&self, prior: StickPrior, head: &M, d_head: &mut M, sums: &mut CpuSums) -> Result<()> {
        let (j, rows) = (head.columns / 2, head.rows);
        let constants: f64 = (0..j - 1).map(|k| ln_beta(prior.beta(k, j))).sum();
        let per_row = sums.rows(head.restarts * rows);
        let rows_out = d_head.data.par_chunks_exact_mut(2 * j).zip(per_row.par_iter_mut());
        rows_out.with_min_len(4).enumerate().team_for_each(|(index, (d_head, row_sums))| {
            let head = &head.data[index * 2 * j..(index + 1) * 2 * j];
            d_head.fill(0.0);
            let mut total = constants;
            for k in 0..j - 1 {
                let ((a, a_slope), (b, b_slope)) = (parameter(head[k]), parameter(head[j + k]));
                let (kl, [for_a, for_b]) = divergence(a, b, prior.beta(k, j));
                total += kl;
                d_head[k] = (for_a * a_slope / rows as f64) as f32;
                d_head[j + k] = (for_b * b_slope / rows as f64) as f32;
            }
            row_sums[0] = total;
        });
        for (restart, total) in sums.totals.iter_mut().enumerate() {
            let rows = &sums.per_row[restart * rows..(restart + 1) * rows];
            total.cluster -= rows.iter().map(|row| row[0]).sum::<f64>();
        }
        Ok(())
    }
}

/// ln B(first, second)
fn ln_beta([first, second]: [f64; 2]) -> f64 {
    let ln_gamma = |x| ln_gamma_and_digamma(x).0;
    ln_gamma(first) + ln_gamma(second) - ln_gamma(first + second)
}
