//! The exact k-nearest-neighbour graph.

use crate::compute::Device;
use crate::interrupt::Interrupt;
use crate::memory::{Need, product, require};
use crate::rows::{check_latents, check_magnitude, sample_rows};
use crate::seed::Key;
use crate::{Error, Result};

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
}

impl Graph {
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
        Self::build_with_interrupt(device, latents, n_latent, options, key, &mut || Ok(()))
    }

    /// Like [`Graph::build`], calling `interrupt` from time to time to check for an interrupt.
    pub(crate) fn build_with_interrupt<D: Device>(
        device: &D,
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
        let found = device.neighbours(&points, &rows, n_neighbours, &mut keep_going);
        let neighbours = match stopped {
            Some(error) => return Err(error),
            None => found?,
        };
        Ok(Self { rows, neighbours, n_neighbours })
    }
}
