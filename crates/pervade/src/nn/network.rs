//! Forward through encoder and decoder, and backward again.

use super::Architecture;
use crate::compute::{Activation, AdamStep, Affine, Device, Matrix, Params, Result};

/// Activations and gradients of one batch; made once, used every step.
#[derive(Debug)]
pub struct Tape<B> {
    /// Encoder activations, one a hidden layer: [R, B, width].
    pub encoded: Vec<Matrix<B>>,
    /// Means and log variances of q(z|x): [R, B, 2J], or what else the head gives.
    pub head: Matrix<B>,
    /// Latents: [R, L B, J].
    pub z: Matrix<B>,
    /// Decoder activations: [R, L B, width].
    pub decoded: Vec<Matrix<B>>,
    /// The decoder's output, then its gradient: [R, L B, outputs].
    pub output: Matrix<B>,
    d_encoded: Vec<Matrix<B>>,
    /// Gradient of the head.
    pub d_head: Matrix<B>,
    /// Gradient of the latents that the prior sends.
    pub dz_prior: Matrix<B>,
    /// Gradient of the latents that the decoder sends.
    pub dz: Matrix<B>,
    d_decoded: Vec<Matrix<B>>,
}

impl<B> Tape<B> {
    /// Room for B rows and L samples of each.
    pub fn new<D: Device<Buffer = B>>(
        device: &D,
        architecture: &Architecture,
        restarts: usize,
        n_rows: usize,
        samples: usize,
    ) -> Result<Self> {
        Self::sized(device, architecture, restarts, n_rows, samples, true)
    }

    /// Room to encode B rows, and nothing else.
    pub fn encoder<D: Device<Buffer = B>>(
        device: &D,
        architecture: &Architecture,
        restarts: usize,
        n_rows: usize,
    ) -> Result<Self> {
        Self::sized(device, architecture, restarts, n_rows, 0, false)
    }

    fn sized<D: Device<Buffer = B>>(
        device: &D,
        architecture: &Architecture,
        restarts: usize,
        n_rows: usize,
        samples: usize,
        gradients: bool,
    ) -> Result<Self> {
        let matrix = |rows, columns| Matrix::zeros(device, restarts, rows, columns);
        let widths = |rows: usize, layers: &[Affine]| -> Result<Vec<Matrix<B>>> {
            layers.iter().map(|layer| matrix(rows, layer.weight.columns)).collect()
        };
        let (j, many) = (architecture.n_latents(), n_rows * samples);
        let n_head = architecture.head.weight.columns;
        Ok(Self {
            encoded: widths(n_rows, &architecture.encoder)?,
            head: matrix(n_rows, n_head)?,
            z: matrix(many, j)?,
            decoded: widths(many, &architecture.decoder)?,
            output: matrix(many, architecture.output.weight.columns)?,
            d_encoded: widths(if gradients { n_rows } else { 0 }, &architecture.encoder)?,
            d_head: matrix(if gradients { n_rows } else { 0 }, n_head)?,
            dz_prior: matrix(many, j)?,
            dz: matrix(many, j)?,
            d_decoded: widths(many, &architecture.decoder)?,
        })
    }
}

/// Backward, a layer's input gradient comes before its weights: with an update the weights change then
/// and there, without one their gradient is left in the parameters' buffer.
impl<B> Tape<B> {
    /// Picked rows to the head: g(x).
    pub fn encode<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        architecture: &Architecture,
        params: &Params<B>,
        rows: &D::Rows<'_>,
        batch: &D::Batch,
    ) -> Result<()> {
        let first = architecture.encoder[0];
        device.input_affine(params, first, rows, batch, Activation::Relu, &mut self.encoded[0])?;
        for (i, &layer) in architecture.encoder.iter().enumerate().skip(1) {
            let (before, after) = self.encoded.split_at_mut(i);
            device.affine(params, layer, &before[i - 1], Activation::Relu, &mut after[0])?;
        }
        let last = &self.encoded[self.encoded.len() - 1];
        device.affine(params, architecture.head, last, Activation::Linear, &mut self.head)
    }

    /// z to the decoder's output: f(z).
    pub fn decode<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        architecture: &Architecture,
        params: &Params<B>,
    ) -> Result<()> {
        device.affine(params, architecture.decoder[0], &self.z, Activation::Relu, &mut self.decoded[0])?;
        for (i, &layer) in architecture.decoder.iter().enumerate().skip(1) {
            let (before, after) = self.decoded.split_at_mut(i);
            device.affine(params, layer, &before[i - 1], Activation::Relu, &mut after[0])?;
        }
        let last = &self.decoded[self.decoded.len() - 1];
        device.affine(params, architecture.output, last, Activation::Linear, &mut self.output)
    }

    /// Gradient of the output to that of z, weights on the way.
    pub fn decode_backward<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        architecture: &Architecture,
        params: &mut Params<B>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        let n = self.decoded.len();
        let (mask, dx) = (&self.decoded[n - 1], &mut self.d_decoded[n - 1]);
        device.affine_backward_input(params, architecture.output, &self.output, Some(mask), dx)?;
        let (layer, x) = (architecture.output, &self.decoded[n - 1]);
        device.affine_backward_weights(params, layer, x, &self.output, update)?;
        for i in (1..n).rev() {
            let layer = architecture.decoder[i];
            let (before, after) = self.d_decoded.split_at_mut(i);
            let mask = Some(&self.decoded[i - 1]);
            device.affine_backward_input(params, layer, &after[0], mask, &mut before[i - 1])?;
            device.affine_backward_weights(params, layer, &self.decoded[i - 1], &after[0], update)?;
        }
        let (layer, dy) = (architecture.decoder[0], &self.d_decoded[0]);
        device.affine_backward_input(params, layer, dy, None, &mut self.dz)?;
        device.affine_backward_weights(params, layer, &self.z, dy, update)
    }

    /// Gradients of z (the decoder's and, in joint training, the prior's) and of the head to all encoder
    /// weights.
    pub fn encode_backward<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        architecture: &Architecture,
        params: &mut Params<B>,
        rows: &D::Rows<'_>,
        batch: &D::Batch,
        with_prior: bool,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        let dz_prior = with_prior.then_some(&self.dz_prior);
        device.sample_latents_backward(&self.head, &self.z, &self.dz, dz_prior, &mut self.d_head)?;
        self.head_backward(device, architecture, params, rows, batch, update)
    }

    /// The gradient of the head to all encoder weights.
    pub fn head_backward<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        architecture: &Architecture,
        params: &mut Params<B>,
        rows: &D::Rows<'_>,
        batch: &D::Batch,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        let n = self.encoded.len();
        let (mask, dx) = (&self.encoded[n - 1], &mut self.d_encoded[n - 1]);
        device.affine_backward_input(params, architecture.head, &self.d_head, Some(mask), dx)?;
        let (layer, x) = (architecture.head, &self.encoded[n - 1]);
        device.affine_backward_weights(params, layer, x, &self.d_head, update)?;
        for i in (1..n).rev() {
            let layer = architecture.encoder[i];
            let (before, after) = self.d_encoded.split_at_mut(i);
            let mask = Some(&self.encoded[i - 1]);
            device.affine_backward_input(params, layer, &after[0], mask, &mut before[i - 1])?;
            device.affine_backward_weights(params, layer, &self.encoded[i - 1], &after[0], update)?;
        }
        let (layer, dy) = (architecture.encoder[0], &self.d_encoded[0]);
        device.input_affine_backward(params, layer, rows, batch, dy, update)
    }
}
