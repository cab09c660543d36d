//! The mixture prior's part of the ELBO and its gradient.
//!
//! With l_m = log w_m - 1/2 sum_j [ln(2 pi s2_mj) + (v_j + (p_j - mu_mj)^2) / s2_mj] for a point p
//! with extra variance v: `Exact` uses (mu~, sigma~^2) for the whole term, log-sum-exp of l;
//! `Sampled` takes gamma = softmax of l at (z, 0) and weighs l at (mu~, sigma~^2) with it
//! (the paper's q(c|x) and detailed ELBO). Components are the contiguous index: tables are [J, C].

use rayon::prelude::*;

use super::latents::{clamp_log_variance, inside};
use super::shared::Shared;
use super::simd::{Isa, for_isa};
use super::team::TeamForEach;
use super::{Cpu, CpuSums, M};
use crate::math::{exp, ln};
use crate::{Gamma, MixtureSlots, Params, Prior, Result};

const LN_TAU: f32 = 1.837_877_1; // ln(2 pi)

/// Rows per task; the tasks' gradients of the mixture are added up in order.
pub(super) const CHUNK: usize = 25;

/// Lanes of a sum over components.
const LANES: usize = 8;

/// The mixture, transposed: log weights plus normalising constants [C], log weights [C], means and precisions
/// [J, C].
pub(super) struct Tables<'a> {
    constants: &'a [f32],
    log_weights: &'a [f32],
    means: &'a [f32],
    precisions: &'a [f32],
    pub(super) c: usize,
    pub(super) j: usize,
}

pub(super) fn tables_len(slots: MixtureSlots) -> usize {
    slots.n_components() * (2 + 2 * slots.n_latents())
}

/// Gradient of a task: logits [C], means [J, C], log variances [J, C]; then five rows [C] of scratch.
pub(super) fn task_len(slots: MixtureSlots) -> usize {
    slots.n_components() * (1 + 2 * slots.n_latents() + 5)
}

impl Prior for Cpu {
    fn prior_scratch(
        &self,
        restarts: usize,
        n_rows: usize,
        _n_samples: usize,
        slots: MixtureSlots,
    ) -> Result<Vec<f32>> {
        Ok(vec![0.0; restarts * (tables_len(slots) + n_rows.div_ceil(CHUNK) * task_len(slots))])
    }

    fn prior(
        &self,
        gamma: Gamma,
        params: &mut Params<Vec<f32>>,
        slots: MixtureSlots,
        head: &M,
        z: &M,
        scratch: &mut Vec<f32>,
        d_head: &mut M,
        dz: &mut M,
        sums: &mut CpuSums,
    ) -> Result<()> {
        let (b, j) = (sums.n_rows, slots.n_latents());
        let n_tasks = b.div_ceil(CHUNK);
        for restart in 0..params.restarts {
            let (table_scratch, task_scratch) = scratch.split_at_mut(tables_len(slots));
            let tables = tables(self.isa, &params.values[restart * params.stride..], slots, table_scratch);
            let tasks = &mut task_scratch[..n_tasks * task_len(slots)];
            tasks.fill(0.0);
            let rows = RestartRows {
                head: &head.data[restart * head.stride()..],
                z: &z.data[restart * z.stride()..(restart + 1) * z.stride()],
                d_head: Shared::new(&mut d_head.data[restart * head.stride()..(restart + 1) * head.stride()]),
                dz: Shared::new(&mut dz.data[restart * z.stride()..(restart + 1) * z.stride()]),
                b,
                samples: z.rows / b,
            };
            let per_row = sums.rows(b);
            tasks
                .par_chunks_mut(task_len(slots))
                .zip(per_row.par_chunks_mut(CHUNK))
                .enumerate()
                .team_for_each(|(task, (scratch, row_sums))| {
                    for (i, sums) in row_sums.iter_mut().enumerate() {
                        // SAFETY: each row belongs to one task.
                        unsafe { one_row(self.isa, gamma, &tables, &rows, task * CHUNK + i, scratch, sums) };
                    }
                });
            let total = &mut sums.totals[restart];
            for [latent, cluster, entropy] in &sums.per_row[..b] {
                total.latent += latent;
                total.cluster += cluster;
                total.entropy += entropy;
            }
            collect_gradients(params, restart, slots, &tables, tasks, false);
        }
        debug_assert_eq!(j, z.columns);
        Ok(())
    }

    fn log_joint(
        &self,
        gamma: Gamma,
        params: &Params<Vec<f32>>,
        slots: MixtureSlots,
        head: &M,
        out: &mut M,
    ) -> Result<()> {
        let (j, c) = (slots.n_latents(), slots.n_components());
        let mut scratch = vec![0.0; tables_len(slots)];
        let out_stride = out.stride();
        for (restart, out) in out.data.chunks_exact_mut(out_stride).enumerate() {
            let tables = tables(self.isa, &params.values[restart * params.stride..], slots, &mut scratch);
            let head = &head.data[restart * head.stride()..(restart + 1) * head.stride()];
            out.par_chunks_mut(c).zip(head.par_chunks(2 * j)).with_min_len(16).team_for_each(
                |(out, head)| {
                    let (means, log_variances) = head.split_at(j);
                    match gamma {
                        Gamma::Exact => {
                            expected_log_joint(self.isa, &tables, means, Some(log_variances), out);
                        }
                        Gamma::Sampled => expected_log_joint(self.isa, &tables, means, None, out),
                    }
                },
            );
        }
        Ok(())
    }
}

pub(super) fn tables<'a>(
    isa: Isa,
    values: &[f32],
    slots: MixtureSlots,
    scratch: &'a mut [f32],
) -> Tables<'a> {
    let (c, j) = (slots.n_components(), slots.n_latents());
    let (constants, rest) = scratch.split_at_mut(c);
    let (log_weights, rest) = rest.split_at_mut(c);
    let (means, rest) = rest.split_at_mut(c * j);
    let precisions = &mut rest[..c * j];
    fill_tables(isa, values, slots, constants, log_weights, means, precisions);
    Tables { constants, log_weights, means, precisions, c, j }
}

for_isa! {
    fn fill_tables(
        values: &[f32],
        slots: MixtureSlots,
        constants: &mut [f32],
        log_weights: &mut [f32],
        means: &mut [f32],
        precisions: &mut [f32],
    ) {
        let (c, j) = (slots.n_components(), slots.n_latents());
        let logits = &values[slots.logits.range()];
        let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f32 = logits.iter().map(|&l| exp(l - greatest)).sum();
        let log_total = greatest + ln(total);
        let (mean_rows, variance_rows) = (&values[slots.means.range()], &values[slots.log_variances.range()]);
        for m in 0..c {
            log_weights[m] = logits[m] - log_total;
            let mut constant = log_weights[m];
            for k in 0..j {
                let log_variance = clamp_log_variance(variance_rows[m * j + k]);
                constant -= 0.5 * (LN_TAU + log_variance);
                means[k * c + m] = mean_rows[m * j + k];
                precisions[k * c + m] = exp(-log_variance);
            }
            constants[m] = constant;
        }
    }
}

/// Adds up the tasks' gradients, and writes them in the layout of the parameters or adds them to what is there.
pub(super) fn collect_gradients(
    params: &mut Params<Vec<f32>>,
    restart: usize,
    slots: MixtureSlots,
    tables: &Tables,
    tasks: &mut [f32],
    add: bool,
) {
    let (c, j) = (tables.c, tables.j);
    let (first, others) = tasks.split_at_mut(task_len(slots));
    for other in others.chunks_exact(task_len(slots)) {
        first.iter_mut().zip(other).for_each(|(sum, &x)| *sum += x);
    }
    let base = restart * params.stride;
    let log_variances = &params.values[base..][slots.log_variances.range()];
    let gradients = &mut params.gradients[base..];
    let mut set = |index: usize, value: f32| {
        gradients[index] = if add { gradients[index] + value } else { value };
    };
    let total: f32 = first[..c].iter().sum();
    for m in 0..c {
        // Softmax: d logit_m = d log w_m - w_m times the sum of all d log w.
        set(slots.logits.offset + m, first[m] - exp(tables.log_weights[m]) * total);
        for k in 0..j {
            set(slots.means.offset + m * j + k, first[c + k * c + m]);
            let passes = inside(log_variances[m * j + k]);
            set(
                slots.log_variances.offset + m * j + k,
                if passes { first[c + c * j + k * c + m] } else { 0.0 },
            );
        }
    }
}

/// The rows of one restart.
struct RestartRows<'a> {
    head: &'a [f32],
    z: &'a [f32],
    d_head: Shared<'a>,
    dz: Shared<'a>,
    b: usize,
    samples: usize,
}

/// Terms and gradients of row `i`; the mixture's gradient is added to the start of `scratch`.
///
/// # Safety
/// No other task works on row `i` at the same time.
unsafe fn one_row(
    isa: Isa,
    gamma: Gamma,
    tables: &Tables,
    rows: &RestartRows,
    i: usize,
    scratch: &mut [f32],
    sums: &mut [f64; 3],
) {
    let (c, j) = (tables.c, tables.j);
    let (gradient, rest) = scratch.split_at_mut(c * (1 + 2 * j));
    let (log_joints, rest) = rest.split_at_mut(c);
    let (gammas, rest) = rest.split_at_mut(c);
    let (weights, rest) = rest.split_at_mut(c);
    let log_gammas = &mut rest[..c];
    let (means, log_variances) = rows.head[2 * j * i..2 * j * (i + 1)].split_at(j);
    // SAFETY: row i of the head's gradient belongs to this task, as the caller guarantees.
    let d_head = unsafe { rows.d_head.slice(2 * j * i, 2 * j) };
    d_head.fill(0.0);
    let scale = 1.0 / (rows.b * rows.samples) as f32;
    expected_log_joint(isa, tables, means, Some(log_variances), log_joints);
    *sums = [0.0; 3];
    for sample in 0..rows.samples {
        let index = sample * rows.b + i;
        // SAFETY: the samples of row i belong to this task, too.
        let dz = unsafe { rows.dz.slice(index * j, j) };
        dz.fill(0.0);
        match gamma {
            Gamma::Exact => softmax(isa, log_joints, gammas),
            Gamma::Sampled => {
                expected_log_joint(isa, tables, &rows.z[index * j..(index + 1) * j], None, weights);
                softmax(isa, weights, gammas);
            }
        }
        logarithms(isa, gammas, log_gammas);
        let [latent, cluster] = add_terms(tables, log_joints, gammas, log_gammas);
        sums[0] += latent / rows.samples as f64;
        sums[1] += cluster / rows.samples as f64;
        // d loss / d l = -gamma / (B L).
        weights.iter_mut().zip(&*gammas).for_each(|(w, &g)| *w = -scale * g);
        let (d_means, d_log_variances) = d_head.split_at_mut(j);
        backward(isa, tables, means, Some(log_variances), weights, gradient, d_means, Some(d_log_variances));
        if gamma == Gamma::Sampled {
            // Gradient through gamma: d/dt_m of sum gamma (l - log gamma) is gamma_m (u_m - mean of u).
            gamma_backward(log_joints, gammas, log_gammas, -scale, weights);
            backward(isa, tables, &rows.z[index * j..(index + 1) * j], None, weights, gradient, dz, None);
        }
    }
    for (k, &log_variance) in log_variances.iter().enumerate() {
        sums[2] += f64::from(0.5 * (1.0 + LN_TAU + clamp_log_variance(log_variance)));
        d_head[j + k] -= 0.5 / rows.b as f32;
        if !inside(log_variance) {
            d_head[j + k] = 0.0;
        }
    }
}

for_isa! {
    fn logarithms(values: &[f32], out: &mut [f32]) {
        out.iter_mut().zip(values).for_each(|(o, &x)| *o = ln(x));
    }
}

/// [sum of gamma E log p(z|c), sum of gamma log(pi / gamma)].
fn add_terms(tables: &Tables, log_joints: &[f32], gammas: &[f32], log_gammas: &[f32]) -> [f64; 2] {
    let mut terms = [0.0; 2];
    for m in 0..tables.c {
        let g = gammas[m];
        if g > f32::MIN_POSITIVE {
            terms[0] += f64::from(g * (log_joints[m] - tables.log_weights[m]));
            terms[1] += f64::from(g * (tables.log_weights[m] - log_gammas[m]));
        }
    }
    terms
}

fn gamma_backward(log_joints: &[f32], gammas: &[f32], log_gammas: &[f32], scale: f32, out: &mut [f32]) {
    let u = |m: usize| if gammas[m] > f32::MIN_POSITIVE { log_joints[m] - log_gammas[m] } else { 0.0 };
    let mean: f32 = (0..gammas.len()).map(|m| gammas[m] * u(m)).sum();
    for m in 0..gammas.len() {
        out[m] = scale * gammas[m] * (u(m) - mean);
    }
}

for_isa! {
    /// l_m at `point` with the extra variance e^`log_variances`, zero if `None`.
    pub(super) fn expected_log_joint(tables: &Tables, point: &[f32], log_variances: Option<&[f32]>, out: &mut [f32]) {
        let c = tables.c;
        out.copy_from_slice(tables.constants);
        for k in 0..tables.j {
            let (p, v) = (point[k], log_variances.map_or(0.0, |l| exp(clamp_log_variance(l[k]))));
            let means = &tables.means[k * c..(k + 1) * c];
            let precisions = &tables.precisions[k * c..(k + 1) * c];
            for ((l, &mean), &precision) in out.iter_mut().zip(means).zip(precisions) {
                let difference = p - mean;
                *l -= 0.5 * difference.mul_add(difference, v) * precision;
            }
        }
    }
}

for_isa! {
    /// Softmax, with the maximum subtracted first.
    pub(super) fn softmax(log_values: &[f32], out: &mut [f32]) {
        let greatest = log_values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut lanes = [0.0f32; LANES];
        for (l, o) in log_values.chunks(LANES).zip(out.chunks_mut(LANES)) {
            for ((sum, &l), o) in lanes.iter_mut().zip(l).zip(o) {
                *o = exp(l - greatest);
                *sum += *o;
            }
        }
        let inverse = 1.0 / lanes.iter().sum::<f32>();
        out.iter_mut().for_each(|o| *o *= inverse);
    }
}

for_isa! {
    /// The backward pass from d loss / d l_m = `weights`: adds to the gradients of the mixture, of the point and, if
    /// it has an extra variance, of its logarithm.
    pub(super) fn backward(
        tables: &Tables,
        point: &[f32],
        log_variances: Option<&[f32]>,
        weights: &[f32],
        gradient: &mut [f32],
        d_point: &mut [f32],
        d_log_variances: Option<&mut [f32]>,
    ) {
        let mut d_log_variances = d_log_variances;
        let (c, j) = (tables.c, tables.j);
        let (d_constants, rest) = gradient.split_at_mut(c);
        let (d_means, d_variances) = rest.split_at_mut(c * j);
        d_constants.iter_mut().zip(weights).for_each(|(d, &w)| *d += w);
        for k in 0..j {
            let (p, v) = (point[k], log_variances.map_or(0.0, |l| exp(clamp_log_variance(l[k]))));
            let means = tables.means[k * c..(k + 1) * c].chunks(LANES);
            let precisions = tables.precisions[k * c..(k + 1) * c].chunks(LANES);
            let d_means = d_means[k * c..(k + 1) * c].chunks_mut(LANES);
            let d_variances = d_variances[k * c..(k + 1) * c].chunks_mut(LANES);
            let (mut to_point, mut to_variance) = ([0.0f32; LANES], [0.0f32; LANES]);
            for ((((mean, precision), d_mean), d_variance), w) in
                means.zip(precisions).zip(d_means).zip(d_variances).zip(weights.chunks(LANES))
            {
                for lane in 0..mean.len() {
                    let difference = p - mean[lane];
                    let weighted = w[lane] * precision[lane];
                    let d_difference = weighted * difference;
                    d_mean[lane] += d_difference;
                    d_variance[lane] += 0.5 * (difference.mul_add(difference, v).mul_add(weighted, -w[lane]));
                    to_point[lane] -= d_difference;
                    to_variance[lane] -= weighted;
                }
            }
            d_point[k] += to_point.iter().sum::<f32>();
            if let Some(d) = &mut d_log_variances {
                d[k] += 0.5 * v * to_variance.iter().sum::<f32>();
            }
        }
    }
}
