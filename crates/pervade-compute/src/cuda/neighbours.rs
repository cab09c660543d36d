//! Nearest neighbours on the device.

use std::ops::Range;

use super::driver::{Arg, Kernel, Launch};
use super::{Cuda, CudaPoints, blocks};
use crate::Result;

/// Nodes per block, as in `kernels/neighbours.cu`.
const NODES: u32 = 64;
/// Shared memory of a block without its lists: a tile of candidates, and their distances to each node.
const TILE_BYTES: u32 = 32 * 8 * 16 + 32 * NODES * 4;
/// The maximum shared memory of a block's lists; longer lists are in global memory, since too few blocks would fit on a
/// multiprocessor.
const MAX_LIST_BYTES: usize = 48 * 1024;

impl Cuda {
    pub(super) fn nearest(
        &self,
        points: &CudaPoints,
        rows: &[u32],
        queries: Range<usize>,
        n_neighbours: usize,
    ) -> Result<Vec<u32>> {
        let (n, j, n_queries) = (rows.len(), points.n_latent, queries.len());
        if n_queries == 0 {
            return Ok(Vec::new());
        }
        assert!(queries.end <= n, "queries among the nodes");
        assert!((1..n).contains(&n_neighbours), "fewer neighbours than nodes");
        assert!(rows.iter().all(|&row| (row as usize) < points.n_rows), "nodes among these rows");
        let groups = j.div_ceil(4);
        let rows_of_nodes = self.driver.upload(rows)?;
        let nodes = self.driver.zeros::<f32>(n * groups * 4)?;
        let launch = Launch {
            kernel: Kernel::NodeLatents,
            grid: (blocks(n * groups * 4, 256), 1, 1),
            threads: 256,
            shared: 0,
        };
        let addresses =
            [points.latents.address(0), rows_of_nodes.address(0), nodes.address(0)].map(Arg::from);
        let sizes = [n, j, groups * 4].map(Arg::from);
        self.driver.launch(launch, &addresses.into_iter().chain(sizes).collect::<Vec<_>>())?;
        let list_bytes = n_neighbours * NODES as usize * 8;
        let in_shared = list_bytes <= MAX_LIST_BYTES;
        let lists =
            if in_shared { None } else { Some(self.driver.zeros::<u32>(2 * n_neighbours * n_queries)?) };
        let found = self.driver.zeros::<u32>(n_queries * n_neighbours)?;
        let launch = Launch {
            kernel: Kernel::Neighbours,
            grid: (blocks(n_queries, NODES), 1, 1),
            threads: NODES,
            shared: TILE_BYTES + if in_shared { list_bytes as u32 } else { 0 },
        };
        let addresses =
            [nodes.address(0), found.address(0), lists.as_ref().map_or(0, |lists| lists.address(0))]
                .map(Arg::from);
        let sizes = [n, groups, n_neighbours, queries.start, n_queries].map(Arg::from);
        self.driver.launch(launch, &addresses.into_iter().chain(sizes).collect::<Vec<_>>())?;
        let mut neighbours = vec![0; n_queries * n_neighbours];
        self.driver.read(&found, 0, &mut neighbours)?;
        Ok(neighbours)
    }
}
