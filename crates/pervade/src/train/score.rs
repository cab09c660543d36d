//! A look at a state without labels: its clusters, and how good they are.

use super::latents::for_each_block;
use super::observer::{Event, Observer, ask};
use super::run::{Best, Pack, Run, StartGroups};
use crate::compute::Device;
use crate::config::{CheckedSettings, Choice, Keep};
use crate::graph::{Graph, GraphOptions, Parts, Target, group_until, modularity, refine_until};
use crate::infer::{argmax, cluster_probabilities};
use crate::interrupt::Interrupt;
use crate::metrics;
use crate::record::StateScores;
use crate::seed::{Key, Stream};
use crate::{Error, Result};
use rayon::prelude::*;
use std::sync::atomic::AtomicBool;

/// Rows on which entropy and silhouette are measured.
const SAMPLE_ROWS: usize = 2_000;
/// Rows that a thread takes at once at the least.
const TASK_ROWS: usize = 64;

/// A state, scored: cluster of each component, and the scores.
pub(super) struct Scored {
    pub(super) groups: Vec<u32>,
    pub(super) scores: StateScores,
}

/// What a pass over the rows leaves of one restart.
struct Seen {
    /// Latent means, [N, J].
    latents: Vec<f32>,
    /// Most probable component of each row.
    components: Vec<u32>,
    /// Log joints of the sampled rows, [n, C].
    sample: Vec<f32>,
}

/// Every `stride`-th row is in the sample.
fn sample_stride(n_rows: usize) -> usize {
    n_rows.div_ceil(SAMPLE_ROWS).max(1)
}

/// Latents, components and sampled log joints of every restart.
fn look<D: Device>(run: &Run<'_, D>, pack: &Pack<D>, ask: Interrupt<'_>) -> Result<Vec<Seen>> {
    let (n, j, c) = (run.data.n_rows(), run.architecture.n_latents(), run.settings.n_components);
    let stride = sample_stride(n);
    let room =
        || Seen { latents: Vec::with_capacity(n * j), components: Vec::with_capacity(n), sample: Vec::new() };
    let mut seen: Vec<Seen> = pack.state.restarts.clone().map(|_| room()).collect();
    for_each_block(run, &pack.params, |pass| {
        let seen = &mut seen[pass.restart];
        seen.latents.extend(pass.heads.chunks_exact(2 * j).flat_map(|head| &head[..j]));
        let joints = pass.log_joints.par_chunks_exact(c).with_min_len(TASK_ROWS);
        seen.components.par_extend(joints.map(|joints| argmax(joints) as u32));
        let sampled = |&(i, _): &(usize, &[f32])| (pass.first + i).is_multiple_of(stride);
        let joints = pass.log_joints.chunks_exact(c).enumerate().filter(sampled);
        seen.sample.extend(joints.flat_map(|(_, joints)| joints));
        ask()
    })?;
    Ok(seen)
}

/// Groups the components of every restart and scores the partition; told to the observer.
///
/// All states of a restart are grouped and judged on the graph of the start's latents. The graph of
/// a state's own latents would flatter it: joint training pulls rows to their components, right or
/// wrong. (USPS after 40 epochs: ACC 93 when grouped on the start's graph, 90 on its own.)
pub(super) fn score_states<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    observer: &mut dyn Observer,
) -> Result<Vec<Scored>> {
    let keys = run.keys(Stream::Sample, pack.state.numbers());
    let (j, settings) = (run.architecture.n_latents(), &run.settings.settings);
    let mut go_on = ask(observer, pack.state.stage, pack.state.epoch);
    let looked = look(run, pack, &mut go_on)?;
    for place in pack.graphs.len()..looked.len() {
        let options = GraphOptions { neighbours: settings.neighbours, max_rows: settings.graph_rows };
        let (latents, key) = (&looked[place].latents, keys[place]);
        pack.graphs.push(Graph::build_with_interrupt(run.device, latents, j, &options, key, &mut go_on)?);
    }
    drop(go_on);
    let means: Vec<Vec<f64>> =
        (0..looked.len()).map(|place| component_means(run, pack, place)).collect::<Result<_>>()?;
    let (state, graphs, settings) = (&pack.state, &pack.graphs, run.settings);
    let stop = observer.stop_flag();
    let scored = looked.into_par_iter().enumerate().map(|(place, seen)| {
        let parts = Parts::count(&graphs[place], &seen.latents, j, &seen.components, &means[place])?;
        let start = state.starts.get(place);
        let Grouped { groups, start } = group_components(settings, &parts, start, &stop)?;
        let clusters: Vec<u32> = seen.components.iter().map(|&part| groups[part as usize]).collect();
        let scores = StateScores {
            epoch: state.epoch,
            natural_clusters: start.natural_clusters,
            modularity: modularity(&graphs[place], &clusters)?,
            ..sample_scores(settings, j, &seen, &groups, &clusters, keys[place])?
        };
        Ok((Scored { groups, scores }, start))
    });
    let scored: Vec<(Scored, StartGroups)> = scored.collect::<Result<_>>()?;
    let (scored, starts): (Vec<Scored>, Vec<StartGroups>) = scored.into_iter().unzip();
    pack.state.starts = starts;
    for (place, scored) in scored.iter().enumerate() {
        observer.event(&Event::Scored(pack.state.restarts.start + place, &scored.scores));
    }
    Ok(scored)
}

/// Means of a restart's components, [C, J].
fn component_means<D: Device>(run: &Run<'_, D>, pack: &Pack<D>, place: usize) -> Result<Vec<f64>> {
    let slot = run.architecture.mixture.means;
    let mut means = vec![0.0f32; slot.range().len()];
    run.device.read(&pack.params.values, place * pack.params.stride + slot.offset, &mut means)?;
    Ok(means.into_iter().map(f64::from).collect())
}

/// Cluster of each component of a state, and the start's grouping.
struct Grouped {
    groups: Vec<u32>,
    start: StartGroups,
}

/// Components grouped anew; none where fewer of them hold rows than there are clusters.
fn regrouped(parts: &Parts, n_clusters: usize, stop: &AtomicBool) -> Result<Option<Vec<u32>>> {
    match group_until(parts, Target::Fixed(n_clusters), stop) {
        Ok(grouping) => Ok(Some(refine_until(parts, grouping, stop)?.groups)),
        Err(error @ Error::Interrupted { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Groups the components of a state; without a start, this is it.
fn group_components(
    settings: &CheckedSettings,
    parts: &Parts,
    start: Option<&StartGroups>,
    stop: &AtomicBool,
) -> Result<Grouped> {
    let identity = settings.n_clusters == Some(settings.n_components);
    if let Some(start) = start {
        // Below the level that the graph knows, modularity is no guide: the start's groups stay. They
        // stay, too, when components died and fewer are left than there are clusters.
        let groups = if start.by_ward || identity { None } else { regrouped(parts, start.n_clusters, stop)? };
        let groups = groups.unwrap_or_else(|| start.groups.clone());
        return Ok(Grouped { groups, start: start.clone() });
    }
    let target = settings.n_clusters.map_or(Target::Auto, Target::Fixed);
    let grouping = refine_until(parts, group_until(parts, target, stop)?, stop)?;
    let groups = if identity { (0..settings.n_components as u32).collect() } else { grouping.groups };
    let start = StartGroups {
        groups: groups.clone(),
        n_clusters: grouping.n_groups,
        natural_clusters: grouping.natural_number,
        by_ward: grouping.by_ward,
    };
    Ok(Grouped { groups, start })
}

/// The scores that need no graph.
fn sample_scores(
    settings: &CheckedSettings,
    j: usize,
    seen: &Seen,
    groups: &[u32],
    clusters: &[u32],
    key: Key,
) -> Result<StateScores> {
    let n_clusters = groups.iter().max().map_or(0, |&last| last as usize + 1);
    let sizes = metrics::occupancy(clusters, n_clusters)?;
    let probabilities: Vec<f32> = seen
        .sample
        .chunks_exact(settings.n_components)
        .flat_map(|joints| cluster_probabilities(joints, groups, n_clusters))
        .collect();
    Ok(StateScores {
        epoch: 0,
        clusters: n_clusters,
        live_clusters: metrics::live_clusters(&sizes),
        natural_clusters: 0,
        modularity: 0.0,
        occupancy_entropy: metrics::occupancy_entropy(&sizes),
        assignment_entropy: metrics::mean_entropy(&probabilities, n_clusters)?,
        silhouette: metrics::silhouette(&seen.latents, j, clusters, SAMPLE_ROWS, key)?.unwrap_or(0.0),
    })
}

/// Records the states and keeps the better of each restart's best and newest.
pub(super) fn keep_best<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    scored: Vec<Scored>,
    observer: &mut dyn Observer,
) -> Result<()> {
    let settings = &run.settings.settings;
    for (place, Scored { groups, scores }) in scored.into_iter().enumerate() {
        let record = &mut pack.state.records[place];
        let collapsed = scores.live_clusters < scores.clusters && scores.epoch > 0;
        let score = match settings.choose {
            // The start has no ELBO, and everything beats it. Not minus infinity: a checkpoint is
            // JSON, which has no such number.
            Choice::Elbo => record.elbo().unwrap_or(f64::MIN),
            Choice::Modularity => scores.modularity,
        };
        if collapsed {
            let remark = format!(
                "after epoch {} only {} of {} clusters hold rows worth the name (half a percent or more)",
                scores.epoch, scores.live_clusters, scores.clusters
            );
            observer.event(&Event::Remark(record.restart, &remark));
            record.remarks.push(remark);
        }
        let state = record.states.len();
        record.states.push(scores);
        let better =
            pack.state.best.get(place).is_none_or(|best| score > best.score || settings.keep == Keep::Last);
        if better {
            record.kept = state;
            let best = Best { state, score, groups };
            let values = pack.values_of(run.device, place)?;
            if values.iter().any(|x| !x.is_finite()) {
                // The last step of an epoch can leave what its loss does not show yet; no model could be read with it.
                let (stage, epoch) = (pack.state.stage.name(), pack.state.epoch);
                return Err(Error::Diverged { stage, epoch, loss: f64::NAN });
            }
            if place < pack.state.best.len() {
                pack.state.best[place] = best;
                pack.best_values[place] = values;
            } else {
                pack.state.best.push(best);
                pack.best_values.push(values);
            }
        }
    }
    Ok(())
}
