//! The terms of the ELBO for a Gaussian-mixture posterior (Nalisnick, Hertel and Smyth, 2016): the expected log prior
//! of each component, weighted by its share, and the entropy of the mixture from one sample per component.
//!
//! With N_k the density of component k at its sample z_k, the entropy is estimated by -ln sum of w_k N_k; z_k moves
//! with its component, so that ln N_k depends only on the log variances.

use super::latents::{clamp_log_variance, inside};
use super::likelihood::{LN_TAU, log_likelihoods};
use super::{Cpu, CpuSums, M};
use crate::math::{exp, ln};
use crate::{Likelihood, MixturePosterior, PosteriorMixture, Result};

// Single-threaded: negligible compared with the networks' products.
impl MixturePosterior for Cpu {
    fn weighted_likelihood(
        &self,
        families: &[Likelihood],
        x: &M,
        shares: &M,
        output: &mut M,
        d_shares: &mut M,
        sums: &mut CpuSums,
    ) -> Result<()> {
        let (b, n_samples, samples) = (x.rows, output.rows, shares.columns);
        let index_of = |sample_index: usize| {
            let (restart, sample, i) =
                (sample_index / n_samples, sample_index % n_samples / b, sample_index % n_samples % b);
            (restart * b + i) * samples + sample
        };
        log_likelihoods(
            self.isa,
            families,
            x,
            |sample_index| shares.data[index_of(sample_index)] / b as f32,
            output,
            sums,
        );
        for sample_index in 0..output.restarts * n_samples {
            let (at, log_likelihood) = (index_of(sample_index), sums.per_row[sample_index][0]);
            sums.totals[sample_index / n_samples].reconstruction +=
                f64::from(shares.data[at]) * log_likelihood;
            d_shares.data[at] -= (log_likelihood / b as f64) as f32;
        }
        Ok(())
    }

    fn posterior_mixture(
        &self,
        max_mean: f32,
        posterior: PosteriorMixture<'_, Vec<f32>>,
        d_head: &mut M,
        d_shares: &mut M,
        d_drawn: &mut M,
        sums: &mut CpuSums,
    ) -> Result<()> {
        let PosteriorMixture { head, z, shares, drawn } = posterior;
        let (b, k, j) = (shares.rows, shares.columns, z.columns);
        let scale = 1.0 / b as f32;
        for index in 0..shares.restarts * b {
            let (restart, row) = (index / b, index % b);
            let component = |m: usize| (restart * k + m) * b + row;
            let mut latent = 0.0;
            for m in 0..k {
                let at = component(m);
                let (head, z) = (&head.data[at * 2 * j..(at + 1) * 2 * j], &z.data[at * j..(at + 1) * j]);
                let (energy, log_density) = energy_and_log_density(head, z, prior_mean(max_mean, m, k));
                let (share, weight) = (shares.data[index * k + m], drawn.data[index * k + m]);
                latent += f64::from(share * energy);
                d_shares.data[index * k + m] = -scale * energy;
                let log_weight = if weight >= f32::MIN_POSITIVE { ln(weight) } else { f32::NEG_INFINITY };
                d_drawn.data[index * k + m] = log_weight + log_density;
            }
            let joints = &mut d_drawn.data[index * k..(index + 1) * k];
            let largest = joints.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let total: f32 = joints.iter().map(|&joint| exp(joint - largest)).sum();
            sums.totals[restart].latent += latent;
            sums.totals[restart].entropy -= f64::from(largest + ln(total));
            for m in 0..k {
                let at = component(m);
                let (responsibility, weight) = (exp(joints[m] - largest) / total, drawn.data[index * k + m]);
                joints[m] = if responsibility > 0.0 { scale * responsibility / weight } else { 0.0 };
                let (means, log_variances) = head.data[at * 2 * j..(at + 1) * 2 * j].split_at(j);
                let d_head = &mut d_head.data[at * 2 * j..(at + 1) * 2 * j];
                let share = shares.data[index * k + m];
                for c in 0..j {
                    let variance = exp(clamp_log_variance(log_variances[c]));
                    let slope = 0.5 * scale * (share * variance - responsibility);
                    d_head[c] = scale * share * (means[c] - prior_mean(max_mean, m, k));
                    d_head[j + c] = if inside(log_variances[c]) { slope } else { 0.0 };
                }
            }
        }
        Ok(())
    }
}

/// The value of component `m`'s prior mean in every column: evenly spaced from -max_mean to max_mean.
fn prior_mean(max_mean: f32, m: usize, k: usize) -> f32 {
    if k > 1 { max_mean * (2.0 * m as f32 / (k - 1) as f32 - 1.0) } else { 0.0 }
}

/// E ln N(z; mean, 1) under the component, and ln of the component's density at `z`.
fn energy_and_log_density(head: &[f32], z: &[f32], mean: f32) -> (f32, f32) {
    let (means, log_variances) = head.split_at(z.len());
    let (mut energy, mut log_density) = (0.0, 0.0);
    for c in 0..z.len() {
        let l = clamp_log_variance(log_variances[c]);
        let (far, off) = (means[c] - mean, z[c] - means[c]);
        energy -= 0.5 * (LN_TAU + far.mul_add(far, exp(l)));
        log_density -= 0.5 * (LN_TAU + l + off * off * exp(-l));
    }
    (energy, log_density)
}
