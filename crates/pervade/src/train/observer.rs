//! Training tells what happens as events; who listens prints, logs, draws a bar, or asks to stop.

use crate::record::{JointEpoch, PretrainEpoch, StateScores};

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The auto-encoder.
    Pretrain,
    /// k-means, EM, the graph and the grouping.
    Mixture,
    /// Joint training.
    Joint,
}

impl Stage {
    /// The stage in words.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Pretrain => "pretraining",
            Stage::Mixture => "starting the mixture",
            Stage::Joint => "joint training",
        }
    }
}

/// Something that happened. Restarts are counted from zero.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A stage begins; `epochs` of `steps` steps each (zero where there are none).
    StageStarted {
        /// Which restart.
        restart: usize,
        /// Which stage.
        stage: Stage,
        /// What part of the stage, in words.
        phase: &'a str,
        /// Epochs that will be trained.
        epochs: usize,
        /// Epochs already done, after a resume.
        done: usize,
        /// Steps of one epoch.
        steps: usize,
    },
    /// Steps were taken (a few times an epoch at the most).
    Steps {
        /// Steps done in this epoch.
        done: usize,
    },
    /// An epoch of pretraining ended.
    Pretrained(usize, &'a PretrainEpoch),
    /// An epoch of joint training ended.
    Trained(usize, &'a JointEpoch),
    /// A state was scored without labels.
    Scored(usize, &'a StateScores),
    /// A stage ended.
    StageEnded {
        /// Which restart.
        restart: usize,
        /// Which stage.
        stage: Stage,
    },
    /// Something a user should know.
    Remark(usize, &'a str),
    /// A checkpoint was written.
    Saved,
}

/// What the listener wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Go on.
    Continue,
    /// Write a checkpoint at the end of this epoch, if there is a place for it, and go on.
    Save,
    /// Write a checkpoint, if there is a place for it, and return [`crate::Error::Interrupted`].
    Stop,
}

/// A listener. The answer counts after an epoch and after [`Event::Steps`] (where only `Stop` does).
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: &Event<'_>) -> Control;
}

/// A listener that does nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: &Event<'_>) -> Control {
        Control::Continue
    }
}
