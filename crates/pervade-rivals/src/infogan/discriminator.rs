//! The discriminator D, from an image to a real-or-fake logit, and Q, from an image to its predicted code.

use crate::ImageDevice;
use pervade::compute::{Activation, AdamStep, Affine, Layout, Matrix, NormSlots, Params, Result};
use pervade::nn::{BatchNorm, BatchNormBuffers, Convolution};

use super::{Sizes, halving};

const LEAKY: Activation = Activation::LeakyRelu { slope: 0.1 };

/// Two convolutions and a fully connected layer, which D and Q share, then the head of each.
///
/// Both heads start with one common layer, so that the backward pass adds up their gradients: its first column is D's
/// logit, the others are Q's hidden layer.
pub(crate) struct Discriminator {
    first: Convolution,
    second: (Convolution, BatchNorm),
    third: (Affine, BatchNorm),
    heads: Affine,
    recognition: BatchNorm,
    output: Affine,
    pub(crate) layout: Layout,
}

/// Activations and gradients of one batch of n images with S x S pixels; q is S/4 and h is S/2.
pub(crate) struct DiscriminatorTape<B> {
    /// [1, n, S S].
    pub(crate) images: Matrix<B>,
    /// Windows of the images: [n h h, 16].
    unfolded: Matrix<B>,
    /// After the activation: [n h h, channels].
    first: Matrix<B>,
    second_unfolded: Matrix<B>,
    /// [n q q, channels], then [n, q q channels].
    second: BatchNormBuffers<B>,
    third: BatchNormBuffers<B>,
    heads: Matrix<B>,
    /// D's logits, then their gradient: [1, n, 1].
    pub(crate) logits: Matrix<B>,
    recognition: BatchNormBuffers<B>,
    /// Q's output: logits of the category, means and optionally log variances of the continuous codes; then its
    /// gradient: [1, n, K + C or K + 2C].
    pub(crate) output: Matrix<B>,
    d_heads: Matrix<B>,
    d_second_unfolded: Matrix<B>,
    d_first: Matrix<B>,
    d_unfolded: Matrix<B>,
    pub(crate) d_images: Matrix<B>,
}

impl<B> DiscriminatorTape<B> {
    /// Allocates buffers for n images in `groups` groups, which are batch-normalised separately.
    pub(crate) fn new<D: ImageDevice<Buffer = B>>(
        device: &D,
        sizes: &Sizes,
        n: usize,
        groups: usize,
        gradients: bool,
    ) -> Result<Self> {
        let matrix = |rows, columns| Matrix::zeros(device, 1, rows, columns);
        let normed = |x, y| BatchNormBuffers::new(device, x, y, groups, gradients);
        let [near, far] = sizes.channels;
        let (quarter, half) = ((sizes.side / 4).pow(2), (sizes.side / 2).pow(2));
        let n_gradients = if gradients { n } else { 0 };
        let windows = halving(sizes.side, 1).window_len();
        let second_windows = halving(sizes.side / 2, near).window_len();
        let flat = |width| [n, width];
        Ok(Self {
            images: matrix(n, sizes.side * sizes.side)?,
            unfolded: matrix(n * half, windows)?,
            first: matrix(n * half, near)?,
            second_unfolded: matrix(n * quarter, second_windows)?,
            second: normed([n * quarter, far], flat(quarter * far))?,
            third: normed(flat(sizes.width), flat(sizes.width))?,
            heads: matrix(n, 1 + sizes.recognition)?,
            logits: matrix(n, 1)?,
            recognition: normed(flat(sizes.recognition), flat(sizes.recognition))?,
            output: matrix(n, sizes.n_outputs())?,
            d_heads: matrix(n_gradients, 1 + sizes.recognition)?,
            d_second_unfolded: matrix(n_gradients * quarter, second_windows)?,
            d_first: matrix(n_gradients * half, near)?,
            d_unfolded: matrix(n_gradients * half, windows)?,
            d_images: matrix(n_gradients, sizes.side * sizes.side)?,
        })
    }
}

impl Discriminator {
    pub(crate) fn new(sizes: &Sizes) -> Self {
        let (mut layout, [near, far]) = (Layout::default(), sizes.channels);
        let flat = (sizes.side / 4).pow(2) * far;
        let norm = |layout: &mut Layout, name: &str, columns| BatchNorm {
            slots: NormSlots::new(layout, name, columns),
            activation: LEAKY,
        };
        let first = Convolution::new(&mut layout, "discriminator.0", halving(sizes.side, 1), near);
        let second = Convolution::new(&mut layout, "discriminator.1", halving(sizes.side / 2, near), far);
        let second_norm = norm(&mut layout, "discriminator.1.norm", far);
        let third = layout.push_affine("discriminator.2", flat, sizes.width);
        let third_norm = norm(&mut layout, "discriminator.2.norm", sizes.width);
        let heads = layout.push_affine("heads", sizes.width, 1 + sizes.recognition);
        let recognition = norm(&mut layout, "recognition.norm", sizes.recognition);
        let output = layout.push_affine("recognition.output", sizes.recognition, sizes.n_outputs());
        Self {
            first,
            second: (second, second_norm),
            third: (third, third_norm),
            heads,
            recognition,
            output,
            layout,
        }
    }

    /// The normalisations, for their initialisation.
    pub(crate) fn norms(&self) -> Vec<NormSlots> {
        [self.second.1, self.third.1, self.recognition].iter().map(|norm| norm.slots).collect()
    }

    /// The layers, for their initialisation.
    pub(crate) fn layers(&self) -> Vec<Affine> {
        vec![self.first.layer, self.second.0.layer, self.third.0, self.heads, self.output]
    }

    /// The forward pass, from the images to the logits and Q's output; `running` uses the running statistics.
    pub(crate) fn forward<D: ImageDevice>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        running: bool,
        tape: &mut DiscriminatorTape<D::Buffer>,
    ) -> Result<()> {
        let t = tape;
        self.first.forward(device, params, &t.images, &mut t.unfolded, Activation::Linear, &mut t.first)?;
        device.activate(LEAKY, &mut t.first)?;
        self.second.0.forward(
            device,
            params,
            &t.first,
            &mut t.second_unfolded,
            Activation::Linear,
            &mut t.second.x,
        )?;
        self.second.1.forward(device, params, running, &mut t.second)?;
        device.affine(params, self.third.0, &t.second.y, Activation::Linear, &mut t.third.x)?;
        self.third.1.forward(device, params, running, &mut t.third)?;
        device.affine(params, self.heads, &t.third.y, Activation::Linear, &mut t.heads)?;
        device.copy_columns(&t.heads, 0..1, &mut t.logits, [0, 0])?;
        device.copy_columns(&t.heads, 1..t.heads.columns, &mut t.recognition.x, [0, 0])?;
        self.recognition.forward(device, params, running, &mut t.recognition)?;
        device.affine(params, self.output, &t.recognition.y, Activation::Linear, &mut t.output)
    }

    /// The backward pass, from the gradients of the logits and of Q's output to those of all layers' outputs and, if
    /// `to_images`, of the images.
    pub(crate) fn backward<D: ImageDevice>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        tape: &mut DiscriminatorTape<D::Buffer>,
        to_images: bool,
    ) -> Result<()> {
        let t = tape;
        device.affine_backward_input(params, self.output, &t.output, None, &mut t.recognition.dy)?;
        self.recognition.backward_input(device, params, &mut t.recognition)?;
        device.copy_columns(&t.logits, 0..1, &mut t.d_heads, [0, 0])?;
        device.copy_columns(&t.recognition.dx, 0..t.recognition.dx.columns, &mut t.d_heads, [0, 1])?;
        device.affine_backward_input(params, self.heads, &t.d_heads, None, &mut t.third.dy)?;
        self.third.1.backward_input(device, params, &mut t.third)?;
        device.affine_backward_input(params, self.third.0, &t.third.dx, None, &mut t.second.dy)?;
        self.second.1.backward_input(device, params, &mut t.second)?;
        let dy = &t.second.dx;
        self.second.0.backward_input(device, params, dy, &mut t.d_second_unfolded, &mut t.d_first)?;
        device.activate_backward(LEAKY, &t.first, &mut t.d_first)?;
        if to_images {
            self.first.backward_input(device, params, &t.d_first, &mut t.d_unfolded, &mut t.d_images)?;
        }
        Ok(())
    }

    /// The weights' gradients after `backward`, or the update.
    pub(crate) fn backward_weights<D: ImageDevice>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        tape: &DiscriminatorTape<D::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        let t = tape;
        device.affine_backward_weights(params, self.output, &t.recognition.y, &t.output, update)?;
        self.recognition.backward_weights(device, params, &t.recognition, update)?;
        device.affine_backward_weights(params, self.heads, &t.third.y, &t.d_heads, update)?;
        self.third.1.backward_weights(device, params, &t.third, update)?;
        device.affine_backward_weights(params, self.third.0, &t.second.y, &t.third.dx, update)?;
        self.second.1.backward_weights(device, params, &t.second, update)?;
        self.second.0.backward_weights(device, params, &t.second_unfolded, &t.second.dx, update)?;
        self.first.backward_weights(device, params, &t.unfolded, &t.d_first, update)
    }
}
