//! What a device is, and its buffers.

use crate::{Result, Slot};

/// A device and its memory.
pub trait Memory: Sync + 'static {
    /// Single-precision numbers on the device.
    type Buffer: Send + Sync;

    /// Its name, for people.
    fn name(&self) -> String;

    /// How far a matrix product may be off, relative to its largest entry.
    fn product_error(&self) -> f64;

    /// Whether its buffers lie in the memory of the host.
    fn is_host(&self) -> bool;

    /// How many of `wanted` restarts to train side by side.
    fn restarts_at_once(&self, wanted: usize) -> usize;

    /// `len` zeros.
    fn zeros(&self, len: usize) -> Result<Self::Buffer>;

    /// Sets every number to zero.
    fn clear(&self, buffer: &mut Self::Buffer) -> Result<()>;

    /// Copies host numbers to the device.
    fn write(&self, to: &mut Self::Buffer, offset: usize, values: &[f32]) -> Result<()>;

    /// Copies numbers of the device to the host.
    fn read(&self, from: &Self::Buffer, offset: usize, into: &mut [f32]) -> Result<()>;

    /// Brings Adam's moments of `weights`, as `read` returned them (`stride` numbers per restart), into row-major order: a
    /// device may store them in an order of its own.
    fn moments_to_rows(&self, _weights: &[Slot], _stride: usize, _moments: &mut [f32]) {}

    /// The inverse of [`Memory::moments_to_rows`], for `write`.
    fn moments_from_rows(&self, _weights: &[Slot], _stride: usize, _moments: &mut [f32]) {}
}
