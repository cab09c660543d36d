//! The k-nearest-neighbour classifier, which tells how well a representation keeps rows of one label together.

use rayon::prelude::*;

use crate::compute::cpu::nearest_rows;
use crate::rows::{check_latents, check_magnitude};
use crate::{Error, Result};

/// Rows and their labels.
///
/// # Shapes
/// - rows: `[N, J]`, labels: `[N]`
#[derive(Clone, Copy, Debug)]
pub struct Labelled<'a> {
    /// The representation.
    pub rows: &'a [f32],
    /// The true labels.
    pub labels: &'a [u32],
}

/// Rows beyond k that the search in single precision returns, so that double precision can decide.
const SPARE: usize = 8;

/// The error rate of the k-nearest-neighbour classifier on the test rows, for each of `ks`.
///
/// One exact search by Euclidean distance serves all k; see [`knn_labels`].
pub fn knn_errors(known: Labelled, test: Labelled, n_columns: usize, ks: &[usize]) -> Result<Vec<f64>> {
    let found = knn_labels(known, test.rows, n_columns, ks)?;
    let n = test.rows.len() / n_columns;
    if test.labels.len() != n {
        return Err(Error::data("labels", format!("{} labels cannot score {n} rows", test.labels.len())));
    }
    let wrong = |found: &Vec<u32>| found.iter().zip(test.labels).filter(|(a, b)| a != b).count();
    Ok(found.iter().map(|found| wrong(found) as f64 / n as f64).collect())
}

/// The most frequent label among the k nearest known rows of each row, for each of `ks`. Ties go to the smallest label,
/// as in scikit-learn, and among equally near known rows to the first.
///
/// # Shapes
/// - rows: `[n, J]`, result: `[n]` for each of `ks`
pub fn knn_labels(known: Labelled, rows: &[f32], n_columns: usize, ks: &[usize]) -> Result<Vec<Vec<u32>>> {
    let n_known = check_latents(known.rows, n_columns)?;
    check_latents(rows, n_columns)?;
    check_magnitude(known.rows, n_columns)?;
    check_magnitude(rows, n_columns)?;
    if known.labels.len() != n_known {
        let problem = format!("{} labels for {n_known} rows", known.labels.len());
        return Err(Error::data("labels", problem));
    }
    if let Some(k) = ks.iter().find(|&&k| k < 1 || k > n_known) {
        return Err(Error::setting("k", k, format!("must be between 1 and {n_known}, the known rows")));
    }
    let most = ks.iter().copied().max().unwrap_or(0);
    let nearest = exact_nearest(known.rows, rows, n_columns, most);
    let label = |nearest: &[u32]| most_frequent(nearest.iter().map(|&row| known.labels[row as usize]));
    let labels = |&k: &usize| nearest.chunks_exact(most).map(|nearest| label(&nearest[..k])).collect();
    Ok(ks.iter().map(labels).collect())
}

/// The most frequent label; ties go to the smallest.
fn most_frequent(labels: impl Iterator<Item = u32>) -> u32 {
    let mut labels: Vec<u32> = labels.collect();
    labels.sort_unstable();
    let runs = labels.chunk_by(|a, b| a == b);
    // `max_by_key` returns the last of equal runs, so they are visited in reverse.
    runs.rev().max_by_key(|run| run.len()).map_or(0, |run| run[0])
}

/// The k nearest known rows by distance in double precision, nearest first. `[n, k]`
///
/// Single precision proposes a few more than k. Its squared distances are off by less than `slack` of their value, so
/// if the last proposal is farther than the k-th by more than that, no row was missed; otherwise all known rows are
/// compared.
fn exact_nearest(known: &[f32], rows: &[f32], n_columns: usize, k: usize) -> Vec<u32> {
    let n_known = known.len() / n_columns;
    let proposed = (k + SPARE).min(n_known);
    let proposals = nearest_rows(known, rows, n_columns, proposed);
    // One rounding for each difference, product and sum, of half a unit in the last digit.
    let slack = (n_columns + 3) as f64 * f64::from(f32::EPSILON);
    let tiny = n_columns as f64 * f64::from(f32::MIN_POSITIVE);
    let square = |row: &[f32], index: u32| {
        let other = &known[index as usize * n_columns..][..n_columns];
        row.iter().zip(other).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>()
    };
    let ranked = |row: &[f32], indices: &mut dyn Iterator<Item = u32>| {
        let mut found: Vec<(f64, u32)> = indices.map(|index| (square(row, index), index)).collect();
        let nearer = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if k < found.len() {
            found.select_nth_unstable_by(k, nearer);
            found.truncate(k);
        }
        found.sort_unstable_by(nearer);
        found
    };
    let each = |(row, proposals): (&[f32], &[(f32, u32)])| {
        let mut found = ranked(row, &mut proposals.iter().map(|&(_, index)| index));
        let last = proposals.last().map_or(0.0, |&(square, _)| f64::from(square));
        let kth = found.last().map_or(0.0, |&(square, _)| square);
        if proposed < n_known && last <= kth * (1.0 + 2.0 * slack) + tiny {
            found = ranked(row, &mut (0..n_known as u32));
        }
        found.into_iter().map(|(_, index)| index).collect::<Vec<u32>>()
    };
    rows.par_chunks_exact(n_columns).zip(proposals.par_chunks_exact(proposed)).flat_map_iter(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_of_the_most_frequent_labels_wins() {
        assert_eq!(most_frequent([7, 3, 7, 3, 9].into_iter()), 3);
        assert_eq!(most_frequent([9, 9, 1].into_iter()), 9);
        assert_eq!(most_frequent([4].into_iter()), 4);
    }

    /// Small differences next to a large one: equal distances in single precision, different ones in double precision.
    #[test]
    fn double_precision_decides() {
        let known: Vec<f32> = (0..40).flat_map(|i| [64.0, 1e-3 * (40 - i) as f32]).collect();
        assert_ne!(
            nearest_rows(&known, &[0.0, 0.0], 2, 1)[0].1,
            39,
            "in single precision ties go to the first"
        );
        assert_eq!(exact_nearest(&known, &[0.0, 0.0], 2, 3), [39, 38, 37]);
        assert_eq!(
            exact_nearest(&[1.0; 80], &[1.0, 1.0], 2, 3),
            [0, 1, 2],
            "equal rows, ties go to the first"
        );
    }
}
