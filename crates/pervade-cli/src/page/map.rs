//! All rows in the plane, and the columns that they can be coloured by.

use std::collections::BTreeSet;

use pervade::Result;
use pervade_report::{Map, MapColumn};

use super::{Caller, Facts};
use crate::feedback::Feedback;
use crate::layout::lay_out;
use crate::words;

/// Columns to colour by, beside those that go along.
pub(super) const COLOURS: usize = 12;
/// A column that goes along has colours if it has at most so many different cells.
const MOST_NAMES: usize = 20;

/// The rows on the map, and where they are.
pub(crate) struct Positions {
    /// Increasing.
    pub(crate) rows: Vec<usize>,
    points: Vec<[f32; 2]>,
}

impl Positions {
    /// Of more rows than wanted, every so many-th is shown. Rows of one cluster start together.
    pub(super) fn new(
        latents: &[f32],
        n_latents: usize,
        clusters: &[u32],
        most: usize,
        feedback: &dyn Feedback,
        caller: &Caller,
    ) -> Result<Self> {
        let (n, j) = (clusters.len(), n_latents);
        let shown = n.min(most);
        let rows: Vec<usize> = (0..shown).map(|i| (i as u128 * n as u128 / shown as u128) as usize).collect();
        if shown < n {
            let (shown, n) = (words::count(shown), words::count(n));
            let points = caller.option("points");
            feedback.note(&format!("the map shows a sample of {shown} of the {n} rows ({points})"));
        }
        let chosen: Vec<f32> =
            rows.iter().flat_map(|&row| &latents[row * j..(row + 1) * j]).copied().collect();
        let clusters: Vec<u32> = rows.iter().map(|&row| clusters[row]).collect();
        let points = lay_out(&chosen, j, &clusters, feedback)?;
        Ok(Self { rows, points })
    }
}

pub(super) fn of(facts: &Facts<'_>, Positions { rows, points }: &Positions) -> Map {
    let table = &facts.subject.table;
    let clusters: Vec<u32> = rows.iter().map(|&row| facts.results.assignments.clusters[row]).collect();
    let names = table.kept.map(|_| {
        rows.iter().map(|&row| facts.examples.name(row).unwrap_or_default()).collect::<Vec<String>>()
    });
    Map {
        points: points.clone(),
        confidence: rows.iter().map(|&row| facts.results.confidence(row)).collect(),
        scores: rows.iter().map(|&row| facts.results.scores[row] as f32).collect(),
        columns: columns(facts, rows),
        names: names.unwrap_or_default(),
        rows: if rows.len() < table.data.n_rows() {
            rows.iter().map(|&row| row as u32).collect()
        } else {
            Vec::new()
        },
        clusters,
    }
}

/// Labels, columns that go along if they repeat, and the most telling columns. Single pixels say too little.
fn columns(facts: &Facts<'_>, rows: &[usize]) -> Vec<MapColumn> {
    let table = &facts.subject.table;
    let mut columns = Vec::new();
    if let Some(labels) = &table.labels {
        let values = rows.iter().map(|&row| labels.ids()[row] as f32).collect();
        columns.push(MapColumn { name: "label".to_string(), levels: labels.names().to_vec(), values });
    }
    for (name, cells) in table.kept.iter().flat_map(|kept| kept.names.iter().zip(&kept.columns)) {
        let levels: BTreeSet<&str> = cells.iter().map(String::as_str).filter(|c| !c.is_empty()).collect();
        let levels: Vec<&str> = levels.into_iter().collect();
        if (2..=MOST_NAMES).contains(&levels.len()) {
            let value = |&row: &usize| {
                levels.binary_search(&cells[row].as_str()).map_or(f32::NAN, |level| level as f32)
            };
            let values = rows.iter().map(value).collect();
            let levels = levels.iter().map(ToString::to_string).collect();
            columns.push(MapColumn { name: name.clone(), levels, values });
        }
    }
    if facts.subject.model.image().is_some() {
        return columns;
    }
    columns.extend(facts.telling_columns(COLOURS).into_iter().map(|j| MapColumn {
        name: facts.texts.name(j).to_string(),
        levels: facts.texts.levels(j).to_vec(),
        values: rows.iter().map(|&row| table.data.cell(row, j) as f32).collect(),
    }));
    columns
}
