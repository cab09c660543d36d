//! Typical, doubtful and unusual rows, and overlap between clusters.

use std::collections::BTreeMap;

use super::{
    BetweenClusters, ColumnTexts, DOUBTFUL, DescribeOptions, ExampleRow, OutlierCell, OutlierRow, RowResults,
};
use crate::Result;
use crate::compute::Device;
use crate::data::{Dataset, Values};
use crate::model::Vade;

/// Counts of rows by confidence in ten steps, and the mean confidence of each cluster.
pub(super) fn confidences(results: &RowResults, sizes: &[usize]) -> (Vec<[usize; 10]>, Vec<f64>) {
    let (mut counts, mut sums) = (vec![[0; 10]; sizes.len()], vec![0.0; sizes.len()]);
    for (row, &cluster) in results.assignments.clusters.iter().enumerate() {
        let confidence = results.confidence(row);
        counts[cluster as usize][((10.0 * confidence) as usize).min(9)] += 1;
        sums[cluster as usize] += f64::from(confidence);
    }
    (counts, sums.iter().zip(sizes).map(|(sum, &n)| sum / n as f64).collect())
}

/// Share of the rows without a cluster of high probability.
pub(super) fn doubtful_share(results: &RowResults) -> f64 {
    let n = results.scores.len();
    (0..n).filter(|&row| is_doubtful(results, row)).count() as f64 / n.max(1) as f64
}

fn is_doubtful(results: &RowResults, row: usize) -> bool {
    results.confidence(row) <= DOUBTFUL
}

fn example(results: &RowResults, row: usize) -> ExampleRow {
    ExampleRow {
        row,
        confidence: results.confidence(row),
        second: second(results, row),
        score: results.scores[row],
    }
}

/// The second most probable cluster of a row; ties go to the first.
fn second(results: &RowResults, row: usize) -> Option<(usize, f32)> {
    let own = results.assignments.clusters[row] as usize;
    let others = results.probabilities(row).iter().copied().enumerate().filter(|&(k, _)| k != own);
    others.reduce(|best, other| if other.1 > best.1 { other } else { best })
}

fn rows_of(results: &RowResults, cluster: usize) -> impl Iterator<Item = usize> {
    let clusters = &results.assignments.clusters;
    (0..clusters.len()).filter(move |&row| clusters[row] as usize == cluster)
}

/// The rows with the highest scores in the more confident half of a cluster. Rows without gaps come first: the density of
/// a row with gaps has fewer factors.
pub(super) fn typical(data: &Dataset, results: &RowResults, cluster: usize, n: usize) -> Vec<ExampleRow> {
    let mut rows: Vec<usize> = rows_of(results, cluster).collect();
    rows.sort_by(|&a, &b| results.confidence(b).total_cmp(&results.confidence(a)).then(a.cmp(&b)));
    rows.truncate(rows.len().div_ceil(2).max(n));
    keep_usual_lengths(data, &mut rows, n);
    let mut ranked: Vec<(usize, usize)> = rows.into_iter().map(|row| (n_missing(data, row), row)).collect();
    ranked.sort_by(|&(gaps_a, a), &(gaps_b, b)| {
        let by_score = results.scores[b].total_cmp(&results.scores[a]);
        gaps_a.cmp(&gaps_b).then(by_score).then(a.cmp(&b))
    });
    ranked.into_iter().take(n).map(|(_, row)| example(results, row)).collect()
}

/// Drops the sparse rows with fewer entries than half of the others have: the shorter a row, the higher its score.
fn keep_usual_lengths(data: &Dataset, rows: &mut Vec<usize>, n: usize) {
    let Values::Csr(csr) = data.values() else { return };
    let length = |row: usize| csr.row(row).0.len();
    let mut lengths: Vec<usize> = rows.iter().map(|&row| length(row)).collect();
    lengths.sort_unstable();
    if let Some(&median) = lengths.get(lengths.len() / 2).filter(|_| lengths.len() > 2 * n) {
        rows.retain(|&row| length(row) >= median);
    }
}

fn n_missing(data: &Dataset, row: usize) -> usize {
    if matches!(data.values(), Values::Csr(_)) || data.schema().is_none() {
        return 0;
    }
    (0..data.n_columns()).filter(|&j| data.cell(row, j).is_nan()).count()
}

/// The least confident of the doubtful rows of a cluster.
pub(super) fn doubtful(results: &RowResults, cluster: usize, n: usize) -> Vec<ExampleRow> {
    let rows = rows_of(results, cluster).filter(|&row| is_doubtful(results, row)).collect();
    least_confident(results, rows, n)
}

fn least_confident(results: &RowResults, mut rows: Vec<usize>, n: usize) -> Vec<ExampleRow> {
    rows.sort_by(|&a, &b| results.confidence(a).total_cmp(&results.confidence(b)).then(a.cmp(&b)));
    rows.into_iter().take(n).map(|row| example(results, row)).collect()
}

/// Mean probability of each cluster over the rows of each. `[K][K]`
pub(super) fn overlap(results: &RowResults, sizes: &[usize]) -> Vec<Vec<f64>> {
    let k = sizes.len();
    let mut sums = vec![vec![0.0; k]; k];
    for (row, &cluster) in results.assignments.clusters.iter().enumerate() {
        let own = sums[cluster as usize].iter_mut();
        own.zip(results.probabilities(row)).for_each(|(sum, &p)| *sum += f64::from(p));
    }
    for (row, &n) in sums.iter_mut().zip(sizes) {
        row.iter_mut().for_each(|sum| *sum /= n.max(1) as f64);
    }
    sums
}

/// Doubtful rows by their two most probable clusters.
pub(super) fn between(results: &RowResults, n: usize) -> Vec<BetweenClusters> {
    let mut pairs: BTreeMap<[usize; 2], Vec<usize>> = BTreeMap::new();
    for row in (0..results.scores.len()).filter(|&row| is_doubtful(results, row)) {
        let own = results.assignments.clusters[row] as usize;
        if let Some((other, _)) = second(results, row) {
            pairs.entry([own.min(other), own.max(other)]).or_default().push(row);
        }
    }
    let of_pair = |(clusters, rows): ([usize; 2], Vec<usize>)| BetweenClusters {
        clusters,
        n_rows: rows.len(),
        examples: least_confident(results, rows, n),
    };
    let mut between: Vec<BetweenClusters> = pairs.into_iter().map(of_pair).collect();
    between.sort_by_key(|pair| (std::cmp::Reverse(pair.n_rows), pair.clusters));
    between
}

/// The most unusual rows.
pub(super) fn outliers<D: Device>(
    model: &Vade,
    device: &D,
    data: &Dataset,
    results: &RowResults,
    texts: &ColumnTexts,
    options: &DescribeOptions,
) -> Result<Vec<OutlierRow>> {
    let mut rows: Vec<usize> = (0..results.anomalies.len()).collect();
    rows.sort_by(|&a, &b| results.anomalies[b].total_cmp(&results.anomalies[a]).then(a.cmp(&b)));
    rows.truncate(options.outliers);
    // Single pixels say nothing; the page has the picture.
    let n_costs = if model.image().is_some() { 0 } else { options.costs };
    let of_row = |row: usize| {
        let costs = model.cell_costs(device, data, row)?.into_iter().map(|cost| OutlierCell {
            column: texts.name(cost.column).to_string(),
            value: texts.shown(cost.column, cost.value),
            expected: texts.rounded(cost.column, cost.expected),
            nats: cost.nats,
        });
        // Where both read the same, there is nothing to tell.
        let costs = costs.filter(|cost| cost.value != cost.expected).take(n_costs);
        Ok(OutlierRow {
            example: example(results, row),
            cluster: results.assignments.clusters[row] as usize,
            anomaly: results.anomalies[row],
            costs: costs.collect(),
        })
    };
    rows.into_iter().map(of_row).collect()
}
