//! The exact k-nearest-neighbour graph by comparing every row with every other, a tile at a time.
//!
//! Distances are sums of squared differences: unlike norms minus products they lose no digits
//! where rows lie close together far from the origin.

use crate::compute::host_simd::{Kernel, run_widest};
use crate::parallel::Ask;
use crate::rows::{check_latents, sample_rows};
use crate::seed::Key;
use crate::{Error, Result};
use rayon::prelude::*;

/// Candidates compared at once.
const LANES: usize = 16;
/// Queries whose sums are kept in registers at once.
const TILE_QUERIES: usize = 4;
/// Queries that share one pass over the candidates.
const TASK_QUERIES: usize = 64;
/// Comparisons of two rows between two questions whether to go on: a fraction of a second.
const ASK_AFTER: usize = 100_000_000;
/// Candidates, in lanes, that stay in the cache while the queries of a task meet them.
const CACHED_LANES: usize = 32;

/// Squared differences of larger latents would not fit into `f32`.
const MAX_MAGNITUDE: f32 = 1e16;

/// How to build a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphOptions {
    /// Neighbours of each row (fewer where there are not that many other rows).
    pub neighbours: usize,
    /// Above this many rows a uniform sample of this many makes the graph: the time grows with
    /// the square.
    pub max_rows: usize,
}

impl Default for GraphOptions {
    fn default() -> Self {
        Self { neighbours: 10, max_rows: 100_000 }
    }
}

/// Which rows lie next to which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// The row of each node, rising. `[n]`
    pub rows: Vec<u32>,
    /// The nodes (places in `rows`) nearest to each node, nearest first; of equally near ones the
    /// smaller first; never the node itself. `[n, k]`
    pub neighbours: Vec<u32>,
    /// k
    pub n_neighbours: usize,
}

impl Graph {
    /// Builds the graph of `latents`; `key` draws the sample where there are too many rows.
    ///
    /// # Shapes
    /// - latents: `[N, J]`
    pub fn build(latents: &[f32], n_latent: usize, options: &GraphOptions, key: Key) -> Result<Self> {
        Self::build_asking(latents, n_latent, options, key, &mut || Ok(()))
    }

    /// The same, asking now and then whether to go on.
    pub(crate) fn build_asking(
        latents: &[f32],
        n_latent: usize,
        options: &GraphOptions,
        key: Key,
        ask: Ask<'_>,
    ) -> Result<Self> {
        let n_rows = check_latents(latents, n_latent)?;
        if options.neighbours == 0 {
            return Err(Error::setting("neighbours", 0, "must be at least 1"));
        }
        let n_nodes = n_rows.min(options.max_rows);
        if n_nodes < 2 {
            return Err(Error::data(
                "latents",
                format!("{n_nodes} rows make no graph: at least 2 are needed"),
            ));
        }
        if let Some(place) = latents.iter().position(|z| z.abs() > MAX_MAGNITUDE) {
            let problem =
                format!("row {} has {:e}, too large for a distance", place / n_latent, latents[place]);
            return Err(Error::data("latents", problem));
        }
        let rows = sample_rows(n_rows, n_nodes, key);
        let n_neighbours = options.neighbours.min(n_nodes - 1);
        let points = Points::new(latents, n_latent, &rows);
        let n_tasks = n_nodes.div_ceil(TASK_QUERIES);
        let at_once = (ASK_AFTER / (TASK_QUERIES * n_nodes)).max(1);
        let mut neighbours = Vec::with_capacity(n_nodes * n_neighbours);
        for first in (0..n_tasks).step_by(at_once) {
            ask()?;
            neighbours.par_extend(
                (first..n_tasks.min(first + at_once))
                    .into_par_iter()
                    .flat_map_iter(|task| run_widest(Nearest { points: &points, task, n_neighbours })),
            );
        }
        Ok(Self { rows, neighbours, n_neighbours })
    }
}

/// The nodes' latents, once by node and once in lanes of candidates.
struct Points {
    n_nodes: usize,
    n_latent: usize,
    /// `[n, J]`
    by_node: Vec<f32>,
    /// `[n / LANES, J, LANES]`; the padding is infinitely far away
    by_lane: Vec<[f32; LANES]>,
}

impl Points {
    fn new(latents: &[f32], n_latent: usize, rows: &[u32]) -> Self {
        let n_nodes = rows.len();
        let mut by_node = Vec::with_capacity(n_nodes * n_latent);
        let mut by_lane = vec![[f32::INFINITY; LANES]; n_nodes.div_ceil(LANES) * n_latent];
        for (node, &row) in rows.iter().enumerate() {
            let z = &latents[row as usize * n_latent..(row as usize + 1) * n_latent];
            by_node.extend_from_slice(z);
            for j in 0..n_latent {
                by_lane[node / LANES * n_latent + j][node % LANES] = z[j];
            }
        }
        Self { n_nodes, n_latent, by_node, by_lane }
    }
}

/// The neighbours of the queries of one task. `[TASK_QUERIES or fewer, k]`
struct Nearest<'a> {
    points: &'a Points,
    task: usize,
    n_neighbours: usize,
}

impl Kernel for Nearest<'_> {
    type Output = Vec<u32>;

    #[inline(always)]
    fn run(self) -> Vec<u32> {
        let points = self.points;
        let n_latent = points.n_latent;
        let first = self.task * TASK_QUERIES;
        let n_queries = TASK_QUERIES.min(points.n_nodes - first);
        let mut lists: Vec<Nearby> =
            (0..n_queries).map(|query| Nearby::new(first + query, self.n_neighbours)).collect();
        for (cached, candidates) in points.by_lane.chunks(CACHED_LANES * n_latent).enumerate() {
            for tile in (0..n_queries).step_by(TILE_QUERIES) {
                // The last tile repeats the last query, whose list is then fed once only.
                let query = |slot: usize| (tile + slot).min(n_queries - 1);
                for (lane_block, columns) in candidates.chunks_exact(n_latent).enumerate() {
                    let mut squares = [[0.0f32; LANES]; TILE_QUERIES];
                    for j in 0..n_latent {
                        for slot in 0..TILE_QUERIES {
                            let z = points.by_node[(first + query(slot)) * n_latent + j];
                            for lane in 0..LANES {
                                let difference = z - columns[j][lane];
                                squares[slot][lane] += difference * difference;
                            }
                        }
                    }
                    let candidate = (cached * CACHED_LANES + lane_block) * LANES;
                    for slot in 0..TILE_QUERIES.min(n_queries - tile) {
                        lists[tile + slot].offer(candidate, &squares[slot]);
                    }
                }
            }
        }
        lists.into_iter().flat_map(|list| list.found.into_iter().map(|(_, node)| node)).collect()
    }
}

/// The nearest candidates so far, nearest first.
struct Nearby {
    node: usize,
    n_neighbours: usize,
    /// Squared distance of the last that is kept; infinite until there are enough.
    farthest: f32,
    found: Vec<(f32, u32)>,
}

impl Nearby {
    fn new(node: usize, n_neighbours: usize) -> Self {
        let found = Vec::with_capacity(n_neighbours + 1);
        Self { node, n_neighbours, farthest: f32::INFINITY, found }
    }

    /// Candidates come in rising order, so an equally far later one never displaces one.
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
            if square < self.farthest && first + lane != self.node {
                let place = self.found.partition_point(|&(nearer, _)| nearer <= square);
                self.found.insert(place, (square, (first + lane) as u32));
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
    use crate::compute::host_simd::{run_at, widths_here};

    #[test]
    fn every_vector_width_gives_the_same_neighbours() {
        let latents: Vec<f32> = (0..200 * 3).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
        let points = Points::new(&latents, 3, &(0..200).collect::<Vec<u32>>());
        let nearest = || Nearest { points: &points, task: 1, n_neighbours: 7 };
        for width in widths_here() {
            assert_eq!(run_at(width, nearest()), nearest().run(), "{width:?}");
        }
    }
}
