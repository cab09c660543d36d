//! Convolutions and transposed convolutions, as affine maps from or to the windows of an image.

use crate::compute::{self, Activation, AdamStep, Affine, Layers, Layout, Matrix, Params, Result, Windows};

/// A convolution: each window of the input becomes one pixel of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// The windows of the input.
    pub windows: Windows,
    /// Weights [k k C, output channels].
    pub layer: Affine,
}

impl Convolution {
    /// Creates the layer and adds its parameters to the layout.
    pub fn new(layout: &mut Layout, name: &str, windows: Windows, n_channels: usize) -> Self {
        Self { windows, layer: layout.push_affine(name, windows.window_len(), n_channels) }
    }

    /// y = activation(convolution of x), [windows, output channels]; `unfolded` holds the windows, [windows, k k C].
    pub fn forward<D: Layers + compute::Convolution>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        x: &Matrix<D::Buffer>,
        unfolded: &mut Matrix<D::Buffer>,
        activation: Activation,
        y: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        device.unfold(&self.windows, x, unfolded)?;
        device.affine(params, self.layer, unfolded, activation, y)
    }

    /// Gradient of the input: the sum of the gradients of its windows.
    pub fn backward_input<D: Layers + compute::Convolution>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        dy: &Matrix<D::Buffer>,
        d_unfolded: &mut Matrix<D::Buffer>,
        dx: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        device.affine_backward_input(params, self.layer, dy, None, d_unfolded)?;
        device.fold(&self.windows, d_unfolded, dx)
    }

    /// Gradients of weights and biases, or Adam's step with them.
    pub fn backward_weights<D: Layers + compute::Convolution>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        unfolded: &Matrix<D::Buffer>,
        dy: &Matrix<D::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        device.affine_backward_weights(params, self.layer, unfolded, dy, update)
    }
}

/// A transposed convolution: each pixel of the input becomes one window of the output; overlapping windows add up.
///
/// There is one bias per element of the window, not one per channel: biases are added before the windows are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransposedConvolution {
    /// The windows of the output.
    pub windows: Windows,
    /// Weights [input channels, k k C].
    pub layer: Affine,
}

impl TransposedConvolution {
    /// Creates the layer and adds its parameters to the layout.
    pub fn new(layout: &mut Layout, name: &str, n_channels: usize, windows: Windows) -> Self {
        Self { windows, layer: layout.push_affine(name, n_channels, windows.window_len()) }
    }

    /// y = transposed convolution of x; `unfolded` holds the windows before they are summed, [windows, k k C].
    pub fn forward<D: Layers + compute::Convolution>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        x: &Matrix<D::Buffer>,
        unfolded: &mut Matrix<D::Buffer>,
        y: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        device.affine(params, self.layer, x, Activation::Linear, unfolded)?;
        device.fold(&self.windows, unfolded, y)
    }

    /// Gradient of the input, zero where `relu_output` (that input, after a ReLU) is zero; `d_unfolded` becomes the
    /// gradient of the windows, which `backward_weights` needs, too.
    pub fn backward_input<D: Layers + compute::Convolution>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        dy: &Matrix<D::Buffer>,
        relu_output: Option<&Matrix<D::Buffer>>,
        d_unfolded: &mut Matrix<D::Buffer>,
        dx: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        device.unfold(&self.windows, dy, d_unfolded)?;
        device.affine_backward_input(params, self.layer, d_unfolded, relu_output, dx)
    }

    /// Gradients of weights and biases, or Adam's step with them.
    pub fn backward_weights<D: Layers + compute::Convolution>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        x: &Matrix<D::Buffer>,
        d_unfolded: &Matrix<D::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        device.affine_backward_weights(params, self.layer, x, d_unfolded, update)
    }
}
