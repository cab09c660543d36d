//! Which layers there are and where their numbers lie.

use std::ops::Range;

use crate::compute::{Affine, Layout, MixtureSlots, Slot};
use crate::seed::Key;

/// Encoder g: D - hidden - (mean, log variance of q(z|x)), decoder f: J - hidden reversed - output,
/// and the mixture prior, as slices of one flat buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Hidden layers of the encoder, ReLU.
    pub encoder: Vec<Affine>,
    /// Linear, [last hidden, 2J]: J means, then J log variances; wider where q(z|x) is no single Gaussian.
    pub head: Affine,
    /// Hidden layers of the decoder, ReLU.
    pub decoder: Vec<Affine>,
    /// Linear, [last hidden, outputs].
    pub output: Affine,
    /// The prior's free parameters.
    pub mixture: MixtureSlots,
    /// The table of names.
    pub layout: Layout,
    n_latents: usize,
}

impl Architecture {
    /// The networks for D columns and the decoder's outputs, with C components.
    pub fn new(
        n_columns: usize,
        hidden: &[usize],
        n_latents: usize,
        n_outputs: usize,
        n_components: usize,
    ) -> Self {
        Self::with_head(n_columns, hidden, 2 * n_latents, n_latents, n_outputs, n_components)
    }

    /// The same with a head of any width.
    pub fn with_head(
        n_columns: usize,
        hidden: &[usize],
        n_head: usize,
        n_latents: usize,
        n_outputs: usize,
        n_components: usize,
    ) -> Self {
        let mut layout = Layout::default();
        let chain = |layout: &mut Layout, part: &str, widths: &[usize]| -> Vec<Affine> {
            let pairs = widths.windows(2).enumerate();
            pairs.map(|(i, w)| layout.push_affine(&format!("{part}.{i}"), w[0], w[1])).collect()
        };
        let down: Vec<usize> = std::iter::once(n_columns).chain(hidden.iter().copied()).collect();
        let up: Vec<usize> = std::iter::once(n_latents).chain(hidden.iter().rev().copied()).collect();
        let encoder = chain(&mut layout, "encoder", &down);
        let head = layout.push_affine("encoder.head", down[down.len() - 1], n_head);
        let decoder = chain(&mut layout, "decoder", &up);
        let output = layout.push_affine("decoder.output", up[up.len() - 1], n_outputs);
        let mixture = MixtureSlots {
            logits: layout.push("mixture.logits", 1, n_components),
            means: layout.push("mixture.means", n_components, n_latents),
            log_variances: layout.push("mixture.log_variances", n_components, n_latents),
        };
        Self { encoder, head, decoder, output, mixture, layout, n_latents }
    }

    /// J.
    pub fn n_latents(&self) -> usize {
        self.n_latents
    }

    /// The networks' part of the flat buffer.
    pub fn network_range(&self) -> Range<usize> {
        0..self.mixture.logits.offset
    }

    /// The mixture's part of the flat buffer.
    pub fn mixture_range(&self) -> Range<usize> {
        self.mixture.logits.offset..self.layout.len()
    }

    /// Start values (Glorot and Bengio, 2010): weights uniform within sqrt(6 / (in + out)), biases zero.
    pub fn start_values(&self, key: Key) -> Vec<f32> {
        let mut values = vec![0.0; self.layout.len()];
        let layers = self.encoder.iter().chain([&self.head]).chain(&self.decoder).chain([&self.output]);
        for (number, layer) in layers.enumerate() {
            // The head is several layers side by side, each with J outputs.
            let outputs = if layer == &self.head { self.n_latents } else { layer.weight.columns };
            fill_uniform(&mut values, layer.weight, outputs, key, number as u32);
        }
        values
    }
}

fn fill_uniform(values: &mut [f32], slot: Slot, outputs: usize, key: Key, number: u32) {
    let limit = (6.0 / (slot.rows + outputs) as f64).sqrt();
    for (i, value) in values[slot.range()].iter_mut().enumerate() {
        *value = ((2.0 * key.uniform(i as u64, number, 0) - 1.0) * limit) as f32;
    }
}
