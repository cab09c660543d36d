//! Arithmetic on a device: buffers, parameters, and the operations that training is made of. This crate knows numbers,
//! not VaDE, and no data files.
//!
//! The operations are traits, one per family, each implemented in the file where its arithmetic is ([`cpu`], `cuda`).
//! [`Device`] is the sum of those that VaDE needs; a method that needs more asks for more, such as
//! `D: Device + BatchNorm`.
//!
//! All operations work on R models side by side (the restart axis): matrices are [R, rows, columns], parameters [R, P],
//! and each restart sees exactly what it would see alone. Letters in the documentation: R restarts, B rows of a batch, L
//! samples per row, D columns, J latents, C components.

mod any;
mod components;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod error;
#[cfg(not(feature = "cuda"))]
mod no_cuda;
mod ops;
pub mod parallel;
mod params;
pub mod prelude;
pub mod random;
mod tick;
mod wide;

pub use any::{AnyDevice, KernelCache, Precision};
pub use components::{Components, Moments};
pub use cpu::Cpu;
#[cfg(feature = "cuda")]
pub use cuda::Cuda;
pub use error::{Advice, Error, Result};
#[cfg(not(feature = "cuda"))]
pub use no_cuda::Cuda;
pub use ops::*;
pub use params::{Affine, Layout, Matrix, MixtureSlots, Params, Slot};
pub use tick::{AdamStep, MOST_STEPS, Tick, Ticks};
use tick::{BETA2, inverse_root, step_size};

/// Bound on the log variances of q(z|x) and of the components: one row beyond it would turn every
/// gradient of its batch into infinities.
pub const LOG_VARIANCE_LIMIT: f32 = 20.0;

/// Bound on the log variance that a Gaussian decoder emits: a constant column would otherwise send
/// the likelihood to infinity.
pub const DECODER_LOG_VARIANCE_LIMIT: f32 = 10.0;

/// Everything that VaDE needs of a device.
pub trait Device:
    Memory + Recording + Rows + Layers + Convolution + Sums + Latents + Likelihoods + Prior + Points
{
}

impl<D> Device for D where
    D: Memory + Recording + Rows + Layers + Convolution + Sums + Latents + Likelihoods + Prior + Points
{
}
