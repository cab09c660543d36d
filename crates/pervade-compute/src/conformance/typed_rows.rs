//! Rows of typed tables: what the encoder sees of them.

use super::inputs::*;
use super::layers::Layer;
use super::typed::{cells, columns};
use super::{Case, EveryOperation, Tolerance};
use crate::{
    Activation, ColumnFamily, ColumnTable, Cpu, Draw, Inputs, Layout, MAX_STEPS, Result, RowSelection,
    RowValues, RowsView, Scaling, Tick, TypedColumn,
};

/// Rows and columns of a table; 70 columns are more than a CUDA block has threads.
type Shape = [usize; 2];

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let mut cases = vec![scaled_cells(), dates()];
    for shape in [[9, 12], [6, 70]] {
        cases.push(inputs(shape, None));
        cases.push(inputs(shape, Some(0.3)));
    }
    cases.push(share_of_hidden());
    cases.push(recorded());
    cases
}

/// A typed table with gaps; Gaussian columns are scaled, some of them after a logarithm.
struct TypedTable {
    columns: Vec<TypedColumn>,
    cells: Vec<f64>,
    log: Vec<bool>,
    shift: Vec<f32>,
    scale: Vec<f32>,
}

impl TypedTable {
    fn new([n_rows, n_columns]: Shape) -> Self {
        let columns = columns(n_columns);
        let is_gaussian = |j: usize| columns[j].family == ColumnFamily::Gaussian;
        let of_gaussian = |value: f32, other: f32| {
            (0..n_columns).map(|j| if is_gaussian(j) { value } else { other }).collect()
        };
        Self {
            cells: wide(&cells(&columns, n_rows, 83)),
            log: (0..n_columns).map(|j| is_gaussian(j) && j.is_multiple_of(2)).collect(),
            shift: of_gaussian(0.3, 0.0),
            scale: of_gaussian(1.7, 1.0),
            columns,
        }
    }

    fn view(&self) -> RowsView<'_> {
        let n_columns = self.columns.len();
        RowsView {
            n_rows: self.cells.len() / n_columns,
            n_columns,
            values: RowValues::F64(&self.cells),
            scaling: Scaling { row_norm: None, log: &self.log, shift: &self.shift, scale: &self.scale },
            inputs: Inputs::Typed(&self.columns),
        }
    }

    fn n_inputs(&self) -> usize {
        ColumnTable::Typed(&self.columns).n_inputs()
    }

    /// The scaled cell `j` of row `i`.
    fn scaled(&self, i: usize, j: usize) -> f64 {
        let cell = self.cells[i * self.columns.len() + j];
        let cell = if self.log[j] { (1.0 + cell).ln() } else { cell };
        (cell - f64::from(self.shift[j])) * f64::from(self.scale[j])
    }

    /// What the encoder sees of row `i` if some of its columns are hidden.
    fn input(&self, i: usize, is_hidden: impl Fn(usize) -> bool) -> Vec<f64> {
        let mut input = vec![f64::NAN; self.n_inputs()];
        for (j, column) in self.columns.iter().enumerate() {
            let x = self.scaled(i, j);
            let seen = match column.family {
                ColumnFamily::Gaussian | ColumnFamily::Bernoulli => vec![x],
                ColumnFamily::Count => {
                    vec![((1.0 + x).ln() - f64::from(column.shift)) * f64::from(column.factor)]
                }
                ColumnFamily::Categorical { levels } => {
                    (0..levels).map(|level| f64::from(u8::from(x == f64::from(level)))).collect()
                }
            };
            let is_known = match column.family {
                ColumnFamily::Categorical { levels } => x < f64::from(levels),
                _ => !x.is_nan(),
            };
            let is_seen = is_known && !is_hidden(j);
            for (k, value) in seen.iter().enumerate() {
                input[column.input as usize + k] = if is_seen { *value } else { 0.0 };
            }
            if let Some(gap) = column.gap {
                input[gap as usize] = f64::from(u8::from(!is_seen));
            }
        }
        input
    }
}

/// NaN as a number, for comparisons.
fn without_nan(values: Vec<f64>) -> Vec<f64> {
    values.into_iter().map(|x| if x.is_nan() { -99.0 } else { x }).collect()
}

/// The rows of a batch are the scaled cells, also after cells were hidden; missing ones are NaN.
fn scaled_cells<D: EveryOperation>() -> Case<D> {
    let shape @ [n_rows, n_columns] = [9, 12];
    let expected = move || {
        let table = TypedTable::new(shape);
        let cell = |i: usize| table.scaled(i / n_columns, i % n_columns);
        without_nan((0..n_rows * n_columns).map(cell).collect())
    };
    Case::against(
        "rows of a batch, typed columns",
        Tolerance::Fixed(1e-7),
        move |_| Ok(expected()),
        move |device: &D| {
            let table = TypedTable::new(shape);
            let rows = device.rows(table.view())?;
            let mut batch = device.batch(&rows, 1, n_rows)?;
            device.gather(&rows, RowSelection::Range { first: 0 }, &mut batch)?;
            device.hide_cells(&rows, Draw { keys: &keys(1), step: 3 }, 0.5, &mut batch)?;
            Ok(without_nan(wide(&download(device, device.batch_rows(&batch))?)))
        },
    )
}

/// Seconds since 1970 keep their digits.
fn dates<D: EveryOperation>() -> Case<D> {
    let n_rows = 20;
    let expected = move || (0..n_rows).map(|i| 0.5 * i as f64).collect();
    Case::new("rows of a batch, seconds since 1970", Tolerance::Fixed(0.0), expected, move |device: &D| {
        let mut table = TypedTable::new([n_rows, 1]);
        table.cells = (0..n_rows).map(|i| 1.7e9 + i as f64).collect();
        (table.log, table.shift, table.scale) = (vec![false], vec![1.7e9], vec![0.5]);
        let rows = device.rows(table.view())?;
        let mut batch = device.batch(&rows, 1, n_rows)?;
        device.gather(&rows, RowSelection::Range { first: 0 }, &mut batch)?;
        download(device, device.batch_rows(&batch))
    })
}

/// What the encoder sees of a batch: the output of a layer that changes nothing.
fn seen<D: EveryOperation>(
    device: &D,
    table: &TypedTable,
    (restarts, b): (usize, usize),
    hidden: Option<f32>,
) -> Result<Vec<f32>> {
    let n = table.n_inputs();
    let Layer { layout, layer } = Layer::new(n, n);
    let mut values = vec![0.0; restarts * layout.len()];
    for part in values.chunks_mut(layout.len()) {
        part[layer.weight.range()].iter_mut().step_by(n + 1).for_each(|w| *w = 1.0);
    }
    let params = params(device, restarts, &values)?;
    let rows = device.rows(table.view())?;
    let mut batch = device.batch(&rows, restarts, b)?;
    device.gather(&rows, RowSelection::Range { first: 0 }, &mut batch)?;
    if let Some(rate) = hidden {
        device.hide_cells(&rows, Draw { keys: &keys(restarts), step: STEP }, rate, &mut batch)?;
    }
    let mut y = occupied(device, [restarts, b, n])?;
    device.input_affine(&params, layer, &rows, &batch, Activation::Linear, &mut y)?;
    download(device, &y)
}

/// Above 32 bits, so that a device that counts in fewer is found.
const STEP: u64 = (1 << 34) + 5;

/// One-hot levels, zeros and a one for gaps; with and without hidden cells.
fn inputs<D: EveryOperation>(shape: Shape, hidden: Option<f32>) -> Case<D> {
    let (restarts, b) = (2, shape[0]);
    let expected = move || {
        let (table, keys) = (TypedTable::new(shape), keys(restarts));
        let is_hidden = |restart: usize, i: usize, j: usize| {
            let word = keys[restart].draw(STEP, i as u32, j as u32 / 4)[j % 4];
            hidden.is_some_and(|rate| f64::from(word) < f64::from(rate) * 4_294_967_296.0)
        };
        let row = |index: usize| table.input(index % b, |j| is_hidden(index / b, index % b, j));
        (0..restarts * b).flat_map(row).collect()
    };
    let what = if hidden.is_some() { "with hidden cells" } else { "all cells" };
    let name = format!("inputs of typed columns {shape:?}, {what}");
    Case::new(name, Tolerance::Products(1.0), expected, move |device: &D| {
        seen(device, &TypedTable::new(shape), (restarts, b), hidden)
    })
}

/// With rate one every cell is hidden, with rate zero none.
fn share_of_hidden<D: EveryOperation>() -> Case<D> {
    let shape @ [b, _] = [6, 12];
    let expected = move || {
        let table = TypedTable::new(shape);
        let rows = |hidden: bool| (0..b).flat_map(|i| table.input(i, |_| hidden)).collect::<Vec<f64>>();
        [rows(true), rows(false)].concat()
    };
    let name = "inputs of typed columns, all cells hidden and none";
    Case::new(name, Tolerance::Products(1.0), expected, move |device: &D| {
        let table = TypedTable::new(shape);
        Ok([seen(device, &table, (1, b), Some(1.0))?, seen(device, &table, (1, b), Some(0.0))?].concat())
    })
}

/// Steps of a linear model from inputs with hidden cells to outputs and scales, recorded and replayed, against the CPU.
fn recorded<D: EveryOperation>() -> Case<D> {
    Case::against(
        "likelihood Typed, recorded steps with hidden cells",
        Tolerance::Products(2.0),
        |_| Ok(wide(&trained(&Cpu::new())?)),
        |device: &D| Ok(wide(&trained(device)?)),
    )
}

/// The parameters after eight steps at once and two more.
fn trained<D: EveryOperation>(device: &D) -> Result<Vec<f32>> {
    let (restarts, b) = (2, 7);
    let table = TypedTable::new([40, 12]);
    let of_columns = ColumnTable::Typed(&table.columns);
    let (n_outputs, n_scales) = (of_columns.n_outputs(), of_columns.n_scales());
    let mut layout = Layout::default();
    let layer = layout.push_affine("layer", table.n_inputs(), n_outputs);
    let scale_layer = layout.push_affine("scales", 1, n_scales);
    let mut params = params(device, restarts, &scaled(restarts * layout.len(), 84, 0.2))?;
    let rows = device.rows(table.view())?;
    let mut batch = device.batch(&rows, restarts, b)?;
    let columns = device.columns(of_columns)?;
    let ones = upload(device, [restarts, b, 1], &vec![1.0; restarts * b])?;
    let (mut output, mut scales) =
        (zeros(device, [restarts, b, n_outputs])?, zeros(device, [restarts, b, n_scales])?);
    let mut sums = device.sums(restarts, b, 1)?;
    let (keys, mut recording) = (keys(restarts), D::Recording::default());
    let tick = |step: u64| Tick {
        epoch: 3,
        first: step % 5 * b as u64,
        draw: STEP + 2 * step,
        adam: step + 1,
        learning_rates: [1e-2; 2],
    };
    let ticks: Vec<Tick> = (0..MAX_STEPS as u64 + 2).map(tick).collect();
    for ticks in [&ticks[..MAX_STEPS], &ticks[MAX_STEPS..]] {
        device.steps(ticks, &mut recording, &mut params, |params, tick| {
            let selection =
                RowSelection::Shuffled { keys: &keys, epoch: tick.epoch, first: tick.first as usize };
            device.gather(&rows, selection, &mut batch)?;
            device.hide_cells(&rows, Draw { keys: &keys, step: tick.draw + 1 }, 0.3, &mut batch)?;
            device.input_affine(params, layer, &rows, &batch, Activation::Linear, &mut output)?;
            device.affine(params, scale_layer, &ones, Activation::Linear, &mut scales)?;
            let x = device.batch_rows(&batch);
            device.typed_likelihood(&columns, x, &mut output, &mut scales, &mut sums)?;
            // A large epsilon, so that gradients close to zero do not count.
            let step = tick.adam_step(0..layout.len(), 0, 0.1);
            device.affine_backward_weights(params, scale_layer, &ones, &scales, Some(&step))?;
            device.input_affine_backward(params, layer, &rows, &batch, &output, Some(&step))
        })?;
    }
    let total = device.take_sums(&mut sums)?.into_iter().map(|terms| terms.reconstruction as f32);
    let mut values = read(device, &params.values, 0..restarts * layout.len())?;
    values.extend(total.map(|total| 1e-3 * total));
    Ok(values)
}
