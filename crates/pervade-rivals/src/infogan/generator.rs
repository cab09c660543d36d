//! G: a choice, some numbers and noise to an image.

use crate::ImageDevice;
use pervade::compute::{Activation, AdamStep, Affine, Layout, Matrix, NormSlots, Params, Result};
use pervade::nn::{BatchNorm, Normed, TransposedConvolution};

use super::{Sizes, halving};

const RELU: Activation = Activation::LeakyRelu { slope: 0.0 };

/// Two layers and two transposed convolutions, normalised but for the last.
pub(crate) struct Generator {
    first: (Affine, BatchNorm),
    second: (Affine, BatchNorm),
    third: (TransposedConvolution, BatchNorm),
    last: TransposedConvolution,
    pub(crate) layout: Layout,
}

/// Activations and gradients of one batch of n images with S x S pixels; q is S/4 and h is S/2.
pub(crate) struct Made<B> {
    /// Choice, numbers, noise: [1, n, K + C + Z].
    pub(crate) z: Matrix<B>,
    first: Normed<B>,
    /// [n, q q channels], then [n q q, channels].
    second: Normed<B>,
    spread: Matrix<B>,
    third: Normed<B>,
    last_spread: Matrix<B>,
    /// [1, n, S S]: each pixel in (0, 1).
    pub(crate) images: Matrix<B>,
    d_spread: Matrix<B>,
    d_last_spread: Matrix<B>,
}

impl<B> Made<B> {
    pub(crate) fn new<D: ImageDevice<Buffer = B>>(
        device: &D,
        sizes: &Sizes,
        n: usize,
        gradients: bool,
    ) -> Result<Self> {
        let matrix = |rows, columns| Matrix::zeros(device, 1, rows, columns);
        let normed = |x, y| Normed::new(device, x, y, 1, gradients);
        let [near, far] = sizes.channels;
        let (quarter, half) = ((sizes.side / 4).pow(2), (sizes.side / 2).pow(2));
        let back = if gradients { n } else { 0 };
        let windows = halving(sizes.side / 2, near).window_len();
        let last_windows = halving(sizes.side, 1).window_len();
        Ok(Self {
            z: matrix(n, sizes.n_inputs())?,
            first: normed([n, sizes.width], [n, sizes.width])?,
            second: normed([n, quarter * far], [n * quarter, far])?,
            spread: matrix(n * quarter, windows)?,
            third: normed([n * half, near], [n * half, near])?,
            last_spread: matrix(n * half, last_windows)?,
            images: matrix(n, sizes.side * sizes.side)?,
            d_spread: matrix(back * quarter, windows)?,
            d_last_spread: matrix(back * half, last_windows)?,
        })
    }
}

impl Generator {
    pub(crate) fn new(sizes: &Sizes) -> Self {
        let (mut layout, [near, far]) = (Layout::default(), sizes.channels);
        let quarter = (sizes.side / 4).pow(2);
        let norm = |layout: &mut Layout, name: &str, columns| BatchNorm {
            slots: NormSlots::new(layout, name, columns),
            activation: RELU,
        };
        let first = layout.push_affine("generator.0", sizes.n_inputs(), sizes.width);
        let first_norm = norm(&mut layout, "generator.0.norm", sizes.width);
        let second = layout.push_affine("generator.1", sizes.width, quarter * far);
        let second_norm = norm(&mut layout, "generator.1.norm", quarter * far);
        let third =
            TransposedConvolution::new(&mut layout, "generator.2", far, halving(sizes.side / 2, near));
        let third_norm = norm(&mut layout, "generator.2.norm", near);
        let last = TransposedConvolution::new(&mut layout, "generator.3", near, halving(sizes.side, 1));
        Self {
            first: (first, first_norm),
            second: (second, second_norm),
            third: (third, third_norm),
            last,
            layout,
        }
    }

    /// The normalisations, for their start.
    pub(crate) fn norms(&self) -> Vec<NormSlots> {
        [self.first.1, self.second.1, self.third.1].iter().map(|norm| norm.slots).collect()
    }

    /// The weights, for their start.
    pub(crate) fn layers(&self) -> Vec<Affine> {
        vec![self.first.0, self.second.0, self.third.0.layer, self.last.layer]
    }

    /// From z to the images.
    pub(crate) fn forward<D: ImageDevice>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        kept: bool,
        made: &mut Made<D::Buffer>,
    ) -> Result<()> {
        device.affine(params, self.first.0, &made.z, Activation::Linear, &mut made.first.x)?;
        self.first.1.forward(device, params, kept, &mut made.first)?;
        device.affine(params, self.second.0, &made.first.y, Activation::Linear, &mut made.second.x)?;
        self.second.1.forward(device, params, kept, &mut made.second)?;
        self.third.0.forward(device, params, &made.second.y, &mut made.spread, &mut made.third.x)?;
        self.third.1.forward(device, params, kept, &mut made.third)?;
        self.last.forward(device, params, &made.third.y, &mut made.last_spread, &mut made.images)?;
        device.activate(Activation::Sigmoid, &mut made.images)
    }

    /// From the images' gradient, which is used up, to those of all layers' outputs.
    pub(crate) fn backward<D: ImageDevice>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        made: &mut Made<D::Buffer>,
        d_images: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        device.activate_backward(Activation::Sigmoid, &made.images, d_images)?;
        self.last.backward_input(
            device,
            params,
            d_images,
            None,
            &mut made.d_last_spread,
            &mut made.third.dy,
        )?;
        self.third.1.backward_input(device, params, &mut made.third)?;
        let (third, second) = (&made.third, &mut made.second);
        self.third.0.backward_input(device, params, &third.dx, None, &mut made.d_spread, &mut second.dy)?;
        self.second.1.backward_input(device, params, second)?;
        device.affine_backward_input(params, self.second.0, &second.dx, None, &mut made.first.dy)?;
        self.first.1.backward_input(device, params, &mut made.first)
    }

    /// The weights' gradients after the way back, or the update by them.
    pub(crate) fn learn<D: ImageDevice>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        made: &Made<D::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        self.last.backward_weights(device, params, &made.third.y, &made.d_last_spread, update)?;
        self.third.1.backward_weights(device, params, &made.third, update)?;
        self.third.0.backward_weights(device, params, &made.second.y, &made.d_spread, update)?;
        self.second.1.backward_weights(device, params, &made.second, update)?;
        device.affine_backward_weights(params, self.second.0, &made.first.y, &made.second.dx, update)?;
        self.first.1.backward_weights(device, params, &made.first, update)?;
        device.affine_backward_weights(params, self.first.0, &made.z, &made.first.dx, update)
    }
}
