//! What stays the same during a run, and what changes from epoch to epoch.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::observer::{Control, Event, Observer, Stage};
use crate::compute::{Device, Likelihood, Params};
use crate::config::CheckedSettings;
use crate::data::Dataset;
use crate::nn::Architecture;
use crate::record::{RestartRecord, is_zero};
use crate::seed::{Key, Stream};
use crate::{Error, Result};

/// What stays the same: device, data, settings, networks.
pub struct Run<'a, D: Device> {
    /// Where the arithmetic happens.
    pub device: &'a D,
    /// The rows.
    pub data: &'a Dataset<'a>,
    /// The rows on the device.
    pub rows: D::Rows<'a>,
    /// The settings.
    pub settings: &'a CheckedSettings,
    /// The networks.
    pub architecture: Architecture,
    /// p(x|z).
    pub likelihood: Likelihood,
}

impl<'a, D: Device> Run<'a, D> {
    /// A run over `data`.
    pub fn new(device: &'a D, data: &'a Dataset<'a>, settings: &'a CheckedSettings) -> Result<Self> {
        Ok(Self {
            device,
            data,
            rows: device.rows(data.view(&settings.preparation))?,
            settings,
            architecture: settings.architecture(data),
            likelihood: settings.likelihood,
        })
    }

    /// One key for each of these [numbers](RestartRecord::rng_id); that of a first start is its restart.
    pub fn keys(&self, stream: Stream, numbers: impl IntoIterator<Item = usize>) -> Vec<Key> {
        numbers.into_iter().map(|number| Key::new(self.settings.settings.seed, stream, number)).collect()
    }
}

/// Where a pack of restarts stands, apart from the numbers on the device: what a checkpoint keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Which restarts are trained side by side.
    pub restarts: Range<usize>,
    /// The start that they are in, or how many there were once each restart has its best.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: usize,
    /// The stage they are in.
    pub stage: Stage,
    /// Phases of the stage that are done (layers of stacked pretraining).
    pub phase: usize,
    /// Epochs of the phase that are done.
    pub epoch: usize,
    /// Steps of the next epoch that are done, after a stop in the middle of it; its sums are in [`Pack::sums`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step: usize,
    /// Whether the last epoch's state was still being scored when the run was stopped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unscored: bool,
    /// How each restart went so far.
    pub records: Vec<RestartRecord>,
    /// p(x|z) of each restart, its variance estimated; empty before pretraining ends.
    pub likelihoods: Vec<Likelihood>,
    /// How the start's components were grouped, a restart; empty before the mixture starts.
    pub starts: Vec<StartGroups>,
    /// The best state of each restart so far: index into its record's states, and groups.
    pub best: Vec<Best>,
}

impl State {
    /// What the random numbers of each restart go by.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + Clone {
        self.records.iter().map(RestartRecord::rng_id)
    }
}

/// The start's grouping, which later states go by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartGroups {
    /// Cluster of each component.
    pub groups: Vec<u32>,
    /// Clusters.
    pub n_clusters: usize,
    /// Communities that the graph has by itself.
    pub natural_clusters: usize,
    /// Whether the grouping went by Ward's criterion: the graph then does not know this level.
    pub by_ward: bool,
}

/// The state that would become the model if training ended now; its numbers are in [`Pack::best_values`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// Index into the record's states.
    pub state: usize,
    /// The label-free score.
    pub score: f64,
    /// Cluster of each component.
    pub groups: Vec<u32>,
}

/// Restarts that are trained side by side.
pub struct Pack<D: Device> {
    /// Where they stand.
    pub state: State,
    /// Their numbers.
    pub params: Params<D::Buffer>,
    /// The numbers of the best state of each restart, on the host.
    pub best_values: Vec<Vec<f32>>,
    /// The neighbour graph of each restart's latents at the start: components are grouped and states
    /// compared on it.
    pub graphs: Vec<crate::graph::Graph>,
    /// While several starts are tried: the best of each restart so far.
    pub best_start: Option<Box<Pack<D>>>,
    /// Sums of the ELBO terms over the steps of an epoch that was stopped in its middle; else empty.
    pub sums: Vec<f64>,
}

impl<D: Device> Pack<D> {
    /// Fresh restarts with start values for their weights.
    pub fn new(run: &Run<'_, D>, restarts: Range<usize>) -> Result<Self> {
        Self::begin(run, restarts, 0)
    }

    /// The same for another of their starts.
    pub fn begin(run: &Run<'_, D>, restarts: Range<usize>, start: usize) -> Result<Self> {
        let stride = run.architecture.layout.len();
        let records =
            restarts.clone().map(|restart| RestartRecord { restart, start, ..Default::default() }).collect();
        let state = State {
            restarts,
            start,
            stage: Stage::Pretrain,
            phase: 0,
            epoch: 0,
            step: 0,
            unscored: false,
            records,
            likelihoods: Vec::new(),
            starts: Vec::new(),
            best: Vec::new(),
        };
        let mut params = Params::zeros(run.device, state.records.len(), stride)?;
        for (place, key) in run.keys(Stream::Weights, state.numbers()).into_iter().enumerate() {
            run.device.write(&mut params.values, place * stride, &run.architecture.initial_values(key))?;
        }
        let (best_values, graphs, sums) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { state, params, best_values, graphs, best_start: None, sums })
    }

    /// Adam starts anew with each phase.
    pub fn reset_moments(&mut self, device: &D) -> Result<()> {
        device.clear(&mut self.params.first_moments)?;
        Ok(device.clear(&mut self.params.second_moments)?)
    }

    /// The numbers of one restart of the pack.
    pub fn values_of(&self, device: &D, place: usize) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.params.stride];
        device.read(&self.params.values, place * self.params.stride, &mut values)?;
        Ok(values)
    }
}

/// Saves the pack; what a stage calls when the listener asks for it. False where there is no folder for checkpoints.
pub type Save<'s, D> = &'s mut dyn FnMut(&Pack<D>) -> Result<bool>;

/// Does what the listener answered after an epoch.
pub(super) fn apply_control<D: Device>(
    control: Control,
    pack: &Pack<D>,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
) -> Result<()> {
    if control == Control::Continue {
        return Ok(());
    }
    save_or_tell(observer, || save(pack))?;
    if control == Control::Stop {
        return Err(Error::Interrupted { stage: pack.state.stage.name(), epoch: pack.state.epoch });
    }
    Ok(())
}

/// Saves; a full disk or a folder that is gone does not end a run of hours, the listener is told instead.
pub(crate) fn save_or_tell(observer: &mut dyn Observer, save: impl FnOnce() -> Result<bool>) -> Result<()> {
    observer.saving();
    match save() {
        Ok(true) => drop(observer.event(&Event::Saved)),
        Ok(false) => {}
        Err(error @ Error::Io { .. }) => drop(observer.event(&Event::NotSaved(&error))),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Saves the pack where work without steps was interrupted: a resume repeats that work, and nothing before it is lost.
pub(super) fn save_if_interrupted<D: Device, T>(
    work: Result<T>,
    pack: &Pack<D>,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
) -> Result<T> {
    if matches!(work, Err(Error::Interrupted { .. })) {
        save_or_tell(observer, || save(pack))?;
    }
    work
}

/// Runs steps of an epoch, a few at once, telling the listener after each few. If it says stop, the steps that are done.
pub fn run_steps(
    steps: Range<usize>,
    at_once: usize,
    observer: &mut dyn Observer,
    mut run: impl FnMut(Range<usize>) -> Result<()>,
) -> Result<Option<usize>> {
    for first in steps.clone().step_by(at_once) {
        let done = (first + at_once).min(steps.end);
        run(first..done)?;
        if observer.event(&Event::Steps { done }) == Control::Stop {
            return Ok(Some(done));
        }
    }
    Ok(None)
}

impl<D: Device> Pack<D> {
    /// The sums that an epoch goes on with after a resume in its middle.
    pub(super) fn resume_sums(&mut self, device: &D, sums: &mut D::Sums) -> Result<()> {
        match std::mem::take(&mut self.sums) {
            values if values.is_empty() => Ok(()),
            values => Ok(device.write_sums(sums, &values)?),
        }
    }

    /// Stops in the middle of an epoch: saves the steps that are done and returns the error that says so.
    pub(super) fn stop_after(
        &mut self,
        done: usize,
        device: &D,
        sums: &D::Sums,
        observer: &mut dyn Observer,
        save: Save<'_, D>,
    ) -> Result<()> {
        self.state.step = done;
        self.sums = device.read_sums(sums)?;
        apply_control(Control::Stop, self, observer, save)
    }
}
