//! The repulsion of t-SNE, summed over all pairs.

use rayon::prelude::*;

use super::descent::Repulsion;

/// The exact repulsion: 10,000 points take 50 ms on two cores, and the time grows with the square.
pub(crate) fn exact_repulsion(points: &[[f64; 2]]) -> Repulsion {
    let xs: Vec<f32> = points.iter().map(|p| p[0] as f32).collect();
    let ys: Vec<f32> = points.iter().map(|p| p[1] as f32).collect();
    let sums: Vec<[f64; 3]> = (0..points.len()).into_par_iter().map(|i| sums_of_point(&xs, &ys, i)).collect();
    // In the order of the rows, independent of the threads.
    let total = sums.iter().map(|sums| sums[2]).sum();
    Repulsion { forces: sums.into_iter().map(|[x, y, _]| [x, y]).collect(), total }
}

/// Sums over all other rows of q² (y_i - y_j), and of q = 1 / (1 + |y_i - y_j|²).
fn sums_of_point(xs: &[f32], ys: &[f32], i: usize) -> [f64; 3] {
    const LANES: usize = 16;
    // Single precision is enough within a block; the blocks are summed in double.
    const BLOCK: usize = 16 * LANES;
    let (x, y) = (xs[i], ys[i]);
    let mut sums = [0.0f64; 3];
    for (xs, ys) in xs.chunks(BLOCK).zip(ys.chunks(BLOCK)) {
        let mut lanes = [[0.0f32; LANES]; 3];
        for (xs, ys) in xs.chunks(LANES).zip(ys.chunks(LANES)) {
            for (lane, (other_x, other_y)) in xs.iter().zip(ys).enumerate() {
                let (dx, dy) = (x - other_x, y - other_y);
                let q = 1.0 / (1.0 + dx * dx + dy * dy);
                lanes[0][lane] += q * q * dx;
                lanes[1][lane] += q * q * dy;
                lanes[2][lane] += q;
            }
        }
        for (sum, lanes) in sums.iter_mut().zip(&lanes) {
            *sum += lanes.iter().map(|&x| f64::from(x)).sum::<f64>();
        }
    }
    // The row itself has q = 1 and no repulsion.
    [sums[0], sums[1], sums[2] - 1.0]
}
