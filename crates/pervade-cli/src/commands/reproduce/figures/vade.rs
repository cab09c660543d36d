//! VaDE on the figures' data, with measurements after every epoch.

use pervade::config::{CheckedSettings, Choice, Settings};
use pervade::data::{Dataset, Labels};
use pervade::model::Vade;
use pervade::train::{EpochCallback, Pack, Run, clusters, latents};
use pervade::{Error, Result};
use pervade_rivals::RivalDevice;

use crate::console::Console;
use crate::methods;
use crate::report::LabelScores;

/// Epochs whose latents are drawn, in addition to the last.
const DRAWN_EPOCHS: [usize; 5] = [0, 1, 5, 50, 120];

/// What the figures need from a fit.
#[derive(Default)]
pub(super) struct VadeFit {
    /// Accuracy after each epoch, one list per restart.
    pub(super) accuracy: Vec<Vec<f64>>,
    /// Latents of the sampled rows at several epochs, one list per restart.
    pub(super) snapshots: Vec<Vec<Snapshot>>,
    /// One per restart.
    pub(super) models: Vec<Vade>,
    /// The restart that the recipe chooses without labels.
    pub(super) chosen: usize,
}

/// Latents at an epoch. `[n, J]`
pub(super) struct Snapshot {
    pub(super) epoch: usize,
    pub(super) latents: Vec<f32>,
}

impl VadeFit {
    /// Trains all restarts; `watched` says whether to measure after every epoch.
    pub(super) fn new<D: RivalDevice>(
        data: &Dataset,
        labels: &Labels,
        sample: &[usize],
        settings: Settings,
        watched: bool,
        device: &D,
        console: &Console,
    ) -> Result<Self> {
        let restarts = settings.restarts;
        let checked = settings.check(data)?;
        let mut watch = EpochRecorder { labels, sample, checked: &checked, watched, fit: VadeFit::default() };
        let mut observer = methods::observer("VaDE", Some(&checked), console);
        pervade::fit_restarts(data, &checked, device, 0..restarts, observer.as_mut(), &mut watch)?;
        let mut fit = watch.fit;
        let score = |model: &Vade| {
            let record = &model.metadata().record;
            let score = match checked.settings().choose {
                Choice::Elbo => record.elbo(),
                _ => record.kept_state().map(|state| state.modularity),
            };
            score.unwrap_or(f64::NEG_INFINITY)
        };
        fit.chosen = (1..fit.models.len())
            .fold(0, |best, i| if score(&fit.models[i]) > score(&fit.models[best]) { i } else { best });
        Ok(fit)
    }

    pub(super) fn model(&self) -> Result<&Vade> {
        self.models.get(self.chosen).ok_or_else(|| Error::data("VaDE", "no restart was trained"))
    }
}

struct EpochRecorder<'w> {
    labels: &'w Labels,
    sample: &'w [usize],
    checked: &'w CheckedSettings,
    watched: bool,
    fit: VadeFit,
}

impl<D: RivalDevice> EpochCallback<D> for EpochRecorder<'_> {
    fn on_epoch_end(&mut self, run: &Run<'_, D>, pack: &Pack<D>) -> Result<()> {
        if !self.watched {
            return Ok(());
        }
        let (restarts, epoch) = (pack.state.restarts.clone(), pack.state.epoch);
        self.fit.accuracy.resize(self.fit.accuracy.len().max(restarts.end), Vec::new());
        self.fit.snapshots.resize_with(self.fit.snapshots.len().max(restarts.end), Vec::new);
        for (clusters, restart) in clusters(run, pack)?.iter().zip(restarts.clone()) {
            self.fit.accuracy[restart].push(LabelScores::new(clusters, self.labels)?.accuracy);
        }
        if !DRAWN_EPOCHS.contains(&epoch) && epoch != self.checked.epochs() {
            return Ok(());
        }
        let j = run.architecture.n_latents();
        for (all, restart) in latents(run, &pack.params)?.iter().zip(restarts) {
            let latents = self.sample.iter().flat_map(|&row| all[row * j..(row + 1) * j].to_vec()).collect();
            self.fit.snapshots[restart].push(Snapshot { epoch, latents });
        }
        Ok(())
    }

    fn on_models(&mut self, models: Vec<Vade>) -> Result<()> {
        self.fit.models.extend(models);
        Ok(())
    }
}
