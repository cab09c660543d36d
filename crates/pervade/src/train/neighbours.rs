//! The neighbour term of joint training: which rows are neighbours, and how much they should agree.

use std::ops::Range;

use super::consensus::partners;
use super::run::{Pack, Run};
use crate::Result;
use crate::compute::{Device, NeighbourLists, NeighbourTerm};
use crate::seed::{Key, Stream};

/// What the neighbour term needs on the device and to draw neighbours.
pub(super) struct Neighbours<D: Device> {
    weight: f32,
    /// The cluster of each component, [R, C].
    groups: D::Buffer,
    n_clusters: usize,
    /// One key per restart.
    pub(super) keys: Vec<Key>,
}

impl<D: Device> Neighbours<D> {
    /// The neighbours of a pack, and a batch that holds some of them; none if the term has no weight.
    pub(super) fn new(run: &Run<'_, D>, pack: &Pack<D>, n_rows: usize) -> Result<Option<(Self, D::Batch)>> {
        let settings = run.settings;
        let weight = match &pack.vote {
            Some(_) => settings.vote_weight(run.data.n_columns()),
            None => settings.neighbour_weight,
        };
        let starts = &pack.state.start_groupings;
        let n_clusters = starts.iter().map(|start| start.n_clusters).max().unwrap_or(0);
        if weight == 0.0 || n_clusters < 2 {
            return Ok(None);
        }
        let keys = run.keys(Stream::Neighbour, pack.state.rng_ids());
        let lists = match &pack.vote {
            Some(vote) => partners(vote, settings.settings.neighbours, keys[0]),
            None => NeighbourLists {
                lists: pack.graphs.iter().map(|graph| graph.lists(run.data.n_rows())).collect(),
                n_neighbours: pack.graphs.first().map_or(0, |graph| graph.n_neighbours),
            },
        };
        let clusters: Vec<f32> = starts.iter().flat_map(|start| &start.groups).map(|&k| k as f32).collect();
        Self::upload(run, n_rows, lists, weight, &clusters, n_clusters, keys).map(Some)
    }

    /// Made-up neighbours for tests and benchmarks: row i + 1 is the neighbour of row i, and component m is in cluster
    /// m modulo K.
    pub(super) fn ring(
        run: &Run<'_, D>,
        restarts: Range<usize>,
        n_rows: usize,
        n_clusters: usize,
    ) -> Result<(Self, D::Batch)> {
        let (n, c) = (run.data.n_rows() as u32, run.settings.n_components);
        let lists = vec![(1..=n).map(|row| row % n).collect::<Vec<u32>>(); restarts.len()];
        let clusters: Vec<f32> = (0..restarts.len() * c).map(|m| (m % c % n_clusters) as f32).collect();
        let keys = run.keys(Stream::Neighbour, restarts);
        let lists = NeighbourLists { lists, n_neighbours: 1 };
        let weight = run.settings.neighbour_weight;
        Self::upload(run, n_rows, lists, weight, &clusters, n_clusters, keys)
    }

    fn upload(
        run: &Run<'_, D>,
        n_rows: usize,
        lists: NeighbourLists,
        weight: f32,
        clusters: &[f32],
        n_clusters: usize,
        keys: Vec<Key>,
    ) -> Result<(Self, D::Batch)> {
        let batch = run.device.batch_with_neighbours(&run.rows, keys.len(), n_rows, lists)?;
        let mut groups = run.device.zeros(clusters.len())?;
        run.device.write(&mut groups, 0, clusters)?;
        Ok((Self { weight, groups, n_clusters, keys }, batch))
    }

    /// The term as the device takes it.
    pub(super) fn term(&self) -> NeighbourTerm<'_, D::Buffer> {
        NeighbourTerm { weight: self.weight, groups: &self.groups, n_clusters: self.n_clusters }
    }
}
