//! Exact nearest neighbours among rows of few columns, by a k-d tree.

use rayon::prelude::*;

/// Maximum number of rows in a leaf, whose distances are computed side by side.
const LEAF: usize = 16;
/// The root's index. The children of node i are 2i and 2i + 1.
const ROOT: usize = 1;

/// A balanced k-d tree: each node halves its rows along the column in which they extend furthest.
pub(super) struct Tree {
    n_columns: usize,
    /// Bounds of each node: the smallest, then the largest value of each column. `[2 x leaves, 2, J]`
    boxes: Vec<f32>,
    /// The rows of each leaf, column by column. `[leaves, J, LEAF]`
    values: Vec<f32>,
    /// The indices of the rows of each leaf. `[leaves, LEAF]`, `EMPTY` where there is none
    indices: Vec<u32>,
}

/// Marks a slot of a leaf without a row.
const EMPTY: u32 = u32::MAX;

/// The k nearest rows so far: squared distances and indices, nearest first; ties go to the smaller index.
pub(super) struct Nearest {
    k: usize,
    found: Vec<(f32, u32)>,
    /// A row that is not its own neighbour.
    excluded: u32,
}

impl Nearest {
    /// Rows further than this are of no interest.
    fn limit(&self) -> f32 {
        if self.found.len() < self.k { f32::INFINITY } else { self.found[self.k - 1].0 }
    }

    fn offer(&mut self, distance: f32, index: u32) {
        let precedes = |other: &(f32, u32)| (other.0, other.1) < (distance, index);
        let slot = self.found.partition_point(precedes);
        if slot < self.k && index != self.excluded {
            self.found.truncate(self.k - 1);
            self.found.insert(slot, (distance, index));
        }
    }
}

impl Tree {
    /// A tree over finite rows. Values should be below 1e15, so that squares do not overflow.
    ///
    /// # Shapes
    /// - rows: `[N, J]`
    pub(super) fn new(rows: &[f32], n_columns: usize) -> Self {
        let n = rows.len() / n_columns;
        let n_leaves = n.div_ceil(LEAF).max(1).next_power_of_two();
        let mut tree = Self {
            n_columns,
            boxes: vec![0.0; 2 * n_leaves * 2 * n_columns],
            values: vec![f32::INFINITY; n_leaves * n_columns * LEAF],
            indices: vec![EMPTY; n_leaves * LEAF],
        };
        let mut order: Vec<u32> = (0..n as u32).collect();
        tree.build(ROOT, rows, &mut order);
        tree
    }

    fn n_leaves(&self) -> usize {
        self.indices.len() / LEAF
    }

    fn build(&mut self, node: usize, rows: &[f32], order: &mut [u32]) {
        let j = self.n_columns;
        let (mut low, mut high) = (vec![f32::INFINITY; j], vec![f32::NEG_INFINITY; j]);
        for &i in order.iter() {
            for (c, &value) in rows[i as usize * j..][..j].iter().enumerate() {
                (low[c], high[c]) = (low[c].min(value), high[c].max(value));
            }
        }
        let extent = |c: usize| high[c] - low[c];
        let widest = (1..j).fold(0, |best, c| if extent(c) > extent(best) { c } else { best });
        self.boxes[node * 2 * j..][..j].copy_from_slice(&low);
        self.boxes[node * 2 * j + j..][..j].copy_from_slice(&high);
        if node >= self.n_leaves() {
            self.fill_leaf(node - self.n_leaves(), rows, order);
            return;
        }
        let value = |i: u32| rows[i as usize * j + widest];
        let half = order.len() / 2;
        if half > 0 {
            order.select_nth_unstable_by(half, |&a, &b| value(a).total_cmp(&value(b)).then(a.cmp(&b)));
        }
        let (left, right) = order.split_at_mut(half);
        self.build(2 * node, rows, left);
        self.build(2 * node + 1, rows, right);
    }

    fn fill_leaf(&mut self, leaf: usize, rows: &[f32], order: &[u32]) {
        let j = self.n_columns;
        for (slot, &i) in order.iter().enumerate() {
            self.indices[leaf * LEAF + slot] = i;
            for (c, &value) in rows[i as usize * j..][..j].iter().enumerate() {
                self.values[(leaf * j + c) * LEAF + slot] = value;
            }
        }
    }

    /// The k rows nearest to a point, which are fewer if there are not that many; never the row `excluded`.
    pub(super) fn nearest(&self, point: &[f32], k: usize, excluded: Option<u32>) -> Vec<(f32, u32)> {
        let mut nearest =
            Nearest { k, found: Vec::with_capacity(k + 1), excluded: excluded.unwrap_or(EMPTY) };
        if k > 0 {
            self.visit(ROOT, point, &mut nearest);
        }
        nearest.found
    }

    /// The k rows nearest to each row. `[N, k]`
    pub(super) fn all_nearest(
        &self,
        rows: &[f32],
        rows_of_block: std::ops::Range<usize>,
        k: usize,
    ) -> Vec<u32> {
        let j = self.n_columns;
        let of_row = |i: usize| self.nearest(&rows[i * j..(i + 1) * j], k, Some(i as u32));
        let indices = |i: usize| of_row(i).into_iter().map(|(_, index)| index);
        rows_of_block.into_par_iter().flat_map_iter(indices).collect()
    }

    fn visit(&self, node: usize, point: &[f32], nearest: &mut Nearest) {
        if node >= self.n_leaves() {
            self.scan(node - self.n_leaves(), point, nearest);
            return;
        }
        let mut children = [2 * node, 2 * node + 1].map(|child| (self.bound(child, point), child));
        if children[1].0 < children[0].0 {
            children.swap(0, 1);
        }
        for (bound, child) in children {
            if bound <= nearest.limit() {
                self.visit(child, point, nearest);
            }
        }
    }

    /// The squared distance of a node's box, never above the distance of a row in it: each term is rounded from a
    /// smaller difference, and the terms are added in the same order.
    fn bound(&self, node: usize, point: &[f32]) -> f32 {
        let (low, high) =
            self.boxes[node * 2 * self.n_columns..][..2 * self.n_columns].split_at(self.n_columns);
        let gap = |((&x, &low), &high): ((&f32, &f32), &f32)| (low - x).max(x - high).max(0.0);
        point.iter().zip(low).zip(high).map(gap).fold(0.0, |sum, gap| sum + gap * gap)
    }

    fn scan(&self, leaf: usize, point: &[f32], nearest: &mut Nearest) {
        let mut distances = [0.0f32; LEAF];
        let columns = self.values[leaf * self.n_columns * LEAF..].chunks_exact(LEAF);
        for (&x, values) in point.iter().zip(columns) {
            for (distance, value) in distances.iter_mut().zip(values) {
                *distance += (value - x) * (value - x);
            }
        }
        for (&distance, &index) in distances.iter().zip(&self.indices[leaf * LEAF..]) {
            if distance <= nearest.limit() && index != EMPTY {
                nearest.offer(distance, index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of small integers, with many ties.
    fn lattice(n: usize, j: usize) -> Vec<f32> {
        (0..n * j).map(|i| ((i * 7919 + i / 97) % 5) as f32).collect()
    }

    #[test]
    fn it_finds_what_comparing_all_pairs_finds() {
        for (n, j, k) in [(1, 3, 4), (2, 1, 1), (17, 2, 5), (400, 3, 7), (900, 10, 15), (900, 1, 15)] {
            let smooth: Vec<f32> =
                lattice(n, j).iter().enumerate().map(|(i, x)| x + (i % 313) as f32 * 0.01).collect();
            for rows in [lattice(n, j), smooth] {
                let tree = Tree::new(&rows, j);
                let row = |i: usize| &rows[i * j..(i + 1) * j];
                let square = |a: usize, b: usize| {
                    row(a).iter().zip(row(b)).fold(0.0, |sum, (a, b)| sum + (a - b) * (a - b))
                };
                for i in 0..n {
                    let mut all: Vec<(f32, u32)> = (0..n)
                        .filter(|&other| other != i)
                        .map(|other| (square(i, other), other as u32))
                        .collect();
                    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
                    all.truncate(k);
                    assert_eq!(tree.nearest(row(i), k, Some(i as u32)), all, "row {i} of {n}");
                }
            }
        }
    }

    #[test]
    fn an_empty_tree_finds_nothing() {
        assert!(Tree::new(&[], 2).nearest(&[0.0, 0.0], 3, None).is_empty());
    }
}
