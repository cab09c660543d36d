//! Weight gradients of many restarts and small batches on Hopper, for all layers at the end of a step
//! (`kernels/weights.cu`).
//!
//! On side streams they would only compete with the chain of input gradients: with many restarts each kernel occupies
//! the whole device.

use std::ops::Range;

use super::super::driver::{Arg, Driver, Kernel, Launch, Map, MappedMatrix, StreamId};
use super::{Cuda, Epilogue, Product, Result};

/// The maximum number of rows of a batch, and the side of a tile.
const MAX_ROWS: u32 = 104;
const TILE: u32 = 64;
/// Stages of parameters and moments in flight, and buffers for the factors of products.
const STAGES: u32 = 3;
const FACTORS: u32 = 3;
pub(in super::super) const SHARED: u32 =
    1024 + (STAGES * 3 * TILE + FACTORS * MAX_ROWS) * 4 * TILE + 8 * (3 * STAGES + 5);
const THREADS: u32 = 320;
/// The number of restarts from which deferring is faster: fewer leave room for the chain.
const MIN_RESTARTS: usize = 4;
/// Layers per launch: as many as fit into a kernel's arguments.
const MAX_LAYERS: usize = 7;

/// Weight updates that are deferred to the end of a recorded step.
#[derive(Default)]
pub(in super::super) struct DeferredUpdates {
    products: Vec<Product>,
    restarts: usize,
}

impl DeferredUpdates {
    /// Whether there are updates for a different number of restarts.
    fn has_other_restarts(&self, restarts: usize) -> bool {
        !self.products.is_empty() && self.restarts != restarts
    }

    /// The addresses of the weights that they write.
    pub(in super::super) fn writes(&self) -> impl Iterator<Item = Range<u64>> {
        self.products.iter().map(Product::writes)
    }
}

/// The struct of the same name in `kernels/weights.cu`.
#[repr(C, align(128))]
#[derive(Clone, Copy)]
struct Layer {
    /// Tensor maps of both factors and of the parameters.
    maps: [Map; 3],
    moments: [u64; 2],
    bias: [u64; 3],
    stride: u64,
    rows: u32,
    columns: u32,
    inner: u32,
    group: u32,
    first_tile: u32,
    row_tiles: u32,
    column_tiles: u32,
    epsilon: f32,
    beta1: f32,
}

/// The struct of the same name in `kernels/weights.cu`.
#[repr(C)]
struct Updates {
    layers: [Layer; MAX_LAYERS],
    n_layers: u32,
    n_tiles: u32,
    clock: u64,
}

const _: () = assert!(size_of::<Updates>() == 3712, "as in `kernels/weights.cu`");

impl Layer {
    fn new(p: &Product, restarts: usize, first_tile: u32) -> Result<Self> {
        let [rows, columns, inner] = [p.rows, p.columns, p.inner].map(|n| n as usize);
        let factor = |at, n_columns, stride: u64| {
            let strides = [n_columns, stride as usize];
            Driver::map(&MappedMatrix {
                at,
                size: [n_columns, inner, restarts],
                strides,
                tile_rows: MAX_ROWS,
            })
        };
        let strides = [p.c_ld as usize, p.c_stride as usize];
        let w = Driver::map(&MappedMatrix {
            at: p.c,
            size: [columns, rows, restarts],
            strides,
            tile_rows: TILE,
        })?;
        let (x, dy) = (factor(p.a, rows, p.a_stride)?, factor(p.b, columns, p.b_stride)?);
        Ok(Self {
            maps: [x, dy, w],
            moments: [p.m, p.v],
            bias: [p.sums, p.sums_m, p.sums_v],
            stride: p.c_stride,
            rows: p.rows,
            columns: p.columns,
            inner: p.inner,
            group: p.group,
            first_tile,
            row_tiles: p.rows.div_ceil(TILE),
            column_tiles: p.columns.div_ceil(TILE),
            epsilon: p.epsilon,
            beta1: p.beta1,
        })
    }
}

impl Updates {
    fn new(products: &[Product], restarts: usize) -> Result<Self> {
        let mut n_tiles = 0;
        let mut layers = Vec::with_capacity(MAX_LAYERS);
        for p in products {
            let layer = Layer::new(p, restarts, n_tiles)?;
            n_tiles += layer.row_tiles * layer.column_tiles * restarts as u32;
            layers.push(layer);
        }
        let n_layers = layers.len() as u32;
        // The kernel ignores the entries beyond `n_layers`.
        let layers = std::array::from_fn(|i| layers[i.min(layers.len() - 1)]);
        Ok(Self { layers, n_layers, n_tiles, clock: products[0].clock })
    }
}

impl Cuda {
    /// Defers a weight update to the end of the step, if one is being recorded and the update is suitable.
    pub(super) fn defer(&self, p: &mut Product, restarts: usize) -> Result<bool> {
        p.set_c_wide();
        let wide = p.a_wide & p.b_wide & p.c_wide == 1;
        let fits = p.epilogue == Epilogue::Adam && p.inner <= MAX_ROWS && wide && self.driver.is_hopper();
        if !fits || restarts < MIN_RESTARTS || self.state().is_none() {
            return Ok(false);
        }
        let has_others =
            self.state().as_ref().is_some_and(|recorded| recorded.deferred.has_other_restarts(restarts));
        if has_others {
            self.sync_all_pending()?;
        }
        self.sync_pending(&p.writes())?;
        if let Some(recorded) = &mut *self.state() {
            recorded.deferred.restarts = restarts;
            recorded.deferred.products.push(*p);
        }
        Ok(true)
    }

    /// Launches the deferred updates.
    pub(in super::super) fn launch_deferred(&self) -> Result<()> {
        let Some(mut deferred) = self.state().as_mut().map(|recorded| std::mem::take(&mut recorded.deferred))
        else {
            return Ok(());
        };
        // The weights that were read last are still in the cache; those of the last layer are needed first.
        if let Some((_, others)) = deferred.products.split_last_mut() {
            others.reverse();
        }
        // Alternates between two streams: a launch can start while the last blocks of the one before still run.
        let second =
            deferred.products.get(MAX_LAYERS).map_or(Ok(StreamId::Main), |p| self.fork_update(p.writes()))?;
        for (i, products) in deferred.products.chunks(MAX_LAYERS).enumerate() {
            let layers = Updates::new(products, deferred.restarts)?;
            let launch = Launch {
                kernel: Kernel::UpdateWeights,
                grid: (self.driver.n_processors().min(layers.n_tiles), 1, 1),
                threads: THREADS,
                shared: SHARED,
            };
            let stream = if i % 2 == 1 { second } else { StreamId::Main };
            self.driver.launch_on(stream, launch, &[Arg::of(&layers)])?;
        }
        Ok(())
    }
}
