//! What a run was asked, what happened and how it ended, as plain data.

use serde::{Deserialize, Serialize};

use crate::compute::{Likelihood, Terms};

/// One epoch of pretraining: the loss is minus the mean log likelihood, in nats per row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PretrainEpoch {
    /// `auto-encoder`, or `layer 1`, `layer 2`, ... of stacked pretraining.
    pub phase: String,
    /// Counted from one.
    pub epoch: usize,
    /// Mean over the epoch's rows.
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
    /// Its terms, nats per row.
    pub terms: Terms,
    /// The networks' learning rate.
    pub learning_rate: f64,
}

/// A state of the model that was looked at without labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateScores {
    /// Epochs of joint training before it; zero is the start.
    pub epoch: usize,
    /// Clusters.
    pub clusters: usize,
    /// Clusters with at least half a percent of the rows.
    pub live_clusters: usize,
    /// Communities that the graph of the latents has by itself.
    pub natural_clusters: usize,
    /// Modularity of the partition on the neighbour graph of the start's latents.
    pub modularity: f64,
    /// Entropy of the cluster sizes, in nats.
    pub occupancy_entropy: f64,
    /// Mean entropy of q(c|x), in nats.
    pub assignment_entropy: f64,
    /// Mean silhouette of a sample of rows in the latent space.
    pub silhouette: f64,
}

/// How one restart went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartRecord {
    /// Counted from zero.
    pub restart: usize,
    /// The start that it went on from, counted from zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: usize,
    /// Modularity of each of its starts when they were compared; empty where there was only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<f64>,
    /// Every epoch of pretraining.
    pub pretrain: Vec<PretrainEpoch>,
    /// Every epoch of joint training.
    pub joint: Vec<JointEpoch>,
    /// Every state that was scored, the start first.
    pub states: Vec<StateScores>,
    /// Which of `states` became the model.
    pub kept: usize,
    /// Things a user should know: a collapse, a state that was not kept.
    pub remarks: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl RestartRecord {
    /// What its random numbers go by: each start of each restart has its own.
    pub fn number(&self) -> usize {
        self.restart + (self.start << 16)
    }

    /// Scores of the state that was kept.
    pub fn kept_state(&self) -> Option<&StateScores> {
        self.states.get(self.kept)
    }

    /// The ELBO of the epoch that ended in the kept state; none where the start was kept, which comes before all epochs.
    pub fn kept_elbo(&self) -> Option<f64> {
        let kept = self.kept_state()?.epoch;
        self.joint.iter().find(|entry| entry.epoch == kept).map(|entry| entry.elbo)
    }

    /// The ELBO of the last epoch, if there was one. The state after it need not be the one that was kept.
    pub fn elbo(&self) -> Option<f64> {
        self.joint.last().map(|epoch| epoch.elbo)
    }
}

/// A restart that is done; its numbers travel beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finished {
    /// How it went.
    pub record: RestartRecord,
    /// Cluster of each component.
    pub groups: Vec<u32>,
    /// p(x|z) with its variance.
    pub likelihood: Likelihood,
}
