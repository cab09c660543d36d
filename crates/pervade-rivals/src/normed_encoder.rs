//! An encoder with batch normalisation after every layer while it is trained.
//!
//! For inference the running statistics are constants, so that [`NormedEncoder::fold`] can move them into the weights:
//! the trained encoder is a plain one with the library's layout.

use pervade::compute::{self, Activation, AdamStep, Affine, Device, Matrix, NormSlots, Params, Result};
use pervade::nn::{Architecture, BatchNorm, BatchNormBuffers, Layer};

const RELU: Activation = Activation::LeakyRelu { slope: 0.0 };

/// The encoder's layers, each with its normalisation and activation; the last one is linear.
pub(crate) struct NormedEncoder {
    layers: Vec<(Affine, BatchNorm)>,
}

/// Activations and gradients of one batch, one entry per layer.
pub(crate) struct NormedTape<B> {
    layers: Vec<BatchNormBuffers<B>>,
}

impl NormedEncoder {
    /// The layers of a fully connected encoder, with normalisations added to the layout; `None` if it has convolutions.
    pub(crate) fn new(architecture: &mut Architecture) -> Option<Self> {
        let Architecture { encoder, layout, .. } = architecture;
        let n = encoder.layers.len();
        let normed = |(i, layer): (usize, &Layer)| {
            let Layer::Affine(affine) = *layer else { return None };
            let slots = NormSlots::new(layout, &format!("encoder.{i}.norm"), affine.weight.columns);
            let activation = if i + 1 < n { RELU } else { Activation::Linear };
            Some((affine, BatchNorm { slots, activation }))
        };
        Some(Self { layers: encoder.layers.iter().enumerate().map(normed).collect::<Option<_>>()? })
    }

    /// Initialises gains and running variances with one.
    pub(crate) fn initialise(&self, values: &mut [f32]) {
        for (_, norm) in &self.layers {
            values[norm.slots.gain.range()].fill(1.0);
            values[norm.slots.variance.range()].fill(1.0);
        }
    }

    /// Allocates the buffers for batches of `n_rows`.
    pub(crate) fn tape<D: Device>(&self, device: &D, n_rows: usize) -> Result<NormedTape<D::Buffer>> {
        let buffers = |(affine, _): &(Affine, BatchNorm)| {
            let shape = [n_rows, affine.weight.columns];
            BatchNormBuffers::new(device, shape, shape, 1, true)
        };
        Ok(NormedTape { layers: self.layers.iter().map(buffers).collect::<Result<_>>()? })
    }

    /// The forward pass of a batch, with its own statistics.
    pub(crate) fn forward<D: Device + compute::BatchNorm>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        rows: &D::Rows<'_>,
        batch: &D::Batch,
        tape: &mut NormedTape<D::Buffer>,
    ) -> Result<()> {
        for (i, &(affine, norm)) in self.layers.iter().enumerate() {
            let (before, after) = tape.layers.split_at_mut(i);
            let x = &mut after[0].x;
            match before.last() {
                Some(before) => device.affine(params, affine, &before.y, Activation::Linear, x)?,
                None => device.input_affine(params, affine, rows, batch, Activation::Linear, x)?,
            }
            norm.forward(device, params, false, &mut after[0])?;
        }
        Ok(())
    }

    /// The backward pass from the gradient of the output: gradients of all parameters, or the update with them.
    pub(crate) fn backward<D: Device + compute::BatchNorm>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        rows: &D::Rows<'_>,
        batch: &D::Batch,
        tape: &mut NormedTape<D::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        for (i, &(affine, norm)) in self.layers.iter().enumerate().rev() {
            let (before, after) = tape.layers.split_at_mut(i);
            norm.backward_input(device, params, &mut after[0])?;
            let dx = &after[0].dx;
            if let Some(before) = before.last_mut() {
                device.affine_backward_input(params, affine, dx, None, &mut before.dy)?;
                device.affine_backward_weights(params, affine, &before.y, dx, update)?;
            } else {
                device.input_affine_backward(params, affine, rows, batch, dx, update)?;
            }
            norm.backward_weights(device, params, &after[0], update)?;
        }
        Ok(())
    }

    /// Moves the normalisations by running statistics into the weights and biases before them.
    pub(crate) fn fold(&self, values: &mut [f32]) {
        self.layers.iter().for_each(|(affine, norm)| norm.slots.fold_into(*affine, values));
    }
}

impl<B> NormedTape<B> {
    /// The encoder's output: [1, B, 2J].
    pub(crate) fn output(&self) -> &Matrix<B> {
        &self.layers[self.layers.len() - 1].y
    }

    /// The gradient of the output.
    pub(crate) fn output_gradient(&mut self) -> &mut Matrix<B> {
        let last = self.layers.len() - 1;
        &mut self.layers[last].dy
    }
}

#[cfg(test)]
mod tests {
    use pervade::compute::prelude::*;
    use pervade::compute::{Cpu, RowSelection, Slot};
    use pervade::data::{Dataset, Preparation, PrepareKind};
    use pervade::nn::{Sizes, Tape};
    use pervade::seed::{Key, Stream};

    use super::*;

    const N: usize = 24;
    const SIZES: Sizes<'static> = Sizes {
        n_inputs: 4,
        hidden: &[7, 5],
        image: None,
        n_head: 6,
        n_latents: 3,
        n_outputs: 4,
        n_scales: 0,
        n_components: 1,
    };

    fn uniform(which: usize, i: usize) -> f32 {
        (2.0 * Key::new(1, Stream::Weights, which).uniform(i as u64, 0, 0) - 1.0) as f32
    }

    fn rows() -> Dataset<'static> {
        Dataset::from_rows(N, 4, (0..N * 4).map(|i| 3.0 + uniform(0, i)).collect()).unwrap()
    }

    /// An encoder with its architecture and random parameters.
    fn encoder() -> (NormedEncoder, Architecture, Params<Vec<f32>>) {
        let mut architecture = Architecture::new(&SIZES);
        let encoder = NormedEncoder::new(&mut architecture).expect("no convolutions");
        let mut params = Params::zeros(&Cpu::new(), 1, architecture.layout.len()).unwrap();
        encoder.initialise(&mut params.values);
        params.values.iter_mut().enumerate().for_each(|(i, value)| *value += 0.4 * uniform(1, i));
        (encoder, architecture, params)
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let ((encoder, architecture, mut params), cpu, data) = (encoder(), Cpu::new(), rows());
        let unscaled = Preparation::fit(PrepareKind::None, &data).unwrap();
        let rows = cpu.rows(data.view(&unscaled)).unwrap();
        let mut batch = cpu.batch(&rows, 1, N).unwrap();
        cpu.gather(&rows, RowSelection::Range { first: 0 }, &mut batch).unwrap();
        let mut tape = encoder.tape(&cpu, N).unwrap();
        // The loss is a weighted sum of the outputs.
        let weights: Vec<f32> = (0..N * 6).map(|i| uniform(2, i)).collect();
        encoder.forward(&cpu, &params, &rows, &batch, &mut tape).unwrap();
        tape.output_gradient().data.copy_from_slice(&weights);
        encoder.backward(&cpu, &mut params, &rows, &batch, &mut tape, None).unwrap();
        let (start, gradients) = (params.values.clone(), params.gradients.clone());
        let mut loss = |slot: &Slot, step: f32| {
            params.values.copy_from_slice(&start);
            slot.range().for_each(|i| params.values[i] += step * uniform(3, i));
            encoder.forward(&cpu, &params, &rows, &batch, &mut tape).unwrap();
            let terms = tape.output().data.iter().zip(&weights).map(|(y, w)| f64::from(y * w));
            terms.sum::<f64>()
        };
        for (name, slot) in architecture.layout.slots() {
            let is_trained =
                name.starts_with("encoder") && !name.ends_with("mean") && !name.ends_with("variance");
            if is_trained {
                let found = (loss(slot, 1e-3) - loss(slot, -1e-3)) / 2e-3;
                let along: f64 = slot.range().map(|i| f64::from(gradients[i] * uniform(3, i))).sum();
                assert!((found - along).abs() < 0.02 * along.abs().max(1.0), "{name}: {along}, not {found}");
            }
        }
    }

    /// With the batch's statistics as running ones, training and inference give the same outputs.
    #[test]
    fn the_folded_encoder_gives_the_same_outputs() {
        let ((encoder, architecture, mut params), cpu, data) = (encoder(), Cpu::new(), rows());
        let unscaled = Preparation::fit(PrepareKind::None, &data).unwrap();
        let rows = cpu.rows(data.view(&unscaled)).unwrap();
        let mut batch = cpu.batch(&rows, 1, N).unwrap();
        cpu.gather(&rows, RowSelection::Range { first: 0 }, &mut batch).unwrap();
        let mut normed = encoder.tape(&cpu, N).unwrap();
        encoder.forward(&cpu, &params, &rows, &batch, &mut normed).unwrap();
        for _ in 0..200 {
            encoder.backward(&cpu, &mut params, &rows, &batch, &mut normed, None).unwrap();
        }
        encoder.fold(&mut params.values);
        let mut plain = Tape::encoder(&cpu, &architecture, 1, N).unwrap();
        plain.encode(&cpu, &architecture, &params, &rows, &batch).unwrap();
        for (a, b) in plain.head.data.iter().zip(&normed.output().data) {
            assert!((a - b).abs() < 1e-4, "{a} is not {b}");
        }
    }

    #[test]
    fn convolutions_are_refused() {
        let sizes = Sizes { n_inputs: 64, image: Some([8, 8, 1]), n_outputs: 64, ..SIZES };
        assert!(NormedEncoder::new(&mut Architecture::new(&sizes)).is_none());
    }
}
