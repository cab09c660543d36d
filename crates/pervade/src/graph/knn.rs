//! The exact k-nearest-neighbour graph.

use crate::compute::Device;
use crate::interrupt::Interrupt;
use crate::memory::{Need, product, require};
use crate::rows::{check_latents, check_magnitude, sample_rows};
use crate::seed::Key;
use crate::{Error, Result};

/// Rows that a search compares at once, at most.
const VECTOR: usize = 16;

/// How to build a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

impl GraphOptions {
    /// The same options after a change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
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
    pub fn build<D: Device>(
        device: &D,
        latents: &[f32],
        n_latent: usize,
        options: &GraphOptions,
        key: Key,
    ) -> Result<Self> {
        // The latents of the nodes twice, once in whole vectors, and the neighbours as they are found and as they are kept.
        let nodes = (latents.len() / n_latent.max(1)).min(options.max_rows).next_multiple_of(VECTOR);
        let need = Need::of("the rows", product(&[2, nodes, n_latent, size_of::<f32>()]))
            .and("neighbours", product(&[3, nodes, options.neighbours.min(nodes), size_of::<u32>()]));
        require("the neighbour graph", &need, "give fewer rows or columns")?;
        Self::build_asking(device, latents, n_latent, options, key, &mut || Ok(()))
    }

    /// The same, asking now and then whether to go on.
    pub(crate) fn build_asking<D: Device>(
        device: &D,
        latents: &[f32],
        n_latent: usize,
        options: &GraphOptions,
        key: Key,
        ask: Interrupt<'_>,
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
        check_magnitude(latents, n_latent)?;
        let rows = sample_rows(n_rows, n_nodes, key);
        let n_neighbours = options.neighbours.min(n_nodes - 1);
        let mut stopped = None;
        let mut keep_going = || match ask() {
            Ok(()) => true,
            Err(error) => {
                stopped = Some(error);
                false
            }
        };
        let points = device.points(latents, n_latent)?;
        let found = device.neighbours(&points, &rows, n_neighbours, &mut keep_going);
        let neighbours = match stopped {
            Some(error) => return Err(error),
            None => found?,
        };
        Ok(Self { rows, neighbours, n_neighbours })
    }
}
