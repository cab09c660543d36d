//! What only Hopper's kernels use: maps for its copy engine, and blocks that start together.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use cudarc::driver::sys;

use super::{Arg, Driver, Launch, NAMES, failed, pointers};
use crate::Result;

/// What `kernels/hopper.cu` calls `Map`.
pub(in super::super) type Map = sys::CUtensorMap;

/// A row-major matrix of each restart, and the part of it that the engine copies at once.
pub(in super::super) struct Mapped {
    pub(in super::super) at: u64,
    /// Columns, rows and restarts.
    pub(in super::super) size: [usize; 3],
    /// Numbers from row to row and from restart to restart.
    pub(in super::super) strides: [usize; 2],
    /// Rows of a tile, which has 32 columns: 128 bytes.
    pub(in super::super) tile_rows: u32,
}

impl Driver {
    /// Whether the kernels were compiled for Hopper with all that is its own.
    pub(in super::super) fn is_hopper(&self) -> bool {
        self.capability == (9, 0)
    }

    pub(in super::super) fn map(matrix: &Mapped) -> Result<Map> {
        let size = matrix.size.map(|n| n as u64);
        let strides = matrix.strides.map(|n| 4 * n as u64);
        let tile = [32, matrix.tile_rows, 1];
        let mut map = Map { opaque: [0; 16] };
        // SAFETY: three sizes, two strides, three sides of a tile and three steps, as the rank says; the
        // address is only written down.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                3,
                matrix.at as *mut c_void,
                size.as_ptr(),
                strides.as_ptr(),
                tile.as_ptr(),
                [1; 3].as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        }
        .result()
        .map_err(|e| failed("map a matrix", e))?;
        Ok(map)
    }

    /// Weights change here, within a step: the next kernel that would start early does not.
    pub(in super::super) fn next_not_early(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// Launches on the first stream; `n_blocks` neighbours along the grid's first side make a cluster. Within a
    /// recorded step an `early` kernel may start before the one before it has ended: it waits itself for what that
    /// one writes. What it reads before, weights, changes only beside this stream, at the step's end and
    /// where `next_not_early` says so.
    pub(in super::super) fn launch_cluster(
        &self,
        launch: Launch,
        n_blocks: u32,
        early: bool,
        args: &[Arg],
    ) -> Result<()> {
        let mut attributes = [cluster(n_blocks), starts_early()];
        let recording = self.recording.load(Ordering::Relaxed);
        let early = early && recording && !self.waits.swap(false, Ordering::Relaxed);
        let n_attributes = if early { 2 } else { 1 };
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
            hStream: self.main.cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: n_attributes,
        };
        let function = self.functions[launch.kernel as usize].cu_function();
        self.context.bind_to_thread().map_err(|e| failed("use the device", e))?;
        // SAFETY: as in `launch_on`; the attributes live until the call returns.
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
