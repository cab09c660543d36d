//! The data set on the device in its stored type, and batches of its rows.

use std::ops::Range;

use cudarc::driver::{DeviceRepr, ValidAsZeroBits};
use rayon::prelude::*;

use super::driver::{Arg, DeviceMemory, Driver, Kernel, Keys, Launch, MOST_RESTARTS};
use super::recording::{DrawnNeighbours, Shuffle};
use super::typed::upload_columns;
use super::{Cuda, CudaBuffer, M, blocks};
use crate::ops::hiding_threshold;
use crate::random::Key;
use crate::{
    Activation, AdamStep, Affine, Draw, Error, Inputs, Layers, Matrix, NeighbourLists, Params, Result,
    RowSelection, RowValues, Rows, RowsOn, RowsView, Scaling,
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
    inputs: CudaInputs,
    n_inputs: usize,
}

/// What the encoder sees of a row.
enum CudaInputs {
    Values,
    /// The columns, as in `kernels/typed.cu`.
    Typed(DeviceMemory<u32>),
    Counts {
        row_sum: f32,
    },
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
    /// What the encoder sees of them, unless it is `x`.
    input: Option<M>,
    /// Row indices: [R, N] for a whole epoch, or [R, B] for one batch.
    row_indices: DeviceMemory<u32>,
    /// If the second half of each restart's rows are neighbours of the first.
    neighbours: Option<CudaNeighbours>,
}

impl CudaBatch {
    /// What the encoder sees of the batch.
    fn input(&self) -> &M {
        self.input.as_ref().unwrap_or(&self.x)
    }
}

/// The neighbours of all rows, and those that were drawn.
struct CudaNeighbours {
    /// [R, N, k]
    lists: DeviceMemory<u32>,
    n_neighbours: usize,
    /// As `row_indices`.
    drawn: DeviceMemory<u32>,
}

impl CudaNeighbours {
    fn with_keys(&self, keys: &[Key]) -> DrawnNeighbours {
        DrawnNeighbours {
            lists: self.lists.address(0),
            n_neighbours: self.n_neighbours,
            drawn: self.drawn.address(0),
            keys: Keys::new(keys),
        }
    }
}

/// Copies the data set to the device, or to host memory that it can address. Rows of typed tables, and rows of which logarithms are taken, are scaled here, in the
/// precision of their values.
fn upload(driver: &Driver, data: RowsView<'_>, rows_on: RowsOn) -> Result<CudaRows> {
    if !data.scaling.log.is_empty() || matches!(data.inputs, Inputs::Typed(_)) {
        let mut x = vec![0.0; data.n_rows * data.n_columns];
        let rows = x.par_chunks_mut(data.n_columns.max(1)).enumerate();
        rows.for_each(|(i, row)| data.row_into(i, row));
        let scaling = Scaling { row_norm: None, log: &[], shift: &[], scale: &[1.0] };
        upload_scaled(driver, RowsView { values: RowValues::F32(&x), scaling, ..data }, rows_on)
    } else {
        upload_scaled(driver, data, rows_on)
    }
}

/// The part of the device's free memory that rows may take: the rest is for parameters, activations and latents.
const SHARE_OF_MEMORY: f64 = 0.7;

/// Where the values of a table and the columns of its entries are kept.
struct Store<'a> {
    driver: &'a Driver,
    is_host: bool,
}

impl<'a> Store<'a> {
    fn new(driver: &'a Driver, data: &RowsView<'_>, rows_on: RowsOn) -> Self {
        let cells = data.n_rows as f64 * data.n_columns as f64;
        let bytes = match data.values {
            RowValues::U8(_) => cells,
            RowValues::F16(_) => 2.0 * cells,
            RowValues::F32(_) | RowValues::F64(_) => 4.0 * cells,
            RowValues::Csr(csr) => 8.0 * csr.values.len() as f64,
        };
        let is_host = match rows_on {
            RowsOn::Auto => bytes > SHARE_OF_MEMORY * driver.free_bytes() as f64,
            RowsOn::Device => false,
            RowsOn::Host => true,
        };
        Self { driver, is_host }
    }

    fn keep<T: DeviceRepr + ValidAsZeroBits + Copy + Send + Sync + 'static>(
        &self,
        values: &[T],
    ) -> Result<DeviceMemory<T>> {
        if self.is_host { self.driver.upload_to_host(values) } else { self.driver.upload(values) }
    }
}

/// [`upload`] of a data set without logarithms.
fn upload_scaled(driver: &Driver, data: RowsView<'_>, rows_on: RowsOn) -> Result<CudaRows> {
    let store = Store::new(driver, &data, rows_on);
    let (kind, values) = match data.values {
        RowValues::U8(x) => (0, store.keep(x)?),
        RowValues::F16(x) => (1, store.keep(bytemuck::cast_slice(x))?),
        RowValues::F32(x) => (2, store.keep(bytemuck::cast_slice(x))?),
        RowValues::F64(x) => {
            let single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
            (2, store.keep(bytemuck::cast_slice(&single))?)
        }
        RowValues::Csr(csr) => (3, store.keep(bytemuck::cast_slice(csr.values))?),
    };
    let (mut columns, mut starts) = (None, None);
    if let RowValues::Csr(csr) = data.values {
        columns = Some(store.keep(csr.columns)?);
        let wide: Vec<u64> = csr.starts.iter().map(|&start| start as u64).collect();
        starts = Some(driver.upload(&wide)?);
    }
    let Scaling { row_norm, log: _, shift, scale } = data.scaling;
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
        inputs: match data.inputs {
            Inputs::Values => CudaInputs::Values,
            Inputs::Typed(columns) => CudaInputs::Typed(upload_columns(driver, columns)?),
            Inputs::Counts { row_sum } => CudaInputs::Counts { row_sum },
        },
        n_inputs: data.n_inputs(),
    })
}

impl Cuda {
    /// Computes the row indices at `positions` of each restart's shuffle and, if wanted, draws their neighbours.
    pub(super) fn shuffle(&self, shuffle: &Shuffle, epoch: u64, positions: Range<usize>) -> Result<()> {
        let Shuffle { row_indices, keys, n_rows, restarts, neighbours } = shuffle;
        let launch = Launch {
            kernel: Kernel::Shuffle,
            grid: (blocks(positions.len(), 128), *restarts as u32, 1),
            threads: 128,
            shared: 0,
        };
        let sizes = [positions.start, positions.len(), *n_rows].map(Arg::from);
        let args = [Arg::from(*row_indices), Arg::of(keys), epoch.into()];
        let none = DrawnNeighbours { lists: 0, n_neighbours: 0, drawn: 0, keys: Keys::new(&[]) };
        let DrawnNeighbours { lists, n_neighbours, drawn, keys } = neighbours.clone().unwrap_or(none);
        let of_neighbours = [Arg::from(lists), n_neighbours.into(), drawn.into(), Arg::of(&keys)];
        self.driver.launch(launch, &args.into_iter().chain(sizes).chain(of_neighbours).collect::<Vec<_>>())
    }

    /// Writes what the encoder sees of the rows of the batch.
    fn write_inputs(&self, rows: &CudaRows, batch: &CudaBatch) -> Result<()> {
        let Some(input) = &batch.input else { return Ok(()) };
        let [from, to] = [&batch.x, input].map(|matrix| Arg::from(matrix.data.address(0)));
        let d = Arg::from(rows.n_columns);
        match &rows.inputs {
            CudaInputs::Values => Ok(()),
            CudaInputs::Typed(columns) => {
                let args = [columns.address(0).into(), from, to, d, input.columns.into()];
                self.driver.launch(per_row(Kernel::TypedInputs, &batch.x), &args)
            }
            CudaInputs::Counts { row_sum } => {
                let args = [from, to, d, (*row_sum).into()];
                self.driver.launch(per_row(Kernel::CountInputs, &batch.x), &args)
            }
        }
    }
}

/// A launch with one block for each row of a batch.
fn per_row(kernel: Kernel, x: &M) -> Launch {
    let threads = if x.columns > 128 { 256 } else { 64 };
    Launch { kernel, grid: (x.rows as u32, x.restarts as u32, 1), threads, shared: 0 }
}

impl Rows for Cuda {
    type Rows<'a> = CudaRows;
    type Batch = CudaBatch;

    fn rows(&self, data: RowsView<'_>) -> Result<CudaRows> {
        upload(&self.driver, data, self.rows_on)
    }

    fn batch(&self, rows: &CudaRows, restarts: usize, n_rows: usize) -> Result<CudaBatch> {
        if restarts > MOST_RESTARTS {
            return Err(Error::TooManyRestarts { restarts, most: MOST_RESTARTS });
        }
        let row_indices = self.driver.zeros(restarts * rows.n_rows.max(n_rows))?;
        let matrix = |columns: usize| Matrix::zeros(self, restarts, n_rows, columns);
        let input = match rows.inputs {
            CudaInputs::Values => None,
            CudaInputs::Typed(_) | CudaInputs::Counts { .. } => Some(matrix(rows.n_inputs)?),
        };
        Ok(CudaBatch { x: matrix(rows.n_columns)?, input, row_indices, neighbours: None })
    }

    fn batch_with_neighbours(
        &self,
        rows: &CudaRows,
        restarts: usize,
        n_rows: usize,
        neighbours: NeighbourLists,
    ) -> Result<CudaBatch> {
        let NeighbourLists { lists, n_neighbours } = neighbours;
        let lists = self.driver.upload(&lists.concat())?;
        let batch = self.batch(rows, restarts, 2 * n_rows)?;
        let drawn = self.driver.zeros(restarts * rows.n_rows.max(n_rows))?;
        Ok(CudaBatch { neighbours: Some(CudaNeighbours { lists, n_neighbours, drawn }), ..batch })
    }

    fn gather(&self, rows: &CudaRows, selection: RowSelection<'_>, batch: &mut CudaBatch) -> Result<()> {
        let x = &batch.x;
        self.sync_all_pending()?;
        let indices_at = batch.row_indices.address(0);
        let mut recorded = self.state();
        let neighbours = batch.neighbours.as_ref();
        let half = if neighbours.is_some() { x.rows / 2 } else { x.rows };
        let no_keys: &[Key] = &[];
        let (order, first) = match selection {
            RowSelection::Range { first } => (None, first),
            RowSelection::Shuffled { keys, epoch, first } => (Some((keys, no_keys, epoch)), first),
            RowSelection::ShuffledPairs { keys, neighbour_keys, epoch, first } => {
                (Some((keys, neighbour_keys, epoch)), first)
            }
        };
        let (indices, stride, clock, first) = match (order, &mut *recorded) {
            (None, _) => (0, 0, 0, first as u64),
            (Some((keys, neighbour_keys, epoch)), recorded) => {
                let shuffle = Shuffle {
                    row_indices: indices_at,
                    keys: Keys::new(keys),
                    n_rows: rows.n_rows,
                    restarts: x.restarts,
                    neighbours: neighbours.map(|neighbours| neighbours.with_keys(neighbour_keys)),
                };
                match recorded {
                    Some(recorded) => {
                        // The step looks its rows up in a shuffle that is computed once per epoch; steps that are
                        // recorded together share it.
                        if recorded.shuffles.iter().all(|shuffle| shuffle.row_indices != indices_at) {
                            recorded.shuffles.push(shuffle);
                        }
                        let first = (first as u64).wrapping_sub(recorded.tick.first);
                        (indices_at, rows.n_rows, self.driver.clock_address(recorded.step), first)
                    }
                    None => {
                        self.shuffle(&shuffle, epoch, first..first + half)?;
                        (indices_at, half, 0, 0)
                    }
                }
            }
        };
        let (lists, k, drawn) = neighbours.map_or((0, 0, 0), |neighbours| {
            (neighbours.lists.address(0), neighbours.n_neighbours as u64, neighbours.drawn.address(0))
        });
        let raw = rows.raw();
        let addresses =
            [indices, stride as u64, clock, first, x.data.address(0), lists, k, drawn].map(Arg::from);
        let args = [Arg::of(&raw)].into_iter().chain(addresses).chain([Arg::from(half)]);
        self.driver.launch(per_row(Kernel::Gather, x), &args.collect::<Vec<_>>())?;
        self.write_inputs(rows, batch)
    }

    fn batch_rows<'b>(&self, batch: &'b CudaBatch) -> &'b M {
        &batch.x
    }

    fn hide_cells(&self, rows: &CudaRows, draw: Draw<'_>, rate: f32, batch: &mut CudaBatch) -> Result<()> {
        let (CudaInputs::Typed(columns), Some(input)) = (&rows.inputs, &batch.input) else { return Ok(()) };
        // The first layer's weight gradient reads the inputs.
        self.sync_all_pending()?;
        let (keys, clock, step) = self.draw_arguments(draw);
        let args = [
            columns.address(0).into(),
            Arg::of(&keys),
            clock.into(),
            step.into(),
            hiding_threshold(rate).into(),
            input.data.address(0).into(),
            rows.n_columns.into(),
            input.columns.into(),
        ];
        self.driver.launch(per_row(Kernel::HideCells, &batch.x), &args)
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
        self.affine(params, layer, batch.input(), activation, y)
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
        self.affine_backward_weights(params, layer, batch.input(), dy, update)
    }
}
