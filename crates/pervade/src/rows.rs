//! Checks of latents wherever they come in.

use crate::seed::Key;
use crate::{Error, Result};

/// The number of rows in `latents`, which must be non-empty, complete and finite.
///
/// # Shapes
/// - latents: `[N, J]`
pub(crate) fn check_latents(latents: &[f32], n_latent: usize) -> Result<usize> {
    if n_latent == 0 || latents.is_empty() || !latents.len().is_multiple_of(n_latent) {
        let problem = format!("{} values do not make rows of {n_latent} columns", latents.len());
        return Err(Error::data("latents", problem));
    }
    if let Some(index) = latents.iter().position(|value| !value.is_finite()) {
        let (row, column) = (index / n_latent + 1, index % n_latent + 1);
        let problem = format!("row {row}, column {column} is {}, not a finite number", latents[index]);
        return Err(Error::data("latents", problem));
    }
    Ok(latents.len() / n_latent)
}

/// A uniform sample of at most `max_rows` rows, in increasing order; all rows if there are no more.
pub(crate) fn sample_rows(n_rows: usize, max_rows: usize, key: Key) -> Vec<u32> {
    if n_rows <= max_rows {
        return (0..n_rows as u32).collect();
    }
    let mut rows: Vec<u32> = (0..max_rows).map(|i| key.permute(i, n_rows, 0) as u32).collect();
    rows.sort_unstable();
    rows
}

/// Squared differences of larger numbers would overflow `f32`.
pub(crate) const MAX_MAGNITUDE: f32 = 1e16;

/// Returns an error if distances between the rows would overflow.
///
/// # Shapes
/// - latents: `[N, J]`
pub(crate) fn check_magnitude(latents: &[f32], n_latent: usize) -> Result<()> {
    let Some(index) = latents.iter().position(|z| z.abs() > MAX_MAGNITUDE) else { return Ok(()) };
    let problem = format!("row {} has {:e}, too large for a distance", index / n_latent + 1, latents[index]);
    Err(Error::data("latents", problem))
}
