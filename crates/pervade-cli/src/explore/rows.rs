//! One row, and the rows nearest to it.

use pervade::compute::Device;
use pervade::data::Values;
use pervade_report::examples_json;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Refusal, Worker};

/// Nearest rows, clusters, unexpected cells and cells of the row in an answer.
const NEAREST: usize = 12;
const CLUSTERS: usize = 5;
const COSTS: usize = 5;
const CELLS: usize = 60;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    row: usize,
}

pub(super) fn answer<D: Device>(
    worker: &Worker<'_, D>,
    Question { row }: Question,
) -> Result<Value, Refusal> {
    let n = worker.n_rows();
    if row >= n {
        return Err(Refusal::bad(format!("there is no row {}; the table has {n}", row.saturating_add(1))));
    }
    let near = nearest(&worker.gathered.latents, worker.model.n_latents(), row);
    let rows: Vec<usize> = near.iter().map(|&(row, _)| row).collect();
    let results = &worker.gathered.results;
    let k = worker.model.n_clusters();
    let mut likely: Vec<(usize, f32)> =
        results.assignments.probabilities[row * k..(row + 1) * k].iter().copied().enumerate().collect();
    likely.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    likely.truncate(CLUSTERS);
    let data = &worker.explored.table.data;
    let texts = &worker.texts;
    let costs = worker.model.cell_costs(worker.device, data, row)?.into_iter().map(|cost| {
        let (value, expected) =
            (texts.shown(cost.column, cost.value), texts.rounded(cost.column, cost.expected));
        (texts.name(cost.column).to_string(), value, expected, cost.nats)
    });
    let costs: Vec<_> = costs.filter(|(_, value, expected, _)| value != expected).take(COSTS).collect();
    let example = worker.examples().of_row(row, &cells(worker, row));
    Ok(json!({
        "row": examples_json(&[example], k)[0],
        "cluster": worker.cluster(row),
        "probabilities": likely,
        "score": results.scores[row],
        "costs": if worker.model.image().is_some() { Vec::new() } else { costs },
        "nearest": worker.listed(&rows),
        "distances": near.iter().map(|&(_, distance)| distance).collect::<Vec<f32>>(),
    }))
}

/// The cells that are shown of a row: all of a narrow table, the largest of a sparse row, otherwise those that distinguish
/// its cluster, then the first.
fn cells<D: Device>(worker: &Worker<'_, D>, row: usize) -> Vec<usize> {
    let data = &worker.explored.table.data;
    if let Values::Csr(csr) = data.values() {
        let (columns, values) = csr.row(row);
        let mut entries: Vec<(usize, f32)> =
            columns.iter().map(|&j| j as usize).zip(values.iter().copied()).collect();
        entries.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        return entries.into_iter().take(CELLS).map(|(j, _)| j).collect();
    }
    let d = data.n_columns();
    if d <= CELLS {
        return (0..d).collect();
    }
    let mut columns = worker.columns_of(std::iter::once(worker.cluster(row)));
    let rest = (0..d).filter(|j| !columns.contains(j)).take(CELLS - columns.len().min(CELLS));
    let rest: Vec<usize> = rest.collect();
    columns.extend(rest);
    columns
}

/// The rows whose latents are nearest to those of a row, the nearest first, with their distances. Ties go to the first.
fn nearest(latents: &[f32], n_latents: usize, row: usize) -> Vec<(usize, f32)> {
    let own = &latents[row * n_latents..(row + 1) * n_latents];
    let distance = |other: &[f32]| own.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
    let all = latents.chunks_exact(n_latents).enumerate().filter(|&(other, _)| other != row);
    let mut found: Vec<(usize, f32)> = all.map(|(other, z)| (other, distance(z))).collect();
    let order = |a: &(usize, f32), b: &(usize, f32)| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0));
    if found.len() > NEAREST {
        found.select_nth_unstable_by(NEAREST, order);
        found.truncate(NEAREST);
    }
    found.sort_by(order);
    found.into_iter().map(|(row, square)| (row, square.sqrt())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rows_come_first() {
        let latents: Vec<f32> = (0..40).flat_map(|i| [(i * 7 % 40) as f32, 1.0]).collect();
        let found = nearest(&latents, 2, 0);
        assert_eq!(found.len(), NEAREST);
        assert_eq!(
            found[..3].iter().map(|&(row, d)| (row * 7 % 40, d)).collect::<Vec<_>>(),
            [(1, 1.0), (2, 2.0), (3, 3.0)]
        );
        assert_eq!(nearest(&[1.0, 2.0], 1, 1), [(0, 1.0)]);
        assert!(nearest(&[1.0], 1, 0).is_empty());
    }
}
