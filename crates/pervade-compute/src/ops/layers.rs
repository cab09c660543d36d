//! Affine layers, activations, dropout, and Adam.

use crate::{AdamStep, Affine, Draw, Matrix, Memory, Params, Result};

/// An elementwise activation function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// x.
    Linear,
    /// max(x, 0).
    Relu,
    /// x if x > 0, else slope x.
    LeakyRelu {
        /// Not negative.
        slope: f32,
    },
    /// 1 / (1 + e^-x).
    Sigmoid,
}

/// Layers, forward and backward, and Adam's update.
pub trait Layers: Memory {
    /// y = activation(x W + b). A ReLU is fused into the product.
    fn affine(
        &self,
        params: &Params<Self::Buffer>,
        layer: Affine,
        x: &Matrix<Self::Buffer>,
        activation: Activation,
        y: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// dW = x^T dy and db = sum of dy's rows. Given an update (of a range that contains the layer), the layer takes
    /// Adam's step at once, and the contents of the gradient buffer are unspecified: dW need not be written to memory.
    fn affine_backward_weights(
        &self,
        params: &mut Params<Self::Buffer>,
        layer: Affine,
        x: &Matrix<Self::Buffer>,
        dy: &Matrix<Self::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()>;

    /// dx = dy W^T, zero where `relu_output` is zero.
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

    /// Dropout: y = x with each element zeroed with probability `rate` and the others scaled by 1/(1 - rate).
    fn dropout(
        &self,
        draw: Draw<'_>,
        rate: f32,
        x: &Matrix<Self::Buffer>,
        y: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// The gradient of `dropout`, in place: the same elements are zeroed and scaled.
    fn dropout_backward(&self, draw: Draw<'_>, rate: f32, dy: &mut Matrix<Self::Buffer>) -> Result<()>;

    /// into = (into + from) / 2, element by element: the mean gradient of two halves of a batch.
    fn average(&self, from: &Self::Buffer, into: &mut Self::Buffer) -> Result<()>;

    /// One step of Adam over a range of the flat buffers.
    fn adam(&self, params: &mut Params<Self::Buffer>, step: &AdamStep) -> Result<()>;
}
