//! The matrix product C(m, n) = sum over k of A(m, k) B(k, n), with a fused epilogue.
//!
//! B is packed, one panel of columns at a time, into a small buffer that stays in the cache; A is
//! read in place through its strides, unless it is long and transposed; a register tile of C is summed over all k and
//! passed through the epilogue (bias and ReLU, the ReLU mask, or nothing) before it is stored. While a
//! tile is summed, the next panel is prefetched.
//! Every element of C is one sum in the order of k: how C is divided among threads does not affect the result.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::shared::Shared;
use super::simd::{Isa, Vector};
use super::team::for_each_task;

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
/// The number of k from which a transposed A is packed.
const MIN_PACKED_K: usize = 256;

thread_local! {
    /// A thread's panel of B; allocated once.
    static PANEL: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    /// A thread's packed A; allocated once.
    static PACKED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Computes A B, applies the epilogue and writes the result to `c`, row-major [A's rows, B's columns].
pub fn product(isa: Isa, a: View, b: View, epilogue: Epilogue, c: &mut [f32]) {
    // Waking a second thread takes some microseconds; smaller products are done by then.
    let alone = a.rows * b.rows * b.columns < 1 << 18;
    product_with(isa, a, b, epilogue, c, alone, None);
}

/// The product on the calling thread alone, for use within a parallel task; the blocks of `used_next` are prefetched
/// while the product is computed.
pub(super) fn product_alone(isa: Isa, a: View, b: View, c: &mut [f32], used_next: UsedNext) {
    product_with(isa, a, b, Epilogue::Store, c, true, Some(used_next));
}

/// Blocks of C's shape in three buffers: the offset of their first element and the stride of their rows.
#[derive(Clone, Copy)]
pub(super) struct UsedNext<'a> {
    pub(super) buffers: [Shared<'a>; 3],
    pub(super) first: usize,
    pub(super) row_stride: usize,
}

fn product_with(
    isa: Isa,
    a: View,
    b: View,
    epilogue: Epilogue,
    c: &mut [f32],
    alone: bool,
    used_next: Option<UsedNext>,
) {
    assert!(isa.is_available(), "{isa:?} on a machine without it");
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
    let whole = Task { a, packed: None, b, epilogue, c: Shared::new(c), rows, column: 0, width, used_next };
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => {
            run::<std::arch::x86_64::__m512>(
                whole,
                alone,
                Functions { task: task_avx512, pack: pack_avx512 },
            );
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => {
            run::<std::arch::x86_64::__m256>(whole, alone, Functions { task: task_avx2, pack: pack_avx2 });
        }
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => {
            run::<std::arch::aarch64::float32x4_t>(
                whole,
                alone,
                Functions { task: task_neon, pack: pack_neon },
            );
        }
        _ => run::<[f32; 4]>(whole, alone, Functions { task: task_plain, pack: pack_plain }),
    }
}

/// A tile of C, or all of it: rows `rows.0..rows.1`, `width` columns from `column` on.
#[derive(Clone, Copy)]
struct Task<'a> {
    a: View<'a>,
    /// A by tiles: the tile from row i on is at i K as `[K, rows of the tile]`.
    packed: Option<&'a [f32]>,
    b: View<'a>,
    epilogue: Epilogue<'a>,
    c: Shared<'a>,
    rows: (usize, usize),
    column: usize,
    width: usize,
    used_next: Option<UsedNext<'a>>,
}

/// The functions of an instruction set.
#[derive(Clone, Copy)]
struct Functions {
    task: unsafe fn(&Task, &mut [f32]),
    pack: unsafe fn(View, &mut [f32]),
}

/// Divides C into blocks of rows by panels of columns, and computes one of them per task.
fn run<V: Vector>(whole: Task, alone: bool, functions: Functions) {
    let (a, n_panels) = (whole.a, whole.b.columns.div_ceil(2 * V::LANES));
    // A block of A stays in the second-level cache while panel after panel is multiplied by it.
    let block_rows = (BLOCK_LEN / a.columns.max(1)).clamp(MIN_BLOCK_ROWS, MAX_BLOCK_ROWS);
    let wanted = if alone { 1 } else { TASKS_PER_THREAD * rayon::current_num_threads() };
    let n_tiles = a.rows.div_ceil(V::TILE_ROWS);
    let n_blocks = wanted.div_ceil(n_panels.max(1)).min(n_tiles).max(a.rows.div_ceil(block_rows));
    let run_all = |whole: Task| {
        let run_one = |task: usize| {
            let block = task / n_panels;
            let rows = a.rows * block / n_blocks..a.rows * (block + 1) / n_blocks;
            run_task::<V>(whole, rows, task % n_panels, functions.task);
        };
        if alone {
            (0..n_blocks * n_panels).for_each(run_one);
        } else {
            for_each_task(n_blocks * n_panels, run_one);
        }
    };
    // In place, every k of a transposed A is on another cache line: many of them do not stay in the first-level cache.
    let pack_a = alone && n_blocks == 1 && a.row_stride == 1 && a.columns >= MIN_PACKED_K;
    if !pack_a {
        return run_all(whole);
    }
    PACKED.with_borrow_mut(|buffer| {
        let packed = at_least(buffer, a.rows * a.columns);
        // SAFETY: this machine has the instruction set.
        unsafe { (functions.pack)(a, packed) };
        run_all(Task { packed: Some(packed), ..whole });
    });
}

/// The first `len` elements of a buffer that grows to the largest product's need.
fn at_least(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}

/// Computes some rows of a panel's columns.
fn run_task<V: Vector>(whole: Task, rows: Range<usize>, panel: usize, task_fn: unsafe fn(&Task, &mut [f32])) {
    let (b, columns) = (whole.b, 2 * V::LANES);
    let column = panel * columns;
    let width = columns.min(b.columns - column);
    let task = Task { rows: (rows.start, rows.end), column, width, ..whole };
    PANEL.with_borrow_mut(|buffer| {
        // SAFETY: this machine has the instruction set; the tile is inside C (rows and columns are
        // bounded above) and no other task writes it.
        unsafe { task_fn(&task, at_least(buffer, b.rows * columns)) }
    });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
unsafe fn task_avx512(task: &Task, panel: &mut [f32]) {
    // SAFETY: guaranteed by the caller.
    unsafe { tile::<std::arch::x86_64::__m512>(task, panel) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn task_avx2(task: &Task, panel: &mut [f32]) {
    // SAFETY: guaranteed by the caller.
    unsafe { tile::<std::arch::x86_64::__m256>(task, panel) }
}

#[cfg(target_arch = "aarch64")]
unsafe fn task_neon(task: &Task, panel: &mut [f32]) {
    // SAFETY: guaranteed by the caller.
    unsafe { tile::<std::arch::aarch64::float32x4_t>(task, panel) }
}

unsafe fn task_plain(task: &Task, panel: &mut [f32]) {
    // SAFETY: guaranteed by the caller.
    unsafe { tile::<[f32; 4]>(task, panel) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
unsafe fn pack_avx512(a: View, to: &mut [f32]) {
    pack_transposed::<std::arch::x86_64::__m512>(a, to);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn pack_avx2(a: View, to: &mut [f32]) {
    pack_transposed::<std::arch::x86_64::__m256>(a, to);
}

#[cfg(target_arch = "aarch64")]
unsafe fn pack_neon(a: View, to: &mut [f32]) {
    pack_transposed::<std::arch::aarch64::float32x4_t>(a, to);
}

unsafe fn pack_plain(a: View, to: &mut [f32]) {
    pack_transposed::<[f32; 4]>(a, to);
}

/// Rows of a register tile: nearly equal heights, so that 100 rows are 8 tiles of 12 or 13, not 7 of 14 and one of 2.
fn tile_rows(rows: Range<usize>, most: usize, tile: usize) -> Option<Range<usize>> {
    let (n_rows, n_tiles) = (rows.len(), rows.len().div_ceil(most));
    let first = |tile: usize| rows.start + n_rows * tile / n_tiles;
    (tile < n_tiles).then(|| first(tile)..first(tile + 1))
}

/// Evaluates `$work` with the number of rows as the constant `$H`.
macro_rules! with_height {
    ($rows:expr, |$H:ident| $work:expr) => {
        with_height!(@among $rows, $H, $work, 1 2 3 4 5 6 7 8 9 10 11 12 13 14)
    };
    (@among $rows:expr, $H:ident, $work:expr, $($h:literal)*) => {
        match $rows {
            $($h => { const $H: usize = $h; $work })*
            rows => unreachable!("a tile of {rows} rows"),
        }
    };
}

/// Packs a transposed A by tiles (see [`Task::packed`]).
#[inline(always)]
fn pack_transposed<V: Vector>(a: View, to: &mut [f32]) {
    let mut tile = 0;
    while let Some(rows) = tile_rows(0..a.rows, V::TILE_ROWS, tile) {
        let lines = &mut to[rows.start * a.columns..rows.end * a.columns];
        with_height!(rows.len(), |H| {
            for (k, line) in lines.chunks_exact_mut(H).enumerate() {
                line.copy_from_slice(&a.values[k * a.column_stride + rows.start..][..H]);
            }
        });
        tile += 1;
    }
}

/// Packs the panel of B, then computes register tiles down the rows of A.
#[inline(always)]
unsafe fn tile<V: Vector>(task: &Task, panel: &mut [f32]) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if task.width <= V::LANES {
            tile_of_width::<V, 1>(task, panel);
        } else {
            tile_of_width::<V, 2>(task, panel);
        }
    }
}

/// `W`: vectors in a row of the panel.
#[inline(always)]
unsafe fn tile_of_width<V: Vector, const W: usize>(task: &Task, panel: &mut [f32]) {
    let panel = &mut panel[..task.b.rows * W * V::LANES];
    pack::<V, W>(task, panel);
    let mut tile = 0;
    while let Some(rows) = tile_rows(task.rows.0..task.rows.1, V::TILE_ROWS, tile) {
        // SAFETY: the tile's rows are among the task's.
        with_height!(rows.len(), |H| unsafe {
            if task.packed.is_some() {
                register_tile::<V, W, H, true>(task, rows.start, panel);
            } else {
                register_tile::<V, W, H, false>(task, rows.start, panel);
            }
        });
        tile += 1;
    }
}

/// Packs B's panel as [k][W LANES], padded with zeros.
#[inline(always)]
fn pack<V: Vector, const W: usize>(task: &Task, panel: &mut [f32]) {
    let (b, columns) = (task.b, W * V::LANES);
    if task.width < columns {
        panel.fill(0.0);
    }
    if b.column_stride == 1 {
        for (k, line) in panel.chunks_exact_mut(columns).enumerate() {
            let start = k * b.row_stride + task.column;
            let from = &b.values[start..start + task.width];
            if task.width == columns {
                for w in 0..W {
                    // SAFETY: both rows hold W LANES elements. (For so few, calling memcpy would take
                    // as long as the copy.)
                    unsafe {
                        let vector = V::load(from.as_ptr().add(w * V::LANES));
                        vector.store(line.as_mut_ptr().add(w * V::LANES));
                    }
                }
            } else {
                line[..task.width].copy_from_slice(from);
            }
        }
        return;
    }
    // B is a transposed row-major matrix: its columns are contiguous. Blocks of 8 x 8 are transposed in
    // registers; the edges are copied element by element.
    const BLOCK: usize = 8;
    let (full_k, full_n) = (b.rows / BLOCK * BLOCK, task.width / BLOCK * BLOCK);
    for n0 in (0..full_n).step_by(BLOCK) {
        for k0 in (0..full_k).step_by(BLOCK) {
            let start = (task.column + n0) * b.column_stride + k0;
            assert!(start + (BLOCK - 1) * b.column_stride + BLOCK <= b.values.len());
            assert!((k0 + BLOCK - 1) * columns + n0 + BLOCK <= panel.len());
            // SAFETY: both blocks are inside their buffers by the checks above.
            unsafe {
                let to = panel.as_mut_ptr().add(k0 * columns + n0);
                V::transpose8(b.values.as_ptr().add(start), b.column_stride, to, columns);
            }
        }
    }
    for n in 0..task.width {
        let start = (task.column + n) * b.column_stride;
        for k in if n < full_n { full_k } else { 0 }..b.rows {
            panel[k * columns + n] = b.values[start + k];
        }
    }
}

/// Sums a tile of `H` rows and W LANES columns over all k and applies the epilogue.
#[inline(always)]
unsafe fn register_tile<V: Vector, const W: usize, const H: usize, const PACKED: bool>(
    task: &Task,
    row: usize,
    panel: &[f32],
) {
    let (columns, n_k) = (W * V::LANES, task.b.rows);
    let (a, row_stride, k_stride) = match task.packed {
        Some(packed) if PACKED => (packed[row * n_k..][..H * n_k].as_ptr(), 1, H),
        _ => (
            task.a.values.as_ptr().wrapping_add(row * task.a.row_stride),
            task.a.row_stride,
            task.a.column_stride,
        ),
    };
    let ldc = task.b.columns;
    let direct = task.width == columns && matches!(task.epilogue, Epilogue::Store);
    // The epilogue reads the sums from this buffer: they stay in registers only if every loop that uses them
    // has a constant length.
    let mut lines = MaybeUninit::<[[f32; 32]; H]>::uninit();
    // SAFETY: `a` holds rows `row..row + H` and all k by the check above, or by those of `View::new` and `product`; the panel holds
    // W LANES elements for every k; a line holds 32 >= W LANES elements. If stored directly, the tile's H rows of
    // W LANES columns are inside C by the check of `tile` and belong to this task alone: they are written through a raw
    // pointer, since the rest of those rows belongs to other tasks.
    unsafe {
        let mut sums = [[V::zero(); W]; H];
        let mut a_k = a;
        let mut b_k = panel.as_ptr();
        for part in 0..H {
            prefetch_next::<V>(task, row + part);
            for _ in n_k * part / H..n_k * (part + 1) / H {
                let b: [V; W] = std::array::from_fn(|w| V::load(b_k.add(w * V::LANES)));
                for h in 0..H {
                    let x = V::splat(*a_k.add(h * row_stride));
                    for w in 0..W {
                        sums[h][w] = sums[h][w].add_product(x, b[w]);
                    }
                }
                a_k = a_k.wrapping_add(k_stride);
                b_k = b_k.add(columns);
            }
        }
        let (to, stride) = if direct {
            (task.c.tile(row * ldc + task.column, H, ldc, columns), ldc)
        } else {
            (lines.as_mut_ptr().cast::<f32>(), 32)
        };
        for h in 0..H {
            for w in 0..W {
                sums[h][w].store(to.add(h * stride + w * V::LANES));
            }
        }
    }
    if !direct {
        for h in 0..H {
            // SAFETY: W LANES >= width elements of line h were stored; this part of one row of C is contiguous and
            // belongs to this task alone.
            let (line, out) = unsafe {
                let line = lines.as_ptr().cast::<f32>().add(h * 32);
                let start = (row + h) * ldc + task.column;
                (std::slice::from_raw_parts(line, task.width), task.c.slice(start, task.width))
            };
            finish(task, row + h, line, out);
        }
    }
}

/// Elements per cache line.
const CACHE_LINE: usize = 16;

/// Prefetches `row`'s share of the next panel of B and of `used_next`. Addresses may be beyond the matrix: nothing is
/// read.
#[inline(always)]
fn prefetch_next<V: Vector>(task: &Task, row: usize) {
    let (b, columns) = (task.b, 2 * V::LANES);
    if let Some(UsedNext { buffers, first, row_stride }) = task.used_next {
        for buffer in buffers {
            let line = buffer.at(first + row * row_stride + task.column);
            (0..columns).step_by(CACHE_LINE).for_each(|i| V::prefetch(line.wrapping_add(i)));
        }
    }
    let (share, n_shares) = (row - task.rows.0, task.rows.1 - task.rows.0);
    let next = task.column + columns;
    if b.column_stride == 1 {
        for k in b.rows * share / n_shares..b.rows * (share + 1) / n_shares {
            let line = b.values.as_ptr().wrapping_add(k * b.row_stride + next);
            (0..columns).step_by(CACHE_LINE).for_each(|i| V::prefetch(line.wrapping_add(i)));
        }
    } else {
        let n_lines = columns * b.rows.div_ceil(CACHE_LINE);
        for line in n_lines * share / n_shares..n_lines * (share + 1) / n_shares {
            let (n, k) = (line % columns, line / columns * CACHE_LINE);
            V::prefetch(b.values.as_ptr().wrapping_add((next + n) * b.column_stride + k));
        }
    }
}

#[inline(always)]
fn finish(task: &Task, row: usize, line: &[f32], out: &mut [f32]) {
    let from = task.column;
    let width = out.len();
    match task.epilogue {
        Epilogue::Store => out.copy_from_slice(line),
        Epilogue::Bias(bias) => {
            for ((o, &x), &b) in out.iter_mut().zip(line).zip(&bias[from..from + width]) {
                *o = x + b;
            }
        }
        Epilogue::BiasRelu(bias) => {
            for ((o, &x), &b) in out.iter_mut().zip(line).zip(&bias[from..from + width]) {
                *o = (x + b).max(0.0);
            }
        }
        Epilogue::Mask(mask) => {
            let start = row * task.b.columns + from;
            for ((o, &x), &m) in out.iter_mut().zip(line).zip(&mask[start..start + width]) {
                *o = if m > 0.0 { x } else { 0.0 };
            }
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

    fn transpose(x: &[f32], rows: usize, columns: usize) -> Vec<f32> {
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
