//! Clusters for new rows of methods that only cluster what they have seen: those of the nearest known rows.

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

use crate::pieces::without_crumbs;
use crate::rows::{dense, preparation};

/// Known rows compared at once.
const LANES: usize = 16;

/// Rows that a method has seen.
pub(crate) struct KnownRows {
    preparation: Preparation,
    /// `[n, D]`
    pub(crate) rows: Vec<f32>,
    n_columns: usize,
    /// How many of the nearest vote.
    voters: usize,
    /// Rows by their bytes; the first of equals.
    places: HashMap<Vec<u8>, usize>,
}

/// Known rows with their clusters. A row that equals a known one has its cluster; another has that of most of
/// its nearest known rows, and where two clusters have as many, that of the nearer rows.
pub(crate) struct NearestKnown {
    /// Shared by the clusterings of several seeds.
    pub(crate) known: Arc<KnownRows>,
    /// `[n]`
    pub(crate) clusters: Vec<u32>,
    pub(crate) n_clusters: usize,
}

/// For what is drawn once and serves all seeds.
pub(crate) fn shared() -> Key {
    Key::new(0, Stream::Sample, 0)
}

/// The graph of the rows without its crumbs, and the rows that are its nodes, prepared; as many vote for a new row as
/// a row has neighbours. Refused where there is no memory for it and for a matrix with so many `entries` per row.
pub(crate) fn known_graph<D: Device>(
    data: &Dataset,
    device: &D,
    n_clusters: usize,
    neighbours: usize,
    entries: usize,
) -> Result<(Graph, KnownRows)> {
    let (preparation, d) = (preparation(data)?, data.n_columns());
    let options = GraphOptions::default().with(|o| o.neighbours = neighbours);
    let nodes = data.n_rows().min(options.max_rows);
    // Entries of the graph's matrix as they are made, sorted and stored, and vectors of the block that the solver turns.
    let entries = product(&[3, nodes, entries, size_of::<(u32, u32, f64)>()]);
    let vectors = product(&[4, nodes, n_clusters.saturating_mul(2).saturating_add(8), size_of::<f64>()]);
    let rows = product(&[3, data.n_rows(), d, size_of::<f32>()]);
    let need = Need::of("the rows", rows).and("the graph", entries).and("eigenvectors", vectors);
    require("clustering by a neighbour graph", &need, "ask for fewer clusters, or give fewer rows")?;
    let rows = dense(data, &preparation)?;
    let graph = without_crumbs(Graph::build(device, &rows, d, &options, shared())?, n_clusters);
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

/// The clustering of one seed, by a method that clusters several at once.
pub(crate) fn only<D: Device>(
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
    found.ok_or_else(|| Error::data("data", "no clustering was made"))
}

impl KnownRows {
    /// # Shapes
    /// - rows: `[n, D]`
    fn new(preparation: Preparation, rows: Vec<f32>, n_columns: usize, voters: usize) -> Self {
        let mut places = HashMap::new();
        for (place, row) in rows.chunks_exact(n_columns).enumerate() {
            places.entry(bytes(row)).or_insert(place);
        }
        Self { preparation, rows, n_columns, voters, places }
    }

    /// The nearest known rows, nearest first; of equally near ones the earlier first.
    fn nearest(&self, row: &[f32]) -> Vec<usize> {
        let d = self.n_columns;
        let mut found: Vec<(f32, usize)> = Vec::with_capacity(self.voters + 1);
        for (tile, rows) in self.rows.chunks(LANES * d).enumerate() {
            let mut squares = [0.0f32; LANES];
            for (square, known) in squares.iter_mut().zip(rows.chunks_exact(d)) {
                // Eight sums side by side, always in the same order.
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
        found.into_iter().map(|(_, place)| place).collect()
    }
}

impl NearestKnown {
    fn cluster_of(&self, row: &[f32]) -> u32 {
        if let Some(&place) = self.known.places.get(&bytes(row)) {
            return self.clusters[place];
        }
        let mut votes = vec![0; self.n_clusters];
        let voters = self.known.nearest(row);
        for &place in &voters {
            votes[self.clusters[place] as usize] += 1;
        }
        let most = votes.iter().max().copied().unwrap_or(0);
        let clusters = voters.iter().map(|&place| self.clusters[place]);
        clusters.into_iter().find(|&cluster| votes[cluster as usize] == most).unwrap_or(0)
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
