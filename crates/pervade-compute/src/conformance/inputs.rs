//! Random inputs, and their way to a device and back.

use std::ops::Range;

use crate::random::Key;
use crate::{Layout, Matrix, Memory, MixtureSlots, Params, Result};

/// Random numbers between -1 and 1, different for each `salt` and the same on every machine.
pub fn numbers(n: usize, salt: u32) -> Vec<f32> {
    let key = Key::new(7, 7u32, 0);
    (0..n).map(|i| (2.0 * key.uniform(i as u64, salt, 0) - 1.0) as f32).collect()
}

/// Random numbers between 0 and 1.
pub(super) fn fractions(n: usize, salt: u32) -> Vec<f32> {
    numbers(n, salt).iter().map(|x| 0.5 + 0.5 * x).collect()
}

/// Random numbers between -`limit` and `limit`.
pub(super) fn scaled(n: usize, salt: u32, limit: f32) -> Vec<f32> {
    numbers(n, salt).iter().map(|x| limit * x).collect()
}

/// Random numbers at least 0.3 away from zero, so that a difference quotient with a step of 1/4 does not cross a ReLU's
/// kink.
pub(super) fn away_from_zero(n: usize, salt: u32) -> Vec<f32> {
    numbers(n, salt).iter().map(|x| x + 0.3f32.copysign(*x)).collect()
}

/// Keys for random draws, one per restart.
pub(super) fn keys(restarts: usize) -> Vec<Key> {
    (0..restarts).map(|restart| Key::new(11, 6u32, restart)).collect()
}

pub(super) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

/// The sum of w y: a loss whose gradient with respect to y is w.
pub(super) fn weighted_sum(w: &[f32], y: &[f32]) -> f64 {
    w.iter().zip(y).map(|(&w, &y)| f64::from(w) * f64::from(y)).sum()
}

/// C(i, j) = sum over k of a(i, k) b(k, j), for `rows` x `inner` and `inner` x `columns` matrices.
pub(super) fn product(
    [rows, inner, columns]: [usize; 3],
    a: impl Fn(usize, usize) -> f64,
    b: impl Fn(usize, usize) -> f64,
) -> Vec<f64> {
    let entry = |i: usize, j: usize| (0..inner).map(|k| a(i, k) * b(k, j)).sum();
    (0..rows * columns).map(|index| entry(index / columns, index % columns)).collect()
}

pub(super) fn log_sum_exp(values: &[f64]) -> f64 {
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    greatest + values.iter().map(|v| (v - greatest).exp()).sum::<f64>().ln()
}

/// A layout with one mixture in it.
pub(super) fn one_mixture(n_components: usize, n_latents: usize) -> (Layout, MixtureSlots) {
    let mut layout = Layout::default();
    let slots = MixtureSlots {
        logits: layout.push("logits", 1, n_components),
        means: layout.push("means", n_components, n_latents),
        log_variances: layout.push("log variances", n_components, n_latents),
    };
    (layout, slots)
}

/// A matrix [restarts, rows, columns] on the device.
pub(super) fn upload<D: Memory>(
    device: &D,
    [restarts, rows, columns]: [usize; 3],
    values: &[f32],
) -> Result<Matrix<D::Buffer>> {
    assert_eq!(values.len(), restarts * rows * columns);
    let mut matrix = Matrix::zeros(device, restarts, rows, columns)?;
    device.write(&mut matrix.data, 0, values)?;
    Ok(matrix)
}

pub(super) fn zeros<D: Memory>(
    device: &D,
    [restarts, rows, columns]: [usize; 3],
) -> Result<Matrix<D::Buffer>> {
    Matrix::zeros(device, restarts, rows, columns)
}

/// A matrix with random entries, for results that an operation overwrites.
pub(super) fn occupied<D: Memory>(device: &D, shape: [usize; 3]) -> Result<Matrix<D::Buffer>> {
    upload(device, shape, &numbers(shape.iter().product(), 1))
}

/// All entries of a matrix.
pub(super) fn download<D: Memory>(device: &D, matrix: &Matrix<D::Buffer>) -> Result<Vec<f32>> {
    read(device, &matrix.data, 0..matrix.restarts * matrix.stride())
}

pub(super) fn read<D: Memory>(device: &D, buffer: &D::Buffer, range: Range<usize>) -> Result<Vec<f32>> {
    let mut values = vec![0.0; range.len()];
    device.read(buffer, range.start, &mut values)?;
    Ok(values)
}

/// Parameters of R models with these values and gradients of zero.
pub(super) fn params<D: Memory>(device: &D, restarts: usize, values: &[f32]) -> Result<Params<D::Buffer>> {
    let mut params = Params::zeros(device, restarts, values.len() / restarts)?;
    device.write(&mut params.values, 0, values)?;
    Ok(params)
}
