//! The CUDA backend: every operation is a kernel over all restarts, and a training step is one recorded graph.
//!
//! Building needs nothing of CUDA: the driver and NVRTC are loaded when a device is opened. Kernels are
//! compiled for that device from the sources in `kernels`. Data stay on the device; the host sets
//! the clock of a step, replays the graph and reads the sums once per epoch.

mod batch_norm;
mod codes;
mod compile;
mod convolution;
mod driver;
mod exchange;
mod latents;
mod layers;
mod likelihood;
mod memory;
mod mixture_posterior;
mod moments;
mod nccl;
mod neighbour_term;
mod neighbours;
mod points;
mod prior;
mod recording;
mod rows;
mod soft_clusters;
mod stick_breaking;
mod sums;
mod typed;

use std::sync::{Arc, Mutex, OnceLock};

pub use compile::{Program, cached_image, compile_image};
pub use driver::DeviceMemory;
pub use exchange::CudaRankMean;
pub use memory::CudaBuffer;
pub use points::CudaPoints;
pub use recording::CudaRecording;
pub use rows::{CudaBatch, CudaRows};
pub use sums::CudaSums;
pub use typed::CudaColumns;

use self::driver::{Driver, Kernel, Launch};
use self::nccl::Communicator;
use self::recording::Recorded;
use crate::{KernelCache, Precision, Result, RowsOn};

/// A CUDA device.
pub struct Cuda {
    driver: Driver,
    precision: Precision,
    rows_on: RowsOn,
    /// Whether ranks on the same device may exchange gradients on it.
    shares_device: bool,
    /// The step that is being recorded, if any, with its work on side streams.
    recorded: Mutex<Option<Recorded>>,
    /// Connects the devices of all ranks, once it was asked for and if NCCL can.
    communicator: OnceLock<Option<Arc<Communicator>>>,
}

impl Cuda {
    /// Opens the device with index `ordinal` and compiles its kernels, unless `kernels` has them from an earlier run.
    pub fn open(ordinal: usize, precision: Precision, kernels: Option<&dyn KernelCache>) -> Result<Self> {
        let driver = Driver::open(ordinal, precision, kernels)?;
        let (recorded, communicator) = (Mutex::new(None), OnceLock::new());
        Ok(Self { driver, precision, rows_on: RowsOn::Auto, shares_device: false, recorded, communicator })
    }

    /// Keeps the rows of tables from now on where `rows_on` says.
    pub fn keep_rows_on(&mut self, rows_on: RowsOn) {
        self.rows_on = rows_on;
    }

    /// Lets ranks on the same device exchange gradients on it, which NCCL must have been told to allow.
    pub fn share_device(&mut self) {
        self.shares_device = true;
    }

    /// Whether there is a driver and at least one device.
    pub fn is_present() -> bool {
        Self::n_devices() > 0
    }

    /// The number of devices; zero without a driver.
    pub fn n_devices() -> usize {
        driver::n_devices()
    }

    /// Human-readable properties of the device: names and values.
    pub fn describe(&self) -> Result<Vec<(&'static str, String)>> {
        self.driver.describe()
    }

    /// A lower bound on the time, in milliseconds, of `flop` single-precision operations and `bytes` of memory traffic at
    /// the device's peak rates.
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

/// The number of blocks of `threads` threads that cover `n` items.
fn blocks(n: usize, threads: u32) -> u32 {
    n.div_ceil(threads as usize) as u32
}

/// A launch with one thread for each of `n` items.
fn elementwise(kernel: Kernel, n: usize) -> Launch {
    const THREADS: u32 = 256;
    Launch { kernel, grid: (blocks(n, THREADS), 1, 1), threads: THREADS, shared: 0 }
}
