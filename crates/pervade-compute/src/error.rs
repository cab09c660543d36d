//! Errors of a device, as data: each front end words the advice in its own terms.

/// The result of an operation that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No device has this name.
    #[error("there is no device called `{wanted}`")]
    UnknownDevice {
        /// The name.
        wanted: String,
    },
    /// The device cannot be opened, or failed.
    #[error("{problem}")]
    Failed {
        /// The problem, as a message.
        problem: String,
        /// What to do about it.
        advice: Advice,
    },
    /// The device's memory is too small.
    #[error("the device is out of memory: {} MiB more are needed, {} MiB are free", mib(*needed), mib(*free))]
    OutOfMemory {
        /// Bytes that were requested.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// More restarts in one batch than a kernel launch can take.
    #[error("{restarts} restarts at once are more than the device supports: at most {most}")]
    TooManyRestarts {
        /// How many were requested.
        restarts: usize,
        /// The maximum.
        most: usize,
    },
    /// More mixture components than fit into the shared memory of a thread block.
    #[error("{components} mixture components are more than the device's kernels have room for")]
    TooManyComponents {
        /// How many were requested.
        components: usize,
    },
    /// The ranks cannot be started, or cannot exchange data.
    #[error("{problem}")]
    Ranks {
        /// The problem, as a message.
        problem: String,
    },
    /// The caller interrupted a long computation.
    #[error("interrupted")]
    Interrupted,
}

/// What the user can do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Build with CUDA, or use the CPU.
    BuildWithCuda,
    /// Install NVIDIA's driver, or use the CPU.
    InstallDriver,
    /// Install NVRTC, or use the CPU.
    InstallCompiler,
    /// Update the driver.
    UpdateDriver,
    /// Choose an existing device.
    ChooseDevice,
    /// Install a newer NVRTC, which may support the device, or use the CPU.
    UpdateCompiler,
    /// Use the CPU.
    UseCpu,
    /// Check the device, then resume from the checkpoint.
    CheckDevice,
}

fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}
