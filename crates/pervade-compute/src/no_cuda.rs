//! Stand-in for CUDA in a build without it: opening a device is an error.

use crate::{Advice, Error, KernelCache, Precision, Result, RowsOn};

/// A CUDA device; uninhabited in this build, which has no CUDA.
#[derive(Debug)]
pub enum Cuda {}

impl Cuda {
    /// Always an error: this build has no CUDA.
    pub fn open(_ordinal: usize, _precision: Precision, _kernels: Option<&dyn KernelCache>) -> Result<Self> {
        Err(Error::Failed {
            problem: "no CUDA driver can be used: this build has no CUDA".to_string(),
            advice: Advice::BuildWithCuda,
        })
    }

    /// There is no device to keep rows on.
    pub fn keep_rows_on(&mut self, _rows_on: RowsOn) {}

    /// There is no device to share.
    pub fn share_device(&mut self) {}

    /// Always zero.
    pub fn n_devices() -> usize {
        0
    }

    /// Always false.
    pub fn is_present() -> bool {
        false
    }
}
