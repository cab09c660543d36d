//! Events of training, and the observers that receive them: to print, log, show progress, or stop.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};

use crate::record::{JointEpoch, Level, PretrainEpoch, StateScores};
use crate::{Error, Result};

/// A stage of a fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Pretraining of the auto-encoder.
    #[default]
    Pretrain,
    /// Mixture start: k-means, EM, the neighbour graph and the grouping of components.
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

/// An event of training. Restarts are counted from zero.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A stage begins: `epochs` epochs of `steps` steps each, both zero if the stage has none.
    StageStarted {
        /// Index of the restart.
        restart: usize,
        /// The stage.
        stage: Stage,
        /// Name of the part of the stage.
        phase: &'a str,
        /// Epochs in total.
        epochs: usize,
        /// Epochs already done, if training was resumed.
        done: usize,
        /// Steps per epoch.
        steps: usize,
    },
    /// One of several trials begins or is resumed.
    StartBegan {
        /// The first of the restarts that are trained in parallel.
        restart: usize,
        /// Index of the trial, counted from zero.
        start: usize,
    },
    /// The trial with which a restart continues was chosen.
    StartChosen {
        /// Index of the restart.
        restart: usize,
        /// Index of the trial, counted from zero.
        start: usize,
        /// Its modularity, the greatest of all trials.
        modularity: f64,
    },
    /// Training steps were done. Sent more than a hundred times per second: an observer that draws or calls into
    /// another language should skip most of these events.
    Steps {
        /// Steps done so far in this epoch.
        done: usize,
    },
    /// Work without steps is in progress; sent several times per second.
    Working,
    /// An epoch of pretraining ended.
    Pretrained(usize, &'a PretrainEpoch),
    /// An epoch of joint training ended.
    Trained(usize, &'a JointEpoch),
    /// Numbers of clusters were compared, as none was given; one is picked.
    Levels(usize, &'a [Level]),
    /// A state was scored without labels.
    Scored(usize, &'a StateScores),
    /// A stage ended.
    StageEnded {
        /// Index of the restart.
        restart: usize,
        /// The stage.
        stage: Stage,
    },
    /// A remark for the user.
    Remark(usize, &'a str),
    /// A checkpoint was written.
    Saved,
    /// A checkpoint could not be written; the previous one is untouched, and training continues.
    NotSaved(&'a Error),
}

impl Event<'_> {
    /// The event as JSON, for the command's log and for Python.
    pub fn to_json(&self) -> Value {
        match self {
            Event::StageStarted { restart, stage, phase, epochs, done, steps } => json!({
                "event": "stage-started", "restart": restart, "stage": stage, "phase": phase,
                "epochs": epochs, "done": done, "steps": steps
            }),
            Event::StartBegan { restart, start } => {
                json!({"event": "start-began", "restart": restart, "start": start})
            }
            Event::StartChosen { restart, start, modularity } => json!({
                "event": "start-chosen", "restart": restart, "start": start, "modularity": modularity
            }),
            Event::Steps { done } => json!({"event": "steps", "done": done}),
            Event::Working => json!({"event": "working"}),
            Event::Pretrained(restart, epoch) => json!({
                "event": "pretrained", "restart": restart, "phase": epoch.phase, "epoch": epoch.epoch,
                "loss": epoch.loss
            }),
            Event::Trained(restart, epoch) => json!({
                "event": "trained", "restart": restart, "epoch": epoch.epoch, "elbo": epoch.elbo,
                "terms": epoch.terms, "learning_rate": epoch.learning_rate
            }),
            Event::Levels(restart, levels) => {
                json!({"event": "levels", "restart": restart, "levels": levels})
            }
            Event::Scored(restart, scores) => {
                json!({"event": "scored", "restart": restart, "scores": scores})
            }
            Event::StageEnded { restart, stage } => {
                json!({"event": "stage-ended", "restart": restart, "stage": stage})
            }
            Event::Remark(restart, text) => json!({"event": "remark", "restart": restart, "text": text}),
            Event::Saved => json!({"event": "saved"}),
            Event::NotSaved(error) => json!({"event": "not-saved", "error": error.to_string()}),
        }
    }
}

/// An observer's answer to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Continue.
    Continue,
    /// Write a checkpoint at the end of this epoch, if there is a folder for it, and continue.
    Save,
    /// Write a checkpoint, if there is a folder for it, and return [`crate::Error::Interrupted`], even in the middle of
    /// an epoch or of a stage.
    Stop,
}

/// Receives the events of training and can stop it.
///
/// Its answer has an effect after an epoch and, if it is `Stop`, after [`Event::Steps`] and [`Event::Working`].
pub trait Observer {
    /// Called with each event.
    fn event(&mut self, event: &Event<'_>) -> Control;

    /// Called before a checkpoint is written, which may take a while; also if there is no folder for checkpoints and
    /// nothing is written.
    fn saving(&mut self) {}

    /// A flag that ends work on several threads, which cannot send events, early. Once it is set, the answer to the
    /// next event must be [`Control::Stop`].
    fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::default()
    }
}

/// An interrupt check for work without steps: it sends [`Event::Working`] and returns an error if the answer is `Stop`.
pub(crate) fn interrupt_check(
    observer: &mut dyn Observer,
    stage: Stage,
    epoch: usize,
) -> impl FnMut() -> Result<()> {
    move || match observer.event(&Event::Working) {
        Control::Stop => Err(Error::Interrupted { stage: stage.name(), epoch }),
        Control::Continue | Control::Save => Ok(()),
    }
}

/// An observer that does nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: &Event<'_>) -> Control {
        Control::Continue
    }
}
