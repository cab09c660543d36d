//! Arithmetic on a device: buffers, parameters, and the operations that training consists of. This crate knows arrays,
//! not VaDE, and no data files.
//!
//! Operations are methods of traits, one trait and one file per family, implemented for each device ([`cpu`], `cuda`).
//! [`Device`] combines the traits that VaDE needs; a method that needs more adds bounds, such as
//! `D: Device + BatchNorm`.
//!
//! All operations work on a batch of R independent models (the restart axis): matrices are [R, rows, columns], parameters [R, P],
//! and a restart's results do not depend on the others. Letters in the documentation: R restarts, B rows of a batch, L
//! samples per row, D columns, J latents, C components.

mod any;
mod components;
pub mod conformance;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod cuda_options;
mod error;
pub mod math;
mod moments;
#[cfg(not(feature = "cuda"))]
mod no_cuda;
mod ops;
pub mod parallel;
mod params;
pub mod prelude;
pub mod random;
mod ranks;
mod tick;
mod wide;

pub use any::AnyDevice;
pub use components::{Components, Moments};
pub use cpu::Cpu;
#[cfg(feature = "cuda")]
pub use cuda::Cuda;
pub use cuda_options::{KernelCache, Precision, RowsOn};
pub use error::{Advice, Error, Result};
#[cfg(not(feature = "cuda"))]
pub use no_cuda::Cuda;
pub use ops::*;
pub use params::{Affine, Layout, Matrix, MixtureSlots, Params, Slot};
pub use ranks::{Alone, HostMean, Ranks};
pub use tick::{AdamStep, MAX_STEPS, Tick, Ticks};
use tick::{BETA2, inverse_root, step_size};

/// Bound on the log variances of q(z|x) and of the components: a single row beyond it would turn every
/// gradient of its batch infinite.
pub const LOG_VARIANCE_LIMIT: f32 = 20.0;

/// Bound on the log variance that a Gaussian decoder outputs: a constant column would otherwise drive
/// the likelihood to infinity.
pub const DECODER_LOG_VARIANCE_LIMIT: f32 = 10.0;

/// Lower bound of the log variance of a Gaussian column of a typed table, in standardised units (a deviation of 0.1): a column
/// that is fitted ever more closely would otherwise outweigh all others.
pub const LEAST_LOG_VARIANCE: f32 = -4.6;

/// Bound on the logarithm of the mean of a count.
pub const LOG_MEAN_LIMIT: f64 = 30.0;

/// Bound on the logarithm of the dispersion of a count: from about 22,000 on, counts are as good as Poisson.
pub const LOG_DISPERSION_LIMIT: f32 = 10.0;

/// All operations that VaDE needs from a device.
pub trait Device:
    Memory
    + Exchange
    + Recording
    + Rows
    + Layers
    + Convolution
    + Sums
    + Latents
    + Likelihoods
    + TypedLikelihood
    + Prior
    + NeighbourAgreement
    + Points
{
}

impl<D> Device for D where
    D: Memory
        + Exchange
        + Recording
        + Rows
        + Layers
        + Convolution
        + Sums
        + Latents
        + Likelihoods
        + TypedLikelihood
        + Prior
        + NeighbourAgreement
        + Points
{
}
