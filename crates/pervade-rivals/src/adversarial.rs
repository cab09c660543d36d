//! Discriminators of latent codes, and both uses of their loss: to train the discriminator, and to train the encoder,
//! as the generator of the codes, to fool it.

use std::ops::Range;

use pervade::compute::{
    Activation, AdamStep, Affine, Codes, Device, Draw, Layout, Likelihood, Matrix, Params, Result,
};
use pervade::seed::Key;

/// A multi-layer perceptron with ReLUs and one logit as output.
pub(crate) struct CodeDiscriminator {
    layers: Vec<Affine>,
}

/// Activations and gradients of one batch.
struct CodeTape<B> {
    /// The input: [R, B, inputs].
    x: Matrix<B>,
    hidden: Vec<Matrix<B>>,
    /// The logits, then their gradient: [R, B, 1].
    logits: Matrix<B>,
    d_hidden: Vec<Matrix<B>>,
    /// Gradient of the input.
    dx: Matrix<B>,
}

impl CodeDiscriminator {
    /// A network with hidden layers of these widths, added to the layout.
    pub(crate) fn new(layout: &mut Layout, name: &str, inputs: usize, widths: &[usize]) -> Self {
        let all: Vec<usize> = std::iter::once(inputs).chain(widths.iter().copied()).chain([1]).collect();
        let pairs = all.windows(2).enumerate();
        Self { layers: pairs.map(|(i, w)| layout.push_affine(&format!("{name}.{i}"), w[0], w[1])).collect() }
    }

    /// Initialises weights uniformly within sqrt(6 / (in + out)) (Glorot and Bengio, 2010), biases with zero.
    pub(crate) fn initialise(&self, values: &mut [f32], key: Key) {
        for layer in &self.layers {
            let slot = layer.weight;
            let limit = (6.0 / (slot.rows + slot.columns) as f64).sqrt();
            for i in slot.range() {
                values[i] = ((2.0 * key.uniform(i as u64, 0, 0) - 1.0) * limit) as f32;
            }
        }
    }

    /// Allocates the buffers for batches of `n_rows`.
    fn tape<D: Device + Codes>(&self, device: &D, n_rows: usize) -> Result<CodeTape<D::Buffer>> {
        let matrix = |columns| Matrix::zeros(device, 1, n_rows, columns);
        let (last, before) = self.layers.split_last().expect("at least one layer");
        let hidden = || before.iter().map(|layer| matrix(layer.weight.columns)).collect::<Result<Vec<_>>>();
        let inputs = self.layers[0].weight.rows;
        Ok(CodeTape {
            x: matrix(inputs)?,
            hidden: hidden()?,
            logits: matrix(last.weight.columns)?,
            d_hidden: hidden()?,
            dx: matrix(inputs)?,
        })
    }

    /// The forward pass, from `x` to the logits.
    fn forward<D: Device + Codes>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        tape: &mut CodeTape<D::Buffer>,
    ) -> Result<()> {
        let n = self.layers.len() - 1;
        for i in 0..n {
            let (before, after) = tape.hidden.split_at_mut(i);
            let x = before.last().unwrap_or(&tape.x);
            device.affine(params, self.layers[i], x, Activation::Relu, &mut after[0])?;
        }
        let x = tape.hidden.last().unwrap_or(&tape.x);
        device.affine(params, self.layers[n], x, Activation::Linear, &mut tape.logits)
    }

    /// The backward pass from the logits' gradient, with an update of the weights.
    fn backward_weights<D: Device + Codes>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        tape: &mut CodeTape<D::Buffer>,
        update: &AdamStep,
    ) -> Result<()> {
        for i in (0..self.layers.len()).rev() {
            let (before, after) = tape.d_hidden.split_at_mut(i);
            let dy = after.first().unwrap_or(&tape.logits);
            if let Some(dx) = before.last_mut() {
                device.affine_backward_input(params, self.layers[i], dy, Some(&tape.hidden[i - 1]), dx)?;
            }
            let x = if i == 0 { &tape.x } else { &tape.hidden[i - 1] };
            device.affine_backward_weights(params, self.layers[i], x, dy, Some(update))?;
        }
        Ok(())
    }

    /// The backward pass from the logits' gradient to that of the input.
    fn backward_input<D: Device + Codes>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        tape: &mut CodeTape<D::Buffer>,
    ) -> Result<()> {
        for i in (0..self.layers.len()).rev() {
            let (before, after) = tape.d_hidden.split_at_mut(i);
            let dy = after.first().unwrap_or(&tape.logits);
            match before.last_mut() {
                Some(dx) => {
                    let mask = Some(&tape.hidden[i - 1]);
                    device.affine_backward_input(params, self.layers[i], dy, mask, dx)?;
                }
                None => device.affine_backward_input(params, self.layers[i], dy, None, &mut tape.dx)?,
            }
        }
        Ok(())
    }
}

/// A part of a code with its discriminator, and the buffers of both training phases.
///
/// Noise is added to the discriminator's input: without it, a softmax that is never exactly one-hot gives every fake
/// row away, and the encoder gets no useful gradient.
pub(crate) struct AdversarialCode<D: Device + Codes> {
    discriminator: CodeDiscriminator,
    /// The part's columns of the code.
    pub(crate) columns: Range<usize>,
    /// Fake rows, then real ones, [1, 2B, ..]; `both_clean` is without noise, followed by the noise's log variances.
    both: CodeTape<D::Buffer>,
    both_clean: Matrix<D::Buffer>,
    /// Discriminator targets: zeros for fake rows, then ones for real ones.
    targets: Matrix<D::Buffer>,
    /// Fake rows alone, [1, B, ..], with and without noise.
    fake: CodeTape<D::Buffer>,
    fake_clean: Matrix<D::Buffer>,
    /// Generator targets: all ones.
    real_targets: Matrix<D::Buffer>,
    /// Log likelihoods of the targets.
    both_sums: D::Sums,
    fake_sums: D::Sums,
}

impl<D: Device + Codes> AdversarialCode<D> {
    /// Allocates the buffers for batches of B rows, with noise of this standard deviation.
    pub(crate) fn new(
        device: &D,
        discriminator: CodeDiscriminator,
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
        let zeros_then_ones = |n_zeros: usize| {
            let mut targets = Matrix::zeros(device, 1, n_zeros + n_rows, 1)?;
            device.write(&mut targets.data, n_zeros, &vec![1.0; n_rows])?;
            Ok(targets)
        };
        Ok(Self {
            both: discriminator.tape(device, 2 * n_rows)?,
            both_clean: clean(2 * n_rows)?,
            targets: zeros_then_ones(n_rows)?,
            fake: discriminator.tape(device, n_rows)?,
            fake_clean: clean(n_rows)?,
            real_targets: zeros_then_ones(0)?,
            both_sums: device.sums(1, 2 * n_rows, 1)?,
            fake_sums: device.sums(1, n_rows, 1)?,
            columns,
            discriminator,
        })
    }

    /// Trains the discriminator to tell this part of `code` from `real`, by a logistic loss.
    pub(crate) fn discriminator_step(
        &mut self,
        device: &D,
        params: &mut Params<D::Buffer>,
        code: &Matrix<D::Buffer>,
        real: &Matrix<D::Buffer>,
        noise: Draw<'_>,
        adam: &AdamStep,
    ) -> Result<()> {
        let (both, clean) = (&mut self.both, &mut self.both_clean);
        device.copy_columns(code, self.columns.clone(), clean, [0, 0])?;
        device.copy_columns(real, 0..real.columns, clean, [code.rows, 0])?;
        device.sample_latents(Some(noise), clean.rows, clean, &mut both.x)?;
        self.discriminator.forward(device, params, both)?;
        device.likelihood(&[Likelihood::Bernoulli], &self.targets, &mut both.logits, &mut self.both_sums)?;
        self.discriminator.backward_weights(device, params, both, adam)
    }

    /// Computes the gradient of the generator's loss, that of taking this part of `code` for real, in its columns of
    /// `d_code`.
    pub(crate) fn generator_gradient(
        &mut self,
        device: &D,
        params: &Params<D::Buffer>,
        code: &Matrix<D::Buffer>,
        noise: Draw<'_>,
        d_code: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        let (fake, clean) = (&mut self.fake, &mut self.fake_clean);
        device.copy_columns(code, self.columns.clone(), clean, [0, 0])?;
        device.sample_latents(Some(noise), clean.rows, clean, &mut fake.x)?;
        self.discriminator.forward(device, params, fake)?;
        device.likelihood(
            &[Likelihood::Bernoulli],
            &self.real_targets,
            &mut fake.logits,
            &mut self.fake_sums,
        )?;
        self.discriminator.backward_input(device, params, fake)?;
        device.copy_columns(&fake.dx, 0..self.columns.len(), d_code, [0, self.columns.start])
    }
}
