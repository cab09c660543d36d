//! A device and its buffers.

use crate::{Result, Slot};

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

    /// Reorders Adam's moments of `weights`, as returned by `read` (`stride` elements per restart), to row-major order: a
    /// device may store them in a different order.
    fn moments_to_rows(&self, _weights: &[Slot], _stride: usize, _moments: &mut [f32]) {}

    /// The inverse of [`Memory::moments_to_rows`], for `write`.
    fn moments_from_rows(&self, _weights: &[Slot], _stride: usize, _moments: &mut [f32]) {}
}
