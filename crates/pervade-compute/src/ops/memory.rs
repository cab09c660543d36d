//! A device and its buffers.

use crate::{Result, Slot, moments};

/// A device and its memory.
pub trait Memory: Sync + 'static {
    /// A buffer of `f32` on the device.
    type Buffer: Send + Sync;

    /// The device's human-readable name.
    fn name(&self) -> String;

    /// The tolerated error of a matrix product, relative to its largest entry.
    fn product_error(&self) -> f64;

    /// Whether its buffers are in host memory.
    fn is_host(&self) -> bool;

    /// How many of `wanted` restarts to train side by side.
    fn restarts_at_once(&self, wanted: usize) -> usize;

    /// A buffer of `len` zeros.
    fn zeros(&self, len: usize) -> Result<Self::Buffer>;

    /// Sets every element to zero.
    fn clear(&self, buffer: &mut Self::Buffer) -> Result<()>;

    /// Copies values from the host to elements `offset..` of `to`.
    fn write(&self, to: &mut Self::Buffer, offset: usize, values: &[f32]) -> Result<()>;

    /// Copies elements `offset..` of `from` to the host.
    fn read(&self, from: &Self::Buffer, offset: usize, into: &mut [f32]) -> Result<()>;

    /// Where Adam's moments of an element of `weight` are, counted from the weight's first: devices store them in tiles. (Where
    /// [`Layers::adam`](crate::Layers::adam) updates a weight, they are in the order of its elements.)
    fn moment_index(&self, weight: &Slot, row: usize, column: usize) -> usize;

    /// Reorders Adam's moments of `weights`, as returned by `read` (`stride` elements per restart), to row-major order.
    fn moments_to_rows(&self, weights: &[Slot], stride: usize, moments: &mut [f32]) {
        let index = |weight: &Slot, row, column| self.moment_index(weight, row, column);
        moments::reorder(weights, stride, moments, true, index);
    }

    /// The inverse of [`Memory::moments_to_rows`], for `write`.
    fn moments_from_rows(&self, weights: &[Slot], stride: usize, moments: &mut [f32]) {
        let index = |weight: &Slot, row, column| self.moment_index(weight, row, column);
        moments::reorder(weights, stride, moments, false, index);
    }
}
