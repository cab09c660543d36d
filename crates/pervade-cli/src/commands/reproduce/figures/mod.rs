//! The paper's figures: models are trained once, their numbers are recorded, and the drawings are made from the
//! records.

mod draw;
mod panels;
mod record;
mod studio;
mod vade;

use std::path::{Path, PathBuf};

use pervade::files::write_atomically;
use pervade::{Error, Result};
use pervade_plots::Page;
use serde_json::Value;

use self::record::FigureRecord;
pub(super) use self::studio::Studio;
use super::record::Record;
use super::rows::{RowsFile, TableId};

/// Pixels of the PNG per unit of the page: sharp in print.
const PIXELS: f64 = 2.0;
/// VaDE with the settings of the paper, for the course of training.
const PAPER: &str = "vade-paper";
/// VaDE with the default recipe, for its results.
const VADE: &str = "vade";

/// A figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// Accuracy over the epochs, with the rivals' levels.
    Accuracy,
    /// Latents at several epochs.
    Latents,
    /// Generated images of four methods.
    Samples,
    /// Representations of three methods.
    Embeddings,
    /// Other numbers of clusters.
    Clusters,
}

impl Figure {
    /// The row of table 2 whose settings the figure uses.
    fn method(self) -> &'static str {
        match self {
            Figure::Accuracy | Figure::Latents => PAPER,
            Figure::Samples | Figure::Embeddings | Figure::Clusters => VADE,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Figure::Accuracy => "accuracy",
            Figure::Latents => "latents",
            Figure::Samples => "samples",
            Figure::Embeddings => "embeddings",
            Figure::Clusters => "clusters",
        }
    }
}

/// Draws a figure from its record; `None` without a record.
pub(super) fn draw(figure: Figure, rows: &RowsFile, out: &Path) -> Result<Option<[PathBuf; 2]>> {
    let page = match figure {
        Figure::Accuracy => FigureRecord::load(out, figure)?.map(|record| {
            let (levels, paper) = levels(rows, &record.data, out)?;
            Ok::<Page, Error>(draw::accuracy(&record, &levels, paper))
        }),
        Figure::Latents => FigureRecord::load(out, figure)?.map(|record| Ok(draw::latents(&record))),
        Figure::Embeddings => FigureRecord::load(out, figure)?.map(|record| Ok(draw::embeddings(&record))),
        Figure::Samples => FigureRecord::load(out, figure)?
            .map(|record| Ok(draw::pictures(&record, "New pictures, one line per cluster:"))),
        Figure::Clusters => FigureRecord::load(out, figure)?
            .map(|record| Ok(draw::pictures(&record, "VaDE with other numbers of clusters:"))),
    };
    let Some(page) = page.transpose()? else { return Ok(None) };
    let folder = out.join("figures");
    std::fs::create_dir_all(&folder).map_err(|e| Error::io("create", &folder, e))?;
    let paths = ["png", "svg"].map(|ending| folder.join(format!("{}.{ending}", figure.name())));
    let png = page.png(PIXELS).map_err(|e| Error::io("draw", &paths[0], e))?;
    for (path, bytes) in paths.iter().zip([png, page.svg().into_bytes()]) {
        write_atomically(path, |out| std::io::Write::write_all(out, &bytes))?;
    }
    Ok(Some(paths))
}

/// Whether the figure has a record, even if incomplete.
pub(super) fn is_begun(figure: Figure, out: &Path) -> bool {
    record::path_of(out, figure).exists()
}

/// Mean accuracies of all other methods in table 2's records, and the paper's value for VaDE.
fn levels(rows: &RowsFile, data: &str, out: &Path) -> Result<(Vec<draw::MethodLevel>, Option<f64>)> {
    let mut levels = Vec::new();
    let mut paper = None;
    for row in rows.rows.iter().filter(|row| row.data == data) {
        if row.method == PAPER {
            paper = row.paper.get("accuracy").copied();
            continue;
        }
        let record = Record::load(&Record::path(out, TableId::Table2, row))?;
        levels.extend(record.and_then(|record| Some((row.method.clone(), record.summary("accuracy")?.mean))));
    }
    Ok((levels, paper))
}

/// As plain data for `--json`.
pub(super) fn made(figure: Figure, files: &[PathBuf; 2]) -> Value {
    let files: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    serde_json::json!({"made": format!("figure-{}", figure.name()), "files": files})
}
