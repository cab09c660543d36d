//! The device's buffers.

use super::driver::{DeviceMemory, MOST_RESTARTS};
use super::{Cuda, moments};
use crate::{Memory, Precision, Result, Slot};

/// A buffer of `f32` on the device.
pub type CudaBuffer = DeviceMemory<f32>;

impl Memory for Cuda {
    type Buffer = CudaBuffer;

    fn name(&self) -> String {
        self.driver.name().to_string()
    }

    fn product_error(&self) -> f64 {
        match self.precision {
            Precision::Fp32 => 1e-5,
            Precision::Tf32 => 2e-3,
        }
    }

    fn is_host(&self) -> bool {
        false
    }

    fn restarts_at_once(&self, wanted: usize) -> usize {
        wanted.min(MOST_RESTARTS)
    }

    fn zeros(&self, len: usize) -> Result<CudaBuffer> {
        self.driver.zeros(len)
    }

    fn clear(&self, buffer: &mut CudaBuffer) -> Result<()> {
        self.driver.clear(buffer)
    }

    fn write(&self, to: &mut CudaBuffer, offset: usize, values: &[f32]) -> Result<()> {
        self.driver.write(to, offset, values)
    }

    fn read(&self, from: &CudaBuffer, offset: usize, into: &mut [f32]) -> Result<()> {
        self.driver.read(from, offset, into)
    }

    fn moment_index(&self, weight: &Slot, row: usize, column: usize) -> usize {
        moments::index_in_tiles(weight, row, column)
    }
}
