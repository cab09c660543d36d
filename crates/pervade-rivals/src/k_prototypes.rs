//! k-prototypes: k-means for tables of numbers and categories.
//!
//! Paper: Huang, "Extensions to the k-means algorithm for clustering large data sets with categorical values" (1998).
//! A prototype has the mean of its rows in each numeric column and their most frequent level in each category; a row
//! belongs to the prototype with the least |x - mean|² + gamma (number of levels that differ), equation 2.9. Gamma is
//! half the mean standard deviation of the numeric columns, as in the package `kmodes`; a table of categories
//! alone has gamma 1 (k-modes), and one of numbers alone is clustered by k-means.
//! Departures: all rows are assigned before the prototypes move (Lloyd's iterations), where the paper moves two prototypes
//! after each row: the result does not depend on the order of the rows. Starts are rows drawn by their distance from the
//! earlier ones, as in k-means++; the best of ten by the sum of distances is kept. An empty cluster moves to the row
//! farthest from its prototype.
//! Missing numbers are at the column's mean, a missing level is a level of its own.
//! Expected: the paper has no data set of ours.

use pervade::compute::Device;
use pervade::data::{Dataset, Preparation};
use pervade::memory::{Need, product, require};
use pervade::seed::{Key, Stream};
use pervade::train::Observer;
use pervade::{Clusterer, Clustering, Result};
use rayon::prelude::*;

use crate::mixed::{MISSING, MixedRow, MixedRows};
use crate::rows::{check_rows, preparation};

/// Partial sums of a squared distance, always added in the same order.
const LANES: usize = 8;

/// k-prototypes with its settings.
#[derive(Clone, Debug)]
pub struct KPrototypes {
    /// The number of clusters, K.
    pub n_clusters: usize,
    /// The number of starts, of which the best is kept.
    pub starts: usize,
    /// The weight of a level that differs; `None`: half the mean standard deviation of the numeric columns.
    pub gamma: Option<f64>,
    /// The maximum number of iterations per start.
    pub max_iterations: usize,
}

impl Default for KPrototypes {
    fn default() -> Self {
        Self { n_clusters: 10, starts: 10, gamma: None, max_iterations: 100 }
    }
}

impl<D: Device> Clusterer<D> for KPrototypes {
    fn name(&self) -> &'static str {
        "k-prototypes"
    }

    fn cluster(
        &self,
        data: &Dataset,
        _device: &D,
        seed: u64,
        _observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        check_rows(data, self.n_clusters, 1)?;
        let preparation = preparation(data)?;
        let distances = product(&[2, data.n_rows(), size_of::<(u32, f64)>()]);
        let centres = product(&[3, self.n_clusters, preparation.n_columns(), size_of::<f64>()]);
        let need = Need::of("distances", distances).and("prototypes", centres);
        require("k-prototypes", &need, "ask for fewer clusters, or give fewer rows")?;
        let rows = filled(MixedRows::of(data, &preparation)?);
        let prototypes = self.fit(&rows, seed).prototypes;
        Ok(Box::new(ByPrototype { preparation, prototypes }))
    }
}

impl KPrototypes {
    /// The best of several starts, on rows without missing numbers.
    pub(crate) fn fit(&self, rows: &MixedRows, seed: u64) -> PrototypesFit {
        let gamma = self.gamma.unwrap_or_else(|| default_gamma(rows));
        let key = Key::new(seed, Stream::Mixture, 0);
        let fit = |start| {
            Prototypes::start(rows, self.n_clusters, gamma, key, start).run(rows, self.max_iterations)
        };
        let mut best = fit(0);
        for start in 1..self.starts {
            let next = fit(start);
            if next.cost < best.cost {
                best = next;
            }
        }
        best
    }
}

/// The rows with missing numbers at zero, which is the mean of the prepared columns of a table with gaps.
pub(crate) fn filled(mut rows: MixedRows) -> MixedRows {
    rows.numbers.iter_mut().filter(|x| x.is_nan()).for_each(|x| *x = 0.0);
    rows
}

/// Half the mean standard deviation of the numeric columns, or one without any.
pub(crate) fn default_gamma(rows: &MixedRows) -> f64 {
    let (n, p) = (rows.n_rows as f64, rows.n_numbers);
    if p == 0 {
        return 1.0;
    }
    let mut means = vec![0.0; p];
    rows.numbers.iter().enumerate().for_each(|(i, &x)| means[i % p] += f64::from(x) / n);
    let mut variances = vec![0.0; p];
    let centred = rows.numbers.iter().enumerate().map(|(i, &x)| (i % p, f64::from(x) - means[i % p]));
    centred.for_each(|(j, x)| variances[j] += x * x / n);
    0.5 * variances.iter().map(|variance| variance.sqrt()).sum::<f64>() / p as f64
}

/// The prototypes of K clusters.
#[derive(Clone, Debug)]
pub(crate) struct Prototypes {
    pub(crate) n_clusters: usize,
    pub(crate) gamma: f64,
    /// `[K, P]`
    pub(crate) numbers: Vec<f64>,
    /// `[K, Q]`
    pub(crate) codes: Vec<u32>,
}

/// The result of one start.
pub(crate) struct PrototypesFit {
    pub(crate) prototypes: Prototypes,
    /// The sum of the rows' distances from their prototypes.
    pub(crate) cost: f64,
}

impl Prototypes {
    /// Prototypes at K rows: the first is uniform, each other is drawn with a probability proportional to its distance
    /// from the nearest of those before.
    fn start(rows: &MixedRows, n_clusters: usize, gamma: f64, key: Key, start: usize) -> Self {
        let mut prototypes = Self { n_clusters: 0, gamma, numbers: Vec::new(), codes: Vec::new() };
        let mut distances = vec![f64::INFINITY; rows.n_rows];
        let mut chosen = key.index(rows.n_rows, start as u64, 0, 0);
        loop {
            let last = prototypes.n_clusters;
            let row = rows.row(chosen);
            prototypes.numbers.extend(row.numbers.iter().map(|&x| f64::from(x)));
            prototypes.codes.extend(row.codes);
            prototypes.n_clusters += 1;
            if prototypes.n_clusters == n_clusters {
                return prototypes;
            }
            distances.par_iter_mut().enumerate().for_each(|(i, least)| {
                *least = least.min(prototypes.distance(last, rows.row(i)));
            });
            let total: f64 = distances.iter().sum();
            let mut rest = total * key.uniform(start as u64, prototypes.n_clusters as u32, 0);
            // Rounding, or rows that all equal a prototype, leave the last row.
            chosen = rows.n_rows - 1;
            for (i, distance) in distances.iter().enumerate() {
                rest -= distance;
                if rest < 0.0 {
                    chosen = i;
                    break;
                }
            }
        }
    }

    /// Assigns rows and moves prototypes until no row changes its cluster.
    pub(crate) fn run(mut self, rows: &MixedRows, max_iterations: usize) -> PrototypesFit {
        let mut clusters = Vec::new();
        for iteration in 0.. {
            let nearest = self.nearest(rows);
            let cost = nearest.iter().map(|near| near.1).sum();
            let before = std::mem::replace(&mut clusters, nearest.iter().map(|near| near.0).collect());
            if clusters == before || iteration == max_iterations {
                return PrototypesFit { prototypes: self, cost };
            }
            self.update(rows, &nearest);
        }
        unreachable!("the loop ends at the maximum number of iterations")
    }

    /// The nearest prototype of each row and its distance; ties go to the first.
    pub(crate) fn nearest(&self, rows: &MixedRows) -> Vec<(u32, f64)> {
        let of_row = |i| {
            let mut best = (0, f64::INFINITY);
            for m in 0..self.n_clusters {
                let distance = self.distance(m, rows.row(i));
                if distance < best.1 {
                    best = (m as u32, distance);
                }
            }
            best
        };
        (0..rows.n_rows).into_par_iter().with_min_len(64).map(of_row).collect()
    }

    /// |x - mean|² + gamma (number of levels that differ).
    fn distance(&self, m: usize, row: MixedRow<'_>) -> f64 {
        let (p, q) = (row.numbers.len(), row.codes.len());
        let mut sums = [0.0; LANES];
        for (x, mean) in row.numbers.chunks(LANES).zip(self.numbers[m * p..(m + 1) * p].chunks(LANES)) {
            for ((sum, &x), mean) in sums.iter_mut().zip(x).zip(mean) {
                let difference = f64::from(x) - mean;
                *sum += difference * difference;
            }
        }
        let codes = row.codes.iter().zip(&self.codes[m * q..(m + 1) * q]);
        let mismatches = codes.filter(|(code, mode)| code != mode).count();
        sums.iter().sum::<f64>() + self.gamma * mismatches as f64
    }

    /// Moves each prototype to the means and the most frequent levels of its rows (ties go to the lower level), an empty
    /// one to the row farthest from its prototype.
    fn update(&mut self, rows: &MixedRows, nearest: &[(u32, f64)]) {
        let (k, p) = (self.n_clusters, rows.n_numbers);
        let mut sizes = vec![0usize; k];
        let mut sums = vec![0.0; k * p];
        for (i, &(cluster, _)) in nearest.iter().enumerate() {
            let cluster = cluster as usize;
            sizes[cluster] += 1;
            let sums = &mut sums[cluster * p..(cluster + 1) * p];
            sums.iter_mut().zip(rows.row(i).numbers).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        for m in (0..k).filter(|&m| sizes[m] > 0) {
            for j in m * p..(m + 1) * p {
                self.numbers[j] = sums[j] / sizes[m] as f64;
            }
        }
        for column in 0..rows.n_categories {
            self.update_modes(rows, nearest, column, &sizes);
        }
        let mut distances: Vec<f64> = nearest.iter().map(|near| near.1).collect();
        for m in (0..k).filter(|&m| sizes[m] == 0) {
            let farthest =
                (1..rows.n_rows).fold(0, |best, i| if distances[i] > distances[best] { i } else { best });
            // Rows that equal their prototype stay, so that repeated rows do not prevent convergence.
            if distances[farthest] > 0.0 {
                self.set(m, rows.row(farthest));
                distances[farthest] = 0.0;
            }
        }
    }

    fn set(&mut self, m: usize, row: MixedRow<'_>) {
        let (p, q) = (row.numbers.len(), row.codes.len());
        self.numbers[m * p..(m + 1) * p]
            .iter_mut()
            .zip(row.numbers)
            .for_each(|(mean, &x)| *mean = f64::from(x));
        self.codes[m * q..(m + 1) * q].copy_from_slice(row.codes);
    }

    /// The most frequent level of one category in each cluster that has rows.
    fn update_modes(&mut self, rows: &MixedRows, nearest: &[(u32, f64)], column: usize, sizes: &[usize]) {
        let q = rows.n_categories;
        let codes = || rows.codes[column..].iter().step_by(q).copied();
        // The last count is that of missing levels.
        let n_levels = codes().filter(|&code| code != MISSING).max().map_or(0, |code| code as usize + 1);
        let mut counts = vec![0usize; sizes.len() * (n_levels + 1)];
        for (code, &(cluster, _)) in codes().zip(nearest) {
            counts[cluster as usize * (n_levels + 1) + (code as usize).min(n_levels)] += 1;
        }
        for (m, counts) in counts.chunks_exact(n_levels + 1).enumerate().filter(|(m, _)| sizes[*m] > 0) {
            let mode = (1..counts.len())
                .fold(0, |best, level| if counts[level] > counts[best] { level } else { best });
            self.codes[m * q + column] = if mode == n_levels { MISSING } else { mode as u32 };
        }
    }
}

/// Each row belongs to its nearest prototype.
struct ByPrototype {
    preparation: Preparation,
    prototypes: Prototypes,
}

impl<D: Device> Clustering<D> for ByPrototype {
    fn n_clusters(&self) -> usize {
        self.prototypes.n_clusters
    }

    fn assign(&self, _device: &D, data: &Dataset) -> Result<Vec<u32>> {
        self.preparation.check_columns(data)?;
        let rows = filled(MixedRows::of(data, &self.preparation)?);
        Ok(self.prototypes.nearest(&rows).into_iter().map(|near| near.0).collect())
    }

    fn embed(&self, _device: &D, _data: &Dataset) -> Result<Option<Vec<f32>>> {
        Ok(None)
    }
}
