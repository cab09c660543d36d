//! What can go wrong on a device, as data: each front end words the advice in its own terms.

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
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
        /// What is wrong.
        problem: String,
        /// What helps.
        advice: Advice,
    },
    /// The device's memory is too small.
    #[error("the device is out of memory: {} MiB more are needed, {} MiB are free", mib(*needed), mib(*free))]
    OutOfMemory {
        /// Bytes that were asked for.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// More restarts side by side than a launch can take.
    #[error("{restarts} restarts side by side are more than the device takes: at most {most}")]
    TooManyRestarts {
        /// How many were asked for.
        restarts: usize,
        /// How many there may be.
        most: usize,
    },
    /// More mixture components than a block of the device can hold.
    #[error("{components} mixture components are more than the device's kernels have room for")]
    TooManyComponents {
        /// How many were asked for.
        components: usize,
    },
    /// The caller asked long work to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What helps against a failure of a device.
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
    /// Choose one of the devices that there are.
    ChooseDevice,
    /// A newer NVRTC may know the device; else use the CPU.
    UpdateCompiler,
    /// Use the CPU.
    UseCpu,
    /// Check the device; a checkpoint can be resumed.
    CheckDevice,
}

fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}
