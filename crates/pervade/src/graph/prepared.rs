//! The neighbour graph of the prepared rows, on which clusterings of any method can be compared.

use super::{Graph, GraphOptions};
use crate::compute::{Alone, Device, Ranks};
use crate::data::{Dataset, Preparation, PrepareKind};
use crate::interrupt::Interrupt;
use crate::memory::{Need, product, require};
use crate::mixture::kmeans;
use crate::rows::{MAX_MAGNITUDE, sample_rows};
use crate::seed::{Key, Stream};
use crate::{Error, Hint, Result};

/// The largest number of rows in the graph. Modularity is a mean over edges: ten thousand rows give it to three digits.
const MAX_ROWS: usize = 10_000;
/// Differences that the search may compute, which limits the number of rows in wide tables: a few seconds on two cores.
const MAX_DIFFERENCES: f64 = 2e11;
/// Neighbours of each row in the graph.
pub(crate) const PREPARED_NEIGHBOURS: usize = 10;
/// Starts of k-means; the one with the least sum of squares is kept.
const KMEANS_STARTS: usize = 3;
/// Not the index of a restart, whose sample is another.
const PREPARED: usize = u32::MAX as usize;

/// Number of rows in the graph of the prepared rows; of more, a uniform sample is taken.
pub(crate) fn n_prepared(n_rows: usize, n_columns: usize) -> usize {
    let affordable = (MAX_DIFFERENCES / n_columns.max(1) as f64).sqrt() as usize;
    n_rows.min(MAX_ROWS).min(affordable.max(100))
}

/// An error if distances from this prepared row would overflow.
fn check_row(data: &Dataset, i: usize, row: &[f32]) -> Result<()> {
    // NaN is too large, too.
    let is_bad = |x: &f32| x.is_nan() || x.abs() > MAX_MAGNITUDE;
    let Some(column) = row.iter().position(is_bad) else { return Ok(()) };
    let problem = format!(
        "row {}, column {} is {:e} when prepared, too large for a distance",
        i + 1,
        column + 1,
        row[column]
    );
    let hint = Hint::new("check that value, or use ").setting_to("prepare", PrepareKind::Standardise);
    Err(Error::data(data.source(), problem).with_hint(hint))
}

/// The neighbour graph of the prepared rows. It belongs to no model's latents, so that
/// [`modularity`](super::modularity) on it compares restarts, numbers of clusters and methods.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedGraph {
    /// The ten nearest neighbours of each row of a sample.
    pub graph: Graph,
    /// The rows of the sample, prepared. `[n, D]`
    rows: Vec<f32>,
    n_columns: usize,
    seed: u64,
}

impl PreparedGraph {
    /// Builds the graph; the seed draws the sample.
    pub fn new<D: Device>(device: &D, data: &Dataset, preparation: &Preparation, seed: u64) -> Result<Self> {
        Self::on_ranks(device, &Alone, data, preparation, seed, &mut || Ok(()))
    }

    /// [`PreparedGraph::new`] by all ranks together, with calls of `interrupt` to check for an interrupt.
    pub(crate) fn on_ranks<D: Device>(
        device: &D,
        ranks: &dyn Ranks,
        data: &Dataset,
        preparation: &Preparation,
        seed: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<Self> {
        let d = preparation.n_distance_columns();
        let n = n_prepared(data.n_rows(), d);
        let need = Need::of("", product(&[3, n, d, size_of::<f32>()]));
        require("the neighbour graph of the prepared rows", &need, "give fewer columns")?;
        let key = Key::new(seed, Stream::Sample, PREPARED);
        let sample = sample_rows(data.n_rows(), n, key);
        let mut rows = vec![0.0; n * d];
        for (row, &i) in rows.chunks_exact_mut(d).zip(&sample) {
            preparation.distance_row_into(data, i as usize, row);
            check_row(data, i as usize, row)?;
        }
        let options = GraphOptions { neighbours: PREPARED_NEIGHBOURS, max_rows: n };
        let graph = Graph::build_on_ranks(device, ranks, &rows, d, &options, key, interrupt)?;
        Ok(Self { graph: Graph { rows: sample, ..graph }, rows, n_columns: d, seed })
    }

    /// The prepared rows of the sample. `[n, D]`
    pub(crate) fn rows(&self) -> &[f32] {
        &self.rows
    }

    /// The seed that drew the sample.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Columns of [`PreparedGraph::rows`].
    pub(crate) fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Modularity of a clustering of all rows; higher is better.
    ///
    /// # Shapes
    /// - clusters: `[N]`
    pub fn modularity(&self, clusters: &[u32]) -> Result<f64> {
        super::modularity(&self.graph, clusters)
    }

    /// Modularity of the clusters that k-means finds among the prepared rows of the sample: the least that a model should
    /// reach. `None` if there are more clusters than rows in the sample.
    pub fn kmeans_modularity<D: Device>(&self, device: &D, n_clusters: usize) -> Result<Option<f64>> {
        if n_clusters > self.graph.rows.len() {
            return Ok(None);
        }
        let key = Key::new(self.seed, Stream::Mixture, PREPARED);
        let mut best: Option<(f64, Vec<u32>)> = None;
        for start in 0..KMEANS_STARTS {
            let fit = kmeans(device, &self.rows, self.n_columns, n_clusters, key, start)?;
            if best.as_ref().is_none_or(|(least, _)| fit.inertia < *least) {
                best = Some((fit.inertia, fit.assignment));
            }
        }
        let (_, assignment) = best.expect("at least one start");
        let own = Graph { rows: (0..assignment.len() as u32).collect(), ..self.graph.clone() };
        super::modularity(&own, &assignment).map(Some)
    }
}
