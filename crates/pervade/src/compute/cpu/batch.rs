//! Rows picked from the data set, prepared; sparse rows also as they are.

use rayon::prelude::*;

use super::affine::column_sums;
use super::shared::Shared;
use super::simd::{Isa, for_isa};
use super::{Activation, Affine, M, Matrix, Params, Pick};
use crate::data::{Csr, Dataset, Preparation, Values};

/// The data set with its preparation: nothing is copied.
#[derive(Debug, Clone, Copy)]
pub struct CpuRows<'a> {
    data: &'a Dataset<'a>,
    preparation: &'a Preparation,
}

impl<'a> CpuRows<'a> {
    pub(super) fn new(data: &'a Dataset<'a>, preparation: &'a Preparation) -> Self {
        Self { data, preparation }
    }

    /// Sparse rows whose preparation keeps zeros zero.
    pub(super) fn is_sparse(&self) -> bool {
        self.csr().is_some()
    }

    fn csr(&self) -> Option<&'a Csr> {
        match self.data.values() {
            Values::Csr(csr) if self.preparation.shift().is_empty() => Some(csr),
            _ => None,
        }
    }
}

/// The rows of a step.
#[derive(Debug)]
pub struct CpuBatch {
    /// Dense and prepared, [R, B, D].
    pub(super) x: M,
    /// Which rows they are, [R, B].
    ids: Vec<usize>,
    /// Where the entries of each sparse row end, and the entries.
    ends: Vec<usize>,
    entries: Vec<(u32, f32)>,
}

/// Output columns a task of the sparse gradient takes.
const STRIPE: usize = 64;

impl CpuBatch {
    pub(super) fn new(rows: &CpuRows<'_>, restarts: usize, n_rows: usize) -> Self {
        let d = rows.data.n_columns();
        let x = Matrix { data: vec![0.0; restarts * n_rows * d], restarts, rows: n_rows, columns: d };
        Self { x, ids: vec![0; restarts * n_rows], ends: Vec::new(), entries: Vec::new() }
    }

    pub(super) fn fill(&mut self, rows: &CpuRows<'_>, pick: Pick<'_>) {
        let (b, n) = (self.x.rows, rows.data.n_rows());
        let columns = self.x.columns;
        let lines = self.x.data.par_chunks_mut(columns).with_min_len(8).zip(&mut self.ids);
        lines.enumerate().for_each(|(place, (out, id))| {
            let (restart, i) = (place / b, place % b);
            *id = match pick {
                Pick::Shuffled { keys, epoch, first } => keys[restart].permute(first + i, n, epoch),
                // The last batch of a pass may stand over the end; its surplus rows repeat the last.
                Pick::Range { first } => (first + i).min(n - 1),
            };
            rows.preparation.prepared_row_into(rows.data, *id, out);
        });
        if let Some(csr) = rows.csr() {
            self.fill_entries(csr, rows.preparation);
        }
    }

    fn fill_entries(&mut self, csr: &Csr, preparation: &Preparation) {
        self.entries.clear();
        self.ends.clear();
        for &id in &self.ids {
            let (columns, values) = csr.row(id);
            let factor = preparation.sparse_row_factor(csr, id);
            let entry = |(&c, &x): (&u32, &f32)| (c, preparation.sparse_entry(c, x, factor));
            self.entries.extend(columns.iter().zip(values).map(entry));
            self.ends.push(self.entries.len());
        }
    }

    fn entries_of(&self, place: usize) -> &[(u32, f32)] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.entries[start..self.ends[place]]
    }

    /// y = activation(x W + b), walking the entries of each row.
    pub(super) fn sparse_affine(
        &self,
        isa: Isa,
        params: &Params<Vec<f32>>,
        layer: Affine,
        activation: Activation,
        y: &mut M,
    ) {
        let (b, outputs) = (self.x.rows, y.columns);
        y.data.par_chunks_mut(outputs).with_min_len(4).enumerate().for_each(|(place, out)| {
            let values = &params.values[place / b * params.stride..];
            out.copy_from_slice(&values[layer.bias.range()]);
            add_rows(isa, self.entries_of(place), &values[layer.weight.range()], out);
            if activation == Activation::Relu {
                out.iter_mut().for_each(|y| *y = y.max(0.0));
            }
        });
    }

    /// dW += x_e dy for every entry, in the order of the rows; tasks share out the columns of dW.
    pub(super) fn sparse_affine_backward(
        &self,
        isa: Isa,
        params: &mut Params<Vec<f32>>,
        layer: Affine,
        dy: &M,
    ) {
        let (b, outputs) = (self.x.rows, dy.columns);
        for restart in 0..params.restarts {
            let gradients = &mut params.gradients[restart * params.stride..];
            let dy_of = &dy.data[restart * dy.stride()..(restart + 1) * dy.stride()];
            column_sums(isa, dy_of, &mut gradients[layer.bias.range()]);
            let d_weight = Shared::new(&mut gradients[layer.weight.range()]);
            (0..outputs.div_ceil(STRIPE)).into_par_iter().for_each(|stripe| {
                let first = stripe * STRIPE;
                let width = STRIPE.min(outputs - first);
                let line = |column: usize| {
                    // SAFETY: columns of the data are below the weight's rows, and each stripe of
                    // columns of dW is touched by this task alone, one line at a time.
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
