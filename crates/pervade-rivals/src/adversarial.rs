//! Networks that tell real from made: chains of layers in a flat buffer, forward and backward.

use pervade::Result;
use pervade::compute::{Activation, AdamStep, Affine, Device, Layout, Matrix, Params};
use pervade::seed::Key;

/// A chain of layers with ReLUs between them, which ends in one logit.
pub(crate) struct Critic {
    layers: Vec<Affine>,
}

/// Activations and gradients of one batch.
pub(crate) struct Judged<B> {
    /// What is judged: [R, B, inputs].
    pub(crate) x: Matrix<B>,
    hidden: Vec<Matrix<B>>,
    /// The logits, then their gradient: [R, B, 1].
    pub(crate) logits: Matrix<B>,
    d_hidden: Vec<Matrix<B>>,
    /// Gradient of what is judged.
    pub(crate) dx: Matrix<B>,
}

impl Critic {
    /// Layers of these widths from `inputs` on, added to the layout.
    pub(crate) fn new(layout: &mut Layout, name: &str, inputs: usize, widths: &[usize]) -> Self {
        let all: Vec<usize> = std::iter::once(inputs).chain(widths.iter().copied()).chain([1]).collect();
        let pairs = all.windows(2).enumerate();
        Self { layers: pairs.map(|(i, w)| layout.push_affine(&format!("{name}.{i}"), w[0], w[1])).collect() }
    }

    /// Start values (Glorot and Bengio, 2010): weights uniform within sqrt(6 / (in + out)), biases zero.
    pub(crate) fn start(&self, values: &mut [f32], key: Key) {
        for layer in &self.layers {
            let slot = layer.weight;
            let limit = (6.0 / (slot.rows + slot.columns) as f64).sqrt();
            for i in slot.range() {
                values[i] = ((2.0 * key.uniform(i as u64, 0, 0) - 1.0) * limit) as f32;
            }
        }
    }

    /// Room for batches of `n_rows`.
    pub(crate) fn room<D: Device>(&self, device: &D, n_rows: usize) -> Result<Judged<D::Buffer>> {
        let matrix = |columns| Matrix::zeros(device, 1, n_rows, columns);
        let (last, before) = self.layers.split_last().expect("at least one layer");
        let hidden = || before.iter().map(|layer| matrix(layer.weight.columns)).collect::<Result<Vec<_>>>();
        let inputs = self.layers[0].weight.rows;
        Ok(Judged {
            x: matrix(inputs)?,
            hidden: hidden()?,
            logits: matrix(last.weight.columns)?,
            d_hidden: hidden()?,
            dx: matrix(inputs)?,
        })
    }

    /// From `x` to the logits.
    pub(crate) fn judge<D: Device>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        judged: &mut Judged<D::Buffer>,
    ) -> Result<()> {
        let n = self.layers.len() - 1;
        for i in 0..n {
            let (before, after) = judged.hidden.split_at_mut(i);
            let x = before.last().unwrap_or(&judged.x);
            device.affine(params, self.layers[i], x, Activation::Relu, &mut after[0])?;
        }
        let x = judged.hidden.last().unwrap_or(&judged.x);
        device.affine(params, self.layers[n], x, Activation::Linear, &mut judged.logits)
    }

    /// From the logits' gradient to the weights' update.
    pub(crate) fn learn<D: Device>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        judged: &mut Judged<D::Buffer>,
        update: &AdamStep,
    ) -> Result<()> {
        for i in (0..self.layers.len()).rev() {
            let (before, after) = judged.d_hidden.split_at_mut(i);
            let dy = after.first().unwrap_or(&judged.logits);
            if let Some(dx) = before.last_mut() {
                device.affine_backward_input(params, self.layers[i], dy, Some(&judged.hidden[i - 1]), dx)?;
            }
            let x = if i == 0 { &judged.x } else { &judged.hidden[i - 1] };
            device.affine_backward_weights(params, self.layers[i], x, dy, Some(update))?;
        }
        Ok(())
    }

    /// From the logits' gradient to that of what is judged; the weights stay.
    pub(crate) fn advise<D: Device>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        judged: &mut Judged<D::Buffer>,
    ) -> Result<()> {
        for i in (0..self.layers.len()).rev() {
            let (before, after) = judged.d_hidden.split_at_mut(i);
            let dy = after.first().unwrap_or(&judged.logits);
            match before.last_mut() {
                Some(dx) => {
                    let mask = Some(&judged.hidden[i - 1]);
                    device.affine_backward_input(params, self.layers[i], dy, mask, dx)?;
                }
                None => device.affine_backward_input(params, self.layers[i], dy, None, &mut judged.dx)?,
            }
        }
        Ok(())
    }
}
