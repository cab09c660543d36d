//! Mixtures of Gaussians with diagonal covariance: density, responsibilities, k-means and EM.
//!
//! Latents come as `f32`, row after row, and are computed with as `f64`. Results are the same bits
//! for any number of threads and any vector width. Passes over all rows are the device's.

mod diagonal;
mod em;
mod kmeans;

pub use diagonal::DiagonalMixture;
pub(crate) use em::fit_asking;
pub use em::{EmFit, EmOptions, bytes_needed, fit, improve};
pub use kmeans::{KMeans, kmeans};
