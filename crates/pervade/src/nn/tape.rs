//! Encoder and decoder on one batch: forward, and backward again.

use super::layer::Input;
use super::{Activations, Architecture};
use crate::compute::{AdamStep, Device, Matrix, Params, Result};

/// Activations and gradients of one batch; made once, used every step.
#[derive(Debug)]
pub struct Tape<B> {
    /// Activations of the encoder's hidden layers: [R, B, width].
    pub encoder: Activations<B>,
    /// Means and log variances of q(z|x): [R, B, 2J], or what else the head computes.
    pub head: Matrix<B>,
    /// Latents: [R, L B, J].
    pub z: Matrix<B>,
    /// Activations of the decoder's hidden layers: [R, L B, width].
    decoder: Activations<B>,
    /// The decoder's output, then its gradient: [R, L B, outputs].
    pub output: Matrix<B>,
    /// Gradient of the head.
    pub d_head: Matrix<B>,
    /// Gradient of the latents from the prior.
    pub dz_prior: Matrix<B>,
    /// Gradient of the latents from the decoder.
    pub dz: Matrix<B>,
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
        let (j, many, n_head) = (architecture.n_latents(), n_rows * samples, architecture.n_head());
        Ok(Self {
            encoder: Activations::new(device, &architecture.encoder, restarts, n_rows, gradients)?,
            head: matrix(n_rows, n_head)?,
            z: matrix(many, j)?,
            decoder: Activations::new(device, &architecture.decoder, restarts, many, gradients)?,
            output: matrix(many, architecture.n_outputs())?,
            d_head: matrix(if gradients { n_rows } else { 0 }, n_head)?,
            dz_prior: matrix(many, j)?,
            dz: matrix(many, j)?,
        })
    }

    /// The rows of a batch to the head: g(x).
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

    /// z to the decoder's output: f(z).
    pub fn decode<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        architecture: &Architecture,
        params: &Params<B>,
    ) -> Result<()> {
        let input = Input::Matrix(&self.z);
        architecture.decoder.forward(device, params, &input, &mut self.decoder, &mut self.output)
    }

    /// The gradient of the output to that of z and of the decoder's weights.
    pub fn decode_backward<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        architecture: &Architecture,
        params: &mut Params<B>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        let (input, dz) = (Input::Matrix(&self.z), Some(&mut self.dz));
        let (activations, dy) = (&mut self.decoder, &self.output);
        architecture.decoder.backward(device, params, &input, activations, dy, dz, update)
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
        let (input, activations) = (Input::Rows(rows, batch), &mut self.encoder);
        architecture.encoder.backward(device, params, &input, activations, &self.d_head, None, update)
    }
}
