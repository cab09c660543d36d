//! Layers: affine maps, activations, dropout, and Adam's step.

use crate::{AdamStep, Affine, Draw, Matrix, Memory, Params, Result};

/// What follows an affine map, number by number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// x.
    Linear,
    /// max(x, 0).
    Relu,
    /// x where it is positive, else slope x.
    LeakyRelu {
        /// Not negative.
        slope: f32,
    },
    /// 1 / (1 + e^-x).
    Sigmoid,
}

/// Layers, forward and backward, and their update.
pub trait Layers: Memory {
    /// y = activation(x W + b). Linear maps and ReLUs are fused into the product.
    fn affine(
        &self,
        params: &Params<Self::Buffer>,
        layer: Affine,
        x: &Matrix<Self::Buffer>,
        activation: Activation,
        y: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// dW = x^T dy and db = sum of dy's rows. With an update (of a part that holds the layer), the layer
    /// takes Adam's step at once and what is left in the gradients is unspecified: dW need not go to
    /// memory and back.
    fn affine_backward_weights(
        &self,
        params: &mut Params<Self::Buffer>,
        layer: Affine,
        x: &Matrix<Self::Buffer>,
        dy: &Matrix<Self::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()>;

    /// dx = dy W^T, zero where the ReLU that made `relu_output` was off.
    fn affine_backward_input(
        &self,
        params: &Params<Self::Buffer>,
        layer: Affine,
        dy: &Matrix<Self::Buffer>,
        relu_output: Option<&Matrix<Self::Buffer>>,
        dx: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// Applies an activation in place.
    fn activate(&self, activation: Activation, x: &mut Matrix<Self::Buffer>) -> Result<()>;

    /// The gradient of `activate`, in place, from its output `y`.
    fn activate_backward(
        &self,
        activation: Activation,
        y: &Matrix<Self::Buffer>,
        dy: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// y = x with each number dropped with probability `rate`, the others scaled by 1/(1 - rate).
    fn dropout(
        &self,
        draw: Draw<'_>,
        rate: f32,
        x: &Matrix<Self::Buffer>,
        y: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// The gradient of `dropout`, in place: the same numbers are dropped and scaled.
    fn dropout_backward(&self, draw: Draw<'_>, rate: f32, dy: &mut Matrix<Self::Buffer>) -> Result<()>;

    /// One step of Adam over its part of the flat buffers.
    fn adam(&self, params: &mut Params<Self::Buffer>, step: &AdamStep) -> Result<()>;
}
