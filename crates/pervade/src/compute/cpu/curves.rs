//! What bends a layer's output, in place, and its derivative from what it gave.

use rayon::prelude::*;

use super::M;
use super::math::softplus_and_logistic;
use super::simd::{Isa, for_isa};
use crate::compute::Curve;

/// Numbers a task takes.
const CHUNK: usize = 16 * 1024;

/// See [`crate::compute::Device::bend`].
pub(super) fn bend(isa: Isa, curve: Curve, x: &mut M) {
    x.data.par_chunks_mut(CHUNK).for_each(|x| match curve {
        Curve::Leaky { slope } => leaky(isa, slope, x),
        Curve::Logistic => logistic(isa, x),
    });
}

/// See [`crate::compute::Device::bend_backward`].
pub(super) fn bend_backward(isa: Isa, curve: Curve, y: &M, dy: &mut M) {
    assert_eq!(y.data.len(), dy.data.len(), "a gradient for each number");
    let pieces = dy.data.par_chunks_mut(CHUNK).zip(y.data.par_chunks(CHUNK));
    pieces.for_each(|(dy, y)| match curve {
        Curve::Leaky { slope } => leaky_backward(isa, slope, y, dy),
        Curve::Logistic => logistic_backward(isa, y, dy),
    });
}

for_isa! {
    fn leaky(slope: f32, x: &mut [f32]) {
        for x in x {
            *x = if *x > 0.0 { *x } else { slope * *x };
        }
    }
}

for_isa! {
    /// The sign of y is that of x.
    fn leaky_backward(slope: f32, y: &[f32], dy: &mut [f32]) {
        for (d, &y) in dy.iter_mut().zip(y) {
            *d = if y > 0.0 { *d } else { slope * *d };
        }
    }
}

for_isa! {
    fn logistic(x: &mut [f32]) {
        for x in x {
            *x = softplus_and_logistic(*x).1;
        }
    }
}

for_isa! {
    /// The derivative is y (1 - y).
    fn logistic_backward(y: &[f32], dy: &mut [f32]) {
        for (d, &y) in dy.iter_mut().zip(y) {
            *d *= y * (1.0 - y);
        }
    }
}
