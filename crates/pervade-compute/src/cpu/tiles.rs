//! The order of Adam's moments of a weight: tiles of some columns and all rows, one after the other.
//!
//! A task updates some rows of a panel of columns. Row by row, they would be parts of 512 bytes, each on another page; the processor's
//! own prefetches follow a tile, which is contiguous.

use std::ops::Range;

use super::product::CACHE_LINE;

/// The most columns of a tile: the widest panel of a product that skips zeros, so that a part of a row that a task updates is in one tile.
const MOST_COLUMNS: usize = 128;

/// A weight's tiles, of equal width but for the last.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    n_rows: usize,
    n_columns: usize,
    width: usize,
}

impl Tiles {
    pub(super) fn new(n_rows: usize, n_columns: usize) -> Self {
        let n_tiles = n_columns.div_ceil(MOST_COLUMNS).max(1);
        let width = n_columns.div_ceil(CACHE_LINE).div_ceil(n_tiles) * CACHE_LINE;
        Self { n_rows, n_columns, width }
    }

    /// Where an element is; beyond the end if there is no such column.
    #[inline(always)]
    pub(super) fn index(self, row: usize, column: usize) -> usize {
        let first = column / self.width * self.width;
        let width = self.width.min(self.n_columns.saturating_sub(first));
        first * self.n_rows + row * width + column - first
    }

    /// Parts of some columns, each within one tile.
    pub(super) fn parts(self, columns: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let part_from = move |start: usize| {
            let end_of_tile = (start / self.width + 1) * self.width;
            (start < columns.end).then(|| start..end_of_tile.min(columns.end))
        };
        std::iter::successors(part_from(columns.start), move |before| part_from(before.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Slot;
    use crate::moments::check_order;

    #[test]
    fn tiles_are_contiguous_and_checkpoints_get_rows() {
        let tiles = |weight: &Slot| Tiles::new(weight.rows, weight.columns);
        check_order(
            |weight, row, column| tiles(weight).index(row, column),
            |weight, _, column| (0, column / tiles(weight).width),
        );
    }

    #[test]
    fn parts_are_contiguous_and_cover_the_columns() {
        for n_columns in [1, 10, 128, 129, 500, 784, 2000] {
            let tiles = Tiles::new(7, n_columns);
            for start in (0..n_columns).step_by(13) {
                for end in (start..=n_columns).step_by(9) {
                    let parts: Vec<_> = tiles.parts(start..end).collect();
                    assert!(parts.iter().cloned().flatten().eq(start..end), "{parts:?}");
                    for part in parts {
                        assert!(tiles.index(3, part.end - 1) - tiles.index(3, part.start) == part.len() - 1);
                    }
                }
            }
        }
        assert_eq!(Tiles::new(1, 784).width, 112, "equal widths");
    }
}
