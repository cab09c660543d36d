//! The repulsion of t-SNE in a time that is linear in the number of points.
//!
//! Paper: Linderman, Rachh, Hoskins, Steinerberger and Kluger, "Fast interpolation-based t-SNE for improved
//! visualization of single-cell RNA-seq data" (2019). The kernel between two points is interpolated by polynomials
//! from the nodes of a regular grid: points give their charge to the nodes around them, nodes act on each other by a
//! convolution, and points read the force from the nodes around them.
//!
//! DEVIATION(stencil): the paper divides the plane into boxes of three nodes each. Here each point uses the 4 x 4
//! nodes centred on it, and the convolution has the force itself as its kernel: one charge instead of three, and no
//! difference of large sums.

use rayon::prelude::*;

use super::convolution::Convolution;
use crate::tsne::Repulsion;

/// Nodes per axis around a point.
const STENCIL: usize = 4;
/// Distance between nodes. q varies over a distance of 1; the test below has the error.
const SPACING: f64 = 0.5;
/// Below this, all points are at one position for single precision.
const FINEST: f64 = 1e-9;
/// Sides of a grid, in nodes.
const SIDES: [usize; 10] = [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536];
/// The points are added to this many grids, in blocks that do not depend on the threads.
const BLOCKS: usize = 4;

/// Lower bound of the mean over points of the sum of q. Neighbours attract each other, so that it is near 1 or above.
const SMALLEST_MEAN_Q: f64 = 1e-3;

/// Interpolates the repulsion; keeps the kernels' spectra as long as the grid has the same size.
#[derive(Default)]
pub(super) struct InterpolatedRepulsion {
    grid: Option<Grid>,
}

struct Grid {
    side: usize,
    spacing: f64,
    convolution: Convolution,
}

/// The first node of a point's stencil, and the weights of its columns and rows.
struct Stencil {
    first: usize,
    weights: [[f32; STENCIL]; 2],
}

impl InterpolatedRepulsion {
    /// The repulsion between points. `[N, 2]`
    pub(super) fn of(&mut self, points: &[[f64; 2]]) -> Repulsion {
        let (low, span) = bounds(points);
        self.grid_for(span).repulsion(points, low)
    }

    /// The smallest grid that covers `span`. Spans that are wider than all grids need a wider spacing; those narrower
    /// than the smallest grid get a narrower one, because there the force is a small difference between nodes. The
    /// spacing changes by powers of two, so that the grid is the same in most iterations.
    fn grid_for(&mut self, span: f64) -> &Grid {
        let (smallest, largest) = (SIDES[0], SIDES[SIDES.len() - 1]);
        let mut spacing = SPACING;
        while spacing > FINEST && nodes(span, 0.5 * spacing) <= smallest as f64 {
            spacing *= 0.5;
        }
        while nodes(span, spacing) > largest as f64 {
            spacing *= 2.0;
        }
        let needed = nodes(span, spacing);
        let side = SIDES.into_iter().find(|&side| side as f64 >= needed).unwrap_or(largest);
        let fits = |grid: &Grid| grid.side == side && grid.spacing == spacing;
        let old = self.grid.take().filter(fits);
        self.grid.insert(old.unwrap_or_else(|| Grid::new(side, spacing)))
    }
}

/// Nodes per axis that a span needs, with the margin of the stencils.
fn nodes(span: f64, spacing: f64) -> f64 {
    (span / spacing).floor() + STENCIL as f64
}

/// The smallest coordinate of each axis, and the larger of the two extents.
fn bounds(points: &[[f64; 2]]) -> ([f64; 2], f64) {
    let fold = |f: fn(f64, f64) -> f64| {
        points.iter().fold(points[0], |found, p| [f(found[0], p[0]), f(found[1], p[1])])
    };
    let (low, high) = (fold(f64::min), fold(f64::max));
    (low, (high[0] - low[0]).max(high[1] - low[1]))
}

/// The weights of the nodes -1, 0, 1 and 2 at t in [0, 1]: Lagrange's cubic polynomials.
fn cubic_weights(t: f64) -> [f32; STENCIL] {
    let (below, above, far) = (t + 1.0, 1.0 - t, 2.0 - t);
    [-t * above * far / 6.0, below * above * far / 2.0, below * t * far / 2.0, -below * t * above / 6.0]
        .map(|weight| weight as f32)
}

/// q between nodes by their distances along columns and rows, with the number of signs that each distance has.
fn own_kernel(spacing: f64) -> [[f32; STENCIL]; STENCIL] {
    let signs = |distance: usize| if distance == 0 { 1.0 } else { 2.0 };
    let q = |r: usize, c: usize| 1.0 / (1.0 + (r * r + c * c) as f64 * spacing * spacing);
    std::array::from_fn(|r| std::array::from_fn(|c| (signs(r) * signs(c) * q(r, c)) as f32))
}

/// q of a point with itself as it is interpolated, which is nearly 1: sum over pairs of nodes of the stencil.
fn own_q(stencil: &Stencil, kernel: &[[f32; STENCIL]; STENCIL]) -> f32 {
    let correlate = |weights: [f32; STENCIL]| -> [f32; STENCIL] {
        std::array::from_fn(|lag| weights[lag..].iter().zip(weights).fold(0.0, |sum, (a, b)| sum + a * b))
    };
    let [columns, rows] = stencil.weights.map(correlate);
    let along_row = |kernel: &[f32; STENCIL]| kernel.iter().zip(columns).fold(0.0, |sum, (q, c)| sum + q * c);
    kernel.iter().zip(rows).fold(0.0, |sum, (kernel, r)| sum + r * along_row(kernel))
}

impl Grid {
    fn new(side: usize, spacing: f64) -> Self {
        Self { side, spacing, convolution: Convolution::new(side, spacing) }
    }

    /// The repulsion between points, of which `low` has the smallest coordinates.
    fn repulsion(&self, points: &[[f64; 2]], low: [f64; 2]) -> Repulsion {
        let stencils: Vec<Stencil> = points.par_iter().map(|&point| self.stencil(point, low)).collect();
        let field = self.convolution.apply(&self.charges(&stencils));
        let forces = stencils.par_iter().map(|stencil| self.read(stencil, &field.forces)).collect();
        let own_kernel = own_kernel(self.spacing);
        let own: Vec<f32> = stencils.par_iter().map(|stencil| own_q(stencil, &own_kernel)).collect();
        // In the order of the rows, independent of the threads.
        let own: f64 = own.into_iter().map(f64::from).sum();
        // Points that are all far from each other leave only rounding errors, and the sum must stay positive.
        Repulsion { forces, total: (field.total - own).max(SMALLEST_MEAN_Q * points.len() as f64) }
    }

    fn stencil(&self, point: [f64; 2], low: [f64; 2]) -> Stencil {
        let along = |axis: usize| {
            let position = (point[axis] - low[axis]) / self.spacing;
            // The node before the first point is the grid's first.
            let node = (position as usize).min(self.side - STENCIL);
            (node, cubic_weights(position - node as f64))
        };
        let ((column, columns), (row, rows)) = (along(0), along(1));
        Stencil { first: row * self.side + column, weights: [columns, rows] }
    }

    /// The charge of each node. `[side, side]`
    fn charges(&self, stencils: &[Stencil]) -> Vec<f32> {
        let add = |block: &[Stencil]| {
            let mut charges = vec![0.0f32; self.side * self.side];
            for Stencil { first, weights: [columns, rows] } in block {
                for (r, row) in rows.iter().enumerate() {
                    let nodes = &mut charges[first + r * self.side..][..STENCIL];
                    nodes.iter_mut().zip(columns).for_each(|(charge, column)| *charge += row * column);
                }
            }
            charges
        };
        let length = stencils.len().div_ceil(BLOCKS).max(1);
        let blocks: Vec<Vec<f32>> = stencils.par_chunks(length).map(add).collect();
        let mut blocks = blocks.into_iter();
        let mut sum = blocks.next().unwrap_or_default();
        for block in blocks {
            sum.par_iter_mut().zip(block).for_each(|(sum, charge)| *sum += charge);
        }
        sum
    }

    /// The force at a point, from the nodes of its stencil.
    fn read(&self, stencil: &Stencil, forces: &[[f32; 2]]) -> [f64; 2] {
        let [columns, rows] = stencil.weights;
        let mut force = [0.0f32; 2];
        for (r, row) in rows.iter().enumerate() {
            let nodes = &forces[stencil.first + r * self.side..][..STENCIL];
            for (node, column) in nodes.iter().zip(columns) {
                force = [force[0] + row * column * node[0], force[1] + row * column * node[1]];
            }
        }
        force.map(f64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsne::exact_repulsion;

    /// Root mean square of the difference relative to that of the exact forces, and the relative error of the total.
    fn errors(found: &Repulsion, points: &[[f64; 2]]) -> (f64, f64) {
        let exact = exact_repulsion(points);
        let square = |v: [f64; 2]| v[0] * v[0] + v[1] * v[1];
        let difference = |(a, b): (&[f64; 2], &[f64; 2])| square([a[0] - b[0], a[1] - b[1]]);
        let wrong: f64 = found.forces.iter().zip(&exact.forces).map(difference).sum();
        let norm: f64 = exact.forces.iter().map(|&force| square(force)).sum();
        ((wrong / norm).sqrt(), (found.total / exact.total - 1.0).abs())
    }

    /// Points of a sunflower, with `scale` the distance between neighbours.
    fn sunflower(n: usize, scale: f64) -> Vec<[f64; 2]> {
        let at = |i: usize| {
            let (angle, radius) = (i as f64 * 2.399_963, (i as f64).sqrt() * scale);
            [radius * angle.cos() + 3.0, radius * angle.sin() - 1.0]
        };
        (0..n).map(at).collect()
    }

    /// From all points within a cell of the usual size to points on their own, on a spacing that grows at the end.
    #[test]
    fn interpolation_is_close_to_the_exact_sum() {
        for scale in [1e-3, 1e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 10.0] {
            let points = sunflower(3000, scale);
            let (force, total) = errors(&InterpolatedRepulsion::default().of(&points), &points);
            assert!(force < 0.02 && total < 0.002, "{scale}: {force} {total}");
        }
        // Negative control: four times the spacing is too coarse.
        let points = sunflower(3000, 0.5);
        let (force, _) = errors(&Grid::new(64, 4.0 * SPACING).repulsion(&points, bounds(&points).0), &points);
        assert!(force > 0.1, "{force}");
    }

    #[test]
    fn points_at_one_position_do_not_move() {
        let found = InterpolatedRepulsion::default().of(&[[5.0, 5.0]; 10]);
        assert!(found.forces.iter().flatten().all(|force| force.abs() < 1e-6));
        assert!((found.total - 90.0).abs() < 1e-3, "{}", found.total);
    }
}
