//! From the graph's inputs to prepared cells, and to what the encoder sees of them.

use pervade::compute::{ColumnFamily, TypedColumn};
use pervade::data::{Preparation, PrepareKind};
use pervade::model::Vade;

use super::cells::{ROWS, TypedInputs};
use super::graph::{Dimension, Element, Graph, Value};

/// A prepared row.
pub(super) struct Prepared {
    /// Prepared cells in single precision; NaN where they are missing. `[batch, D]`
    pub(super) cells: Value,
    /// Whether each cell is missing; none if no cell can be. `[batch, D]`
    pub(super) is_missing: Option<Value>,
    /// What the encoder sees. `[batch, inputs]`
    pub(super) input: Value,
}

/// Adds the inputs of the graph and prepares them.
pub(super) fn prepare(g: &mut Graph, model: &Vade) -> Prepared {
    let preparation = &model.metadata().preparation;
    match model.schema() {
        Some(schema) if preparation.kind() == PrepareKind::Typed => {
            let cells = TypedInputs::new(model, schema).cells(g);
            typed(g, preparation, &cells)
        }
        _ => plain(g, model, preparation),
    }
}

/// A matrix of numbers that share one preparation, as the device applies it: (x row_factor - shift) scale.
fn plain(g: &mut Graph, model: &Vade, preparation: &Preparation) -> Prepared {
    let dims = [Dimension::Batch, Dimension::Fixed(preparation.n_columns())];
    let pixels = model.image().map_or(String::new(), |image| {
        format!(" Images of {} x {} pixels, channels last: {}.", image.height, image.width, image.channels)
    });
    let description = format!("One row per row of the table, without missing cells.{pixels}");
    g.input(ROWS, Element::Float, &dims, &description);
    let mut x = ROWS.to_string();
    if let Some(norm) = preparation.row_norm() {
        let wide = g.cast(&x, Element::Double);
        let squares = g.mul(&wide, &wide);
        let square = g.sum(&squares, 1, true);
        let length = g.op("Sqrt", &[&square]);
        x = scaled_rows(g, &x, f64::from(norm), &length, 1.0);
    }
    if !preparation.shift().is_empty() {
        let shift = g.floats(preparation.shift());
        x = g.sub(&x, &shift);
    }
    if preparation.scale() != [1.0] {
        let scale = g.floats(preparation.scale());
        x = g.mul(&x, &scale);
    }
    let mut input = x.clone();
    if preparation.kind() == PrepareKind::Counts {
        let wide = g.cast(&x, Element::Double);
        let sum = g.sum(&wide, 1, true);
        let scaled = scaled_rows(g, &x, f64::from(preparation.row_sum()), &sum, 0.0);
        input = log1p(g, &scaled, Element::Float);
    }
    Prepared { cells: x, is_missing: None, input }
}

/// Each row of x times `target` over its size, or times `otherwise` if that is zero.
fn scaled_rows(g: &mut Graph, x: &str, target: f64, size: &str, otherwise: f64) -> Value {
    let (target, zero, otherwise) = (g.double(target), g.double(0.0), g.double(otherwise));
    let factor = g.op("Div", &[&target, size]);
    let is_some = g.op("Greater", &[size, &zero]);
    let factor = g.op("Where", &[&is_some, &factor, &otherwise]);
    let factor = g.cast(&factor, Element::Float);
    g.mul(x, &factor)
}

fn log1p(g: &mut Graph, x: &str, element: Element) -> Value {
    let one = if element == Element::Double { g.double(1.0) } else { g.float(1.0) };
    let sum = g.add(x, &one);
    g.op("Log", &[&sum])
}

/// Cells of typed columns, scaled in double precision.
fn typed(g: &mut Graph, preparation: &Preparation, cells: &str) -> Prepared {
    let mut x = cells.to_string();
    if preparation.log().contains(&true) {
        let (logs, mask) = (log1p(g, &x, Element::Double), g.bools(preparation.log()));
        x = g.op("Where", &[&mask, &logs, &x]);
    }
    let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    if preparation.shift().iter().any(|&shift| shift != 0.0) {
        let shift = g.doubles(&wide(preparation.shift()));
        x = g.sub(&x, &shift);
    }
    if preparation.scale().iter().any(|&scale| scale != 1.0) {
        let scale = g.doubles(&wide(preparation.scale()));
        x = g.mul(&x, &scale);
    }
    let cells = g.cast(&x, Element::Float);
    let is_missing = g.op("IsNaN", &[&cells]);
    let zero = g.float(0.0);
    let filled = g.op("Where", &[&is_missing, &zero, &cells]);
    let input = typed_input(g, preparation.columns(), &filled, &is_missing);
    Prepared { cells, is_missing: Some(is_missing), input }
}

/// One input of the encoder.
#[derive(Clone, Copy, Default)]
struct Slot {
    column: usize,
    /// The level whose indicator it is; -1 if it is none.
    level: f32,
    is_gap: bool,
    is_count: bool,
    shift: f32,
    factor: f32,
}

/// The encoder's inputs, in their order.
fn slots(columns: &[TypedColumn]) -> Vec<Slot> {
    let mut slots: Vec<(u32, Slot)> = Vec::new();
    for (column, typed) in columns.iter().enumerate() {
        let plain = Slot { column, level: -1.0, ..Slot::default() };
        let (shift, factor) = (typed.shift, typed.factor);
        match typed.family {
            ColumnFamily::Gaussian | ColumnFamily::Bernoulli => slots.push((typed.input, plain)),
            ColumnFamily::Count => {
                slots.push((typed.input, Slot { is_count: true, shift, factor, ..plain }));
            }
            ColumnFamily::Categorical { levels } => {
                let level = |level: u32| (typed.input + level, Slot { level: level as f32, ..plain });
                slots.extend((0..levels).map(level));
            }
        }
        slots.extend(typed.gap.map(|gap| (gap, Slot { is_gap: true, ..plain })));
    }
    slots.sort_by_key(|(input, _)| *input);
    slots.into_iter().map(|(_, slot)| slot).collect()
}

/// What the encoder sees: numbers, logarithms of counts, indicators of levels and of gaps; zero where cells are missing.
fn typed_input(g: &mut Graph, columns: &[TypedColumn], filled: &str, is_missing: &str) -> Value {
    let slots = slots(columns);
    let mask = |is: fn(&Slot) -> bool| slots.iter().map(is).collect::<Vec<bool>>();
    let [levels, gaps, counts] =
        [mask(|slot| slot.level >= 0.0), mask(|slot| slot.is_gap), mask(|slot| slot.is_count)];
    let is_plain = ![&levels, &gaps, &counts].iter().any(|mask| mask.contains(&true));
    if is_plain && slots.iter().enumerate().all(|(j, slot)| slot.column == j) {
        return filled.to_string();
    }
    let of: Vec<usize> = slots.iter().map(|slot| slot.column).collect();
    let (values, missing) = (g.columns(filled, &of), g.columns(is_missing, &of));
    let (mut x, zero) = (values.clone(), g.float(0.0));
    if counts.contains(&true) {
        let each = |value: fn(&Slot) -> f32| slots.iter().map(value).collect::<Vec<f32>>();
        let (shift, factor) = (g.floats(&each(|slot| slot.shift)), g.floats(&each(|slot| slot.factor)));
        let positive = g.op("Max", &[&values, &zero]);
        let logs = log1p(g, &positive, Element::Float);
        let centred = g.sub(&logs, &shift);
        let (scaled, counts) = (g.mul(&centred, &factor), g.bools(&counts));
        x = g.op("Where", &[&counts, &scaled, &x]);
    }
    if levels.contains(&true) {
        let each = g.floats(&slots.iter().map(|slot| slot.level).collect::<Vec<f32>>());
        let is_level = g.op("Equal", &[&values, &each]);
        let (indicators, levels) = (g.cast(&is_level, Element::Float), g.bools(&levels));
        x = g.op("Where", &[&levels, &indicators, &x]);
    }
    x = g.op("Where", &[&missing, &zero, &x]);
    if gaps.contains(&true) {
        let (indicators, gaps) = (g.cast(&missing, Element::Float), g.bools(&gaps));
        x = g.op("Where", &[&gaps, &indicators, &x]);
    }
    x
}
