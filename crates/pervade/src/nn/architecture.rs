//! The layers of the networks and the offsets of their parameters.

use std::ops::Range;

use super::{Convolution, Layer, Network, TransposedConvolution};
use crate::compute::{Affine, Layout, MixtureSlots, Slot, Windows};
use crate::seed::Key;

/// The sizes that determine the networks and the prior.
#[derive(Clone, Copy, Debug)]
pub struct Sizes<'s> {
    /// Inputs of the encoder: the columns of the data, D, or more where columns have types.
    pub n_inputs: usize,
    /// Widths of the encoder's hidden layers; the decoder mirrors them. In a convolutional network, all but the last
    /// are the output channels of convolutions.
    pub hidden: &'s [usize],
    /// Height, width and channels of the images for a convolutional network; `None` for a fully connected one.
    pub image: Option<[usize; 3]>,
    /// Outputs of the encoder: 2J for a Gaussian q(z|x).
    pub n_head: usize,
    /// Latent columns, J.
    pub n_latents: usize,
    /// Outputs of the decoder.
    pub n_outputs: usize,
    /// Scales of p(x|z) that are trained but do not depend on z, such as the variance of a column.
    pub n_scales: usize,
    /// Components of the prior, C.
    pub n_components: usize,
}

/// Encoder g: D - hidden - (mean, log variance of q(z|x)), decoder f: J - hidden reversed - output,
/// and the mixture prior, as slices of one flat parameter buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Maps rows to [n, 2J]: J means, then J log variances; wider if q(z|x) is not a single Gaussian.
    pub encoder: Network,
    /// Maps latents to the parameters of p(x|z).
    pub decoder: Network,
    /// Log scales of p(x|z), as the layer whose only input is one; none if p(x|z) has no trained scales.
    pub scales: Option<Affine>,
    /// The prior's free parameters.
    pub mixture: MixtureSlots,
    /// Name, shape and offset of each parameter.
    pub layout: Layout,
}

/// Windows of 4 x 4 pixels with stride 2: a convolution halves the image, a transposed convolution doubles it.
fn halving([height, width, channels]: [usize; 3]) -> Windows {
    Windows { height, width, channels, size: 4, stride: 2, padding: 1 }
}

impl Sizes<'_> {
    /// Number of convolutions in the encoder.
    fn n_convolutions(&self) -> usize {
        self.image.map_or(0, |_| self.hidden.len().saturating_sub(1))
    }

    /// Height, width and channels before each convolution and after the last. Other data count as images of one pixel.
    fn images(&self) -> Vec<[usize; 3]> {
        let mut images = vec![self.image.unwrap_or([1, 1, self.n_inputs])];
        for (i, &channels) in self.hidden[..self.n_convolutions()].iter().enumerate() {
            let [height, width] = halving(images[i]).count();
            images.push([height, width, channels]);
        }
        images
    }

    /// Widths of the fully connected part of the encoder: the flattened output of its convolutions (the columns, if
    /// there are none), then the hidden layers.
    fn widths(&self) -> Vec<usize> {
        let flat = self.images()[self.n_convolutions()].iter().product();
        std::iter::once(flat).chain(self.hidden[self.n_convolutions()..].iter().copied()).collect()
    }
}

impl Architecture {
    /// Networks and prior of the given sizes.
    pub fn new(sizes: &Sizes<'_>) -> Self {
        let mut layout = Layout::default();
        let encoder = encoder(&mut layout, sizes);
        let decoder = decoder(&mut layout, sizes);
        let scales = (sizes.n_scales > 0).then(|| layout.push_affine("decoder.scales", 1, sizes.n_scales));
        let mixture = MixtureSlots {
            logits: layout.push("mixture.logits", 1, sizes.n_components),
            means: layout.push("mixture.means", sizes.n_components, sizes.n_latents),
            log_variances: layout.push("mixture.log_variances", sizes.n_components, sizes.n_latents),
        };
        Self { encoder, decoder, scales, mixture, layout }
    }

    /// Inputs of the encoder.
    pub fn n_inputs(&self) -> usize {
        self.encoder.n_inputs()
    }

    /// Latent columns, J.
    pub fn n_latents(&self) -> usize {
        self.mixture.n_latents()
    }

    /// Outputs of the encoder.
    pub fn n_head(&self) -> usize {
        self.encoder.n_outputs()
    }

    /// Outputs of the decoder.
    pub fn n_outputs(&self) -> usize {
        self.decoder.n_outputs()
    }

    /// Trained scales of p(x|z).
    pub fn n_scales(&self) -> usize {
        self.scales.map_or(0, |scales| scales.bias.columns)
    }

    /// The range of the networks' parameters in the flat buffer.
    pub fn network_range(&self) -> Range<usize> {
        0..self.mixture.logits.offset
    }

    /// The range of the mixture's parameters in the flat buffer.
    pub fn mixture_range(&self) -> Range<usize> {
        self.mixture.logits.offset..self.layout.len()
    }

    /// Initial parameters (Glorot and Bengio, 2010): weights uniform within +-sqrt(6 / (in + out)), biases zero.
    pub fn initial_values(&self, key: Key) -> Vec<f32> {
        let mut values = vec![0.0; self.layout.len()];
        let n_encoder = self.encoder.layers.len();
        for (index, layer) in self.encoder.layers.iter().chain(&self.decoder.layers).enumerate() {
            let weight = layer.weights().weight;
            // The head is several layers in parallel, each with J outputs.
            let is_head = index + 1 == n_encoder;
            let outputs = if is_head { self.n_latents() } else { weight.columns };
            fill_uniform(&mut values, weight, outputs, key, index as u32);
        }
        values
    }
}

/// D - hidden - head.
fn encoder(layout: &mut Layout, sizes: &Sizes<'_>) -> Network {
    let mut layers = Vec::new();
    let (images, widths) = (sizes.images(), sizes.widths());
    for (i, pair) in images.windows(2).enumerate() {
        let name = format!("encoder.{i}");
        layers.push(Layer::Convolution(Convolution::new(layout, &name, halving(pair[0]), pair[1][2])));
    }
    for pair in widths.windows(2) {
        let name = format!("encoder.{}", layers.len());
        layers.push(Layer::Affine(layout.push_affine(&name, pair[0], pair[1])));
    }
    layers.push(Layer::Affine(layout.push_affine("encoder.head", widths[widths.len() - 1], sizes.n_head)));
    Network { layers }
}

/// J - hidden reversed - output.
fn decoder(layout: &mut Layout, sizes: &Sizes<'_>) -> Network {
    let images = sizes.images();
    let mut widths = sizes.widths();
    if images.len() == 1 {
        widths[0] = sizes.n_outputs;
    }
    widths.push(sizes.n_latents);
    widths.reverse();
    let n_layers = widths.len() + images.len() - 2;
    let name = |index: usize| match index + 1 {
        last if last == n_layers => "decoder.output".to_string(),
        _ => format!("decoder.{index}"),
    };
    let mut layers = Vec::new();
    for pair in widths.windows(2) {
        layers.push(Layer::Affine(layout.push_affine(&name(layers.len()), pair[0], pair[1])));
    }
    for pair in images.windows(2).rev() {
        let (name, windows) = (name(layers.len()), halving(pair[0]));
        let layer = TransposedConvolution::new(layout, &name, pair[1][2], windows);
        layers.push(Layer::TransposedConvolution(layer));
    }
    Network { layers }
}

fn fill_uniform(values: &mut [f32], slot: Slot, outputs: usize, key: Key, layer: u32) {
    let limit = (6.0 / (slot.rows + outputs) as f64).sqrt();
    for (i, value) in values[slot.range()].iter_mut().enumerate() {
        *value = ((2.0 * key.uniform(i as u64, layer, 0) - 1.0) * limit) as f32;
    }
}
