//! Mixtures of Gaussians with diagonal covariance: density, responsibilities, k-means and EM.
//!
//! Latents are `f32`, row by row; arithmetic is `f64`. Results are the same bits for any number of threads and any
//! vector width. The device does all passes over the rows.

mod diagonal;
mod em;
mod kmeans;

pub use diagonal::DiagonalMixture;
pub(crate) use em::fit_scored;
pub use em::{EmFit, EmOptions, bytes_needed, fit, fit_from};
pub use kmeans::{KMeansFit, kmeans};
