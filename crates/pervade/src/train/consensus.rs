//! One model for the vote of several restarts.
//!
//! The restart that agrees most with the others is trained further, with pairs of rows that the vote puts into the same
//! cluster instead of neighbours: the term of [`super::neighbours`] then is the log probability of the vote. The result
//! is a model like any other.

use super::callback::NoCallback;
use super::joint::train;
use super::observer::{Observer, Stage};
use super::run::{Pack, Run, Save, StartGrouping, State};
use super::score::{keep_best, score_states};
use crate::Result;
use crate::compute::{Device, NeighbourLists, Params};
use crate::graph::Graph;
use crate::metrics::Vote;
use crate::record::{Finished, RestartRecord};
use crate::seed::Key;

/// Rows that at least this share of the restarts agree on are partners for the others.
const CLEAR_SHARE: f32 = 2.0 / 3.0;

impl<D: Device> Pack<D> {
    /// The model of the vote's reference, before it is trained towards the vote; `graph` is that of the prepared rows.
    pub fn for_vote(
        run: &Run<'_, D>,
        vote: &Vote,
        reference: &(Finished, Vec<f32>),
        graph: Graph,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let (Finished { record, groups, likelihood }, values) = reference;
        let (restart, kept) = (run.settings.settings.restarts, record.kept_state());
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
                groups: groups.clone(),
                n_clusters: kept.map_or(0, |state| state.clusters),
                natural_clusters: kept.map_or(0, |state| state.natural_clusters),
                by_ward: false,
            }],
            ..State::default()
        };
        let mut params = Params::zeros(run.device, 1, run.architecture.layout.len())?;
        run.device.write(&mut params.values, 0, values)?;
        let mut pack = Self {
            state,
            params,
            best_values: Vec::new(),
            graphs: vec![graph],
            vote: Some(vote.clone()),
            best_trial: None,
            sums: Vec::new(),
        };
        let scored = score_states(run, &mut pack, observer)?;
        keep_best(run, &mut pack, scored, observer)?;
        Ok(pack)
    }
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
