//! How a CUDA device is opened, in builds with and without CUDA.

/// The precision of matrix products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Single precision, computed as three products of split factors.
    #[default]
    Fp32,
    /// One product of factors rounded to TF32 (10 bits): faster, but less precise.
    Tf32,
}

/// Stores compiled kernels between runs. Files that another user could have written must not be loaded.
pub trait KernelCache {
    /// The contents of the file `name`, if it exists and can be trusted.
    fn load(&self, name: &str) -> Option<Vec<u8>>;
    /// Stores the file. A failure only costs time at the next start.
    fn store(&self, name: &str, bytes: &[u8]);
}
