//! Tensor maps for Hopper's copy engine (the tensor memory accelerator).

use std::ffi::c_void;

use cudarc::driver::sys;

use super::{Driver, failed};
use crate::Result;

/// `Map` in `kernels/asynchronous.cu`.
pub(in super::super) type Map = sys::CUtensorMap;

/// A batch of row-major matrices, one per restart, and the tile that the engine copies at once.
pub(in super::super) struct MappedMatrix {
    pub(in super::super) at: u64,
    /// Columns, rows and restarts.
    pub(in super::super) size: [usize; 3],
    /// Elements from row to row and from restart to restart.
    pub(in super::super) strides: [usize; 2],
    /// Rows of a tile, which has 32 columns: 128 bytes.
    pub(in super::super) tile_rows: u32,
}

impl Driver {
    pub(in super::super) fn map(matrix: &MappedMatrix) -> Result<Map> {
        let size = matrix.size.map(|n| n as u64);
        let strides = matrix.strides.map(|n| 4 * n as u64);
        let tile = [32, matrix.tile_rows, 1];
        let mut map = Map { opaque: [0; 16] };
        // SAFETY: three sizes, two strides, three tile sizes and three steps, as the rank requires; the
        // address is only stored.
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
}
