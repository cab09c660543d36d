//! Methods without networks on the rows of a small table: Gaussian mixtures and, where their density means nothing, k-means.
//! Where one of them describes the rows better than the networks' own clusters do, the model is trained towards its clusters.
//!
//! Modularity on the neighbour graph of the rows comes first. It does not see small differences: on iris, k-means has 0.603
//! and ARI 0.62, a mixture with full covariances 0.588 and ARI 0.90. Where it sees none, the mixture with the lowest BIC and
//! the networks' clusters are compared by how well flexible densities, one per cluster, describe the rows. A mixture's
//! own likelihood would not do: it says nothing about curved clusters, which networks find and a mixture cuts.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::compute::Device;
use crate::graph::PreparedGraph;
use crate::interrupt::Interrupt;
use crate::metrics::ari;
use crate::mixture::{Covariance, FullMixture, KMeansFit, kmeans, mean_variance};
use crate::seed::{Key, Stream};

/// The largest number of rows.
const MAX_ROWS: usize = 5_000;
/// Products that the fits of one kind of mixture may take: seconds on two cores.
const MAX_PRODUCTS: f64 = 2e10;
/// No column of a table for mixtures has one value in more than this share of its rows: a Gaussian on a repeated value can be
/// as narrow as it likes. (Biopsy, marks from 1 to 10: the likeliest mixture has ARI 0.55, Ward's method 0.86.)
const MOST_REPEATED: f64 = 1.0 / 3.0;
/// K-means starts; of each kind of mixture the most likely one is kept.
const N_STARTS: usize = 5;
/// Not the index of a restart, nor of the sample of the prepared rows.
const PLAIN: usize = u32::MAX as usize - 1;
/// Added to each variance, as a fraction of the mean one.
const RIDGE: f64 = 1e-4;
/// Iterations of EM at most, and the gain below which it stops earlier.
const ITERATIONS: usize = 200;
const TOLERANCE: f64 = 1e-5;
/// Differences in modularity below this are no evidence.
const TIE: f64 = 0.03;
/// K-means must be so much above the networks' clusters: it has no likelihood to speak for it.
const NOTABLE: f64 = 0.005;
/// Clusters that agree with the networks' own by at least this ARI are the same answer.
const SAME: f64 = 0.98;
/// Components of the densities that describe one cluster, at most, and rows for each, at least.
const MOST_PARTS: usize = 4;
const PART_ROWS: usize = 10;

/// What is known of the method whose clusters a model was trained towards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PlainSummary {
    /// The form of a mixture's covariances; none for k-means.
    pub covariance: Option<Covariance>,
    /// Half the BIC of a mixture per row, in nats; lower is better.
    pub bic: Option<f64>,
    /// Modularity of its clusters on the neighbour graph of the prepared rows.
    pub modularity: f64,
    /// The same of the clusters that the networks had found.
    pub own_modularity: f64,
}

impl PlainSummary {
    /// A sentence for the user, without a full stop.
    pub fn remark(&self) -> String {
        let method = match self.covariance {
            Some(Covariance::Diagonal) => "a Gaussian mixture with diagonal covariances",
            Some(Covariance::Tied) => "a Gaussian mixture with one covariance for all clusters",
            Some(Covariance::Full) => "a Gaussian mixture with full covariances",
            None => "k-means",
        };
        format!(
            "the clusters are those of {method} on the rows, which describes this small table better; the networks were \
             trained towards them (modularity on the graph of the rows {:.3}, of the networks' own clusters {:.3})",
            self.modularity, self.own_modularity
        )
    }
}

/// Clusters that are to be preferred to the networks' `own`, if any.
pub(crate) fn preferred<D: Device>(
    device: &D,
    judge: &PreparedGraph,
    own: &[u32],
    interrupt: Interrupt<'_>,
) -> Result<Option<(Vec<u32>, PlainSummary)>> {
    let n_clusters = own.iter().max().map_or(0, |&last| last as usize + 1);
    if own.len() > MAX_ROWS || judge.graph.rows.len() != own.len() || n_clusters < 2 {
        return Ok(None);
    }
    let own_modularity = judge.modularity(own)?;
    let plain = Plain::new(device, judge, n_clusters)?;
    let summary = |modularity| PlainSummary { covariance: None, bic: None, modularity, own_modularity };
    if !plain.is_continuous() {
        let clusters = plain.kmeans_clusters();
        let modularity = judge.modularity(&clusters)?;
        return Ok((modularity >= own_modularity + NOTABLE).then(|| (clusters, summary(modularity))));
    }
    let mut candidates = Vec::new();
    for covariance in [Covariance::Diagonal, Covariance::Tied, Covariance::Full] {
        if let Some((bic, clusters)) = plain.mixture(covariance, interrupt)? {
            let modularity = judge.modularity(&clusters)?;
            candidates.push((bic, covariance, modularity, clusters));
        }
    }
    let highest = candidates.iter().map(|c| c.2).fold(own_modularity, f64::max);
    let close = candidates.into_iter().filter(|c| c.2 >= highest - TIE);
    let Some((bic, covariance, modularity, clusters)) = close.min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return Ok(None);
    };
    if ari(&clusters, own)? >= SAME {
        return Ok(None);
    }
    let is_own_close = own_modularity >= highest - TIE;
    if is_own_close && plain.description(own, interrupt)? >= plain.description(&clusters, interrupt)? {
        return Ok(None);
    }
    let summary = PlainSummary { covariance: Some(covariance), bic: Some(bic), modularity, own_modularity };
    Ok(Some((clusters, summary)))
}

/// The prepared rows, and k-means starts on them.
struct Plain<'a, D: Device> {
    device: &'a D,
    /// `[N, D]`
    rows: &'a [f32],
    d: usize,
    k: usize,
    ridge: f64,
    key: Key,
    starts: Vec<KMeansFit>,
}

impl<'a, D: Device> Plain<'a, D> {
    fn new(device: &'a D, judge: &'a PreparedGraph, k: usize) -> Result<Self> {
        let (rows, d) = (judge.rows(), judge.n_columns());
        let key = Key::new(judge.seed(), Stream::Mixture, PLAIN);
        let starts = (0..N_STARTS).map(|start| kmeans(device, rows, d, k, key, start));
        let starts = starts.collect::<Result<_>>()?;
        Ok(Self { device, rows, d, k, ridge: RIDGE * mean_variance(rows, d), key, starts })
    }

    fn n_rows(&self) -> usize {
        self.rows.len() / self.d
    }

    /// The clusters of the start with the least sum of squares.
    fn kmeans_clusters(&self) -> Vec<u32> {
        let best = self.starts.iter().min_by(|a, b| a.inertia.total_cmp(&b.inertia));
        best.map_or_else(Vec::new, |fit| fit.assignment.clone())
    }

    /// Whether densities can be compared.
    fn is_continuous(&self) -> bool {
        let most = MOST_REPEATED * self.n_rows() as f64;
        (0..self.d).all(|j| {
            let mut values: Vec<f32> = self.rows[j..].iter().step_by(self.d).copied().collect();
            values.sort_by(f32::total_cmp);
            let longest = values.chunk_by(|a, b| a == b).map(<[f32]>::len).max().unwrap_or(0);
            longest == values.len() || longest as f64 <= most
        })
    }

    /// Half the BIC per row and the clusters of the most likely mixture; none if there is no time for it, all covariances are
    /// singular, or a component has hardly any rows.
    fn mixture(&self, covariance: Covariance, interrupt: Interrupt<'_>) -> Result<Option<(f64, Vec<u32>)>> {
        let n_starts = affordable(self.n_rows(), self.k, self.d).min(N_STARTS);
        let mut best: Option<(f64, FullMixture)> = None;
        for start in &self.starts[..n_starts] {
            interrupt()?;
            let fitted = self.fit(self.rows, self.k, &start.assignment, covariance);
            if let Some((log_likelihood, mixture)) = fitted
                && best.as_ref().is_none_or(|(highest, _)| log_likelihood > *highest)
            {
                best = Some((log_likelihood, mixture));
            }
        }
        let Some((log_likelihood, mixture)) = best else { return Ok(None) };
        let k = self.k;
        let argmax = |row: &[f64]| (1..k).fold(0, |best, m| if row[m] > row[best] { m } else { best }) as u32;
        let clusters: Vec<u32> = mixture.log_joint(self.rows).chunks_exact(k).map(argmax).collect();
        let least = (0..k as u32).map(|m| clusters.iter().filter(|&&c| c == m).count()).min().unwrap_or(0);
        let bic = -penalised(log_likelihood, covariance.n_parameters(k, self.d), self.n_rows());
        Ok((least > 1).then_some((bic, clusters)))
    }

    /// EM from hard assignments: mean log density and mixture; none if a covariance is singular.
    fn fit(
        &self,
        rows: &[f32],
        k: usize,
        start: &[u32],
        covariance: Covariance,
    ) -> Option<(f64, FullMixture)> {
        let mut gamma = vec![0.0; start.len() * k];
        for (row, &cluster) in gamma.chunks_exact_mut(k).zip(start) {
            row[cluster as usize] = 1.0;
        }
        let start = FullMixture::m_step(rows, self.d, &gamma, k, covariance, self.ridge, None).ok()?;
        let (mixture, mean) = start.run_em(rows, ITERATIONS, TOLERANCE, covariance, self.ridge).ok()?;
        Some((mean, mixture))
    }

    /// Mean log density of rows and clusters, in nats per row, if each cluster has a mixture of its own with as many
    /// components, and as full covariances, as Schwarz's criterion allows.
    fn description(&self, clusters: &[u32], interrupt: Interrupt<'_>) -> Result<f64> {
        let n = self.n_rows() as f64;
        let mut total = 0.0;
        for cluster in 0..=clusters.iter().copied().max().unwrap_or(0) {
            interrupt()?;
            let members = self.rows.chunks_exact(self.d).zip(clusters).filter(|(_, at)| **at == cluster);
            let rows: Vec<f32> = members.flat_map(|(row, _)| row).copied().collect();
            let n_members = (rows.len() / self.d) as f64;
            if n_members > 0.0 {
                total += n_members * (self.cluster_density(&rows)? + (n_members / n).ln());
            }
        }
        Ok(total / n)
    }

    /// Mean log density of the rows of one cluster, less the penalty.
    fn cluster_density(&self, rows: &[f32]) -> Result<f64> {
        let n = rows.len() / self.d;
        let mut best = f64::NEG_INFINITY;
        for parts in 1..=(n / PART_ROWS).clamp(1, MOST_PARTS) {
            let start = kmeans(self.device, rows, self.d, parts, self.key, 0)?.assignment;
            for covariance in [Covariance::Diagonal, Covariance::Full] {
                if affordable(n, parts, self.d) == 0 {
                    continue;
                }
                if let Some((mean, _)) = self.fit(rows, parts, &start, covariance) {
                    best = best.max(penalised(mean, covariance.n_parameters(parts, self.d), n));
                }
            }
        }
        Ok(best)
    }
}

/// How many fits of a mixture there is time for.
fn affordable(n_rows: usize, k: usize, d: usize) -> usize {
    let one = 2.0 * (n_rows * k) as f64 * (d * d) as f64 * ITERATIONS as f64;
    (MAX_PRODUCTS / one.max(1.0)) as usize
}

/// A mean log likelihood less Schwarz's penalty, in nats per row: -BIC / 2N.
fn penalised(log_likelihood: f64, n_parameters: usize, n_rows: usize) -> f64 {
    let n = n_rows as f64;
    log_likelihood - 0.5 * n_parameters as f64 * n.ln() / n
}
