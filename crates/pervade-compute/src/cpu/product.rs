//! The matrix product C(m, n) = sum over k of A(m, k) B(k, n), with a fused epilogue.
//!
//! B is packed, one panel of columns at a time, into a small buffer that stays in the cache: while the first register tile of its
//! columns is summed, if B is row-major, and for many rows all panels beforehand. A is read in place through its strides, unless it is long
//! and transposed. A register tile of C is summed over all k and passed through the epilogue (bias and ReLU, the ReLU mask, or nothing)
//! before it is stored. While a tile is summed, the next panel is prefetched. Where A has many zeros, they are skipped (`skip.rs`).
//! Every element of C is one sum in the order of k: how C is divided among threads does not affect the result.

/// Evaluates `$work` with a number as the constant `$N`, which is one of the literals and at most `$most`. `$most` is a constant, too:
/// what is above it is not compiled.
macro_rules! with_constant {
    ($number:expr, $most:expr, [$($n:literal)*], |$N:ident| $work:expr) => {
        match $number {
            $($n => if const { $n <= $most } { const $N: usize = $n; $work } else { unreachable!("{} of at most {}", $n, $most) })*
            number => unreachable!("{number} is not expected"),
        }
    };
}

mod pack;
mod pairs;
mod skip;
mod tile;

use std::cell::{Cell, RefCell};
use std::ops::Range;

use super::shared::Shared;
use super::simd::{Isa, Vector};
use super::team::for_each_task;
use super::tiles::Tiles;
use pack::{pack, pack_transposed, transpose};
pub(super) use skip::product_skipping;
use tile::tile;

/// A matrix read through its strides: element (i, j) is `values[i * row_stride + j * column_stride]`.
#[derive(Clone, Copy)]
pub struct View<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> View<'a> {
    /// A row-major matrix.
    pub fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        let fits = rows.checked_mul(columns).is_some_and(|needed| needed <= values.len());
        assert!(fits, "{} elements for {rows} x {columns}", values.len());
        Self { values, rows, columns, row_stride: columns, column_stride: 1 }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// All elements, row by row.
    pub(super) fn row_major(&self) -> &'a [f32] {
        assert!(self.column_stride == 1 && self.row_stride == self.columns, "a row-major matrix");
        &self.values[..self.rows * self.columns]
    }

    /// The submatrix of these rows and columns.
    pub(super) fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(rows.end <= self.rows && columns.end <= self.columns, "a submatrix inside the matrix");
        let first = rows.start * self.row_stride + columns.start * self.column_stride;
        Self { values: &self.values[first..], rows: rows.len(), columns: columns.len(), ..self }
    }

    /// The transposed view.
    pub fn transposed(self) -> Self {
        Self {
            values: self.values,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// What is applied to the product before it is stored.
#[derive(Clone, Copy)]
pub enum Epilogue<'a> {
    /// Nothing.
    Store,
    /// Adds a bias per column.
    Bias(&'a [f32]),
    /// Adds a bias per column, then applies ReLU.
    BiasRelu(&'a [f32]),
    /// Zero where the activation (same shape, row-major) is not positive: the ReLU's derivative.
    Mask(&'a [f32]),
}

/// Elements of A per task: half a MiB.
const BLOCK_LEN: usize = 1 << 17;
/// Enough rows of C per task to amortise packing its panel of B.
const MIN_BLOCK_ROWS: usize = 104;
/// Rows that gain nothing more.
const MAX_BLOCK_ROWS: usize = 256;
/// Tasks per thread, if there are enough tiles: a thread that is slower than the others then has fewer.
const TASKS_PER_THREAD: usize = 2;
/// The most k of a product that does little but write C: whole rows one after the other, as memory is fetched ahead.
const MAX_THIN_K: usize = 32;
/// The number of k from which a transposed A is packed.
const MIN_PACKED_K: usize = 256;

thread_local! {
    /// A thread's panel of B; allocated once.
    static PANEL: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    /// A thread's packed A; allocated once.
    static PACKED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    /// All panels of a B, for the tasks of the product that this thread began. It is taken while in use: a thread that
    /// waits for its tasks may run another product meanwhile.
    static PANELS: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Computes A B, applies the epilogue and writes the result to `c`, row-major [A's rows, B's columns].
pub fn product(isa: Isa, a: View, b: View, epilogue: Epilogue, c: &mut [f32]) {
    // Waking a second thread takes some microseconds; smaller products are done by then.
    let alone = a.rows * b.rows * b.columns < 1 << 18;
    product_with(isa, a, b, epilogue, c, alone, Prepared::default());
}

/// The product on the calling thread alone, for use within a parallel task.
pub(super) fn product_alone(isa: Isa, a: View, b: View, c: &mut [f32], prepared: Prepared) {
    product_with(isa, a, b, Epilogue::Store, c, true, prepared);
}

/// What the caller of a product has done and will do.
#[derive(Clone, Copy, Default)]
pub(super) struct Prepared<'a> {
    /// B packed by [`with_panels`]: from its first column on.
    pub(super) panels: Option<&'a [f32]>,
    /// What the caller writes with the product's result; otherwise C.
    pub(super) written: Option<Written<'a>>,
}

/// What is written once the product is known. Other threads have read it since it was last written: it is prefetched for writing
/// meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Written<'a> {
    /// C or a weight, row-major.
    pub(super) c: Shared<'a>,
    pub(super) n_columns: usize,
    /// Adam's moments of the weight.
    pub(super) moments: Option<(Tiles, [Shared<'a>; 2])>,
    /// A matrix of the shape of `c` that is only read then.
    pub(super) mask: Option<&'a [f32]>,
    /// The row and column of these where the product's first element is.
    pub(super) first: [usize; 2],
}

fn product_with(
    isa: Isa,
    a: View,
    b: View,
    epilogue: Epilogue,
    c: &mut [f32],
    alone: bool,
    prepared: Prepared,
) {
    assert_eq!(a.columns, b.rows, "inner sizes of a product");
    let n_results = a.rows.checked_mul(b.columns).expect("a product whose size fits into a `usize`");
    assert!(c.len() >= n_results, "an output large enough for the product");
    if let Epilogue::Mask(mask) = epilogue {
        assert!(mask.len() >= n_results, "mask of a product");
    }
    if let Epilogue::Bias(bias) | Epilogue::BiasRelu(bias) = epilogue {
        assert!(bias.len() >= b.columns, "bias of a product");
    }
    let (rows, width) = ((0, a.rows), b.columns);
    let (panels, c) = (prepared.panels, Shared::new(c));
    assert!(panels.is_none_or(|panels| panels.len() >= b.rows * b.columns), "all panels of B");
    let mask = if let Epilogue::Mask(mask) = epilogue { Some(mask) } else { None };
    let of_c = Written { c, n_columns: b.columns, moments: None, mask, first: [0, 0] };
    let written = prepared.written.unwrap_or(of_c);
    let whole = Task { a, packed: None, b, panels, epilogue, c, rows, column: 0, width, written };
    let functions = Functions::of(isa);
    let finish = |row: usize, column: usize, line: &[f32]| {
        tile::finish(&Task { column, width: line.len(), ..whole }, row, line);
    };
    if alone || !product_skipping(functions, a, b, written, None, finish) {
        run(&whole, alone, functions);
    }
}

/// Packs all of B and calls `work` with its panels: column j, if it is the first of a panel, is at j K.
pub(super) fn with_panels(functions: Functions, b: View, work: impl FnOnce(&[f32])) {
    let (columns, mut buffer) = (functions.panel_columns(), PANELS.take());
    let n_panels = b.columns.div_ceil(columns);
    let panels = at_least(&mut buffer, b.rows * n_panels * columns);
    let shared = Shared::new(panels);
    for_each_task(n_panels, |panel| {
        let column = panel * columns;
        let width = columns.min(b.columns - column);
        // SAFETY: this machine has the instruction set, and each task writes its own panel.
        unsafe { (functions.pack_b)(b, column, width, shared.slice(column * b.rows, columns * b.rows)) };
    });
    work(panels);
    PANELS.set(buffer);
}

/// A tile of C, or all of it: rows `rows.0..rows.1`, `width` columns from `column` on.
#[derive(Clone, Copy)]
struct Task<'a> {
    a: View<'a>,
    /// A by tiles: the tile from row i on is at i K as `[K, rows of the tile]`.
    packed: Option<&'a [f32]>,
    b: View<'a>,
    /// B by panels (see [`with_panels`]).
    panels: Option<&'a [f32]>,
    epilogue: Epilogue<'a>,
    c: Shared<'a>,
    rows: (usize, usize),
    column: usize,
    width: usize,
    written: Written<'a>,
}

/// The functions and sizes of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    task: unsafe fn(&Task, &mut [f32]),
    pack_a: unsafe fn(View, &mut [f32]),
    /// B, the first column of the panel, its width, and where to.
    pack_b: unsafe fn(View, usize, usize, &mut [f32]),
    /// See [`pairs::pack_rows`].
    pack_rows: unsafe fn(View, &mut [f32], &mut [u64]),
    /// See [`pairs::pair_rows`].
    pair_rows: unsafe fn(&[[u64; pairs::GROUP]], u32, &mut [u32]),
    transpose: unsafe fn(View, &mut [f32]),
    /// See [`skip::sum_pairs`].
    sum_pairs: unsafe fn(&skip::Task, usize, &mut [f32], &mut [f32]),
    tile_rows: usize,
    pair_vectors: usize,
    lanes: usize,
}

impl Functions {
    /// The most rows of a register tile.
    pub(super) fn tile_rows(self) -> usize {
        self.tile_rows
    }

    /// Writes a matrix, part of a row-major one, transposed: the rows of `to` are its columns.
    pub(super) fn transpose(self, from: View, to: &mut [f32]) {
        assert!(
            from.column_stride == 1 && to.len() >= from.rows * from.columns,
            "room for the transposed matrix"
        );
        // SAFETY: this machine has the instruction set.
        unsafe { (self.transpose)(from, to) };
    }

    /// Columns of a panel of B: two vectors.
    fn panel_columns(self) -> usize {
        2 * self.lanes
    }

    pub(super) fn of(isa: Isa) -> Self {
        assert!(isa.is_available(), "{isa:?} on a machine without it");
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::functions(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::functions(),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => neon::functions(),
            _ => plain::functions(),
        }
    }
}

/// Compiles the functions of a vector type in a module, with the features of its instruction set.
macro_rules! functions {
    ($name:ident, $vector:ty $(, $features:literal)?) => {
        mod $name {
            use super::*;

            pub(super) fn functions() -> Functions {
                Functions {
                    task,
                    pack_a,
                    pack_b,
                    pack_rows,
                    pair_rows,
                    transpose,
                    sum_pairs,
                    tile_rows: <$vector>::TILE_ROWS,
                    pair_vectors: <$vector>::PAIR_VECTORS,
                    lanes: <$vector>::LANES,
                }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn task(task: &Task, panel: &mut [f32]) {
                // SAFETY: guaranteed by the caller.
                unsafe { tile::<$vector>(task, panel) }
            }

            impl tile::Tiles for $vector {
                #[inline(never)]
                $(#[target_feature(enable = $features)])?
                unsafe fn tile<const W: usize, const H: usize, const MODE: u8>(
                    task: &Task,
                    row: usize,
                    panel: tile::PanelRows,
                    to: *mut f32,
                    ahead: &mut tile::Ahead,
                ) {
                    // SAFETY: guaranteed by the caller.
                    unsafe { tile::register_tile::<Self, W, H, MODE>(task, row, panel, to, ahead) }
                }

                #[inline(never)]
                $(#[target_feature(enable = $features)])?
                unsafe fn finish_tile(task: &Task, rows: Range<usize>, lines: *const f32) {
                    // SAFETY: guaranteed by the caller.
                    unsafe { tile::finish_lines(task, rows, lines) }
                }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn pack_a(a: View, to: &mut [f32]) {
                pack_transposed::<$vector>(a, to);
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn pack_rows(a: View, values: &mut [f32], masks: &mut [u64]) {
                pairs::pack_rows::<$vector>(a, values, masks);
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn transpose(from: View, to: &mut [f32]) {
                super::transpose::<$vector>(from.values, from.row_stride, [from.rows, from.columns], to, from.rows);
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn pair_rows(masks: &[[u64; pairs::GROUP]], first: u32, order: &mut [u32]) {
                pairs::pair_rows(masks, first, order);
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn sum_pairs(task: &skip::Task, panel_columns: usize, block: &mut [f32], sums: &mut [f32]) {
                // SAFETY: guaranteed by the caller.
                unsafe { skip::sum_pairs::<$vector>(task, panel_columns, block, sums) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn pack_b(b: View, column: usize, width: usize, to: &mut [f32]) {
                if width <= <$vector>::LANES {
                    pack::<$vector, 1>(b, column, width, to);
                } else {
                    pack::<$vector, 2>(b, column, width, to);
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
functions!(avx512, std::arch::x86_64::__m512, "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,bmi1");
#[cfg(target_arch = "x86_64")]
functions!(avx2, std::arch::x86_64::__m256, "avx2,fma,bmi1");
#[cfg(target_arch = "aarch64")]
functions!(neon, std::arch::aarch64::float32x4_t);
functions!(plain, [f32; 4]);

/// Divides C into blocks of rows by panels of columns, and computes one of them per task.
fn run(whole: &Task, alone: bool, functions: Functions) {
    let (a, n_panels) = (whole.a, whole.b.columns.div_ceil(functions.panel_columns()));
    // A block of A stays in the second-level cache while panel after panel is multiplied by it.
    let block_rows = (BLOCK_LEN / a.columns.max(1)).clamp(MIN_BLOCK_ROWS, MAX_BLOCK_ROWS);
    let in_cache = a.rows.div_ceil(block_rows);
    let wanted = if alone { 1 } else { TASKS_PER_THREAD * rayon::current_num_threads() };
    let n_tiles = a.rows.div_ceil(functions.tile_rows);
    let n_blocks = wanted.div_ceil(n_panels.max(1)).min(n_tiles).max(in_cache);
    let run_all = |whole: &Task| {
        let run_one = |task: usize| {
            let block = task / n_panels;
            let rows = a.rows * block / n_blocks..a.rows * (block + 1) / n_blocks;
            run_task(whole, rows, task % n_panels, functions);
        };
        if alone {
            (0..n_blocks * n_panels).for_each(run_one);
        } else if in_cache > 1 && n_tiles >= wanted && a.columns <= MAX_THIN_K {
            for_each_task(n_tiles, |tile| {
                let rows = a.rows * tile / n_tiles..a.rows * (tile + 1) / n_tiles;
                (0..n_panels).for_each(|panel| run_task(whole, rows.clone(), panel, functions));
            });
        } else {
            for_each_task(n_blocks * n_panels, run_one);
        }
    };
    // In place, every k of a transposed A is on another cache line: many of them do not stay in the first-level cache. (The few rows of
    // one tile are next to each other.)
    if alone && n_blocks == 1 && n_tiles > 1 && a.row_stride == 1 && a.columns >= MIN_PACKED_K {
        PACKED.with_borrow_mut(|buffer| {
            let packed = at_least(buffer, a.rows * a.columns);
            // SAFETY: this machine has the instruction set.
            unsafe { (functions.pack_a)(a, packed) };
            run_all(&Task { packed: Some(packed), ..*whole });
        });
    } else if in_cache > 1 && !alone {
        with_panels(functions, whole.b, |panels| run_all(&Task { panels: Some(panels), ..*whole }));
    } else {
        run_all(whole);
    }
}

/// The first `len` elements of a buffer that grows to the largest product's need.
pub(super) fn at_least<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
    &mut buffer[..len]
}

/// Computes some rows of a panel's columns.
fn run_task(whole: &Task, rows: Range<usize>, panel: usize, functions: Functions) {
    let (b, columns) = (whole.b, functions.panel_columns());
    let column = panel * columns;
    let width = columns.min(b.columns - column);
    let task = Task { rows: (rows.start, rows.end), column, width, ..*whole };
    PANEL.with_borrow_mut(|buffer| {
        // SAFETY: this machine has the instruction set; the tile is inside C (rows and columns are
        // bounded above) and no other task writes it.
        unsafe { (functions.task)(&task, at_least(buffer, b.rows * columns)) }
    });
}

/// Rows of a register tile: nearly equal heights, so that 100 rows are 8 tiles of 12 or 13, not 7 of 14 and one of 2.
fn tile_rows(rows: Range<usize>, most: usize, tile: usize) -> Option<Range<usize>> {
    let (n_rows, n_tiles) = (rows.len(), rows.len().div_ceil(most));
    let first = |tile: usize| rows.start + n_rows * tile / n_tiles;
    (tile < n_tiles).then(|| first(tile)..first(tile + 1))
}

/// Elements per cache line.
pub(super) const CACHE_LINE: usize = 16;

/// Prefetches some elements; addresses may be beyond the buffer: nothing is read.
#[inline(always)]
fn prefetch<V: Vector>(from: *const f32, len: usize) {
    (0..len).step_by(CACHE_LINE).for_each(|i| V::prefetch(from.wrapping_add(i)));
}

impl Written<'_> {
    /// Prefetches a part of a row.
    #[inline(always)]
    fn prefetch<V: Vector>(self, row: usize, column: usize, len: usize) {
        let (row, column) = (self.first[0] + row, self.first[1] + column);
        let for_write = |buffer: Shared, first: usize| {
            let from = buffer.at(first);
            (0..len).step_by(CACHE_LINE).for_each(|i| V::prefetch_for_write(from.wrapping_add(i)));
        };
        let first = row * self.n_columns + column;
        for_write(self.c, first);
        if let Some(mask) = self.mask {
            prefetch::<V>(mask.as_ptr().wrapping_add(first), len);
        }
        if let Some((tiles, moments)) = self.moments {
            moments.into_iter().for_each(|buffer| for_write(buffer, tiles.index(row, column)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Key;

    fn random(n: usize, salt: u32) -> Vec<f32> {
        let key = Key::new(3, 7u32, 0);
        (0..n).map(|i| (key.uniform(i as u64, salt, 0) * 2.0 - 1.0) as f32).collect()
    }

    /// The definition, in double precision.
    fn naive(a: &[f32], b: &[f32], m: usize, k: usize, n: usize) -> Vec<f64> {
        let at =
            |i: usize, j: usize| -> f64 { (0..k).map(|l| a[i * k + l] as f64 * b[l * n + j] as f64).sum() };
        (0..m * n).map(|i| at(i / n, i % n)).collect()
    }

    pub(super) fn transpose(x: &[f32], rows: usize, columns: usize) -> Vec<f32> {
        (0..rows * columns).map(|i| x[(i % rows) * columns + i / rows]).collect()
    }

    const SHAPES: [[usize; 3]; 9] = [
        [1, 1, 1],
        [3, 5, 2],
        [31, 127, 3],
        [100, 784, 500],
        [13, 64, 33],
        [300, 20, 70],
        [100, 17, 10],
        [20, 300, 40],
        [300, 1200, 40],
    ];

    #[test]
    fn product_matches_its_definition_and_is_identical_on_every_instruction_set() {
        for [m, k, n] in SHAPES {
            let (a, b) = (random(m * k, 1), random(k * n, 2));
            let (a_t, b_t) = (transpose(&a, m, k), transpose(&b, k, n));
            let expected = naive(&a, &b, m, k, n);
            let mut first: Option<Vec<f32>> = None;
            for isa in Isa::available() {
                for (av, bv) in [
                    (View::new(&a, m, k), View::new(&b, k, n)),
                    (View::new(&a_t, k, m).transposed(), View::new(&b, k, n)),
                    (View::new(&a, m, k), View::new(&b_t, n, k).transposed()),
                ] {
                    let mut c = vec![f32::NAN; m * n];
                    product(isa, av, bv, Epilogue::Store, &mut c);
                    for (x, y) in c.iter().zip(&expected) {
                        assert!(
                            (*x as f64 - y).abs() < 1e-5 * (k as f64).sqrt(),
                            "{m}x{k}x{n} {isa:?}: {x} {y}"
                        );
                    }
                    assert_eq!(first.get_or_insert_with(|| c.clone()), &c, "{isa:?} {m}x{k}x{n}");
                }
            }
        }
    }

    #[test]
    fn epilogues_match_their_definitions() {
        let (m, k, n) = (7, 9, 37);
        let (a, b, bias, mask) = (random(m * k, 1), random(k * n, 2), random(n, 3), random(m * n, 4));
        let expected = naive(&a, &b, m, k, n);
        let mut c = vec![0.0; m * n];
        for isa in Isa::available() {
            let mut check = |epilogue: Epilogue, what: &dyn Fn(usize, f64) -> f64| {
                product(isa, View::new(&a, m, k), View::new(&b, k, n), epilogue, &mut c);
                for i in 0..m * n {
                    assert!((c[i] as f64 - what(i, expected[i])).abs() < 1e-5);
                }
            };
            check(Epilogue::Bias(&bias), &|i, x| x + bias[i % n] as f64);
            check(Epilogue::BiasRelu(&bias), &|i, x| (x + bias[i % n] as f64).max(0.0));
            check(Epilogue::Mask(&mask), &|i, x| if mask[i] > 0.0 { x } else { 0.0 });
        }
    }
}
