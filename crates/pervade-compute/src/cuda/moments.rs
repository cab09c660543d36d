//! Adam's moments of weights are stored in tiles on the device, so that each tile is contiguous
//! (`moment_at` in `kernels/common.cu`). On the host they are row-major.

use crate::Slot;

/// Rows and columns of a tile; tiles at the edges are smaller.
const TILE: usize = 64;

/// The index of an element in the tiled order.
pub(super) fn index_in_tiles(weight: &Slot, row: usize, column: usize) -> usize {
    let (row0, column0) = (row / TILE * TILE, column / TILE * TILE);
    let (height, width) = ((weight.rows - row0).min(TILE), (weight.columns - column0).min(TILE));
    // Avoids bank conflicts in shared memory, in tiles of full width.
    let swapped = if width == TILE { (row / 4 % 2) * 16 } else { 0 };
    row0 * weight.columns + column0 * height + (row - row0) * width + ((column - column0) ^ swapped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moments::check_order;

    #[test]
    fn tiles_are_contiguous_and_checkpoints_get_rows() {
        check_order(index_in_tiles, |_, row, column| (row / TILE, column / TILE));
    }
}
