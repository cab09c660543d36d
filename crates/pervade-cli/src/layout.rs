//! The layout of rows in the plane, with progress on stderr. A signal ends it at once: nothing is written before its end.

use pervade::{Error, Result};
use pervade_plots::{Layout, LayoutInput};

use crate::console::Console;
use crate::{progress, words};

/// Rows for which a word about progress is due even without a terminal.
const NOTABLE_ROWS: usize = 20_000;

/// The position of each row in the plane. Rows of one cluster start together.
pub(crate) fn lay_out(
    latents: &[f32],
    n_latents: usize,
    clusters: &[u32],
    console: &Console,
) -> Result<Vec<[f32; 2]>> {
    let bar = (!console.quiet && Console::is_terminal()).then(|| progress::epoch_bar("map", 100));
    if bar.is_none() && clusters.len() >= NOTABLE_ROWS {
        console.say(&format!("laying out {}", words::counted(clusters.len(), "row")));
    }
    let mut report = |share: f64| {
        bar.iter().for_each(|bar| bar.set_position((100.0 * share) as u64));
        true
    };
    let input = LayoutInput { latents, n_latents, components: clusters, neighbours: &[] };
    let found = Layout::default().embed(&input, &mut report);
    bar.iter().for_each(|bar| bar.finish_and_clear());
    found.map_err(|e| Error::data("latents", e.to_string()))
}
