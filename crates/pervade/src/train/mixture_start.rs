//! Mixture start: k-means++ and EM on the latents of all rows, and the grouping of components.

use super::Control;
use super::latents::latents_with_interrupt;
use super::levels::{Candidate, best_mixture, compare};
use super::observer::{Event, Observer, Stage, interrupt_check};
use super::run::{Pack, Run, Save, apply_control, save_if_interrupted};
use super::scales::fit_posterior;
use super::score::{Nodes, build_graph, keep_best, score_states, start_modularity};
use crate::Result;
use crate::compute::Device;
use crate::config::CheckedSettings;
use crate::graph::Graph;
use crate::mixture::{DiagonalMixture, EmFit, EmOptions, fit_from, fit_scored};
use crate::seed::Stream;

/// The largest number of EM iterations, and the gain below which EM stops earlier.
const EM_ITERATIONS: usize = 150;
const EM_TOLERANCE: f64 = 1e-5;
/// Iterations over all rows of a long table, from a mixture of some of them.
const LAST_ITERATIONS: usize = 5;

/// Fits the mixture of every restart in the pack and scores the result. If it is interrupted, the state before it is
/// saved.
pub fn start_mixture<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
) -> Result<()> {
    let restart = pack.state.restarts.start;
    let phase = "fitting the mixture";
    observer.event(&Event::StageStarted {
        restart,
        stage: Stage::Mixture,
        phase,
        epochs: 0,
        done: 0,
        steps: 0,
    });
    let fitted = fit_mixtures(run, pack, observer);
    save_if_interrupted(fitted, pack, observer, save)?;
    pack.state.stage = Stage::Joint;
    observer.event(&Event::StageEnded { restart, stage: Stage::Mixture });
    // The mixture took a while to compute and is small: always worth a checkpoint.
    apply_control(Control::Save, pack, observer, save)
}

/// A mixture, with the modularity of its clusters on the graph of the latents and on that of the prepared rows.
struct Start {
    fit: EmFit,
    own: f64,
    judged: Option<f64>,
}

/// Mixtures whose modularities on the graph of the latents differ by less are equally good there.
const EQUAL_MODULARITY: f64 = 0.0015;

/// The mixture with the best clusters; `None` if there is none.
///
/// The most likely mixture need not have the best clusters; modularity on the graph of the same latents tells. (USPS, the worst
/// of ten restarts: ACC 87 by likelihood, 93 by modularity.) Between mixtures that are equal there, the graph of the
/// prepared rows decides: it does not share the mistakes of the latents (docs/paper.md).
fn best_start(mut starts: Vec<Start>) -> Option<EmFit> {
    let highest = starts.iter().map(|start| start.own).fold(f64::NEG_INFINITY, f64::max);
    starts.retain(|start| start.judged.is_none() || start.own > highest - EQUAL_MODULARITY);
    let score = |start: &Start| start.judged.unwrap_or(start.own);
    let best = starts.into_iter().reduce(|best, next| if score(&next) > score(&best) { next } else { best });
    best.map(|start| start.fit)
}

/// On a graph of fewer rows such differences are chance.
const MIN_JUDGE_ROWS: usize = 5_000;

/// The graph of the prepared rows with the latents of its nodes, if it is large enough to decide.
fn judge_nodes<D: Device>(run: &Run<'_, D>, latents: &[f32]) -> Option<(Graph, Vec<f32>)> {
    let judge = run.judge.as_ref().filter(|judge| judge.graph.rows.len() > MIN_JUDGE_ROWS)?;
    Some((judge.graph.of_nodes(), judge.graph.of_rows(latents, run.architecture.n_latents())))
}

/// Makes a mixture the prior of the restart in a slot.
fn write_mixture<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    slot: usize,
    mixture: &DiagonalMixture,
) -> Result<()> {
    let parameters = run.architecture.mixture;
    let base = slot * pack.params.stride;
    let single = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<f32>>();
    let log_variances: Vec<f64> = mixture.variances.iter().map(|v| v.ln()).collect();
    let parts = [
        (parameters.logits, single(&mixture.log_weights)),
        (parameters.means, single(&mixture.means)),
        (parameters.log_variances, single(&log_variances)),
    ];
    for (part, values) in parts {
        run.device.write(&mut pack.params.values, base + part.offset, &values)?;
    }
    Ok(())
}

fn em_options(settings: &CheckedSettings) -> EmOptions {
    EmOptions {
        components: settings.n_components,
        restarts: settings.settings.mixture_starts,
        max_iterations: EM_ITERATIONS,
        tolerance: EM_TOLERANCE,
        ..EmOptions::default()
    }
}

fn fit_mixtures<D: Device>(run: &Run<'_, D>, pack: &mut Pack<D>, observer: &mut dyn Observer) -> Result<()> {
    let stop = observer.stop_flag();
    let mut check_interrupt = interrupt_check(observer, Stage::Mixture, 0);
    let settings = run.settings;
    let j = run.architecture.n_latents();
    let mut latents = latents_with_interrupt(run, &pack.params, &mut check_interrupt)?;
    run.data.check_unchanged()?;
    let options = em_options(settings);
    let (mut graphs, mut all_levels) = (Vec::new(), Vec::new());
    let rng_ids: Vec<usize> = pack.state.rng_ids().collect();
    let keys = run.keys(Stream::Mixture, rng_ids.iter().copied());
    for (slot, (rng_id, key)) in rng_ids.into_iter().zip(keys).enumerate() {
        let graph = build_graph(run, &latents[slot], rng_id, &mut check_interrupt)?;
        let nodes = run.fits_nodes(&graph).then(|| (graph.of_nodes(), graph.of_rows(&latents[slot], j)));
        let own = match &nodes {
            Some((graph, latents)) => Nodes { graph, latents },
            None => Nodes { graph: &graph, latents: &latents[slot] },
        };
        let judge = judge_nodes(run, &latents[slot]);
        let judge = judge.as_ref().map(|(graph, latents)| Nodes { graph, latents });
        let is_grouped = settings.n_clusters != Some(settings.n_components);
        // If the number of clusters is not given, all mixtures are compared once they are fitted.
        let (mut candidates, mut starts) = (Vec::new(), Vec::new());
        let mut score = |fit: &EmFit| {
            if settings.n_clusters.is_none() {
                candidates.push(Candidate::new(fit, own.graph, own.latents, &stop)?);
            } else if is_grouped {
                let (own, judged) = start_modularity(settings, &own, judge.as_ref(), &fit.mixture, &stop)?;
                starts.push(Start { fit: fit.clone(), own, judged });
            }
            Ok(fit.log_likelihood)
        };
        let fit = fit_scored(
            run.device,
            run.ranks,
            own.latents,
            j,
            &options,
            key,
            &mut score,
            &mut check_interrupt,
        )?;
        let levels = compare(&candidates)?;
        let mut mixture = best_mixture(candidates, &levels).or(best_start(starts)).unwrap_or(fit).mixture;
        if nodes.is_some() {
            let few = EmOptions { max_iterations: LAST_ITERATIONS, ..options };
            mixture = fit_from(run.device, &latents[slot], mixture, &few)?.mixture;
        }
        all_levels.push(levels);
        graphs.push(graph);
        latents[slot] = Vec::new();
        write_mixture(run, pack, slot, &mixture)?;
    }
    drop(check_interrupt);
    fit_posterior(run, pack)?;
    pack.graphs = graphs;
    for (record, levels) in pack.state.records.iter_mut().zip(all_levels) {
        record.levels = levels;
        if !record.levels.is_empty() {
            observer.event(&Event::Levels(record.restart, &record.levels));
        }
    }
    let scored = score_states(run, pack, observer)?;
    keep_best(run, pack, scored, observer)
}
