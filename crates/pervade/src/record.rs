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
