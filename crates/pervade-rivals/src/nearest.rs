//! Clusters for new rows of methods that only cluster what they have seen: those of the nearest known rows.

use std::collections::HashMap;
use std::sync::Arc;

use pervade::compute::Device;
use pervade::data::{Dataset, Preparation};
use pervade::{Clustering, Result};
use rayon::prelude::*;

use crate::rows::dense;

/// Known rows compared at once.
const LANES: usize = 16;

/// Rows that a method has seen, to be found again.
pub(crate) struct SeenRows {
    pub(crate) preparation: Preparation,
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
pub(crate) struct KnownRows {
    seen: Arc<SeenRows>,
    /// `[n]`
    clusters: Vec<u32>,
    n_clusters: usize,
}

impl SeenRows {
    /// # Shapes
    /// - rows: `[n, D]`
    pub(crate) fn new(preparation: Preparation, rows: Vec<f32>, n_columns: usize, voters: usize) -> Self {
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

impl KnownRows {
    /// # Shapes
    /// - clusters: `[n]`
    pub(crate) fn new(seen: Arc<SeenRows>, clusters: Vec<u32>, n_clusters: usize) -> Self {
        Self { seen, clusters, n_clusters }
    }

    fn cluster_of(&self, row: &[f32]) -> u32 {
        if let Some(&place) = self.seen.places.get(&bytes(row)) {
            return self.clusters[place];
        }
        let mut votes = vec![0; self.n_clusters];
        let voters = self.seen.nearest(row);
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

impl<D: Device> Clustering<D> for KnownRows {
    fn n_clusters(&self) -> usize {
        self.n_clusters
    }

    fn assign(&self, _device: &D, data: &Dataset) -> Result<Vec<u32>> {
        self.seen.preparation.check_columns(data)?;
        let rows = dense(data, &self.seen.preparation);
        Ok(rows.par_chunks_exact(self.seen.n_columns).map(|row| self.cluster_of(row)).collect())
    }

    fn embed(&self, _device: &D, _data: &Dataset) -> Result<Option<Vec<f32>>> {
        Ok(None)
    }
}
