//! The driver's side: opening a device, compiling the kernels, memory, streams, launches and errors.

mod launch;
mod map;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaSlice, CudaStream, CudaView, CudaViewMut,
    DeviceRepr, DriverError, ValidAsZeroBits,
};

use launch::WEIGHT_LANES;
pub(super) use launch::{Arg, Lane, Launch};
pub(super) use map::{Map, Mapped};

use super::Precision;
use super::affine::{HOPPER_SHARED, WEIGHTS_SHARED};
use super::compile::{load, nvrtc_version};
use crate::compute::{MOST_STEPS, Tick, inverse_root, step_size};
use crate::seed::Key;
use crate::{Error, Result};

/// Restarts whose keys fit into a launch.
pub(super) const MOST_RESTARTS: usize = 64;

/// What `kernels/common.cu` calls by the same name.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Clock {
    epoch: u64,
    first: u64,
    draw: u64,
    step_size: [f32; 2],
    inverse_root: f32,
    unused: f32,
}

impl Clock {
    pub(super) fn at(tick: &Tick, beta1: f32) -> Self {
        Self {
            epoch: tick.epoch,
            first: tick.first,
            draw: tick.draw,
            step_size: tick.learning_rates.map(|rate| step_size(tick.adam, rate, beta1)),
            inverse_root: inverse_root(tick.adam),
            unused: 0.0,
        }
    }
}

/// What `kernels/common.cu` calls by the same name.
#[repr(C)]
#[derive(Clone)]
pub(super) struct Keys {
    words: [u32; 2 * MOST_RESTARTS],
}

impl Keys {
    pub(super) fn new(keys: &[Key]) -> Self {
        let mut words = [0; 2 * MOST_RESTARTS];
        for (to, key) in words.chunks_exact_mut(2).zip(keys) {
            to.copy_from_slice(&key.words());
        }
        Self { words }
    }
}

macro_rules! kernels {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// The kernels by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Kernel { $($variant),* }
        const NAMES: &[&str] = &[$($name),*];
    };
}

kernels! {
    SetClocks = "set_clocks",
    Shuffle = "shuffle",
    Gather = "gather",
    SampleLatents = "sample_latents",
    SampleLatentsBackward = "sample_latents_backward",
    Dropout = "dropout",
    Likelihood = "likelihood",
    Adam = "adam",
    Unfold = "unfold",
    Fold = "fold",
    Bend = "bend",
    BendBackward = "bend_backward",
    NormStatistics = "norm_statistics",
    NormApply = "norm_apply",
    NormSums = "norm_sums",
    NormBackward = "norm_backward",
    NormWeights = "norm_weights",
    DrawCodes = "draw_codes",
    CodeLikelihood = "code_likelihood",
    PriorTables = "prior_tables",
    LogJoint = "log_joint",
    PriorRows = "prior_rows",
    PriorGradients = "prior_gradients",
    SoftRows = "soft_rows",
    SoftGradients = "soft_gradients",
    Softmax = "softmax",
    SoftmaxBackward = "softmax_backward",
    CopyBlock = "copy_block",
    StickBreaking = "stick_breaking",
    StickBreakingBackward = "stick_breaking_backward",
    StickPrior = "stick_prior",
    PosteriorMixture = "posterior_mixture",
    ProductSmall = "product_small",
    ProductCluster = "product_cluster",
    ProductTransposedBCluster = "product_transposed_b_cluster",
    ProductLarge = "product_large",
    ProductTransposedBSmall = "product_transposed_b_small",
    ProductTransposedBLarge = "product_transposed_b_large",
    ProductTransposedA = "product_transposed_a",
    Thin = "thin",
    ThinWeights = "thin_weights",
    UpdateWeights = "update_weights",
    ManyProduct = "many_product",
    ManyProductTransposedB = "many_product_transposed_b",
    Responsibilities = "responsibilities",
    Moments = "moments",
    AddParts = "add_parts",
    SpreadSquares = "spread_squares",
    SpreadPick = "spread_pick",
    NodeLatents = "node_latents",
    Neighbours = "neighbours",
}

/// Shared memory that a kernel may ask for: more than it gets unasked.
pub(super) const MOST_SHARED: u32 = 96 * 1024;

/// An open device with its streams and kernels.
pub(super) struct Driver {
    context: Arc<CudaContext>,
    main: Arc<CudaStream>,
    prior: Arc<CudaStream>,
    weights: [Arc<CudaStream>; WEIGHT_LANES],
    event: CudaEvent,
    sampled: CudaEvent,
    prior_done: CudaEvent,
    functions: Vec<CudaFunction>,
    clocks: u64,
    _clocks: CudaSlice<u64>,
    name: String,
    capability: (i32, i32),
    n_processors: u32,
    recording: AtomicBool,
    /// The next kernel must not start early.
    waits: AtomicBool,
}

/// Whether a driver is there and finds a device.
pub(super) fn is_present() -> bool {
    // SAFETY: opens the driver's library, which runs its start-up code and nothing else.
    let has_driver = unsafe { sys::is_culib_present() };
    has_driver && CudaContext::device_count().is_ok_and(|n| n > 0)
}

impl Driver {
    pub(super) fn open(ordinal: usize, precision: Precision, kernels: Option<&Path>) -> Result<Self> {
        check_libraries(ordinal)?;
        let context = CudaContext::new(ordinal).map_err(|e| failed("open the device", e))?;
        // SAFETY: all work goes through two streams whose order this module sees to itself.
        unsafe { context.disable_event_tracking() };
        let of = |result| move |e| failed(result, e);
        let stream = || context.new_stream().map_err(of("make a stream"));
        let (main, prior, weights) = (stream()?, stream()?, [stream()?, stream()?, stream()?]);
        let event = || context.new_event(None).map_err(of("make an event"));
        let (event, sampled, prior_done) = (event()?, event()?, event()?);
        let capability = context.compute_capability().map_err(of("ask for the device's kind"))?;
        let module = load(&context, capability, precision, kernels)?;
        let functions = NAMES
            .iter()
            .map(|name| module.load_function(name).map_err(of("find a kernel")))
            .collect::<Result<Vec<_>>>()?;
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        for (function, name) in functions.iter().zip(NAMES) {
            let shared = match *name {
                "prior_rows" | "responsibilities" | "neighbours" => MOST_SHARED,
                name if name.starts_with("product") => MOST_SHARED,
                name if name.starts_with("many") && capability == (9, 0) => HOPPER_SHARED,
                "update_weights" if capability == (9, 0) => WEIGHTS_SHARED,
                _ => continue,
            };
            function
                .set_attribute(attribute, shared as i32)
                .map_err(of("give a kernel its shared memory"))?;
        }
        let words = MOST_STEPS * size_of::<Clock>() / size_of::<u64>();
        let clocks = main.alloc_zeros::<u64>(words).map_err(of("take memory"))?;
        let name = context.name().map_err(of("ask for the device's name"))?;
        let count = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let n_processors = context.attribute(count).map_err(of("ask for the device's size"))? as u32;
        let address = address(&clocks, &main);
        Ok(Self {
            context,
            main,
            prior,
            weights,
            event,
            sampled,
            prior_done,
            functions,
            clocks: address,
            _clocks: clocks,
            name,
            capability,
            n_processors,
            recording: AtomicBool::new(false),
            waits: AtomicBool::new(false),
        })
    }

    /// Whether the kernels were compiled for Hopper with all that is its own.
    pub(super) fn is_hopper(&self) -> bool {
        self.capability == (9, 0)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Multiprocessors: blocks that run at the same time at the least.
    pub(super) fn n_processors(&self) -> u32 {
        self.n_processors
    }

    /// The clock of one of the steps that are replayed at once.
    pub(super) fn clock_address(&self, place: usize) -> u64 {
        self.clocks + (place * size_of::<Clock>()) as u64
    }

    pub(super) fn describe(&self) -> Result<Vec<(&'static str, String)>> {
        let (major, minor) = self.context.compute_capability().map_err(|e| failed("ask the device", e))?;
        let (free, total) = self.context.mem_get_info().map_err(|e| failed("ask for memory", e))?;
        let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
        let mut version = 0;
        // SAFETY: writes one number.
        unsafe { sys::cuDriverGetVersion(&raw mut version) };
        Ok(vec![
            ("device", self.name.clone()),
            ("compute capability", format!("{major}.{minor}")),
            ("multiprocessors", self.n_processors.to_string()),
            ("memory", format!("{:.1} GiB, {:.1} free", gib(total), gib(free))),
            ("driver", format!("CUDA {}.{}", version / 1000, version % 1000 / 10)),
            ("NVRTC", nvrtc_version()),
        ])
    }

    /// Single-precision operations and bytes a second, as the device's clocks promise.
    pub(super) fn rates(&self) -> Result<(f64, f64)> {
        use sys::CUdevice_attribute_enum as Attribute;
        let ask = |what| self.context.attribute(what).map(f64::from).map_err(|e| failed("ask the device", e));
        let clock = 1e3 * ask(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
        let memory_clock = 1e3 * ask(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
        let bus_bytes = ask(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)? / 8.0;
        // 128 fused multiply-adds a multiprocessor and clock; memory moves twice a clock.
        Ok((2.0 * 128.0 * f64::from(self.n_processors) * clock, 2.0 * memory_clock * bus_bytes))
    }

    pub(super) fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<(CudaSlice<T>, u64)> {
        let slice = self.main.alloc_zeros::<T>(len).map_err(|e| self.no_room(len * size_of::<T>(), e))?;
        let at = address(&slice, &self.main);
        Ok((slice, at))
    }

    /// Host numbers on the device.
    pub(super) fn upload<T: DeviceRepr>(&self, values: &[T]) -> Result<(CudaSlice<T>, u64)> {
        let slice = self.main.clone_htod(values).map_err(|e| self.no_room(size_of_val(values), e))?;
        let at = address(&slice, &self.main);
        Ok((slice, at))
    }

    fn no_room(&self, bytes: usize, error: DriverError) -> Error {
        if error.0 != CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return failed("take memory", error);
        }
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        let free = self.context.mem_get_info().map_or(0, |(free, _)| free);
        Error::Device {
            problem: format!(
                "the device has no room: {} MiB more were needed and {} MiB are free",
                mib(bytes),
                mib(free)
            ),
            hint:
                "lower --restarts or --batch, or use --device cpu, which leaves the data in the host's memory"
                    .to_string(),
        }
    }

    pub(super) fn clear<T: DeviceRepr + ValidAsZeroBits>(&self, slice: &mut CudaSlice<T>) -> Result<()> {
        self.main.memset_zeros(slice).map_err(|e| failed("clear memory", e))
    }

    pub(super) fn write<T: DeviceRepr>(&self, to: &mut CudaViewMut<'_, T>, values: &[T]) -> Result<()> {
        self.main.memcpy_htod(values, to).map_err(|e| failed("copy to the device", e))?;
        // The numbers belong to the caller again when this returns.
        self.synchronise()
    }

    pub(super) fn read<T: DeviceRepr>(&self, from: &CudaView<'_, T>, into: &mut [T]) -> Result<()> {
        self.main.memcpy_dtoh(from, into).map_err(|e| failed("copy from the device", e))?;
        self.synchronise()
    }

    pub(super) fn synchronise(&self) -> Result<()> {
        self.main.synchronize().map_err(|e| failed("wait for the device", e))
    }

    pub(super) fn set_clocks(&self, clocks: impl ExactSizeIterator<Item = Clock>) -> Result<()> {
        let mut now = [Clock::default(); MOST_STEPS];
        let threads = clocks.len() as u32;
        for (to, clock) in now.iter_mut().zip(clocks) {
            *to = clock;
        }
        let launch = Launch { kernel: Kernel::SetClocks, grid: (1, 1, 1), threads, shared: 0 };
        self.launch(launch, &[self.clocks.into(), Arg::of(&now)])
    }

    /// Work on the lane from here on waits for what the first one was given so far.
    pub(super) fn beside_after_main(&self, lane: Lane) -> Result<()> {
        self.event
            .record(&self.main)
            .and_then(|()| self.stream(lane).wait(&self.event))
            .map_err(|e| failed("fork", e))
    }

    /// The latents of the step are there.
    pub(super) fn mark_sampled(&self) -> Result<()> {
        self.sampled.record(&self.main).map_err(|e| failed("mark", e))
    }

    pub(super) fn prior_after_sampled(&self) -> Result<()> {
        self.prior.wait(&self.sampled).map_err(|e| failed("fork", e))
    }

    /// The prior's gradients are there.
    pub(super) fn mark_prior_done(&self) -> Result<()> {
        self.prior_done.record(&self.prior).map_err(|e| failed("mark", e))
    }

    pub(super) fn main_after_prior(&self) -> Result<()> {
        self.next_not_early();
        self.main.wait(&self.prior_done).map_err(|e| failed("join", e))
    }

    /// What follows waits for the prior's lane, if `prior`, and for the first `n_layers` of the weights'.
    pub(super) fn main_after_beside(&self, prior: bool, n_layers: usize) -> Result<()> {
        self.next_not_early();
        let lanes = prior.then_some(Lane::Prior).into_iter();
        for lane in lanes.chain((0..n_layers.min(WEIGHT_LANES)).map(Lane::Weights)) {
            self.event
                .record(self.stream(lane))
                .and_then(|()| self.main.wait(&self.event))
                .map_err(|e| failed("join", e))?;
        }
        Ok(())
    }

    pub(super) fn begin_recording(&self) -> Result<()> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        self.main.begin_capture(mode).map_err(|e| failed("record a step", e))?;
        self.recording.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn end_recording(&self) -> Result<CudaGraph> {
        self.recording.store(false, Ordering::Relaxed);
        self.waits.store(false, Ordering::Relaxed);
        let flags = sys::CUgraphInstantiate_flags(0);
        let graph = self.main.end_capture(flags).map_err(|e| failed("record a step", e))?;
        graph.ok_or_else(|| Error::Device {
            problem: "the device recorded nothing".to_string(),
            hint: String::new(),
        })
    }

    pub(super) fn replay(graph: &CudaGraph) -> Result<()> {
        graph.launch().map_err(|e| failed("replay a step", e))
    }
}

fn address<T>(slice: &CudaSlice<T>, stream: &CudaStream) -> u64 {
    use cudarc::driver::DevicePtr;
    slice.device_ptr(stream).0
}

/// The libraries and the device, each with its own message.
fn check_libraries(ordinal: usize) -> Result<()> {
    // SAFETY: opens the driver's library, which runs its start-up code and nothing else.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::Device {
            problem: "no CUDA driver was found (looked for libcuda.so and libcuda.so.1)".to_string(),
            hint: "install NVIDIA's driver, or use `--device cpu`".to_string(),
        });
    }
    let count = CudaContext::device_count().map_err(|e| failed("start the driver", e))?;
    if ordinal as i64 >= i64::from(count) {
        return Err(Error::Device {
            problem: format!("there is no CUDA device {ordinal}: this machine has {count}"),
            hint: "devices are numbered from 0; CUDA_VISIBLE_DEVICES hides some".to_string(),
        });
    }
    Ok(())
}

/// What the driver answered, in words.
pub(super) fn failed(what: &str, error: DriverError) -> Error {
    let text =
        error.error_string().map_or_else(|_| format!("{error:?}"), |text| text.to_string_lossy().into());
    let hint = match error.0 {
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        | CUresult::CUDA_ERROR_STUB_LIBRARY => "the driver is too old for this CUDA: update it",
        CUresult::CUDA_ERROR_NO_DEVICE => "this machine has a CUDA driver but no device: use `--device cpu`",
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => "lower --restarts or --batch, or use `--device cpu`",
        _ => {
            "`pervade doctor --device cuda` checks the device; the last checkpoint can be resumed with `--resume`"
        }
    };
    Error::Device { problem: format!("CUDA could not {what}: {text}"), hint: hint.to_string() }
}
