//! The columns that tell each cluster from the other rows.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::moments::{Moments, moments};
use super::ranks::all_auc;
use super::{ColumnTexts, Distinction, details};
use crate::data::{Dataset, Values};

/// Tables with at least so many columns may be tables of terms.
const TERM_COLUMNS: usize = 64;

/// Rows with their clusters, and the moments of every column in each.
pub(super) struct Clusters<'a> {
    pub(super) data: &'a Dataset<'a>,
    /// Cluster of each row; rows of no cluster, which have K or more, are left out.
    pub(super) of_rows: &'a [u32],
    /// Number of clusters, K.
    pub(super) k: usize,
    sizes: Vec<usize>,
    /// `[D, K]`
    moments: Vec<Moments>,
}

/// A part of the rows in one column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Observed cells.
    pub(super) n: f64,
    /// Cells above zero.
    pub(super) above: f64,
    pub(super) mean: f64,
}

/// A column, or a level of one, that may tell a cluster from the other rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) column: usize,
    pub(super) level: Option<usize>,
    pub(super) difference: f64,
    pub(super) auc: f64,
}

impl Candidate {
    /// How much it tells: the distance of the AUC from chance, then that of the means.
    fn strength(&self) -> (f64, f64) {
        ((self.auc - 0.5).abs(), self.difference.abs())
    }

    fn is_telling(&self) -> bool {
        let (auc, difference) = self.strength();
        auc + difference > 0.0
    }
}

impl<'a> Clusters<'a> {
    pub(super) fn new(data: &'a Dataset<'a>, of_rows: &'a [u32], k: usize) -> Self {
        let mut sizes = vec![0; k];
        of_rows.iter().filter(|&&cluster| (cluster as usize) < k).for_each(|&c| sizes[c as usize] += 1);
        Self { data, of_rows, k, sizes, moments: moments(data, of_rows, k) }
    }

    /// Number of rows of all clusters.
    fn n_rows(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// Number of rows of each cluster. `[K]`
    pub(super) fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The mean of each column over the rows of a cluster; zero where there are none. `[D]`
    pub(super) fn mean_row(&self, cluster: usize) -> Vec<f32> {
        let of_column = |j: usize| {
            let own = &self.moments[j * self.k + cluster];
            (own.sum / (self.sizes[cluster] - own.missing).max(1) as f64) as f32
        };
        (0..self.data.n_columns()).map(of_column).collect()
    }

    /// A column inside and outside a cluster.
    pub(super) fn parts(&self, column: usize, cluster: usize) -> [Part; 2] {
        let own = self.moments[column * self.k + cluster];
        let all = self.whole(column);
        let part = |n: usize, above: usize, sum: f64| Part {
            n: n as f64,
            above: above as f64,
            mean: sum / n as f64,
        };
        let (n, n_all) = (self.sizes[cluster] - own.missing, self.n_rows() - all.missing);
        [part(n, own.above, own.sum), part(n_all - n, all.above - own.above, all.sum - own.sum)]
    }

    /// Whether a column is one of many terms or counts: most of its observed cells are zero and none is below. The columns
    /// of narrow tables have room for histograms.
    pub(super) fn is_term(&self, column: usize) -> bool {
        let is_wide = self.data.n_columns() >= TERM_COLUMNS || matches!(self.data.values(), Values::Csr(_));
        let all = self.whole(column);
        is_wide && all.below == 0 && 2 * all.above < self.n_rows() - all.missing
    }

    fn whole(&self, column: usize) -> Moments {
        let each = &self.moments[column * self.k..(column + 1) * self.k];
        each.iter().fold(Moments::default(), Moments::join)
    }

    /// Standard deviation of a column over all rows.
    fn deviation(&self, column: usize) -> f64 {
        let all = self.whole(column);
        let n = (self.n_rows() - all.missing) as f64;
        (all.squares / n - (all.sum / n).powi(2)).max(0.0).sqrt()
    }

    /// How often each level of a column occurs in each cluster. `[levels, K]`
    fn level_counts(&self, column: usize, n_levels: usize) -> Vec<usize> {
        let mut counts = vec![0; n_levels * self.k];
        for (row, &cluster) in self.of_rows.iter().enumerate() {
            let x = self.data.cell(row, column);
            if x >= 0.0 && (x as usize) < n_levels && (cluster as usize) < self.k {
                counts[x as usize * self.k + cluster as usize] += 1;
            }
        }
        counts
    }
}

/// How often each level of the columns without order occurs in each cluster, by column. `[levels, K]`
pub(super) type LevelCounts = BTreeMap<usize, Vec<usize>>;

/// The most telling columns of each cluster, at most `limit`.
pub(super) fn of_all(
    clusters: &Clusters<'_>,
    texts: &ColumnTexts,
    sample: &[u32],
    limit: usize,
) -> Vec<Vec<Distinction>> {
    let d = clusters.data.n_columns();
    let auc = all_auc(clusters.data, sample, clusters.of_rows, clusters.k);
    let unordered: Vec<usize> = (0..d).filter(|&j| texts.is_unordered(j)).collect();
    let counted = |&j: &usize| (j, clusters.level_counts(j, texts.levels(j).len()));
    let levels: LevelCounts = unordered.par_iter().map(counted).collect();
    let deviations: Vec<f64> = (0..d).map(|j| clusters.deviation(j)).collect();
    let chosen = (0..clusters.k).map(|cluster| {
        let of_column = |j: usize| match levels.get(&j) {
            Some(counts) => level_candidates(counts, clusters.k, j, cluster),
            None => {
                let [inside, outside] = clusters.parts(j, cluster);
                let difference = (inside.mean - outside.mean) / deviations[j];
                let (auc, level) = (auc[j * clusters.k + cluster], None);
                vec![Candidate { column: j, level, difference, auc }]
            }
        };
        let mut candidates: Vec<Candidate> =
            (0..d).flat_map(of_column).filter(Candidate::is_telling).collect();
        // The sort is stable: ties go to the first column.
        candidates
            .sort_by(|a, b| b.strength().partial_cmp(&a.strength()).unwrap_or(std::cmp::Ordering::Equal));
        candidates.truncate(limit);
        candidates
    });
    let chosen: Vec<Vec<Candidate>> = chosen.collect();
    details::of_all(clusters, texts, sample, &levels, &chosen)
}

/// One per level; of two levels only the one that is more frequent in the cluster, as it says the same as the other.
fn level_candidates(counts: &[usize], k: usize, column: usize, cluster: usize) -> Vec<Candidate> {
    let inside: usize = counts.iter().skip(cluster).step_by(k).sum();
    let total: usize = counts.iter().sum();
    let n_levels = counts.len() / k;
    let of_level = |level: usize| {
        let own = counts[level * k + cluster] as f64;
        let all: usize = counts[level * k..(level + 1) * k].iter().sum();
        let (in_share, out_share) = (own / inside as f64, (all as f64 - own) / (total - inside) as f64);
        let share = all as f64 / total as f64;
        let difference = (in_share - out_share) / (share * (1.0 - share)).sqrt();
        Candidate { column, level: Some(level), difference, auc: 0.5 + (in_share - out_share) / 2.0 }
    };
    let each = (0..n_levels).map(of_level);
    each.filter(|candidate| n_levels > 2 || candidate.difference > 0.0).collect()
}
