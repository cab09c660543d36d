//! Images as numbers in a row, channels last: the windows of a convolution, what bends a layer's output, and where a
//! batch normalisation's numbers lie.

use super::{Layout, Matrix, Slot};

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
    pub fn places(&self) -> [usize; 2] {
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
    pub(super) fn all_len(&self) -> usize {
        let [down, across] = self.places();
        down * across * self.window_len()
    }

    /// How many images these are, with the windows of each.
    pub(super) fn n_images<B>(&self, images: &Matrix<B>, windows: &Matrix<B>) -> usize {
        let n = images.restarts * images.stride() / self.image_len();
        assert_eq!(n * self.image_len(), images.restarts * images.stride(), "whole images");
        assert_eq!(n * self.all_len(), windows.restarts * windows.stride(), "all windows of {n} images");
        n
    }
}

/// What bends the output of a layer, one number at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Curve {
    /// x where it is positive, else slope x.
    Leaky {
        /// Not negative; zero makes it a ReLU.
        slope: f32,
    },
    /// 1 / (1 + e^-x).
    Logistic,
}

/// A batch normalisation of C columns (Ioffe and Szegedy, 2015): what it learns, and the means and variances that it
/// keeps for later; each [1, C].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormSlots {
    /// Factors.
    pub gain: Slot,
    /// Summands.
    pub shift: Slot,
    /// Running means.
    pub mean: Slot,
    /// Running variances.
    pub variance: Slot,
}

/// Added to a variance before its root is taken.
pub(super) const NORM_EPSILON: f32 = 1e-5;
/// The share of the old value in the running means and variances.
pub(super) const NORM_KEPT: f32 = 0.9;
/// Rows of statistics that a group of rows has: mean, variance, and two sums of the way back.
pub(super) const NORM_ROWS: usize = 4;

impl NormSlots {
    /// Adds the four slices to the layout.
    pub fn new(layout: &mut Layout, name: &str, columns: usize) -> Self {
        let mut slot = |what: &str| layout.push(format!("{name}.{what}"), 1, columns);
        let (gain, shift) = (slot("gain"), slot("shift"));
        Self { gain, shift, mean: slot("mean"), variance: slot("variance") }
    }

    /// C.
    pub fn n_columns(&self) -> usize {
        self.gain.columns
    }

    /// Rows of the statistics of so many groups.
    pub fn statistics_rows(groups: usize) -> usize {
        NORM_ROWS * groups
    }

    /// Groups of rows and rows of each, from what stands for the rows and what for their statistics.
    pub(super) fn groups<B>(&self, x: &Matrix<B>, statistics: &Matrix<B>) -> (usize, usize) {
        let groups = statistics.rows / NORM_ROWS;
        assert_eq!((x.columns, statistics.columns), (self.n_columns(), self.n_columns()), "columns");
        assert!(groups > 0 && x.rows.is_multiple_of(groups), "{} rows in {groups} equal groups", x.rows);
        (groups, x.rows / groups)
    }
}
