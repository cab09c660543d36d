//! Convolutions and their transposes: windows of images before a layer, or behind it.

use crate::compute::{self, Activation, AdamStep, Affine, Layers, Layout, Matrix, Params, Result, Windows};

/// Every window of an image to one pixel of so many channels.
#[derive(Clone, Copy, Debug)]
pub struct Convolution {
    /// The windows of what comes in.
    pub windows: Windows,
    /// [k k C, channels].
    pub layer: Affine,
}

impl Convolution {
    /// One more for the layout.
    pub fn new(layout: &mut Layout, name: &str, windows: Windows, n_channels: usize) -> Self {
        Self { windows, layer: layout.push_affine(name, windows.window_len(), n_channels) }
    }

    /// Images to images; `unfolded` are their windows, [n places, k k C].
    pub fn forward<D: Layers + compute::Convolution>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        x: &Matrix<D::Buffer>,
        unfolded: &mut Matrix<D::Buffer>,
        y: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        device.unfold(&self.windows, x, unfolded)?;
        device.affine(params, self.layer, unfolded, Activation::Linear, y)
    }

    /// The gradient of what came in, by way of that of its windows.
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

    /// The weights' gradient, or the update by it.
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

/// Every pixel to one window of a larger image; where windows overlap they add up.
///
/// A bias belongs to each number of the window, not to each channel: it is added before the windows meet.
#[derive(Clone, Copy, Debug)]
pub struct TransposedConvolution {
    /// The windows of what goes out.
    pub windows: Windows,
    /// [channels, k k C].
    pub layer: Affine,
}

impl TransposedConvolution {
    /// One more for the layout.
    pub fn new(layout: &mut Layout, name: &str, n_channels: usize, windows: Windows) -> Self {
        Self { windows, layer: layout.push_affine(name, n_channels, windows.window_len()) }
    }

    /// Images to images; `spread` are the windows, [n places, k k C].
    pub fn forward<D: Layers + compute::Convolution>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        x: &Matrix<D::Buffer>,
        spread: &mut Matrix<D::Buffer>,
        y: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        device.affine(params, self.layer, x, Activation::Linear, spread)?;
        device.fold(&self.windows, spread, y)
    }

    /// The gradient of what came in, by way of that of the windows, which the weights' gradient needs too.
    pub fn backward_input<D: Layers + compute::Convolution>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        dy: &Matrix<D::Buffer>,
        d_spread: &mut Matrix<D::Buffer>,
        dx: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        device.unfold(&self.windows, dy, d_spread)?;
        device.affine_backward_input(params, self.layer, d_spread, None, dx)
    }

    /// The weights' gradient, or the update by it.
    pub fn backward_weights<D: Layers + compute::Convolution>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        x: &Matrix<D::Buffer>,
        d_spread: &Matrix<D::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        device.affine_backward_weights(params, self.layer, x, d_spread, update)
    }
}
