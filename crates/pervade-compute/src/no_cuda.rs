//! Stands in for CUDA in a build without it: opening a device says so.

use crate::{Advice, Error, Result};

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

/// Stores compiled kernels from one run to the next.
pub trait KernelCache {
    /// The file of this name, if it is there and can be trusted.
    fn load(&self, name: &str) -> Option<Vec<u8>>;
    /// Stores the file.
    fn store(&self, name: &str, bytes: &[u8]);
}
