//! Networks that tell real codes from made ones, and the two uses of their verdict: the network learns from it, and
//! who makes the codes learns to deceive.

use std::ops::Range;

use pervade::compute::{
    Activation, AdamStep, Affine, Codes, Device, Draw, Layout, Likelihood, Matrix, Params, Result,
};
use pervade::seed::Key;

/// A chain of layers with ReLUs between them, which ends in one logit.
pub(crate) struct Critic {
    layers: Vec<Affine>,
}

/// Activations and gradients of one batch.
struct Judged<B> {
    /// What is judged: [R, B, inputs].
    x: Matrix<B>,
    hidden: Vec<Matrix<B>>,
    /// The logits, then their gradient: [R, B, 1].
    logits: Matrix<B>,
    d_hidden: Vec<Matrix<B>>,
    /// Gradient of what is judged.
    dx: Matrix<B>,
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
    fn room<D: Device + Codes>(&self, device: &D, n_rows: usize) -> Result<Judged<D::Buffer>> {
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
    fn judge<D: Device + Codes>(
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
    fn learn<D: Device + Codes>(
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
    fn advise<D: Device + Codes>(
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

/// A part of a code with its critic, and the buffers of both uses.
///
/// Noise is added to whatever the critic sees: without it, a softmax that is never quite one and zero gives every
/// made row away, and who makes them learns nothing.
pub(crate) struct Side<D: Device + Codes> {
    critic: Critic,
    /// Where it lies in the code.
    pub(crate) columns: Range<usize>,
    /// Made rows, then real ones, [1, 2B, ..]; before the noise, with its log variances beside them.
    both: Judged<D::Buffer>,
    both_clean: Matrix<D::Buffer>,
    /// The verdicts wanted of them: no, then yes.
    verdicts: Matrix<D::Buffer>,
    /// Made rows, [1, B, ..]; likewise.
    made: Judged<D::Buffer>,
    made_clean: Matrix<D::Buffer>,
    /// What who makes them wants to hear: yes.
    yes: Matrix<D::Buffer>,
    /// Log likelihoods of the verdicts.
    both_sums: D::Sums,
    made_sums: D::Sums,
}

impl<D: Device + Codes> Side<D> {
    /// Buffers for batches of B rows and noise of this standard deviation.
    pub(crate) fn new(
        device: &D,
        critic: Critic,
        columns: Range<usize>,
        n_rows: usize,
        noise: f32,
    ) -> Result<Self> {
        let clean = |rows: usize| {
            let mut head = Matrix::zeros(device, 1, rows, 2 * columns.len())?;
            let row = [vec![0.0; columns.len()], vec![2.0 * noise.ln(); columns.len()]].concat();
            device.write(&mut head.data, 0, &row.repeat(rows))?;
            Ok(head)
        };
        let verdicts = |no: usize| {
            let mut verdicts = Matrix::zeros(device, 1, no + n_rows, 1)?;
            device.write(&mut verdicts.data, no, &vec![1.0; n_rows])?;
            Ok(verdicts)
        };
        Ok(Self {
            both: critic.room(device, 2 * n_rows)?,
            both_clean: clean(2 * n_rows)?,
            verdicts: verdicts(n_rows)?,
            made: critic.room(device, n_rows)?,
            made_clean: clean(n_rows)?,
            yes: verdicts(0)?,
            both_sums: device.sums(1, 2 * n_rows)?,
            made_sums: device.sums(1, n_rows)?,
            columns,
            critic,
        })
    }

    /// The critic learns to tell this part of `code` from `real`, by a logistic loss.
    pub(crate) fn discriminate(
        &mut self,
        device: &D,
        critics: &mut Params<D::Buffer>,
        code: &Matrix<D::Buffer>,
        real: &Matrix<D::Buffer>,
        noise: Draw<'_>,
        adam: &AdamStep,
    ) -> Result<()> {
        let (both, clean) = (&mut self.both, &mut self.both_clean);
        device.copy_columns(code, self.columns.clone(), clean, [0, 0])?;
        device.copy_columns(real, 0..real.columns, clean, [code.rows, 0])?;
        device.sample_latents(Some(noise), clean, &mut both.x)?;
        self.critic.judge(device, critics, both)?;
        device.likelihood(&[Likelihood::Bernoulli], &self.verdicts, &mut both.logits, &mut self.both_sums)?;
        self.critic.learn(device, critics, both, adam)
    }

    /// The gradient that would make the critic take this part of `code` for real, in its columns of `d_code`.
    pub(crate) fn deceive(
        &mut self,
        device: &D,
        critics: &Params<D::Buffer>,
        code: &Matrix<D::Buffer>,
        noise: Draw<'_>,
        d_code: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        let (made, clean) = (&mut self.made, &mut self.made_clean);
        device.copy_columns(code, self.columns.clone(), clean, [0, 0])?;
        device.sample_latents(Some(noise), clean, &mut made.x)?;
        self.critic.judge(device, critics, made)?;
        device.likelihood(&[Likelihood::Bernoulli], &self.yes, &mut made.logits, &mut self.made_sums)?;
        self.critic.advise(device, critics, made)?;
        device.copy_columns(&made.dx, 0..self.columns.len(), d_code, [0, self.columns.start])
    }
}
