//! The layout of rows in the plane.

use pervade::{Error, Result};
use pervade_plots::{Layout, LayoutError, LayoutInput};

use crate::feedback::Feedback;

/// The position of each row in the plane. Rows of one cluster start together.
pub fn lay_out(
    latents: &[f32],
    n_latents: usize,
    clusters: &[u32],
    feedback: &dyn Feedback,
) -> Result<Vec<[f32; 2]>> {
    let mut report = feedback.layout_started(clusters.len());
    let input = LayoutInput { latents, n_latents, components: clusters, neighbours: &[] };
    let points = Layout::default().embed(&input, &mut *report).map_err(|error| match error {
        LayoutError::Interrupted => interrupted(),
        error => Error::data("latents", error.to_string()),
    })?;
    report(1.0);
    Ok(points)
}

/// The caller asked to stop.
pub(crate) fn interrupted() -> Error {
    Error::Interrupted { stage: "the map", epoch: 0 }
}
