//! Agreement of two partitions of the same rows, from their contingency table.

use super::best_matching;
use crate::memory::{Need, product, require};
use crate::{Error, Result};

/// Contingency table: the number of rows that each part of one partition shares with each part of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contingency {
    /// The distinct values of the first partition. `[A]`
    pub first_values: Vec<u32>,
    /// The distinct values of the second. `[B]`
    pub second_values: Vec<u32>,
    /// Rows with the respective pair of values. `[A, B]`
    pub counts: Vec<u64>,
    /// N
    pub n_rows: u64,
}

impl Contingency {
    /// Counts the pairs; the values of each partition are sorted.
    ///
    /// # Shapes
    /// - first, second: `[N]`
    pub fn new(first: &[u32], second: &[u32]) -> Result<Self> {
        if first.is_empty() {
            return Err(Error::data("labels", "there are no rows to score"));
        }
        if first.len() != second.len() {
            let problem = format!("{} labels cannot score {} rows", second.len(), first.len());
            return Err(Error::data("labels", problem));
        }
        let (first_values, second_values) = (distinct(first), distinct(second));
        let [rows, columns] = [first_values.len(), second_values.len()];
        // One table of counts, and one of signed counts for the search of the best matching.
        let need = Need::of("", product(&[2, rows, columns, size_of::<u64>()]));
        let what = format!("a table of {rows} x {columns} pairs of labels and clusters");
        require(&what, &need, "check that the labels are classes, not the names of single rows")?;
        let mut counts = vec![0; first_values.len() * second_values.len()];
        for (a, b) in first.iter().zip(second) {
            let (Ok(a), Ok(b)) = (first_values.binary_search(a), second_values.binary_search(b)) else {
                unreachable!("every value was listed");
            };
            counts[a * second_values.len() + b] += 1;
        }
        Ok(Self { first_values, second_values, counts, n_rows: first.len() as u64 })
    }

    /// Fraction of rows on the best one-to-one matching of the two partitions' values.
    pub fn accuracy(&self) -> f64 {
        let matched: u64 = self
            .matching()
            .iter()
            .enumerate()
            .filter_map(|(a, b)| b.map(|b| self.counts[a * self.second_values.len() + b]))
            .sum();
        matched as f64 / self.n_rows as f64
    }

    /// The index in `second_values` matched to each of `first_values`, with the most rows matched; `None` for values
    /// left over if the second partition has fewer. `[A]`
    pub fn matching(&self) -> Vec<Option<usize>> {
        let counts: Vec<i64> = self.counts.iter().map(|&count| count as i64).collect();
        best_matching(&counts, self.first_values.len(), self.second_values.len())
    }

    /// Normalised mutual information: mutual information over the arithmetic mean of the entropies, within [0, 1]; one
    /// if both partitions have a single part.
    pub fn nmi(&self) -> f64 {
        let (firsts, seconds) = self.sums();
        if firsts.len() == 1 && seconds.len() == 1 {
            return 1.0;
        }
        let n = self.n_rows as f64;
        let mut information = 0.0;
        for (index, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (a, b) = (firsts[index / seconds.len()], seconds[index % seconds.len()]);
            information +=
                count as f64 / n * ((count as f64).ln() + n.ln() - (a as f64).ln() - (b as f64).ln());
        }
        // Rounding leaves a trace if there is nothing in common.
        if information < f64::EPSILON {
            return 0.0;
        }
        (information / (0.5 * (entropy(&firsts) + entropy(&seconds)))).min(1.0)
    }

    /// Adjusted Rand index (Hubert and Arabie, 1985): one for equal partitions, zero on average for
    /// independent ones.
    pub fn ari(&self) -> f64 {
        let pairs = |counts: &[u64]| counts.iter().map(|&count| pairs_of(count)).sum::<f64>();
        let (firsts, seconds) = self.sums();
        let (in_both, in_first, in_second) = (pairs(&self.counts), pairs(&firsts), pairs(&seconds));
        if in_both == in_first && in_both == in_second {
            return 1.0;
        }
        let expected = in_first * in_second / pairs_of(self.n_rows);
        (in_both - expected) / (0.5 * (in_first + in_second) - expected)
    }

    /// The same table with the second partition's values in the order of the first's that they are matched to,
    /// unmatched ones last. If the second has at least as many values as the first, the matched rows are on the
    /// diagonal.
    pub fn matched(&self) -> Self {
        let n_second = self.second_values.len();
        let mut order: Vec<usize> = self.matching().into_iter().flatten().collect();
        order.extend((0..n_second).filter(|b| !order.contains(b)).collect::<Vec<_>>());
        let counts =
            self.counts.chunks_exact(n_second).flat_map(|row| order.iter().map(|&b| row[b])).collect();
        let second_values = order.iter().map(|&b| self.second_values[b]).collect();
        Self { second_values, counts, ..self.clone() }
    }

    /// Marginals: rows of each value of the first partition, and of the second.
    fn sums(&self) -> (Vec<u64>, Vec<u64>) {
        let n_second = self.second_values.len();
        let firsts = self.counts.chunks_exact(n_second).map(|row| row.iter().sum()).collect();
        let seconds = (0..n_second).map(|b| self.counts.iter().skip(b).step_by(n_second).sum()).collect();
        (firsts, seconds)
    }
}

/// Clustering accuracy: the fraction of rows on the best one-to-one matching of clusters and labels.
///
/// # Shapes
/// - clusters, labels: `[N]`
pub fn accuracy(clusters: &[u32], labels: &[u32]) -> Result<f64> {
    Ok(Contingency::new(clusters, labels)?.accuracy())
}

/// Normalised mutual information, see [`Contingency::nmi`].
///
/// # Shapes
/// - clusters, labels: `[N]`
pub fn nmi(clusters: &[u32], labels: &[u32]) -> Result<f64> {
    Ok(Contingency::new(clusters, labels)?.nmi())
}

/// Adjusted Rand index, see [`Contingency::ari`].
///
/// # Shapes
/// - clusters, labels: `[N]`
pub fn ari(clusters: &[u32], labels: &[u32]) -> Result<f64> {
    Ok(Contingency::new(clusters, labels)?.ari())
}

/// Confusion matrix of labels and clusters, the clusters in the order of the labels matched to them, see
/// [`Contingency::matched`].
///
/// # Shapes
/// - clusters, labels: `[N]`; the table's first values are labels, its second values clusters
pub fn confusion(clusters: &[u32], labels: &[u32]) -> Result<Contingency> {
    Ok(Contingency::new(labels, clusters)?.matched())
}

/// Entropy in nats of the distribution proportional to `counts`.
pub(super) fn entropy(counts: &[u64]) -> f64 {
    let total = counts.iter().sum::<u64>() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(|&count| count as f64 / total);
    shares.map(|share| -share * share.ln()).sum()
}

fn pairs_of(count: u64) -> f64 {
    count as f64 * (count as f64 - 1.0) / 2.0
}

fn distinct(values: &[u32]) -> Vec<u32> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    values
}
