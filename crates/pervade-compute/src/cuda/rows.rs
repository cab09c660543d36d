//! The data set on the device in its stored type, and batches of its rows.

use std::ops::Range;

use super::driver::{Arg, DeviceMemory, Driver, Kernel, Keys, Launch, MOST_RESTARTS};
use super::recording::Shuffle;
use super::{Cuda, CudaBuffer, M, blocks};
use crate::{
    Activation, AdamStep, Affine, Error, Layers, Matrix, Params, Result, RowSelection, RowValues, Rows,
    RowsView, Scaling,
};

/// `Rows` in `kernels/rows.cu`.
#[repr(C)]
struct RawRows {
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

/// The data set and its scaling on the device.
pub struct CudaRows {
    values: DeviceMemory<u8>,
    columns: Option<DeviceMemory<u32>>,
    starts: Option<DeviceMemory<u64>>,
    shift: Option<DeviceMemory<f32>>,
    scale: DeviceMemory<f32>,
    n_rows: usize,
    n_columns: usize,
    kind: u32,
    row_norm: f32,
}

impl CudaRows {
    fn raw(&self) -> RawRows {
        RawRows {
            values: self.values.address(0),
            columns: self.columns.as_ref().map_or(0, |memory| memory.address(0)),
            starts: self.starts.as_ref().map_or(0, |memory| memory.address(0)),
            shift: self.shift.as_ref().map_or(0, |memory| memory.address(0)),
            scale: self.scale.address(0),
            n_rows: self.n_rows as u64,
            n_columns: self.n_columns as u32,
            n_scales: self.scale.len() as u32,
            kind: self.kind,
            row_norm: self.row_norm,
        }
    }
}

/// The rows of a step, scaled and dense.
pub struct CudaBatch {
    pub(super) x: M,
    /// Row indices: [R, N] for a whole epoch, or [R, B] for one batch.
    row_indices: DeviceMemory<u32>,
}

/// Copies the data set to the device.
fn upload(driver: &Driver, data: RowsView<'_>) -> Result<CudaRows> {
    let (kind, values) = match data.values {
        RowValues::U8(x) => (0, driver.upload(x)?),
        RowValues::F16(x) => (1, driver.upload(bytemuck::cast_slice(x))?),
        RowValues::F32(x) => (2, driver.upload(bytemuck::cast_slice(x))?),
        RowValues::F64(x) => {
            let single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
            (2, driver.upload(bytemuck::cast_slice(&single))?)
        }
        RowValues::Csr(csr) => (3, driver.upload(bytemuck::cast_slice(csr.values))?),
    };
    let (mut columns, mut starts) = (None, None);
    if let RowValues::Csr(csr) = data.values {
        columns = Some(driver.upload(csr.columns)?);
        let wide: Vec<u64> = csr.starts.iter().map(|&start| start as u64).collect();
        starts = Some(driver.upload(&wide)?);
    }
    let Scaling { row_norm, shift, scale } = data.scaling;
    Ok(CudaRows {
        values,
        columns,
        starts,
        shift: if shift.is_empty() { None } else { Some(driver.upload(shift)?) },
        scale: driver.upload(scale)?,
        n_rows: data.n_rows,
        n_columns: data.n_columns,
        kind,
        row_norm: row_norm.unwrap_or(0.0),
    })
}

impl Cuda {
    /// Writes the row indices at `positions` of each restart's shuffle to the address `row_indices`.
    pub(super) fn shuffle(
        &self,
        row_indices: u64,
        keys: &Keys,
        restarts: usize,
        epoch: u64,
        positions: Range<usize>,
        n_rows: usize,
    ) -> Result<()> {
        let launch = Launch {
            kernel: Kernel::Shuffle,
            grid: (blocks(positions.len(), 128), restarts as u32, 1),
            threads: 128,
            shared: 0,
        };
        let sizes = [positions.start, positions.len(), n_rows].map(Arg::from);
        let args = [Arg::from(row_indices), Arg::of(keys), epoch.into()];
        self.driver.launch(launch, &args.into_iter().chain(sizes).collect::<Vec<_>>())
    }
}

impl Rows for Cuda {
    type Rows<'a> = CudaRows;
    type Batch = CudaBatch;

    fn rows(&self, data: RowsView<'_>) -> Result<CudaRows> {
        upload(&self.driver, data)
    }

    fn batch(&self, rows: &CudaRows, restarts: usize, n_rows: usize) -> Result<CudaBatch> {
        if restarts > MOST_RESTARTS {
            return Err(Error::TooManyRestarts { restarts, most: MOST_RESTARTS });
        }
        let row_indices = self.driver.zeros(restarts * rows.n_rows.max(n_rows))?;
        Ok(CudaBatch { x: Matrix::zeros(self, restarts, n_rows, rows.n_columns)?, row_indices })
    }

    fn gather(&self, rows: &CudaRows, selection: RowSelection<'_>, batch: &mut CudaBatch) -> Result<()> {
        let x = &batch.x;
        self.sync_all_pending()?;
        let indices_at = batch.row_indices.address(0);
        let mut recorded = self.state();
        let (indices, stride, clock, first) = match (selection, &mut *recorded) {
            (RowSelection::Range { first }, _) => (0, 0, 0, first as u64),
            (RowSelection::Shuffled { keys, first, .. }, Some(recorded)) => {
                // The step looks its rows up in a shuffle that is computed once per epoch.
                let (n_rows, restarts) = (rows.n_rows, x.restarts);
                // Steps that are recorded together share the shuffle.
                if recorded.shuffles.iter().all(|shuffle| shuffle.row_indices != indices_at) {
                    let keys = Keys::new(keys);
                    recorded.shuffles.push(Shuffle { row_indices: indices_at, keys, n_rows, restarts });
                }
                let first = (first as u64).wrapping_sub(recorded.tick.first);
                (indices_at, n_rows, self.driver.clock_address(recorded.step), first)
            }
            (RowSelection::Shuffled { keys, epoch, first }, None) => {
                let positions = first..first + x.rows;
                self.shuffle(indices_at, &Keys::new(keys), x.restarts, epoch, positions, rows.n_rows)?;
                (indices_at, x.rows, 0, 0)
            }
        };
        let raw = rows.raw();
        let launch = Launch {
            kernel: Kernel::Gather,
            grid: (x.rows as u32, x.restarts as u32, 1),
            threads: if x.columns > 128 { 256 } else { 64 },
            shared: 0,
        };
        let addresses = [indices, stride as u64, clock, first, x.data.address(0)].map(Arg::from);
        self.driver.launch(launch, &[Arg::of(&raw)].into_iter().chain(addresses).collect::<Vec<_>>())
    }

    fn batch_rows<'b>(&self, batch: &'b CudaBatch) -> &'b M {
        &batch.x
    }

    fn input_affine(
        &self,
        params: &Params<CudaBuffer>,
        layer: Affine,
        _rows: &CudaRows,
        batch: &CudaBatch,
        activation: Activation,
        y: &mut M,
    ) -> Result<()> {
        // Sparse rows became dense in `gather`: a dense product on the tensor cores is faster than a sparse one.
        self.affine(params, layer, &batch.x, activation, y)
    }

    fn input_affine_backward(
        &self,
        params: &mut Params<CudaBuffer>,
        layer: Affine,
        _rows: &CudaRows,
        batch: &CudaBatch,
        dy: &M,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        self.affine_backward_weights(params, layer, &batch.x, dy, update)
    }
}
