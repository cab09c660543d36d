//! Affine layers and their gradients: one family of kernels for three layouts.

mod deferred;
mod hopper;

pub(super) use deferred::{DeferredUpdates, SHARED as WEIGHTS_SHARED};
pub(super) use hopper::SHARED as HOPPER_SHARED;

use std::ops::Range;

use super::driver::{Arg, Kernel, Launch, StreamId};
use super::{Cuda, CudaBuffer, M, blocks, elementwise};
use crate::{Activation, AdamStep, Affine, Draw, Layers, Params, Result, inverse_root, step_size};

/// What is applied to the product before it is stored; the codes are those of `kernels/product.cu`.
#[derive(Clone, Copy, Default, PartialEq)]
#[repr(u32)]
enum Epilogue {
    #[default]
    Store = 0,
    Bias = 1,
    BiasRelu = 2,
    Mask = 3,
    Adam = 4,
}

/// The struct of the same name in `kernels/product.cu`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Product {
    a: u64,
    b: u64,
    c: u64,
    extra: u64,
    m: u64,
    v: u64,
    sums: u64,
    sums_m: u64,
    sums_v: u64,
    a_stride: u64,
    b_stride: u64,
    c_stride: u64,
    extra_stride: u64,
    sums_stride: u64,
    rows: u32,
    columns: u32,
    inner: u32,
    a_ld: u32,
    b_ld: u32,
    c_ld: u32,
    a_wide: u32,
    b_wide: u32,
    c_wide: u32,
    epilogue: Epilogue,
    group: u32,
    unused: u32,
    clock: u64,
    step_size: f32,
    inverse_root: f32,
    epsilon: f32,
    beta1: f32,
}

/// A kernel with its tile of C, threads per block and shared memory in bytes (see `kernels/product.cu`).
#[derive(Clone, Copy)]
struct KernelShape {
    kernel: Kernel,
    tile: [u32; 2],
    threads: u32,
    shared: u32,
}

const fn small(kernel: Kernel) -> KernelShape {
    KernelShape { kernel, tile: [16, 32], threads: 256, shared: 72_960 }
}

const fn medium(kernel: Kernel) -> KernelShape {
    KernelShape { kernel, tile: [32, 32], threads: 256, shared: 94_720 }
}

const fn large(kernel: Kernel) -> KernelShape {
    KernelShape { kernel, tile: [64, 32], threads: 256, shared: 57_344 }
}

/// The kernel for a small k (`kernels/thin.cu`), and the largest k.
const THIN: KernelShape = KernelShape { kernel: Kernel::Thin, tile: [25, 128], threads: 128, shared: 0 };
const THIN_INNER: u32 = 16;
/// The same for weight gradients, and the largest batch for which it is faster.
const THIN_WEIGHTS: KernelShape =
    KernelShape { kernel: Kernel::ThinWeights, tile: [16, 32], threads: 128, shared: 0 };
const THIN_BATCH: u32 = 256;

impl KernelShape {
    fn grid(self, p: &Product, restarts: usize) -> (u32, u32, u32) {
        (p.columns.div_ceil(self.tile[1]), p.rows.div_ceil(self.tile[0]), restarts as u32)
    }

    fn launch(self, grid: (u32, u32, u32)) -> Launch {
        Launch { kernel: self.kernel, grid, threads: self.threads, shared: self.shared }
    }
}

/// Threads of a block of `dropout`.
const DROPOUT_THREADS: u32 = 128;

/// The kernels for few, more and many blocks.
type Family = [KernelShape; 3];
const PLAIN: Family =
    [small(Kernel::ProductSmall), medium(Kernel::ProductMedium), large(Kernel::ProductLarge)];
const TRANSPOSED_B: Family = [
    small(Kernel::ProductTransposedBSmall),
    medium(Kernel::ProductTransposedBMedium),
    large(Kernel::ProductTransposedBLarge),
];
/// The small kernels in which the blocks of a cluster split k: at least a few steps of 64 each.
const SHARED_K: [Kernel; 2] = [Kernel::ProductCluster, Kernel::ProductTransposedBCluster];
const MIN_STEPS_EACH: u32 = 4;
const MIN_SHARES: u32 = 3;
const MAX_SHARES: u32 = 8;
const TRANSPOSED_A: Family =
    [KernelShape { kernel: Kernel::ProductTransposedA, tile: [64, 64], threads: 128, shared: 55_296 }; 3];

impl Product {
    /// The factors as row-major matrices: address, columns, and the stride from restart to restart.
    fn factors(a: (u64, usize, usize), b: (u64, usize, usize)) -> Self {
        Self {
            a: a.0,
            a_ld: a.1 as u32,
            a_stride: a.2 as u64,
            a_wide: wide(a),
            b: b.0,
            b_ld: b.1 as u32,
            b_stride: b.2 as u64,
            b_wide: wide(b),
            ..Self::default()
        }
    }

    /// The addresses of C of the first restart.
    fn writes(&self) -> Range<u64> {
        self.c..self.c + 4 * u64::from(self.rows) * u64::from(self.c_ld)
    }

    /// Sets whether C and the buffers of its shape can be accessed 16 bytes at a time.
    fn set_c_wide(&mut self) {
        let at = self.c | self.extra | self.m | self.v;
        self.c_wide = wide((at, self.c_ld as usize, (self.c_stride | self.extra_stride) as usize));
    }
}

/// Whether a matrix can be accessed 16 bytes at a time: its rows and restarts are aligned to 16 bytes.
fn wide((at, ld, stride): (u64, usize, usize)) -> u32 {
    u32::from(at.is_multiple_of(16) && ld.is_multiple_of(4) && stride.is_multiple_of(4))
}

/// A matrix as a factor: address, columns, and the stride from restart to restart.
fn factor(x: &M) -> (u64, usize, usize) {
    (x.data.address(0), x.columns, x.stride())
}

/// A layer's weight as a factor.
fn weight(params: &Params<CudaBuffer>, layer: Affine) -> (u64, usize, usize) {
    (params.values.address(layer.weight.offset), layer.weight.columns, params.stride)
}

impl Cuda {
    /// A op(B), where B are weights, stored [K, N], or [N, K] if `transposed`.
    fn rows_by_weights(&self, transposed: bool, p: &mut Product, restarts: usize) -> Result<()> {
        p.set_c_wide();
        self.sync_pending(&(p.b..p.b + 1))?;
        if p.inner <= THIN_INNER && !transposed {
            return self.driver.launch(THIN.launch(THIN.grid(p, restarts)), &[Arg::of(&*p)]);
        }
        if let Some(n_blocks) = self.cluster_for(p, restarts as u32) {
            return self.product_on_hopper(p, transposed, restarts, n_blocks);
        }
        if let Some(n_shares) = self.blocks_per_k(p, restarts) {
            let shape = small(SHARED_K[usize::from(transposed)]);
            let (x, y, z) = shape.grid(p, restarts);
            let launch = shape.launch((x * n_shares, y, z));
            return self.driver.launch_cluster(launch, n_shares, &[Arg::of(&*p)]);
        }
        self.product(if transposed { TRANSPOSED_B } else { PLAIN }, p, restarts, StreamId::Main)
    }

    /// How many blocks split k, if there are few tiles and k is large: two blocks per multiprocessor, or three if two
    /// would be too few to split k.
    fn blocks_per_k(&self, p: &Product, restarts: usize) -> Option<u32> {
        let (x, y, z) = small(SHARED_K[0]).grid(p, restarts);
        let most = MAX_SHARES.min(p.inner.div_ceil(64) / MIN_STEPS_EACH);
        let n_shares = |each: u32| most.min(each * self.driver.n_processors() / (x * y * z).max(1));
        [2, 3].map(n_shares).into_iter().find(|&n| self.driver.is_hopper() && n >= MIN_SHARES)
    }

    fn product(&self, family: Family, p: &mut Product, restarts: usize, stream: StreamId) -> Result<()> {
        p.set_c_wide();
        let [_, medium, large] = family.map(|shape| {
            let (x, y, z) = shape.grid(p, restarts);
            x * y * z
        });
        // Large tiles read less, medium ones too if they run all at once; small tiles occupy every multiprocessor, if k is
        // large enough to be split.
        let n_processors = self.driver.n_processors();
        let is_short = p.inner <= 64;
        let shape = if !is_short && 10 * large < 9 * n_processors {
            family[0]
        } else if !is_short && self.driver.is_hopper() && medium <= 2 * n_processors {
            family[1]
        } else {
            family[2]
        };
        self.driver.launch_on(stream, shape.launch(shape.grid(p, restarts)), &[Arg::of(&*p)])
    }

    fn apply_dropout(&self, draw: Draw<'_>, rate: f32, from: u64, y: &mut M) -> Result<()> {
        let (keys, clock, step) = self.draw_arguments(draw);
        let threshold = (f64::from(rate) * 4_294_967_296.0) as u32;
        let launch = Launch {
            kernel: Kernel::Dropout,
            grid: (blocks(y.rows * y.columns.div_ceil(4), DROPOUT_THREADS), y.restarts as u32, 1),
            threads: DROPOUT_THREADS,
            shared: 0,
        };
        let args = [
            Arg::of(&keys),
            clock.into(),
            step.into(),
            threshold.into(),
            (1.0 / (1.0 - rate)).into(),
            from.into(),
            y.data.address(0).into(),
            y.rows.into(),
            y.columns.into(),
        ];
        self.driver.launch(launch, &args)
    }

    /// The arguments of kernels that take Adam's step.
    pub(super) fn adam_arguments(&self, step: &AdamStep, beta1: f32) -> [Arg<'static>; 6] {
        [
            self.clock().0.into(),
            step.group.into(),
            step_size(step.step, step.learning_rate, beta1).into(),
            inverse_root(step.step).into(),
            step.epsilon.into(),
            beta1.into(),
        ]
    }
}

/// The kernels' code of an activation, and its slope; `None` for the identity.
fn activation_code(activation: Activation) -> Option<(u32, f32)> {
    match activation {
        Activation::Linear => None,
        Activation::Relu => Some((0, 0.0)),
        Activation::LeakyRelu { slope } => Some((0, slope)),
        Activation::Sigmoid => Some((1, 0.0)),
    }
}

impl Layers for Cuda {
    fn affine(
        &self,
        params: &Params<CudaBuffer>,
        layer: Affine,
        x: &M,
        activation: Activation,
        y: &mut M,
    ) -> Result<()> {
        let mut p = Product {
            c: y.data.address(0),
            c_ld: y.columns as u32,
            c_stride: y.stride() as u64,
            extra: params.values.address(layer.bias.offset),
            extra_stride: params.stride as u64,
            rows: x.rows as u32,
            columns: y.columns as u32,
            inner: x.columns as u32,
            epilogue: if activation == Activation::Relu { Epilogue::BiasRelu } else { Epilogue::Bias },
            ..Product::factors(factor(x), weight(params, layer))
        };
        self.rows_by_weights(false, &mut p, x.restarts)?;
        if activation == Activation::Relu { Ok(()) } else { self.activate(activation, y) }
    }

    fn affine_backward_input(
        &self,
        params: &Params<CudaBuffer>,
        layer: Affine,
        dy: &M,
        relu_output: Option<&M>,
        dx: &mut M,
    ) -> Result<()> {
        let mut p = Product {
            c: dx.data.address(0),
            c_ld: dx.columns as u32,
            c_stride: dx.stride() as u64,
            extra: relu_output.map_or(0, |x| x.data.address(0)),
            extra_stride: dx.stride() as u64,
            rows: dy.rows as u32,
            columns: dx.columns as u32,
            inner: dy.columns as u32,
            epilogue: if relu_output.is_some() { Epilogue::Mask } else { Epilogue::Store },
            ..Product::factors(factor(dy), weight(params, layer))
        };
        self.rows_by_weights(true, &mut p, dy.restarts)
    }

    // Within a recorded step this runs concurrently with what follows, or after it: nothing else in the step needs its
    // result.
    fn affine_backward_weights(
        &self,
        params: &mut Params<CudaBuffer>,
        layer: Affine,
        x: &M,
        dy: &M,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        let (w, b) = (layer.weight.offset, layer.bias.offset);
        let to = if update.is_some() { &params.values } else { &params.gradients };
        let mut p = Product {
            c: to.address(w),
            c_ld: layer.weight.columns as u32,
            c_stride: params.stride as u64,
            sums: to.address(b),
            sums_stride: params.stride as u64,
            rows: x.columns as u32,
            columns: dy.columns as u32,
            inner: x.rows as u32,
            ..Product::factors(factor(x), factor(dy))
        };
        if let Some(step) = update {
            let (clock, _) = self.clock();
            p.epilogue = Epilogue::Adam;
            p.group = step.group as u32;
            p.clock = clock;
            p.step_size = step_size(step.step, step.learning_rate, params.beta1);
            p.inverse_root = inverse_root(step.step);
            p.epsilon = step.epsilon;
            p.beta1 = params.beta1;
            [p.m, p.sums_m] = [w, b].map(|at| params.first_moments.address(at));
            [p.v, p.sums_v] = [w, b].map(|at| params.second_moments.address(at));
        }
        if self.defer(&mut p, x.restarts)? {
            return Ok(());
        }
        let stream = self.fork_update(p.writes())?;
        if p.rows <= THIN_INNER && p.inner <= THIN_BATCH {
            let launch = THIN_WEIGHTS.launch(THIN_WEIGHTS.grid(&p, x.restarts));
            return self.driver.launch_on(stream, launch, &[Arg::of(&p)]);
        }
        self.product(TRANSPOSED_A, &mut p, x.restarts, stream)
    }

    fn activate(&self, activation: Activation, x: &mut M) -> Result<()> {
        let Some((kind, slope)) = activation_code(activation) else { return Ok(()) };
        let n = x.restarts * x.stride();
        let args = [kind.into(), slope.into(), Arg::from(x.data.address(0)), n.into()];
        self.driver.launch(elementwise(Kernel::Activate, n), &args)
    }

    fn activate_backward(&self, activation: Activation, y: &M, dy: &mut M) -> Result<()> {
        let Some((kind, slope)) = activation_code(activation) else { return Ok(()) };
        let n = y.restarts * y.stride();
        assert_eq!(n, dy.restarts * dy.stride(), "a gradient for each element");
        let addresses = [y.data.address(0), dy.data.address(0)].map(Arg::from);
        let args: Vec<Arg<'_>> =
            [kind.into(), slope.into()].into_iter().chain(addresses).chain([n.into()]).collect();
        self.driver.launch(elementwise(Kernel::ActivateBackward, n), &args)
    }

    fn dropout(&self, draw: Draw<'_>, rate: f32, x: &M, y: &mut M) -> Result<()> {
        self.apply_dropout(draw, rate, x.data.address(0), y)
    }

    fn dropout_backward(&self, draw: Draw<'_>, rate: f32, dy: &mut M) -> Result<()> {
        self.apply_dropout(draw, rate, dy.data.address(0), dy)
    }

    fn average(&self, from: &CudaBuffer, into: &mut CudaBuffer) -> Result<()> {
        self.sync_all_pending()?;
        let n = into.len();
        let launch =
            Launch { kernel: Kernel::Average, grid: (blocks(n, 256), 1, 1), threads: 256, shared: 0 };
        self.driver.launch(launch, &[from.address(0).into(), into.address(0).into(), n.into()])
    }

    fn adam(&self, params: &mut Params<CudaBuffer>, step: &AdamStep) -> Result<()> {
        let range = &step.range;
        if range.is_empty() || step.learning_rate == 0.0 {
            return Ok(());
        }
        self.sync_pending(&(params.gradients.address(range.start)..params.gradients.address(range.end)))?;
        let launch = Launch {
            kernel: Kernel::Adam,
            grid: (blocks(range.len(), 256), params.restarts as u32, 1),
            threads: 256,
            shared: 0,
        };
        let buffers = [&params.values, &params.gradients, &params.first_moments, &params.second_moments]
            .map(|buffer| Arg::from(buffer.address(range.start)));
        let sizes = [params.stride, range.len()].map(Arg::from);
        let scalars = sizes.into_iter().chain(self.adam_arguments(step, params.beta1));
        self.driver.launch(launch, &buffers.into_iter().chain(scalars).collect::<Vec<_>>())?;
        // The updated parameters may be weights.
        self.driver.disable_early_launch();
        Ok(())
    }
}
