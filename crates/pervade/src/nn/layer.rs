//! One layer of a network: forward and backward.

use super::{Convolution, TransposedConvolution};
use crate::compute::{Activation, AdamStep, Affine, Device, Matrix, Params, Result};

/// A layer without its activation, which the network applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Fully connected: x W + b.
    Affine(Affine),
    /// A convolution over images.
    Convolution(Convolution),
    /// A transposed convolution, which enlarges images.
    TransposedConvolution(TransposedConvolution),
}

/// Unfolded windows of a convolution, [R, rows x windows, k k C], and their gradient; empty for affine layers.
#[derive(Debug)]
pub(super) struct Unfolded<B> {
    windows: Matrix<B>,
    d_windows: Matrix<B>,
}

/// The input of a layer.
pub(super) enum Input<'i, 'r, D: Device> {
    /// Rows of a batch: possibly sparse, and without a gradient.
    Rows(&'i D::Rows<'r>, &'i D::Batch),
    /// The output of another layer, or latents.
    Matrix(&'i Matrix<D::Buffer>),
}

impl Layer {
    /// The weights and biases.
    pub fn weights(&self) -> Affine {
        match *self {
            Layer::Affine(affine) => affine,
            Layer::Convolution(convolution) => convolution.layer,
            Layer::TransposedConvolution(transposed) => transposed.layer,
        }
    }

    /// Input features per row of data.
    pub fn n_inputs(&self) -> usize {
        match *self {
            Layer::Affine(affine) => affine.weight.rows,
            Layer::Convolution(Convolution { windows, .. }) => windows.image_len(),
            Layer::TransposedConvolution(_) => self.input_pixels() * self.weights().weight.rows,
        }
    }

    /// Output features per row of data.
    pub fn n_outputs(&self) -> usize {
        match *self {
            Layer::Affine(affine) => affine.weight.columns,
            Layer::Convolution(_) => self.output_pixels() * self.weights().weight.columns,
            Layer::TransposedConvolution(TransposedConvolution { windows, .. }) => windows.image_len(),
        }
    }

    /// The largest number of windows that add up in one element of the output.
    pub fn overlap(&self) -> usize {
        match *self {
            Layer::Affine(_) | Layer::Convolution(_) => 1,
            Layer::TransposedConvolution(t) => t.windows.size.div_ceil(t.windows.stride).pow(2),
        }
    }

    /// Elements of the unfolded windows, per row of data.
    pub(crate) fn windows_len(&self) -> usize {
        match *self {
            Layer::Affine(_) => 0,
            Layer::Convolution(Convolution { windows, .. })
            | Layer::TransposedConvolution(TransposedConvolution { windows, .. }) => {
                windows.count().iter().product::<usize>() * windows.window_len()
            }
        }
    }

    /// Input rows of its affine map per row of data: a transposed convolution maps each pixel.
    pub(super) fn input_pixels(&self) -> usize {
        match *self {
            Layer::Affine(_) | Layer::Convolution(_) => 1,
            Layer::TransposedConvolution(t) => t.windows.count().iter().product(),
        }
    }

    /// Output rows of its affine map per row of data: a convolution yields one per pixel.
    pub(super) fn output_pixels(&self) -> usize {
        match *self {
            Layer::Affine(_) | Layer::TransposedConvolution(_) => 1,
            Layer::Convolution(c) => c.windows.count().iter().product(),
        }
    }

    /// Buffers for the windows of `n_rows` rows.
    pub(super) fn unfolded<D: Device>(
        &self,
        device: &D,
        restarts: usize,
        n_rows: usize,
        gradients: bool,
    ) -> Result<Unfolded<D::Buffer>> {
        let (per_row, columns) = match *self {
            Layer::Affine(_) => (0, 0),
            Layer::Convolution(Convolution { windows, .. })
            | Layer::TransposedConvolution(TransposedConvolution { windows, .. }) => {
                (windows.count().iter().product(), windows.window_len())
            }
        };
        // The windows of a transposed convolution are not needed after they are summed: their gradient reuses them.
        let has_gradient = gradients && matches!(self, Layer::Convolution(_));
        let matrix = |rows| Matrix::zeros(device, restarts, rows, columns);
        Ok(Unfolded {
            windows: matrix(n_rows * per_row)?,
            d_windows: matrix(if has_gradient { n_rows * per_row } else { 0 })?,
        })
    }

    /// y = activation(layer(input)).
    pub(super) fn forward<D: Device>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        input: &Input<'_, '_, D>,
        unfolded: &mut Unfolded<D::Buffer>,
        activation: Activation,
        y: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        match (self, input) {
            (&Layer::Affine(affine), Input::Rows(rows, batch)) => {
                device.input_affine(params, affine, rows, batch, activation, y)
            }
            (&Layer::Affine(affine), Input::Matrix(x)) => device.affine(params, affine, x, activation, y),
            (Layer::Convolution(convolution), input) => {
                let windows = &mut unfolded.windows;
                convolution.forward(device, params, input.matrix(device), windows, activation, y)
            }
            (Layer::TransposedConvolution(transposed), input) => {
                transposed.forward(device, params, input.matrix(device), &mut unfolded.windows, y)?;
                device.activate(activation, y)
            }
        }
    }

    /// Computes dx from dy, the gradient before the activation; dx is zero where `relu_output` (this layer's input,
    /// after a ReLU) is zero.
    pub(super) fn backward_input<D: Device>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        dy: &Matrix<D::Buffer>,
        relu_output: Option<&Matrix<D::Buffer>>,
        unfolded: &mut Unfolded<D::Buffer>,
        dx: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        match self {
            &Layer::Affine(affine) => device.affine_backward_input(params, affine, dy, relu_output, dx),
            Layer::Convolution(convolution) => {
                convolution.backward_input(device, params, dy, &mut unfolded.d_windows, dx)?;
                relu_output.map_or(Ok(()), |y| device.activate_backward(Activation::Relu, y, dx))
            }
            Layer::TransposedConvolution(transposed) => {
                transposed.backward_input(device, params, dy, relu_output, &mut unfolded.windows, dx)
            }
        }
    }

    /// Gradients of weights and biases, or Adam's step with them; call it after `backward_input`.
    pub(super) fn backward_weights<D: Device>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        input: &Input<'_, '_, D>,
        dy: &Matrix<D::Buffer>,
        unfolded: &Unfolded<D::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        match (self, input) {
            (&Layer::Affine(affine), Input::Rows(rows, batch)) => {
                device.input_affine_backward(params, affine, rows, batch, dy, update)
            }
            (&Layer::Affine(affine), Input::Matrix(x)) => {
                device.affine_backward_weights(params, affine, x, dy, update)
            }
            (Layer::Convolution(convolution), _) => {
                convolution.backward_weights(device, params, &unfolded.windows, dy, update)
            }
            (Layer::TransposedConvolution(transposed), input) => {
                let x = input.matrix(device);
                transposed.backward_weights(device, params, x, &unfolded.windows, update)
            }
        }
    }
}

impl<'i, D: Device> Input<'i, '_, D> {
    /// The input as a dense matrix.
    fn matrix(&self, device: &'i D) -> &'i Matrix<D::Buffer> {
        match *self {
            Input::Rows(_, batch) => device.batch_rows(batch),
            Input::Matrix(x) => x,
        }
    }
}
