//! D and Q: an image to a verdict and to what is known of the code that it was made from.

use crate::ImageDevice;
use pervade::compute::{Activation, AdamStep, Affine, Layout, Matrix, NormSlots, Params, Result};
use pervade::nn::{BatchNorm, Convolution, Normed};

use super::{Sizes, halving};

const LEAKY: Activation = Activation::LeakyRelu { slope: 0.1 };

/// Two convolutions and a layer, which D and Q share, then the head of each.
///
/// The heads begin as one layer, so that the gradients of both add up on the way back: its first column is D's logit,
/// the others are Q's hidden layer.
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
pub(crate) struct Judged<B> {
    /// [1, n, S S].
    pub(crate) images: Matrix<B>,
    /// Windows of the images: [n h h, 16].
    unfolded: Matrix<B>,
    /// Bent: [n h h, channels].
    first: Matrix<B>,
    second_unfolded: Matrix<B>,
    /// [n q q, channels], then [n, q q channels].
    second: Normed<B>,
    third: Normed<B>,
    heads: Matrix<B>,
    /// D's, then their gradient: [1, n, 1].
    pub(crate) logits: Matrix<B>,
    recognition: Normed<B>,
    /// Q's: logits of the choice, means and perhaps log variances of the numbers; then their gradient:
    /// [1, n, K + C or K + 2C].
    pub(crate) output: Matrix<B>,
    d_heads: Matrix<B>,
    d_second_unfolded: Matrix<B>,
    d_first: Matrix<B>,
    d_unfolded: Matrix<B>,
    pub(crate) d_images: Matrix<B>,
}

impl<B> Judged<B> {
    /// Room for n images in so many groups, which are normalised each by itself.
    pub(crate) fn new<D: ImageDevice<Buffer = B>>(
        device: &D,
        sizes: &Sizes,
        n: usize,
        groups: usize,
        gradients: bool,
    ) -> Result<Self> {
        let matrix = |rows, columns| Matrix::zeros(device, 1, rows, columns);
        let normed = |x, y| Normed::new(device, x, y, groups, gradients);
        let [near, far] = sizes.channels;
        let (quarter, half) = ((sizes.side / 4).pow(2), (sizes.side / 2).pow(2));
        let back = if gradients { n } else { 0 };
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
            d_heads: matrix(back, 1 + sizes.recognition)?,
            d_second_unfolded: matrix(back * quarter, second_windows)?,
            d_first: matrix(back * half, near)?,
            d_unfolded: matrix(back * half, windows)?,
            d_images: matrix(back, sizes.side * sizes.side)?,
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

    /// The normalisations, for their start.
    pub(crate) fn norms(&self) -> Vec<NormSlots> {
        [self.second.1, self.third.1, self.recognition].iter().map(|norm| norm.slots).collect()
    }

    /// The weights, for their start.
    pub(crate) fn layers(&self) -> Vec<Affine> {
        vec![self.first.layer, self.second.0.layer, self.third.0, self.heads, self.output]
    }

    /// From the images to the logits and Q's output.
    pub(crate) fn forward<D: ImageDevice>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        kept: bool,
        judged: &mut Judged<D::Buffer>,
    ) -> Result<()> {
        let j = judged;
        self.first.forward(device, params, &j.images, &mut j.unfolded, Activation::Linear, &mut j.first)?;
        device.activate(LEAKY, &mut j.first)?;
        self.second.0.forward(
            device,
            params,
            &j.first,
            &mut j.second_unfolded,
            Activation::Linear,
            &mut j.second.x,
        )?;
        self.second.1.forward(device, params, kept, &mut j.second)?;
        device.affine(params, self.third.0, &j.second.y, Activation::Linear, &mut j.third.x)?;
        self.third.1.forward(device, params, kept, &mut j.third)?;
        device.affine(params, self.heads, &j.third.y, Activation::Linear, &mut j.heads)?;
        device.copy_columns(&j.heads, 0..1, &mut j.logits, [0, 0])?;
        device.copy_columns(&j.heads, 1..j.heads.columns, &mut j.recognition.x, [0, 0])?;
        self.recognition.forward(device, params, kept, &mut j.recognition)?;
        device.affine(params, self.output, &j.recognition.y, Activation::Linear, &mut j.output)
    }

    /// From the gradients of the logits and of Q's output to those of all layers' outputs, and on to the images if
    /// somebody wants to know.
    pub(crate) fn backward<D: ImageDevice>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        judged: &mut Judged<D::Buffer>,
        to_images: bool,
    ) -> Result<()> {
        let j = judged;
        device.affine_backward_input(params, self.output, &j.output, None, &mut j.recognition.dy)?;
        self.recognition.backward_input(device, params, &mut j.recognition)?;
        device.copy_columns(&j.logits, 0..1, &mut j.d_heads, [0, 0])?;
        device.copy_columns(&j.recognition.dx, 0..j.recognition.dx.columns, &mut j.d_heads, [0, 1])?;
        device.affine_backward_input(params, self.heads, &j.d_heads, None, &mut j.third.dy)?;
        self.third.1.backward_input(device, params, &mut j.third)?;
        device.affine_backward_input(params, self.third.0, &j.third.dx, None, &mut j.second.dy)?;
        self.second.1.backward_input(device, params, &mut j.second)?;
        let dy = &j.second.dx;
        self.second.0.backward_input(device, params, dy, &mut j.d_second_unfolded, &mut j.d_first)?;
        device.activate_backward(LEAKY, &j.first, &mut j.d_first)?;
        if to_images {
            self.first.backward_input(device, params, &j.d_first, &mut j.d_unfolded, &mut j.d_images)?;
        }
        Ok(())
    }

    /// The weights' gradients after the way back, or the update by them.
    pub(crate) fn learn<D: ImageDevice>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        judged: &Judged<D::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        let j = judged;
        device.affine_backward_weights(params, self.output, &j.recognition.y, &j.output, update)?;
        self.recognition.backward_weights(device, params, &j.recognition, update)?;
        device.affine_backward_weights(params, self.heads, &j.third.y, &j.d_heads, update)?;
        self.third.1.backward_weights(device, params, &j.third, update)?;
        device.affine_backward_weights(params, self.third.0, &j.second.y, &j.third.dx, update)?;
        self.second.1.backward_weights(device, params, &j.second, update)?;
        self.second.0.backward_weights(device, params, &j.second_unfolded, &j.second.dx, update)?;
        self.first.backward_weights(device, params, &j.unfolded, &j.d_first, update)
    }
}
