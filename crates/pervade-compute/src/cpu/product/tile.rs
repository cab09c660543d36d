//! Register tiles of a product: H rows of W vectors, summed over all k.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::{CACHE_LINE, Epilogue, MAX_THIN_K, Task, Vector, pack, tile_rows};

/// The k between two prefetches. Constant, so that the processor foresees the end of the loop over them.
const CHUNK_K: usize = 8;

/// The floats from the beginning of one line of sums to the next.
const LINE_LEN: usize = 32;

/// How many columns further what is written is prefetched by a product of so few k that its own tile would be too late.
const THIN_AHEAD: usize = 64;

/// Computes register tiles down the rows of A.
#[inline(always)]
pub(super) unsafe fn tile<V: Tiles>(task: &Task, buffer: &mut [f32]) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if task.width <= V::LANES {
            tile_of_width::<V, 1>(task, buffer);
        } else {
            tile_of_width::<V, 2>(task, buffer);
        }
    }
}

/// Functions of their own for each size of tile: one function with all of them inlined would take the compiler twice as long.
pub(super) trait Tiles: Vector {
    /// See [`register_tile`].
    unsafe fn tile<const W: usize, const H: usize, const MODE: u8>(
        task: &Task,
        row: usize,
        panel: PanelRows,
        to: *mut f32,
        ahead: &mut Ahead,
    );

    /// See [`finish_lines`].
    unsafe fn finish_tile(task: &Task, rows: Range<usize>, lines: *const f32);
}

/// A is read in place.
const IN_PLACE: u8 = 0;
/// A is packed.
const PACKED_A: u8 = 1;
/// A and a row-major B are read in place, and B's panel is packed on the way for the tiles that follow.
const PACKING_B: u8 = 2;

/// The rows of B's panel: packed, or in place.
#[derive(Clone, Copy)]
pub(super) struct PanelRows {
    at: *const f32,
    stride: usize,
}

/// `W`: vectors in a row of the panel.
#[inline(always)]
unsafe fn tile_of_width<V: Tiles, const W: usize>(task: &Task, buffer: &mut [f32]) {
    let columns = W * V::LANES;
    let buffer = &mut buffer[..task.b.rows * columns];
    let n_tiles = (task.rows.1 - task.rows.0).div_ceil(V::TILE_ROWS);
    let in_place = task.panels.is_none()
        && task.packed.is_none()
        && task.b.column_stride == 1
        && task.width == 2 * V::LANES;
    if task.panels.is_none() && !in_place {
        pack::<V, W>(task.b, task.column, task.width, buffer);
    }
    let to = buffer.as_mut_ptr();
    let packed = match task.panels {
        Some(panels) => panels[task.column * task.b.rows..][..task.b.rows * columns].as_ptr(),
        None => to.cast_const(),
    };
    let packed = PanelRows { at: packed, stride: columns };
    let of_b = PanelRows { at: task.b.values.as_ptr().wrapping_add(task.column), stride: task.b.row_stride };
    let mut ahead = Ahead::new::<V>(task, n_tiles);
    if task.b.rows <= MAX_THIN_K {
        (task.rows.0..task.rows.1).for_each(|row| prefetch_written::<V>(task, row, THIN_AHEAD));
    }
    let mut tile = 0;
    while let Some(rows) = tile_rows(task.rows.0..task.rows.1, V::TILE_ROWS, tile) {
        let panel = if in_place && tile == 0 { of_b } else { packed };
        // SAFETY: the tile's rows are among the task's; the panel and the buffer hold K rows of W LANES elements.
        with_constant!(rows.len(), V::TILE_ROWS, [1 2 3 4 5 6 7 8 9 10 11 12 13 14], |H| unsafe {
            // The first condition is known when this is compiled. A panel of one tile is not used again.
            if const { W == 2 } && in_place && tile == 0 && n_tiles > 1 {
                V::tile::<W, H, PACKING_B>(task, rows.start, panel, to, &mut ahead);
            } else if task.packed.is_some() {
                V::tile::<W, H, PACKED_A>(task, rows.start, panel, to, &mut ahead);
            } else {
                V::tile::<W, H, IN_PLACE>(task, rows.start, panel, to, &mut ahead);
            }
        });
        tile += 1;
    }
}

/// Sums a tile of `H` rows and W LANES columns over all k and applies the epilogue.
#[inline(always)]
pub(super) unsafe fn register_tile<V: Tiles, const W: usize, const H: usize, const MODE: u8>(
    task: &Task,
    row: usize,
    panel: PanelRows,
    to: *mut f32,
    ahead: &mut Ahead,
) {
    let (columns, n_k) = (W * V::LANES, task.b.rows);
    let (a, row_stride, k_stride) = match task.packed {
        Some(packed) if MODE == PACKED_A => (packed[row * n_k..][..H * n_k].as_ptr(), 1, H),
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
    let mut lines = MaybeUninit::<[[f32; LINE_LEN]; H]>::uninit();
    // SAFETY: `a` holds rows `row..row + H` and all k by the check above, or by those of `View::new` and `product`; the panel and
    // `to` hold W LANES elements for every k, and so does each row of a B that is packed here, from the task's column on; a
    // line holds LINE_LEN >= W LANES elements. If stored directly, the tile's H rows of W LANES columns are inside C by the check of
    // `tile` and belong to this task alone: they are written through a raw pointer, since the rest of those rows belongs to
    // other tasks.
    unsafe {
        let mut sums = [[V::zero(); W]; H];
        let mut at = Cursor { a, b: panel.at, to };
        let strides = [row_stride, k_stride, panel.stride];
        let n_chunks = n_k / CHUNK_K;
        for chunk in 0..n_chunks {
            ahead.prefetch::<V>();
            if chunk < H && n_k > MAX_THIN_K {
                prefetch_written::<V>(task, row + chunk, 0);
            }
            for _ in 0..CHUNK_K {
                add_products::<V, W, H, MODE>(&mut sums, &mut at, strides);
            }
        }
        for h in if n_k > MAX_THIN_K { n_chunks..H } else { 0..0 } {
            prefetch_written::<V>(task, row + h, 0);
        }
        for _ in n_chunks * CHUNK_K..n_k {
            add_products::<V, W, H, MODE>(&mut sums, &mut at, strides);
        }
        let (to, stride) = if direct {
            (task.c.tile(row * ldc + task.column, H, ldc, columns), ldc)
        } else {
            (lines.as_mut_ptr().cast::<f32>(), LINE_LEN)
        };
        for h in 0..H {
            for w in 0..W {
                sums[h][w].store(to.add(h * stride + w * V::LANES));
            }
        }
    }
    if !direct {
        // SAFETY: W LANES >= width elements of each line were stored.
        unsafe { V::finish_tile(task, row..row + H, lines.as_ptr().cast()) };
    }
}

/// The next elements of A and B, and of the panel that is packed.
struct Cursor {
    a: *const f32,
    b: *const f32,
    to: *mut f32,
}

/// The same address, of which the compiler knows nothing: otherwise it would compute the address of each row from that of the row
/// before, also from the last row of one k to the first of the next, and the sums would wait for a chain of additions.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written through it")]
fn hidden(address: *const f32) -> *const f32 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut address = address;
        // SAFETY: no instruction.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) address, options(pure, nomem, nostack, preserves_flags));
        }
        address
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    address
}

/// Adds the products of one k. `strides`: from row to row of A, from k to k of A and of B.
#[inline(always)]
unsafe fn add_products<V: Vector, const W: usize, const H: usize, const MODE: u8>(
    sums: &mut [[V; W]; H],
    at: &mut Cursor,
    [row_stride, k_stride, b_stride]: [usize; 3],
) {
    // SAFETY: guaranteed by `register_tile`.
    unsafe {
        let b: [V; W] = std::array::from_fn(|w| V::load(at.b.add(w * V::LANES)));
        if MODE == PACKING_B {
            for w in 0..W {
                b[w].store(at.to.add(w * V::LANES));
            }
            at.to = at.to.wrapping_add(W * V::LANES);
        }
        for h in 0..H {
            let x = V::splat(*at.a.add(h * row_stride));
            for w in 0..W {
                sums[h][w] = sums[h][w].add_product(x, b[w]);
            }
        }
        at.a = hidden(at.a.wrapping_add(k_stride));
        at.b = at.b.wrapping_add(b_stride);
    }
}

/// The next panel of B, prefetched a few cache lines at a time: k by k, or column by column if B is transposed.
pub(super) struct Ahead {
    at: *const f32,
    step: usize,
    /// Steps until the next cache line of every column begins, and from there to the following one.
    left: usize,
    columns: usize,
    steps_per_chunk: usize,
    steps_left: usize,
}

impl Ahead {
    /// Spread over `n_tiles` tiles; nothing if B is packed already.
    #[inline(always)]
    fn new<V: Vector>(task: &Task, n_tiles: usize) -> Self {
        let (b, next, columns) = (task.b, task.column + 2 * V::LANES, 2 * V::LANES);
        let is_row_major = b.column_stride == 1;
        let n_steps = match task.panels {
            None if next < b.columns && is_row_major => b.rows,
            None if next < b.columns => b.rows.div_ceil(CACHE_LINE) * columns,
            _ => 0,
        };
        let n_chunks = n_tiles * (b.rows / CHUNK_K);
        Self {
            at: b.values.as_ptr().wrapping_add(next * b.column_stride),
            step: if is_row_major { b.row_stride } else { b.column_stride },
            left: if is_row_major { usize::MAX } else { columns },
            columns,
            steps_per_chunk: n_steps.div_ceil(n_chunks.max(1)),
            steps_left: n_steps,
        }
    }

    /// Prefetches the lines for CHUNK_K k. Addresses may be beyond the matrix: nothing is read.
    #[inline(always)]
    fn prefetch<V: Vector>(&mut self) {
        if self.steps_left < self.steps_per_chunk {
            return;
        }
        self.steps_left -= self.steps_per_chunk;
        for _ in 0..self.steps_per_chunk {
            // The last element of each line's length: a row that begins within a line ends in one more, and shares its first
            // line with the panel before.
            for end in (CACHE_LINE..=2 * V::LANES).step_by(CACHE_LINE) {
                V::prefetch(self.at.wrapping_add(end - 1));
            }
            self.at = self.at.wrapping_add(self.step);
            self.left -= 1;
            if self.left == 0 {
                self.left = self.columns;
                self.at = self.at.wrapping_sub(self.columns * self.step).wrapping_add(CACHE_LINE);
            }
        }
    }
}

/// Prefetches what is written with a row of the tile, or of one that is so many columns further.
#[inline(always)]
fn prefetch_written<V: Vector>(task: &Task, row: usize, further: usize) {
    task.written.prefetch::<V>(row, task.column + further, 2 * V::LANES);
}

/// Applies the epilogue to the sums of some rows and stores the results. Each line holds the task's width of sums.
#[inline(always)]
pub(super) unsafe fn finish_lines(task: &Task, rows: Range<usize>, lines: *const f32) {
    for (h, row) in rows.enumerate() {
        // SAFETY: guaranteed by the caller.
        finish(task, row, unsafe { std::slice::from_raw_parts(lines.add(h * LINE_LEN), task.width) });
    }
}

/// Applies the epilogue to a row's sums and stores the result.
#[inline(always)]
pub(super) fn finish(task: &Task, row: usize, line: &[f32]) {
    let (from, width) = (task.column, task.width);
    let start = row * task.b.columns + from;
    // SAFETY: this part of one row of C is contiguous and belongs to this task alone.
    let out = unsafe { task.c.slice(start, width) };
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
            for ((o, &x), &m) in out.iter_mut().zip(line).zip(&mask[start..start + width]) {
                *o = if m > 0.0 { x } else { 0.0 };
            }
        }
    }
}
