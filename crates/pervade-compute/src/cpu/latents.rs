//! Sampling of latents.

use rayon::prelude::*;

use super::team::TeamForEach;
use super::{Cpu, M};
use crate::math::{exp, normal_pair};
use crate::{Draw, LOG_VARIANCE_LIMIT, Latents, Result};

impl Latents for Cpu {
    // Sample l of row i is stored in row l B + i.
    fn sample_latents(&self, draw: Option<Draw<'_>>, n_rows: usize, head: &M, z: &mut M) -> Result<()> {
        let (b, j) = (n_rows, z.columns);
        let z_stride = z.stride();
        for (restart, z) in z.data.chunks_exact_mut(z_stride).enumerate() {
            let head = &head.data[restart * head.stride()..];
            z.par_chunks_exact_mut(j).with_min_len(16).enumerate().team_for_each(|(sample, z)| {
                let (means, log_variances) = head[sample % b * 2 * j..][..2 * j].split_at(j);
                let Some(draw) = draw else {
                    return z.copy_from_slice(means);
                };
                for quad in 0..j.div_ceil(4) {
                    let [w0, w1, w2, w3] = draw.keys[restart].draw(draw.step, sample as u32, quad as u32);
                    let noise = [normal_pair(w0, w1), normal_pair(w2, w3)];
                    for column in 4 * quad..(4 * quad + 4).min(j) {
                        let eps = noise[column % 4 / 2][column % 2];
                        z[column] =
                            exp(0.5 * clamp_log_variance(log_variances[column])).mul_add(eps, means[column]);
                    }
                }
            });
        }
        Ok(())
    }

    fn sample_latents_backward(
        &self,
        n_rows: usize,
        head: &M,
        z: &M,
        dz: &M,
        dz_prior: Option<&M>,
        d_head: &mut M,
    ) -> Result<()> {
        [Some(dz), dz_prior].into_iter().flatten().for_each(|dz| add_gradient(n_rows, head, z, dz, d_head));
        Ok(())
    }
}

/// Adds dz to the means' gradient and dz (z - mu) / 2 to the log variances': sigma eps = z - mu.
fn add_gradient(n_rows: usize, head: &M, z: &M, dz: &M, d_head: &mut M) {
    let (b, j) = (n_rows, z.columns);
    for restart in 0..head.restarts {
        let base = restart * head.stride();
        for sample in 0..z.rows {
            let at = base + sample % b * 2 * j;
            let from = restart * z.stride() + sample * j;
            for column in 0..j {
                let gradient = dz.data[from + column];
                let offset = z.data[from + column] - head.data[at + column];
                d_head.data[at + column] += gradient;
                if inside(head.data[at + j + column]) {
                    d_head.data[at + j + column] += 0.5 * gradient * offset;
                }
            }
        }
    }
}

#[inline(always)]
pub(super) fn clamp_log_variance(x: f32) -> f32 {
    x.clamp(-LOG_VARIANCE_LIMIT, LOG_VARIANCE_LIMIT)
}

/// Whether a log variance is within its bounds and therefore has a gradient.
#[inline(always)]
pub(super) fn inside(log_variance: f32) -> bool {
    log_variance.abs() < LOG_VARIANCE_LIMIT
}
