//! One model for the vote of several restarts, or for the clusters of a plain mixture.
//!
//! The restart that agrees most with the others is trained further, with pairs of rows that the vote puts into the same
//! cluster instead of neighbours: the term of [`super::neighbours`] then is the log probability of the vote. The result
//! is a model like any other.

use super::callback::NoCallback;
use super::joint::train;
use super::latents::latents;
use super::observer::{Observer, Stage};
use super::run::{Pack, Run, Save, StartGrouping, State};
use super::scales::fit_posterior;
use super::score::{keep_best, score_states};
use crate::Result;
use crate::compute::{Device, NeighbourLists, Params};
use crate::graph::Graph;
use crate::metrics::Vote;
use crate::mixture::{EmOptions, fit};
use crate::record::{Finished, RestartRecord};
use crate::seed::{Key, Stream};

/// Rows that at least this share of the restarts agree on are partners for the others.
const CLEAR_SHARE: f32 = 2.0 / 3.0;

impl<D: Device> Pack<D> {
    /// The model of the vote's reference, before it is trained towards the vote; `graph` is that of the prepared rows. With
    /// `refits`, the vote's clusters are not those of the reference: its mixture is fitted anew, to each of them alone.
    pub fn for_vote(
        run: &Run<'_, D>,
        vote: &Vote,
        reference: &(Finished, Vec<f32>),
        graph: Graph,
        refits: bool,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let (Finished { record, groups, likelihood }, values) = reference;
        let (mut values, mut groups) = (values.clone(), groups.clone());
        if refits {
            groups = refit_mixture(run, vote, &mut values)?;
        }
        let n_clusters = groups.iter().max().map_or(0, |&last| last as usize + 1);
        let (restart, kept) = (run.settings.settings.restarts, record.kept_state());
        // The components of a plain method's clusters were never merged.
        let merges = record.merges.clone().filter(|_| !refits);
        let history = RestartRecord {
            restart,
            reference: Some(record.restart),
            levels: record.levels.clone(),
            pretrain: record.pretrain.clone(),
            ..RestartRecord::default()
        };
        let state = State {
            restarts: restart..restart + 1,
            stage: Stage::Joint,
            records: vec![history],
            likelihoods: vec![*likelihood],
            start_groupings: vec![StartGrouping {
                groups,
                n_clusters,
                natural_clusters: kept.map_or(0, |state| state.natural_clusters),
                by_ward: false,
                merges,
            }],
            ..State::default()
        };
        let mut params = Params::zeros(run.device, 1, run.architecture.layout.len())?;
        run.device.write(&mut params.values, 0, &values)?;
        let mut pack = Self {
            state,
            params,
            best_values: Vec::new(),
            graphs: vec![graph],
            vote: Some(vote.clone()),
            best_trial: None,
            sums: Vec::new(),
        };
        if refits {
            fit_posterior(run, &mut pack)?;
        }
        let scored = score_states(run, &mut pack, observer)?;
        keep_best(run, &mut pack, scored, observer)?;
        Ok(pack)
    }
}

/// Fits the components anew to the latents of each cluster of the vote, in numbers that follow the clusters' sizes; returns
/// the cluster of each.
fn refit_mixture<D: Device>(run: &Run<'_, D>, vote: &Vote, values: &mut [f32]) -> Result<Vec<u32>> {
    let (j, n) = (run.architecture.n_latents(), run.data.n_rows());
    let latents = latents(run, &Params::fixed(run.device, values)?)?.swap_remove(0);
    let sizes = component_counts(&vote.clusters, run.settings.n_components);
    let key = run.keys(Stream::Mixture, [run.settings.settings.restarts])[0];
    let slots = run.architecture.mixture;
    let (mut groups, mut first) = (Vec::new(), 0);
    for (cluster, &components) in sizes.iter().enumerate() {
        let rows: Vec<f32> = latents
            .chunks_exact(j)
            .zip(&vote.clusters)
            .filter(|(_, at)| **at as usize == cluster)
            .flat_map(|(z, _)| z)
            .copied()
            .collect();
        let log_share = (rows.len() as f64 / (j * n) as f64).ln();
        let options = EmOptions::default().with(|o| (o.components, o.restarts) = (components, REFITS));
        let fitted = fit(run.device, &rows, j, &options, key)?.mixture;
        let mut write = |offset: usize, each: usize, of: &mut dyn Iterator<Item = f64>| {
            let to = &mut values[offset + first * each..];
            to.iter_mut().zip(of).for_each(|(to, x)| *to = x as f32);
        };
        write(slots.logits.offset, 1, &mut fitted.log_weights.iter().map(|w| w + log_share));
        write(slots.means.offset, j, &mut fitted.means.iter().copied());
        write(slots.log_variances.offset, j, &mut fitted.variances.iter().map(|v| v.ln()));
        groups.extend(std::iter::repeat_n(cluster as u32, components));
        first += components;
    }
    Ok(groups)
}

/// Starts of EM for each cluster.
const REFITS: usize = 3;

/// How many of the components each cluster has: at least one, no more than its rows, otherwise by its size.
fn component_counts(clusters: &[u32], n_components: usize) -> Vec<usize> {
    let k = clusters.iter().max().map_or(0, |&last| last as usize + 1);
    let mut sizes = vec![0; k];
    clusters.iter().for_each(|&cluster| sizes[cluster as usize] += 1);
    let mut counts = vec![1; k];
    for _ in k..n_components {
        // The cluster with the most rows per component; ties go to the first.
        let ratio = |c: usize| if counts[c] < sizes[c] { sizes[c] as f64 / counts[c] as f64 } else { 0.0 };
        let most = (1..k).fold(0, |best, c| if ratio(c) > ratio(best) { c } else { best });
        counts[most] += 1;
    }
    counts
}

/// Trains the pack of a vote from its current state.
pub fn train_towards_vote<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
) -> Result<()> {
    train(run, pack, observer, save, &mut NoCallback)
}

/// Partners of each row: rows that most restarts put into the cluster that the row was voted into.
pub(super) fn partners(vote: &Vote, n_partners: usize, key: Key) -> NeighbourLists {
    let n_clusters = vote.clusters.iter().max().map_or(0, |&last| last as usize + 1);
    let members = |least: f32| {
        let mut members = vec![Vec::new(); n_clusters];
        for (row, (&cluster, &share)) in vote.clusters.iter().zip(&vote.agreement).enumerate() {
            if share >= least {
                members[cluster as usize].push(row as u32);
            }
        }
        members
    };
    let (clear, all) = (members(CLEAR_SHARE), members(0.0));
    let list = vote.clusters.iter().enumerate().flat_map(|(row, &cluster)| {
        let cluster = cluster as usize;
        let rows = if clear[cluster].is_empty() { &all[cluster] } else { &clear[cluster] };
        (0..n_partners).map(move |i| {
            let at = key.uniform(row as u64, i as u32, 0) * rows.len() as f64;
            rows[(at as usize).min(rows.len() - 1)]
        })
    });
    NeighbourLists { lists: vec![list.collect()], n_neighbours: n_partners }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::vote;
    use crate::seed::Stream;

    #[test]
    fn partners_are_clear_rows_of_the_same_cluster() {
        let clusterings: [Vec<u32>; 3] = [
            (0..90).map(|row| row / 30).collect(),
            (0..90).map(|row| (row / 30 + u32::from(row % 10 == 0)) % 3).collect(),
            (0..90).map(|row| (row / 30 + 2 * u32::from(row % 10 == 0)) % 3).collect(),
        ];
        let vote = vote(&clusterings).unwrap();
        let lists = partners(&vote, 4, Key::new(3, Stream::Neighbour, 0));
        assert_eq!(lists.lists[0].len(), 90 * 4);
        let mut seen = std::collections::BTreeSet::new();
        for (row, list) in lists.lists[0].chunks(4).enumerate() {
            for &partner in list {
                assert_eq!(vote.clusters[row], vote.clusters[partner as usize]);
                assert!(partner % 10 != 0, "three restarts disagree about row {partner}");
                seen.insert(partner);
            }
        }
        assert!(seen.len() > 60, "partners are drawn from all of them: {}", seen.len());
    }
}
