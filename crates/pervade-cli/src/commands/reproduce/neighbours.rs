//! The k-nearest-neighbour classifier of table 3, and the rows as they are as a representation.

use pervade::compute::Device;
use pervade::data::Dataset;
use pervade::train::Observer;
use pervade::{Clusterer, Clustering, Error, Result};
use rayon::prelude::*;

/// Rows and their labels.
///
/// # Shapes
/// - rows: `[N, J]`, labels: `[N]`
#[derive(Clone, Copy)]
pub(super) struct Labelled<'a> {
    pub(super) rows: &'a [f32],
    pub(super) labels: &'a [u32],
}

/// Shares of the test rows whose label is not the one of most of the k nearest known rows (of as many, the smallest),
/// for each of `ks`.
pub(super) fn knn_errors(
    known: Labelled,
    test: Labelled,
    n_columns: usize,
    ks: &[usize],
) -> Result<Vec<f64>> {
    let n_known = known.labels.len();
    if let Some(k) = ks.iter().find(|&&k| k < 1 || k > n_known) {
        return Err(Error::setting("k", k, format!("must be between 1 and {n_known}, the known rows")));
    }
    let most = ks.iter().copied().max().unwrap_or(0);
    let n_labels = known.labels.iter().max().map_or(0, |&last| last as usize + 1);
    let wrong = |(row, &label): (&[f32], &u32)| -> Vec<usize> {
        let nearest = nearest(known.rows, row, n_columns, most);
        let vote = |k: usize| {
            let mut votes = vec![0; n_labels];
            nearest.iter().take(k).for_each(|&place| votes[known.labels[place] as usize] += 1);
            (1..n_labels).fold(0, |best, i| if votes[i] > votes[best] { i } else { best })
        };
        ks.iter().map(|&k| usize::from(vote(k) != label as usize)).collect()
    };
    let counts = test
        .rows
        .par_chunks_exact(n_columns)
        .zip(test.labels)
        .map(wrong)
        .reduce(|| vec![0; ks.len()], |a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect());
    Ok(counts.into_iter().map(|count| count as f64 / test.labels.len() as f64).collect())
}

/// The nearest known rows, nearest first; of equally near ones the earlier first.
fn nearest(known: &[f32], row: &[f32], j: usize, count: usize) -> Vec<usize> {
    let mut found: Vec<(f32, usize)> = Vec::with_capacity(count + 1);
    for (place, other) in known.chunks_exact(j).enumerate() {
        // Eight sums side by side, always in the same order.
        let mut sums = [0.0f32; 8];
        for (a, b) in other.chunks(8).zip(row.chunks(8)) {
            for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                *sum += (a - b) * (a - b);
            }
        }
        let square: f32 = sums.iter().sum();
        if found.len() < count || square < found[count - 1].0 {
            let at = found.partition_point(|&(other, _)| other <= square);
            found.insert(at, (square, place));
            found.truncate(count);
        }
    }
    found.into_iter().map(|(_, place)| place).collect()
}

/// The prepared rows themselves.
pub(super) struct Pixels;

impl<D: Device> Clusterer<D> for Pixels {
    fn name(&self) -> &'static str {
        "pixels"
    }

    fn cluster(&self, _: &Dataset, _: &D, _: u64, _: &mut dyn Observer) -> Result<Box<dyn Clustering<D>>> {
        Ok(Box::new(Pixels))
    }
}

impl<D: Device> Clustering<D> for Pixels {
    fn n_clusters(&self) -> usize {
        1
    }

    fn assign(&self, _device: &D, data: &Dataset) -> Result<Vec<u32>> {
        Ok(vec![0; data.n_rows()])
    }

    fn embed(&self, _device: &D, data: &Dataset) -> Result<Option<Vec<f32>>> {
        pervade_rivals::prepared_rows(data).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_of_the_nearest_decide() {
        // Labels 0 at 0 and 1, label 1 at 2, 3 and 4.
        let known = Labelled { rows: &[0.0, 1.0, 2.0, 3.0, 4.0], labels: &[0, 0, 1, 1, 1] };
        // 0.4: 0, 0, 1 | 1.6: 1, 0, 1 | 3.9: 1, 1, 1; of five all say 1.
        let test = Labelled { rows: &[0.4, 1.6, 3.9], labels: &[0, 0, 1] };
        assert_eq!(knn_errors(known, test, 1, &[1, 3, 5]).unwrap(), [1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0]);
        // As many of both: the smaller label.
        let test = Labelled { rows: &[1.5], labels: &[0] };
        assert_eq!(knn_errors(known, test, 1, &[2]).unwrap(), [0.0]);
        assert!(knn_errors(known, test, 1, &[6]).is_err());
    }
}
