//! The order of Adam's moments of weights. Devices store them in tiles, each contiguous in memory; checkpoints row by row.

use crate::Slot;

/// Converts the moments of `weights` to row-major order, or back, given the index of element (row, column) in the device's order;
/// `moments` are those of all restarts, `stride` apart.
pub(crate) fn reorder(
    weights: &[Slot],
    stride: usize,
    moments: &mut [f32],
    to_rows: bool,
    index: impl Fn(&Slot, usize, usize) -> usize,
) {
    for restart_moments in moments.chunks_mut(stride) {
        for weight in weights {
            let values = &mut restart_moments[weight.range()];
            let before = values.to_vec();
            for row in 0..weight.rows {
                for column in 0..weight.columns {
                    let (in_rows, in_tiles) = (row * weight.columns + column, index(weight, row, column));
                    let (from, to) = if to_rows { (in_tiles, in_rows) } else { (in_rows, in_tiles) };
                    values[to] = before[from];
                }
            }
        }
    }
}

/// Checks an order of moments: each tile, of the given rows and columns, is contiguous, and converting there and back changes nothing.
#[cfg(test)]
pub(crate) fn check_order(
    index: impl Fn(&Slot, usize, usize) -> usize + Copy,
    tile: impl Fn(&Slot, usize, usize) -> (usize, usize),
) {
    let slot = |offset, [rows, columns]: [usize; 2]| Slot { offset, rows, columns };
    for shape in [[64, 64], [784, 500], [500, 784], [10, 2000], [70, 65], [3, 1]] {
        let weight = slot(0, shape);
        let mut owners = vec![None; shape[0] * shape[1]];
        for (row, column) in
            (0..weight.rows).flat_map(|row| (0..weight.columns).map(move |column| (row, column)))
        {
            let owner = &mut owners[index(&weight, row, column)];
            assert_eq!(owner.replace(tile(&weight, row, column)), None, "{row}, {column}");
        }
        let n_runs = 1 + owners.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let n_tiles = owners.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(n_runs, n_tiles, "{shape:?}");
    }
    let (weights, stride) = ([slot(2, [70, 150]), slot(12_000, [4, 130])], 13_000);
    let rows: Vec<f32> = (0..2 * stride).map(|i| i as f32).collect();
    let mut moments = rows.clone();
    reorder(&weights, stride, &mut moments, false, index);
    for (restart, weight) in [0, 1].into_iter().flat_map(|restart| weights.map(|weight| (restart, weight))) {
        let first = restart * stride + weight.offset;
        let moved = moments[first + index(&weight, 3, 129)];
        assert_eq!(moved, rows[first + 3 * weight.columns + 129]);
    }
    assert!(moments[..2] == rows[..2] && moments[2..] != rows[2..], "parameters that are no weights stay");
    reorder(&weights, stride, &mut moments, true, index);
    assert_eq!(moments, rows);
}
