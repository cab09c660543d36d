//! What must hold in a checkpoint before a run continues from it. A file with a correct checksum can still be one that
//! somebody edited, or that a program with a mistake wrote; it must end in an error, never in a panic or in a model
//! that cannot be read.

use super::joint::is_scored;
use super::observer::Stage;
use super::pretrain::named_phases;
use super::run::{Best, Run, StartGroups, State};
use super::starts::trial_epochs;
use crate::compute::{Device, Likelihood};
use crate::graph::Graph;
use crate::model::fills;
use crate::record::Finished;
use crate::record::RestartRecord;

/// What is wrong, as the end of a sentence.
type Checked = Result<(), &'static str>;

fn ensure(holds: bool, problem: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(problem) }
}

/// A restart that is done.
pub(super) fn check_finished<D: Device>(run: &Run<'_, D>, restart: usize, finished: &Finished) -> Checked {
    let record = &finished.record;
    let n_trials = run.settings.settings.starts;
    ensure(record.restart == restart, "its restarts are not in order")?;
    check_trials(record, if n_trials > 1 { n_trials } else { 0 })?;
    check_pretrain(run, record, usize::MAX, 0)?;
    check_joint(record, run.settings.epochs)?;
    check_likelihood(run, finished.likelihood)?;
    check_kept(run, record, &finished.groups, 0)
}

/// A pack in training, after `n_finished` restarts.
pub(super) fn check_pack<D: Device>(run: &Run<'_, D>, n_finished: usize, state: &State) -> Checked {
    let settings = &run.settings.settings;
    let restarts = &state.restarts;
    let in_order =
        restarts.start == n_finished && restarts.end > restarts.start && restarts.end <= settings.restarts;
    ensure(in_order, "its restarts are not in order")?;
    let n_trials = if settings.starts > 1 { settings.starts } else { 0 };
    ensure(state.start <= n_trials, "its start is beyond the settings")?;
    // Once each restart has its best trial, only joint training is left.
    let chosen = n_trials > 0 && state.start == n_trials;
    let last_epoch = if state.start < n_trials { trial_epochs(run) } else { run.settings.epochs };
    ensure(!chosen || state.stage == Stage::Joint && state.epoch >= trial_epochs(run), EPOCHS)?;
    for record in &state.records {
        check_trials(record, if chosen { n_trials } else { 0 })?;
        ensure(chosen || record.start == state.start, "its starts do not agree")?;
    }
    check_state(run, state, last_epoch)
}

/// The best trial so far of each restart in the pack `state`.
pub(super) fn check_best_trial<D: Device>(run: &Run<'_, D>, state: &State, best: &State) -> Checked {
    ensure(best.restarts == state.restarts, "its best start is of other restarts")?;
    let at_end = best.start == 0 && best.stage == Stage::Joint && best.epoch == trial_epochs(run);
    ensure(at_end, "its best start is not one that was compared")?;
    best.records.iter().try_for_each(|record| check_trials(record, state.start))?;
    check_state(run, best, best.epoch)
}

const EPOCHS: &str = "its epochs are not those of the settings";
const GROUPS: &str = "its groups are broken";

/// The modularity of each of `n` trials, and the one that was taken.
fn check_trials(record: &RestartRecord, n: usize) -> Checked {
    ensure(record.starts.len() == n, "its starts are not those that were compared")?;
    ensure(n == 0 || record.start < n, "its best start is not one that was compared")
}

/// What a pack and the best trials have in common.
fn check_state<D: Device>(run: &Run<'_, D>, state: &State, last_epoch: usize) -> Checked {
    let n_restarts = state.restarts.len();
    ensure(
        state.records.len() == n_restarts
            && state.records.iter().map(|record| record.restart).eq(state.restarts.clone()),
        "its restarts and their records do not agree",
    )?;
    let (phase, joint_epochs) = match state.stage {
        Stage::Pretrain => (state.phase, 0),
        Stage::Mixture => (usize::MAX, 0),
        Stage::Joint => (usize::MAX, state.epoch),
    };
    match state.stage {
        Stage::Pretrain => {
            let phases = named_phases(run);
            ensure(phases.get(phase).is_some_and(|(_, epochs)| state.epoch <= *epochs), EPOCHS)?;
        }
        Stage::Mixture => ensure(state.phase == 0 && state.epoch == 0, EPOCHS)?,
        Stage::Joint => ensure(state.phase == 0 && state.epoch <= last_epoch, EPOCHS)?,
    }
    check_middle(run, state)?;
    let n_likelihoods = if state.stage == Stage::Pretrain { 0 } else { n_restarts };
    ensure(state.likelihoods.len() == n_likelihoods, "its likelihoods are not those of the stage")?;
    let n_starts = if state.stage == Stage::Joint { n_restarts } else { 0 };
    let as_many = state.starts.len() == n_starts && state.best.len() == n_starts;
    ensure(as_many, "its states are not those of the stage")?;
    state.likelihoods.iter().try_for_each(|&likelihood| check_likelihood(run, likelihood))?;
    for record in &state.records {
        check_pretrain(run, record, phase, state.epoch)?;
        check_joint(record, joint_epochs)?;
        ensure(
            n_starts > 0 || record.states.is_empty() && record.kept == 0,
            "its states are not those of the stage",
        )?;
    }
    state.starts.iter().try_for_each(|start| check_start(run, start))?;
    let best = state.records.iter().zip(&state.best);
    best.into_iter().try_for_each(|(record, best)| check_best(run, record, best, usize::from(state.unscored)))
}

/// A stop in the middle of an epoch, or while a state was scored.
fn check_middle<D: Device>(run: &Run<'_, D>, state: &State) -> Checked {
    let (settings, n_rows) = (run.settings, run.data.n_rows());
    let n_steps = match state.stage {
        Stage::Pretrain => n_rows / settings.pretrain_batch,
        Stage::Mixture => 0,
        Stage::Joint => n_rows / settings.batch,
    };
    ensure(state.step <= n_steps, "its steps are not those of an epoch")?;
    let may_be_unscored = state.stage == Stage::Joint && state.epoch > 0 && state.step == 0;
    ensure(!state.unscored || may_be_unscored, "its states are not those of the stage")
}

/// Every epoch of pretraining up to `epoch` of the phase, all of them where there is no such phase.
fn check_pretrain<D: Device>(
    run: &Run<'_, D>,
    record: &RestartRecord,
    phase: usize,
    epoch: usize,
) -> Checked {
    let mut entries = record.pretrain.iter();
    for (i, (name, epochs)) in named_phases(run).iter().enumerate().take(phase.saturating_add(1)) {
        let done = if i == phase { epoch } else { *epochs };
        for number in 1..=done {
            ensure(
                entries.next().is_some_and(|entry| entry.phase == *name && entry.epoch == number),
                EPOCHS,
            )?;
        }
    }
    ensure(entries.next().is_none(), EPOCHS)
}

/// Every epoch of joint training so far.
fn check_joint(record: &RestartRecord, epochs: usize) -> Checked {
    ensure(record.joint.iter().map(|entry| entry.epoch).eq(1..=epochs), EPOCHS)
}

/// The states that were scored up to now: the start, the end of the trial if there are several, and some epochs after it.
/// `unscored` is 1 where the last of them was being scored when the run was stopped, else 0.
fn check_states<D: Device>(run: &Run<'_, D>, record: &RestartRecord, unscored: usize) -> Checked {
    let trial = (run.settings.settings.starts > 1).then(|| trial_epochs(run));
    let in_trial = trial.is_some() && record.starts.is_empty();
    let after =
        trial.unwrap_or(0) + 1..=if in_trial { 0 } else { record.joint.len().saturating_sub(unscored) };
    let scored = after.filter(|&epoch| is_scored(epoch, run.settings.epochs));
    let expected = [0].into_iter().chain(trial.filter(|_| !in_trial)).chain(scored);
    ensure(
        record.states.iter().map(|state| state.epoch).eq(expected),
        "its states are not those of its epochs",
    )
}

/// The same family as the run's, with parameters that a model may have.
fn check_likelihood<D: Device>(run: &Run<'_, D>, likelihood: Likelihood) -> Checked {
    let estimated = run.settings.settings.noise_variance.is_none();
    let holds = if estimated {
        likelihood.is_same_family(run.likelihood) && likelihood.is_valid()
    } else {
        likelihood == run.likelihood
    };
    ensure(holds, "its likelihood is not one of these settings")
}

fn check_start<D: Device>(run: &Run<'_, D>, start: &StartGroups) -> Checked {
    let wanted = run.settings.n_clusters.is_none_or(|k| k == start.n_clusters);
    ensure(
        wanted && start.groups.len() == run.settings.n_components && fills(&start.groups, start.n_clusters),
        GROUPS,
    )
}

fn check_best<D: Device>(run: &Run<'_, D>, record: &RestartRecord, best: &Best, unscored: usize) -> Checked {
    ensure(best.state == record.kept, "its best state is not the one that it keeps")?;
    check_kept(run, record, &best.groups, unscored)
}

/// The state that is kept and the clusters of its components.
fn check_kept<D: Device>(
    run: &Run<'_, D>,
    record: &RestartRecord,
    groups: &[u32],
    unscored: usize,
) -> Checked {
    check_states(run, record, unscored)?;
    let state = record.states.get(record.kept).ok_or("its best state is not one that was scored")?;
    let holds = groups.len() == run.settings.n_components && state.clusters <= groups.len();
    ensure(holds && fills(groups, state.clusters) && state.live_clusters <= state.clusters, GROUPS)
}

/// The graph that the settings make of so many rows.
pub(super) fn check_graph<D: Device>(run: &Run<'_, D>, graph: &Graph) -> Checked {
    let (n_rows, settings) = (run.data.n_rows(), &run.settings.settings);
    let n_nodes = n_rows.min(settings.graph_rows);
    let rising = graph.rows.is_sorted_by(|a, b| a < b);
    let inside = graph.rows.last().is_some_and(|&last| (last as usize) < n_rows);
    let sized = graph.rows.len() == n_nodes
        && graph.n_neighbours == settings.neighbours.min(n_nodes - 1)
        && graph.n_neighbours.checked_mul(n_nodes) == Some(graph.neighbours.len());
    let below = graph.neighbours.iter().all(|&node| (node as usize) < n_nodes);
    ensure(rising && inside && sized && below, "its graph is broken")
}

/// Weights must be finite. Adam's second moments are sums of squares, which overflow where a gradient is huge: an
/// infinite one only stops the step.
pub(super) fn check_values(name: &str, values: &[f32]) -> Checked {
    let squares = name.ends_with("second_moments");
    let holds = |x: &f32| if squares { *x >= 0.0 } else { x.is_finite() };
    ensure(values.iter().all(holds), "its numbers are not all finite")
}
