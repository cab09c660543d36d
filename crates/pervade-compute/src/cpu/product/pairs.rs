//! The A of a product that skips zeros: packed in blocks of k, with a mask of the nonzero elements of each row, and its rows in pairs.

use std::ops::Range;

use super::super::shared::Shared;
use super::super::team::for_each_task;
use super::{Functions, Vector, View, at_least, transpose};

/// Room for the k of a block, each a bit of a mask.
pub(super) const BLOCK_K: usize = 64;
/// The most k of a block: as many rows of eight vectors of 64 bytes leave some room in a first-level cache of 32 KiB.
pub(super) const MOST_K: usize = 56;
/// Rows among which partners are chosen: at most, and at least where larger groups would leave threads without work. Then the blocks of k
/// by which rows are compared.
pub(super) const GROUP: usize = 64;
const MIN_GROUP: usize = 16;
const N_COMPARED: usize = 8;
/// The terms per row from which choosing a partner is worth its time, and the elements per block of a pair that it must save (in both
/// rows together: twice the k that are skipped).
const MIN_PAIRED_TERMS: usize = 400_000;
const MIN_SAVED: usize = 2;

/// The memory of a packed A.
#[derive(Default)]
pub(super) struct Buffers {
    /// [block, row, BLOCK_K].
    values: Vec<f32>,
    /// The nonzero elements of each row, [block, row].
    masks: Vec<u64>,
    /// The rows in the order in which they are paired; an odd last one is its own partner.
    order: Vec<u32>,
}

/// A packed in blocks: see [`Buffers`].
#[derive(Clone, Copy)]
pub(super) struct Packed<'a> {
    pub(super) values: &'a [f32],
    pub(super) masks: &'a [u64],
    pub(super) order: &'a [u32],
    pub(super) n_rows: usize,
    pub(super) n_blocks: usize,
}

/// The pairs of rows of a part.
pub(super) fn pairs_of_part(n_rows: usize, n_parts: usize, part: usize) -> Range<usize> {
    let n_pairs = n_rows.div_ceil(2);
    n_pairs * part / n_parts..n_pairs * (part + 1) / n_parts
}

/// The k of a block.
pub(super) fn block_range(n_k: usize, n_blocks: usize, block: usize) -> Range<usize> {
    n_k * block / n_blocks..n_k * (block + 1) / n_blocks
}

/// Packs A in blocks, and pairs the rows of each part, group by group. `n_columns`: those of B.
pub(super) fn pack_a<'a>(
    functions: Functions,
    a: View,
    n_columns: usize,
    n_parts: usize,
    buffers: &'a mut Buffers,
) -> Packed<'a> {
    let (n_rows, n_blocks) = (a.rows, a.columns.div_ceil(MOST_K));
    let values = at_least(&mut buffers.values, n_blocks * n_rows * BLOCK_K);
    let masks = at_least(&mut buffers.masks, n_blocks * n_rows);
    let order = at_least(&mut buffers.order, n_rows.next_multiple_of(2));
    let pairs_per_part = n_rows.div_ceil(2).div_ceil(n_parts);
    let wanted = rayon::current_num_threads().div_ceil(n_parts).min(pairs_per_part.div_ceil(MIN_GROUP / 2));
    let n_groups = pairs_per_part.div_ceil(GROUP / 2).max(wanted);
    order.iter_mut().zip(0..).for_each(|(row, i)| *row = i);
    let shared = (Shared::new(values), Shared::new(masks), Shared::new(order));
    let rows_of_group = |group: usize| {
        let (pairs, group) = (pairs_of_part(n_rows, n_parts, group / n_groups), group % n_groups);
        let first_pair = |group: usize| pairs.start + pairs.len() * group / n_groups;
        2 * first_pair(group)..(2 * first_pair(group + 1)).min(n_rows)
    };
    let pack = |rows: &Range<usize>, block: usize| {
        let first = block * n_rows + rows.start;
        let of_block = a.part(rows.clone(), block_range(a.columns, n_blocks, block));
        // SAFETY: each task has its own rows of a block; this machine has the instruction set.
        unsafe {
            let values = shared.0.slice(first * BLOCK_K, rows.len() * BLOCK_K);
            (functions.pack_rows)(of_block, values, shared.1.slice(first, rows.len()));
        }
    };
    let pair = |rows: &Range<usize>| {
        let (mut compared, n_compared) = ([[0; GROUP]; N_COMPARED], n_blocks.min(N_COMPARED));
        // SAFETY: each task has its own rows, which are packed; this machine has the instruction set.
        unsafe {
            for (i, compared) in compared[..n_compared].iter_mut().enumerate() {
                let masks = shared.1.slice(n_blocks * i / n_compared * n_rows + rows.start, rows.len());
                compared[..rows.len()].copy_from_slice(masks);
            }
            let order = shared.2.slice(rows.start, rows.len());
            (functions.pair_rows)(&compared[..n_compared], rows.start as u32, order);
        }
    };
    let (n_groups, is_paired) = (n_parts * n_groups, n_columns * a.columns >= MIN_PAIRED_TERMS);
    if a.row_stride == 1 {
        // Neighbouring groups of a block are next to each other in memory.
        for_each_task(n_blocks * n_groups, |task| pack(&rows_of_group(task % n_groups), task / n_groups));
        for_each_task(if is_paired { n_groups } else { 0 }, |group| pair(&rows_of_group(group)));
    } else {
        for_each_task(n_groups, |group| {
            let rows = rows_of_group(group);
            (0..n_blocks).for_each(|block| pack(&rows, block));
            if is_paired {
                pair(&rows);
            }
        });
    }
    let last = order[n_rows - 1];
    order[n_rows..].fill(last);
    Packed { values, masks, order, n_rows, n_blocks }
}

/// Pairs rows by their masks, of which there are some per row: each row in turn with the most similar that is left; or neighbours, if
/// that saves too little.
#[inline(always)]
pub(super) fn pair_rows(masks: &[[u64; GROUP]], first: u32, order: &mut [u32]) {
    let (n, mut n_placed) = (order.len(), 0);
    let mut is_free = [true; GROUP];
    let mut n_saved = 0i64;
    for i in 0..n {
        if !is_free[i] {
            continue;
        }
        let mut differences = [0; GROUP];
        for masks in masks {
            let mask = masks[i];
            differences.iter_mut().zip(masks).for_each(|(d, other)| *d += (mask ^ other).count_ones());
        }
        let partner = (i + 1..n).filter(|&j| is_free[j]).min_by_key(|&j| differences[j]);
        for row in [Some(i), partner].into_iter().flatten() {
            is_free[row] = false;
            order[n_placed] = first + row as u32;
            n_placed += 1;
        }
        n_saved -= i64::from(partner.map_or(0, |j| differences[j]));
    }
    let neighbours = |masks: &[u64; GROUP]| -> i64 {
        masks[..n].chunks_exact(2).map(|pair| i64::from((pair[0] ^ pair[1]).count_ones())).sum()
    };
    n_saved += masks.iter().map(neighbours).sum::<i64>();
    if n_saved < (MIN_SAVED * masks.len() * n / 2) as i64 {
        order.iter_mut().zip(first..).for_each(|(row, i)| *row = i);
    }
}

/// Packs some rows of a block as [row, BLOCK_K], with their masks. What follows the k of a row is never read.
#[inline(always)]
pub(super) fn pack_rows<V: Vector>(a: View, values: &mut [f32], masks: &mut [u64]) {
    let is_transposed = a.row_stride == 1;
    if is_transposed {
        transpose::<V>(a.values, a.column_stride, [a.columns, a.rows], values, BLOCK_K);
    }
    for (row, (mask, line)) in masks.iter_mut().zip(values.chunks_exact_mut(BLOCK_K)).enumerate() {
        let line = &mut line[..a.columns];
        *mask = if is_transposed {
            nonzero_bits::<V>(line)
        } else {
            copy_line::<V>(&a.values[row * a.row_stride..][..a.columns], line)
        };
    }
}

/// A bit for each element that is not zero: whole vectors, the last of which overlaps the one before.
#[inline(always)]
fn nonzero_bits<V: Vector>(line: &[f32]) -> u64 {
    if line.len() < V::LANES {
        return line.iter().rev().fold(0, |bits, &x| bits << 1 | u64::from(x != 0.0));
    }
    let mut mask = 0;
    for i in (0..line.len()).step_by(V::LANES) {
        let i = i.min(line.len() - V::LANES);
        // SAFETY: LANES elements from i on are inside the line.
        mask |= unsafe { V::load(line.as_ptr().add(i)).nonzero_bits() } << i;
    }
    mask
}

/// Copies a line of the same length and returns its [`nonzero_bits`].
#[inline(always)]
fn copy_line<V: Vector>(from: &[f32], to: &mut [f32]) -> u64 {
    assert_eq!(from.len(), to.len());
    if from.len() < V::LANES {
        to.copy_from_slice(from);
    } else {
        for i in (0..from.len()).step_by(V::LANES) {
            let i = i.min(from.len() - V::LANES);
            // SAFETY: LANES elements from i on are inside both lines.
            unsafe { V::load(from.as_ptr().add(i)).store(to.as_mut_ptr().add(i)) };
        }
    }
    nonzero_bits::<V>(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_paired_with_those_that_differ_least() {
        let mut masks = [[0; GROUP]; 2];
        masks[0][..5].copy_from_slice(&[0xfff, 0, 0xffe, 0b1, 0xff_0000]);
        masks[1][..5].copy_from_slice(&[0xfff, 0b1, 0xfff, 0, 0]);
        let mut order = [0; 5];
        pair_rows(&masks, 7, &mut order);
        assert_eq!(order, [7, 9, 8, 10, 11], "an odd one is the last");
        masks[0][..4].copy_from_slice(&[0b11, 0, 0b10, 0b1]);
        pair_rows(&masks[..1], 0, &mut order[..4]);
        assert_eq!(order[..4], [0, 1, 2, 3], "neighbours, if others save too little");
    }
}
