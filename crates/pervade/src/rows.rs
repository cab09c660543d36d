//! What is asked of the rows of latents wherever they come in.

use crate::seed::Key;
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
        let (row, column) = (place / n_latent + 1, place % n_latent + 1);
        let problem = format!("row {row}, column {column} is {}, not a finite number", latents[place]);
        return Err(Error::data("latents", problem));
    }
    Ok(latents.len() / n_latent)
}

/// At most `max_rows` of the rows, each with the same chance, rising; all where there are no more.
pub(crate) fn sample_rows(n_rows: usize, max_rows: usize, key: Key) -> Vec<u32> {
    if n_rows <= max_rows {
        return (0..n_rows as u32).collect();
    }
    let mut rows: Vec<u32> = (0..max_rows).map(|i| key.permute(i, n_rows, 0) as u32).collect();
    rows.sort_unstable();
    rows
}

/// Squared differences of larger numbers would not fit into `f32`.
const MAX_MAGNITUDE: f32 = 1e16;

/// An error if distances between such rows would overflow.
///
/// # Shapes
/// - latents: `[N, J]`
pub(crate) fn check_magnitude(latents: &[f32], n_latent: usize) -> Result<()> {
    let Some(place) = latents.iter().position(|z| z.abs() > MAX_MAGNITUDE) else { return Ok(()) };
    let problem = format!("row {} has {:e}, too large for a distance", place / n_latent + 1, latents[place]);
    Err(Error::data("latents", problem))
}
