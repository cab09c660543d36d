//! Adam's moments of weights are stored in tiles on the device, so that each tile is contiguous
//! (`moment_at` in `kernels/common.cu`). On the host they are row-major.

use crate::Slot;

/// Rows and columns of a tile; tiles at the edges are smaller.
const TILE: usize = 64;

/// The index of an element in the tiled order.
fn index_in_tiles((row, column): (usize, usize), weight: &Slot) -> usize {
    let (row0, column0) = (row / TILE * TILE, column / TILE * TILE);
    let (height, width) = ((weight.rows - row0).min(TILE), (weight.columns - column0).min(TILE));
    // Avoids bank conflicts in shared memory, in tiles of full width.
    let swapped = if width == TILE { (row / 4 % 2) * 16 } else { 0 };
    row0 * weight.columns + column0 * height + (row - row0) * width + ((column - column0) ^ swapped)
}

/// Converts from tiled to row-major order, or back; `moments` are those of all restarts, `stride` apart.
pub(super) fn reorder(weights: &[Slot], stride: usize, moments: &mut [f32], to_rows: bool) {
    for restart_moments in moments.chunks_mut(stride) {
        for weight in weights {
            let values = &mut restart_moments[weight.range()];
            let before = values.to_vec();
            for row in 0..weight.rows {
                for column in 0..weight.columns {
                    let (in_rows, in_tiles) =
                        (row * weight.columns + column, index_in_tiles((row, column), weight));
                    let (from, to) = if to_rows { (in_tiles, in_rows) } else { (in_rows, in_tiles) };
                    values[to] = before[from];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_a_permutation_and_tiles_are_contiguous() {
        for (rows, columns) in [(64, 64), (784, 500), (500, 784), (10, 2000), (70, 65), (3, 1)] {
            let weight = Slot { offset: 0, rows, columns };
            let mut owners = vec![None; rows * columns];
            for row in 0..rows {
                for column in 0..columns {
                    let owner = &mut owners[index_in_tiles((row, column), &weight)];
                    assert_eq!(owner.replace((row / TILE, column / TILE)), None, "{row}, {column}");
                }
            }
            let runs = 1 + owners.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert_eq!(runs, rows.div_ceil(TILE) * columns.div_ceil(TILE), "{rows} x {columns}");
        }
    }

    #[test]
    fn round_trip_restores_moments_and_leaves_other_parameters_alone() {
        let weights =
            [Slot { offset: 2, rows: 70, columns: 68 }, Slot { offset: 5000, rows: 4, columns: 130 }];
        let stride = 6000;
        let rows: Vec<f32> = (0..2 * stride).map(|i| i as f32).collect();
        let mut moments = rows.clone();
        reorder(&weights, stride, &mut moments, false);
        assert_ne!(moments, rows);
        // In the first tile of the first matrix, the second row follows the 64 columns of the first.
        assert_eq!(moments[2 + 64..][..4], rows[2 + 68..][..4]);
        reorder(&weights, stride, &mut moments, true);
        assert_eq!(moments, rows);
    }
}
