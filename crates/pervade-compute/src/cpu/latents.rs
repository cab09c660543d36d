//! Sampling of latents.

use rayon::prelude::*;

use super::simd::for_isa;
use super::team::TeamForEach;
use super::{Cpu, M};
use crate::math::{exp, normal_pair};
use crate::random::Key;
use crate::{Draw, LOG_VARIANCE_LIMIT, Latents, Result};

impl Latents for Cpu {
    // Sample l of row i is stored in row l B + i.
    fn sample_latents(&self, draw: Option<Draw<'_>>, n_rows: usize, head: &M, z: &mut M) -> Result<()> {
        let (b, j) = (n_rows, z.columns);
        let z_stride = z.stride();
        for (restart, z) in z.data.chunks_exact_mut(z_stride).enumerate() {
            let head = &head.data[restart * head.stride()..];
            z.par_chunks_exact_mut(j).with_min_len(16).enumerate().team_for_each(|(sample, z)| {
                let head = &head[sample % b * 2 * j..][..2 * j];
                match draw {
                    Some(draw) => sample_row(self.isa, draw.keys[restart], draw.step, sample, head, z),
                    None => z.copy_from_slice(&head[..j]),
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

for_isa! {
    /// z = mu + sigma eps for one row; `head`: means, then log variances.
    fn sample_row(key: Key, step: u64, sample: usize, head: &[f32], z: &mut [f32]) {
        let (means, log_variances) = head.split_at(z.len());
        for (quad, z) in z.chunks_mut(4).enumerate() {
            let [w0, w1, w2, w3] = key.draw(step, sample as u32, quad as u32);
            let noise = [normal_pair(w0, w1), normal_pair(w2, w3)].into_iter().flatten();
            let of_quad = means[4 * quad..].iter().zip(&log_variances[4 * quad..]);
            for ((z, eps), (&mean, &log_variance)) in z.iter_mut().zip(noise).zip(of_quad) {
                *z = exp(0.5 * clamp_log_variance(log_variance)).mul_add(eps, mean);
            }
        }
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
