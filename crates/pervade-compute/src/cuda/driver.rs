//! The CUDA driver: opening a device, memory, streams, launches and errors.

mod launch;
mod map;
mod memory;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaSlice, CudaStream, DeviceRepr, DriverError,
    ValidAsZeroBits, result,
};

use launch::WEIGHT_STREAMS;
pub(super) use launch::{Arg, Launch, StreamId};
pub(super) use map::{Map, MappedMatrix};
pub use memory::DeviceMemory;
pub(super) use memory::HeldMemory;
use memory::MemoryHolder;

use super::compile::{load, nvrtc_version};
use super::layers::{HOPPER_SHARED, WEIGHTS_SHARED};
use crate::random::Key;
use crate::{Advice, Error, KernelCache, MAX_STEPS, Precision, Result, Tick, inverse_root, step_size};

/// The maximum number of restarts: their keys are passed as a kernel argument.
pub(super) const MOST_RESTARTS: usize = 64;

/// The struct of the same name in `kernels/common.cu`.
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

/// The struct of the same name in `kernels/common.cu`.
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
        /// The kernels.
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
    Multinomial = "multinomial",
    TypedInputs = "typed_inputs",
    HideCells = "hide_cells",
    CountInputs = "count_inputs",
    TypedLikelihood = "typed_likelihood",
    CountLikelihood = "count_likelihood",
    Adam = "adam",
    Average = "average",
    AverageSlices = "average_slices",
    Unfold = "unfold",
    Fold = "fold",
    Activate = "activate",
    ActivateBackward = "activate_backward",
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
    NeighbourRows = "neighbour_rows",
    NeighbourGradients = "neighbour_gradients",
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
    ProductMedium = "product_medium",
    ProductTransposedBMedium = "product_transposed_b_medium",
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
    KmeansSquares = "kmeans_squares",
    KmeansChoose = "kmeans_choose",
    NodeLatents = "node_latents",
    Neighbours = "neighbours",
}

/// The maximum shared memory of most kernels, in bytes: more than CUDA's default.
pub(super) const MAX_SHARED: u32 = 96 * 1024;

/// An open device with its streams and kernels.
pub(super) struct Driver {
    context: Arc<CudaContext>,
    main: Arc<CudaStream>,
    prior: Arc<CudaStream>,
    weights: [Arc<CudaStream>; WEIGHT_STREAMS],
    event: CudaEvent,
    sampled: CudaEvent,
    functions: Vec<CudaFunction>,
    clocks: u64,
    _clocks: CudaSlice<u64>,
    name: String,
    capability: (i32, i32),
    n_processors: u32,
    recording: AtomicBool,
    /// Whether the next kernel of the main stream must not start early.
    no_early_launch: AtomicBool,
    holder: Arc<MemoryHolder>,
}

/// The number of devices; zero without a driver.
pub(super) fn n_devices() -> usize {
    // SAFETY: only loads the driver's library, which runs its start-up code.
    let has_driver = unsafe { sys::is_culib_present() };
    if has_driver { CudaContext::device_count().map_or(0, |n| n.max(0) as usize) } else { 0 }
}

impl Driver {
    pub(super) fn open(
        ordinal: usize,
        precision: Precision,
        kernels: Option<&dyn KernelCache>,
    ) -> Result<Self> {
        check_libraries(ordinal)?;
        let context = CudaContext::new(ordinal).map_err(|e| failed("open the device", e))?;
        // SAFETY: this module orders its streams itself.
        unsafe { context.disable_event_tracking() };
        let failing_to = |what| move |e| failed(what, e);
        let stream = || context.new_stream().map_err(failing_to("create a stream"));
        let (main, prior, weights) = (stream()?, stream()?, [stream()?, stream()?, stream()?]);
        let event = || context.new_event(None).map_err(failing_to("create an event"));
        let (event, sampled) = (event()?, event()?);
        let capability = context.compute_capability().map_err(failing_to("query the compute capability"))?;
        let modules = load(&context, capability, precision, kernels)?;
        let missing = DriverError(CUresult::CUDA_ERROR_NOT_FOUND);
        let find = |name: &&str| {
            let found = modules.iter().find_map(|module| module.load_function(name).ok());
            found.ok_or_else(|| failed(&format!("find the kernel `{name}`"), missing))
        };
        let functions = NAMES.iter().map(find).collect::<Result<Vec<_>>>()?;
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        for (function, name) in functions.iter().zip(NAMES) {
            let shared = match *name {
                "prior_rows" | "responsibilities" | "neighbours" => MAX_SHARED,
                name if name.starts_with("product") => MAX_SHARED,
                name if name.starts_with("many") && capability == (9, 0) => HOPPER_SHARED,
                "update_weights" if capability == (9, 0) => WEIGHTS_SHARED,
                _ => continue,
            };
            function
                .set_attribute(attribute, shared as i32)
                .map_err(failing_to("configure a kernel's shared memory"))?;
        }
        let words = MAX_STEPS * size_of::<Clock>() / size_of::<u64>();
        let clocks = main.alloc_zeros::<u64>(words).map_err(failing_to("allocate memory"))?;
        let name = context.name().map_err(failing_to("query the device's name"))?;
        let count = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let n_processors =
            context.attribute(count).map_err(failing_to("query the number of multiprocessors"))? as u32;
        let address = address(&clocks, &main);
        Ok(Self {
            context,
            main,
            prior,
            weights,
            event,
            sampled,
            functions,
            clocks: address,
            _clocks: clocks,
            name,
            capability,
            n_processors,
            recording: AtomicBool::new(false),
            no_early_launch: AtomicBool::new(false),
            holder: Arc::default(),
        })
    }

    /// Whether the kernels were compiled for Hopper, with its special instructions.
    pub(super) fn is_hopper(&self) -> bool {
        self.capability == (9, 0)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The stream of the chain of layers.
    pub(super) fn main_stream(&self) -> sys::CUstream {
        self.main.cu_stream()
    }

    /// The device's identity, which no other device has.
    pub(super) fn uuid(&self) -> Result<[u8; 16]> {
        let uuid = self.context.uuid().map_err(|e| failed("query the device's identity", e))?;
        Ok(uuid.bytes.map(|byte| byte as u8))
    }

    /// The number of multiprocessors.
    pub(super) fn n_processors(&self) -> u32 {
        self.n_processors
    }

    /// The address of the clock of step `step` among those replayed at once.
    pub(super) fn clock_address(&self, step: usize) -> u64 {
        self.clocks + (step * size_of::<Clock>()) as u64
    }

    pub(super) fn describe(&self) -> Result<Vec<(&'static str, String)>> {
        let (major, minor) = self.context.compute_capability().map_err(|e| failed("query the device", e))?;
        let (free, total) = self.context.mem_get_info().map_err(|e| failed("query the memory", e))?;
        let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
        let mut version = 0;
        // SAFETY: writes one integer.
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

    /// Peak single-precision operations and bytes per second, from the device's clock rates.
    pub(super) fn rates(&self) -> Result<(f64, f64)> {
        use sys::CUdevice_attribute_enum as Attribute;
        let query =
            |what| self.context.attribute(what).map(f64::from).map_err(|e| failed("query the device", e));
        let clock = 1e3 * query(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
        let memory_clock = 1e3 * query(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
        let bus_bytes = query(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)? / 8.0;
        // 128 fused multiply-adds per multiprocessor and cycle; memory transfers twice per cycle.
        Ok((2.0 * 128.0 * f64::from(self.n_processors) * clock, 2.0 * memory_clock * bus_bytes))
    }

    /// Allocates `len` zeros.
    pub(super) fn zeros<T: DeviceRepr + ValidAsZeroBits + Send + Sync + 'static>(
        &self,
        len: usize,
    ) -> Result<DeviceMemory<T>> {
        // An empty allocation would have no address.
        let slice = self
            .main
            .alloc_zeros::<T>(len.max(1))
            .map_err(|e| self.allocation_error(len * size_of::<T>(), e))?;
        Ok(self.memory(slice, len))
    }

    /// Copies values to new memory on the device.
    pub(super) fn upload<T: DeviceRepr + Send + Sync + 'static>(
        &self,
        values: &[T],
    ) -> Result<DeviceMemory<T>> {
        let slice =
            self.main.clone_htod(values).map_err(|e| self.allocation_error(size_of_val(values), e))?;
        Ok(self.memory(slice, values.len()))
    }

    /// Copies values to page-locked host memory, which the device reads over its bus.
    pub(super) fn upload_to_host<T: DeviceRepr + ValidAsZeroBits + Copy + Send + Sync + 'static>(
        &self,
        values: &[T],
    ) -> Result<DeviceMemory<T>> {
        let bytes = size_of_val(values);
        let locked = |e| failed(&format!("lock {} MiB of host memory", bytes.div_ceil(1 << 20)), e);
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: all elements are written before they are read.
        let mut memory = unsafe { self.context.alloc_pinned_with_flags::<T>(values.len().max(1), flags) }
            .map_err(locked)?;
        memory.as_mut_slice().map_err(locked)?[..values.len()].copy_from_slice(values);
        // With unified addressing, which every device since 2011 has, the device uses the host's address.
        let at = memory.as_ptr().map_err(locked)? as u64;
        Ok(DeviceMemory::new(memory, at, values.len(), self.holder.clone()))
    }

    /// Free bytes on the device.
    pub(super) fn free_bytes(&self) -> u64 {
        self.context.mem_get_info().map_or(0, |(free, _)| free as u64)
    }

    fn memory<T: Send + Sync + 'static>(&self, slice: CudaSlice<T>, len: usize) -> DeviceMemory<T> {
        let at = address(&slice, &self.main);
        DeviceMemory::new(slice, at, len, self.holder.clone())
    }

    fn allocation_error(&self, bytes: usize, error: DriverError) -> Error {
        if error.0 != CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return failed("allocate memory", error);
        }
        Error::OutOfMemory { needed: bytes as u64, free: self.free_bytes() }
    }

    /// Sets all elements to zero.
    pub(super) fn clear<T: Send + Sync + 'static>(&self, memory: &mut DeviceMemory<T>) -> Result<()> {
        let (at, bytes) = (memory.address(0), memory.len() * size_of::<T>());
        self.use_device()?;
        // SAFETY: the bytes are live memory to which the caller has exclusive access; zero is a valid value.
        unsafe { result::memset_d8_async(at, 0, bytes, self.main.cu_stream()) }
            .map_err(|e| failed("clear memory", e))
    }

    /// Copies values from the host to elements `offset..`.
    pub(super) fn write<T: Send + Sync + 'static>(
        &self,
        to: &mut DeviceMemory<T>,
        offset: usize,
        values: &[T],
    ) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        assert!(offset + values.len() <= to.len(), "elements inside the buffer");
        let at = to.address(offset);
        self.use_device()?;
        // SAFETY: the same number of bytes of live memory to which the caller has exclusive access.
        unsafe { result::memcpy_htod_async(at, values, self.main.cu_stream()) }
            .map_err(|e| failed("copy to the device", e))?;
        // The caller may reuse `values` after this returns.
        self.synchronise()
    }

    /// Copies elements `offset..` to the host.
    pub(super) fn read<T: Send + Sync + 'static>(
        &self,
        from: &DeviceMemory<T>,
        offset: usize,
        into: &mut [T],
    ) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        assert!(offset + into.len() <= from.len(), "elements inside the buffer");
        let at = from.address(offset);
        self.use_device()?;
        // SAFETY: the same number of bytes of live memory; `into` is borrowed until the copy is complete.
        unsafe { result::memcpy_dtoh_async(into, at, self.main.cu_stream()) }
            .map_err(|e| failed("copy from the device", e))?;
        self.synchronise()
    }

    fn use_device(&self) -> Result<()> {
        self.context.bind_to_thread().map_err(|e| failed("use the device", e))
    }

    pub(super) fn synchronise(&self) -> Result<()> {
        self.main.synchronize().map_err(|e| failed("wait for the device", e))
    }

    pub(super) fn set_clocks(&self, clocks: impl ExactSizeIterator<Item = Clock>) -> Result<()> {
        let mut now = [Clock::default(); MAX_STEPS];
        let threads = clocks.len() as u32;
        for (to, clock) in now.iter_mut().zip(clocks) {
            *to = clock;
        }
        let launch = Launch { kernel: Kernel::SetClocks, grid: (1, 1, 1), threads, shared: 0 };
        self.launch(launch, &[self.clocks.into(), Arg::of(&now)])
    }

    /// Makes later work on the side stream wait for all work submitted to the main stream so far.
    pub(super) fn fork(&self, stream: StreamId) -> Result<()> {
        self.event
            .record(&self.main)
            .and_then(|()| self.stream(stream).wait(&self.event))
            .map_err(|e| failed("fork a stream", e))
    }

    /// Records the event that the step's latents have been sampled.
    pub(super) fn mark_sampled(&self) -> Result<()> {
        self.sampled.record(&self.main).map_err(|e| failed("record an event", e))
    }

    /// Makes later work on the side stream wait for the latents, but not for what follows them on the main stream.
    pub(super) fn fork_after_sampling(&self, stream: StreamId) -> Result<()> {
        self.stream(stream).wait(&self.sampled).map_err(|e| failed("fork a stream", e))
    }

    /// Makes later work on the main stream wait for the side stream.
    pub(super) fn join(&self, stream: StreamId) -> Result<()> {
        self.disable_early_launch();
        self.event
            .record(self.stream(stream))
            .and_then(|()| self.main.wait(&self.event))
            .map_err(|e| failed("join a stream", e))
    }

    pub(super) fn begin_recording(&self) -> Result<()> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        self.main.begin_capture(mode).map_err(|e| failed("record a step", e))?;
        self.recording.store(true, Ordering::Relaxed);
        self.holder.begin();
        Ok(())
    }

    /// The graph, and the memory that it uses.
    pub(super) fn end_recording(&self) -> Result<(CudaGraph, HeldMemory)> {
        let held = self.holder.end();
        self.recording.store(false, Ordering::Relaxed);
        self.no_early_launch.store(false, Ordering::Relaxed);
        let flags = sys::CUgraphInstantiate_flags(0);
        let graph = self.main.end_capture(flags).map_err(|e| failed("record a step", e))?;
        let problem =
            || Error::Failed { problem: "CUDA recorded nothing".to_string(), advice: Advice::CheckDevice };
        Ok((graph.ok_or_else(problem)?, held))
    }

    pub(super) fn replay(graph: &CudaGraph) -> Result<()> {
        graph.launch().map_err(|e| failed("replay a step", e))
    }
}

fn address<T>(slice: &CudaSlice<T>, stream: &CudaStream) -> u64 {
    use cudarc::driver::DevicePtr;
    slice.device_ptr(stream).0
}

/// Checks the driver and the device's index, with a specific error for each.
fn check_libraries(ordinal: usize) -> Result<()> {
    // SAFETY: only loads the driver's library, which runs its start-up code.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::Failed {
            problem: "no CUDA driver was found (looked for libcuda.so and libcuda.so.1)".to_string(),
            advice: Advice::InstallDriver,
        });
    }
    let count = CudaContext::device_count().map_err(|e| failed("start the driver", e))?;
    if ordinal as i64 >= i64::from(count) {
        return Err(Error::Failed {
            problem: format!("there is no CUDA device {ordinal}: this machine has {count}"),
            advice: Advice::ChooseDevice,
        });
    }
    Ok(())
}

/// The driver's error as ours.
pub(super) fn failed(what: &str, error: DriverError) -> Error {
    let text =
        error.error_string().map_or_else(|_| format!("{error:?}"), |text| text.to_string_lossy().into());
    let advice = match error.0 {
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        | CUresult::CUDA_ERROR_STUB_LIBRARY => Advice::UpdateDriver,
        CUresult::CUDA_ERROR_NO_DEVICE => Advice::UseCpu,
        _ => Advice::CheckDevice,
    };
    Error::Failed { problem: format!("CUDA could not {what}: {text}"), advice }
}
