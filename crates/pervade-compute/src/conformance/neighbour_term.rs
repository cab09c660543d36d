//! The neighbour term.

use super::gradient::{CURVED, Step, Tensor, gradient_cases};
use super::inputs::*;
use super::prior::{log_joint, mixture_params};
use super::{Case, EveryOperation, Tolerance};
use crate::ops::WRONG_NEIGHBOURS;
use crate::{Gamma, NeighbourTerm, Result};

/// Pairs of rows, latents, components, clusters.
type Shape = [usize; 4];

/// lambda.
const WEIGHT: f32 = 3.5;

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let mut cases = Vec::new();
    // 30 pairs are two tasks of the CPU, 11 components more than one group of lanes, each with a rest.
    for (shape, step) in [
        ([30, 3, 11, 4], Some(CURVED)),
        ([1, 1, 2, 2], None),
        ([5, 2, 3, 2], None),
        ([26, 10, 150, 10], None),
    ] {
        cases.push(value(shape));
        cases.extend(gradients(shape, step));
    }
    cases.push(of_restarts());
    cases
}

/// What the term depends on: heads of rows and neighbours [2B, 2J], logits [C], means and log variances [C, J].
fn inputs([b, j, c, _]: Shape) -> [Vec<f32>; 4] {
    [numbers(4 * b * j, 81), numbers(c, 82), scaled(c * j, 83, 2.0), numbers(c * j, 84)]
}

/// The cluster of component `m`.
fn group(m: usize, n_clusters: usize) -> usize {
    m * 7 % n_clusters
}

/// Responsibilities of the components, and of the clusters, at the latent mean of each row.
fn posteriors(shape: Shape, at: &[Vec<f64>]) -> Vec<(Vec<f64>, Vec<f64>)> {
    let [_, j, c, n_clusters] = shape;
    let mixture = [vec![], vec![], at[1].clone(), at[2].clone(), at[3].clone()];
    let row = |head: &[f64]| {
        let joints = log_joint(&mixture, &head[..j], None);
        let total = log_sum_exp(&joints);
        let r: Vec<f64> = joints.iter().map(|l| (l - total).exp()).collect();
        let mut clusters = vec![0.0; n_clusters];
        (0..c).for_each(|m| clusters[group(m, n_clusters)] += r[m]);
        (r, clusters)
    };
    at[0].chunks(2 * j).map(row).collect()
}

fn agreement(ours: &[f64], theirs: &[f64]) -> f64 {
    ours.iter().zip(theirs).map(|(q, p)| q * p).sum()
}

fn value_by_definition(shape: Shape, at: &[Vec<f64>]) -> f64 {
    let (rows, b) = (posteriors(shape, at), shape[0]);
    let log = |i: usize| (f64::from(WRONG_NEIGHBOURS) + agreement(&rows[i].1, &rows[b + i].1)).ln();
    f64::from(WEIGHT) * (0..b).map(log).sum::<f64>()
}

/// Gradients of minus the mean over pairs, by the chain rule.
fn gradients_by_definition(shape: Shape, at: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let ([b, j, c, n_clusters], rows) = (shape, posteriors(shape, at));
    let mut gradients: Vec<Vec<f64>> = at.iter().map(|values| vec![0.0; values.len()]).collect();
    for i in 0..2 * b {
        let ((r, ours), (_, theirs)) = (&rows[i], &rows[(i + b) % (2 * b)]);
        let s = agreement(ours, theirs);
        for m in 0..c {
            let slope = r[m] * (theirs[group(m, n_clusters)] - s) / (f64::from(WRONG_NEIGHBOURS) + s);
            let slope = -f64::from(WEIGHT) / b as f64 * slope;
            gradients[1][m] += slope;
            for k in 0..j {
                let difference = at[0][i * 2 * j + k] - at[2][m * j + k];
                let precision = (-at[3][m * j + k]).exp();
                gradients[0][i * 2 * j + k] -= slope * difference * precision;
                gradients[2][m * j + k] += slope * difference * precision;
                gradients[3][m * j + k] += 0.5 * slope * (difference * difference * precision - 1.0);
            }
        }
    }
    gradients
}

/// The device's value and gradients. They are added to those of the prior, which are subtracted again.
fn run<D: EveryOperation>(device: &D, shape: Shape, at: &[Vec<f32>]) -> Result<(f64, Vec<Vec<f32>>)> {
    let without = prior_and_term(device, shape, at, false)?.1;
    let (value, with) = prior_and_term(device, shape, at, true)?;
    let subtract =
        |(with, without): (Vec<f32>, Vec<f32>)| with.iter().zip(&without).map(|(a, b)| a - b).collect();
    Ok((value, with.into_iter().zip(without).map(subtract).collect()))
}

/// The term, and the gradients of the prior or of both. Rows of neighbours get none from the prior.
fn prior_and_term<D: EveryOperation>(
    device: &D,
    [b, j, c, n_clusters]: Shape,
    at: &[Vec<f32>],
    with_term: bool,
) -> Result<(f64, Vec<Vec<f32>>)> {
    let (layout, slots) = one_mixture(c, j);
    let mut params = mixture_params(device, slots, layout.len(), [&at[1], &at[2], &at[3]])?;
    let (head, z) = (upload(device, [1, 2 * b, 2 * j], &at[0])?, zeros(device, [1, b, j])?);
    let (mut d_head, mut dz) = (zeros(device, [1, 2 * b, 2 * j])?, zeros(device, [1, b, j])?);
    let mut scratch = device.prior_scratch(1, b, b, slots)?;
    let mut sums = device.sums(1, b, 1)?;
    device.prior(
        Gamma::Exact,
        &mut params,
        slots,
        &head,
        &z,
        &mut scratch,
        &mut d_head,
        &mut dz,
        &mut sums,
    )?;
    if with_term {
        let clusters: Vec<f32> = (0..c).map(|m| group(m, n_clusters) as f32).collect();
        let mut groups = device.zeros(c)?;
        device.write(&mut groups, 0, &clusters)?;
        let term = NeighbourTerm { weight: WEIGHT, groups: &groups, n_clusters };
        device.neighbour_term(term, &mut params, slots, &head, &mut scratch, &mut d_head, &mut sums)?;
    }
    let mut gradients = vec![download(device, &d_head)?];
    for slot in [slots.logits, slots.means, slots.log_variances] {
        gradients.push(read(device, &params.gradients, slot.range())?);
    }
    Ok((device.take_sums(&mut sums)?[0].neighbour, gradients))
}

fn value<D: EveryOperation>(shape: Shape) -> Case<D> {
    Case::against(
        format!("neighbour term {shape:?}"),
        Tolerance::Fixed(2e-6),
        move |_| {
            let at: Vec<Vec<f64>> = inputs(shape).iter().map(|values| wide(values)).collect();
            Ok(vec![value_by_definition(shape, &at)])
        },
        move |device: &D| Ok(vec![run(device, shape, &inputs(shape))?.0]),
    )
}

fn gradients<D: EveryOperation>(shape: Shape, step: Option<Step>) -> Vec<Case<D>> {
    let [head, logits, means, log_variances] = inputs(shape);
    let tensors = vec![
        Tensor::new("head", head, step),
        Tensor::new("logits", logits, step),
        Tensor::new("means", means, step),
        Tensor::new("log variances", log_variances, step),
    ];
    gradient_cases(
        &format!("neighbour term {shape:?}"),
        Tolerance::Fixed(1e-5),
        tensors,
        move |at| gradients_by_definition(shape, at),
        move |device: &D, at| {
            let (value, gradients) = run(device, shape, at)?;
            Ok((-value / shape[0] as f64, gradients))
        },
    )
}

/// Two restarts side by side, the second with other groups, against each alone.
fn of_restarts<D: EveryOperation>() -> Case<D> {
    let (b, j, c) = (9, 4, 13);
    let run = move |device: &D, restarts: std::ops::Range<usize>| -> Result<Vec<f64>> {
        let ((layout, slots), r) = (one_mixture(c, j), restarts.len());
        let part = |n: usize, salt: u32| numbers(2 * n, salt)[restarts.start * n..restarts.end * n].to_vec();
        let mut params = params(device, r, &part(layout.len(), 85))?;
        let head = upload(device, [r, 2 * b, 2 * j], &part(2 * b * 2 * j, 86))?;
        let z = upload(device, [r, b, j], &part(b * j, 87))?;
        let (mut d_head, mut dz) = (zeros(device, [r, 2 * b, 2 * j])?, zeros(device, [r, b, j])?);
        let (mut scratch, mut sums) = (device.prior_scratch(r, b, b, slots)?, device.sums(r, b, 1)?);
        let clusters: Vec<f32> =
            restarts.clone().flat_map(|restart| (0..c).map(move |m| (m % (2 + restart)) as f32)).collect();
        let mut groups = device.zeros(r * c)?;
        device.write(&mut groups, 0, &clusters)?;
        let term = NeighbourTerm { weight: WEIGHT, groups: &groups, n_clusters: 3 };
        device.prior(
            Gamma::Exact,
            &mut params,
            slots,
            &head,
            &z,
            &mut scratch,
            &mut d_head,
            &mut dz,
            &mut sums,
        )?;
        device.neighbour_term(term, &mut params, slots, &head, &mut scratch, &mut d_head, &mut sums)?;
        let values = device.take_sums(&mut sums)?.into_iter().map(|terms| terms.neighbour);
        let gradients = read(device, &params.gradients, 0..r * params.stride)?;
        let mut all: Vec<f64> = values.collect();
        all.extend(wide(&download(device, &d_head)?));
        all.extend(wide(&gradients));
        Ok(all)
    };
    Case::against(
        "neighbour term, two restarts against each alone",
        Tolerance::Fixed(0.0),
        move |device: &D| {
            let (first, second) = (run(device, 0..1)?, run(device, 1..2)?);
            let rest = first.len() - 1 - 2 * b * 2 * j;
            let split = |all: &[f64]| {
                [all[..1].to_vec(), all[1..all.len() - rest].to_vec(), all[all.len() - rest..].to_vec()]
            };
            let pairs = split(&first).into_iter().zip(split(&second));
            Ok(pairs.flat_map(|(a, b)| [a, b].concat()).collect())
        },
        move |device: &D| run(device, 0..2),
    )
}
