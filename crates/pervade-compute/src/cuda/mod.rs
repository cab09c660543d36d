//! CUDA: every operation as a kernel, a whole step as one recorded graph, all restarts in each launch.
//!
//! Nothing of CUDA is needed to build: the driver and NVRTC are opened when a device is. Kernels are
//! compiled for the card at hand from the sources in `kernels`. Numbers stay on the device; the host sets
//! the clock of a step, replays the graph and reads sums once an epoch.

mod batch_norm;
mod codes;
mod compile;
mod convolution;
mod driver;
mod latents;
mod layers;
mod likelihood;
mod memory;
mod mixture_posterior;
mod moments;
mod neighbours;
mod points;
mod prior;
mod recording;
mod rows;
mod soft_clusters;
mod stick_breaking;
mod sums;

use std::sync::Mutex;

pub use compile::{cached_image, compile_image};
pub use driver::DeviceMemory;
pub use memory::CudaBuffer;
pub use points::CudaPoints;
pub use recording::CudaRecording;
pub use rows::{CudaBatch, CudaRows};
pub use sums::CudaSums;

use self::driver::{Driver, Kernel, Launch};
use self::recording::Recorded;
use crate::{KernelCache, Precision, Result};

/// A CUDA device.
pub struct Cuda {
    driver: Driver,
    precision: Precision,
    /// The step that is being recorded, and what of it runs on side streams.
    recorded: Mutex<Option<Recorded>>,
}

impl Cuda {
    /// The device with index `ordinal`. Its kernels are compiled, unless `kernels` has them from an earlier run.
    pub fn open(ordinal: usize, precision: Precision, kernels: Option<&dyn KernelCache>) -> Result<Self> {
        let driver = Driver::open(ordinal, precision, kernels)?;
        Ok(Self { driver, precision, recorded: Mutex::new(None) })
    }

    /// Whether there is a driver that finds a device.
    pub fn is_present() -> bool {
        driver::is_present()
    }

    /// Versions, memory and the like, for a person.
    pub fn describe(&self) -> Result<Vec<(&'static str, String)>> {
        self.driver.describe()
    }

    /// Milliseconds that so many single-precision operations and bytes take at the device's rates.
    pub fn floor_ms(&self, flop: f64, bytes: f64) -> Result<f64> {
        let (flop_per_second, bytes_per_second) = self.driver.rates()?;
        Ok(1e3 * (flop / flop_per_second + bytes / bytes_per_second))
    }
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuda").field("name", &self.driver.name()).finish_non_exhaustive()
    }
}

type M = crate::Matrix<CudaBuffer>;

/// Blocks of `threads` that cover `n`.
fn blocks(n: usize, threads: u32) -> u32 {
    n.div_ceil(threads as usize) as u32
}

/// A launch with a thread for each of `n` numbers.
fn one_thread_each(kernel: Kernel, n: usize) -> Launch {
    const THREADS: u32 = 256;
    Launch { kernel, grid: (blocks(n, THREADS), 1, 1), threads: THREADS, shared: 0 }
}
