//! The exact k-nearest-neighbour graph.

use crate::compute::{Alone, Device, Ranks};
use crate::interrupt::Interrupt;
use crate::memory::{Need, product, require};
use crate::ranks::{gather_parts, part_of};
use crate::rows::{check_latents, check_magnitude, sample_rows};
use crate::seed::Key;
use crate::{Error, Result};
use rayon::prelude::*;

/// Maximum number of rows that a search compares at once.
const VECTOR: usize = 16;

/// Options for building a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphOptions {
    /// Neighbours per row (fewer if there are not that many other rows).
    pub neighbours: usize,
    /// Above this many rows, the graph is built on a uniform sample of this many, because time grows quadratically.
    pub max_rows: usize,
}

impl Default for GraphOptions {
    fn default() -> Self {
        Self { neighbours: 10, max_rows: 100_000 }
    }
}

impl GraphOptions {
    /// Applies a change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// A k-nearest-neighbour graph of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// The row of each node, in increasing order. `[n]`
    pub rows: Vec<u32>,
    /// The nodes (indices into `rows`) nearest to each node, nearest first; ties go to the smaller index; never the
    /// node itself. `[n, k]`
    pub neighbours: Vec<u32>,
    /// k
    pub n_neighbours: usize,
    /// The nodes nearest to each row that is not a node, in the order of the rows; empty if they were not searched for.
    /// `[N - n, k]`
    pub others: Vec<u32>,
}

/// Rows between two checks for an interrupt.
const BLOCK: usize = 4096;

/// Positions of the `k` smallest distances, smallest first; ties go to the smaller position.
fn nearest(distances: &[f32], k: usize) -> impl Iterator<Item = u32> {
    let mut best: Vec<(f32, u32)> = Vec::with_capacity(k + 1);
    let mut limit = f32::INFINITY;
    for (position, &distance) in distances.iter().enumerate() {
        if distance < limit || best.len() < k {
            best.insert(best.partition_point(|&(d, _)| d <= distance), (distance, position as u32));
            best.truncate(k);
            if best.len() == k {
                limit = best[k - 1].0;
            }
        }
    }
    best.into_iter().map(|(_, position)| position)
}

impl Graph {
    /// The rows nearest to each of `n_rows` rows: `[N, k]`. Rows without neighbours are their own.
    pub(crate) fn lists(&self, n_rows: usize) -> Vec<u32> {
        let k = self.n_neighbours;
        let mut lists: Vec<u32> = (0..n_rows as u32).flat_map(|row| std::iter::repeat_n(row, k)).collect();
        let mut set = |row: usize, nodes: &[u32]| {
            let rows = nodes.iter().map(|&node| self.rows[node as usize]);
            lists[row * k..(row + 1) * k].iter_mut().zip(rows).for_each(|(to, row)| *to = row);
        };
        for (&row, nodes) in self.rows.iter().zip(self.neighbours.chunks_exact(k)) {
            set(row as usize, nodes);
        }
        let mut is_node = vec![false; n_rows];
        self.rows.iter().for_each(|&row| is_node[row as usize] = true);
        let others = (0..n_rows).filter(|&row| !is_node[row]);
        others.zip(self.others.chunks_exact(k)).for_each(|(row, nodes)| set(row, nodes));
        lists
    }

    /// The graph of the nodes alone, which are its rows.
    pub(crate) fn of_nodes(&self) -> Self {
        Self { rows: (0..self.rows.len() as u32).collect(), others: Vec::new(), ..self.clone() }
    }

    /// The latents of the nodes. `[n, J]`
    pub(crate) fn of_rows(&self, latents: &[f32], n_latent: usize) -> Vec<f32> {
        let of = |&row: &u32| &latents[row as usize * n_latent..][..n_latent];
        self.rows.iter().flat_map(of).copied().collect()
    }

    /// Searches for the nodes nearest to the rows that are not nodes; each rank searches for some.
    ///
    /// # Shapes
    /// - latents: `[N, J]`
    pub(crate) fn search_others(
        &mut self,
        latents: &[f32],
        n_latent: usize,
        ranks: &dyn Ranks,
        interrupt: Interrupt<'_>,
    ) -> Result<()> {
        let (n_nodes, k) = (self.rows.len(), self.n_neighbours);
        let mut is_node = vec![false; latents.len() / n_latent];
        self.rows.iter().for_each(|&row| is_node[row as usize] = true);
        // Column by column, so that distances to many nodes are computed side by side.
        let columns: Vec<Vec<f32>> = (0..n_latent)
            .map(|j| self.rows.iter().map(|&row| latents[row as usize * n_latent + j]).collect())
            .collect();
        let others: Vec<usize> = (0..is_node.len()).filter(|&row| !is_node[row]).collect();
        let own = part_of(ranks, others.len());
        let mut nearest_nodes = Vec::with_capacity(own.len() * k);
        for block in others[own].chunks(BLOCK) {
            let found = block.par_iter().map_init(
                || vec![0.0f32; n_nodes],
                |distances, &row| {
                    distances.fill(0.0);
                    for (column, &z) in columns.iter().zip(&latents[row * n_latent..(row + 1) * n_latent]) {
                        distances.iter_mut().zip(column).for_each(|(d, &x)| *d += (x - z) * (x - z));
                    }
                    nearest(distances, k).collect::<Vec<u32>>()
                },
            );
            nearest_nodes.extend(found.collect::<Vec<_>>().into_iter().flatten());
            interrupt()?;
        }
        self.others = gather_parts(ranks, nearest_nodes, others.len(), k)?;
        Ok(())
    }

    /// Builds the graph of `latents`; `key` draws the sample if there are too many rows.
    ///
    /// # Shapes
    /// - latents: `[N, J]`
    pub fn build<D: Device>(
        device: &D,
        latents: &[f32],
        n_latent: usize,
        options: &GraphOptions,
        key: Key,
    ) -> Result<Self> {
        // The latents of the nodes twice, once in whole vectors, and the neighbours as found and as stored.
        let nodes = (latents.len() / n_latent.max(1)).min(options.max_rows).next_multiple_of(VECTOR);
        let need = Need::of("the rows", product(&[2, nodes, n_latent, size_of::<f32>()]))
            .and("neighbours", product(&[3, nodes, options.neighbours.min(nodes), size_of::<u32>()]));
        require("the neighbour graph", &need, "give fewer rows or columns")?;
        Self::build_on_ranks(device, &Alone, latents, n_latent, options, key, &mut || Ok(()))
    }

    /// Like [`Graph::build`], where each rank searches for the neighbours of some nodes; calls `interrupt` from time to time
    /// to check for an interrupt.
    pub(crate) fn build_on_ranks<D: Device>(
        device: &D,
        ranks: &dyn Ranks,
        latents: &[f32],
        n_latent: usize,
        options: &GraphOptions,
        key: Key,
        interrupt: Interrupt<'_>,
    ) -> Result<Self> {
        let n_rows = check_latents(latents, n_latent)?;
        if options.neighbours == 0 {
            return Err(Error::setting("neighbours", 0, "must be at least 1"));
        }
        let n_nodes = n_rows.min(options.max_rows);
        if n_nodes < 2 {
            return Err(Error::data(
                "latents",
                format!("{n_nodes} rows are too few for a graph: at least 2 are needed"),
            ));
        }
        check_magnitude(latents, n_latent)?;
        let rows = sample_rows(n_rows, n_nodes, key);
        let n_neighbours = options.neighbours.min(n_nodes - 1);
        let mut stopped = None;
        let mut keep_going = || match interrupt() {
            Ok(()) => true,
            Err(error) => {
                stopped = Some(error);
                false
            }
        };
        let points = device.points(latents, n_latent)?;
        let found = device.neighbours(&points, &rows, part_of(ranks, n_nodes), n_neighbours, &mut keep_going);
        let own = match stopped {
            Some(error) => return Err(error),
            None => found?,
        };
        let neighbours = gather_parts(ranks, own, n_nodes, n_neighbours)?;
        Ok(Self { rows, neighbours, n_neighbours, others: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::Cpu;
    use crate::seed::Stream;

    /// Rows that are not nodes have the nearest nodes as neighbours, as a search row by row finds them.
    #[test]
    fn every_row_has_neighbours_on_the_graph_of_a_sample() {
        let (n, j, k) = (60, 3, 4);
        let key = Key::new(1, Stream::Sample, 0);
        let latents: Vec<f32> = (0..n * j).map(|i| key.uniform(i as u64, 0, 0) as f32).collect();
        let options = GraphOptions { neighbours: k, max_rows: 25 };
        let mut graph = Graph::build(&Cpu::new(), &latents, j, &options, key).unwrap();
        graph.search_others(&latents, j, &Alone, &mut || Ok(())).unwrap();
        assert_eq!(graph.others.len(), (n - 25) * k);
        let lists = graph.lists(n);
        for (row, found) in lists.chunks(k).enumerate() {
            let square = |other: u32| -> f64 {
                let of = |row: usize| &latents[row * j..(row + 1) * j];
                of(row).iter().zip(of(other as usize)).map(|(a, b)| f64::from(a - b).powi(2)).sum()
            };
            let mut nodes: Vec<u32> =
                graph.rows.iter().copied().filter(|&node| node as usize != row).collect();
            nodes.sort_by(|a, b| square(*a).total_cmp(&square(*b)));
            assert_eq!(found, &nodes[..k], "row {row}");
        }
    }

    /// A row of a graph without the others is paired with itself.
    #[test]
    fn rows_that_were_not_searched_for_are_their_own_neighbours() {
        let graph = Graph { rows: vec![0, 2], neighbours: vec![1, 0], n_neighbours: 1, others: Vec::new() };
        assert_eq!(graph.lists(4), [2, 1, 0, 3]);
    }
}
