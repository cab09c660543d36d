//! Convolutions over images: numbers in a row, channels last.

use crate::{Matrix, Memory, Result};

/// Square windows that move over images [H, W, C]; beyond the edges there are zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Rows of pixels, H.
    pub height: usize,
    /// Pixels of a row, W.
    pub width: usize,
    /// Numbers of a pixel, C.
    pub channels: usize,
    /// Side of a window, k.
    pub size: usize,
    /// Pixels from one window to the next.
    pub stride: usize,
    /// Pixels of zeros around the image.
    pub padding: usize,
}

impl Windows {
    /// How many windows there are, down and across.
    pub fn count(&self) -> [usize; 2] {
        [self.height, self.width].map(|side| (side + 2 * self.padding - self.size) / self.stride + 1)
    }

    /// Numbers of an image, H W C.
    pub fn image_len(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Numbers of a window, k k C.
    pub fn window_len(&self) -> usize {
        self.size * self.size * self.channels
    }

    /// Numbers of all windows of an image.
    pub(crate) fn all_len(&self) -> usize {
        let [down, across] = self.count();
        down * across * self.window_len()
    }

    /// How many images these are, with the windows of each.
    pub(crate) fn n_images<B>(&self, images: &Matrix<B>, windows: &Matrix<B>) -> usize {
        let n = images.restarts * images.stride() / self.image_len();
        assert_eq!(n * self.image_len(), images.restarts * images.stride(), "whole images");
        assert_eq!(n * self.all_len(), windows.restarts * windows.stride(), "all windows of {n} images");
        n
    }
}

/// Windows of images as rows, and back: with an affine layer, convolutions and transposed convolutions.
pub trait Convolution: Memory {
    /// Every window of every image as a row, [windows, k k C], zeros beyond the edges: with the layer that follows, a
    /// convolution. The matrices' rows may be cut as they like: images lie one behind the other.
    fn unfold(&self, windows: &Windows, x: &Matrix<Self::Buffer>, y: &mut Matrix<Self::Buffer>)
    -> Result<()>;

    /// The adjoint of `unfold`: every pixel becomes the sum of its entries in the windows of `x`. With the layer
    /// before it, a transposed convolution; and the gradient of `unfold`, as that is of this.
    fn fold(&self, windows: &Windows, x: &Matrix<Self::Buffer>, y: &mut Matrix<Self::Buffer>) -> Result<()>;
}
