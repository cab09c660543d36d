//! What a layer gives, normalised over the batch and bent: forward and backward.

use crate::compute::{self, Activation, AdamStep, Layers, Matrix, Memory, NormSlots, Params, Result};

/// A batch normalisation and what bends its output.
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm {
    /// Where its numbers lie.
    pub slots: NormSlots,
    /// What comes after it.
    pub activation: Activation,
}

/// What it works on, made once: `x` is filled by the layer before, `dy` by the one behind.
#[derive(Debug)]
pub struct Normed<B> {
    /// What the layer before gives: [1, rows, C].
    pub x: Matrix<B>,
    /// The same normalised and bent; it may be cut into other rows.
    pub y: Matrix<B>,
    /// Gradient of y, and after the way back of what is bent.
    pub dy: Matrix<B>,
    /// Gradient of x.
    pub dx: Matrix<B>,
    statistics: Matrix<B>,
}

impl<B> Normed<B> {
    /// Room for x and y of these rows and columns; x has as many groups, each normalised by itself. Without
    /// gradients there is no way back.
    pub fn new<D: Memory<Buffer = B>>(
        device: &D,
        x: [usize; 2],
        y: [usize; 2],
        groups: usize,
        gradients: bool,
    ) -> Result<Self> {
        let matrix = |[rows, columns]: [usize; 2]| Matrix::zeros(device, 1, rows, columns);
        let back = |[rows, columns]: [usize; 2]| matrix([if gradients { rows } else { 0 }, columns]);
        Ok(Self {
            x: matrix(x)?,
            y: matrix(y)?,
            dy: back(y)?,
            dx: back(x)?,
            statistics: matrix([NormSlots::statistics_rows(groups), x[1]])?,
        })
    }
}

impl BatchNorm {
    /// From x to y; with the kept means and variances, or with the batch's own.
    pub fn forward<D: Layers + compute::BatchNorm>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        kept: bool,
        normed: &mut Normed<D::Buffer>,
    ) -> Result<()> {
        let Normed { x, y, statistics, .. } = normed;
        if kept {
            device.batch_norm_inference(params, self.slots, x, y)?;
        } else {
            device.batch_norm(params, self.slots, x, statistics, y)?;
        }
        device.activate(self.activation, y)
    }

    /// From dy to dx.
    pub fn backward_input<D: Layers + compute::BatchNorm>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        normed: &mut Normed<D::Buffer>,
    ) -> Result<()> {
        let Normed { x, y, dy, dx, statistics } = normed;
        device.activate_backward(self.activation, y, dy)?;
        device.batch_norm_backward_input(params, self.slots, x, dy, statistics, dx)
    }

    /// Gradients of gain and shift, or the update by them, after `backward_input`.
    pub fn backward_weights<D: Layers + compute::BatchNorm>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        normed: &Normed<D::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        device.batch_norm_backward_weights(params, self.slots, &normed.statistics, update)
    }
}
