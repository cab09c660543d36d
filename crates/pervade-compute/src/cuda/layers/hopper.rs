//! Forward products and input gradients of many restarts or rows on Hopper (`kernels/hopper.cu`).

use super::super::driver::{Arg, Driver, Kernel, Launch, MappedMatrix};
use super::{Cuda, Product, Result};

/// The tile of a cluster, threads per block and shared memory in bytes.
const ROWS: u32 = 104;
const COLUMNS: u32 = 192;
const THREADS: u32 = 512;
pub(in super::super) const SHARED: u32 = 1024 + 4 * (ROWS + COLUMNS) * 128 + 12 * 8;

/// The k of one step, and the maximum number of steps that a block adds up: the tensor cores drop bits at each
/// addition.
const STEP: u32 = 32;
const MAX_K_STEPS: u32 = 32;
/// The maximum number of blocks that split k, and the maximum if only to occupy all multiprocessors.
const MAX_BLOCKS: u32 = 8;
const FILLING_BLOCKS: u32 = 4;

impl Cuda {
    /// The number of blocks per cluster, if the product has enough tiles for these kernels to be faster.
    pub(super) fn cluster_for(&self, p: &Product, restarts: u32) -> Option<u32> {
        let n_tiles = p.columns.div_ceil(COLUMNS) * p.rows.div_ceil(ROWS) * restarts;
        let n_processors = self.driver.n_processors();
        let n_steps = p.inner.div_ceil(STEP);
        let needed = n_steps.div_ceil(MAX_K_STEPS);
        let wide = p.a_wide & p.b_wide & p.c_wide == 1;
        let worth = 11 * n_tiles >= n_processors && 2 * p.columns >= COLUMNS;
        (self.driver.is_hopper() && wide && worth && needed <= MAX_BLOCKS)
            .then(|| needed.max((n_processors / n_tiles).clamp(1, FILLING_BLOCKS)).min(n_steps))
    }

    /// The product, with B stored [N, K] if `transposed`; the `n_blocks` blocks of a cluster split k.
    pub(super) fn product_on_hopper(
        &self,
        p: &Product,
        transposed: bool,
        restarts: usize,
        n_blocks: u32,
    ) -> Result<()> {
        let [n_rows, n_columns, inner] = [p.rows, p.columns, p.inner].map(|n| n as usize);
        let rows = Driver::map(&MappedMatrix {
            at: p.a,
            size: [inner, n_rows, restarts],
            strides: [p.a_ld as usize, p.a_stride as usize],
            tile_rows: ROWS,
        })?;
        let (size, tile_rows) =
            if transposed { ([inner, n_columns], COLUMNS) } else { ([n_columns, inner], STEP) };
        let weights = Driver::map(&MappedMatrix {
            at: p.b,
            size: [size[0], size[1], restarts],
            strides: [p.b_ld as usize, p.b_stride as usize],
            tile_rows,
        })?;
        let launch = Launch {
            kernel: if transposed { Kernel::ManyProductTransposedB } else { Kernel::ManyProduct },
            grid: (p.columns.div_ceil(COLUMNS) * n_blocks, p.rows.div_ceil(ROWS), restarts as u32),
            threads: THREADS,
            shared: SHARED,
        };
        self.driver.launch_cluster(launch, n_blocks, &[Arg::of(p), Arg::of(&rows), Arg::of(&weights)])
    }
}
