//! Exact nearest neighbours by comparing every row with every other, one tile at a time.
//!
//! Distances are sums of squared differences: unlike norms minus inner products, they do not cancel
//! where rows are close to each other but far from the origin.

use std::ops::Range;

use rayon::prelude::*;

use crate::wide::{VectorKernel, run_widest};
use crate::{Error, Result};

/// Candidates compared at once.
const LANES: usize = 16;
/// Queries whose sums are held in registers at once.
const TILE_QUERIES: usize = 4;
/// Queries that share one pass over the candidates.
const TASK_QUERIES: usize = 64;
/// Bounds on the candidates that stay in the cache while a task compares its queries with them: lanes, and
/// elements.
const CACHED_LANES: usize = 32;
const CACHED_ELEMENTS: usize = 1 << 17;
/// Elementwise differences between two calls of `keep_going`: a fraction of a second.
const CHECK_AFTER: usize = 1_000_000_000;

/// The nearest nodes of each node in `queries`. `[m, k]`
pub(super) fn neighbours(
    latents: &[f32],
    n_latent: usize,
    rows: &[u32],
    queries: Range<usize>,
    n_neighbours: usize,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Vec<u32>> {
    let nodes = Nodes::new(latents, n_latent, rows);
    let n_tasks = queries.len().div_ceil(TASK_QUERIES);
    let at_once = (CHECK_AFTER / (TASK_QUERIES * rows.len() * n_latent)).max(1);
    let mut neighbours = Vec::with_capacity(queries.len() * n_neighbours);
    for first in (0..n_tasks).step_by(at_once) {
        if !keep_going() {
            return Err(Error::Interrupted);
        }
        neighbours.par_extend((first..n_tasks.min(first + at_once)).into_par_iter().flat_map_iter(|task| {
            let first = queries.start + task * TASK_QUERIES;
            let queries = Queries::nodes(&nodes, first..queries.end.min(first + TASK_QUERIES));
            run_widest(Nearest { nodes: &nodes, queries, n_neighbours }).into_iter().map(|(_, node)| node)
        }));
    }
    Ok(neighbours)
}

/// The rows of `latents` nearest to each of `queries`: squared distances and row indices, nearest first. `[n, k]`
///
/// # Shapes
/// - latents: `[N, J]`, queries: `[n, J]`
pub fn nearest_rows(
    latents: &[f32],
    queries: &[f32],
    n_latent: usize,
    n_neighbours: usize,
) -> Vec<(f32, u32)> {
    let rows: Vec<u32> = (0..(latents.len() / n_latent) as u32).collect();
    let nodes = Nodes::new(latents, n_latent, &rows);
    let tasks = queries.par_chunks(TASK_QUERIES * n_latent);
    let nearest = |latents| {
        let queries = Queries { latents, first_node: None };
        run_widest(Nearest { nodes: &nodes, queries, n_neighbours })
    };
    tasks.flat_map_iter(nearest).collect()
}

/// The nodes' latents, once by node and once in lanes of candidates.
struct Nodes {
    n_latent: usize,
    /// `[n, J]`
    by_node: Vec<f32>,
    /// `[n / LANES, J, LANES]`; the padding is infinitely far away
    by_lane: Vec<[f32; LANES]>,
}

impl Nodes {
    fn new(latents: &[f32], n_latent: usize, rows: &[u32]) -> Self {
        let len = rows.len();
        let mut by_node = Vec::with_capacity(len * n_latent);
        let mut by_lane = vec![[f32::INFINITY; LANES]; len.div_ceil(LANES) * n_latent];
        for (node, &row) in rows.iter().enumerate() {
            let z = &latents[row as usize * n_latent..(row as usize + 1) * n_latent];
            by_node.extend_from_slice(z);
            for j in 0..n_latent {
                by_lane[node / LANES * n_latent + j][node % LANES] = z[j];
            }
        }
        Self { n_latent, by_node, by_lane }
    }
}

/// The queries of one task: at most `TASK_QUERIES`.
struct Queries<'a> {
    /// `[n, J]`
    latents: &'a [f32],
    /// The node of the first query, if the queries are nodes: a node is not its own neighbour.
    first_node: Option<usize>,
}

impl<'a> Queries<'a> {
    fn nodes(nodes: &'a Nodes, queries: Range<usize>) -> Self {
        let latents = &nodes.by_node[queries.start * nodes.n_latent..queries.end * nodes.n_latent];
        Self { latents, first_node: Some(queries.start) }
    }
}

/// The neighbours of the queries of one task: squared distances and nodes. `[n, k]`
struct Nearest<'a> {
    nodes: &'a Nodes,
    queries: Queries<'a>,
    n_neighbours: usize,
}

impl VectorKernel for Nearest<'_> {
    type Output = Vec<(f32, u32)>;

    #[inline(always)]
    fn run(self) -> Vec<(f32, u32)> {
        let nodes = self.nodes;
        let n_latent = nodes.n_latent;
        let n_queries = self.queries.latents.len() / n_latent;
        let own = |query: usize| self.queries.first_node.map(|first| first + query);
        let mut lists: Vec<Nearby> =
            (0..n_queries).map(|query| Nearby::new(own(query), self.n_neighbours)).collect();
        let cached_lanes = (CACHED_ELEMENTS / (LANES * n_latent)).clamp(1, CACHED_LANES);
        for (cached, candidates) in nodes.by_lane.chunks(cached_lanes * n_latent).enumerate() {
            for tile in (0..n_queries).step_by(TILE_QUERIES) {
                // The last tile repeats the last query, whose list is updated only once.
                let query = |slot: usize| (tile + slot).min(n_queries - 1);
                for (lane_block, columns) in candidates.chunks_exact(n_latent).enumerate() {
                    let mut squares = [[0.0f32; LANES]; TILE_QUERIES];
                    for j in 0..n_latent {
                        for slot in 0..TILE_QUERIES {
                            let z = self.queries.latents[query(slot) * n_latent + j];
                            for lane in 0..LANES {
                                let difference = z - columns[j][lane];
                                squares[slot][lane] += difference * difference;
                            }
                        }
                    }
                    let candidate = (cached * cached_lanes + lane_block) * LANES;
                    for slot in 0..TILE_QUERIES.min(n_queries - tile) {
                        lists[tile + slot].offer(candidate, &squares[slot]);
                    }
                }
            }
        }
        lists.into_iter().flat_map(|list| list.found).collect()
    }
}

/// The nearest candidates so far, nearest first.
struct Nearby {
    /// The query's own node, which is not its neighbour.
    own: Option<usize>,
    n_neighbours: usize,
    /// Squared distance of the farthest in the list; infinite until the list is full.
    farthest: f32,
    found: Vec<(f32, u32)>,
}

impl Nearby {
    fn new(own: Option<usize>, n_neighbours: usize) -> Self {
        let found = Vec::with_capacity(n_neighbours + 1);
        Self { own, n_neighbours, farthest: f32::INFINITY, found }
    }

    /// Candidates come in increasing order, so that a later one at an equal distance never displaces an earlier one.
    #[inline(always)]
    fn offer(&mut self, first: usize, squares: &[f32; LANES]) {
        let mut closer = 0u32;
        for lane in 0..LANES {
            closer += u32::from(squares[lane] < self.farthest);
        }
        if closer > 0 {
            self.insert(first, squares);
        }
    }

    #[cold]
    fn insert(&mut self, first: usize, squares: &[f32; LANES]) {
        for (lane, &square) in squares.iter().enumerate() {
            if square < self.farthest && self.own != Some(first + lane) {
                let position = self.found.partition_point(|&(nearer, _)| nearer <= square);
                self.found.insert(position, (square, (first + lane) as u32));
                self.found.truncate(self.n_neighbours);
                if self.found.len() == self.n_neighbours {
                    self.farthest = self.found[self.n_neighbours - 1].0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wide::{run_at, supported_widths};

    #[test]
    fn every_vector_width_gives_the_same_neighbours() {
        let latents: Vec<f32> = (0..200 * 3).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
        let nodes = Nodes::new(&latents, 3, &(0..200).collect::<Vec<u32>>());
        let nearest = || Nearest {
            nodes: &nodes,
            queries: Queries::nodes(&nodes, TASK_QUERIES..2 * TASK_QUERIES),
            n_neighbours: 7,
        };
        for width in supported_widths() {
            assert_eq!(run_at(width, nearest()), nearest().run(), "{width:?}");
        }
    }
}
