//! Kernel launches: streams, arguments, and early starts.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use cudarc::driver::{CudaStream, sys};

use super::{Driver, Kernel, NAMES, failed};
use crate::Result;

/// An argument of a kernel: a scalar, an address, or a struct passed by value.
pub(in super::super) enum Arg<'a> {
    Scalar(u64),
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
        Arg::Scalar(x)
    }
}

impl From<u32> for Arg<'_> {
    fn from(x: u32) -> Self {
        Arg::Scalar(u64::from(x))
    }
}

impl From<bool> for Arg<'_> {
    fn from(x: bool) -> Self {
        Arg::Scalar(u64::from(x))
    }
}

impl From<f32> for Arg<'_> {
    fn from(x: f32) -> Self {
        Arg::Scalar(u64::from(x.to_bits()))
    }
}

impl From<usize> for Arg<'_> {
    /// Sizes are 32 bits wide in the kernels unless they are passed as `u64`.
    fn from(x: usize) -> Self {
        Arg::Scalar(x as u64)
    }
}

/// A kernel with its grid, threads per block and shared memory in bytes.
pub(in super::super) struct Launch {
    pub(in super::super) kernel: Kernel,
    pub(in super::super) grid: (u32, u32, u32),
    pub(in super::super) threads: u32,
    pub(in super::super) shared: u32,
}

/// The maximum number of arguments of a kernel.
const MAX_ARGUMENTS: usize = 20;

/// Side streams for weight gradients: one would take longer than the chain of input gradients, more than three do not
/// help.
pub(super) const WEIGHT_STREAMS: usize = 3;

/// The stream that a kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum StreamId {
    /// The main stream, for the chain of layers.
    Main,
    /// The side stream of the prior.
    Prior,
    /// A side stream for weight gradients and updates.
    Weights(usize),
}

impl StreamId {
    /// All side streams.
    pub(in super::super) const SIDE: [StreamId; 1 + WEIGHT_STREAMS] =
        [StreamId::Prior, StreamId::Weights(0), StreamId::Weights(1), StreamId::Weights(2)];

    /// The stream for the `i`-th weight update of a step.
    pub(in super::super) fn weights(i: usize) -> Self {
        StreamId::Weights(i % WEIGHT_STREAMS)
    }
}

/// The kernels that call `after_previous`: they may be launched early.
const EARLY_KERNELS: [Kernel; 18] = [
    Kernel::CountLikelihood,
    Kernel::Dropout,
    Kernel::Likelihood,
    Kernel::ManyProduct,
    Kernel::ManyProductTransposedB,
    Kernel::Multinomial,
    Kernel::ProductCluster,
    Kernel::ProductLarge,
    Kernel::ProductMedium,
    Kernel::ProductSmall,
    Kernel::ProductTransposedBCluster,
    Kernel::ProductTransposedBLarge,
    Kernel::ProductTransposedBMedium,
    Kernel::ProductTransposedBSmall,
    Kernel::SampleLatents,
    Kernel::SampleLatentsBackward,
    Kernel::Thin,
    Kernel::TypedLikelihood,
];

impl Driver {
    pub(in super::super) fn launch(&self, launch: Launch, args: &[Arg]) -> Result<()> {
        self.launch_on(StreamId::Main, launch, args)
    }

    pub(in super::super) fn launch_on(&self, stream: StreamId, launch: Launch, args: &[Arg]) -> Result<()> {
        self.launch_with(stream, launch, None, args)
    }

    pub(super) fn stream(&self, stream: StreamId) -> &CudaStream {
        match stream {
            StreamId::Main => &self.main,
            StreamId::Prior => &self.prior,
            StreamId::Weights(i) => &self.weights[i],
        }
    }

    /// Makes the next kernel start only after the one before: because weights change, or it waits for other streams.
    pub(in super::super) fn disable_early_launch(&self) {
        self.no_early_launch.store(true, Ordering::Relaxed);
    }

    /// Launches on the main stream, with clusters of `n_blocks` blocks along the grid's x axis.
    pub(in super::super) fn launch_cluster(&self, launch: Launch, n_blocks: u32, args: &[Arg]) -> Result<()> {
        self.launch_with(StreamId::Main, launch, Some(n_blocks), args)
    }

    /// Within a recorded step, kernels that call `after_previous` may start before the previous kernel has ended. Before
    /// that call they read only weights, which change only on side streams, at the end of a step, and where
    /// `disable_early_launch` is called.
    fn launch_with(
        &self,
        stream: StreamId,
        launch: Launch,
        cluster: Option<u32>,
        args: &[Arg],
    ) -> Result<()> {
        // Evaluated first: the flag applies to the next kernel of the main stream, whichever that is.
        let may_be_early = stream == StreamId::Main && !self.no_early_launch.swap(false, Ordering::Relaxed);
        let is_early = may_be_early
            && self.is_hopper()
            && self.recording.load(Ordering::Relaxed)
            && EARLY_KERNELS.contains(&launch.kernel);
        let mut attributes: Vec<_> =
            is_early.then(early_launch).into_iter().chain(cluster.map(cluster_size)).collect();
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
            hStream: self.stream(stream).cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let function = self.functions[launch.kernel as usize].cu_function();
        self.use_device()?;
        // SAFETY: the arguments match the kernel's parameters in number, order and size (the tests of every
        // operation check it); addresses come from live buffers that are large enough, by the checks of the
        // callers. The attributes live until the call returns.
        unsafe {
            sys::cuLaunchKernelEx(&raw const config, function, pointers.as_mut_ptr(), std::ptr::null_mut())
        }
        .result()
        .map_err(|e| failed(NAMES[launch.kernel as usize], e))
    }
}

fn cluster_size(n_blocks: u32) -> sys::CUlaunchAttribute {
    let size = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: n_blocks, y: 1, z: 1 };
    sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { clusterDim: size },
    }
}

/// Allows the kernel to start before the previous one has ended.
fn early_launch() -> sys::CUlaunchAttribute {
    sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
    }
}

/// The address of each argument.
fn pointers(args: &[Arg]) -> [*mut c_void; MAX_ARGUMENTS] {
    let mut pointers = [std::ptr::null_mut::<c_void>(); MAX_ARGUMENTS];
    for (pointer, arg) in pointers[..args.len()].iter_mut().zip(args) {
        *pointer = match arg {
            Arg::Scalar(bits) => std::ptr::from_ref(bits).cast_mut().cast(),
            Arg::Struct(at, _) => at.cast_mut(),
        };
    }
    pointers
}
