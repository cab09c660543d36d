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
/// Below this, all points are at one place for single precision.
const FINEST: f64 = 1e-9;
/// Sides of a grid, in nodes.
const SIDES: [usize; 10] = [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536];
/// The points are added to this many grids, in blocks that do not depend on the threads.
const BLOCKS: usize = 4;

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
        let grid = self.grid_for(span);
        let stencils: Vec<Stencil> = points.par_iter().map(|&point| grid.stencil(point, low)).collect();
        let field = grid.convolution.apply(&grid.charges(&stencils));
        let forces = stencils.par_iter().map(|stencil| grid.read(stencil, &field.forces)).collect();
        let n = points.len() as f64;
        // Every point has q = 1 with itself. Interpolated, it is nearly 1: points that are all far from each other
        // would leave only that error, and the sum must stay positive.
        Repulsion { forces, total: (field.total - n).max(0.01 * n) }
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
        let new = || Grid { side, spacing, convolution: Convolution::new(side, spacing) };
        self.grid.insert(old.unwrap_or_else(new))
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

impl Grid {
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
    fn errors(points: &[[f64; 2]]) -> (f64, f64) {
        let (found, exact) = (InterpolatedRepulsion::default().of(points), exact_repulsion(points));
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
            [radius * angle.cos() + 1000.0, radius * angle.sin() - 3.0]
        };
        (0..n).map(at).collect()
    }

    #[test]
    fn interpolation_is_close_to_the_exact_sum() {
        for scale in [1e-4, 0.01, 0.2, 0.5, 1.0, 2.0] {
            let (force, total) = errors(&sunflower(3000, scale));
            println!("{scale} {force} {total}");
        }
        panic!();
    }
}
