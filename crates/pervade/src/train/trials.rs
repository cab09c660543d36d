//! Several trials of each restart, the best of which continues.
//!
//! Joint training improves a good mixture start but does not repair a bad one; after a few epochs modularity tells them
//! apart (`docs/paper.md` has the figures).

use super::joint::maximise_elbo;
use super::observer::{Event, Observer};
use super::run::{Pack, Run, Save, save_if_interrupted};
use super::score::{keep_best, score_states};
use crate::Result;
use crate::compute::Device;

/// Epochs of joint training after which trials are compared.
const TRIAL_EPOCHS: usize = 10;

/// Epochs of joint training of each trial of a run.
pub(super) fn trial_epochs<D: Device>(run: &Run<'_, D>) -> usize {
    TRIAL_EPOCHS.min(run.settings.epochs)
}

/// Index of the current trial; `None` if there is only one, or once the best was chosen.
pub fn current_trial<D: Device>(run: &Run<'_, D>, pack: &Pack<D>) -> Option<usize> {
    let n_trials = run.settings.starts;
    (n_trials > 1 && pack.state.trial < n_trials).then_some(pack.state.trial)
}

/// Ends a trial: trains it jointly for a few epochs and keeps it for the restarts where it is the best so far. The pack
/// becomes the next trial or, after the last one, the best trial of each restart.
pub fn run_trial<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
) -> Result<()> {
    maximise_elbo(run, pack, trial_epochs(run), observer, save, |_, _| Ok(()))?;
    let scored = score_states(run, pack, observer);
    let scored = save_if_interrupted(scored, pack, observer, save)?;
    keep_best(run, pack, scored, observer)?;
    for record in &mut pack.state.records {
        record.starts = record.states.last().map(|state| state.modularity).into_iter().collect();
    }
    let next = pack.state.trial + 1;
    let next_trial = |pack: &Pack<D>| Pack::for_trial(run, pack.state.restarts.clone(), next);
    let Some(mut best) = pack.best_trial.take() else {
        // This was the first of several.
        let fresh = next_trial(pack)?;
        pack.best_trial = Some(Box::new(std::mem::replace(pack, fresh)));
        return Ok(());
    };
    best.take_better(run.device, pack)?;
    if next < run.settings.starts {
        *pack = Pack { best_trial: Some(best), ..next_trial(pack)? };
        return Ok(());
    }
    *pack = *best;
    pack.state.trial = next;
    for record in &pack.state.records {
        let (restart, start) = (record.restart, record.start);
        if let Some(&modularity) = record.starts.get(start) {
            observer.event(&Event::StartChosen { restart, start, modularity });
        }
    }
    Ok(())
}

impl<D: Device> Pack<D> {
    /// Replaces the restarts that did better in `other`, a later trial.
    fn take_better(&mut self, device: &D, other: &Self) -> Result<()> {
        for (slot, record) in other.state.records.iter().enumerate() {
            let mut starts = std::mem::take(&mut self.state.records[slot].starts);
            let best = starts.get(self.state.records[slot].start).copied();
            starts.extend(&record.starts);
            if record.starts.first().copied() > best {
                self.replace_slot(device, slot, other)?;
            }
            self.state.records[slot].starts = starts;
        }
        Ok(())
    }

    fn replace_slot(&mut self, device: &D, slot: usize, other: &Self) -> Result<()> {
        let stride = self.params.stride;
        let mut values = vec![0.0; stride];
        for (to, from) in [
            (&mut self.params.values, &other.params.values),
            (&mut self.params.first_moments, &other.params.first_moments),
            (&mut self.params.second_moments, &other.params.second_moments),
        ] {
            device.read(from, slot * stride, &mut values)?;
            device.write(to, slot * stride, &values)?;
        }
        self.state.records[slot] = other.state.records[slot].clone();
        self.state.likelihoods[slot] = other.state.likelihoods[slot];
        self.state.start_groupings[slot] = other.state.start_groupings[slot].clone();
        self.state.best[slot] = other.state.best[slot].clone();
        self.best_values[slot].clone_from(&other.best_values[slot]);
        self.graphs[slot] = other.graphs[slot].clone();
        Ok(())
    }
}
