//! Stands in for CUDA in a build without it: opening a device says so.

use crate::{Advice, Error, KernelCache, Precision, Result};

/// A CUDA device, of which this build has none.
#[derive(Debug)]
pub enum Cuda {}

impl Cuda {
    /// An error: this build has no CUDA.
    pub fn open(_ordinal: usize, _precision: Precision, _kernels: Option<&dyn KernelCache>) -> Result<Self> {
        Err(Error::Failed {
            problem: "no CUDA driver can be used: this build has no CUDA".to_string(),
            advice: Advice::BuildWithCuda,
        })
    }

    /// False.
    pub fn is_present() -> bool {
        false
    }
}
