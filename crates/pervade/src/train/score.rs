//! The clusters of a state and their label-free scores.

use super::latents::for_each_block;
use super::observer::{Event, Observer, interrupt_check};
use super::run::{Best, Pack, Run, StartGrouping};
use crate::compute::Device;
use crate::config::{CheckedSettings, Choice, Keep};
use crate::graph::{
    Graph, GraphOptions, Grouping, Parts, Target, group_until, merge_history, modularity, refine_until,
};
use crate::infer::{argmax, cluster_probabilities};
use crate::interrupt::Interrupt;
use crate::metrics;
use crate::mixture::DiagonalMixture;
use crate::record::{Merge, MergeTree, StateScores};
use crate::seed::{Key, Stream};
use crate::{Error, Result};
use rayon::prelude::*;
use std::sync::atomic::AtomicBool;

/// Rows on which entropy and silhouette are measured.
const SAMPLE_ROWS: usize = 2_000;
/// The fewest rows that a thread processes at once.
const MIN_TASK_ROWS: usize = 64;

/// A scored state: the cluster of each component, and the scores.
pub(super) struct Scored {
    pub(super) groups: Vec<u32>,
    /// How the components were merged into these clusters, if they were.
    pub(super) merges: Option<MergeTree>,
    pub(super) scores: StateScores,
}

/// The results of a pass over all rows, for one restart.
struct EncodedRows {
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

/// Encodes all rows with every restart.
fn encode_rows<D: Device>(
    run: &Run<'_, D>,
    pack: &Pack<D>,
    check_interrupt: Interrupt<'_>,
) -> Result<Vec<EncodedRows>> {
    let (n, j, c) = (run.data.n_rows(), run.architecture.n_latents(), run.settings.n_components);
    let stride = sample_stride(n);
    let empty = || EncodedRows {
        latents: Vec::with_capacity(n * j),
        components: Vec::with_capacity(n),
        sample: Vec::new(),
    };
    let mut encoded: Vec<EncodedRows> = pack.state.restarts.clone().map(|_| empty()).collect();
    for_each_block(run, &pack.params, |pass| {
        let encoded = &mut encoded[pass.restart];
        encoded.latents.extend(pass.heads.chunks_exact(2 * j).flat_map(|head| &head[..j]));
        let joints = pass.log_joints.par_chunks_exact(c).with_min_len(MIN_TASK_ROWS);
        encoded.components.par_extend(joints.map(|joints| argmax(joints) as u32));
        let sampled = |&(i, _): &(usize, &[f32])| (pass.first + i).is_multiple_of(stride);
        let joints = pass.log_joints.chunks_exact(c).enumerate().filter(sampled);
        encoded.sample.extend(joints.flat_map(|(_, joints)| joints));
        check_interrupt()
    })?;
    Ok(encoded)
}

/// The neighbour graph of a restart's latents at the mixture start.
pub(super) fn build_graph<D: Device>(
    run: &Run<'_, D>,
    latents: &[f32],
    rng_id: usize,
    check_interrupt: Interrupt<'_>,
) -> Result<Graph> {
    let (j, settings) = (run.architecture.n_latents(), &run.settings.settings);
    let max_rows = run.graph_rows();
    let options = GraphOptions { neighbours: settings.neighbours, max_rows };
    let key = run.keys(Stream::Sample, [rng_id])[0];
    let mut graph = Graph::build_on_ranks(run.device, run.ranks, latents, j, &options, key, check_interrupt)?;
    if run.neighbours_of_others() {
        graph.search_others(latents, j, run.ranks, check_interrupt)?;
    }
    Ok(graph)
}

/// The nodes of a neighbour graph, with their latents.
pub(super) struct Nodes<'a> {
    pub(super) graph: &'a Graph,
    /// `[n, J]`
    pub(super) latents: &'a [f32],
}

/// Modularity of the clusters that the components of a mixture would be grouped into: on the graph of the latents and, if
/// `judge` is given, on the graph of the prepared rows.
pub(super) fn start_modularity(
    settings: &CheckedSettings,
    own: &Nodes<'_>,
    judge: Option<&Nodes<'_>>,
    mixture: &DiagonalMixture,
    stop: &AtomicBool,
) -> Result<(f64, Option<f64>)> {
    let components = mixture.assign(own.latents)?;
    let parts = Parts::count(own.graph, own.latents, mixture.n_latent, &components, &mixture.means)?;
    let groups = group_components(settings, settings.n_clusters, &parts, None, false, stop)?.groups;
    let judged = |judge: &Nodes<'_>| {
        let components = mixture.assign(judge.latents)?;
        let clusters: Vec<u32> = components.iter().map(|&part| groups[part as usize]).collect();
        modularity(judge.graph, &clusters)
    };
    Ok((parts.graph.modularity(&groups), judge.map(judged).transpose()?))
}

/// Groups the components of every restart, scores the partitions and sends the scores to the observer.
///
/// All states of a restart are grouped and scored on the graph of the latents at the mixture start. On the graph of its
/// own latents a state scores too well: joint training pulls rows to their components, right or wrong. (USPS after 40
/// epochs: ACC 93 if grouped on the graph of the mixture start, 90 on its own.)
pub(super) fn score_states<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    observer: &mut dyn Observer,
) -> Result<Vec<Scored>> {
    let keys = run.keys(Stream::Sample, pack.state.rng_ids());
    let j = run.architecture.n_latents();
    let mut check_interrupt = interrupt_check(observer, pack.state.stage, pack.state.epoch);
    let encoded = encode_rows(run, pack, &mut check_interrupt)?;
    drop(check_interrupt);
    let means: Vec<Vec<f64>> =
        (0..encoded.len()).map(|slot| component_means(run, pack, slot)).collect::<Result<_>>()?;
    let (state, graphs, settings) = (&pack.state, &pack.graphs, run.settings);
    let is_fixed = settings.neighbour_weight > 0.0 || pack.vote.is_some();
    let stop = observer.stop_flag();
    let scored = encoded.into_par_iter().enumerate().map(|(slot, encoded)| {
        let parts = Parts::count(&graphs[slot], &encoded.latents, j, &encoded.components, &means[slot])?;
        let known = state.start_groupings.get(slot);
        let picked = state.records[slot].picked_level().map(|level| level.clusters);
        let n_clusters = settings.n_clusters.or(picked);
        let Grouped { groups, mut start, made_by } =
            group_components(settings, n_clusters, &parts, known, is_fixed, &stop)?;
        let merges = match made_by {
            Some(grouping) => Some(merge_tree(&parts, &grouping, &stop)?),
            None => start.merges.clone(),
        };
        if known.is_none() {
            start.merges.clone_from(&merges);
        }
        let clusters: Vec<u32> = encoded.components.iter().map(|&part| groups[part as usize]).collect();
        let scores = StateScores {
            epoch: state.epoch,
            natural_clusters: start.natural_clusters,
            modularity: modularity(&graphs[slot], &clusters)?,
            voted: pack.vote.as_ref().map(|vote| agreement(&clusters, &vote.clusters)),
            ..sample_scores(settings, j, &encoded, &groups, &clusters, keys[slot])?
        };
        Ok((Scored { groups, merges, scores }, start))
    });
    let scored: Vec<(Scored, StartGrouping)> = scored.collect::<Result<_>>()?;
    let (scored, start_groupings): (Vec<Scored>, Vec<StartGrouping>) = scored.into_iter().unzip();
    pack.state.start_groupings = start_groupings;
    for (slot, scored) in scored.iter().enumerate() {
        observer.event(&Event::Scored(pack.state.restarts.start + slot, &scored.scores));
    }
    Ok(scored)
}

/// Means of the components, [C, J], of the restart in a slot.
fn component_means<D: Device>(run: &Run<'_, D>, pack: &Pack<D>, slot: usize) -> Result<Vec<f64>> {
    let parameter = run.architecture.mixture.means;
    let mut means = vec![0.0f32; parameter.range().len()];
    run.device.read(&pack.params.values, slot * pack.params.stride + parameter.offset, &mut means)?;
    Ok(means.into_iter().map(f64::from).collect())
}

/// The cluster of each component of a state, and the grouping at the mixture start.
struct Grouped {
    groups: Vec<u32>,
    start: StartGrouping,
    /// The grouping that made the clusters; `None` if they are those of the mixture start, or each component is one.
    made_by: Option<Grouping>,
}

/// The merges that led to a grouping, and those that could follow.
fn merge_tree(parts: &Parts, grouping: &Grouping, stop: &AtomicBool) -> Result<MergeTree> {
    let (modularity, merges) = merge_history(parts, grouping.by_ward, stop)?;
    let merge = |(groups, modularity)| Merge { groups, modularity };
    Ok(MergeTree {
        sizes: parts.sizes.iter().map(|&size| size as u64).collect(),
        modularity,
        merges: merges.into_iter().map(merge).collect(),
        natural_clusters: grouping.natural_number,
        by_ward: grouping.by_ward,
    })
}

/// A new grouping of the components; `None` if fewer components than clusters have rows.
fn regrouped(parts: &Parts, n_clusters: usize, stop: &AtomicBool) -> Result<Option<Grouping>> {
    match group_until(parts, Target::Fixed(n_clusters), stop) {
        Ok(grouping) => Ok(Some(refine_until(parts, grouping, stop)?)),
        Err(error @ Error::Interrupted { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Groups the components of a state, which is the mixture start if `start` is `None`; there, into as many clusters as
/// modularity prefers if their number is `None`. With `is_fixed`, later states keep its groups.
fn group_components(
    settings: &CheckedSettings,
    n_clusters: Option<usize>,
    parts: &Parts,
    start: Option<&StartGrouping>,
    is_fixed: bool,
    stop: &AtomicBool,
) -> Result<Grouped> {
    let identity = settings.n_clusters == Some(settings.n_components);
    if let Some(start) = start {
        // With far fewer clusters than natural communities, modularity is no guide: the groups of the mixture start
        // stay. They stay, too, if fewer components than clusters still have rows, and if pairs of rows were trained to
        // share a cluster.
        let is_fixed = start.by_ward || identity || is_fixed;
        let made_by = if is_fixed { None } else { regrouped(parts, start.n_clusters, stop)? };
        let groups = made_by.as_ref().map_or(&start.groups, |grouping| &grouping.groups).clone();
        return Ok(Grouped { groups, start: start.clone(), made_by });
    }
    let target = n_clusters.map_or(Target::Auto, Target::Fixed);
    let grouping = refine_until(parts, group_until(parts, target, stop)?, stop)?;
    let groups = if identity { (0..settings.n_components as u32).collect() } else { grouping.groups.clone() };
    let start = StartGrouping {
        groups: groups.clone(),
        n_clusters: grouping.n_groups,
        natural_clusters: grouping.natural_number,
        by_ward: grouping.by_ward,
        merges: None,
    };
    Ok(Grouped { groups, start, made_by: (!identity).then_some(grouping) })
}

/// The scores that do not need the graph.
fn sample_scores(
    settings: &CheckedSettings,
    j: usize,
    encoded: &EncodedRows,
    groups: &[u32],
    clusters: &[u32],
    key: Key,
) -> Result<StateScores> {
    let n_clusters = groups.iter().max().map_or(0, |&last| last as usize + 1);
    let sizes = metrics::occupancy(clusters, n_clusters)?;
    let probabilities: Vec<f32> = encoded
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
        voted: None,
        occupancy_entropy: metrics::occupancy_entropy(&sizes),
        assignment_entropy: metrics::mean_entropy(&probabilities, n_clusters)?,
        silhouette: metrics::silhouette(&encoded.latents, j, clusters, SAMPLE_ROWS, key)?.unwrap_or(0.0),
    })
}

/// Share of the rows whose clusters are equal.
fn agreement(clusters: &[u32], voted: &[u32]) -> f64 {
    clusters.iter().zip(voted).filter(|(a, b)| a == b).count() as f64 / clusters.len() as f64
}

/// Records the new state of each restart and keeps it if it is better than the best so far.
pub(super) fn keep_best<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    scored: Vec<Scored>,
    observer: &mut dyn Observer,
) -> Result<()> {
    let settings = &run.settings.settings;
    for (slot, Scored { groups, merges, scores }) in scored.into_iter().enumerate() {
        let record = &mut pack.state.records[slot];
        let has_collapsed = |state: &StateScores| state.live_clusters < state.clusters && state.epoch > 0;
        // Later states would only repeat it.
        let newly_collapsed = has_collapsed(&scores) && !record.states.iter().any(has_collapsed);
        let score = match settings.choose {
            // The mixture start has no ELBO, and every later state is better. Not minus infinity, which JSON, and so a
            // checkpoint, cannot represent.
            Choice::Elbo => record.elbo().unwrap_or(f64::MIN),
            // Training towards a vote is judged by the vote.
            Choice::Modularity | Choice::Consensus => scores.voted.unwrap_or(scores.modularity),
        };
        if newly_collapsed {
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
            pack.state.best.get(slot).is_none_or(|best| score > best.score || settings.keep == Keep::Last);
        if better {
            record.kept = state;
            record.merges = merges;
            let best = Best { state, score, groups };
            let values = pack.values_of(run.device, slot)?;
            if values.iter().any(|x| !x.is_finite()) {
                // The loss of an epoch does not show what its last step did; a model with such parameters could not be
                // read.
                let (stage, epoch) = (pack.state.stage.name(), pack.state.epoch);
                return Err(Error::Diverged { stage, epoch, loss: f64::NAN });
            }
            if slot < pack.state.best.len() {
                pack.state.best[slot] = best;
                pack.best_values[slot] = values;
            } else {
                pack.state.best.push(best);
                pack.best_values.push(values);
            }
        }
    }
    Ok(())
}
