//! Mixtures of Gaussians: density, responsibilities, k-means and EM; with diagonal covariances for latents, and with full
//! ones for the rows of small tables.
//!
//! Latents are `f32`, row by row; arithmetic is `f64`. Results are the same bits for any number of threads and any
//! vector width. The device does all passes over the rows.

mod diagonal;
mod em;
mod full;
mod kmeans;
mod triangular;

pub use diagonal::DiagonalMixture;
pub(crate) use em::fit_scored;
pub use em::{EmFit, EmOptions, bytes_needed, fit, fit_from};
pub use full::{Covariance, FullMixture, mean_variance};
pub use kmeans::{KMeansFit, kmeans};
pub use triangular::{cholesky, invert_lower};
