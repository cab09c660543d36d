//! Mixtures of Gaussians with diagonal covariance: density, responsibilities, k-means and EM.
//!
//! Latents come as `f32`, row after row, and are computed with as `f64`. Results are the same bits
//! for any number of threads and any vector width.

mod block;
mod diagonal;
mod em;
mod kmeans;

pub use diagonal::DiagonalMixture;
pub use em::{EmFit, EmOptions, fit, improve};
pub use kmeans::{KMeans, kmeans};

use crate::{Error, Result};

/// The number of rows in `latents`, which must be whole, finite and not none.
///
/// # Shapes
/// - latents: `[N, J]`
pub(crate) fn check_latents(latents: &[f32], n_latent: usize) -> Result<usize> {
    if n_latent == 0 || latents.is_empty() || !latents.len().is_multiple_of(n_latent) {
        let problem = format!("{} values do not make rows of {n_latent} columns", latents.len());
        return Err(Error::data("latents", problem));
    }
    if let Some(place) = latents.iter().position(|value| !value.is_finite()) {
        let (row, column) = (place / n_latent, place % n_latent);
        let problem = format!("row {row}, column {column} is {}, not a finite number", latents[place]);
        return Err(Error::data("latents", problem));
    }
    Ok(latents.len() / n_latent)
}
