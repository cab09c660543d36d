//! The record of a fit as plain data: its settings, its history and its result.

use serde::{Deserialize, Serialize};

use crate::compute::{Likelihood, Terms};

/// One epoch of pretraining; the loss is the mean negative log likelihood, in nats per row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PretrainEpoch {
    /// `auto-encoder`, or `layer 1`, `layer 2`, ... of stacked pretraining.
    pub phase: String,
    /// Counted from one.
    pub epoch: usize,
    /// Mean over the rows of the epoch.
    pub loss: f64,
}

/// One epoch of joint training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JointEpoch {
    /// Counted from one.
    pub epoch: usize,
    /// Nats per row, higher is better.
    pub elbo: f64,
    /// Terms of the ELBO, nats per row.
    pub terms: Terms,
    /// Learning rate of the networks.
    pub learning_rate: f64,
}

/// Label-free scores of one state of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateScores {
    /// Epochs of joint training before this state; zero is the mixture start.
    pub epoch: usize,
    /// Number of clusters.
    pub clusters: usize,
    /// Clusters with at least half a percent of the rows.
    pub live_clusters: usize,
    /// Natural communities of the neighbour graph.
    pub natural_clusters: usize,
    /// Modularity of the partition on the neighbour graph of the mixture start.
    pub modularity: f64,
    /// Entropy of the cluster sizes, in nats.
    pub occupancy_entropy: f64,
    /// Mean entropy of q(c|x), in nats.
    pub assignment_entropy: f64,
    /// Mean silhouette of a sample of rows in the latent space.
    pub silhouette: f64,
    /// Share of the rows in the cluster that they were voted into, if the model is trained towards a vote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voted: Option<f64>,
}

/// A number of clusters that `clusters = auto` compared with others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Number of clusters.
    pub clusters: usize,
    /// Mean pairwise ARI of the clusters that the mixtures of the mixture start give.
    pub stability: f64,
    /// Mean modularity of these clusters on the neighbour graph.
    pub modularity: f64,
    /// Whether the stability is a local maximum.
    pub stable: bool,
    /// Whether it became the number of clusters.
    pub picked: bool,
}

/// How the components of a mixture were merged into clusters, best pair first. It goes on below the number of clusters,
/// down to one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergeTree {
    /// Rows of each component. Those without neighbours in the graph are not merged: each joins the nearest one. `[C]`
    pub sizes: Vec<u64>,
    /// Modularity before the first merge.
    pub modularity: f64,
    /// The merges in order, fewer than C.
    pub merges: Vec<Merge>,
    /// The number of groups with the highest modularity.
    pub natural_clusters: usize,
    /// Whether the merges below that number are by Ward's criterion, as far fewer clusters were wanted.
    pub by_ward: bool,
}

/// Two groups of components that became one. A group has the index of its first component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// The two groups, the smaller index first, which the merged group keeps.
    pub groups: [usize; 2],
    /// Modularity after the merge.
    pub modularity: f64,
}

impl MergeTree {
    /// Whether it is a tree of `n_components` components.
    pub(crate) fn is_valid(&self, n_components: usize) -> bool {
        let mut is_left = vec![true; n_components];
        let mut is_next = |merge: &Merge| {
            let [a, b] = merge.groups;
            let holds = a < b && b < n_components && is_left[a] && is_left[b] && merge.modularity.is_finite();
            if holds {
                is_left[b] = false;
            }
            holds
        };
        let n_rows = self.sizes.iter().try_fold(0u64, |sum, &n| sum.checked_add(n));
        self.sizes.len() == n_components
            && n_rows.is_some()
            && self.modularity.is_finite()
            && (1..=self.merges.len() + 1).contains(&self.natural_clusters)
            && self.merges.iter().all(&mut is_next)
    }

    /// The number of groups before the first merge.
    pub fn n_leaves(&self) -> usize {
        self.merges.len() + 1
    }

    /// Modularity with `clusters` groups; `None` if there were never so many.
    pub fn modularity_with(&self, clusters: usize) -> Option<f64> {
        let n_merges = self.n_leaves().checked_sub(clusters)?;
        match n_merges {
            0 => Some(self.modularity),
            n => self.merges.get(n - 1).map(|merge| merge.modularity),
        }
    }

    /// The group of each component once `clusters` groups are left: the index of its first component. `[C]`
    pub fn cut(&self, clusters: usize) -> Vec<usize> {
        let mut leaders: Vec<usize> = (0..self.sizes.len()).collect();
        for Merge { groups: [a, b], .. } in &self.merges[..self.n_leaves().saturating_sub(clusters.max(1))] {
            leaders.iter_mut().filter(|leader| **leader == *b).for_each(|leader| *leader = *a);
        }
        leaders
    }

    /// The components that are in one of the merged groups, in increasing order.
    pub fn leaves(&self) -> Vec<usize> {
        let mut leaves: Vec<usize> = self.merges.iter().flat_map(|merge| merge.groups).collect();
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }

    /// How many components are in another cluster than the merges alone would have them in: clusters are improved after
    /// merging by moving components.
    pub fn n_moved(&self, clusters: &[u32]) -> usize {
        let n_clusters = clusters.iter().max().map_or(0, |&last| last as usize + 1);
        let leaders = self.cut(n_clusters);
        let n = leaders.len();
        let mut shared = vec![0usize; n_clusters * n];
        let leaves = self.leaves();
        leaves.iter().for_each(|&leaf| shared[clusters[leaf] as usize * n + leaders[leaf]] += 1);
        let most: usize =
            shared.chunks(n.max(1)).map(|counts| counts.iter().max().copied().unwrap_or(0)).sum();
        leaves.len() - most
    }
}

/// The history of one restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartRecord {
    /// Counted from zero.
    pub restart: usize,
    /// The trial that it continued from, counted from zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: usize,
    /// Modularity of each trial when they were compared; empty if there was only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<f64>,
    /// The numbers of clusters that `clusters = auto` compared, in increasing order; otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
    /// How the components of the kept state were merged into clusters; `None` if they were not, because each is a cluster or
    /// because the clusters are those of another method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merges: Option<MergeTree>,
    /// The restart that was trained further, if this is the consensus of all restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<usize>,
    /// Every epoch of pretraining.
    pub pretrain: Vec<PretrainEpoch>,
    /// Every epoch of joint training.
    pub joint: Vec<JointEpoch>,
    /// Every scored state, the mixture start first.
    pub states: Vec<StateScores>,
    /// Index into `states` of the state that became the model.
    pub kept: usize,
    /// Remarks for the user: a collapse, a state that was not kept.
    pub remarks: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl RestartRecord {
    /// The id of its random number stream: each trial of each restart has its own.
    pub fn rng_id(&self) -> usize {
        self.restart + (self.start << 16)
    }

    /// The level that became the number of clusters; `None` if that was given.
    pub fn picked_level(&self) -> Option<&Level> {
        self.levels.iter().find(|level| level.picked)
    }

    /// Scores of the state that was kept.
    pub fn kept_state(&self) -> Option<&StateScores> {
        self.states.get(self.kept)
    }

    /// The ELBO of the epoch that ended in the kept state; `None` if the mixture start was kept.
    pub fn kept_elbo(&self) -> Option<f64> {
        let kept = self.kept_state()?.epoch;
        self.joint.iter().find(|entry| entry.epoch == kept).map(|entry| entry.elbo)
    }

    /// The ELBO of the last epoch, if any. The state after it need not be the one that was kept.
    pub fn elbo(&self) -> Option<f64> {
        self.joint.last().map(|epoch| epoch.elbo)
    }
}

/// The record of a finished restart, without its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finished {
    /// Its history.
    pub record: RestartRecord,
    /// Cluster of each component.
    pub groups: Vec<u32>,
    /// p(x|z), with its variance.
    pub likelihood: Likelihood,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five components, of which the fourth has no neighbours.
    fn tree() -> MergeTree {
        let merge = |groups, modularity| Merge { groups, modularity };
        MergeTree {
            sizes: vec![4, 3, 2, 1, 5],
            modularity: 0.1,
            merges: vec![merge([1, 2], 0.4), merge([0, 4], 0.5), merge([0, 1], 0.0)],
            natural_clusters: 2,
            by_ward: false,
        }
    }

    #[test]
    fn cuts_of_a_tree() {
        let tree = tree();
        assert!(tree.is_valid(5));
        assert_eq!(tree.cut(4), [0, 1, 2, 3, 4]);
        assert_eq!(tree.cut(2), [0, 1, 1, 3, 0]);
        assert_eq!(tree.leaves(), [0, 1, 2, 4]);
        let modularity = [1, 2, 3, 4, 5].map(|k| tree.modularity_with(k));
        assert_eq!(modularity, [Some(0.0), Some(0.5), Some(0.4), Some(0.1), None]);
        assert_eq!(tree.n_moved(&[1, 0, 0, 1, 1]), 0);
        assert_eq!(tree.n_moved(&[1, 0, 1, 0, 1]), 1, "component 2 was moved");
    }

    #[test]
    fn what_is_no_tree() {
        let changed = |change: fn(&mut MergeTree)| {
            let mut tree = tree();
            change(&mut tree);
            tree.is_valid(5)
        };
        assert!(!tree().is_valid(4) && !tree().is_valid(6));
        assert!(!changed(|tree| tree.merges[0].groups = [2, 1]));
        assert!(!changed(|tree| tree.merges[0].groups = [1, 5]));
        assert!(!changed(|tree| tree.merges[1].groups = [2, 4]), "2 became part of 1");
        assert!(!changed(|tree| tree.merges[1].modularity = f64::NAN));
        assert!(!changed(|tree| tree.natural_clusters = 5));
        assert!(!changed(|tree| tree.natural_clusters = 0));
    }
}
