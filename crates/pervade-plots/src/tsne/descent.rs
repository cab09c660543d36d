//! Gradient descent on KL(P|Q), with momentum and gains.

use rayon::prelude::*;

use super::affinities::Affinities;

/// How all points push each point away, with q_ij = 1 / (1 + |y_i - y_j|²).
pub(crate) struct Repulsion {
    /// The sum of q_ij² (y_i - y_j) over j, for each i. `[N, 2]`
    pub(crate) forces: Vec<[f64; 2]>,
    /// Z, the sum of q_ij over all pairs of different points.
    pub(crate) total: f64,
}

/// The gradient of KL(P|Q), with P multiplied by `exaggeration`: 4 sum_j (p_ij - q_ij / Z) q_ij (y_i - y_j).
///
/// # Shapes
/// - points: `[N, 2]`, result: `[N, 2]`
pub(crate) fn gradient(
    affinities: &Affinities,
    points: &[[f64; 2]],
    exaggeration: f64,
    repulsion: &Repulsion,
) -> Vec<[f64; 2]> {
    let slope = |i: usize| {
        let mut attraction = [0.0; 2];
        for (j, p) in affinities.of_row(i) {
            let (dx, dy) = (points[i][0] - points[j][0], points[i][1] - points[j][1]);
            let weight = p / (1.0 + dx * dx + dy * dy);
            attraction = [attraction[0] + weight * dx, attraction[1] + weight * dy];
        }
        let repelled = repulsion.forces[i].map(|force| force / repulsion.total);
        [0, 1].map(|axis| 4.0 * (exaggeration * attraction[axis] - repelled[axis]))
    };
    (0..points.len()).into_par_iter().map(slope).collect()
}

/// Points on their way down, each coordinate with its velocity and gain.
pub(crate) struct Descent {
    /// `[N, 2]`
    pub(crate) points: Vec<[f64; 2]>,
    moves: Vec<[f64; 2]>,
    gains: Vec<[f64; 2]>,
}

impl Descent {
    pub(crate) fn new(points: Vec<[f64; 2]>) -> Self {
        let n = points.len();
        Self { points, moves: vec![[0.0; 2]; n], gains: vec![[1.0; 2]; n] }
    }

    /// One step along the negative gradient; a gain grows while its coordinate keeps its direction.
    pub(crate) fn step(&mut self, slopes: &[[f64; 2]], rate: f64, momentum: f64) {
        let state = self.points.par_iter_mut().zip(&mut self.moves).zip(&mut self.gains);
        state.zip(slopes).for_each(|(((point, velocity), gains), slope)| {
            for axis in 0..2 {
                let opposed = velocity[axis] * slope[axis] < 0.0;
                let gain = if opposed { gains[axis] + 0.2 } else { gains[axis] * 0.8 };
                gains[axis] = gain.max(0.01);
                velocity[axis] = momentum * velocity[axis] - rate * gains[axis] * slope[axis];
                point[axis] += velocity[axis];
            }
        });
    }
}
