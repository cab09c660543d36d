//! Batch normalisation followed by an activation: forward and backward.

use crate::compute::{self, Activation, AdamStep, Layers, Matrix, Memory, NormSlots, Params, Result};

/// Batch normalisation followed by an activation.
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm {
    /// Its parameters and running statistics.
    pub slots: NormSlots,
    /// The activation after it.
    pub activation: Activation,
}

/// Buffers of a batch normalisation, allocated once; the previous layer writes `x`, the next one `dy`.
#[derive(Debug)]
pub struct BatchNormBuffers<B> {
    /// The input: [1, rows, C].
    pub x: Matrix<B>,
    /// The output, after normalisation and activation; it may be reshaped into other rows.
    pub y: Matrix<B>,
    /// Gradient of y; after the backward pass, the gradient before the activation.
    pub dy: Matrix<B>,
    /// Gradient of x.
    pub dx: Matrix<B>,
    statistics: Matrix<B>,
}

impl<B> BatchNormBuffers<B> {
    /// Buffers for x and y, given as [rows, columns]; each of the `groups` in x is normalised on its own. Without
    /// `gradients` there is no backward pass.
    pub fn new<D: Memory<Buffer = B>>(
        device: &D,
        x: [usize; 2],
        y: [usize; 2],
        groups: usize,
        gradients: bool,
    ) -> Result<Self> {
        let matrix = |[rows, columns]: [usize; 2]| Matrix::zeros(device, 1, rows, columns);
        let gradient = |[rows, columns]: [usize; 2]| matrix([if gradients { rows } else { 0 }, columns]);
        Ok(Self {
            x: matrix(x)?,
            y: matrix(y)?,
            dy: gradient(y)?,
            dx: gradient(x)?,
            statistics: matrix([NormSlots::statistics_rows(groups), x[1]])?,
        })
    }
}

impl BatchNorm {
    /// Computes y from x, with the running statistics for inference, otherwise with those of the batch.
    pub fn forward<D: Layers + compute::BatchNorm>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        is_inference: bool,
        buffers: &mut BatchNormBuffers<D::Buffer>,
    ) -> Result<()> {
        let BatchNormBuffers { x, y, statistics, .. } = buffers;
        if is_inference {
            device.batch_norm_inference(params, self.slots, x, y)?;
        } else {
            device.batch_norm(params, self.slots, x, statistics, y)?;
        }
        device.activate(self.activation, y)
    }

    /// Computes dx from dy.
    pub fn backward_input<D: Layers + compute::BatchNorm>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        buffers: &mut BatchNormBuffers<D::Buffer>,
    ) -> Result<()> {
        let BatchNormBuffers { x, y, dy, dx, statistics } = buffers;
        device.activate_backward(self.activation, y, dy)?;
        device.batch_norm_backward_input(params, self.slots, x, dy, statistics, dx)
    }

    /// Gradients of gain and shift, or Adam's step with them; call it after `backward_input`.
    pub fn backward_weights<D: Layers + compute::BatchNorm>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        buffers: &BatchNormBuffers<D::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        device.batch_norm_backward_weights(params, self.slots, &buffers.statistics, update)
    }
}
