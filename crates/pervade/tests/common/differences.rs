//! Gradients against central differences.
//!
//! A forward pass in single precision is off by about 1e-7 of its size, so a difference over 2h has
//! an error of 1e-7 / h from rounding and of h^2 from curvature: h = 1e-2 makes both about 1e-5 to
//! 1e-4. Operations that are linear have no curvature and take h = 1/4. Entries are compared
//! relative to the largest of their tensor.

use pervade::compute::{Cpu, Params};

use super::ops::*;

pub(crate) const CPU: fn() -> Cpu = Cpu::new;
pub(crate) const LINEAR: (f32, f64) = (0.25, 1e-5);
pub(crate) const CURVED: (f32, f64) = (1e-2, 1e-3);

/// Compares `gradient` with central differences of `loss` around `at`.
pub(crate) fn check(
    what: &str,
    (h, tolerance): (f32, f64),
    at: &[f32],
    gradient: &[f32],
    loss: impl Fn(&[f32]) -> f64,
) {
    assert_eq!(at.len(), gradient.len(), "{what}");
    let mut point = at.to_vec();
    let differences: Vec<f64> = (0..at.len())
        .map(|i| {
            let (up, down) = (at[i] + h, at[i] - h);
            point[i] = up;
            let above = loss(&point);
            point[i] = down;
            let below = loss(&point);
            point[i] = at[i];
            (above - below) / (f64::from(up) - f64::from(down))
        })
        .collect();
    assert!(largest(differences.iter().copied()) > 0.0, "{what}: the loss does not move");
    assert_tensor_close(gradient, &differences, tolerance, what);
}

/// Sum of w y: a loss whose gradient with respect to y is w.
pub(crate) fn weighted(w: &[f32], y: &[f32]) -> f64 {
    w.iter().zip(y).map(|(&w, &y)| f64::from(w) * f64::from(y)).sum()
}

pub(crate) fn with_values(params: &Params<Floats>, values: &[f32]) -> Params<Floats> {
    let mut other = Params::fixed(&CPU(), values).unwrap();
    (other.restarts, other.stride) = (params.restarts, params.stride);
    other
}

/// Numbers at least 0.3 away from zero, so that a step of 1/4 never crosses the ReLU's kink.
pub(crate) fn away_from_zero(n: usize, salt: u32) -> Floats {
    random(n, salt).iter().map(|x| x + 0.3f32.copysign(*x)).collect()
}
