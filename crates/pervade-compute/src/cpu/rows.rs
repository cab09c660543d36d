//! Batches of scaled rows, dense and, for sparse data, also sparse.

use rayon::prelude::*;

use super::layers::column_sums;
use super::product::View;
use super::shared::Shared;
use super::simd::{Isa, for_isa};
use super::team::{TeamForEach, for_each_task};
use super::{Cpu, M, adam};
use crate::math::ln_1p;
use crate::ops::{count_factor, draw_neighbour, hiding_threshold, is_hidden};
use crate::{
    Activation, AdamStep, Affine, Csr, Draw, Inputs, Layers, Matrix, NeighbourLists, Params, Result,
    RowSelection, RowValues, Rows, RowsView,
};

/// The data as sparse rows, if they are stored so and what the encoder sees of a zero is a zero.
fn sparse<'a>(rows: &RowsView<'a>) -> Option<Csr<'a>> {
    let keeps_zeros = rows.scaling.shift.is_empty() && !matches!(rows.inputs, Inputs::Typed(_));
    match rows.values {
        RowValues::Csr(csr) if keeps_zeros => Some(csr),
        _ => None,
    }
}

/// The rows of a step.
#[derive(Debug)]
pub struct CpuBatch {
    /// Dense and scaled, [R, B, D].
    pub(super) x: M,
    /// What the encoder sees of them, [R, B, E], unless it is `x` or sparse.
    input: Option<M>,
    /// Indices of the rows, [R, B].
    row_indices: Vec<usize>,
    /// The neighbours of all rows, if the second half of each restart's rows are neighbours of the first.
    neighbours: Option<NeighbourLists>,
    /// The end of each sparse row in `entries`.
    ends: Vec<usize>,
    entries: Vec<(u32, f32)>,
}

/// The row at index `i` of restart `restart` in a batch of `n` rows, neighbours included.
fn selected_row(
    selection: RowSelection<'_>,
    neighbours: Option<&NeighbourLists>,
    restart: usize,
    i: usize,
    n: usize,
    n_rows: usize,
) -> usize {
    let half = if neighbours.is_some() { n / 2 } else { n };
    let neighbour = neighbours.filter(|_| i >= half);
    let i = i % half;
    let (row, drawn) = match selection {
        RowSelection::Shuffled { keys, epoch, first } => (keys[restart].permute(first + i, n_rows, epoch), 0),
        RowSelection::ShuffledPairs { keys, neighbour_keys, epoch, first } => {
            let k = neighbours.map_or(1, |neighbours| neighbours.n_neighbours);
            let drawn = draw_neighbour(neighbour_keys[restart], epoch, first + i, k);
            (keys[restart].permute(first + i, n_rows, epoch), drawn)
        }
        // The last batch may extend beyond the end; its surplus rows repeat the last row.
        RowSelection::Range { first } => ((first + i).min(n_rows - 1), 0),
    };
    neighbour.map_or(row, |NeighbourLists { lists, n_neighbours }| {
        lists[restart][row * n_neighbours + drawn] as usize
    })
}

/// Output columns per task of the sparse gradient.
const STRIPE: usize = 64;

impl CpuBatch {
    /// What the encoder sees of the batch, as a dense matrix.
    fn input(&self) -> &M {
        self.input.as_ref().unwrap_or(&self.x)
    }

    fn fill_entries(&mut self, csr: Csr<'_>, rows: &RowsView<'_>) {
        let scaling = rows.scaling;
        self.entries.clear();
        self.ends.clear();
        for &row in &self.row_indices {
            let (columns, values) = csr.row(row);
            let factor = scaling.row_factor(values);
            let entry = |(&c, &x): (&u32, &f32)| (c, scaling.entry(c, x, factor));
            let first = self.entries.len();
            self.entries.extend(columns.iter().zip(values).map(entry));
            if let Inputs::Counts { row_sum } = rows.inputs {
                let entries = &mut self.entries[first..];
                let factor = count_factor(row_sum, entries.iter().map(|entry| entry.1));
                entries.iter_mut().for_each(|(_, x)| *x = ln_1p(*x * factor));
            }
            self.ends.push(self.entries.len());
        }
    }

    fn entries_of(&self, row: usize) -> &[(u32, f32)] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.entries[start..self.ends[row]]
    }

    /// y = activation(x W + b), from the entries of each row.
    fn sparse_affine(
        &self,
        isa: Isa,
        params: &Params<Vec<f32>>,
        layer: Affine,
        activation: Activation,
        y: &mut M,
    ) {
        let (b, outputs) = (self.x.rows, y.columns);
        y.data.par_chunks_mut(outputs).with_min_len(4).enumerate().team_for_each(|(row, out)| {
            let values = &params.values[row / b * params.stride..];
            out.copy_from_slice(&values[layer.bias.range()]);
            add_rows(isa, self.entries_of(row), &values[layer.weight.range()], out);
            if activation == Activation::Relu {
                out.iter_mut().for_each(|y| *y = y.max(0.0));
            }
        });
    }

    /// dW += x_e dy for every entry, in the order of the rows; each task takes a stripe of dW's columns.
    fn sparse_affine_backward(&self, isa: Isa, params: &mut Params<Vec<f32>>, layer: Affine, dy: &M) {
        let (b, outputs) = (self.x.rows, dy.columns);
        for restart in 0..params.restarts {
            let gradients = &mut params.gradients[restart * params.stride..];
            let dy_of = &dy.data[restart * dy.stride()..(restart + 1) * dy.stride()];
            column_sums(isa, View::new(dy_of, b, outputs), &mut gradients[layer.bias.range()]);
            let d_weight = Shared::new(&mut gradients[layer.weight.range()]);
            for_each_task(outputs.div_ceil(STRIPE), |stripe| {
                let first = stripe * STRIPE;
                let width = STRIPE.min(outputs - first);
                let line = |column: usize| {
                    // SAFETY: columns of the data are below the weight's rows, and this stripe of
                    // columns of dW belongs to this task alone, which uses one row at a time.
                    unsafe { d_weight.slice(column * outputs + first, width) }
                };
                (0..layer.weight.rows).for_each(|column| line(column).fill(0.0));
                for i in 0..b {
                    let from = &dy_of[i * outputs + first..][..width];
                    for &(column, x) in self.entries_of(restart * b + i) {
                        add_scaled(isa, x, from, line(column as usize));
                    }
                }
            });
        }
    }
}

impl Rows for Cpu {
    type Rows<'a> = RowsView<'a>;
    type Batch = CpuBatch;

    fn rows<'a>(&self, data: RowsView<'a>) -> Result<RowsView<'a>> {
        Ok(data)
    }

    fn batch(&self, rows: &RowsView<'_>, restarts: usize, n_rows: usize) -> Result<CpuBatch> {
        let d = rows.n_columns;
        let matrix = |columns: usize| Matrix::zeros(self, restarts, n_rows, columns);
        let has_own_input = rows.inputs != Inputs::Values && sparse(rows).is_none();
        let input = if has_own_input { Some(matrix(rows.n_inputs())?) } else { None };
        let (x, row_indices) = (matrix(d)?, vec![0; restarts * n_rows]);
        Ok(CpuBatch { x, input, row_indices, neighbours: None, ends: Vec::new(), entries: Vec::new() })
    }

    fn batch_with_neighbours(
        &self,
        rows: &RowsView<'_>,
        restarts: usize,
        n_rows: usize,
        neighbours: NeighbourLists,
    ) -> Result<CpuBatch> {
        Ok(CpuBatch { neighbours: Some(neighbours), ..self.batch(rows, restarts, 2 * n_rows)? })
    }

    fn gather(&self, rows: &RowsView<'_>, selection: RowSelection<'_>, batch: &mut CpuBatch) -> Result<()> {
        let (b, n) = (batch.x.rows, rows.n_rows);
        let (columns, neighbours) = (batch.x.columns, batch.neighbours.as_ref());
        let rows_out = batch.x.data.par_chunks_mut(columns).with_min_len(8).zip(&mut batch.row_indices);
        rows_out.enumerate().team_for_each(|(index, (out, row))| {
            *row = selected_row(selection, neighbours, index / b, index % b, b, n);
            rows.row_into(*row, out);
        });
        if let Some(input) = &mut batch.input {
            let x = batch.x.data.par_chunks(columns);
            let inputs = input.data.par_chunks_mut(input.columns).with_min_len(8);
            inputs.zip(x).team_for_each(|(input, x)| rows.inputs.write(x, input));
        }
        if let Some(csr) = sparse(rows) {
            batch.fill_entries(csr, rows);
        }
        Ok(())
    }

    fn batch_rows<'b>(&self, batch: &'b CpuBatch) -> &'b M {
        &batch.x
    }

    fn hide_cells(&self, rows: &RowsView<'_>, draw: Draw<'_>, rate: f32, batch: &mut CpuBatch) -> Result<()> {
        let (Inputs::Typed(columns), Some(input)) = (rows.inputs, &mut batch.input) else { return Ok(()) };
        let (b, width, threshold) = (batch.x.rows, input.columns, hiding_threshold(rate));
        input.data.par_chunks_mut(width).with_min_len(8).enumerate().team_for_each(|(index, input)| {
            let (key, row) = (draw.keys[index / b], index % b);
            for (j, column) in columns.iter().enumerate() {
                if is_hidden(key, draw.step, row, j, threshold) {
                    column.write_input(f32::NAN, input);
                }
            }
        });
        Ok(())
    }

    fn input_affine(
        &self,
        params: &Params<Vec<f32>>,
        layer: Affine,
        rows: &RowsView<'_>,
        batch: &CpuBatch,
        activation: Activation,
        y: &mut M,
    ) -> Result<()> {
        if sparse(rows).is_some() {
            batch.sparse_affine(self.isa, params, layer, activation, y);
        } else {
            return self.affine(params, layer, batch.input(), activation, y);
        }
        Ok(())
    }

    fn input_affine_backward(
        &self,
        params: &mut Params<Vec<f32>>,
        layer: Affine,
        rows: &RowsView<'_>,
        batch: &CpuBatch,
        dy: &M,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        if sparse(rows).is_some() {
            batch.sparse_affine_backward(self.isa, params, layer, dy);
            update.into_iter().for_each(|step| adam::adam_layer(self.isa, params, layer, step));
        } else {
            return self.affine_backward_weights(params, layer, batch.input(), dy, update);
        }
        Ok(())
    }
}

for_isa! {
    /// out += x_e W[column_e] over all entries.
    fn add_rows(entries: &[(u32, f32)], weight: &[f32], out: &mut [f32]) {
        let width = out.len();
        for &(column, x) in entries {
            let row = &weight[column as usize * width..][..width];
            for (o, &w) in out.iter_mut().zip(row) {
                *o = x.mul_add(w, *o);
            }
        }
    }
}

for_isa! {
    /// to += factor from.
    fn add_scaled(factor: f32, from: &[f32], to: &mut [f32]) {
        for (t, &f) in to.iter_mut().zip(from) {
            *t = factor.mul_add(f, *t);
        }
    }
}
