//! DEC's clustering loss.

use super::gradient::{CURVED, Step, Tensor, central_differences, gradient_cases};
use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::{Params, Result};

/// Restarts, rows, latents, components.
type Shape = [usize; 4];

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    // More components than a warp has lanes, and more latents than a row's block has warps.
    [of_shape([2, 7, 3, 5], Some(CURVED)), of_shape([1, 11, 6, 37], None)].into_iter().flatten().collect()
}

/// Rows that sum to one; a target of zero has no logarithm and must not count.
fn targets([r, b, _, c]: Shape) -> Vec<f32> {
    let mut targets: Vec<f32> = numbers(r * b * c, 42).iter().map(|x| x.max(0.0)).collect();
    for row in targets.chunks_mut(c) {
        row[0] = 0.5;
        row[1] = 0.0;
        let total: f32 = row.iter().sum();
        row.iter_mut().for_each(|p| *p /= total);
    }
    targets
}

/// z [R, B, J] and means [R, C, J].
fn inputs([r, b, j, c]: Shape) -> [Vec<f32>; 2] {
    [numbers(r * b * j, 40), numbers(r * c * j, 41)]
}

/// KL(P || Q) summed over rows.
fn divergence([_, b, j, c]: Shape, at: &[Vec<f64>], targets: &[f64]) -> f64 {
    let row = |i: usize| -> f64 {
        let (z, means) = (&at[0][i * j..][..j], &at[1][i / b * c * j..][..c * j]);
        let affinity = |m: usize| {
            let square: f64 = (0..j).map(|k| (z[k] - means[m * j + k]).powi(2)).sum();
            1.0 / (1.0 + square)
        };
        let total: f64 = (0..c).map(affinity).sum();
        let term = |m: usize| {
            let p = targets[i * c + m];
            if p > 0.0 { p * (p.ln() - (affinity(m) / total).ln()) } else { 0.0 }
        };
        (0..c).map(term).sum()
    };
    (0..at[0].len() / j).map(row).sum()
}

/// The device's sum of KL(P || Q), and gradients of its mean over rows for z and the means.
fn run<D: EveryOperation>(
    device: &D,
    [r, b, j, c]: Shape,
    at: &[Vec<f32>],
    targets: &[f32],
) -> Result<(f64, Vec<Vec<f32>>)> {
    let (layout, slots) = one_mixture(c, j);
    let mut params = Params::zeros(device, r, layout.len())?;
    let of_restart = |restart: usize| restart * layout.len() + slots.means.offset;
    for (restart, means) in at[1].chunks(c * j).enumerate() {
        device.write(&mut params.values, of_restart(restart), means)?;
    }
    let (z, targets) = (upload(device, [r, b, j], &at[0])?, upload(device, [r, b, c], targets)?);
    let (mut affinity_gradient, mut dz) = (zeros(device, [r, b, c])?, occupied(device, [r, b, j])?);
    let mut sums = device.sums(r, b, 1)?;
    device.soft_clusters(&mut params, slots, &targets, &z, &mut affinity_gradient, &mut dz, &mut sums)?;
    let mut d_means = Vec::new();
    for restart in 0..r {
        let start = of_restart(restart);
        d_means.extend(read(device, &params.gradients, start..start + c * j)?);
    }
    let total: f64 = device.take_sums(&mut sums)?.iter().map(|terms| -terms.elbo()).sum();
    Ok((total, vec![download(device, &dz)?, d_means]))
}

fn of_shape<D: EveryOperation>(shape: Shape, step: Option<Step>) -> Vec<Case<D>> {
    let name = format!("soft clusters {shape:?}");
    let mut cases = vec![Case::against(
        name.clone(),
        Tolerance::Fixed(2e-6),
        move |_| {
            let at = inputs(shape).map(|values| wide(&values));
            Ok(vec![divergence(shape, &at, &wide(&targets(shape)))])
        },
        move |device: &D| Ok(vec![run(device, shape, &inputs(shape), &targets(shape))?.0]),
    )];
    let [z, means] = inputs(shape);
    let b = shape[1] as f64;
    cases.extend(gradient_cases(
        &name,
        Tolerance::Fixed(1e-5),
        vec![Tensor::new("z", z, step), Tensor::new("means", means, step)],
        move |at| {
            let targets = wide(&targets(shape));
            central_differences(at, |at| divergence(shape, at, &targets) / b)
        },
        move |device: &D, at| {
            let (total, gradients) = run(device, shape, at, &targets(shape))?;
            Ok((total / b, gradients))
        },
    ));
    cases
}
