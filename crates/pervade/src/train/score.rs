//! A look at a state without labels: its clusters, and how good they are.

use super::observer::{Event, Observer, ask};
use super::pass::for_each_block;
use super::run::{Best, Pack, Run, StartGroups};
use crate::Result;
use crate::compute::Device;
use crate::config::{Choice, Keep};
use crate::graph::{Graph, GraphOptions, Parts, Target, group, modularity, refine};
use crate::metrics;
use crate::parallel::Ask;
use crate::record::StateScores;
use crate::seed::{Key, Stream};

/// Rows on which entropy and silhouette are measured.
const SAMPLE_ROWS: usize = 2_000;

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
fn look<D: Device>(run: &Run<'_, D>, pack: &Pack<D>, ask: Ask<'_>) -> Result<Vec<Seen>> {
    let (n, j, c) = (run.data.n_rows(), run.architecture.n_latents(), run.settings.n_components);
    let stride = sample_stride(n);
    let room =
        || Seen { latents: Vec::with_capacity(n * j), components: Vec::with_capacity(n), sample: Vec::new() };
    let mut seen: Vec<Seen> = pack.state.restarts.clone().map(|_| room()).collect();
    for_each_block(run, &pack.params, |pass| {
        let seen = &mut seen[pass.place];
        for (i, (head, joints)) in
            pass.heads.chunks_exact(2 * j).zip(pass.log_joints.chunks_exact(c)).enumerate()
        {
            seen.latents.extend_from_slice(&head[..j]);
            seen.components.push(argmax(joints) as u32);
            if (pass.first + i) % stride == 0 {
                seen.sample.extend_from_slice(joints);
            }
        }
        ask()
    })?;
    Ok(seen)
}

/// The place of the greatest, the first of equals.
pub(crate) fn argmax(values: &[f32]) -> usize {
    (1..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best })
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
    let keys = run.keys(Stream::Sample, &pack.state.restarts);
    let mut scored = Vec::new();
    let (stage, epoch) = (pack.state.stage, pack.state.epoch);
    let all_seen = look(run, pack, &mut ask(observer, stage, epoch))?;
    for (place, seen) in all_seen.into_iter().enumerate() {
        let (j, settings) = (run.architecture.n_latents(), &run.settings.settings);
        if pack.graphs.len() == place {
            let options = GraphOptions { neighbours: settings.neighbours, max_rows: settings.graph_rows };
            let mut go_on = ask(observer, stage, epoch);
            pack.graphs.push(Graph::build_asking(&seen.latents, j, &options, keys[place], &mut go_on)?);
        }
        let groups = group_components(run, pack, place, &seen)?;
        let clusters: Vec<u32> = seen.components.iter().map(|&part| groups[part as usize]).collect();
        let scores = StateScores {
            epoch: pack.state.epoch,
            natural_clusters: pack.state.starts[place].natural_clusters,
            modularity: modularity(&pack.graphs[place], &clusters)?,
            ..sample_scores(run, &seen, &groups, &clusters, keys[place])?
        };
        observer.event(&Event::Scored(pack.state.restarts.start + place, &scores));
        scored.push(Scored { groups, scores });
    }
    Ok(scored)
}

/// Cluster of each component of a state; the start's grouping is remembered.
fn group_components<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    place: usize,
    seen: &Seen,
) -> Result<Vec<u32>> {
    let (j, c) = (run.architecture.n_latents(), run.settings.n_components);
    let values = pack.values_of(run.device, place)?;
    let means: Vec<f64> =
        values[run.architecture.mixture.means.range()].iter().map(|&x| f64::from(x)).collect();
    let parts = Parts::count(&pack.graphs[place], &seen.latents, j, &seen.components, &means)?;
    let identity = run.settings.n_clusters == Some(c);
    if let Some(start) = pack.state.starts.get(place) {
        // Below the level that the graph knows, modularity is no guide: the start's groups stay. They
        // stay, too, when components died and fewer are left than there are clusters.
        if start.by_ward || identity {
            return Ok(start.groups.clone());
        }
        let regrouped =
            group(&parts, Target::Fixed(start.n_clusters)).map(|grouping| refine(&parts, grouping));
        return Ok(regrouped.map_or_else(|_| start.groups.clone(), |grouping| grouping.groups));
    }
    let target = run.settings.n_clusters.map_or(Target::Auto, Target::Fixed);
    let grouping = refine(&parts, group(&parts, target)?);
    let groups = if identity { (0..c as u32).collect() } else { grouping.groups };
    pack.state.starts.push(StartGroups {
        groups: groups.clone(),
        n_clusters: grouping.n_groups,
        natural_clusters: grouping.natural_number,
        by_ward: grouping.by_ward,
    });
    Ok(groups)
}

/// The scores that need no graph.
fn sample_scores<D: Device>(
    run: &Run<'_, D>,
    seen: &Seen,
    groups: &[u32],
    clusters: &[u32],
    key: Key,
) -> Result<StateScores> {
    let (j, c) = (run.architecture.n_latents(), run.settings.n_components);
    let n_clusters = groups.iter().max().map_or(0, |&last| last as usize + 1);
    let sizes = metrics::occupancy(clusters, n_clusters)?;
    let probabilities: Vec<f32> = seen
        .sample
        .chunks_exact(c)
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

/// q(c|x) of each cluster: the softmax of the log joints, summed over each cluster's components.
pub(crate) fn cluster_probabilities(log_joints: &[f32], groups: &[u32], n_clusters: usize) -> Vec<f32> {
    // A row of 1e20 is beyond the squares that single precision holds; its joints are minus infinity
    // or no number at all, and equal for all components: nothing is known about it.
    let finite = |log_joint: f32| log_joint.max(f32::MIN);
    let greatest = log_joints.iter().copied().fold(f32::MIN, f32::max);
    let mut sums = vec![0.0f64; n_clusters];
    for (&log_joint, &group) in log_joints.iter().zip(groups) {
        sums[group as usize] += f64::from(crate::compute::cpu::math::exp(finite(log_joint) - greatest));
    }
    let total: f64 = sums.iter().sum();
    sums.iter().map(|&sum| (sum / total) as f32).collect()
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
