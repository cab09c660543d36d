//! A list of layers with ReLUs between them: forward and backward.

use super::Layer;
use super::layer::{Input, Unfolded};
use crate::compute::{Activation, AdamStep, Device, Matrix, Params, Result};

/// A sequence of layers, with a ReLU after each but the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// At least one.
    pub layers: Vec<Layer>,
}

/// Hidden activations of a network and their gradients; allocated once, used in every step.
#[derive(Debug)]
pub struct Activations<B> {
    n_rows: usize,
    /// The output of each layer but the last: [R, B, width].
    pub hidden: Vec<Matrix<B>>,
    d_hidden: Vec<Matrix<B>>,
    unfolded: Vec<Unfolded<B>>,
}

impl<B> Activations<B> {
    /// Buffers for B rows; with `gradients`, for a backward pass, too.
    pub fn new<D: Device<Buffer = B>>(
        device: &D,
        network: &Network,
        restarts: usize,
        n_rows: usize,
        gradients: bool,
    ) -> Result<Self> {
        let hidden = &network.layers[..network.layers.len() - 1];
        let outputs = |rows: usize| -> Result<Vec<Matrix<B>>> {
            hidden.iter().map(|layer| Matrix::zeros(device, restarts, rows, layer.n_outputs())).collect()
        };
        let unfolded = network.layers.iter().map(|layer| layer.unfolded(device, restarts, n_rows, gradients));
        Ok(Self {
            n_rows,
            hidden: outputs(n_rows)?,
            d_hidden: outputs(if gradients { n_rows } else { 0 })?,
            unfolded: unfolded.collect::<Result<_>>()?,
        })
    }

    /// Reshapes the activations before and after a layer into the rows that its affine map has: one per pixel for
    /// convolutions, one per row of data for fully connected layers.
    fn reshape_for(&mut self, network: &Network, index: usize) {
        let layer = &network.layers[index];
        for (end, pixels) in [(index, layer.input_pixels()), (index + 1, layer.output_pixels())] {
            if let Some(i) = end.checked_sub(1).filter(|&i| i < self.hidden.len()) {
                self.hidden[i].reshape(self.n_rows * pixels);
                self.d_hidden[i].reshape(self.n_rows * pixels);
            }
        }
    }
}

/// In the backward pass, the gradient of a layer's input is computed before that of its weights: with `update`, the
/// weights change at once; otherwise their gradient is stored in the parameter buffer.
impl Network {
    /// Input features per row.
    pub fn n_inputs(&self) -> usize {
        self.layers.first().map_or(0, Layer::n_inputs)
    }

    /// Output features per row.
    pub fn n_outputs(&self) -> usize {
        self.layers.last().map_or(0, Layer::n_outputs)
    }

    /// Elements of the hidden activations and of the unfolded windows of convolutions, per row.
    pub(crate) fn activations_len(&self) -> usize {
        let hidden = &self.layers[..self.layers.len() - 1];
        let windows: usize = self.layers.iter().map(Layer::windows_len).sum();
        hidden.iter().map(Layer::n_outputs).sum::<usize>() + windows
    }

    /// Computes the output `y`.
    pub(super) fn forward<D: Device>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        input: &Input<'_, '_, D>,
        activations: &mut Activations<D::Buffer>,
        y: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        for (i, layer) in self.layers.iter().enumerate() {
            activations.reshape_for(self, i);
            let (before, after) = activations.hidden.split_at_mut(i);
            let inner = before.last().map(Input::Matrix);
            let (input, unfolded) = (inner.as_ref().unwrap_or(input), &mut activations.unfolded[i]);
            match after.first_mut() {
                Some(hidden) => layer.forward(device, params, input, unfolded, Activation::Relu, hidden)?,
                None => layer.forward(device, params, input, unfolded, Activation::Linear, y)?,
            }
        }
        Ok(())
    }

    /// Computes the gradients of the weights and, with `dx`, of the input from that of the output.
    pub(super) fn backward<D: Device>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        input: &Input<'_, '_, D>,
        activations: &mut Activations<D::Buffer>,
        dy: &Matrix<D::Buffer>,
        mut dx: Option<&mut Matrix<D::Buffer>>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        for (i, layer) in self.layers.iter().enumerate().rev() {
            activations.reshape_for(self, i);
            let Activations { hidden, d_hidden, unfolded, .. } = &mut *activations;
            let (before, after) = d_hidden.split_at_mut(i);
            let (dy, unfolded) = (after.first().unwrap_or(dy), &mut unfolded[i]);
            let below = i.checked_sub(1).map(|i| &hidden[i]);
            if let Some(dx) = before.last_mut().or(dx.as_deref_mut()) {
                layer.backward_input(device, params, dy, below, unfolded, dx)?;
            }
            let inner = below.map(Input::Matrix);
            layer.backward_weights(device, params, inner.as_ref().unwrap_or(input), dy, unfolded, update)?;
        }
        Ok(())
    }
}
