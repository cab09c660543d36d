//! Products that skip zeros of A.
//!
//! About half of the outputs of a ReLU are zero, and so are the gradients behind it; many units are zero for every row. A
//! is packed in blocks of at most 56 k (`pairs.rs`), with a mask of the nonzero elements of each row. Rows that resemble each other are summed in
//! pairs, over the k where at least one of the two is not zero. A block of B (some vectors wide) stays in the first-level cache for
//! all pairs of a task, and their sums wait in the second-level cache for the next block.
//!
//! Each element is the sum of `tile.rs` without terms that are zero: the result is the same. (Only where B is infinite or not a number
//! does zero times B differ from nothing; training ends there in any case.)

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::LazyLock;

use super::super::shared::Shared;
use super::super::team::for_each_task_backwards;
use super::pairs::{BLOCK_K, Buffers, Packed, block_range, pack_a, pairs_of_part};
use super::{
    CACHE_LINE, Functions, PANEL, TASKS_PER_THREAD, Vector, View, Written, at_least, pack, prefetch,
};

/// Products with fewer terms are not worth the packing.
const MIN_TERMS: usize = 1 << 22;
/// Vectors per row below which the sums of a pair wait for each other.
const MIN_VECTORS: usize = 4;
/// Enough rows per task to make up for packing B.
const MIN_ROWS: usize = 40;
/// The same if that leaves each thread twice as many tasks: on shared machines, threads are not equally fast.
const MIN_ROWS_OF_MANY: usize = 100;
/// So many that their sums stay in the second-level cache, and if more buffers than C are written.
const MAX_ROWS: usize = 512;
const MAX_ROWS_OF_UPDATE: usize = 256;
/// Above this share of k at which a pair has a nonzero element, the register tile is faster.
const MAX_PAIR_DENSITY: f32 = 0.85;
/// The same for the share of nonzero elements of a transposed A, where looking at pairs of rows would take longer.
const MAX_DENSITY: f32 = 0.7;

thread_local! {
    /// The packed A of the product that this thread began; taken while in use.
    static PACKED_A: Cell<Buffers> = Cell::new(Buffers::default());
    /// A thread's sums; allocated once.
    static SUMS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// What a task computes: some pairs of rows of A times some columns of B.
pub(super) struct Task<'a> {
    a: Packed<'a>,
    b: View<'a>,
    pairs: Range<usize>,
    column: usize,
    width: usize,
    written: Written<'a>,
    /// Where the sums of B's columns go.
    sums_of_b: Option<Shared<'a>>,
    /// Called with each part of a row of the product: the row, the first column, and the values.
    finish: &'a (dyn Fn(usize, usize, &[f32]) + Sync),
}

/// Computes A B and calls `finish` with parts of its rows (row, first column, values), or returns false if skipping zeros is not worth it.
/// The same parts of what is `written` with them are prefetched. Also stores the sums of B's columns, if they are wanted.
pub(in crate::cpu) fn product_skipping(
    functions: Functions,
    a: View,
    b: View,
    written: Written,
    sums_of_b: Option<&mut [f32]>,
    finish: impl Fn(usize, usize, &[f32]) + Sync + Send,
) -> bool {
    let Some(plan) = Plan::new(functions, a, b, written.moments.is_some()) else {
        return false;
    };
    let sums_of_b = sums_of_b.map(Shared::new);
    let mut buffers = PACKED_A.take();
    let packed = pack_a(functions, a, b.columns, plan.n_parts, &mut buffers);
    for_each_task_backwards(plan.n_parts * plan.n_panels, |task| {
        let (part, column) = (task / plan.n_panels, task % plan.n_panels * plan.panel_columns);
        let pairs = pairs_of_part(a.rows, plan.n_parts, part);
        let width = plan.panel_columns.min(b.columns - column);
        let sums_of_b = sums_of_b.filter(|_| part == 0);
        let task = Task { a: packed, b, pairs, column, width, written, sums_of_b, finish: &finish };
        SUMS.with_borrow_mut(|sums| {
            let sums = aligned(sums, 2 * task.pairs.len() * plan.panel_columns);
            // SAFETY: this machine has the instruction set.
            PANEL.with_borrow_mut(|block| unsafe {
                (functions.sum_pairs)(
                    &task,
                    plan.panel_columns,
                    aligned(block, BLOCK_K * plan.panel_columns),
                    sums,
                );
            });
        });
    });
    PACKED_A.set(buffers);
    true
}

/// How C is divided into tasks: parts of the rows by panels of columns.
struct Plan {
    n_parts: usize,
    n_panels: usize,
    panel_columns: usize,
}

impl Plan {
    /// `None` if the product is too small, too narrow or too dense.
    fn new(functions: Functions, a: View, b: View, is_update: bool) -> Option<Self> {
        let (n_vectors, n_threads) = (b.columns.div_ceil(functions.lanes), rayon::current_num_threads());
        if n_vectors < MIN_VECTORS || a.rows * a.columns * b.columns < MIN_TERMS {
            return None;
        }
        let n_panels = n_vectors.div_ceil(functions.pair_vectors);
        let panel_columns = n_vectors.div_ceil(n_panels) * functions.lanes;
        let most_rows = if is_update { MAX_ROWS_OF_UPDATE } else { MAX_ROWS };
        let parts_for = |tasks_per_thread: usize| {
            a.rows.div_ceil(most_rows).max((tasks_per_thread * n_threads).div_ceil(n_panels))
        };
        let n_parts = Some(parts_for(2 * TASKS_PER_THREAD))
            .filter(|n_parts| a.rows / n_parts >= MIN_ROWS_OF_MANY)
            .unwrap_or_else(|| parts_for(TASKS_PER_THREAD));
        let is_worth_it = a.rows / n_parts >= MIN_ROWS && is_sparse(a);
        is_worth_it.then_some(Self { n_parts, n_panels, panel_columns })
    }
}

/// Whether a sample of A has many zeros.
fn is_sparse(a: View) -> bool {
    const N_LINES: usize = 6;
    let is_transposed = a.row_stride == 1;
    let (n_lines, len, stride) =
        if is_transposed { (a.columns, a.rows, a.column_stride) } else { (a.rows, a.columns, a.row_stride) };
    let line = |i: usize| &a.values[i * stride..][..len];
    let n_nonzero: usize = (0..N_LINES)
        .map(|i| n_lines.saturating_sub(2) * i / N_LINES)
        .map(|i| {
            let partner = if is_transposed { i } else { (i + 1).min(n_lines - 1) };
            let pairs = line(i).iter().zip(line(partner));
            pairs.map(|(&x, &y)| u32::from(x != 0.0 || y != 0.0)).sum::<u32>() as usize
        })
        .sum();
    let most = if is_transposed { MAX_DENSITY } else { MAX_PAIR_DENSITY };
    (n_nonzero as f32) < most * (N_LINES * len) as f32
}

/// Sums the pairs of a task over all k, in `sums` [row of the task, panel columns], and finishes their rows.
#[inline(always)]
pub(super) unsafe fn sum_pairs<V: Vector>(
    task: &Task,
    panel_columns: usize,
    block_b: &mut [f32],
    sums: &mut [f32],
) {
    // SAFETY: guaranteed by the caller.
    with_constant!(panel_columns / V::LANES, V::PAIR_VECTORS, [4 5 6 7 8], |W| unsafe {
        sum_blocks::<V, W>(task, block_b, sums);
    });
}

#[inline(always)]
unsafe fn sum_blocks<V: Vector, const W: usize>(task: &Task, block_b: &mut [f32], sums: &mut [f32]) {
    let Task { a, b, column, width, .. } = *task;
    assert!(block_b.len() >= BLOCK_K * W * V::LANES && sums.len() >= 2 * task.pairs.len() * W * V::LANES);
    assert!(a.values.len() >= a.n_blocks * a.n_rows * BLOCK_K && a.masks.len() >= a.n_blocks * a.n_rows);
    let mut written = WrittenAhead::default();
    // SAFETY: this machine has the instruction set.
    let mut sums_of_b = [unsafe { V::zero() }; W];
    for block in 0..a.n_blocks {
        let of_block = b.part(block_range(b.rows, a.n_blocks, block), 0..b.columns);
        pack::<V, W>(of_block, column, width, block_b);
        if task.sums_of_b.is_some() {
            let lines = block_b.chunks_exact(W * V::LANES).take(of_block.rows);
            // SAFETY: each line has W vectors.
            lines.for_each(|line| unsafe { add_line(&mut sums_of_b, line) });
        }
        let mut ahead = Ahead::new::<V, W>(task, block);
        let first = block * a.n_rows;
        let order = &a.order[2 * task.pairs.start..2 * task.pairs.end];
        for (i, pair) in order.chunks_exact(2).enumerate() {
            let rows = [pair[0] as usize, pair[1] as usize];
            assert!(rows[0].max(rows[1]) < a.n_rows, "rows of A");
            ahead.prefetch::<V>();
            for &row in order[2 * i..].iter().skip(2).take(2) {
                let line = a.values.as_ptr().wrapping_add((first + row as usize) * BLOCK_K);
                prefetch::<V>(line, BLOCK_K);
            }
            written.prefetch::<V>(task, block);
            // SAFETY: A's block and masks have these rows by the checks above, the block of B has BLOCK_K rows of W vectors, and the sums
            // have two rows of W vectors for each pair.
            unsafe {
                let lines = rows.map(|row| a.values.as_ptr().add((first + row) * BLOCK_K));
                let mask = a.masks.get_unchecked(first + rows[0]) | a.masks.get_unchecked(first + rows[1]);
                let to = sums.as_mut_ptr().add(2 * i * W * V::LANES);
                let from = if block == 0 { None } else { Some(to.cast_const()) };
                if block + 1 < a.n_blocks {
                    add_pair::<V, W>(lines, mask, block_b.as_ptr(), from, to);
                } else {
                    // Not among the sums: what is written there would be moved to the second-level cache for nothing.
                    let mut last = MaybeUninit::<[[V; W]; 2]>::uninit();
                    let last = last.as_mut_ptr().cast::<f32>();
                    add_pair::<V, W>(lines, mask, block_b.as_ptr(), from, last);
                    for h in 0..if rows[0] == rows[1] { 1 } else { 2 } {
                        let line = std::slice::from_raw_parts(last.add(h * W * V::LANES), width);
                        (task.finish)(rows[h], column, line);
                    }
                }
            }
        }
    }
    if let Some(to) = task.sums_of_b {
        // SAFETY: a task for these columns and the first rows is the only one to store their sums; W vectors are W LANES numbers.
        unsafe {
            let sums = std::slice::from_raw_parts((&raw const sums_of_b).cast::<f32>(), width);
            to.slice(column, width).copy_from_slice(sums);
        }
    }
}

/// Adds a line of B to the sums of its columns.
#[inline(always)]
unsafe fn add_line<V: Vector, const W: usize>(sums: &mut [V; W], line: &[f32]) {
    for w in 0..W {
        // SAFETY: guaranteed by the caller. (A product by one is exact.)
        unsafe { sums[w] = sums[w].add_product(V::splat(1.0), V::load(line.as_ptr().add(w * V::LANES))) };
    }
}

/// Adds the products of one block to the sums of two rows, if there are any yet, and stores them.
#[inline(always)]
unsafe fn add_pair<V: Vector, const W: usize>(
    lines: [*const f32; 2],
    mut mask: u64,
    block_b: *const f32,
    from: Option<*const f32>,
    to: *mut f32,
) {
    // SAFETY: guaranteed by the caller; bits of the mask are below the number of k of the block.
    unsafe {
        let mut sums = [[V::zero(); W]; 2];
        if let Some(from) = from {
            for h in 0..2 {
                for w in 0..W {
                    sums[h][w] = V::load(from.add((h * W + w) * V::LANES));
                }
            }
        }
        while mask != 0 {
            let k = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let x = [V::splat(*lines[0].add(k)), V::splat(*lines[1].add(k))];
            let b = block_b.add(k * W * V::LANES);
            for w in 0..W {
                let b = V::load(b.add(w * V::LANES));
                for h in 0..2 {
                    sums[h][w] = sums[h][w].add_product(x[h], b);
                }
            }
        }
        for h in 0..2 {
            for w in 0..W {
                sums[h][w].store(to.add((h * W + w) * V::LANES));
            }
        }
    }
}

/// Whether prefetching blocks of B pays. Without, packing them takes longer. On Intel's processors the sums of the pairs save more than
/// that, probably since a core has only 16 buffers for lines on their way to it, which prefetches hold for long; on AMD's, they save less.
static FETCHES_AHEAD: LazyLock<bool> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        const INTEL: [&[u8; 4]; 3] = [b"Genu", b"ineI", b"ntel"];
        let id = std::arch::x86_64::__cpuid(0);
        [id.ebx, id.edx, id.ecx] != INTEL.map(|part| u32::from_le_bytes(*part))
    }
    #[cfg(not(target_arch = "x86_64"))]
    true
});

/// The block of B that comes next, prefetched line by line while the pairs of this one are summed.
struct Ahead {
    at: *const f32,
    stride: usize,
    /// Elements of each line.
    len: usize,
    lines_left: usize,
    lines_per_pair: usize,
}

impl Ahead {
    /// The next block of the same columns, or the first of the next columns.
    #[inline(always)]
    fn new<V: Vector, const W: usize>(task: &Task, block: usize) -> Self {
        let (b, columns) = (task.b, W * V::LANES);
        let (k, column) = if block + 1 < task.a.n_blocks {
            (block_range(b.rows, task.a.n_blocks, block + 1), task.column)
        } else {
            (block_range(b.rows, task.a.n_blocks, 0), task.column + columns)
        };
        let n_columns = columns.min(b.columns.saturating_sub(column));
        let (lines_left, len, stride) = if b.column_stride == 1 {
            (k.len(), n_columns, b.row_stride)
        } else {
            (n_columns, k.len(), b.column_stride)
        };
        let lines_left = if *FETCHES_AHEAD { lines_left } else { 0 };
        Self {
            at: b.values.as_ptr().wrapping_add(k.start * b.row_stride + column * b.column_stride),
            stride,
            len,
            lines_left,
            lines_per_pair: lines_left.div_ceil(task.pairs.len().max(1)),
        }
    }

    #[inline(always)]
    fn prefetch<V: Vector>(&mut self) {
        for _ in 0..self.lines_per_pair.min(self.lines_left) {
            prefetch::<V>(self.at, self.len);
            self.at = self.at.wrapping_add(self.stride);
            self.lines_left -= 1;
        }
    }
}

/// The blocks during which what is written is prefetched: earlier, it would have left the second-level cache again.
const MOST_BLOCKS_AHEAD: usize = 4;

/// What is written with the sums of a task, prefetched evenly while the pairs of the last blocks are summed.
#[derive(Default)]
struct WrittenAhead {
    /// Rows of the task, in the order of their pairs.
    n_prefetched: usize,
    /// The rows that are due, times the number of these blocks.
    due: usize,
}

impl WrittenAhead {
    /// The share of one pair and block.
    #[inline(always)]
    fn prefetch<V: Vector>(&mut self, task: &Task, block: usize) {
        let n_blocks = task.a.n_blocks.min(MOST_BLOCKS_AHEAD);
        if block + n_blocks < task.a.n_blocks {
            return;
        }
        self.due += 2;
        while self.due >= n_blocks {
            self.due -= n_blocks;
            let row = task.a.order[2 * task.pairs.start + self.n_prefetched] as usize;
            task.written.prefetch::<V>(row, task.column, task.width);
            self.n_prefetched += 1;
        }
    }
}

/// The first `len` elements of a buffer that begin at a cache line: vectors that cross one take twice as long to load.
fn aligned(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    let buffer = at_least(buffer, len + CACHE_LINE - 1);
    let first = buffer.as_ptr().align_offset(CACHE_LINE * size_of::<f32>());
    &mut buffer[first..][..len]
}

#[cfg(test)]
mod tests {
    use super::super::super::simd::Isa;
    use super::super::tests::transpose;
    use super::super::{Epilogue, Prepared, product, product_alone};
    use super::*;
    use crate::random::Key;

    /// Random values; units (columns) have different shares of zeros, some of them nothing else. Every third row resembles the first, so that
    /// neighbours are not the best partners.
    fn activations(rows: usize, columns: usize, salt: u32) -> Vec<f32> {
        let key = Key::new(5, 7u32, 0);
        let density = |unit: usize| 1.3 * key.uniform(unit as u64, salt, 1) - 0.3;
        let value = |i: usize| {
            let unit = i / columns % 3 * columns + i % columns;
            let is_zero = key.uniform(i as u64, salt, 2) > density(unit);
            if is_zero { 0.0 } else { (key.uniform(i as u64, salt, 3) * 2.0 - 1.0) as f32 }
        };
        (0..rows * columns).map(value).collect()
    }

    /// The register tile's result, which skips nothing.
    fn dense(isa: Isa, a: View, b: View) -> Vec<f32> {
        let mut c = vec![0.0; a.rows * b.columns];
        product_alone(isa, a, b, &mut c, Prepared::default());
        c
    }

    /// Rows, k and columns: odd numbers, a last panel that is not full, one part of the rows and several, partners that are chosen.
    const SHAPES: [[usize; 3]; 5] =
        [[101, 500, 130], [100, 784, 500], [1031, 100, 65], [533, 129, 256], [133, 801, 510]];

    #[test]
    fn nothing_but_zeros_is_skipped() {
        // With many threads, parts of so few rows would not be worth it.
        for n_threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            pool.install(compare_with_register_tiles);
        }
    }

    fn compare_with_register_tiles() {
        for [m, k, n] in SHAPES {
            let (a, b) = (activations(m, k, 1), activations(k, n, 2));
            let (a_t, b_t) = (transpose(&a, m, k), transpose(&b, k, n));
            let (av, bv) = (View::new(&a, m, k), View::new(&b, k, n));
            let (av_t, bv_t) = (View::new(&a_t, k, m).transposed(), View::new(&b_t, n, k).transposed());
            for isa in Isa::available() {
                let expected = dense(isa, av, bv);
                for (av, bv) in [(av, bv), (av_t, bv), (av, bv_t)] {
                    let mut c = vec![f32::NAN; m * n];
                    let shared = Shared::new(&mut c);
                    let written =
                        Written { c: shared, n_columns: n, moments: None, mask: None, first: [0, 0] };
                    let was_skipped =
                        product_skipping(Functions::of(isa), av, bv, written, None, |row, column, line| {
                            // SAFETY: each part of a row is given once.
                            unsafe { shared.slice(row * n + column, line.len()) }.copy_from_slice(line);
                        });
                    assert!(was_skipped, "{m} x {k} x {n}");
                    assert_eq!(c, expected, "{isa:?} {m} x {k} x {n}");
                }
            }
        }
    }

    #[test]
    fn bias_relu_and_mask_are_applied() {
        let [m, k, n] = SHAPES[0];
        let (a, b, bias, mask) =
            (activations(m, k, 1), activations(k, n, 2), activations(1, n, 3), activations(m, n, 4));
        let (av, bv) = (View::new(&a, m, k), View::new(&b, k, n));
        for isa in Isa::available() {
            let sums = dense(isa, av, bv);
            let mut c = vec![f32::NAN; m * n];
            product(isa, av, bv, Epilogue::BiasRelu(&bias), &mut c);
            assert!((0..m * n).all(|i| c[i] == (sums[i] + bias[i % n]).max(0.0)));
            product(isa, av, bv, Epilogue::Mask(&mask), &mut c);
            assert!((0..m * n).all(|i| c[i] == if mask[i] > 0.0 { sums[i] } else { 0.0 }));
        }
    }

    #[test]
    fn dense_small_and_narrow_products_are_left_to_the_register_tile() {
        let never = |_: usize, _: usize, _: &[f32]| unreachable!("nothing is computed");
        let functions = Functions::of(Isa::detect());
        let (zeros, ones) = (vec![0.0; 1 << 20], vec![1.0; 1 << 20]);
        for (values, [m, k, n]) in
            [(&ones, [200, 500, 200]), (&zeros, [50, 50, 200]), (&zeros, [500, 2000, 9])]
        {
            let c = Shared::new(&mut []);
            assert!(!product_skipping(
                functions,
                View::new(values, m, k),
                View::new(values, k, n),
                Written { c, n_columns: n, moments: None, mask: None, first: [0, 0] },
                None,
                never
            ));
        }
    }
}
