//! The mixture prior and the entropy of q(z|x), and log joints.

use std::f64::consts::TAU;

use super::gradient::{CURVED, Step, Tensor, gradient_cases};
use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::{Gamma, MixtureSlots, Params, Result, Terms};

/// Rows, latents, components, samples per row.
type Shape = [usize; 4];

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let mut cases = Vec::new();
    for gamma in [Gamma::Exact, Gamma::Sampled] {
        // 30 rows are two tasks of the CPU, 11 components more than one group of lanes, each with a rest.
        for (shape, tolerance, step) in [
            ([30, 3, 11, 2], 1e-5, Some(CURVED)),
            ([11, 3, 5, 1], 1e-5, None),
            ([1, 1, 1, 1], 1e-5, None),
            ([60, 3, 11, 2], 1e-5, None),
            // The parts of 150 components nearly cancel in the gradient for z.
            ([26, 10, 150, 1], 3e-5, None),
        ] {
            cases.push(log_joints(gamma, shape));
            cases.extend(terms(gamma, shape));
            cases.extend(gradients(gamma, shape, Tolerance::Fixed(tolerance), step));
        }
    }
    cases
}

/// What the prior depends on: heads [B, 2J], z [L B, J], logits [C], means and log variances [C, J].
fn inputs([b, j, c, samples]: Shape) -> [Vec<f32>; 5] {
    let sizes = [b * 2 * j, samples * b * j, c, c * j, c * j];
    let mut salt = 40;
    sizes.map(|n| {
        salt += 1;
        numbers(n, salt)
    })
}

fn wide_inputs(shape: Shape) -> Vec<Vec<f64>> {
    inputs(shape).iter().map(|values| wide(values)).collect()
}

/// log w_c + E log N(point + noise of these variances; mu_c, s2_c) for each component.
pub(super) fn log_joint(at: &[Vec<f64>], point: &[f64], variances: Option<&[f64]>) -> Vec<f64> {
    let [_, _, logits, means, log_variances] = at else { unreachable!("five inputs") };
    let (j, total) = (point.len(), log_sum_exp(logits));
    let density = |m: usize| -> f64 {
        let column = |k: usize| {
            let (mean, l) = (means[m * j + k], log_variances[m * j + k]);
            let variance = variances.map_or(0.0, |variances| variances[k]);
            TAU.ln() + l + (variance + (point[k] - mean).powi(2)) * (-l).exp()
        };
        logits[m] - total - 0.5 * (0..j).map(column).sum::<f64>()
    };
    (0..logits.len()).map(density).collect()
}

/// A sample of a row, and what its part of the ELBO is made of.
struct Sample<'a> {
    means: &'a [f64],
    log_variances: &'a [f64],
    variances: Vec<f64>,
    z: &'a [f64],
    /// Log joints in expectation under q(z|x).
    expected: Vec<f64>,
    log_gamma: Vec<f64>,
}

impl<'a> Sample<'a> {
    fn new(gamma: Gamma, at: &'a [Vec<f64>], j: usize, sample: usize) -> Self {
        let row = sample % (at[0].len() / (2 * j));
        let (means, log_variances) = at[0][row * 2 * j..][..2 * j].split_at(j);
        let variances: Vec<f64> = log_variances.iter().map(|l| l.exp()).collect();
        let z = &at[1][sample * j..][..j];
        let expected = log_joint(at, means, Some(&variances));
        let logits = match gamma {
            Gamma::Exact => expected.clone(),
            Gamma::Sampled => log_joint(at, z, None),
        };
        let total = log_sum_exp(&logits);
        let log_gamma = logits.iter().map(|l| l - total).collect();
        Self { means, log_variances, variances, z, expected, log_gamma }
    }

    /// Latent, cluster and entropy terms.
    fn terms(&self, log_weights: &[f64]) -> [f64; 3] {
        let mut terms = [0.0; 3];
        for ((log_gamma, expected), log_weight) in self.log_gamma.iter().zip(&self.expected).zip(log_weights)
        {
            terms[0] += log_gamma.exp() * (expected - log_weight);
            terms[1] += log_gamma.exp() * (log_weight - log_gamma);
        }
        terms[2] = self.log_variances.iter().map(|l| 0.5 * (1.0 + TAU.ln() + l)).sum();
        terms
    }

    /// Derivatives of the ELBO for the expected log joints, and for those at z, which gamma depends on.
    fn slopes(&self, gamma: Gamma) -> Vec<[f64; 2]> {
        let each = || self.log_gamma.iter().zip(&self.expected);
        let mean: f64 = each().map(|(l, e)| l.exp() * (e - l)).sum();
        let at_z = |l: &f64, e: &f64| if gamma == Gamma::Sampled { l.exp() * (e - l - mean) } else { 0.0 };
        each().map(|(l, e)| [l.exp(), at_z(l, e)]).collect()
    }
}

fn log_weights(at: &[Vec<f64>]) -> Vec<f64> {
    let total = log_sum_exp(&at[2]);
    at[2].iter().map(|logit| logit - total).collect()
}

/// Gradients of minus the ELBO without reconstruction, its mean over rows, by the chain rule.
fn gradients_by_definition(gamma: Gamma, [b, j, _, samples]: Shape, at: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut gradients: Vec<Vec<f64>> = at.iter().map(|values| vec![0.0; values.len()]).collect();
    let weights: Vec<f64> = log_weights(at).iter().map(|l| l.exp()).collect();
    let share = -1.0 / (b * samples) as f64;
    for index in 0..samples * b {
        let sample = Sample::new(gamma, at, j, index);
        let head = index % b * 2 * j;
        let slopes = sample.slopes(gamma);
        let mass: f64 = slopes.iter().map(|[e, z]| e + z).sum();
        for k in 0..j {
            gradients[0][head + j + k] += share * 0.5;
        }
        for (m, [for_expected, for_z]) in slopes.into_iter().enumerate() {
            gradients[2][m] += share * (for_expected + for_z - mass * weights[m]);
            for k in 0..j {
                let (mean, l) = (at[3][m * j + k], at[4][m * j + k]);
                let precision = (-l).exp();
                let (from_mean, from_z) = (sample.means[k] - mean, sample.z[k] - mean);
                let square = sample.variances[k] + from_mean * from_mean;
                gradients[0][head + k] -= share * for_expected * from_mean * precision;
                gradients[0][head + j + k] -= share * for_expected * 0.5 * sample.variances[k] * precision;
                gradients[1][index * j + k] -= share * for_z * from_z * precision;
                gradients[3][m * j + k] += share * (for_expected * from_mean + for_z * from_z) * precision;
                let for_expected = for_expected * (square * precision - 1.0);
                let for_z = for_z * (from_z * from_z * precision - 1.0);
                gradients[4][m * j + k] += share * 0.5 * (for_expected + for_z);
            }
        }
    }
    gradients
}

pub(super) fn mixture_params<D: EveryOperation>(
    device: &D,
    slots: MixtureSlots,
    len: usize,
    [logits, means, log_variances]: [&[f32]; 3],
) -> Result<Params<D::Buffer>> {
    let mut params = Params::zeros(device, 1, len)?;
    device.write(&mut params.values, slots.logits.offset, logits)?;
    device.write(&mut params.values, slots.means.offset, means)?;
    device.write(&mut params.values, slots.log_variances.offset, log_variances)?;
    Ok(params)
}

/// The device's terms and gradients.
fn run<D: EveryOperation>(
    device: &D,
    gamma: Gamma,
    [b, j, c, samples]: Shape,
    at: &[Vec<f32>],
) -> Result<(Terms, Vec<Vec<f32>>)> {
    let (layout, slots) = one_mixture(c, j);
    let mut params = mixture_params(device, slots, layout.len(), [&at[2], &at[3], &at[4]])?;
    let (head, z) = (upload(device, [1, b, 2 * j], &at[0])?, upload(device, [1, samples * b, j], &at[1])?);
    let (mut d_head, mut dz) = (occupied(device, [1, b, 2 * j])?, occupied(device, [1, samples * b, j])?);
    let mut scratch = device.prior_scratch(1, b, samples * b, slots)?;
    let mut sums = device.sums(1, b, samples)?;
    device.prior(gamma, &mut params, slots, &head, &z, &mut scratch, &mut d_head, &mut dz, &mut sums)?;
    let mut gradients = vec![download(device, &d_head)?, download(device, &dz)?];
    for slot in [slots.logits, slots.means, slots.log_variances] {
        gradients.push(read(device, &params.gradients, slot.range())?);
    }
    Ok((device.take_sums(&mut sums)?[0], gradients))
}

fn log_joints<D: EveryOperation>(gamma: Gamma, shape: Shape) -> Case<D> {
    let [b, j, c, _] = shape;
    let expected = move || {
        let at = wide_inputs(shape);
        let row = |head: &[f64]| {
            let variances: Vec<f64> = head[j..].iter().map(|l| l.exp()).collect();
            log_joint(&at, &head[..j], (gamma == Gamma::Exact).then_some(&variances))
        };
        at[0].chunks(2 * j).flat_map(row).collect()
    };
    let name = format!("log joints, {gamma} gamma {shape:?}");
    Case::new(name, Tolerance::Fixed(5e-7), expected, move |device: &D| {
        let ([head, _, logits, means, log_variances], (layout, slots)) = (inputs(shape), one_mixture(c, j));
        let params = mixture_params(device, slots, layout.len(), [&logits, &means, &log_variances])?;
        let (head, mut out) = (upload(device, [1, b, 2 * j], &head)?, occupied(device, [1, b, c])?);
        device.log_joint(gamma, &params, slots, &head, &mut out)?;
        download(device, &out)
    })
}

/// Each term, and their sum: terms of opposite signs leave less of it.
fn terms<D: EveryOperation>(gamma: Gamma, shape: Shape) -> [Case<D>; 2] {
    let [b, j, _, samples] = shape;
    let definition = move || {
        let (at, mut totals) = (wide_inputs(shape), [0.0; 3]);
        for sample in 0..samples * b {
            let terms = Sample::new(gamma, &at, j, sample).terms(&log_weights(&at));
            totals.iter_mut().zip(terms).for_each(|(total, term)| *total += term / samples as f64);
        }
        totals.to_vec()
    };
    let name = format!("mixture prior, {gamma} gamma {shape:?}");
    let sum = Case::against(
        format!("{name}, sum of terms"),
        Tolerance::Fixed(2e-6),
        move |_| Ok(vec![definition().iter().sum()]),
        move |device: &D| Ok(vec![run(device, gamma, shape, &inputs(shape))?.0.elbo()]),
    );
    let each = Case::against(
        format!("{name}, terms"),
        Tolerance::Fixed(1e-6),
        move |_| Ok(definition()),
        move |device: &D| {
            let terms = run(device, gamma, shape, &inputs(shape))?.0;
            Ok(vec![terms.latent, terms.cluster, terms.entropy])
        },
    );
    [each, sum]
}

fn gradients<D: EveryOperation>(
    gamma: Gamma,
    shape: Shape,
    tolerance: Tolerance,
    step: Option<Step>,
) -> Vec<Case<D>> {
    let [head, z, logits, means, log_variances] = inputs(shape);
    // The exact prior does not depend on z.
    let step_of_z = step.filter(|_| gamma == Gamma::Sampled);
    let tensors = vec![
        Tensor::new("head", head, step),
        Tensor::new("z", z, step_of_z),
        Tensor::new("logits", logits, step),
        Tensor::new("means", means, step),
        Tensor::new("log variances", log_variances, step),
    ];
    gradient_cases(
        &format!("mixture prior, {gamma} gamma {shape:?}"),
        tolerance,
        tensors,
        move |at| gradients_by_definition(gamma, shape, at),
        move |device: &D, at| {
            let (terms, gradients) = run(device, gamma, shape, at)?;
            Ok((-terms.elbo() / shape[0] as f64, gradients))
        },
    )
}
