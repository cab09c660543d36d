//! Forward and backward pass of encoder and decoder on one batch.

use super::layer::Input;
use super::{Activations, Architecture};
use crate::compute::{Activation, AdamStep, Device, Matrix, Params, Result};

/// Activations and gradients of one batch; allocated once, used in every step.
#[derive(Debug)]
pub struct Tape<B> {
    /// B.
    pub n_rows: usize,
    /// Activations of the encoder's hidden layers: [R, B, width], or 2B rows where neighbours are encoded as well.
    pub encoder: Activations<B>,
    /// Output of the encoder's head: means and log variances of q(z|x), [R, B, 2J]; other methods have other q(z|x).
    pub head: Matrix<B>,
    /// Latents: [R, L B, J].
    pub z: Matrix<B>,
    /// Activations of the decoder's hidden layers: [R, L B, width].
    decoder: Activations<B>,
    /// The decoder's output, then its gradient: [R, L B, outputs].
    pub output: Matrix<B>,
    /// The log scales of p(x|z) for every sample, then their gradient: [R, L B, scales].
    pub scales: Matrix<B>,
    /// The input of the scales' layer: [R, L B, 1].
    ones: Matrix<B>,
    /// Gradient of the head.
    pub d_head: Matrix<B>,
    /// Gradient of the latents from the prior.
    pub dz_prior: Matrix<B>,
    /// Gradient of the latents from the decoder.
    pub dz: Matrix<B>,
}

impl<B> Tape<B> {
    /// Buffers for B rows and L samples of z per row.
    pub fn new<D: Device<Buffer = B>>(
        device: &D,
        architecture: &Architecture,
        restarts: usize,
        n_rows: usize,
        samples: usize,
    ) -> Result<Self> {
        Self::sized(device, architecture, restarts, [n_rows; 2], samples, true)
    }

    /// Buffers for B rows with L samples of z per row, and for encoding a neighbour of each of them: the second half of the
    /// batch and of the head.
    pub fn with_neighbours<D: Device<Buffer = B>>(
        device: &D,
        architecture: &Architecture,
        restarts: usize,
        n_rows: usize,
        samples: usize,
    ) -> Result<Self> {
        Self::sized(device, architecture, restarts, [n_rows, 2 * n_rows], samples, true)
    }

    /// Buffers for encoding B rows, without decoder and gradients.
    pub fn encoder<D: Device<Buffer = B>>(
        device: &D,
        architecture: &Architecture,
        restarts: usize,
        n_rows: usize,
    ) -> Result<Self> {
        Self::sized(device, architecture, restarts, [n_rows; 2], 0, false)
    }

    fn sized<D: Device<Buffer = B>>(
        device: &D,
        architecture: &Architecture,
        restarts: usize,
        [n_rows, n_encoded]: [usize; 2],
        samples: usize,
        gradients: bool,
    ) -> Result<Self> {
        let matrix = |rows, columns| Matrix::zeros(device, restarts, rows, columns);
        let (j, n_samples, n_head) = (architecture.n_latents(), n_rows * samples, architecture.n_head());
        let n_scaled = if architecture.scales.is_some() { n_samples } else { 0 };
        let mut ones = matrix(n_scaled, 1)?;
        device.write(&mut ones.data, 0, &vec![1.0; restarts * n_scaled])?;
        Ok(Self {
            n_rows,
            encoder: Activations::new(device, &architecture.encoder, restarts, n_encoded, gradients)?,
            head: matrix(n_encoded, n_head)?,
            z: matrix(n_samples, j)?,
            decoder: Activations::new(device, &architecture.decoder, restarts, n_samples, gradients)?,
            output: matrix(n_samples, architecture.n_outputs())?,
            scales: matrix(n_scaled, architecture.n_scales())?,
            ones,
            d_head: matrix(if gradients { n_encoded } else { 0 }, n_head)?,
            dz_prior: matrix(n_samples, j)?,
            dz: matrix(n_samples, j)?,
        })
    }

    /// Encodes the rows of a batch: head = g(x).
    pub fn encode<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        architecture: &Architecture,
        params: &Params<B>,
        rows: &D::Rows<'_>,
        batch: &D::Batch,
    ) -> Result<()> {
        let input = Input::Rows(rows, batch);
        architecture.encoder.forward(device, params, &input, &mut self.encoder, &mut self.head)
    }

    /// Decodes z: output = f(z); the scales of p(x|z) do not depend on it.
    pub fn decode<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        architecture: &Architecture,
        params: &Params<B>,
    ) -> Result<()> {
        let input = Input::Matrix(&self.z);
        architecture.decoder.forward(device, params, &input, &mut self.decoder, &mut self.output)?;
        match architecture.scales {
            Some(layer) => device.affine(params, layer, &self.ones, Activation::Linear, &mut self.scales),
            None => Ok(()),
        }
    }

    /// Backpropagates from the output to z and the decoder's weights, and from the scales to theirs.
    pub fn decode_backward<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        architecture: &Architecture,
        params: &mut Params<B>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        let (input, dz) = (Input::Matrix(&self.z), Some(&mut self.dz));
        let (activations, dy) = (&mut self.decoder, &self.output);
        architecture.decoder.backward(device, params, &input, activations, dy, dz, update)?;
        match architecture.scales {
            Some(layer) => device.affine_backward_weights(params, layer, &self.ones, &self.scales, update),
            None => Ok(()),
        }
    }

    /// Backpropagates from z (gradients of the decoder and, `with_prior`, of the prior) and the head to the encoder's
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
        let (head, z, dz) = (&self.head, &self.z, &self.dz);
        device.sample_latents_backward(self.n_rows, head, z, dz, dz_prior, &mut self.d_head)?;
        self.head_backward(device, architecture, params, rows, batch, update)
    }

    /// Backpropagates from the head to the encoder's weights.
    pub fn head_backward<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        architecture: &Architecture,
        params: &mut Params<B>,
        rows: &D::Rows<'_>,
        batch: &D::Batch,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        let (input, activations) = (Input::Rows(rows, batch), &mut self.encoder);
        architecture.encoder.backward(device, params, &input, activations, &self.d_head, None, update)
    }
}
