//! Several starts of each restart, of which one goes on.
//!
//! Joint training polishes a start and does not repair it; after a few epochs modularity tells the good from the bad
//! (`docs/paper.md` has the figures).

use super::joint::maximise_elbo;
use super::observer::{Event, Observer};
use super::run::{Pack, Run, Save, save_if_interrupted};
use super::score::{keep_best, score_states};
use crate::Result;
use crate::compute::Device;

/// Epochs of joint training after which starts are compared.
const EPOCHS: usize = 10;

/// Epochs of joint training that each start of a run gets before they are compared.
pub(super) fn trial_epochs<D: Device>(run: &Run<'_, D>) -> usize {
    EPOCHS.min(run.settings.epochs)
}

/// Which of several starts the pack is in; none where there is one, or once each restart has its best.
pub fn start_to_try<D: Device>(run: &Run<'_, D>, pack: &Pack<D>) -> Option<usize> {
    let n_starts = run.settings.settings.starts;
    (n_starts > 1 && pack.state.start < n_starts).then_some(pack.state.start)
}

/// Trains the start jointly for a few epochs and keeps it where it is a restart's best so far. The pack is then the next
/// start, or the best of each restart after the last.
pub fn try_start<D: Device>(
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
    let next = pack.state.start + 1;
    let begin = |pack: &Pack<D>| Pack::begin(run, pack.state.restarts.clone(), next);
    let Some(mut best) = pack.best_start.take() else {
        // The first, which others follow.
        let fresh = begin(pack)?;
        pack.best_start = Some(Box::new(std::mem::replace(pack, fresh)));
        return Ok(());
    };
    best.take_better(run.device, pack)?;
    if next < run.settings.settings.starts {
        *pack = Pack { best_start: Some(best), ..begin(pack)? };
        return Ok(());
    }
    *pack = *best;
    pack.state.start = next;
    for record in &pack.state.records {
        let (restart, start) = (record.restart, record.start);
        if let Some(&modularity) = record.starts.get(start) {
            observer.event(&Event::StartChosen { restart, start, modularity });
        }
    }
    Ok(())
}

impl<D: Device> Pack<D> {
    /// Takes over the restarts that did better in `other`, a later start.
    fn take_better(&mut self, device: &D, other: &Self) -> Result<()> {
        for (place, record) in other.state.records.iter().enumerate() {
            let mut starts = std::mem::take(&mut self.state.records[place].starts);
            let best = starts.get(self.state.records[place].start).copied();
            starts.extend(&record.starts);
            if record.starts.first().copied() > best {
                self.take_over(device, place, other)?;
            }
            self.state.records[place].starts = starts;
        }
        Ok(())
    }

    fn take_over(&mut self, device: &D, place: usize, other: &Self) -> Result<()> {
        let stride = self.params.stride;
        let mut numbers = vec![0.0; stride];
        for (to, from) in [
            (&mut self.params.values, &other.params.values),
            (&mut self.params.first_moments, &other.params.first_moments),
            (&mut self.params.second_moments, &other.params.second_moments),
        ] {
            device.read(from, place * stride, &mut numbers)?;
            device.write(to, place * stride, &numbers)?;
        }
        self.state.records[place] = other.state.records[place].clone();
        self.state.likelihoods[place] = other.state.likelihoods[place];
        self.state.starts[place] = other.state.starts[place].clone();
        self.state.best[place] = other.state.best[place].clone();
        self.best_values[place].clone_from(&other.best_values[place]);
        self.graphs[place] = other.graphs[place].clone();
        Ok(())
    }
}
