//! Packing the factors of a product: panels of B, tiles of a transposed A, and transposition.

use super::{Vector, View, tile_rows};

/// Packs a transposed A by tiles (see [`super::Task::packed`]).
#[inline(always)]
pub(super) fn pack_transposed<V: Vector>(a: View, to: &mut [f32]) {
    let mut tile = 0;
    while let Some(rows) = tile_rows(0..a.rows, V::TILE_ROWS, tile) {
        let height = rows.len();
        let lines = &mut to[rows.start * a.columns..rows.end * a.columns];
        let mut k = 0;
        // Whole vectors: what is beyond the height is overwritten by the next k.
        while height <= V::LANES
            && k * a.column_stride + rows.start + V::LANES <= a.values.len()
            && k * height + V::LANES <= lines.len()
        {
            // SAFETY: both are inside their buffers by the conditions above.
            unsafe {
                let from = a.values.as_ptr().add(k * a.column_stride + rows.start);
                V::load(from).store(lines.as_mut_ptr().add(k * height));
            }
            k += 1;
        }
        for k in k..a.columns {
            let from = &a.values[k * a.column_stride + rows.start..][..height];
            lines[k * height..][..height].copy_from_slice(from);
        }
        tile += 1;
    }
}

/// Packs B's panel as [k][W LANES], padded with zeros.
#[inline(always)]
pub(super) fn pack<V: Vector, const W: usize>(b: View, column: usize, width: usize, panel: &mut [f32]) {
    let columns = W * V::LANES;
    if width < columns {
        panel.fill(0.0);
    }
    if b.column_stride == 1 {
        for (k, line) in panel.chunks_exact_mut(columns).take(b.rows).enumerate() {
            let start = k * b.row_stride + column;
            let from = &b.values[start..start + width];
            if width == columns {
                for w in 0..W {
                    // SAFETY: both rows hold W LANES elements. (For so few, calling memcpy would take
                    // as long as the copy.)
                    unsafe {
                        let vector = V::load(from.as_ptr().add(w * V::LANES));
                        vector.store(line.as_mut_ptr().add(w * V::LANES));
                    }
                }
            } else {
                line[..width].copy_from_slice(from);
            }
        }
        return;
    }
    // B is a transposed row-major matrix: its columns are contiguous.
    let from = &b.values[column * b.column_stride..];
    transpose::<V>(from, b.column_stride, [width, b.rows], panel, columns);
}

/// Writes `from`, n lines of `len` elements that are `from_stride` apart, transposed to `to`: 8 x 8 blocks in registers, the edges
/// element by element.
#[inline(always)]
pub(super) fn transpose<V: Vector>(
    from: &[f32],
    from_stride: usize,
    [n, len]: [usize; 2],
    to: &mut [f32],
    to_stride: usize,
) {
    const SIDE: usize = 8;
    let (full_n, full_len) = (n / SIDE * SIDE, len / SIDE * SIDE);
    for i in (0..full_n).step_by(SIDE) {
        for j in (0..full_len).step_by(SIDE) {
            assert!((i + SIDE - 1) * from_stride + j + SIDE <= from.len());
            assert!((j + SIDE - 1) * to_stride + i + SIDE <= to.len());
            // SAFETY: both blocks are inside their buffers by the checks above.
            unsafe {
                let to = to.as_mut_ptr().add(j * to_stride + i);
                V::transpose8(from.as_ptr().add(i * from_stride + j), from_stride, to, to_stride);
            }
        }
    }
    for i in 0..n {
        for j in if i < full_n { full_len } else { 0 }..len {
            to[j * to_stride + i] = from[i * from_stride + j];
        }
    }
}
