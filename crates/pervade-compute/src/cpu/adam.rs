//! Adam (Kingma and Ba, 2015): one pass over the flat buffers, or block by block while a layer's weight
//! gradient is computed. There, the moments of weights are in tiles (`tiles.rs`).

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use super::layers::column_sums;
use super::product::{
    Epilogue, Functions, Prepared, View, Written, at_least, product, product_alone, product_skipping,
    with_panels,
};
use super::shared::Shared;
use super::simd::{Isa, for_isa};
use super::team::{TeamForEach, for_each_task};
use super::tiles::Tiles;
use crate::{AdamStep, Affine, BETA2, Params, Slot, inverse_root, step_size};

/// Parameters per task: four streams of 64 KiB, which fit into the second-level cache.
const CHUNK: usize = 16 * 1024;

/// The coefficients of a step, the same for every parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// Learning rate over the first moment's bias correction.
    step_size: f32,
    /// Inverse square root of the second moment's bias correction.
    inverse_root: f32,
    epsilon: f32,
    beta1: f32,
}

impl Rates {
    pub(super) fn new(step: &AdamStep, beta1: f32) -> Self {
        Self {
            step_size: step_size(step.step, step.learning_rate, beta1),
            inverse_root: inverse_root(step.step),
            epsilon: step.epsilon,
            beta1,
        }
    }
}

/// Updates the weight and bias of one layer, for all restarts.
pub(super) fn adam_layer(isa: Isa, params: &mut Params<Vec<f32>>, layer: Affine, step: &AdamStep) {
    let rates = Rates::new(step, params.beta1);
    for restart in 0..params.restarts {
        let (weight, gradients) = Weight::of(params, restart, layer.weight);
        let (columns, range) = (layer.weight.columns.max(1), layer.weight.range());
        let rows = gradients[range].par_chunks_exact(columns).with_min_len(CHUNK / columns);
        rows.enumerate().team_for_each(|(row, g)| {
            // SAFETY: each row is updated once.
            unsafe { weight.update(isa, rates, row, 0, g) }
        });
        adam_range(isa, params, restart, layer.bias.range(), rates);
    }
}

/// Updates the parameters `range` of one restart.
pub(super) fn adam_range(
    isa: Isa,
    params: &mut Params<Vec<f32>>,
    restart: usize,
    range: Range<usize>,
    rates: Rates,
) {
    let base = restart * params.stride;
    let range = base + range.start..base + range.end;
    let values = params.values[range.clone()].par_chunks_mut(CHUNK);
    let gradients = params.gradients[range.clone()].par_chunks(CHUNK);
    let first = params.first_moments[range.clone()].par_chunks_mut(CHUNK);
    let second = params.second_moments[range].par_chunks_mut(CHUNK);
    values
        .zip(gradients)
        .zip(first.zip(second))
        .team_for_each(|((p, g), (m, v))| update(isa, rates, p, g, m, v));
}

/// A weight and its moments, of which tasks update parts.
#[derive(Clone, Copy)]
pub(super) struct Weight<'a> {
    n_columns: usize,
    p: Shared<'a>,
    tiles: Tiles,
    moments: [Shared<'a>; 2],
}

impl<'a> Weight<'a> {
    /// A weight of a restart, and the gradients of that restart.
    pub(super) fn of(params: &'a mut Params<Vec<f32>>, restart: usize, slot: Slot) -> (Self, &'a mut [f32]) {
        let base = restart * params.stride;
        let [p, m, v] = [&mut params.values, &mut params.first_moments, &mut params.second_moments]
            .map(|buffer| &mut buffer[base..][slot.range()]);
        (Self::new([slot.rows, slot.columns], [p, m, v]), &mut params.gradients[base..])
    }

    fn new([n_rows, n_columns]: [usize; 2], parameters_and_moments: [&'a mut [f32]; 3]) -> Self {
        let [p, m, v] = parameters_and_moments.map(Shared::new);
        Self { n_columns, p, tiles: Tiles::new(n_rows, n_columns), moments: [m, v] }
    }

    /// Updates the part of a row that begins at `column` with its gradient.
    ///
    /// # Safety
    /// No other task updates it.
    #[inline(always)]
    unsafe fn update(self, isa: Isa, rates: Rates, row: usize, column: usize, g: &[f32]) {
        for part in self.tiles.parts(column..column + g.len()) {
            let (g, at) = (&g[part.start - column..part.end - column], self.tiles.index(row, part.start));
            // SAFETY: as the caller guarantees.
            unsafe {
                let p = self.p.slice(row * self.n_columns + part.start, g.len());
                let [m, v] = self.moments.map(|moments| moments.slice(at, g.len()));
                update(isa, rates, p, g, m, v);
            }
        }
    }

    /// What is written with a product whose first element is at this row and column.
    fn written(&self, first: [usize; 2]) -> Written<'a> {
        let moments = Some((self.tiles, self.moments));
        Written { c: self.p, n_columns: self.n_columns, moments, mask: None, first }
    }
}

/// Rows and columns of the block of a weight gradient that a task computes and applies: 64 KiB, which stay in the
/// second-level cache together with their parameters and moments.
const BLOCK: [usize; 2] = [64, 256];

thread_local! {
    /// The gradient's current block; allocated once per thread.
    static GRADIENT: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// The rows of a batch from which a gradient may go to memory, and the most columns of one that goes there without skipping zeros: the
/// register tile wastes parts of its vectors if rows are short.
const MIN_STORED_K: usize = 256;
const MOST_STORED_COLUMNS: usize = 32;

/// A step of Adam with the gradient A B, which is never stored as a whole, except for long batches if it is narrow or if zeros of B are
/// skipped: then it goes through `gradient`, transposed. The sums of B's columns, the gradient of the bias, are stored.
pub(super) fn product_update(
    isa: Isa,
    a: View,
    b: View,
    rates: Rates,
    weight: Weight,
    gradient: &mut [f32],
    sums_of_b: &mut [f32],
) {
    let (n_rows, n_columns) = (a.rows(), b.columns());
    // SAFETY: parts of rows do not overlap, and each belongs to one task.
    let update_row =
        |row: usize, column: usize, g: &[f32]| unsafe { weight.update(isa, rates, row, column, g) };
    let functions = Functions::of(isa);
    if product_skipping(functions, a, b, weight.written([0, 0]), Some(&mut *sums_of_b), update_row) {
        return;
    }
    column_sums(isa, b, sums_of_b);
    let shape = [n_rows, n_columns];
    if b.rows() >= MIN_STORED_K && transposed_product(isa, a, b, gradient) {
        return for_each_block(shape, update_row, |[rows, columns], to| {
            functions.transpose(View::new(gradient, n_columns, n_rows).part(columns, rows), to);
        });
    }
    let update = |panels: Option<&[f32]>| {
        for_each_block(shape, update_row, |[rows, columns], to| {
            let written = Some(weight.written([rows.start, columns.start]));
            let panels = panels.map(|panels| &panels[columns.start * b.rows()..]);
            let (a, b) = (a.part(rows, 0..b.rows()), b.part(0..b.rows(), columns));
            product_alone(isa, a, b, to, Prepared { panels, written });
        });
    };
    // With several blocks of rows, each needs all of B.
    if n_rows <= functions.tile_rows() {
        update(None);
    } else {
        with_panels(functions, b, |panels| update(Some(panels)));
    }
}

/// Computes a gradient block by block in parallel, and calls `update_row` with the parts of its rows (row, first column, values).
fn for_each_block(
    [n_rows, n_columns]: [usize; 2],
    update_row: impl Fn(usize, usize, &[f32]) + Sync + Send,
    compute: impl Fn([Range<usize>; 2], &mut [f32]) + Sync + Send,
) {
    let [row_blocks, column_blocks] = [n_rows.div_ceil(BLOCK[0]), n_columns.div_ceil(BLOCK[1])];
    for_each_task(row_blocks * column_blocks, |block| {
        let (i, j) = (block / column_blocks, block % column_blocks);
        let rows = n_rows * i / row_blocks..n_rows * (i + 1) / row_blocks;
        let columns = cut(n_columns, j, column_blocks)..cut(n_columns, j + 1, column_blocks);
        GRADIENT.with_borrow_mut(|buffer| {
            let gradient = at_least(buffer, rows.len() * columns.len());
            compute([rows.clone(), columns.clone()], gradient);
            for (row, g) in rows.zip(gradient.chunks_exact(columns.len())) {
                update_row(row, columns.start, g);
            }
        });
    });
}

/// Computes the transposed A B, whose rows are B's columns, if that is worth it.
fn transposed_product(isa: Isa, a: View, b: View, c: &mut [f32]) -> bool {
    let (a, b) = (b.transposed(), a.transposed());
    if a.rows() <= MOST_STORED_COLUMNS {
        product(isa, a, b, Epilogue::Store, c);
        return true;
    }
    let (n_columns, c) = (b.columns(), Shared::new(c));
    let written = Written { c, n_columns, moments: None, mask: None, first: [0, 0] };
    product_skipping(Functions::of(isa), a, b, written, None, |row, column, line| {
        // SAFETY: each part of a row is given once.
        unsafe { c.slice(row * n_columns + column, line.len()) }.copy_from_slice(line);
    })
}

/// The first column of block `j` of `n_blocks`: a multiple of the widest panel.
fn cut(n_columns: usize, j: usize, n_blocks: usize) -> usize {
    const PANEL: usize = 32;
    (n_columns.div_ceil(PANEL) * j / n_blocks * PANEL).min(n_columns)
}

/// Zero instead of a moment that no longer changes any weight. Moments of units that are always zero would otherwise decay to subnormal
/// numbers, and stay there: processors take several times as long for these.
#[inline(always)]
fn without_subnormals(moment: f32) -> f32 {
    const NEGLIGIBLE: f32 = 1e-36;
    if moment.abs() < NEGLIGIBLE { 0.0 } else { moment }
}

for_isa! {
    /// Updates m, v and p with the gradient g.
    fn update(rates: Rates, p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        for (((p, &g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
            *m = without_subnormals(rates.beta1.mul_add(*m, (1.0 - rates.beta1) * g));
            *v = without_subnormals(BETA2.mul_add(*v, (1.0 - BETA2) * g * g));
            let root = v.sqrt().mul_add(rates.inverse_root, rates.epsilon);
            *p -= rates.step_size * *m / root;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Key;
    use crate::{Cpu, Memory};

    #[test]
    fn moments_without_a_gradient_become_zero() {
        let rates = Rates { step_size: 0.1, inverse_root: 1.0, epsilon: 1e-4, beta1: 0.9 };
        for isa in Isa::available() {
            let (mut p, mut m, mut v) = ([0.5; 20], [1e-6; 20], [1e-30; 20]);
            for _ in 0..20_000 {
                update(isa, rates, &mut p, &[0.0; 20], &mut m, &mut v);
                assert!(m.iter().chain(&v).all(|x| *x == 0.0 || x.is_normal()), "{isa:?}: {m:?} {v:?}");
            }
            assert_eq!((m, v), ([0.0; 20], [0.0; 20]), "{isa:?}");
            assert!(p.iter().all(|p| (0.48..0.5).contains(p)), "{p:?}");
        }
    }

    #[test]
    fn the_update_with_the_gradient_is_the_update_after_it() {
        let inputs = 301;
        let key = Key::new(1, 7u32, 0);
        let random =
            |n: usize, salt: u32| (0..n).map(|i| key.uniform(i as u64, salt, 0) as f32).collect::<Vec<_>>();
        let without_small = |n: usize, salt: u32, least: f32| {
            random(n, salt).into_iter().map(|x| if x < least { 0.0 } else { x }).collect::<Vec<_>>()
        };
        // Dense, zeros among the inputs, zeros among the gradients, a narrow layer: all take different ways.
        for (rows, outputs, least_x, least_dy, goes_to_memory) in [
            (100, 200, 0.0, 0.0, false),
            (100, 200, 0.6, 0.0, false),
            (300, 200, 0.6, 0.0, false),
            (300, 200, 0.0, 0.6, true),
            (300, 20, 0.0, 0.0, true),
        ] {
            let (x, dy) =
                (without_small(rows * inputs, 1, least_x), without_small(rows * outputs, 2, least_dy));
            let (x, dy) = (View::new(&x, rows, inputs).transposed(), View::new(&dy, rows, outputs));
            for isa in Isa::available() {
                let n = inputs * outputs;
                let rates = Rates { step_size: 0.1, inverse_root: 1.5, epsilon: 1e-4, beta1: 0.9 };
                let [mut p, mut m, mut v] = [3, 4, 5].map(|salt| random(n, salt));
                let [mut p2, mut m2, mut v2] = [p.clone(), m.clone(), v.clone()];
                let mut sums = vec![f32::NAN; outputs];
                let weight = Weight::new([inputs, outputs], [&mut p, &mut m, &mut v]);
                let mut stored = vec![f32::NAN; n];
                product_update(isa, x, dy, rates, weight, &mut stored, &mut sums);
                let weight = [Slot { offset: 0, rows: inputs, columns: outputs }];
                for moments in [&mut m, &mut v, &mut m2, &mut v2] {
                    Cpu::new().moments_to_rows(&weight, n, moments);
                }
                let mut gradient = vec![0.0; n];
                product_alone(isa, x, dy, &mut gradient, Prepared::default());
                update(isa, rates, &mut p2, &gradient, &mut m2, &mut v2);
                assert_eq!((p, m, v), (p2, m2, v2), "{isa:?}");
                let mut expected = vec![0.0; outputs];
                column_sums(isa, dy, &mut expected);
                assert_eq!(sums, expected, "{isa:?}");
                assert!(stored.iter().all(|g| g.is_nan() != goes_to_memory), "{isa:?}");
            }
        }
    }
}
