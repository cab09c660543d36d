//! Stick-breaking weights and their prior: expectations as integrals over the uniform number that a fraction is drawn
//! from, gradients as central differences.

use super::gradient::{CURVED, Step, Tensor, central_differences, gradient_cases};
use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::random::Key;
use crate::{DRAWN_FRACTION, Draw, Result, SERIES_TERMS, StickPrior};

/// Above 32 bits, so that a device that counts in fewer is found.
const STEP: u64 = (1 << 34) + 5;

/// Restarts, rows, weights.
type Shape = [usize; 3];

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let priors = [StickPrior::Falling { concentration: 5.0 }, StickPrior::Dirichlet { concentration: 0.7 }];
    let mut cases = Vec::new();
    // 70 weights: more than a CUDA block has threads.
    for (shape, limit, step) in [([2, 3, 6], 2.0, Some(CURVED)), ([1, 3, 70], 1.5, None)] {
        for is_drawn in [true, false] {
            cases.extend(weights(shape, is_drawn, limit, step));
        }
        for prior in priors {
            cases.extend(prior_cases(shape, prior, limit, step));
        }
    }
    cases.extend([true, false].map(beyond_bounds));
    cases
}

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

/// A fraction from the head's two numbers: as drawn at (restart's key, row, index), or its mean.
fn fraction(draw: Option<(Key, usize, usize)>, raw: [f64; 2]) -> f64 {
    let parameters = raw.map(softplus);
    let Some((key, row, k)) = draw else {
        return integral(|log_u| log_fraction(log_u, parameters).exp());
    };
    let word = key.draw(STEP, row as u32, k as u32 / 4)[k % 4];
    let [low, high] = DRAWN_FRACTION;
    let u = low + (high - low) * ((f64::from(word >> 8) + 0.5) / 16_777_216.0);
    log_fraction(u.ln(), parameters).exp()
}

/// The weights of a row, from its fractions.
fn broken(fractions: &[f64]) -> Vec<f64> {
    let mut left = 1.0;
    let mut weights = Vec::new();
    for v in fractions {
        weights.push(v * left);
        left *= 1.0 - v;
    }
    weights.push(left);
    weights
}

/// KL(Kumaraswamy(a, b) || Beta(first, second)), with the first terms of the series for -E ln(1 - v).
fn divergence(raw: [f64; 2], [first, second]: [f64; 2]) -> f64 {
    let [a, b] = raw.map(softplus);
    let log_beta =
        integral(|log_u| ((first - 1.0) * log_u + (second - 1.0) * (-log_u.exp_m1()).ln()).exp()).ln();
    integral(|log_u| {
        let log_v = log_fraction(log_u, [a, b]);
        let series: f64 = (1..=SERIES_TERMS).map(|m| (f64::from(m) * log_v).exp() / f64::from(m)).sum();
        (a - first) * log_v + (second - 1.0) * series
    }) + (a * b).ln()
        + log_beta
        - (b - 1.0) / b
}

/// The two parameters of the Beta distribution of fraction `k`.
fn beta_parameters(prior: StickPrior, k: usize, n_weights: usize) -> [f64; 2] {
    match prior {
        StickPrior::Falling { concentration } => [1.0, f64::from(concentration)],
        StickPrior::Dirichlet { concentration } => {
            let c = f64::from(concentration);
            [c, c * (n_weights - 1 - k) as f64]
        }
    }
}

/// The head's two numbers of each fraction that counts: (row among all, fraction, numbers).
fn fractions_of(head: &[f64], j: usize) -> impl Iterator<Item = (usize, usize, [f64; 2])> {
    head.chunks(2 * j)
        .enumerate()
        .flat_map(move |(row, head)| (0..j - 1).map(move |k| (row, k, [head[k], head[j + k]])))
}

fn head([r, b, j]: Shape, limit: f32) -> Vec<f32> {
    scaled(r * b * 2 * j, 50, limit)
}

/// The weights of all rows, in double precision.
fn weights_by_definition([r, b, j]: Shape, is_drawn: bool, head: &[f64]) -> Vec<f64> {
    let keys = keys(r);
    let fractions: Vec<f64> = fractions_of(head, j)
        .map(|(row, k, raw)| fraction(is_drawn.then(|| (keys[row / b], row % b, k)), raw))
        .collect();
    fractions.chunks(j - 1).flat_map(broken).collect()
}

/// The gradient of the sum of dw w for the head: differences of each fraction, and the chain rule behind it.
fn weights_gradient([r, b, j]: Shape, is_drawn: bool, head: &[f64], dw: &[f64]) -> Vec<f64> {
    let (keys, mut gradient) = (keys(r), vec![0.0; head.len()]);
    let draw = |row: usize, k: usize| is_drawn.then(|| (keys[row / b], row % b, k));
    let fractions: Vec<f64> =
        fractions_of(head, j).map(|(row, k, raw)| fraction(draw(row, k), raw)).collect();
    for (row, k, raw) in fractions_of(head, j) {
        let of_row = &fractions[row * (j - 1)..][..j - 1];
        let of_weights = central_differences(&[vec![of_row[k]]], |at| {
            let mut fractions = of_row.to_vec();
            fractions[k] = at[0][0];
            broken(&fractions).iter().zip(&dw[row * j..]).map(|(w, d)| w * d).sum()
        })[0][0];
        let of_fraction =
            central_differences(&[raw.to_vec()], |at| fraction(draw(row, k), [at[0][0], at[0][1]]));
        gradient[row * 2 * j + k] = of_weights * of_fraction[0][0];
        gradient[row * 2 * j + j + k] = of_weights * of_fraction[0][1];
    }
    gradient
}

fn forward<D: EveryOperation>(
    device: &D,
    [r, b, j]: Shape,
    is_drawn: bool,
    head: &[f32],
) -> Result<Vec<f32>> {
    let (head, mut weights) = (upload(device, [r, b, 2 * j], head)?, occupied(device, [r, b, j])?);
    let keys = keys(r);
    device.stick_breaking(is_drawn.then_some(Draw { keys: &keys, step: STEP }), &head, &mut weights)?;
    download(device, &weights)
}

/// What the backward pass starts with: it adds to what is there.
const BEFORE: f32 = 0.25;

fn backward<D: EveryOperation>(
    device: &D,
    [r, b, j]: Shape,
    is_drawn: bool,
    head: &[f32],
    dw: &[f32],
    before: f32,
) -> Result<Vec<f32>> {
    let (head, dw) = (upload(device, [r, b, 2 * j], head)?, upload(device, [r, b, j], dw)?);
    let mut d_head = upload(device, [r, b, 2 * j], &vec![before; r * b * 2 * j])?;
    let keys = keys(r);
    let draw = is_drawn.then_some(Draw { keys: &keys, step: STEP });
    device.stick_breaking_backward(draw, &head, &dw, &mut d_head)?;
    Ok(download(device, &d_head)?.iter().map(|d| d - before).collect())
}

fn weights<D: EveryOperation>(shape: Shape, is_drawn: bool, limit: f32, step: Option<Step>) -> Vec<Case<D>> {
    let how = if is_drawn { "drawn" } else { "expected" };
    let name = format!("stick-breaking weights, {how} {shape:?}");
    let dw = numbers(shape.iter().product(), 51);
    let mut cases = vec![Case::new(
        name.clone(),
        Tolerance::Fixed(2e-6),
        move || weights_by_definition(shape, is_drawn, &wide(&head(shape, limit))),
        move |device: &D| forward(device, shape, is_drawn, &head(shape, limit)),
    )];
    // Numbers that are added to others lose digits: what is added to is zero where no difference is taken.
    let before = if step.is_some() { BEFORE } else { 0.0 };
    let wide_dw = wide(&dw);
    cases.extend(gradient_cases(
        &name,
        Tolerance::Fixed(1e-5),
        vec![Tensor::new("head", head(shape, limit), step)],
        move |at| vec![weights_gradient(shape, is_drawn, &at[0], &wide_dw)],
        move |device: &D, at| {
            let loss = weighted_sum(&dw, &forward(device, shape, is_drawn, &at[0])?);
            Ok((loss, vec![backward(device, shape, is_drawn, &at[0], &dw, before)?]))
        },
    ));
    cases
}

/// Far beyond the parameters' bounds weights are numbers that sum to one, and no gradient passes.
fn beyond_bounds<D: EveryOperation>(is_drawn: bool) -> Case<D> {
    let shape @ [r, b, j] = [2, 3, 6];
    let how = if is_drawn { "drawn" } else { "expected" };
    let name = format!("stick-breaking weights, {how}, beyond the parameters' bounds");
    let expected = move || [vec![1.0; r * b], vec![0.0; r * b * 2 * j]].concat();
    Case::new(name, Tolerance::Fixed(1e-6), expected, move |device: &D| {
        let head: Vec<f32> =
            (0..r * b * 2 * j).map(|i| if i.is_multiple_of(3) { -200.0 } else { 1e5 }).collect();
        let sums = forward(device, shape, is_drawn, &head)?.chunks(j).map(|w| w.iter().sum()).collect();
        let gradient = backward(device, shape, is_drawn, &head, &numbers(r * b * j, 51), 0.0)?;
        Ok([sums, gradient].concat())
    })
}

/// The device's sum of KL(q || prior) over all rows, and the gradient of its mean over rows.
fn run_prior<D: EveryOperation>(
    device: &D,
    [r, b, j]: Shape,
    prior: StickPrior,
    head: &[f32],
) -> Result<(f64, Vec<f32>)> {
    let (head, mut d_head) = (upload(device, [r, b, 2 * j], head)?, occupied(device, [r, b, 2 * j])?);
    let mut sums = device.sums(r, b, 1)?;
    device.stick_prior(prior, &head, &mut d_head, &mut sums)?;
    let total = device.take_sums(&mut sums)?.iter().map(|terms| -terms.elbo()).sum();
    Ok((total, download(device, &d_head)?))
}

fn prior_cases<D: EveryOperation>(
    shape: Shape,
    prior: StickPrior,
    limit: f32,
    step: Option<Step>,
) -> Vec<Case<D>> {
    let [_, b, j] = shape;
    let name = format!("prior of sticks, {prior:?} {shape:?}");
    let mut cases = vec![Case::against(
        name.clone(),
        Tolerance::Fixed(2e-6),
        move |_| {
            let head = wide(&head(shape, limit));
            let each = |(_, k, raw)| divergence(raw, beta_parameters(prior, k, j));
            Ok(vec![fractions_of(&head, j).map(each).sum()])
        },
        move |device: &D| Ok(vec![run_prior(device, shape, prior, &head(shape, limit))?.0]),
    )];
    cases.extend(gradient_cases(
        &name,
        Tolerance::Fixed(1e-5),
        vec![Tensor::new("head", head(shape, limit), step)],
        move |at| {
            let mut gradient = vec![0.0; at[0].len()];
            for (row, k, raw) in fractions_of(&at[0], j) {
                let beta = beta_parameters(prior, k, j);
                let slopes =
                    central_differences(&[raw.to_vec()], |at| divergence([at[0][0], at[0][1]], beta));
                gradient[row * 2 * j + k] = slopes[0][0] / b as f64;
                gradient[row * 2 * j + j + k] = slopes[0][1] / b as f64;
            }
            vec![gradient]
        },
        move |device: &D, at| {
            let (total, gradient) = run_prior(device, shape, prior, &at[0])?;
            Ok((total / b as f64, vec![gradient]))
        },
    ));
    cases
}
