//! The neighbour term and its gradient.
//!
//! With r_c(x) = p(c|mu~(x)) and q_k(x) the sum of r_c over the components c of cluster k, a pair x, x' has
//! s = sum_k q_k(x) q_k(x') and contributes lambda log(wrong + s). Its derivative for the log joint l_c(x) is
//! lambda r_c(x) (q_k(x') - s) / (wrong + s), with k the cluster of c; and likewise for x'.

use rayon::prelude::*;

use super::prior::{
    CHUNK, Tables, backward, collect_gradients, expected_log_joint, softmax, tables, tables_len, task_len,
};
use super::shared::Shared;
use super::simd::Isa;
use super::team::TeamForEach;
use super::{Cpu, CpuSums, M};
use crate::math::ln;
use crate::ops::WRONG_NEIGHBOURS;
use crate::{MixtureSlots, NeighbourAgreement, NeighbourTerm, Params, Result};

impl NeighbourAgreement for Cpu {
    fn neighbour_term(
        &self,
        term: NeighbourTerm<'_, Vec<f32>>,
        params: &mut Params<Vec<f32>>,
        slots: MixtureSlots,
        head: &M,
        scratch: &mut Vec<f32>,
        d_head: &mut M,
        sums: &mut CpuSums,
    ) -> Result<()> {
        let (b, c) = (sums.n_rows, slots.n_components());
        assert!(head.rows >= 2 * b, "a neighbour for each row");
        for restart in 0..params.restarts {
            let (table_scratch, task_scratch) = scratch.split_at_mut(tables_len(slots));
            let tables = tables(self.isa, &params.values[restart * params.stride..], slots, table_scratch);
            let tasks = &mut task_scratch[..b.div_ceil(CHUNK) * task_len(slots)];
            tasks.fill(0.0);
            let of_restart = restart * head.stride()..(restart + 1) * head.stride();
            let pairs = Pairs {
                head: &head.data[of_restart.clone()],
                d_head: Shared::new(&mut d_head.data[of_restart]),
                groups: &term.groups[restart * c..(restart + 1) * c],
                n_clusters: term.n_clusters,
                scale: term.weight / b as f32,
                b,
            };
            let per_row = sums.rows(b);
            tasks
                .par_chunks_mut(task_len(slots))
                .zip(per_row.par_chunks_mut(CHUNK))
                .enumerate()
                .team_for_each(|(task, (scratch, row_sums))| {
                    for (i, sums) in row_sums.iter_mut().enumerate() {
                        // SAFETY: each pair of rows belongs to one task.
                        sums[0] = unsafe { one_pair(self.isa, &tables, &pairs, task * CHUNK + i, scratch) };
                    }
                });
            let total: f64 = sums.per_row[..b].iter().map(|[log_agreement, ..]| log_agreement).sum();
            sums.totals[restart].neighbour += f64::from(term.weight) * total;
            collect_gradients(params, restart, slots, &tables, tasks, true);
        }
        Ok(())
    }
}

/// The rows of one restart and their neighbours.
struct Pairs<'a> {
    head: &'a [f32],
    d_head: Shared<'a>,
    groups: &'a [f32],
    n_clusters: usize,
    /// lambda / B.
    scale: f32,
    b: usize,
}

/// The log probability that rows `i` and B + `i` belong to the same cluster, and its gradients; the mixture's is added to
/// the start of `scratch`.
///
/// # Safety
/// No other task works on these rows at the same time.
unsafe fn one_pair(isa: Isa, tables: &Tables, pairs: &Pairs, i: usize, scratch: &mut [f32]) -> f64 {
    let (c, j) = (tables.c, tables.j);
    let (gradient, rows) = scratch.split_at_mut(c * (1 + 2 * j));
    let (responsibilities, rest) = rows.split_at_mut(2 * c);
    let (weights, clusters) = rest.split_at_mut(c);
    let clusters = &mut clusters[..2 * pairs.n_clusters];
    let row_of = |side: usize| side * pairs.b + i;
    let means_of = |side: usize| &pairs.head[2 * j * row_of(side)..][..j];
    clusters.fill(0.0);
    for side in 0..2 {
        let r = &mut responsibilities[side * c..(side + 1) * c];
        expected_log_joint(isa, tables, means_of(side), None, weights);
        softmax(isa, weights, r);
        let clusters = &mut clusters[side * pairs.n_clusters..][..pairs.n_clusters];
        r.iter().zip(pairs.groups).for_each(|(&r, &group)| clusters[group as usize] += r);
    }
    let (ours, theirs) = clusters.split_at(pairs.n_clusters);
    let agreement: f32 = ours.iter().zip(theirs).map(|(q, p)| q * p).sum();
    let likely = WRONG_NEIGHBOURS + agreement;
    for side in 0..2 {
        let r = &responsibilities[side * c..(side + 1) * c];
        let others = if side == 0 { theirs } else { ours };
        let factor = -pairs.scale / likely;
        for ((w, &r), &group) in weights.iter_mut().zip(r).zip(pairs.groups) {
            *w = factor * r * (others[group as usize] - agreement);
        }
        // SAFETY: this row of the head's gradient belongs to this task.
        let d_head = unsafe { pairs.d_head.slice(2 * j * row_of(side), 2 * j) };
        if side == 1 {
            d_head.fill(0.0);
        }
        backward(isa, tables, means_of(side), None, weights, gradient, &mut d_head[..j], None);
    }
    f64::from(ln(likely))
}
