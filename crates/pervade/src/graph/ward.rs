//! Ward's hierarchical clustering: "Hierarchical grouping to optimize an objective function" (1963), in the form of Lance and
//! Williams with squared distances, as scipy's `linkage(method="ward")`. The pair with the least
//! h² = 2 |A| |B| / (|A| + |B|) (squared distance of the means of A and B) is merged first. The pairs are found by the
//! chain of nearest neighbours (Murtagh, 1983) in time N²; memory grows with N², too.

use std::collections::HashMap;

use rayon::prelude::*;

/// Squared distances between all pairs of n points, (0, 1), (0, 2), ..., (1, 2), ...
#[derive(Clone, Debug)]
pub struct SquareDistances {
    n: usize,
    values: Vec<f64>,
}

impl SquareDistances {
    /// The squares that the function gives for pairs of points, the first of them below the second.
    pub fn new(n: usize, square: impl Fn(usize, usize) -> f64 + Sync) -> Self {
        let mut values = vec![0.0; n * n.saturating_sub(1) / 2];
        let mut rest = values.as_mut_slice();
        let mut parts = Vec::with_capacity(n);
        for i in 0..n {
            let (part, after) = rest.split_at_mut(n - 1 - i);
            parts.push(part);
            rest = after;
        }
        parts.into_par_iter().enumerate().for_each(|(i, part)| {
            part.iter_mut().enumerate().for_each(|(j, value)| *value = square(i, i + 1 + j));
        });
        Self { n, values }
    }

    /// Squared Euclidean distances of rows.
    ///
    /// # Shapes
    /// - rows: `[N, D]`
    pub fn euclidean(rows: &[f32], d: usize) -> Self {
        let row = |i: usize| &rows[i * d..][..d];
        Self::new(rows.len() / d, |i, j| {
            row(i).iter().zip(row(j)).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum()
        })
    }

    /// All squares, in order.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Replaces those that are NaN by a square.
    pub fn replace_nan(&mut self, square: f64) {
        self.values.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = square);
    }

    fn index(&self, a: usize, b: usize) -> usize {
        let (i, j) = (a.min(b), a.max(b));
        i * (2 * self.n - i - 1) / 2 + j - i - 1
    }

    fn get(&self, a: usize, b: usize) -> f64 {
        self.values[self.index(a, b)]
    }
}

/// Two clusters that become one. A cluster is named by one of its rows, the merged one by `into`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Merge {
    /// The cluster that ends.
    pub from: usize,
    /// The cluster that grows.
    pub into: usize,
    /// The height of the merge in the tree, squared: twice the increase of the sum of squares.
    pub square: f64,
}

/// Ward's tree: n - 1 merges, in the order of their heights.
pub fn ward(mut squares: SquareDistances) -> Vec<Merge> {
    let n = squares.n;
    // Zero: merged into another.
    let mut sizes = vec![1.0; n];
    let mut merges = Vec::with_capacity(n);
    // Each cluster is followed by its nearest neighbour; at the end are two that are each other's.
    let mut chain: Vec<usize> = Vec::new();
    while merges.len() + 1 < n {
        let Some(&last) = chain.last() else {
            chain.extend(sizes.iter().position(|&size| size > 0.0));
            continue;
        };
        let previous = chain.len().checked_sub(2).map(|at| chain[at]);
        // Among equals the previous one counts: the chain cannot run in circles.
        let mut nearest = previous.map_or((last, f64::INFINITY), |other| (other, squares.get(last, other)));
        for other in (0..n).filter(|&other| sizes[other] > 0.0 && other != last) {
            let square = squares.get(last, other);
            if square < nearest.1 {
                nearest = (other, square);
            }
        }
        if Some(nearest.0) != previous {
            chain.push(nearest.0);
            continue;
        }
        chain.truncate(chain.len() - 2);
        let (from, into) = (last.min(nearest.0), last.max(nearest.0));
        merge(&mut squares, &mut sizes, from, into);
        merges.push(Merge { from, into, square: nearest.1 });
    }
    merges.sort_by(|a, b| a.square.total_cmp(&b.square));
    merges
}

/// Distances of the union of two clusters, by the formula of Lance and Williams for Ward's method.
fn merge(squares: &mut SquareDistances, sizes: &mut [f64], from: usize, into: usize) {
    let (a, b, between) = (sizes[from], sizes[into], squares.get(from, into));
    sizes[from] = 0.0;
    for other in (0..sizes.len()).filter(|&other| other != into) {
        let c = sizes[other];
        if c > 0.0 {
            let index = squares.index(into, other);
            let (to_a, to_b) = (squares.get(from, other), squares.values[index]);
            squares.values[index] = ((a + c) * to_a + (b + c) * to_b - c * between) / (a + b + c);
        }
    }
    sizes[into] = a + b;
}

/// The cluster of each row after all but the last K - 1 merges, and half the mean squared distance inside each.
pub fn cut(merges: &[Merge], n_rows: usize, n_clusters: usize) -> (Vec<u32>, Vec<f64>) {
    let kept = &merges[..n_rows - n_clusters];
    let mut parents: Vec<usize> = (0..n_rows).collect();
    kept.iter().for_each(|merge| parents[merge.from] = merge.into);
    let root = |mut row: usize| {
        while parents[row] != row {
            row = parents[row];
        }
        row
    };
    let mut numbers = HashMap::new();
    let mut clusters = Vec::with_capacity(n_rows);
    for row in 0..n_rows {
        let next = numbers.len() as u32;
        clusters.push(*numbers.entry(root(row)).or_insert(next));
    }
    let mut sizes = vec![0.0; n_clusters];
    clusters.iter().for_each(|&cluster| sizes[cluster as usize] += 1.0);
    let mut within = vec![0.0; n_clusters];
    for merge in kept {
        let cluster = clusters[merge.into] as usize;
        within[cluster] += 0.5 * merge.square / sizes[cluster];
    }
    (clusters, within)
}
