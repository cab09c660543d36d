//! The data set on the device in its own type, and the rows picked from it.

use std::ops::Range;

use cudarc::driver::CudaSlice;

use super::driver::{Arg, Driver, Kernel, Launch};
use super::{Cuda, Keys, M, Pick, Result, Shuffle, blocks};
use crate::data::{Dataset, Preparation, Values};

/// What `kernels/batch.cu` calls `Rows`.
#[repr(C)]
struct Raw {
    values: u64,
    columns: u64,
    starts: u64,
    shift: u64,
    scale: u64,
    n_rows: u64,
    n_columns: u32,
    n_scales: u32,
    kind: u32,
    row_norm: f32,
}

/// The data set and its preparation on the device.
pub struct CudaRows {
    raw: Raw,
    /// What the addresses point into.
    _memory: Vec<Memory>,
}

enum Memory {
    Bytes(#[expect(dead_code, reason = "kept alive")] CudaSlice<u8>),
    Numbers(#[expect(dead_code, reason = "kept alive")] CudaSlice<f32>),
    Columns(#[expect(dead_code, reason = "kept alive")] CudaSlice<u32>),
    Starts(#[expect(dead_code, reason = "kept alive")] CudaSlice<u64>),
}

impl CudaRows {
    pub(super) fn n_rows(&self) -> usize {
        self.raw.n_rows as usize
    }

    pub(super) fn n_columns(&self) -> usize {
        self.raw.n_columns as usize
    }
}

/// The rows of a step, prepared and dense.
pub struct CudaBatch {
    pub(super) x: M,
    /// Which rows: [R, N] of a whole epoch, or [R, B] of one batch.
    pub(super) ids: u64,
    pub(super) _ids: CudaSlice<u32>,
}

/// Copies the data set to the device.
pub(super) fn upload(driver: &Driver, data: &Dataset, preparation: &Preparation) -> Result<CudaRows> {
    let mut memory = Vec::new();
    let mut bytes = |driver: &Driver, bytes: &[u8]| -> Result<u64> {
        let (slice, at) = driver.upload(bytes)?;
        memory.push(Memory::Bytes(slice));
        Ok(at)
    };
    let (kind, values) = match data.values() {
        Values::U8(x) => (0, bytes(driver, x)?),
        Values::F16(x) => (1, bytes(driver, bytemuck::cast_slice(x))?),
        Values::F32(x) => (2, bytes(driver, bytemuck::cast_slice(x))?),
        Values::F64(x) => {
            let single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
            (2, bytes(driver, bytemuck::cast_slice(&single))?)
        }
        Values::Csr(csr) => (3, bytes(driver, bytemuck::cast_slice(csr.values()))?),
    };
    let (mut columns, mut starts) = (0, 0);
    if let Values::Csr(csr) = data.values() {
        let (slice, at) = driver.upload(csr.columns())?;
        memory.push(Memory::Columns(slice));
        columns = at;
        let wide: Vec<u64> = csr.starts().iter().map(|&start| start as u64).collect();
        let (slice, at) = driver.upload(&wide)?;
        memory.push(Memory::Starts(slice));
        starts = at;
    }
    let mut numbers = |values: &[f32]| -> Result<u64> {
        if values.is_empty() {
            return Ok(0);
        }
        let (slice, at) = driver.upload(values)?;
        memory.push(Memory::Numbers(slice));
        Ok(at)
    };
    let raw = Raw {
        values,
        columns,
        starts,
        shift: numbers(preparation.shift())?,
        scale: numbers(preparation.scale())?,
        n_rows: data.n_rows() as u64,
        n_columns: data.n_columns() as u32,
        n_scales: preparation.scale().len() as u32,
        kind,
        row_norm: preparation.row_norm().unwrap_or(0.0),
    };
    Ok(CudaRows { raw, _memory: memory })
}

impl Cuda {
    /// Writes which rows stand at `places` of each restart's shuffle.
    pub(super) fn shuffle(
        &self,
        ids: u64,
        keys: &Keys,
        restarts: usize,
        epoch: u64,
        places: Range<usize>,
        n_rows: usize,
    ) -> Result<()> {
        let launch = Launch {
            kernel: Kernel::Shuffle,
            grid: (blocks(places.len(), 128), restarts as u32, 1),
            threads: 128,
            shared: 0,
        };
        let numbers = [places.start, places.len(), n_rows].map(Arg::from);
        let args = [Arg::from(ids), Arg::of(keys), epoch.into()];
        self.driver.launch(launch, &args.into_iter().chain(numbers).collect::<Vec<_>>())
    }

    pub(super) fn gather_rows(&self, rows: &CudaRows, pick: Pick<'_>, batch: &mut CudaBatch) -> Result<()> {
        let x = &batch.x;
        self.settle(|_| true)?;
        let mut recorded = self.state();
        let (ids, stride, clock, first) = match (pick, &mut *recorded) {
            (Pick::Range { first }, _) => (0, 0, 0, first as u64),
            (Pick::Shuffled { keys, first, .. }, Some(recorded)) => {
                // The step looks its rows up; who replays it sees to the order of each epoch.
                let (n_rows, restarts) = (rows.n_rows(), x.restarts);
                // Steps that are recorded together share it.
                if recorded.shuffles.iter().all(|shuffle| shuffle.ids != batch.ids) {
                    recorded.shuffles.push(Shuffle {
                        ids: batch.ids,
                        keys: Keys::new(keys),
                        n_rows,
                        restarts,
                    });
                }
                let first = (first as u64).wrapping_sub(recorded.tick.first);
                (batch.ids, n_rows, self.driver.clock_address(recorded.place), first)
            }
            (Pick::Shuffled { keys, epoch, first }, None) => {
                let places = first..first + x.rows;
                self.shuffle(batch.ids, &Keys::new(keys), x.restarts, epoch, places, rows.n_rows())?;
                (batch.ids, x.rows, 0, 0)
            }
        };
        let launch = Launch {
            kernel: Kernel::Gather,
            grid: (x.rows as u32, x.restarts as u32, 1),
            threads: if x.columns > 128 { 256 } else { 64 },
            shared: 0,
        };
        let addresses = [ids, stride as u64, clock, first, x.data.address(0)].map(Arg::from);
        self.driver.launch(launch, &[Arg::of(&rows.raw)].into_iter().chain(addresses).collect::<Vec<_>>())
    }
}
