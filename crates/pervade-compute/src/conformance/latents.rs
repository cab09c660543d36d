//! The sampled latent.

use super::gradient::{CURVED, Step, Tensor, gradient_cases};
use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::random::Key;
use crate::{Draw, LOG_VARIANCE_LIMIT, Matrix, Result};

/// Above 32 bits, so that a device that counts in fewer is found.
const STEP: u64 = (1 << 40) + 7;

/// Restarts, rows, latents, samples per row.
type Shape = [usize; 4];

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let mut cases = Vec::new();
    for shape in [[2, 1, 1, 1], [2, 9, 10, 1], [2, 50, 7, 3]] {
        let head = head(shape);
        let wide_head = wide(&head);
        cases.push(Case::new(
            format!("sampled latents {shape:?}"),
            Tolerance::Fixed(5e-7),
            move || sampled(shape, &wide_head),
            move |device: &D| sample(device, shape, &head, true),
        ));
        cases.extend(gradients(shape, true, None));
    }
    cases.push(means([2, 9, 10, 2]));
    for in_two_parts in [true, false] {
        cases.extend(gradients([1, 4, 5, 3], in_two_parts, Some(CURVED)));
    }
    cases.push(beyond_bounds());
    cases
}

fn head([r, b, j, _]: Shape) -> Vec<f32> {
    numbers(r * b * 2 * j, 20)
}

/// Box and Muller in double precision.
fn normal(key: Key, row: usize, column: usize) -> f64 {
    let words = key.draw(STEP, row as u32, column as u32 / 4);
    let (a, b) = (words[column % 4 / 2 * 2], words[column % 4 / 2 * 2 + 1]);
    let radius = (-2.0 * ((f64::from(a >> 8) + 1.0) / 16_777_216.0).ln()).sqrt();
    let angle = f64::from(b) / 4_294_967_296.0 * std::f64::consts::TAU;
    radius * if column.is_multiple_of(2) { angle.cos() } else { angle.sin() }
}

/// For each latent of each sample: where its mean is in the head, and its standard deviation times noise.
fn offsets([r, b, j, samples]: Shape, head: &[f64]) -> Vec<(usize, f64)> {
    let (keys, limit) = (keys(r), f64::from(LOG_VARIANCE_LIMIT));
    let offset = |i: usize| {
        let (restart, row, column) = (i / (samples * b * j), i / j % (samples * b), i % j);
        let mean = (restart * b + row % b) * 2 * j + column;
        let log_variance = head[mean + j].clamp(-limit, limit);
        (mean, (0.5 * log_variance).exp() * normal(keys[restart], row, column))
    };
    (0..r * samples * b * j).map(offset).collect()
}

fn sampled(shape: Shape, head: &[f64]) -> Vec<f64> {
    offsets(shape, head).into_iter().map(|(mean, offset)| head[mean] + offset).collect()
}

/// Rows of a head beyond those of the batch.
const MORE: usize = 3;

/// A head with more rows than the batch: the others must not count.
fn upload_longer<D: EveryOperation>(
    device: &D,
    [restarts, rows, columns]: [usize; 3],
    values: &[f32],
) -> Result<Matrix<D::Buffer>> {
    let longer = values
        .chunks(rows * columns)
        .flat_map(|of_restart| [of_restart, &[f32::NAN].repeat(MORE * columns)].concat());
    upload(device, [restarts, rows + MORE, columns], &longer.collect::<Vec<f32>>())
}

fn sample<D: EveryOperation>(
    device: &D,
    [r, b, j, samples]: Shape,
    head: &[f32],
    is_drawn: bool,
) -> Result<Vec<f32>> {
    let keys = keys(r);
    let (head, mut z) = (upload_longer(device, [r, b, 2 * j], head)?, occupied(device, [r, samples * b, j])?);
    let draw = is_drawn.then_some(Draw { keys: &keys, step: STEP });
    device.sample_latents(draw, b, &head, &mut z)?;
    download(device, &z)
}

fn means<D: EveryOperation>(shape: Shape) -> Case<D> {
    let expected = move || {
        offsets(shape, &wide(&head(shape))).iter().map(|(mean, _)| f64::from(head(shape)[*mean])).collect()
    };
    Case::new("latents without a draw", Tolerance::Fixed(0.0), expected, move |device: &D| {
        sample(device, shape, &head(shape), false)
    })
}

/// What the backward pass starts with: it adds to what is there.
const BEFORE: f32 = 0.5;

/// The gradient of the sum of (dz + dz_prior) z for the head.
fn backward<D: EveryOperation>(
    device: &D,
    shape: Shape,
    head: &[f32],
    dz: &[f32],
    dz_prior: Option<&[f32]>,
) -> Result<Vec<f32>> {
    let [r, b, j, samples] = shape;
    let of_samples = [r, samples * b, j];
    let z = upload(device, of_samples, &sample(device, shape, head, true)?)?;
    let (head, dz) = (upload_longer(device, [r, b, 2 * j], head)?, upload(device, of_samples, dz)?);
    let dz_prior = dz_prior.map(|dz| upload(device, of_samples, dz)).transpose()?;
    let mut d_head = upload_longer(device, [r, b, 2 * j], &vec![BEFORE; r * b * 2 * j])?;
    device.sample_latents_backward(b, &head, &z, &dz, dz_prior.as_ref(), &mut d_head)?;
    let d_head = download(device, &d_head)?;
    let of_batch = d_head.chunks((b + MORE) * 2 * j).flat_map(|rows| &rows[..b * 2 * j]);
    Ok(of_batch.map(|d| d - BEFORE).collect())
}

/// The gradient of z comes from the decoder, or in two parts, from the decoder and the prior.
fn gradients<D: EveryOperation>(shape: Shape, in_two_parts: bool, step: Option<Step>) -> Vec<Case<D>> {
    let [r, b, j, samples] = shape;
    let dz = numbers(r * samples * b * j, 21);
    let dz_prior = in_two_parts.then(|| numbers(dz.len(), 22));
    let none = vec![0.0; dz.len()];
    let second = dz_prior.as_ref().unwrap_or(&none);
    let total: Vec<f64> = dz.iter().zip(second).map(|(&a, &b)| f64::from(a) + f64::from(b)).collect();
    let parts = if in_two_parts { "in two parts" } else { "in one part" };
    gradient_cases(
        &format!("sampled latents {shape:?}, {parts}"),
        Tolerance::Fixed(1e-6),
        vec![Tensor::new("head", head(shape), step)],
        move |at| {
            let mut d_head = vec![0.0; at[0].len()];
            for ((mean, offset), d) in offsets(shape, &at[0]).into_iter().zip(&total) {
                d_head[mean] += d;
                d_head[mean + j] += 0.5 * d * offset;
            }
            vec![d_head]
        },
        move |device: &D, at| {
            let z = sample(device, shape, &at[0], true)?;
            let of_prior = dz_prior.as_ref().map_or(0.0, |dz| weighted_sum(dz, &z));
            let d_head = backward(device, shape, &at[0], &dz, dz_prior.as_deref())?;
            Ok((weighted_sum(&dz, &z) + of_prior, vec![d_head]))
        },
    )
}

/// Beyond the bounds of a log variance no gradient passes.
fn beyond_bounds<D: EveryOperation>() -> Case<D> {
    let shape @ [_, b, j, samples] = [1, 4, 5, 3];
    let name = "sampled latents, gradient for log variances beyond their bounds";
    Case::new(
        name,
        Tolerance::Fixed(0.0),
        || vec![0.0; 2],
        move |device: &D| {
            let mut head = head(shape);
            let beyond = [j, 3 * j + 2];
            (head[beyond[0]], head[beyond[1]]) = (LOG_VARIANCE_LIMIT + 5.0, -LOG_VARIANCE_LIMIT - 5.0);
            let dz = numbers(samples * b * j, 21);
            let gradient = backward(device, shape, &head, &dz, None)?;
            Ok(beyond.map(|index| gradient[index]).to_vec())
        },
    )
}
