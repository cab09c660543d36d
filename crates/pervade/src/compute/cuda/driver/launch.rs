//! Launches: on which stream a kernel runs, what it is given, and when it may start.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use cudarc::driver::{CudaStream, sys};

use super::{Driver, Kernel, NAMES, failed};
use crate::Result;

/// One argument of a kernel: a number, an address, or a struct passed by value.
pub(in super::super) enum Arg<'a> {
    Number(u64),
    Struct(*const c_void, std::marker::PhantomData<&'a ()>),
}

impl<'a> Arg<'a> {
    /// A struct with C's layout, copied when the kernel is launched.
    pub(in super::super) fn of<T>(value: &'a T) -> Self {
        Arg::Struct(std::ptr::from_ref(value).cast(), std::marker::PhantomData)
    }
}

impl From<u64> for Arg<'_> {
    fn from(x: u64) -> Self {
        Arg::Number(x)
    }
}

impl From<u32> for Arg<'_> {
    fn from(x: u32) -> Self {
        Arg::Number(u64::from(x))
    }
}

impl From<bool> for Arg<'_> {
    fn from(x: bool) -> Self {
        Arg::Number(u64::from(x))
    }
}

impl From<f32> for Arg<'_> {
    fn from(x: f32) -> Self {
        Arg::Number(u64::from(x.to_bits()))
    }
}

impl From<usize> for Arg<'_> {
    /// Sizes are 32 bits wide in the kernels unless they are passed as `u64`.
    fn from(x: usize) -> Self {
        Arg::Number(x as u64)
    }
}

/// A kernel's name, grid, threads a block and shared memory in bytes.
pub(in super::super) struct Launch {
    pub(in super::super) kernel: Kernel,
    pub(in super::super) grid: (u32, u32, u32),
    pub(in super::super) threads: u32,
    pub(in super::super) shared: u32,
}

/// Arguments that a kernel has at the most.
const MOST_ARGUMENTS: usize = 20;

/// Lanes for weight gradients: one would take longer than the chain of input gradients, more than three gain nothing.
pub(super) const WEIGHT_LANES: usize = 3;

/// The stream that a kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Lane {
    Main,
    /// Beside it, for the prior.
    Prior,
    /// Beside it, for the weights of the layer that was n-th to be given there.
    Weights(usize),
}

/// The kernels that call `after_previous`.
const WAIT_THEMSELVES: [Kernel; 13] = [
    Kernel::Dropout,
    Kernel::Likelihood,
    Kernel::ManyProduct,
    Kernel::ManyProductTransposedB,
    Kernel::ProductCluster,
    Kernel::ProductLarge,
    Kernel::ProductSmall,
    Kernel::ProductTransposedBCluster,
    Kernel::ProductTransposedBLarge,
    Kernel::ProductTransposedBSmall,
    Kernel::SampleLatents,
    Kernel::SampleLatentsBackward,
    Kernel::Thin,
];

impl Driver {
    pub(in super::super) fn launch(&self, launch: Launch, args: &[Arg]) -> Result<()> {
        self.launch_on(Lane::Main, launch, args)
    }

    pub(in super::super) fn launch_on(&self, lane: Lane, launch: Launch, args: &[Arg]) -> Result<()> {
        self.launch_with(lane, launch, None, args)
    }

    pub(super) fn stream(&self, lane: Lane) -> &CudaStream {
        match lane {
            Lane::Main => &self.main,
            Lane::Prior => &self.prior,
            Lane::Weights(layer) => &self.weights[layer % WEIGHT_LANES],
        }
    }

    /// The next kernel that would start early does not: weights change here, or it waits for other lanes too.
    pub(in super::super) fn next_not_early(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// Launches on the first stream; `n_blocks` neighbours along the grid's first side make a cluster.
    pub(in super::super) fn launch_cluster(&self, launch: Launch, n_blocks: u32, args: &[Arg]) -> Result<()> {
        self.launch_with(Lane::Main, launch, Some(n_blocks), args)
    }

    /// Within a recorded step kernels that wait themselves for what the one before them writes may start before it has
    /// ended. What they read before, weights, changes only beside the first stream, at the step's end and where
    /// `next_not_early` says so.
    fn launch_with(&self, lane: Lane, launch: Launch, n_blocks: Option<u32>, args: &[Arg]) -> Result<()> {
        // Who does not start early waits for all before it, and who follows it early is late enough.
        let may_start_early = lane == Lane::Main && !self.waits.swap(false, Ordering::Relaxed);
        let early = may_start_early
            && self.is_hopper()
            && self.recording.load(Ordering::Relaxed)
            && WAIT_THEMSELVES.contains(&launch.kernel);
        let wanted = [early.then(starts_early), n_blocks.map(cluster)];
        let mut attributes = [starts_early(); 2];
        let mut n_attributes = 0;
        for (to, attribute) in attributes.iter_mut().zip(wanted.into_iter().flatten()) {
            *to = attribute;
            n_attributes += 1;
        }
        let mut pointers = pointers(args);
        let (x, y, z) = launch.grid;
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: launch.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.shared,
            hStream: self.stream(lane).cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: n_attributes,
        };
        let function = self.functions[launch.kernel as usize].cu_function();
        self.context.bind_to_thread().map_err(|e| failed("use the device", e))?;
        // SAFETY: the arguments are those of the kernel in number, order and size (each call stands beside
        // its kernel's parameters in the tests of every operation); addresses come from live buffers that
        // hold what the kernel reads and writes, by the checks of the callers. The attributes live until the
        // call returns.
        unsafe {
            sys::cuLaunchKernelEx(&raw const config, function, pointers.as_mut_ptr(), std::ptr::null_mut())
        }
        .result()
        .map_err(|e| failed(NAMES[launch.kernel as usize], e))
    }
}

fn cluster(n_blocks: u32) -> sys::CUlaunchAttribute {
    let size = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: n_blocks, y: 1, z: 1 };
    sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { clusterDim: size },
    }
}

/// The kernel may start before the one before it has ended.
fn starts_early() -> sys::CUlaunchAttribute {
    sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
    }
}

/// Where each argument lies.
fn pointers(args: &[Arg]) -> [*mut c_void; MOST_ARGUMENTS] {
    let mut pointers = [std::ptr::null_mut::<c_void>(); MOST_ARGUMENTS];
    for (pointer, arg) in pointers[..args.len()].iter_mut().zip(args) {
        *pointer = match arg {
            Arg::Number(bits) => std::ptr::from_ref(bits).cast_mut().cast(),
            Arg::Struct(at, _) => at.cast_mut(),
        };
    }
    pointers
}
