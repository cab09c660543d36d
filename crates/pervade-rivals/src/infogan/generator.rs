//! The generator G, from a category, continuous codes and noise to an image.

use crate::ImageDevice;
use pervade::compute::{Activation, AdamStep, Affine, Layout, Matrix, NormSlots, Params, Result};
use pervade::nn::{BatchNorm, BatchNormBuffers, TransposedConvolution};

use super::{Sizes, halving};

const RELU: Activation = Activation::LeakyRelu { slope: 0.0 };

/// Two fully connected layers and two transposed convolutions, all batch-normalised except the last.
pub(crate) struct Generator {
    first: (Affine, BatchNorm),
    second: (Affine, BatchNorm),
    third: (TransposedConvolution, BatchNorm),
    last: TransposedConvolution,
    pub(crate) layout: Layout,
}

/// Activations and gradients of one batch of n images with S x S pixels; q is S/4 and h is S/2.
pub(crate) struct GeneratorTape<B> {
    /// Category, continuous codes, noise: [1, n, K + C + Z].
    pub(crate) z: Matrix<B>,
    first: BatchNormBuffers<B>,
    /// [n, q q channels], then [n q q, channels].
    second: BatchNormBuffers<B>,
    windows: Matrix<B>,
    third: BatchNormBuffers<B>,
    last_windows: Matrix<B>,
    /// [1, n, S S]: each pixel in (0, 1).
    pub(crate) images: Matrix<B>,
    d_windows: Matrix<B>,
    d_last_windows: Matrix<B>,
}

impl<B> GeneratorTape<B> {
    pub(crate) fn new<D: ImageDevice<Buffer = B>>(
        device: &D,
        sizes: &Sizes,
        n: usize,
        gradients: bool,
    ) -> Result<Self> {
        let matrix = |rows, columns| Matrix::zeros(device, 1, rows, columns);
        let normed = |x, y| BatchNormBuffers::new(device, x, y, 1, gradients);
        let [near, far] = sizes.channels;
        let (quarter, half) = ((sizes.side / 4).pow(2), (sizes.side / 2).pow(2));
        let n_gradients = if gradients { n } else { 0 };
        let window_len = halving(sizes.side / 2, near).window_len();
        let last_window_len = halving(sizes.side, 1).window_len();
        Ok(Self {
            z: matrix(n, sizes.n_inputs())?,
            first: normed([n, sizes.width], [n, sizes.width])?,
            second: normed([n, quarter * far], [n * quarter, far])?,
            windows: matrix(n * quarter, window_len)?,
            third: normed([n * half, near], [n * half, near])?,
            last_windows: matrix(n * half, last_window_len)?,
            images: matrix(n, sizes.side * sizes.side)?,
            d_windows: matrix(n_gradients * quarter, window_len)?,
            d_last_windows: matrix(n_gradients * half, last_window_len)?,
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

    /// The normalisations, for their initialisation.
    pub(crate) fn norms(&self) -> Vec<NormSlots> {
        [self.first.1, self.second.1, self.third.1].iter().map(|norm| norm.slots).collect()
    }

    /// The layers, for their initialisation.
    pub(crate) fn layers(&self) -> Vec<Affine> {
        vec![self.first.0, self.second.0, self.third.0.layer, self.last.layer]
    }

    /// The forward pass, from z to the images; `running` uses the running statistics.
    pub(crate) fn forward<D: ImageDevice>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        running: bool,
        tape: &mut GeneratorTape<D::Buffer>,
    ) -> Result<()> {
        device.affine(params, self.first.0, &tape.z, Activation::Linear, &mut tape.first.x)?;
        self.first.1.forward(device, params, running, &mut tape.first)?;
        device.affine(params, self.second.0, &tape.first.y, Activation::Linear, &mut tape.second.x)?;
        self.second.1.forward(device, params, running, &mut tape.second)?;
        self.third.0.forward(device, params, &tape.second.y, &mut tape.windows, &mut tape.third.x)?;
        self.third.1.forward(device, params, running, &mut tape.third)?;
        self.last.forward(device, params, &tape.third.y, &mut tape.last_windows, &mut tape.images)?;
        device.activate(Activation::Sigmoid, &mut tape.images)
    }

    /// The backward pass, from the images' gradient, which is overwritten, to those of all layers' outputs.
    pub(crate) fn backward<D: ImageDevice>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
        tape: &mut GeneratorTape<D::Buffer>,
        d_images: &mut Matrix<D::Buffer>,
    ) -> Result<()> {
        device.activate_backward(Activation::Sigmoid, &tape.images, d_images)?;
        self.last.backward_input(
            device,
            params,
            d_images,
            None,
            &mut tape.d_last_windows,
            &mut tape.third.dy,
        )?;
        self.third.1.backward_input(device, params, &mut tape.third)?;
        let (third, second) = (&tape.third, &mut tape.second);
        self.third.0.backward_input(device, params, &third.dx, None, &mut tape.d_windows, &mut second.dy)?;
        self.second.1.backward_input(device, params, second)?;
        device.affine_backward_input(params, self.second.0, &second.dx, None, &mut tape.first.dy)?;
        self.first.1.backward_input(device, params, &mut tape.first)
    }

    /// The weights' gradients after `backward`, or the update.
    pub(crate) fn backward_weights<D: ImageDevice>(
        &self,
        device: &D,
        params: &mut Params<D::Buffer>,
        tape: &GeneratorTape<D::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        self.last.backward_weights(device, params, &tape.third.y, &tape.d_last_windows, update)?;
        self.third.1.backward_weights(device, params, &tape.third, update)?;
        self.third.0.backward_weights(device, params, &tape.second.y, &tape.d_windows, update)?;
        self.second.1.backward_weights(device, params, &tape.second, update)?;
        device.affine_backward_weights(params, self.second.0, &tape.first.y, &tape.second.dx, update)?;
        self.first.1.backward_weights(device, params, &tape.first, update)?;
        device.affine_backward_weights(params, self.first.0, &tape.z, &tape.first.dx, update)
    }
}
