//! Training tells what happens as events; who listens prints, logs, draws a bar, or asks to stop.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};

use crate::record::{JointEpoch, PretrainEpoch, StateScores};
use crate::{Error, Result};

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
#[non_exhaustive]
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
    /// One of several starts begins, or goes on after a resume.
    StartBegan {
        /// The first of the restarts that are trained side by side.
        restart: usize,
        /// Which of their starts, counted from zero.
        start: usize,
    },
    /// The start that a restart goes on from.
    StartChosen {
        /// Which restart.
        restart: usize,
        /// Which of its starts, counted from zero.
        start: usize,
        /// The modularity that it was chosen by.
        modularity: f64,
    },
    /// A step was taken. This comes a hundred times a second and more: a listener that draws or
    /// calls another language does so now and then.
    Steps {
        /// Steps done in this epoch.
        done: usize,
    },
    /// Something that has no steps is under way; sent several times a second.
    Working,
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
    /// A checkpoint could not be written; the one before it is untouched, and training goes on.
    NotSaved(&'a Error),
}

impl Event<'_> {
    /// The event as plain data: a line of the command's log, a dictionary of Python.
    pub fn described(&self) -> Value {
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

/// What the listener wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Go on.
    Continue,
    /// Write a checkpoint at the end of this epoch, if there is a place for it, and go on.
    Save,
    /// Write a checkpoint, if there is a place for it, and return [`crate::Error::Interrupted`]; in the middle of an
    /// epoch or of a stage, too.
    Stop,
}

/// A listener. The answer counts after an epoch, and after [`Event::Steps`] and [`Event::Working`],
/// where only `Stop` does.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: &Event<'_>) -> Control;

    /// A checkpoint is about to be written, which may take a while. Without a folder for checkpoints this is all that
    /// happens.
    fn saving(&mut self) {}

    /// A flag that work on several threads looks at, because it cannot send events: once it is set, that work ends
    /// early. The answer to the next event must then be [`Control::Stop`].
    fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::default()
    }
}

/// Asks the listener in the middle of work that has no steps; an error is its wish to stop.
pub(crate) fn ask(observer: &mut dyn Observer, stage: Stage, epoch: usize) -> impl FnMut() -> Result<()> {
    move || match observer.event(&Event::Working) {
        Control::Stop => Err(Error::Interrupted { stage: stage.name(), epoch }),
        Control::Continue | Control::Save => Ok(()),
    }
}

/// A listener that does nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: &Event<'_>) -> Control {
        Control::Continue
    }
}
