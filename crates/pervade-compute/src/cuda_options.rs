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

/// Where the rows are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowsOn {
    /// On the device if they leave it enough memory, else on the host.
    #[default]
    Auto,
    /// In the device's memory.
    Device,
    /// In the host's memory: each step reads its rows over the bus.
    Host,
}

impl std::str::FromStr for RowsOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "device" => Ok(Self::Device),
            "host" => Ok(Self::Host),
            _ => Err("must be `auto`, `device` or `host`".to_string()),
        }
    }
}

/// Stores compiled kernels between runs. Files that another user could have written must not be loaded.
pub trait KernelCache: Sync {
    /// The contents of the file `name`, if it exists and can be trusted.
    fn load(&self, name: &str) -> Option<Vec<u8>>;
    /// Stores the file. A failure only costs time at the next start.
    fn store(&self, name: &str, bytes: &[u8]);
}
