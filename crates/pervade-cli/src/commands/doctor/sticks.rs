//! Stick-breaking weights and their prior against the definitions in double precision: expectations as integrals over
//! the uniform number that a fraction is drawn from, gradients as central differences.

use pervade::Result;
use pervade::compute::{Draw, Matrix, StickPrior};
use pervade::seed::{Key, Stream};
use pervade_rivals::RivalDevice;

use super::{Check, numbers, read};

/// Rows and weights: more weights than a CUDA block has threads.
const SIZES: [usize; 2] = [3, 70];
const STEP: u64 = (1 << 34) + 5;
const CONCENTRATION: f64 = 5.0;

/// The integral over u from 0 to 1 of a function of ln u (the double exponential rule, which endpoints do not disturb).
fn integral(f: impl Fn(f64) -> f64) -> f64 {
    let point = |i: i32| {
        let t = f64::from(i) / 24.0;
        let power = (-std::f64::consts::PI * t.sinh()).exp();
        let slope = std::f64::consts::PI * t.cosh() * power / (1.0 + power).powi(2);
        if slope > 0.0 { slope * f(-power.ln_1p()) } else { 0.0 }
    };
    (-96..=96).map(point).sum::<f64>() / 24.0
}

/// ln v of the fraction at ln u: (1 - u^(1/b))^(1/a).
fn log_fraction(log_u: f64, [a, b]: [f64; 2]) -> f64 {
    (-(log_u / b).exp_m1()).ln() / a
}

fn softplus(raw: f64) -> f64 {
    raw.max(0.0) + (-raw.abs()).exp().ln_1p()
}

/// a and b of fraction `k` of a row.
fn parameters(head: &[f64], k: usize) -> [f64; 2] {
    [softplus(head[k]), softplus(head[head.len() / 2 + k])]
}

/// The weights of a row, from its fractions.
fn broken(fractions: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut left = 1.0;
    let mut weights: Vec<f64> = fractions
        .map(|v| {
            let weight = v * left;
            left *= 1.0 - v;
            weight
        })
        .collect();
    weights.push(left);
    weights
}

fn drawn(key: Key, row: usize, head: &[f64]) -> Vec<f64> {
    let fraction = |k: usize| {
        let word = key.draw(STEP, row as u32, k as u32 / 4)[k % 4];
        let u = 0.01 + 0.98 * ((f64::from(word >> 8) + 0.5) / 16_777_216.0);
        log_fraction(u.ln(), parameters(head, k)).exp()
    };
    broken((0..head.len() / 2 - 1).map(fraction))
}

fn means(head: &[f64]) -> Vec<f64> {
    let mean = |k: usize| integral(|log_u| log_fraction(log_u, parameters(head, k)).exp());
    broken((0..head.len() / 2 - 1).map(mean))
}

/// KL(Kumaraswamy(a, b) || Beta(1, c)) of a row, with the first ten terms of -E ln(1 - v).
fn divergence(head: &[f64]) -> f64 {
    let one = |k: usize| {
        let [a, b] = parameters(head, k);
        integral(|log_u| {
            let log_v = log_fraction(log_u, [a, b]);
            let series: f64 = (1..=10).map(|m| (f64::from(m) * log_v).exp() / f64::from(m)).sum();
            (a - 1.0) * log_v + (CONCENTRATION - 1.0) * series
        }) + (a * b).ln()
            - CONCENTRATION.ln()
            - (b - 1.0) / b
    };
    (0..head.len() / 2 - 1).map(one).sum()
}

/// All checks of this file.
pub(super) fn checks<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let [b, j] = SIZES;
    let raw: Vec<f32> = numbers(b * 2 * j, 45).iter().map(|x| 1.5 * x).collect();
    let weights = numbers(b * j, 46);
    let wide: Vec<f64> = raw.iter().map(|&x| f64::from(x)).collect();
    let key = Key::new(3, Stream::Latent, 0);
    let mut head = Matrix::zeros(device, 1, b, 2 * j)?;
    device.write(&mut head.data, 0, &raw)?;
    let mut dw = Matrix::zeros(device, 1, b, j)?;
    device.write(&mut dw.data, 0, &weights)?;
    let mut checks = Vec::new();
    for (name, draw) in [("drawn", Some(Draw { keys: &[key], step: STEP })), ("expected", None)] {
        let of_row =
            |row: usize, head: &[f64]| if draw.is_some() { drawn(key, row, head) } else { means(head) };
        let wanted: Vec<f64> =
            wide.chunks(2 * j).enumerate().flat_map(|(row, head)| of_row(row, head)).collect();
        let slopes = slopes(&wide, |row, head| {
            of_row(row, head).iter().zip(&weights[row * j..]).map(|(v, &w)| v * f64::from(w)).sum()
        });
        let (mut got, mut d_head) = (Matrix::zeros(device, 1, b, j)?, Matrix::zeros(device, 1, b, 2 * j)?);
        device.stick_breaking(draw, &head, &mut got)?;
        device.stick_breaking_backward(draw, &head, &dw, &mut d_head)?;
        let got = read(device, &got.data, 0..b * j)?;
        checks.push(Check::new(format!("stick-breaking weights, {name}"), 2e-6, &got, &wanted));
        let got = read(device, &d_head.data, 0..b * 2 * j)?;
        checks.push(Check::new(format!("stick-breaking weights' gradient, {name}"), 1e-5, &got, &slopes));
    }
    let mut d_head = Matrix::zeros(device, 1, b, 2 * j)?;
    let mut sums = device.sums(1, b)?;
    let prior = StickPrior::Falling { concentration: CONCENTRATION as f32 };
    device.stick_prior(prior, &head, &mut d_head, &mut sums)?;
    let total = -device.take_sums(&mut sums)?[0].elbo();
    checks.push(Check::new("sticks' prior", 2e-6, &[total], &[wide.chunks(2 * j).map(divergence).sum()]));
    let wanted: Vec<f64> = slopes(&wide, |_, head| divergence(head) / b as f64);
    let got = read(device, &d_head.data, 0..b * 2 * j)?;
    checks.push(Check::new("sticks' prior's gradient", 1e-5, &got, &wanted));
    Ok(checks)
}

/// Central differences of a function of each row for each number of the row.
fn slopes(heads: &[f64], f: impl Fn(usize, &[f64]) -> f64) -> Vec<f64> {
    let width = heads.len() / SIZES[0];
    let slope = |i: usize| {
        let mut head = heads[i / width * width..][..width].to_vec();
        let mut moved = |by: f64| {
            head[i % width] = heads[i] + by;
            f(i / width, &head)
        };
        (moved(1e-4) - moved(-1e-4)) / 2e-4
    };
    (0..heads.len()).map(slope).collect()
}
