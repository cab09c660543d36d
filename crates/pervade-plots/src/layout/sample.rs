//! Which rows are laid out, and where the others go.

use rayon::prelude::*;

use super::tree::Tree;

/// Rows of the sample that give another row its position.
const ANCHORS: usize = 5;
/// An anchor counts if it is at most this many times the usual distance of neighbours from the first one, on the map:
/// a row between two islands belongs to one of them, not to the gap.
const REACH: f32 = 5.0;
/// Rows whose distance to their neighbour on the map is measured.
const MEASURED: usize = 1000;
/// A component keeps at least this many rows (or all), so that small islands stay.
const FEWEST_OF_COMPONENT: usize = 32;

/// The rows to lay out, in increasing order: about `max_rows` of them, uniformly within each component, and one of
/// each set of rows that are equal.
///
/// # Shapes
/// - latents: `[N, J]`, components: `[N]`
pub(super) fn rows_to_lay_out(
    latents: &[f32],
    n_latents: usize,
    components: &[u32],
    max_rows: usize,
) -> Vec<u32> {
    let n = components.len();
    let mut rows: Vec<u32> = (0..n as u32).collect();
    if n > max_rows {
        rows.sort_unstable_by_key(|&row| (components[row as usize], hash(u64::from(row)), row));
        let kept = |rows: &[u32]| {
            let share = (rows.len() as u128 * max_rows as u128 / n as u128) as usize;
            share.max(FEWEST_OF_COMPONENT).min(rows.len())
        };
        let same = |a: &u32, b: &u32| components[*a as usize] == components[*b as usize];
        rows = rows.chunk_by(same).flat_map(|rows| rows[..kept(rows)].iter().copied()).collect();
    }
    let row = |i: u32| &latents[i as usize * n_latents..][..n_latents];
    let order = |a: &u32, b: &u32| {
        let values = row(*a).iter().zip(row(*b)).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
        let component = components[*a as usize].cmp(&components[*b as usize]);
        values.unwrap_or(std::cmp::Ordering::Equal).then(component)
    };
    rows.par_sort_unstable_by(|a, b| order(a, b).then(a.cmp(b)));
    rows.dedup_by(|a, b| order(a, b).is_eq());
    rows.par_sort_unstable();
    rows
}

/// A pseudo-random number for a row: Steele, Lea and Flood's SplitMix64 (2014).
fn hash(value: u64) -> u64 {
    let mut bits = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A pseudo-random point of the unit disc for a row.
fn in_disc(row: u32) -> [f32; 2] {
    let mut bits = hash(u64::from(row) ^ 0x6d61_7000_0000_0000);
    loop {
        // 24 bits per coordinate, which `f32` holds exactly.
        let point = [bits >> 40, (bits >> 16) & 0xff_ffff].map(|b| b as f32 / 8_388_608.0 - 1.0);
        if point[0] * point[0] + point[1] * point[1] <= 1.0 {
            return point;
        }
        bits = hash(bits);
    }
}

/// Rows that have positions, in trees by component.
pub(super) struct Anchors<'a> {
    n_latents: usize,
    /// `[N, J]`
    latents: &'a [f32],
    /// `[N]`
    components: &'a [u32],
    /// The component, the rows and their tree, in increasing order of components.
    trees: Vec<(u32, Vec<u32>, Tree)>,
    /// The usual distance of an anchor to the nearest one on the map.
    spacing: f32,
}

impl<'a> Anchors<'a> {
    /// # Shapes
    /// - latents: `[N, J]`, components: `[N]`, positions: `[N, 2]`, of which those of the rows `placed` are read
    pub(super) fn new(
        latents: &'a [f32],
        n_latents: usize,
        components: &'a [u32],
        placed: &[u32],
        positions: &[[f32; 2]],
    ) -> Self {
        let mut by_component: Vec<u32> = placed.to_vec();
        by_component.sort_unstable_by_key(|&row| (components[row as usize], row));
        let same = |a: &u32, b: &u32| components[*a as usize] == components[*b as usize];
        let groups: Vec<&[u32]> = by_component.chunk_by(same).collect();
        let tree = |rows: &&[u32]| {
            let of_row = |&row: &u32| latents[row as usize * n_latents..][..n_latents].iter().copied();
            let values: Vec<f32> = rows.iter().flat_map(of_row).collect();
            (components[rows[0] as usize], rows.to_vec(), Tree::new(&values, n_latents))
        };
        let trees = groups.par_iter().map(tree).collect();
        Self { n_latents, latents, components, trees, spacing: usual_spacing(placed, positions) }
    }

    /// The position of a row that was not laid out: the mean of its nearest anchors of the same component, weighted
    /// by the inverse squared distance, and an offset so that points do not coincide.
    ///
    /// # Shapes
    /// - positions: `[N, 2]`, of which those of the anchors are read
    pub(super) fn position(&self, row: u32, positions: &[[f32; 2]]) -> [f32; 2] {
        let own = &self.latents[row as usize * self.n_latents..][..self.n_latents];
        let component = self.components[row as usize];
        let slot = self.trees.partition_point(|(other, ..)| *other < component);
        let (_, rows, tree) = &self.trees[slot];
        let found = tree.nearest(own, ANCHORS, None);
        let at = |index: u32| positions[rows[index as usize] as usize];
        let (nearest, first) = (found[0].0, at(found[0].1));
        let centre = if nearest > 0.0 {
            let near = found.iter().filter(|&&(_, index)| distance(at(index), first) <= REACH * self.spacing);
            // Relative to the nearest, so that the weights neither overflow nor vanish.
            weighted_mean(near.map(|&(square, index)| (nearest / square, at(index))))
        } else {
            first
        };
        let offset = in_disc(row);
        [0, 1].map(|axis| centre[axis] + self.spacing * offset[axis])
    }
}

/// The median distance of some of the rows `placed` to the nearest of them on the map, or 1 if there is none.
fn usual_spacing(placed: &[u32], positions: &[[f32; 2]]) -> f32 {
    let flat: Vec<f32> = placed.iter().flat_map(|&row| positions[row as usize]).collect();
    let tree = Tree::new(&flat, 2);
    let step = placed.len().div_ceil(MEASURED).max(1);
    let nearest = |i: usize| Some(tree.nearest(&flat[2 * i..2 * i + 2], 1, Some(i as u32)).first()?.0.sqrt());
    let mut gaps: Vec<f32> = (0..placed.len()).step_by(step).filter_map(nearest).collect();
    gaps.sort_unstable_by(f32::total_cmp);
    gaps.get(gaps.len() / 2).copied().filter(|&gap| gap > 0.0).unwrap_or(1.0)
}

fn weighted_mean(points: impl Iterator<Item = (f32, [f32; 2])>) -> [f32; 2] {
    let mut sums = [0.0; 3];
    for (weight, [x, y]) in points {
        sums = [sums[0] + weight * x, sums[1] + weight * y, sums[2] + weight];
    }
    [sums[0] / sums[2], sums[1] / sums[2]]
}

/// Not `hypot`, which differs between systems' libraries.
fn distance(a: [f32; 2], b: [f32; 2]) -> f32 {
    let (dx, dy) = (a[0] - b[0], a[1] - b[1]);
    (dx * dx + dy * dy).sqrt()
}
