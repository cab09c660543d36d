//! Checks of a checkpoint before a run continues from it. A file with a correct checksum may have been edited, or
//! written by a program with a bug; it must lead to an error, never to a panic or to a model that cannot be read.

use super::joint::is_scored;
use super::observer::Stage;
use super::pretrain::named_phases;
use super::run::{Best, Run, StartGrouping, State, graph_rows};
use super::trials::trial_epochs;
use crate::compute::{Device, Likelihood};
use crate::graph::{Graph, PREPARED_NEIGHBOURS, n_prepared};
use crate::model::covers_clusters;
use crate::record::{Finished, MergeTree, RestartRecord};

/// The error says in words what is wrong.
type Checked = Result<(), &'static str>;

fn ensure(holds: bool, problem: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(problem) }
}

/// Checks a finished restart.
pub(super) fn check_finished<D: Device>(run: &Run<'_, D>, restart: usize, finished: &Finished) -> Checked {
    let record = &finished.record;
    check_reference(run, record)?;
    let n_trials = if record.reference.is_some() { 0 } else { run.settings.starts };
    ensure(record.restart == restart, "its restarts are not in order")?;
    check_trials(record, if n_trials > 1 { n_trials } else { 0 })?;
    check_pretrain(run, record, usize::MAX, 0)?;
    check_joint(record, run.settings.epochs)?;
    check_likelihood(run, finished.likelihood)?;
    check_levels(run, record)?;
    check_kept(run, record, &finished.groups, 0)
}

/// Checks a pack in training, after `n_finished` restarts.
pub(super) fn check_pack<D: Device>(run: &Run<'_, D>, n_finished: usize, state: &State) -> Checked {
    let restarts = &state.restarts;
    let in_order =
        restarts.start == n_finished && restarts.end > restarts.start && restarts.end <= run.n_models();
    ensure(in_order, "its restarts are not in order")?;
    state.records.iter().try_for_each(|record| check_reference(run, record))?;
    if state.is_consensus() {
        ensure(state.stage == Stage::Joint && state.trial == 0 && restarts.len() == 1, EPOCHS)?;
        return check_state(run, state, run.settings.epochs);
    }
    let n_trials = if run.settings.starts > 1 { run.settings.starts } else { 0 };
    ensure(state.trial <= n_trials, "its trial is beyond those of the settings")?;
    // Once the best trial was chosen, only joint training is left.
    let chosen = n_trials > 0 && state.trial == n_trials;
    let last_epoch = if state.trial < n_trials { trial_epochs(run) } else { run.settings.epochs };
    ensure(!chosen || state.stage == Stage::Joint && state.epoch >= trial_epochs(run), EPOCHS)?;
    for record in &state.records {
        check_trials(record, if chosen { n_trials } else { 0 })?;
        ensure(chosen || record.start == state.trial, "its trials do not agree")?;
    }
    check_state(run, state, last_epoch)
}

/// Checks that the model after all restarts, and no other, continues one of them.
fn check_reference<D: Device>(run: &Run<'_, D>, record: &RestartRecord) -> Checked {
    let n_restarts = run.settings.settings.restarts;
    let holds = match record.reference {
        Some(reference) => record.restart == n_restarts && reference < n_restarts && record.start == 0,
        None => record.restart < n_restarts,
    };
    ensure(holds, "its restarts are not in order")
}

/// Checks the best trial so far of each restart in the pack `state`.
pub(super) fn check_best_trial<D: Device>(run: &Run<'_, D>, state: &State, best: &State) -> Checked {
    ensure(best.restarts == state.restarts, "its best trial is that of other restarts")?;
    let at_end = best.trial == 0 && best.stage == Stage::Joint && best.epoch == trial_epochs(run);
    ensure(at_end, "its best trial is not one of those compared")?;
    best.records.iter().try_for_each(|record| check_trials(record, state.trial))?;
    check_state(run, best, best.epoch)
}

const EPOCHS: &str = "its epochs are not those of the settings";
const GROUPS: &str = "its groups are invalid";
const LEVELS: &str = "its numbers of clusters are invalid";

/// Checks the modularity of each of `n` trials, and the index of the best.
fn check_trials(record: &RestartRecord, n: usize) -> Checked {
    ensure(record.starts.len() == n, "its trials are not those that were compared")?;
    ensure(n == 0 || record.start < n, "its best trial is not one of those compared")
}

/// Checks that apply to a pack in training and to the best trial.
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
    check_unfinished(run, state)?;
    let n_likelihoods = if state.stage == Stage::Pretrain { 0 } else { n_restarts };
    ensure(state.likelihoods.len() == n_likelihoods, "its likelihoods are not those of the stage")?;
    let n_scored = if state.stage == Stage::Joint { n_restarts } else { 0 };
    let is_complete = state.start_groupings.len() == n_scored && state.best.len() == n_scored;
    ensure(is_complete, "its states are not those of the stage")?;
    state.likelihoods.iter().try_for_each(|&likelihood| check_likelihood(run, likelihood))?;
    for record in &state.records {
        check_pretrain(run, record, phase, state.epoch)?;
        check_joint(record, joint_epochs)?;
        ensure(state.stage != Stage::Pretrain || record.levels.is_empty(), LEVELS)?;
        check_levels(run, record)?;
        ensure(
            n_scored > 0 || record.states.is_empty() && record.kept == 0,
            "its states are not those of the stage",
        )?;
    }
    state.start_groupings.iter().try_for_each(|grouping| check_grouping(run, grouping))?;
    let best = state.records.iter().zip(&state.best);
    best.into_iter().try_for_each(|(record, best)| check_best(run, record, best, usize::from(state.unscored)))
}

/// Checks a state that was saved in the middle of an epoch, or while a state was being scored.
fn check_unfinished<D: Device>(run: &Run<'_, D>, state: &State) -> Checked {
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

/// Checks that the record has every epoch of pretraining up to `epoch` of the phase; all of them if there is no such
/// phase.
fn check_pretrain<D: Device>(
    run: &Run<'_, D>,
    record: &RestartRecord,
    phase: usize,
    epoch: usize,
) -> Checked {
    let mut entries = record.pretrain.iter();
    for (i, (name, epochs)) in named_phases(run).iter().enumerate().take(phase.saturating_add(1)) {
        let done = if i == phase { epoch } else { *epochs };
        for expected in 1..=done {
            ensure(
                entries.next().is_some_and(|entry| entry.phase == *name && entry.epoch == expected),
                EPOCHS,
            )?;
        }
    }
    ensure(entries.next().is_none(), EPOCHS)
}

/// Checks that the record has every epoch of joint training so far.
fn check_joint(record: &RestartRecord, epochs: usize) -> Checked {
    ensure(record.joint.iter().map(|entry| entry.epoch).eq(1..=epochs), EPOCHS)
}

/// Checks the scored states so far: the mixture start, the end of the trial if there are several, and some epochs after
/// it. `unscored` is 1 if training was stopped while the last of them was being scored, otherwise 0.
fn check_states<D: Device>(run: &Run<'_, D>, record: &RestartRecord, unscored: usize) -> Checked {
    let has_trials = run.settings.starts > 1 && record.reference.is_none();
    let trial = has_trials.then(|| trial_epochs(run));
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

/// Checks the numbers of clusters that were compared: none if the number is given, or if they were not compared;
/// otherwise increasing, with one that is picked.
fn check_levels<D: Device>(run: &Run<'_, D>, record: &RestartRecord) -> Checked {
    let levels = &record.levels;
    let n_picked = levels.iter().filter(|level| level.picked).count();
    let n_components = run.settings.n_components;
    let holds = levels.is_sorted_by(|a, b| a.clusters < b.clusters)
        && levels.iter().all(|level| (2..=n_components).contains(&level.clusters))
        && n_picked == usize::from(!levels.is_empty())
        && (levels.is_empty() || run.settings.n_clusters.is_none());
    ensure(holds, LEVELS)
}

/// Checks that the likelihood has the run's family, with valid parameters.
fn check_likelihood<D: Device>(run: &Run<'_, D>, likelihood: Likelihood) -> Checked {
    let estimated = run.settings.settings.noise_variance.is_none();
    let holds = if estimated {
        likelihood.is_same_family(run.likelihood) && likelihood.is_valid()
    } else {
        likelihood == run.likelihood
    };
    ensure(holds, "its likelihood is not that of the settings")
}

fn check_grouping<D: Device>(run: &Run<'_, D>, grouping: &StartGrouping) -> Checked {
    let wanted = run.settings.n_clusters.is_none_or(|k| k == grouping.n_clusters);
    check_merges(run, grouping.merges.as_ref())?;
    ensure(
        wanted
            && grouping.groups.len() == run.settings.n_components
            && covers_clusters(&grouping.groups, grouping.n_clusters),
        GROUPS,
    )
}

fn check_merges<D: Device>(run: &Run<'_, D>, merges: Option<&MergeTree>) -> Checked {
    ensure(merges.is_none_or(|tree| tree.is_valid(run.settings.n_components)), "its merges are invalid")
}

fn check_best<D: Device>(run: &Run<'_, D>, record: &RestartRecord, best: &Best, unscored: usize) -> Checked {
    ensure(best.state == record.kept, "its best state is not the one that it keeps")?;
    check_kept(run, record, &best.groups, unscored)
}

/// Checks the state that is kept and the clusters of its components.
fn check_kept<D: Device>(
    run: &Run<'_, D>,
    record: &RestartRecord,
    groups: &[u32],
    unscored: usize,
) -> Checked {
    check_states(run, record, unscored)?;
    check_merges(run, record.merges.as_ref())?;
    let state = record.states.get(record.kept).ok_or("its best state is not one that was scored")?;
    let holds = groups.len() == run.settings.n_components && state.clusters <= groups.len();
    ensure(holds && covers_clusters(groups, state.clusters) && state.live_clusters <= state.clusters, GROUPS)
}

/// Checks that the graph is one of these settings and this number of rows: of a restart's latents, or of the prepared
/// rows for the consensus.
pub(super) fn check_graph<D: Device>(run: &Run<'_, D>, graph: &Graph, is_consensus: bool) -> Checked {
    let (n_rows, settings) = (run.data.n_rows(), &run.settings.settings);
    let (n_nodes, neighbours) = if is_consensus {
        (n_prepared(n_rows, run.settings.preparation.n_distance_columns()), PREPARED_NEIGHBOURS)
    } else {
        (graph_rows(settings, n_rows), settings.neighbours)
    };
    let ascending = graph.rows.is_sorted_by(|a, b| a < b);
    let inside = graph.rows.last().is_some_and(|&last| (last as usize) < n_rows);
    let sized = graph.rows.len() == n_nodes
        && graph.n_neighbours == neighbours.min(n_nodes - 1)
        && graph.n_neighbours.checked_mul(n_nodes) == Some(graph.neighbours.len());
    let below = graph.neighbours.iter().chain(&graph.others).all(|&node| (node as usize) < n_nodes);
    let n_others = if run.neighbours_of_others() && !is_consensus { n_rows - n_nodes } else { 0 };
    let sized = sized && graph.n_neighbours.checked_mul(n_others) == Some(graph.others.len());
    ensure(ascending && inside && sized && below, "its graph is invalid")
}

/// Checks that values are finite. Only Adam's second moments, sums of squares, may be infinite: a huge gradient
/// overflows them, and the parameter is then no longer updated.
pub(super) fn check_values(name: &str, values: &[f32]) -> Checked {
    let squares = name.ends_with("second_moments");
    let holds = |x: &f32| if squares { *x >= 0.0 } else { x.is_finite() };
    ensure(values.iter().all(holds), "its values are not all finite")
}
