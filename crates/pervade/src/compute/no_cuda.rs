//! Stands in for CUDA in a build without it: opening a device says so.

use std::path::Path;

use crate::{Error, Result};

/// How the factors of a matrix product are rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Single precision.
    #[default]
    Fp32,
    /// Rounded to TF32.
    Tf32,
}

/// A CUDA device, of which this build has none.
#[derive(Debug)]
pub enum Cuda {}

impl Cuda {
    /// An error: this build has no CUDA.
    pub fn open(_ordinal: usize, _precision: Precision, _kernels: Option<&Path>) -> Result<Self> {
        Err(Error::Device {
            problem: "no CUDA driver can be used: this build has no CUDA".to_string(),
            hint: "build with the feature `cuda`, or use the CPU".to_string(),
        })
    }

    /// False.
    pub fn is_present() -> bool {
        false
    }
}
