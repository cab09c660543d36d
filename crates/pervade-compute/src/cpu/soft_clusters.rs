//! DEC's clustering loss and its gradients (Xie, Girshick and Farhadi, 2016, equations 1, 2, 4 and 5 with alpha = 1).
//!
//! With u_m = 1 / (1 + |z - mu_m|^2), q_m = u_m / sum of u and s_m = 2 u_m (p_m - q_m) / B, the gradient of the
//! mean KL(P || Q) is sum over m of s_m (z - mu_m) for z and minus the sum over rows of the same for mu_m.

use super::{Cpu, CpuSums, M};
use crate::math::ln;
use crate::{MixtureSlots, Params, Result, SoftClusters};

// Single-threaded: negligible compared with the networks' products.
impl SoftClusters for Cpu {
    fn soft_clusters(
        &self,
        params: &mut Params<Vec<f32>>,
        slots: MixtureSlots,
        targets: &M,
        z: &M,
        affinity_gradient: &mut M,
        dz: &mut M,
        sums: &mut CpuSums,
    ) -> Result<()> {
        let (b, j, c) = (z.rows, slots.n_latents(), slots.n_components());
        for restart in 0..params.restarts {
            let first = restart * params.stride + slots.means.offset;
            let means = &params.values[first..first + c * j];
            let d_means = &mut params.gradients[first..first + c * j];
            d_means.fill(0.0);
            for row in restart * b..(restart + 1) * b {
                let (point, dz) = (&z.data[row * j..(row + 1) * j], &mut dz.data[row * j..(row + 1) * j]);
                let gradient = &mut affinity_gradient.data[row * c..(row + 1) * c];
                let target = &targets.data[row * c..(row + 1) * c];
                sums.totals[restart].cluster += affinities(means, point, target, 2.0 / b as f32, gradient);
                dz.fill(0.0);
                for ((&factor, mean), d_mean) in
                    gradient.iter().zip(means.chunks(j)).zip(d_means.chunks_mut(j))
                {
                    for k in 0..j {
                        let part = factor * (point[k] - mean[k]);
                        dz[k] += part;
                        d_mean[k] -= part;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Fills `gradient` with s_m and returns minus KL(P || Q) of the row.
fn affinities(means: &[f32], point: &[f32], target: &[f32], scale: f32, gradient: &mut [f32]) -> f64 {
    let mut total = 0.0;
    for (u, mean) in gradient.iter_mut().zip(means.chunks(point.len())) {
        let square = point.iter().zip(mean).fold(0.0f32, |sum, (z, m)| (z - m).mul_add(z - m, sum));
        *u = 1.0 / (1.0 + square);
        total += *u;
    }
    let mut gain = 0.0;
    for (u, &p) in gradient.iter_mut().zip(target) {
        let q = *u / total;
        if p > 0.0 {
            gain += f64::from(p * (ln(q) - ln(p)));
        }
        *u *= scale * (p - q);
    }
    gain
}
