//! What distinguishes some rows from others.

use pervade::compute::Device;
use pervade::describe::compare_groups;
use pervade_report::{distinctions_json, picture_json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::row_set::{Group, RowSet};
use super::{Refusal, Worker};
use crate::page::cards::{distinction, is_notable};

/// Columns in an answer, and rows of each group.
const COLUMNS: usize = 12;
const PICTURES: usize = 12;
const ROWS: usize = 6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    a: Group,
    b: Group,
}

pub(super) fn answer<D: Device>(worker: &Worker<'_, D>, question: Question) -> Result<Value, Refusal> {
    let Some(a) = worker.rows_of(&question.a)? else {
        return Err(Refusal::bad("the first group must be some of the rows"));
    };
    let n = worker.n_rows();
    let b = worker.rows_of(&question.b)?.unwrap_or_else(|| RowSet::new(n, |row| !a.contains(row)));
    let both = (0..n).filter(|&row| a.contains(row) && b.contains(row)).count();
    let b = RowSet::new(n, |row| b.contains(row) && !a.contains(row));
    let group = |row: usize| match (a.contains(row), b.contains(row)) {
        (true, _) => 0,
        (_, true) => 1,
        _ => 2,
    };
    let groups: Vec<u32> = (0..n).map(group).collect();
    let is_picture = worker.model.image().is_some();
    let limit = if is_picture { 0 } else { COLUMNS };
    let found = compare_groups(&worker.model, &worker.explored.table.data, &groups, limit)?;
    let notable: Vec<_> = found.columns.iter().filter(|column| is_notable(column)).map(distinction).collect();
    let examples = worker.examples();
    let means = found.mean_rows.iter().flatten().map(|row| examples.picture(row).as_ref().map(picture_json));
    let counts = [&a, &b].map(|set| {
        let mut counts = vec![0; worker.model.n_clusters()];
        set.rows().for_each(|row| counts[worker.cluster(row)] += 1);
        counts
    });
    let shown = [&a, &b].map(|set| {
        let rows: Vec<usize> = set.rows().collect();
        let wanted = rows.len().min(if is_picture { PICTURES } else { ROWS });
        let spaced: Vec<usize> = (0..wanted).map(|i| rows[i * rows.len() / wanted]).collect();
        worker.listed(&spaced)
    });
    Ok(json!({
        "sizes": found.sizes,
        "both": both,
        "columns": distinctions_json(&notable),
        "clusters": counts,
        "means": means.collect::<Vec<_>>(),
        "examples": shown,
    }))
}
