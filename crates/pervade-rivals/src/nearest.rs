//! Clusters of new rows, from their nearest known rows, for methods that only cluster the rows they were given.

use std::collections::HashMap;
use std::sync::Arc;

use pervade::compute::Device;
use pervade::data::{Dataset, Preparation};
use pervade::graph::{Graph, GraphOptions};
use pervade::memory::{Need, product, require};
use pervade::seed::{Key, Stream};
use pervade::train::Observer;
use pervade::{Clusterer, Clustering, Error, Result};
use rayon::prelude::*;

use crate::connected::without_small_components;
use crate::rows::{dense, preparation};

/// Known rows compared at once.
const LANES: usize = 16;

/// The rows that a method has clustered.
pub(crate) struct KnownRows {
    preparation: Preparation,
    /// `[n, D]`
    pub(crate) rows: Vec<f32>,
    pub(crate) n_columns: usize,
    /// The number of nearest rows that vote.
    voters: usize,
    /// Index of each row by its bytes; duplicates have that of the first.
    indices: HashMap<Vec<u8>, usize>,
}

/// Known rows with their clusters. A row that equals a known one gets its cluster; another gets the majority cluster of
/// its nearest known rows, and ties go to the cluster of the nearest of them.
pub(crate) struct NearestKnown {
    /// Shared by the clusterings of several seeds.
    pub(crate) known: Arc<KnownRows>,
    /// `[n]`
    pub(crate) clusters: Vec<u32>,
    pub(crate) n_clusters: usize,
}

/// The key for random numbers that all seeds share.
pub(crate) fn shared_key() -> Key {
    Key::new(0, Stream::Sample, 0)
}

/// The neighbour graph of the rows without small components, and the prepared rows that are its nodes; a new row has as
/// many voters as a node has neighbours. An error if there is not enough memory for it and for a matrix with `entries`
/// entries per row.
pub(crate) fn known_graph<D: Device>(
    data: &Dataset,
    device: &D,
    n_clusters: usize,
    neighbours: usize,
    entries: usize,
) -> Result<(Graph, KnownRows)> {
    let preparation = preparation(data)?;
    let d = preparation.n_distance_columns();
    let options = GraphOptions::default().with(|o| o.neighbours = neighbours);
    let nodes = data.n_rows().min(options.max_rows);
    // The graph's matrix as entries, sorted, and stored; and the solver's block of vectors.
    let entries = product(&[3, nodes, entries, size_of::<(u32, u32, f64)>()]);
    let vectors = product(&[4, nodes, n_clusters.saturating_mul(2).saturating_add(8), size_of::<f64>()]);
    let rows = product(&[3, data.n_rows(), d, size_of::<f32>()]);
    let need = Need::of("the rows", rows).and("the graph", entries).and("eigenvectors", vectors);
    require("clustering by a neighbour graph", &need, "ask for fewer clusters, or give fewer rows")?;
    let rows = dense(data, &preparation)?;
    let graph = Graph::build(device, &rows, d, &options, shared_key())?;
    let graph = without_small_components(graph, n_clusters);
    let known = KnownRows::new(preparation, rows_of(&graph, rows, d), d, graph.n_neighbours);
    Ok((graph, known))
}

/// The rows that are nodes of the graph.
fn rows_of(graph: &Graph, rows: Vec<f32>, d: usize) -> Vec<f32> {
    if graph.rows.len() * d == rows.len() {
        return rows;
    }
    graph.rows.iter().flat_map(|&row| rows[row as usize * d..(row as usize + 1) * d].to_vec()).collect()
}

/// The clustering of one seed, by a method that clusters for several seeds at once.
pub(crate) fn cluster_one<D: Device>(
    method: &impl Clusterer<D>,
    data: &Dataset,
    device: &D,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Box<dyn Clustering<D>>> {
    let mut found = None;
    method.cluster_each(data, device, &[seed], observer, &mut |_, clustering| {
        found = Some(clustering);
        Ok(())
    })?;
    found.ok_or_else(|| Error::data("data", "the method returned no clustering"))
}

impl KnownRows {
    /// # Shapes
    /// - rows: `[n, D]`
    fn new(preparation: Preparation, rows: Vec<f32>, n_columns: usize, voters: usize) -> Self {
        let mut indices = HashMap::new();
        for (index, row) in rows.chunks_exact(n_columns).enumerate() {
            indices.entry(bytes(row)).or_insert(index);
        }
        Self { preparation, rows, n_columns, voters, indices }
    }

    /// Indices of the nearest known rows, nearest first; ties go to the earlier.
    fn nearest(&self, row: &[f32]) -> Vec<usize> {
        let d = self.n_columns;
        let mut found: Vec<(f32, usize)> = Vec::with_capacity(self.voters + 1);
        for (tile, rows) in self.rows.chunks(LANES * d).enumerate() {
            let mut squares = [0.0f32; LANES];
            for (square, known) in squares.iter_mut().zip(rows.chunks_exact(d)) {
                // Eight partial sums, always in the same order.
                let mut sums = [0.0f32; 8];
                for (a, b) in known.chunks(8).zip(row.chunks(8)) {
                    for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                        *sum += (a - b) * (a - b);
                    }
                }
                *square = sums.iter().sum();
            }
            for (lane, &square) in squares.iter().enumerate().take(rows.len() / d) {
                if found.len() == self.voters && square >= found[self.voters - 1].0 {
                    continue;
                }
                let at = found.partition_point(|&(other, _)| other <= square);
                found.insert(at, (square, tile * LANES + lane));
                found.truncate(self.voters);
            }
        }
        found.into_iter().map(|(_, index)| index).collect()
    }
}

impl NearestKnown {
    fn cluster_of(&self, row: &[f32]) -> u32 {
        if let Some(&index) = self.known.indices.get(&bytes(row)) {
            return self.clusters[index];
        }
        let mut votes = vec![0; self.n_clusters];
        let voters = self.known.nearest(row);
        for &index in &voters {
            votes[self.clusters[index] as usize] += 1;
        }
        let majority = votes.iter().max().copied().unwrap_or(0);
        let clusters = voters.iter().map(|&index| self.clusters[index]);
        clusters.into_iter().find(|&cluster| votes[cluster as usize] == majority).unwrap_or(0)
    }
}

fn bytes(row: &[f32]) -> Vec<u8> {
    row.iter().flat_map(|x| x.to_bits().to_le_bytes()).collect()
}

impl<D: Device> Clustering<D> for NearestKnown {
    fn n_clusters(&self) -> usize {
        self.n_clusters
    }

    fn assign(&self, _device: &D, data: &Dataset) -> Result<Vec<u32>> {
        self.known.preparation.check_columns(data)?;
        let rows = dense(data, &self.known.preparation)?;
        Ok(rows.par_chunks_exact(self.known.n_columns).map(|row| self.cluster_of(row)).collect())
    }

    fn embed(&self, _device: &D, _data: &Dataset) -> Result<Option<Vec<f32>>> {
        Ok(None)
    }
}
