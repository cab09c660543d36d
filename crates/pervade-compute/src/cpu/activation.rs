//! Activations in place, and their derivatives from their outputs.

use super::simd::{Isa, for_isa};
use crate::Activation;
use crate::math::softplus_and_logistic;

pub(super) fn apply(isa: Isa, activation: Activation, x: &mut [f32]) {
    match activation {
        Activation::Linear => {}
        Activation::Relu => relu(isa, x),
        Activation::LeakyRelu { slope } => leaky_relu(isa, slope, x),
        Activation::Sigmoid => sigmoid(isa, x),
    }
}

pub(super) fn backward(isa: Isa, activation: Activation, y: &[f32], dy: &mut [f32]) {
    match activation {
        Activation::Linear => {}
        Activation::Relu => leaky_relu_backward(isa, 0.0, y, dy),
        Activation::LeakyRelu { slope } => leaky_relu_backward(isa, slope, y, dy),
        Activation::Sigmoid => sigmoid_backward(isa, y, dy),
    }
}

for_isa! {
    fn relu(x: &mut [f32]) {
        for x in x {
            *x = x.max(0.0);
        }
    }
}

for_isa! {
    fn leaky_relu(slope: f32, x: &mut [f32]) {
        for x in x {
            *x = if *x > 0.0 { *x } else { slope * *x };
        }
    }
}

for_isa! {
    /// The sign of y is that of x.
    fn leaky_relu_backward(slope: f32, y: &[f32], dy: &mut [f32]) {
        for (d, &y) in dy.iter_mut().zip(y) {
            *d = if y > 0.0 { *d } else { slope * *d };
        }
    }
}

for_isa! {
    fn sigmoid(x: &mut [f32]) {
        for x in x {
            *x = softplus_and_logistic(*x).1;
        }
    }
}

for_isa! {
    /// The derivative is y (1 - y).
    fn sigmoid_backward(y: &[f32], dy: &mut [f32]) {
        for (d, &y) in dy.iter_mut().zip(y) {
            *d *= y * (1.0 - y);
        }
    }
}
