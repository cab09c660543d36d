//! Adam's moments of weights lie in tiles on the device, so that a tile is a single run of memory
//! (`moment_at` in `kernels/common.cu`). Outside they are rows, as everywhere.

use crate::Slot;

/// Rows and columns of a tile; at the edges there are fewer.
const TILE: usize = 64;

/// Where a number lies within its matrix.
fn index_in_tiles((row, column): (usize, usize), weight: &Slot) -> usize {
    let (row0, column0) = (row / TILE * TILE, column / TILE * TILE);
    let (height, width) = ((weight.rows - row0).min(TILE), (weight.columns - column0).min(TILE));
    // For the banks of shared memory, in tiles of full width.
    let swapped = if width == TILE { (row / 4 % 2) * 16 } else { 0 };
    row0 * weight.columns + column0 * height + (row - row0) * width + ((column - column0) ^ swapped)
}

/// From the device's order to rows, or back; `moments` are those of all restarts, `stride` apart.
pub(super) fn reorder(weights: &[Slot], stride: usize, moments: &mut [f32], to_rows: bool) {
    for of_restart in moments.chunks_mut(stride) {
        for weight in weights {
            let numbers = &mut of_restart[weight.range()];
            let before = numbers.to_vec();
            for row in 0..weight.rows {
                for column in 0..weight.columns {
                    let (in_rows, in_tiles) =
                        (row * weight.columns + column, index_in_tiles((row, column), weight));
                    let (from, to) = if to_rows { (in_tiles, in_rows) } else { (in_rows, in_tiles) };
                    numbers[to] = before[from];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_and_a_tile_is_one_run() {
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
    fn there_and_back_leaves_moments_and_what_lies_between_them() {
        let weights =
            [Slot { offset: 2, rows: 70, columns: 68 }, Slot { offset: 5000, rows: 4, columns: 130 }];
        let stride = 6000;
        let rows: Vec<f32> = (0..2 * stride).map(|i| i as f32).collect();
        let mut moments = rows.clone();
        reorder(&weights, stride, &mut moments, false);
        assert_ne!(moments, rows);
        // The first tile's second row of the first matrix follows its 64 columns of the first.
        assert_eq!(moments[2 + 64..][..4], rows[2 + 68..][..4]);
        reorder(&weights, stride, &mut moments, true);
        assert_eq!(moments, rows);
    }
}
