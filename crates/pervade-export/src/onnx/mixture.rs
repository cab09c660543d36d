//! The prior: log joints of the components, and clusters. In double precision, so that products can replace differences.

use std::f64::consts::TAU;

use pervade::Vade;
use pervade::mixture::FullMixture;

use super::graph::{Attribute, Element, Graph, Tensor, Value};

/// Constants of a mixture of diagonal Gaussians: with precisions p, log joints are
/// constant - sum_j (p_j x_j^2 / 2 - p_j mu_j x_j).
pub(super) struct Prior {
    n_latents: usize,
    n_components: usize,
    /// `[C]`
    constants: Vec<f64>,
    /// p / 2. `[J, C]`
    halves: Vec<f64>,
    /// p mu. `[J, C]`
    slopes: Vec<f64>,
}

impl Prior {
    pub(super) fn new(model: &Vade) -> Self {
        let (weights, means, variances) = model.components();
        let (c, j) = (weights.len(), model.n_latents());
        let constant = |m: usize| {
            let column = |k: usize| {
                let (mean, variance) = (means[m * j + k], variances[m * j + k]);
                (TAU * variance).ln() + mean * mean / variance
            };
            weights[m].ln() - 0.5 * (0..j).map(column).sum::<f64>()
        };
        let turned = |value: &dyn Fn(usize) -> f64| -> Vec<f64> {
            (0..j * c).map(|at| value(at % c * j + at / c)).collect()
        };
        Self {
            n_latents: j,
            n_components: c,
            constants: (0..c).map(constant).collect(),
            halves: turned(&|at| 0.5 / variances[at]),
            slopes: turned(&|at| means[at] / variances[at]),
        }
    }

    /// Log joints at the latents z, which are in double precision, plus the variance `extra` if q(z|x) is not a point. `[batch, C]`
    pub(super) fn log_joints(&self, g: &mut Graph, z: &str, extra: Option<&str>) -> Value {
        let dims = [self.n_latents, self.n_components];
        let halves = g.constant(&dims, &Tensor::Doubles(&self.halves));
        let slopes = g.constant(&dims, &Tensor::Doubles(&self.slopes));
        let constants = g.doubles(&self.constants);
        let mut squares = g.mul(z, z);
        if let Some(extra) = extra {
            squares = g.add(&squares, extra);
        }
        let squares = g.op("MatMul", &[&squares, &halves]);
        let linear = g.op("MatMul", &[z, &slopes]);
        let both = g.sub(&linear, &squares);
        g.add(&both, &constants)
    }
}

/// Probabilities of the clusters, and the most probable one, as outputs.
pub(super) fn clusters(g: &mut Graph, model: &Vade, log_joints: &str) {
    let (c, k) = (model.groups().len(), model.n_clusters());
    let components = g.op_with("Softmax", &[log_joints], &[Attribute::Integer("axis", 1)]);
    let mut members = vec![0.0; c * k];
    for (m, &cluster) in model.groups().iter().enumerate() {
        members[m * k + cluster as usize] = 1.0;
    }
    let members = g.constant(&[c, k], &Tensor::Doubles(&members));
    let sums = g.op("MatMul", &[&components, &members]);
    let to = [Attribute::Integer("to", Element::Float as i64)];
    g.op_into("Cast", &[&sums], &to, "probabilities");
    let along = [Attribute::Integer("axis", 1), Attribute::Integer("keepdims", 0)];
    g.op_into("ArgMax", &["probabilities"], &along, "cluster");
}

/// log p of prepared rows by a mixture with full covariances; NaN for rows with missing cells. `[batch]`
pub(super) fn row_log_density(g: &mut Graph, mixture: &FullMixture, rows: &str) -> Value {
    let k = mixture.log_weights.len();
    let d = mixture.means.len() / k;
    let mut joints = Vec::new();
    for m in 0..k {
        let factor = &mixture.inverse_factors[m];
        let log_precision: f64 = (0..d).map(|j| factor[j * d + j].ln()).sum();
        let constant = mixture.log_weights[m] + log_precision - 0.5 * d as f64 * TAU.ln();
        let turned: Vec<f64> = (0..d * d).map(|at| factor[at % d * d + at / d]).collect();
        let mean = g.doubles(&mixture.means[m * d..(m + 1) * d]);
        let factor = g.constant(&[d, d], &Tensor::Doubles(&turned));
        let centred = g.sub(rows, &mean);
        let white = g.op("MatMul", &[&centred, &factor]);
        let squares = g.mul(&white, &white);
        let square = g.sum(&squares, 1, true);
        let (half, constant) = (g.double(-0.5), g.double(constant));
        let scaled = g.mul(&square, &half);
        joints.push(g.add(&scaled, &constant));
    }
    let joints = g.concat(&joints);
    g.log_sum_exp(&joints, 1)
}
