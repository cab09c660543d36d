//! Spectral clustering of the nearest-neighbour graph.
//!
//! Papers: Ng, Jordan and Weiss, "On spectral clustering: analysis and an algorithm" (2002), on the symmetric
//! normalised Laplacian of Shi and Malik (2000): with W the weights of the edges and D the diagonal of its row
//! sums, the K smallest eigenvectors of I - D^-1/2 W D^-1/2 are K columns; their rows are normalised to length one
//! and clustered by k-means.
//! Departures: W = (A + Aᵀ) / 2 with A the exact graph of the ten nearest neighbours instead of a full matrix of
//! Gaussian weights, so that memory grows linearly with the rows (and there is no bandwidth to choose).
//! Above 100,000 rows the graph is of a sample of that size. Small connected components are not clustered. Their rows and
//! new rows get the majority cluster of their ten nearest known rows. Graph and eigenvectors are shared_key by all seeds; the
//! seed determines the starts of k-means.
//! Expected on MNIST: the paper has no row; measured 0.68, on all 70,000 rows and on the 10,000 test rows.

use std::sync::Arc;

use pervade::compute::Device;
use pervade::data::Dataset;
use pervade::graph::Graph;
use pervade::seed::Key;
use pervade::train::Observer;
use pervade::{Clusterer, Clustering, Result};

use crate::eigen::{Accuracy, Eigen, smallest};
use crate::kmeans::best_start;
use crate::nearest::{NearestKnown, cluster_one, known_graph, shared_key};
use crate::rows::check_rows;
use crate::sparse::Sparse;

/// Spectral clustering with its settings.
#[derive(Clone, Debug)]
pub struct Spectral {
    /// The number of clusters, K.
    pub n_clusters: usize,
    /// Neighbours of each row in the graph, and voters for the cluster of a new row.
    pub neighbours: usize,
    /// The number of k-means starts, of which the best is kept.
    pub starts: usize,
}

impl Default for Spectral {
    fn default() -> Self {
        Self { n_clusters: 10, neighbours: 10, starts: 10 }
    }
}

impl<D: Device> Clusterer<D> for Spectral {
    fn name(&self) -> &'static str {
        "spectral"
    }

    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        cluster_one(self, data, device, seed, observer)
    }

    fn cluster_each(
        &self,
        data: &Dataset,
        device: &D,
        seeds: &[u64],
        _observer: &mut dyn Observer,
        take: &mut dyn FnMut(u64, Box<dyn Clustering<D>>) -> Result<()>,
    ) -> Result<()> {
        let k = self.n_clusters;
        check_rows(data, k, 2)?;
        let (graph, known) = known_graph(data, device, k, self.neighbours, 2 * self.neighbours + 1)?;
        let embedding = embedding(&graph, k, shared_key(), Accuracy::default())?;
        let (points, known) = (unit_rows(&embedding.vectors, k), Arc::new(known));
        for &seed in seeds {
            let clusters = best_start(device, &points, k, k, self.starts, seed)?.assignment;
            take(seed, Box::new(NearestKnown { known: known.clone(), clusters, n_clusters: k }))?;
        }
        Ok(())
    }
}

/// The smallest eigenvectors of the graph's normalised Laplacian.
pub(crate) fn embedding(graph: &Graph, k: usize, key: Key, accuracy: Accuracy) -> Result<Eigen> {
    // Eigenvalues of a normalised Laplacian are between 0 and 2.
    smallest(&laplacian(graph), k, 2.0, key, accuracy)
}

/// I - D^-1/2 W D^-1/2 with W = (A + Aᵀ) / 2.
pub(crate) fn laplacian(graph: &Graph) -> Sparse {
    let n = graph.rows.len();
    let mut entries = Vec::with_capacity(2 * graph.neighbours.len() + n);
    for (node, neighbours) in graph.neighbours.chunks_exact(graph.n_neighbours).enumerate() {
        for &other in neighbours {
            entries.push((node as u32, other, 0.5));
            entries.push((other, node as u32, 0.5));
        }
    }
    let weights = Sparse::from_entries(n, entries);
    let scales: Vec<f64> = weights.row_sums().into_iter().map(|degree| degree.sqrt().recip()).collect();
    let scaled = weights.scaled(&scales);
    let off =
        (0..n).flat_map(|i| scaled.row(i).map(move |(j, w)| (i as u32, j as u32, -w)).collect::<Vec<_>>());
    let diagonal = (0..n as u32).map(|i| (i, i, 1.0));
    Sparse::from_entries(n, off.chain(diagonal).collect())
}

/// Normalises every row to length one.
///
/// # Shapes
/// - vectors: `[n, k]`, result: `[n, k]`
pub(crate) fn unit_rows(vectors: &[f64], k: usize) -> Vec<f32> {
    let mut rows = Vec::with_capacity(vectors.len());
    for row in vectors.chunks_exact(k) {
        let length = row.iter().map(|x| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        rows.extend(row.iter().map(|x| (x / length) as f32));
    }
    rows
}
