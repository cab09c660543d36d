//! How well the ranks of a column's values separate each cluster from the other rows.

use std::ops::Range;

use rayon::prelude::*;

use super::moments::{column_blocks, for_each_cell};
use crate::data::Dataset;

/// The cells of a column in a sample of rows: those that are not zero, sorted, and the number of zeros per cluster, so
/// that a sparse column needs no more room than its entries.
pub(super) struct SortedColumn {
    /// Value and cluster, in increasing order.
    pub(super) nonzero: Vec<(f64, u32)>,
    /// Number of zeros per cluster. `[K]`
    pub(super) zeros: Vec<usize>,
}

impl SortedColumn {
    /// From the observed cells that are not zero; `n_observed` counts all observed cells per cluster.
    fn new(mut nonzero: Vec<(f64, u32)>, n_observed: &[usize]) -> Self {
        nonzero.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut zeros = n_observed.to_vec();
        nonzero.iter().for_each(|&(_, cluster)| zeros[cluster as usize] -= 1);
        Self { nonzero, zeros }
    }

    /// One column of some rows.
    pub(super) fn of(data: &Dataset, rows: &[u32], clusters: &[u32], k: usize, j: usize) -> Self {
        let (mut nonzero, mut n_observed) = (Vec::new(), vec![0; k]);
        for &row in rows {
            let (x, cluster) = (data.cell(row as usize, j), clusters[row as usize]);
            n_observed[cluster as usize] += usize::from(!x.is_nan());
            if x != 0.0 && !x.is_nan() {
                nonzero.push((x, cluster));
            }
        }
        Self::new(nonzero, &n_observed)
    }

    /// AUC of each cluster against the other rows, ties counting half; NaN if either has no observed cell. `[K]`
    pub(super) fn auc(&self) -> Vec<f64> {
        let mut sums = RankSums::new(self.zeros.len());
        let (negative, positive) = self.by_sign();
        let ties = |part: &[(f64, u32)], sums: &mut RankSums| {
            for group in part.chunk_by(|a, b| a.0 == b.0) {
                sums.add(group.len(), group.iter().map(|&(_, cluster)| (cluster as usize, 1)));
            }
        };
        ties(negative, &mut sums);
        sums.add(self.zeros.iter().sum(), self.zeros.iter().copied().enumerate());
        ties(positive, &mut sums);
        sums.auc()
    }

    fn by_sign(&self) -> (&[(f64, u32)], &[(f64, u32)]) {
        self.nonzero.split_at(self.nonzero.partition_point(|&(x, _)| x < 0.0))
    }

    /// The cells of the rows that `is_inside` chooses, in increasing order: value and count.
    pub(super) fn values(&self, is_inside: impl Fn(usize) -> bool) -> Vec<(f64, usize)> {
        let chosen = |&(x, cluster): &(f64, u32)| is_inside(cluster as usize).then_some((x, 1));
        let (negative, positive) = self.by_sign();
        let zeros = (0..self.zeros.len()).filter(|&k| is_inside(k)).map(|k| self.zeros[k]).sum();
        let zeros = (zeros > 0).then_some((0.0, zeros));
        negative.iter().filter_map(chosen).chain(zeros).chain(positive.iter().filter_map(chosen)).collect()
    }
}

/// Sums of the ranks of each cluster.
struct RankSums {
    n: Vec<usize>,
    ranks: Vec<f64>,
    before: usize,
}

impl RankSums {
    fn new(k: usize) -> Self {
        Self { n: vec![0; k], ranks: vec![0.0; k], before: 0 }
    }

    /// Adds `total` equal values, which all have their mean rank.
    fn add(&mut self, total: usize, counts: impl Iterator<Item = (usize, usize)>) {
        let rank = self.before as f64 + f64::midpoint(total as f64, 1.0);
        for (cluster, count) in counts {
            self.n[cluster] += count;
            self.ranks[cluster] += rank * count as f64;
        }
        self.before += total;
    }

    fn auc(&self) -> Vec<f64> {
        let auc = |(&n, &ranks): (&usize, &f64)| {
            let (inside, outside) = (n as f64, (self.before - n) as f64);
            (ranks - inside * (inside + 1.0) / 2.0) / (inside * outside)
        };
        self.n.iter().zip(&self.ranks).map(auc).collect()
    }
}

/// The value below which a share of the cells lies; it is always one of the cells. None if there are none.
pub(super) fn quantile(values: &[(f64, usize)], share: f64) -> Option<f64> {
    let n: usize = values.iter().map(|&(_, count)| count).sum();
    let wanted = (n.checked_sub(1)? as f64 * share) as usize;
    let mut seen = 0;
    let found = values.iter().find(|&&(_, count)| {
        seen += count;
        seen > wanted
    });
    found.map(|&(x, _)| x)
}

/// AUC of each column and cluster in a sample of rows. `[D, K]`
pub(super) fn all_auc(data: &Dataset, rows: &[u32], clusters: &[u32], k: usize) -> Vec<f64> {
    let mut sizes = vec![0; k];
    rows.iter().for_each(|&row| sizes[clusters[row as usize] as usize] += 1);
    let of_block = |block: Range<usize>| {
        let mut nonzero = vec![Vec::new(); block.len()];
        let mut n_observed = vec![sizes.clone(); block.len()];
        for &row in rows {
            let cluster = clusters[row as usize];
            for_each_cell(data, row as usize, &block, |j, x| {
                let j = j - block.start;
                if x.is_nan() {
                    n_observed[j][cluster as usize] -= 1;
                } else if x != 0.0 {
                    nonzero[j].push((x, cluster));
                }
            });
        }
        let columns = nonzero.into_iter().zip(n_observed);
        columns.flat_map(|(cells, n)| SortedColumn::new(cells, &n).auc()).collect::<Vec<f64>>()
    };
    column_blocks(data.n_columns()).into_par_iter().flat_map_iter(of_block).collect()
}
