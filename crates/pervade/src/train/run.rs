//! The constant parts of a run, and the state that changes from epoch to epoch.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::observer::{Control, Event, Observer, Stage};
use super::shares::ShareSums;
use crate::compute::{self, Alone, Device, Likelihood, Params, Ranks, Tick};
use crate::config::{CheckedSettings, Choice, Settings};
use crate::data::Dataset;
use crate::graph::PreparedGraph;
use crate::metrics::Vote;
use crate::nn::Architecture;
use crate::record::{MergeTree, RestartRecord, is_zero};
use crate::seed::{Key, Stream};
use crate::{Error, Result};

/// The constant parts of a run: device, data, settings, networks.
pub struct Run<'a, D: Device> {
    /// The device that computes.
    pub device: &'a D,
    /// The data.
    pub data: &'a Dataset<'a>,
    /// The prepared rows on the device.
    pub rows: D::Rows<'a>,
    /// The settings.
    pub settings: &'a CheckedSettings,
    /// The networks.
    pub architecture: Architecture,
    /// p(x|z).
    pub likelihood: Likelihood,
    /// The graph of the prepared rows, on which clusterings are compared; none if the ELBO compares them.
    pub judge: Option<PreparedGraph>,
    /// The processes that train the model together.
    pub ranks: &'a dyn Ranks,
}

/// Tables with more rows are long.
const LONG_ROWS: usize = 70_000;
/// Rows of a long table in the neighbour graph.
const LONG_GRAPH_ROWS: usize = 25_000;
/// Number of rows in the neighbour graph of a table with `n_rows`.
pub(super) fn graph_rows(settings: &Settings, n_rows: usize) -> usize {
    let wanted = settings.graph_rows.min(n_rows);
    if n_rows > LONG_ROWS { wanted.min(LONG_GRAPH_ROWS) } else { wanted }
}

/// Rows for each component that are enough to compare mixtures.
const ROWS_PER_COMPONENT: usize = 20;

impl<'a, D: Device> Run<'a, D> {
    /// Creates a run over `data`.
    pub fn new(device: &'a D, data: &'a Dataset<'a>, settings: &'a CheckedSettings) -> Result<Self> {
        Ok(Self {
            device,
            data,
            rows: device.rows(data.view(&settings.preparation))?,
            settings,
            architecture: settings.architecture(data),
            likelihood: settings.likelihood,
            judge: None,
            ranks: &Alone,
        })
    }

    /// Runs steps on the device; an exchange between ranks through host memory cannot be recorded for replay.
    pub(super) fn steps(
        &self,
        ticks: &[Tick],
        recording: &mut D::Recording,
        params: &mut Params<D::Buffer>,
        mut body: impl FnMut(&mut Params<D::Buffer>, &Tick) -> compute::Result<()>,
    ) -> Result<()> {
        if self.ranks.size() == 1 || self.device.device_exchange().is_some() {
            return Ok(self.device.steps(ticks, recording, params, body)?);
        }
        Ok(ticks.iter().try_for_each(|tick| body(params, tick))?)
    }

    /// Number of rows in the neighbour graph. Long tables have fewer: every other row is compared with all of them.
    pub(super) fn graph_rows(&self) -> usize {
        graph_rows(&self.settings.settings, self.data.n_rows())
    }

    /// Whether rows that are not nodes of the neighbour graph need neighbours among its nodes.
    pub(super) fn neighbours_of_others(&self) -> bool {
        self.settings.neighbour_weight > 0.0 && self.data.n_rows() > self.graph_rows()
    }

    /// Whether mixtures are fitted to the nodes of a graph, and only the best of them to all rows.
    pub(super) fn fits_nodes(&self, graph: &crate::graph::Graph) -> bool {
        let is_enough = graph.rows.len() >= ROWS_PER_COMPONENT * self.settings.n_components;
        self.data.n_rows() > LONG_ROWS && is_enough
    }

    /// The largest number of models that are trained: the restarts and, if they are compared on a graph, one that is trained
    /// towards their vote or the clusters of a plain mixture.
    pub fn n_models(&self) -> usize {
        self.settings.settings.restarts + usize::from(self.settings.settings.choose != Choice::Elbo)
    }

    /// The random key of each [`rng_id`](RestartRecord::rng_id), which in a first trial is the index of the restart.
    pub fn keys(&self, stream: Stream, rng_ids: impl IntoIterator<Item = usize>) -> Vec<Key> {
        rng_ids.into_iter().map(|rng_id| Key::new(self.settings.settings.seed, stream, rng_id)).collect()
    }
}

/// The training state of a pack of restarts without its arrays; a checkpoint stores it as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The restarts that are trained in parallel.
    pub restarts: Range<usize>,
    /// Index of the current trial; the number of trials once the best was chosen.
    #[serde(rename = "start", default, skip_serializing_if = "is_zero")]
    pub trial: usize,
    /// The current stage.
    pub stage: Stage,
    /// Completed phases of the stage (layers of stacked pretraining).
    pub phase: usize,
    /// Completed epochs of the phase.
    pub epoch: usize,
    /// Completed steps of the next epoch, if training was stopped in the middle of it; its sums are in [`Pack::sums`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step: usize,
    /// Whether training was stopped while the state after the last epoch was being scored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unscored: bool,
    /// The history of each restart so far.
    pub records: Vec<RestartRecord>,
    /// p(x|z) of each restart, with the estimated variance; empty before pretraining ends.
    pub likelihoods: Vec<Likelihood>,
    /// Grouping of the components at the mixture start, per restart; empty before it.
    #[serde(rename = "starts")]
    pub start_groupings: Vec<StartGrouping>,
    /// The best state of each restart so far; empty before the mixture start.
    pub best: Vec<Best>,
}

impl State {
    /// Whether the pack is trained towards the vote of all restarts.
    pub fn is_consensus(&self) -> bool {
        self.records.iter().any(|record| record.reference.is_some())
    }

    /// The [`rng_id`](RestartRecord::rng_id) of each restart.
    pub fn rng_ids(&self) -> impl Iterator<Item = usize> + Clone {
        self.records.iter().map(RestartRecord::rng_id)
    }
}

/// The grouping of components at the mixture start; it guides that of later states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartGrouping {
    /// Cluster of each component.
    pub groups: Vec<u32>,
    /// Number of clusters.
    pub n_clusters: usize,
    /// Natural communities of the neighbour graph.
    pub natural_clusters: usize,
    /// Whether components were merged by Ward's criterion, as there are far fewer clusters than natural communities.
    pub by_ward: bool,
    /// How components were merged, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merges: Option<MergeTree>,
}

/// The state that would become the model if training ended now; its parameters are in [`Pack::best_values`].
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

/// Restarts that are trained in parallel; a *slot* is the index of a restart within the pack.
pub struct Pack<D: Device> {
    /// The training state.
    pub state: State,
    /// Parameters and Adam's moments, on the device.
    pub params: Params<D::Buffer>,
    /// Parameters of the best state of each restart, on the host.
    pub best_values: Vec<Vec<f32>>,
    /// Neighbour graph of the latents at the mixture start, per restart, for grouping components and comparing states.
    pub graphs: Vec<crate::graph::Graph>,
    /// The vote that the pack is trained towards, if it is the consensus of restarts.
    pub vote: Option<Vote>,
    /// The best trial so far of each restart, if there are several.
    pub best_trial: Option<Box<Pack<D>>>,
    /// Sums of the ELBO terms over the completed steps of an unfinished epoch; otherwise empty.
    pub sums: Vec<f64>,
}

impl<D: Device> Pack<D> {
    /// New restarts with initial weights.
    pub fn new(run: &Run<'_, D>, restarts: Range<usize>) -> Result<Self> {
        Self::for_trial(run, restarts, 0)
    }

    /// The given trial of new restarts.
    pub fn for_trial(run: &Run<'_, D>, restarts: Range<usize>, trial: usize) -> Result<Self> {
        let stride = run.architecture.layout.len();
        let records = restarts
            .clone()
            .map(|restart| RestartRecord { restart, start: trial, ..Default::default() })
            .collect();
        let state = State { restarts, trial, records, ..State::default() };
        let mut params = Params::zeros(run.device, state.records.len(), stride)?;
        for (slot, key) in run.keys(Stream::Weights, state.rng_ids()).into_iter().enumerate() {
            run.device.write(&mut params.values, slot * stride, &run.architecture.initial_values(key))?;
        }
        let (best_values, graphs, sums) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { state, params, best_values, graphs, vote: None, best_trial: None, sums })
    }

    /// Sets Adam's moments to zero, as at the beginning of each phase.
    pub fn reset_moments(&mut self, device: &D) -> Result<()> {
        device.clear(&mut self.params.first_moments)?;
        Ok(device.clear(&mut self.params.second_moments)?)
    }

    /// The parameters of the restart in a slot.
    pub fn values_of(&self, device: &D, slot: usize) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.params.stride];
        device.read(&self.params.values, slot * self.params.stride, &mut values)?;
        Ok(values)
    }
}

/// Callback that saves the pack; it returns false if there is no folder for checkpoints.
pub type Save<'s, D> = &'s mut dyn FnMut(&Pack<D>) -> Result<bool>;

/// Applies the observer's answer after an epoch.
pub(super) fn apply_control<D: Device>(
    control: Control,
    pack: &Pack<D>,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
) -> Result<()> {
    if control == Control::Continue {
        return Ok(());
    }
    save_or_report(observer, || save(pack))?;
    if control == Control::Stop {
        return Err(Error::Interrupted { stage: pack.state.stage.name(), epoch: pack.state.epoch });
    }
    Ok(())
}

/// Saves a checkpoint. A full disk or a missing folder does not end a run of hours: the observer is notified instead.
pub(crate) fn save_or_report(observer: &mut dyn Observer, save: impl FnOnce() -> Result<bool>) -> Result<()> {
    observer.saving();
    match save() {
        Ok(true) => drop(observer.event(&Event::Saved)),
        Ok(false) => {}
        Err(error @ Error::Io { .. }) => drop(observer.event(&Event::NotSaved(&error))),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Saves the pack if work without steps was interrupted; a resumed run repeats only that work.
pub(super) fn save_if_interrupted<D: Device, T>(
    result: Result<T>,
    pack: &Pack<D>,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
) -> Result<T> {
    if matches!(result, Err(Error::Interrupted { .. })) {
        save_or_report(observer, || save(pack))?;
    }
    result
}

/// Runs steps of an epoch, `at_once` per call of `run`, and notifies the observer after each call. If it answers
/// `Stop`, returns the number of completed steps.
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
    /// Restores the sums of an unfinished epoch that is resumed.
    pub(super) fn resume_sums(&mut self, run: &Run<'_, D>, sums: &mut ShareSums<D>) -> Result<()> {
        match std::mem::take(&mut self.sums) {
            values if values.is_empty() => Ok(()),
            values => sums.write(run, &values),
        }
    }

    /// Stops in the middle of an epoch: saves the pack and returns [`Error::Interrupted`].
    pub(super) fn stop_after(
        &mut self,
        done: usize,
        run: &Run<'_, D>,
        sums: &ShareSums<D>,
        observer: &mut dyn Observer,
        save: Save<'_, D>,
    ) -> Result<()> {
        self.state.step = done;
        self.sums = sums.read(run)?;
        apply_control(Control::Stop, self, observer, save)
    }
}
