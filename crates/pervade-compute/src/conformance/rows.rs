//! Rows of a batch, and the first layer, which reads them.

use half::f16;

use super::gradient::{LINEAR, Tensor, gradient_cases};
use super::inputs::*;
use super::layers::{Layer, activated, affine_gradients, affine_output};
use super::{Case, EveryOperation, Tolerance};
use crate::{Activation, Csr, Inputs, NeighbourLists, Result, RowSelection, RowValues, RowsView, Scaling};

/// How values are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Storage {
    U8,
    F16,
    F32,
    F64,
    Csr,
}

/// How they are scaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ScalingKind {
    Unscaled,
    OneScale,
    PerColumn,
    RowNorm,
    /// Logarithms of every second column, which keep zeros.
    Log,
    /// Logarithms of every second column, then a shift and a scale per column.
    LogPerColumn,
    /// Whole numbers, unscaled; the encoder sees logarithms.
    Counts,
}

use ScalingKind::{Counts, Log, LogPerColumn, OneScale, PerColumn, RowNorm, Unscaled};

/// The sum to which rows of counts are brought.
const ROW_SUM: f32 = 25.5;

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let every_scaling = |storage| [Unscaled, OneScale, PerColumn, RowNorm].map(|scaling| (storage, scaling));
    let mut kinds = vec![(Storage::U8, PerColumn), (Storage::F16, PerColumn), (Storage::F64, PerColumn)];
    kinds.extend(every_scaling(Storage::F32));
    kinds.extend(every_scaling(Storage::Csr));
    kinds.extend([
        (Storage::F32, LogPerColumn),
        (Storage::U8, Log),
        (Storage::Csr, Log),
        (Storage::Csr, LogPerColumn),
    ]);
    kinds.extend([(Storage::F32, Counts), (Storage::U8, Counts), (Storage::Csr, Counts)]);
    let mut cases = Vec::new();
    for &(storage, scaling) in &kinds {
        cases.push(gathered(storage, scaling));
    }
    cases.push(shuffled());
    cases.push(with_neighbours(true));
    cases.push(with_neighbours(false));
    for &(storage, scaling) in
        kinds.iter().filter(|(storage, _)| matches!(storage, Storage::F32 | Storage::Csr))
    {
        // 70 outputs: more than one stripe of the sparse gradient.
        cases.extend(input_layer(storage, scaling, [6, 10, 70], 1));
    }
    for shape in [[5, 9, 3], [40, 50, 130]] {
        cases.extend(input_layer(Storage::Csr, Unscaled, shape, 0));
        cases.extend(input_layer(Storage::Csr, Counts, shape, 0));
    }
    cases
}

/// A table with two thirds of its entries zero, and all of row 2.
pub(super) struct Table {
    n_columns: usize,
    dense: Vec<f64>,
    storage: Storage,
    bytes: Vec<u8>,
    half: Vec<f16>,
    single: Vec<f32>,
    starts: Vec<usize>,
    columns: Vec<u32>,
    entries: Vec<f32>,
    row_norm: Option<f32>,
    log: Vec<bool>,
    shift: Vec<f32>,
    scale: Vec<f32>,
    inputs: Inputs<'static>,
}

impl Table {
    pub(super) fn new(storage: Storage, scaling: ScalingKind, n_rows: usize, n_columns: usize) -> Self {
        let mut single = numbers(n_rows * n_columns, 25);
        let is_absent = |i: usize| !i.is_multiple_of(3) || i / n_columns == 2;
        single.iter_mut().enumerate().filter(|(i, _)| is_absent(*i)).for_each(|(_, x)| *x = 0.0);
        if scaling == Counts {
            single.iter_mut().for_each(|x| *x = (20.0 * x.abs()).floor());
        }
        let bytes: Vec<u8> = single.iter().map(|x| (255.0 * x.abs()) as u8).collect();
        let half: Vec<f16> = single.iter().map(|&x| f16::from_f32(x)).collect();
        let dense = match storage {
            Storage::U8 => bytes.iter().map(|&x| f64::from(x)).collect(),
            Storage::F16 => half.iter().map(|x| x.to_f64()).collect(),
            Storage::F32 | Storage::F64 | Storage::Csr => wide(&single),
        };
        let (mut starts, mut columns, mut entries) = (vec![0], Vec::new(), Vec::new());
        for row in single.chunks(n_columns) {
            for (column, &x) in row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                columns.push(column as u32);
                entries.push(x);
            }
            starts.push(columns.len());
        }
        let (row_norm, shift, scale) = match scaling {
            Unscaled | Log | Counts => (None, Vec::new(), vec![1.0]),
            OneScale => (None, vec![-1.0; n_columns], vec![0.4]),
            PerColumn | LogPerColumn => (None, numbers(n_columns, 26), scaled(n_columns, 27, 2.0)),
            RowNorm => (Some(3.0), Vec::new(), vec![1.0]),
        };
        let is_log = matches!(scaling, Log | LogPerColumn);
        let log = (0..if is_log { n_columns } else { 0 }).map(|j| j.is_multiple_of(2)).collect();
        let inputs = if scaling == Counts { Inputs::Counts { row_sum: ROW_SUM } } else { Inputs::Values };
        Self {
            n_columns,
            dense,
            storage,
            bytes,
            half,
            single,
            starts,
            columns,
            entries,
            row_norm,
            log,
            shift,
            scale,
            inputs,
        }
    }

    fn n_rows(&self) -> usize {
        self.dense.len() / self.n_columns
    }

    /// Calls `use_view` with the table as a device reads it.
    pub(super) fn with_view<T>(&self, use_view: impl FnOnce(RowsView<'_>) -> T) -> T {
        let values = match self.storage {
            Storage::U8 => RowValues::U8(&self.bytes),
            Storage::F16 => RowValues::F16(&self.half),
            Storage::F32 => RowValues::F32(&self.single),
            Storage::F64 => RowValues::F64(&self.dense),
            Storage::Csr => {
                RowValues::Csr(Csr { starts: &self.starts, columns: &self.columns, values: &self.entries })
            }
        };
        let scaling =
            Scaling { row_norm: self.row_norm, log: &self.log, shift: &self.shift, scale: &self.scale };
        let inputs = self.inputs;
        use_view(RowsView { n_rows: self.n_rows(), n_columns: self.n_columns, values, scaling, inputs })
    }

    /// x' = (x * row_factor - shift_j) * scale_j for row `i`; those beyond the last row repeat it.
    fn scaled_row(&self, i: usize) -> Vec<f64> {
        let row = &self.dense[i.min(self.n_rows() - 1) * self.n_columns..][..self.n_columns];
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        let factor = self.row_norm.filter(|_| norm > 0.0).map_or(1.0, |target| f64::from(target) / norm);
        let value = |(j, x): (usize, &f64)| {
            let shift = self.shift.get(j).map_or(0.0, |&shift| f64::from(shift));
            let scale = if self.scale.len() == 1 { self.scale[0] } else { self.scale[j] };
            let x = x * factor;
            let x = if self.log.get(j).copied().unwrap_or(false) { x.ln_1p() } else { x };
            (x - shift) * f64::from(scale)
        };
        row.iter().enumerate().map(value).collect()
    }

    /// What the encoder sees of row `i`.
    fn input_row(&self, i: usize) -> Vec<f64> {
        let mut row = self.scaled_row(i);
        if self.inputs != Inputs::Values {
            let sum: f64 = row.iter().sum();
            let seen = |x: &mut f64| if sum > 0.0 { (*x * f64::from(ROW_SUM) / sum).ln_1p() } else { 0.0 };
            row.iter_mut().for_each(|x| *x = seen(x));
        }
        row
    }
}

fn gathered<D: EveryOperation>(storage: Storage, scaling: ScalingKind) -> Case<D> {
    let table = move || Table::new(storage, scaling, 8, 11);
    // The last two rows lie beyond the end.
    let rows = 3..10;
    let expected = move || rows.clone().flat_map(|i| table().scaled_row(i)).collect();
    let name = format!("rows of a batch, {storage:?}, {scaling:?}");
    Case::new(name, Tolerance::Fixed(1e-6), expected, move |device: &D| {
        table().with_view(|view| {
            let rows = device.rows(view)?;
            let mut batch = device.batch(&rows, 1, 7)?;
            device.gather(&rows, RowSelection::Range { first: 3 }, &mut batch)?;
            download(device, device.batch_rows(&batch))
        })
    })
}

fn shuffled<D: EveryOperation>() -> Case<D> {
    let (n, b, restarts, epoch, first) = (101, 40, 2, (1 << 33) + 3, 50);
    let table = move || Table::new(Storage::F32, Unscaled, n, 5);
    let expected = move || {
        let (keys, table) = (keys(restarts), table());
        let row = |i: usize| keys[i / b].permute(first + i % b, n, epoch);
        (0..restarts * b).flat_map(|i| table.scaled_row(row(i))).collect()
    };
    Case::new("rows of a batch, shuffled", Tolerance::Fixed(0.0), expected, move |device: &D| {
        table().with_view(|view| {
            let rows = device.rows(view)?;
            let mut batch = device.batch(&rows, restarts, b)?;
            let keys = keys(restarts);
            device.gather(&rows, RowSelection::Shuffled { keys: &keys, epoch, first }, &mut batch)?;
            download(device, device.batch_rows(&batch))
        })
    })
}

/// Rows and, in the second half of each restart's part, one of three neighbours of each: drawn, or the first.
fn with_neighbours<D: EveryOperation>(is_shuffled: bool) -> Case<D> {
    let (n, b, restarts, k, epoch, first) = (101, 40, 2, 3, (1 << 33) + 3, 50);
    let table = move || Table::new(Storage::F32, Unscaled, n, 5);
    let neighbour = move |restart: usize, row: usize, which: usize| (row * 7 + which * 13 + restart) % n;
    let neighbour_keys = move || keys(2 * restarts).split_off(restarts);
    let expected = move || {
        let (keys, table) = (keys(restarts), table());
        let row = |index: usize| {
            let (restart, i) = (index / (2 * b), index % (2 * b));
            let position = first + i % b;
            let row =
                if is_shuffled { keys[restart].permute(position, n, epoch) } else { position.min(n - 1) };
            let word = neighbour_keys()[restart].draw(epoch, position as u32, 0)[0];
            let which = if is_shuffled { ((u64::from(word) * k as u64) >> 32) as usize } else { 0 };
            if i < b { row } else { neighbour(restart, row, which) }
        };
        (0..restarts * 2 * b).flat_map(|index| table.scaled_row(row(index))).collect()
    };
    let name = format!(
        "rows of a batch and their neighbours, {}",
        if is_shuffled { "shuffled" } else { "in order" }
    );
    Case::new(name, Tolerance::Fixed(0.0), expected, move |device: &D| {
        let list = |restart| (0..n * k).map(|i| neighbour(restart, i / k, i % k) as u32).collect();
        let lists: Vec<Vec<u32>> = (0..restarts).map(list).collect();
        let lists = NeighbourLists { lists, n_neighbours: k };
        table().with_view(|view| {
            let rows = device.rows(view)?;
            let mut batch = device.batch_with_neighbours(&rows, restarts, b, lists)?;
            let (keys, neighbour_keys) = (keys(restarts), neighbour_keys());
            let selection = if is_shuffled {
                RowSelection::ShuffledPairs { keys: &keys, neighbour_keys: &neighbour_keys, epoch, first }
            } else {
                RowSelection::Range { first }
            };
            device.gather(&rows, selection, &mut batch)?;
            download(device, device.batch_rows(&batch))
        })
    })
}

/// Rows `first..first + b` of a table with a few rows more than that.
fn input_layer<D: EveryOperation>(
    storage: Storage,
    scaling: ScalingKind,
    shape: [usize; 3],
    first: usize,
) -> Vec<Case<D>> {
    let [b, d, m] = shape;
    let name = format!("first layer {b}x{d}x{m}, {storage:?}, {scaling:?}");
    let tolerance = Tolerance::Products(1.0);
    let table = move || Table::new(storage, scaling, first + b + 1, d);
    let x = move || (first..first + b).flat_map(|i| table().input_row(i)).collect::<Vec<f64>>();
    let (weight, bias, dy) = (numbers(d * m, 28), numbers(m, 29), numbers(b * m, 30));
    let parameters = [weight.clone(), bias.clone()];
    let wide_parameters = parameters.clone().map(|values| wide(&values));
    let expected = move || {
        let y = affine_output(shape, &wide_parameters[0], &wide_parameters[1], &x());
        y.into_iter().map(|y| activated(Activation::Relu, y)[0]).collect()
    };
    let mut cases = vec![Case::new(format!("{name}, Relu"), tolerance, expected, move |device: &D| {
        let at = &parameters;
        Ok(run_input_layer(device, &table(), first, shape, at, Activation::Relu, None)?.0)
    })];
    let step = (d * m <= 1000).then_some(LINEAR);
    let wide_dy = wide(&dy);
    cases.extend(gradient_cases(
        &name,
        tolerance,
        vec![Tensor::new("weights", weight, step), Tensor::new("biases", bias, step)],
        move |_| affine_gradients(shape, &x(), &wide_dy).to_vec(),
        move |device: &D, at| {
            let (y, gradients) =
                run_input_layer(device, &table(), first, shape, at, Activation::Linear, Some(&dy))?;
            Ok((weighted_sum(&dy, &y), gradients))
        },
    ));
    cases
}

/// The first layer's output and, for the gradient `dy` of it, those of weights and biases.
fn run_input_layer<D: EveryOperation>(
    device: &D,
    table: &Table,
    first: usize,
    [b, d, m]: [usize; 3],
    at: &[Vec<f32>],
    activation: Activation,
    dy: Option<&[f32]>,
) -> Result<(Vec<f32>, Vec<Vec<f32>>)> {
    let layer = Layer::new(d, m);
    let mut params = layer.upload(device, &at[0], &at[1])?;
    table.with_view(|view| {
        let rows = device.rows(view)?;
        let mut batch = device.batch(&rows, 1, b)?;
        device.gather(&rows, RowSelection::Range { first }, &mut batch)?;
        let mut y = occupied(device, [1, b, m])?;
        device.input_affine(&params, layer.layer, &rows, &batch, activation, &mut y)?;
        let mut gradients = Vec::new();
        if let Some(dy) = dy {
            let dy = upload(device, [1, b, m], dy)?;
            device.input_affine_backward(&mut params, layer.layer, &rows, &batch, &dy, None)?;
            gradients = layer.gradients(device, &params)?.to_vec();
        }
        Ok((download(device, &y)?, gradients))
    })
}
