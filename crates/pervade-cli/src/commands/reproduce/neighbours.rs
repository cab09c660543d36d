//! The k-nearest-neighbour classifier of table 3, and the rows as they are as a representation.

use pervade::compute::Device;
use pervade::data::Dataset;
use pervade::train::Observer;
use pervade::{Clusterer, Clustering, Result};
use rayon::prelude::*;

/// Shares of wrongly classified rows, one for each k: the label of most of the k nearest known rows, and of as many
/// the smallest.
///
/// # Shapes
/// - known: `[N, J]`, known_labels: `[N]`, rows: `[n, J]`, labels: `[n]`
pub(super) fn knn_errors(
    known: &[f32],
    known_labels: &[u32],
    rows: &[f32],
    labels: &[u32],
    j: usize,
    ks: &[usize],
) -> Vec<f64> {
    let most = ks.iter().copied().max().unwrap_or(0);
    let n_labels = known_labels.iter().max().map_or(0, |&last| last as usize + 1);
    let wrong = |(row, &label): (&[f32], &u32)| -> Vec<usize> {
        let nearest = nearest(known, row, j, most);
        let vote = |k: usize| {
            let mut votes = vec![0; n_labels];
            nearest.iter().take(k).for_each(|&place| votes[known_labels[place] as usize] += 1);
            (1..n_labels).fold(0, |best, i| if votes[i] > votes[best] { i } else { best })
        };
        ks.iter().map(|&k| usize::from(vote(k) != label as usize)).collect()
    };
    let counts = rows
        .par_chunks_exact(j)
        .zip(labels)
        .map(wrong)
        .reduce(|| vec![0; ks.len()], |a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect());
    counts.into_iter().map(|count| count as f64 / labels.len() as f64).collect()
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
        let (known, known_labels) = ([0.0, 1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1, 1]);
        let rows = [0.4, 1.6, 3.9];
        // 0.4: 0, 0, 1 | 1.6: 1, 0, 1 | 3.9: 1, 1, 1; of five all say 1.
        assert_eq!(
            knn_errors(&known, &known_labels, &rows, &[0, 0, 1], 1, &[1, 3, 5]),
            [1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0]
        );
        // As many of both: the smaller label.
        assert_eq!(knn_errors(&known, &known_labels, &[1.5], &[0], 1, &[2]), [0.0]);
    }
}
