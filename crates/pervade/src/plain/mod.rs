//! Methods without networks on the rows of a small table: Gaussian mixtures, k-means and Ward's tree.
//! Where one of them describes the rows better than the networks' own clusters do, the model is trained towards its clusters.
//!
//! Modularity on the neighbour graph of the rows comes first. It does not see small differences: on iris, k-means has 0.603
//! and ARI 0.62, a mixture with full covariances 0.588 and ARI 0.90. Where it sees none, the mixture with the lowest BIC and
//! the networks' clusters are compared by how well flexible densities, one per cluster, describe the rows. A mixture's
//! own likelihood would not do: it says nothing about curved clusters, which networks find and a mixture cuts. Where columns
//! repeat their values, densities mean nothing; of the clusterings with a high modularity, one that
//! agrees with the others is taken.

mod mixtures;
mod row_density;

use serde::{Deserialize, Serialize};

pub(crate) use mixtures::density_of_rows;
use mixtures::{affordable, fit_mixture, is_continuous, penalised, ridge};
pub(crate) use row_density::{COLUMNS_WEIGHT, RowDensity};

use crate::Result;
use crate::compute::Device;
use crate::graph::{PreparedGraph, SquareDistances, cut, ward};
use crate::interrupt::Interrupt;
use crate::metrics::ari;
use crate::mixture::{Covariance, FullMixture, KMeansFit, kmeans};
use crate::seed::{Key, Stream};

/// The largest number of rows.
pub(crate) const MAX_ROWS: usize = 5_000;
/// The same for Ward's tree, whose time and memory grow with the square of it.
const MAX_WARD_ROWS: usize = 2_000;
/// K-means starts; of each kind of mixture the most likely one is kept.
const N_STARTS: usize = 5;
/// Not the index of a restart, nor of the sample of the prepared rows.
const PLAIN: usize = u32::MAX as usize - 1;
/// Differences in modularity below this are no evidence.
const TIE: f64 = 0.04;
/// Differences in modularity below this are chance.
const NOTABLE: f64 = 0.005;
/// Clusters that agree with the networks' own by at least this ARI are the same answer.
const SAME: f64 = 0.98;
/// Components of the densities that describe one cluster, at most, and rows for each, at least.
const MOST_PARTS: usize = 4;
const PART_ROWS: usize = 10;

/// A clustering without networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PlainMethod {
    /// K-means.
    KMeans,
    /// Ward's hierarchical clustering.
    Ward,
    /// A Gaussian mixture with one variance per column.
    DiagonalMixture,
    /// A Gaussian mixture with one covariance matrix for all components.
    TiedMixture,
    /// A Gaussian mixture with one covariance matrix per component.
    FullMixture,
}

impl PlainMethod {
    fn of(covariance: Covariance) -> Self {
        match covariance {
            Covariance::Diagonal => PlainMethod::DiagonalMixture,
            Covariance::Tied => PlainMethod::TiedMixture,
            Covariance::Full => PlainMethod::FullMixture,
        }
    }

    /// Its name in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            PlainMethod::KMeans => "k-means",
            PlainMethod::Ward => "Ward's method",
            PlainMethod::DiagonalMixture => "a Gaussian mixture with diagonal covariances",
            PlainMethod::TiedMixture => "a Gaussian mixture with one covariance for all clusters",
            PlainMethod::FullMixture => "a Gaussian mixture with full covariances",
        }
    }
}

/// The networks' clusters of a small table, compared with those of plain methods on the rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PlainSummary {
    /// The method whose clusters the model was trained towards; none if the networks' own were kept.
    pub method: Option<PlainMethod>,
    /// Half the BIC of that mixture per row, in nats; lower is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bic: Option<f64>,
    /// Modularity of the chosen clusters on the neighbour graph of the prepared rows.
    pub modularity: f64,
    /// The same of the clusters that the networks had found.
    pub own_modularity: f64,
    /// Other methods whose clusters differ, with a modularity that is nearly as high or higher.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub close: Vec<CloseMethod>,
}

/// A method whose clusters could have been chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CloseMethod {
    /// The method.
    pub method: PlainMethod,
    /// Modularity of its clusters.
    pub modularity: f64,
    /// ARI of its clusters with the chosen ones.
    pub agreement: f64,
}

impl PlainSummary {
    /// Sentences for the user, without a full stop: which method was preferred, and which others were close.
    pub fn remarks(&self) -> Vec<String> {
        let preferred = self.method.map(|method| {
            format!(
                "the clusters are those of {} on the rows, which suit this small table better than the networks' own; the \
                 networks were trained towards them (modularity on the graph of the rows {:.3}, of the networks' own {:.3})",
                method.words(),
                self.modularity,
                self.own_modularity
            )
        });
        let describe = |close: &CloseMethod| {
            format!("{} ({:.3}, ARI {:.2})", close.method.words(), close.modularity, close.agreement)
        };
        let close: Vec<String> = self.close.iter().map(describe).collect();
        let close = (!close.is_empty()).then(|| {
            format!(
                "other clusters are nearly as good by modularity ({:.3}): {}; the ARI is their agreement with the chosen ones",
                self.modularity,
                close.join(", ")
            )
        });
        preferred.into_iter().chain(close).collect()
    }
}

/// Clusters of a plain method.
struct Candidate {
    method: PlainMethod,
    /// Half the BIC per row; none if the method has no likelihood.
    bic: Option<f64>,
    modularity: f64,
    clusters: Vec<u32>,
}

/// The result of a comparison with plain methods.
pub(crate) struct Comparison {
    /// Clusters that are to be preferred to the networks' own, if any.
    pub(crate) clusters: Option<Vec<u32>>,
    pub(crate) summary: PlainSummary,
    /// Modularity of the clusters of k-means.
    pub(crate) kmeans_modularity: Option<f64>,
}

/// Compares the networks' `own` clusters with those of plain methods; nothing is compared where the table is large.
pub(crate) fn compared<D: Device>(
    device: &D,
    judge: &PreparedGraph,
    own: &[u32],
    interrupt: Interrupt<'_>,
) -> Result<Option<Comparison>> {
    let n_clusters = own.iter().max().map_or(0, |&last| last as usize + 1);
    if own.len() > MAX_ROWS || judge.graph.rows.len() != own.len() || n_clusters < 2 {
        return Ok(None);
    }
    let own_modularity = judge.modularity(own)?;
    let plain = Plain::new(device, judge, n_clusters)?;
    let candidates = plain.candidates(judge, interrupt)?;
    let chosen = if plain.is_continuous() {
        plain.best_described(&candidates, own, own_modularity, interrupt)?
    } else {
        most_agreed(&candidates, own, own_modularity)?
    };
    let clusters = chosen.map_or(own, |candidate| &candidate.clusters);
    let modularity = chosen.map_or(own_modularity, |candidate| candidate.modularity);
    let mut close = Vec::new();
    for candidate in candidates.iter().filter(|c| c.modularity >= modularity - TIE) {
        let agreement = ari(&candidate.clusters, clusters)?;
        if agreement < SAME {
            close.push(CloseMethod { method: candidate.method, modularity: candidate.modularity, agreement });
        }
    }
    let (method, bic) = (chosen.map(|c| c.method), chosen.and_then(|c| c.bic));
    let summary = PlainSummary { method, bic, modularity, own_modularity, close };
    let clusters = chosen.map(|c| c.clusters.clone());
    let kmeans = candidates.iter().find(|c| c.method == PlainMethod::KMeans);
    Ok(Some(Comparison { clusters, summary, kmeans_modularity: kmeans.map(|c| c.modularity) }))
}

/// Where densities mean nothing: the candidate with the highest product of modularity and mean agreement (ARI) with the others,
/// among those of high modularity, the networks' own clusters included. Of two, the one with the notably higher modularity.
/// None if the networks' own are best.
///
/// Agreement counts because several groupings of a table with categories can be equally modular: of penguins, species or sex.
fn most_agreed<'c>(
    candidates: &'c [Candidate],
    own: &[u32],
    own_modularity: f64,
) -> Result<Option<&'c Candidate>> {
    let highest = candidates.iter().map(|c| c.modularity).fold(own_modularity, f64::max);
    let close: Vec<&Candidate> = candidates.iter().filter(|c| c.modularity >= highest - TIE).collect();
    if own_modularity < highest - TIE || close.len() < 2 {
        let best = close.into_iter().reduce(|best, c| if c.modularity > best.modularity { c } else { best });
        return Ok(best.filter(|c| c.modularity >= own_modularity + NOTABLE));
    }
    let others = close.iter().map(|c| (c.modularity, &c.clusters[..]));
    let all: Vec<(f64, &[u32])> = [(own_modularity, own)].into_iter().chain(others).collect();
    let mut best = (0, f64::NEG_INFINITY);
    for (i, (modularity, clusters)) in all.iter().enumerate() {
        let total: f64 = all.iter().map(|(_, other)| ari(clusters, other)).sum::<Result<f64>>()?;
        // Less its agreement with itself. Ties go to the first, the networks' own.
        let score = modularity * (total - 1.0);
        if score > best.1 {
            best = (i, score);
        }
    }
    Ok(best.0.checked_sub(1).map(|i| close[i]))
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
        Ok(Self { device, rows, d, k, ridge: ridge(rows, d), key, starts })
    }

    fn n_rows(&self) -> usize {
        self.rows.len() / self.d
    }

    /// Clusters of all methods that the table is suited to.
    fn candidates(&self, judge: &PreparedGraph, interrupt: Interrupt<'_>) -> Result<Vec<Candidate>> {
        let mut found = vec![(PlainMethod::KMeans, None, self.kmeans_clusters())];
        if self.n_rows() <= MAX_WARD_ROWS {
            found.push((PlainMethod::Ward, None, self.ward_clusters()));
        }
        // Variances of a cluster's own become as small as they like on a repeated value.
        let covariances = if self.is_continuous() {
            &[Covariance::Diagonal, Covariance::Tied, Covariance::Full][..]
        } else {
            &[Covariance::Tied]
        };
        for &covariance in covariances {
            if let Some((bic, clusters)) = self.mixture(covariance, interrupt)? {
                found.push((PlainMethod::of(covariance), Some(bic), clusters));
            }
        }
        let candidate = |(method, bic, clusters): (_, _, Vec<u32>)| {
            judge.modularity(&clusters).map(|modularity| Candidate { method, bic, modularity, clusters })
        };
        found.into_iter().map(candidate).collect()
    }

    /// The mixture with the lowest BIC among those of high modularity, if it describes the rows better than the networks' clusters.
    fn best_described<'c>(
        &self,
        candidates: &'c [Candidate],
        own: &[u32],
        own_modularity: f64,
        interrupt: Interrupt<'_>,
    ) -> Result<Option<&'c Candidate>> {
        let mixtures = || candidates.iter().filter_map(|c| c.bic.map(|bic| (bic, c)));
        let highest = mixtures().map(|(_, c)| c.modularity).fold(own_modularity, f64::max);
        let close = mixtures().filter(|(_, c)| c.modularity >= highest - TIE);
        let Some((_, best)) = close.min_by(|a, b| a.0.total_cmp(&b.0)) else { return Ok(None) };
        if ari(&best.clusters, own)? >= SAME {
            return Ok(None);
        }
        let is_own_close = own_modularity >= highest - TIE;
        let is_own_better = is_own_close
            && self.description(own, interrupt)? >= self.description(&best.clusters, interrupt)?;
        Ok((!is_own_better).then_some(best))
    }

    /// The clusters of Ward's tree.
    fn ward_clusters(&self) -> Vec<u32> {
        cut(&ward(SquareDistances::euclidean(self.rows, self.d)), self.n_rows(), self.k).0
    }

    /// The clusters of the start with the least sum of squares.
    fn kmeans_clusters(&self) -> Vec<u32> {
        let best = self.starts.iter().min_by(|a, b| a.inertia.total_cmp(&b.inertia));
        best.map_or_else(Vec::new, |fit| fit.assignment.clone())
    }

    /// Whether densities can be compared.
    fn is_continuous(&self) -> bool {
        is_continuous(self.rows, self.d)
    }

    /// Half the BIC per row and the clusters of the most likely mixture; none if there is no time for it, all covariances are
    /// singular, or a component has hardly any rows.
    fn mixture(&self, covariance: Covariance, interrupt: Interrupt<'_>) -> Result<Option<(f64, Vec<u32>)>> {
        let n_starts = affordable(self.n_rows(), self.k, self.d).min(N_STARTS);
        let mut best: Option<(f64, FullMixture)> = None;
        for start in &self.starts[..n_starts] {
            interrupt()?;
            let fitted = fit_mixture(self.rows, self.d, self.k, &start.assignment, covariance, self.ridge);
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
                if let Some((mean, _)) = fit_mixture(rows, self.d, parts, &start, covariance, self.ridge) {
                    best = best.max(penalised(mean, covariance.n_parameters(parts, self.d), n));
                }
            }
        }
        Ok(best)
    }
}
