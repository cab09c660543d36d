//! The algorithm on one page: pretrain, start the mixture, train jointly; then choose a restart.

use std::ops::Range;

use crate::compute::Device;
use crate::config::{CheckedSettings, Choice};
use crate::data::Dataset;
use crate::metrics;
use crate::model::{RestartSummary, Vade};
use crate::record::Finished;
use crate::record::RestartRecord;
use crate::train::checkpoint::Checkpoints;
use crate::train::{
    Event, Observer, Pack, Run, Save, Stage, Unwatched, Watch, ask, pretrain, require_memory, save_or_tell,
    start_mixture, start_to_try, train, try_start,
};
use crate::{Error, Hint, Result};

/// What a fit gives.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fit {
    /// The model that was chosen.
    pub model: Vade,
    /// How every restart went.
    pub restarts: Vec<RestartRecord>,
    /// Clusters of the rows, one list a restart.
    pub assignments: Vec<Vec<u32>>,
    /// Which restart the model is.
    pub chosen: usize,
    /// Mean pairwise ARI of the restarts' clusters, when there is more than one.
    pub stability: Option<f64>,
}

impl Fit {
    /// What a user should know: the remarks of every restart, and what is unusual about the model.
    pub fn remarks(&self) -> Vec<String> {
        let several = self.restarts.len() > 1;
        let remarks = |record: &RestartRecord| -> Vec<String> {
            let name = if several { format!("restart {}: ", record.restart) } else { String::new() };
            record.remarks.iter().map(|remark| format!("{name}{remark}")).collect()
        };
        let mut all: Vec<String> = self.restarts.iter().flat_map(remarks).collect();
        let record = &self.model.metadata().record;
        let Some(kept) = record.kept_state() else { return all };
        if kept.epoch == 0 && !record.joint.is_empty() {
            all.push(
                "the model is the start of the mixture: no state of joint training had a better label-free score"
                    .to_string(),
            );
        }
        if kept.live_clusters < kept.clusters {
            all.push(format!(
                "only {} of the model's {} clusters hold half a percent of the rows or more: \
                 ask for fewer clusters, or try more restarts",
                kept.live_clusters, kept.clusters
            ));
        }
        all
    }
}

/// Fits VaDE to rows. There is no way to hand it labels.
pub fn fit<D: Device>(
    data: &Dataset,
    settings: &CheckedSettings,
    device: &D,
    observer: &mut dyn Observer,
    checkpoints: Option<&Checkpoints>,
) -> Result<Fit> {
    require_memory(device, data, settings, settings.settings.restarts, checkpoints.is_some())?;
    let checksum = data.checksum();
    let fit = fit_from(data, &checksum, settings, device, observer, checkpoints);
    let unchanged = match &fit {
        // What was saved was checked then.
        Err(Error::Interrupted { .. }) => data.check_unchanged(),
        // A change of the data explains any other error.
        _ => data.check_unchanged_since(&checksum),
    };
    unchanged.map_err(|error| match checkpoints {
        Some(place) if place.exists() => error.with_hint(
            Hint::new("leave the file alone while a run reads it; the checkpoint is kept: restore the file and use ")
                .setting("resume")
                .text(", or start again"),
        ),
        _ => error,
    })?;
    fit
}

/// [`fit`], to the last use of the data.
fn fit_from<D: Device>(
    data: &Dataset,
    checksum: &str,
    settings: &CheckedSettings,
    device: &D,
    observer: &mut dyn Observer,
    checkpoints: Option<&Checkpoints>,
) -> Result<Fit> {
    check_rows_differ(data)?;
    let run = Run::new(device, data, settings)?;
    checkpoints.map_or(Ok(()), Checkpoints::prepare)?;
    let (mut finished, mut resumed) = match checkpoints {
        Some(place) if place.resume && place.exists() => place.load(&run, checksum, observer)?,
        _ => (Vec::new(), None),
    };
    let n_restarts = settings.settings.restarts;
    while finished.len() < n_restarts {
        let first = finished.len();
        let side_by_side = device.restarts_at_once(n_restarts - first).clamp(1, n_restarts - first);
        let mut pack = match resumed.take() {
            Some(pack) => pack,
            None => Pack::new(&run, first..first + side_by_side)?,
        };
        let save_state = |pack: Option<&Pack<D>>, finished: &[_]| match checkpoints {
            Some(place) => {
                // A checkpoint never holds a state that was trained on other data than its checksum says.
                data.check_unchanged_since(checksum)?;
                place.save(&run, checksum, pack, finished).map(|()| true)
            }
            None => Ok(false),
        };
        let mut save = |pack: &Pack<D>| save_state(Some(pack), &finished);
        train_pack(&run, &mut pack, observer, &mut save, &mut Unwatched)?;
        finished.extend(finish(pack));
        save_or_tell(observer, || save_state(None, &finished))?;
    }
    choose(&run, checksum.to_string(), finished, observer)
}

/// Trains restarts of a fit, side by side as far as the device can; `watch` sees each on the way and gets its model
/// when its pack is done. Restart r is the one that [`fit`] would train with the same settings.
pub fn fit_restarts<D: Device>(
    data: &Dataset,
    settings: &CheckedSettings,
    device: &D,
    restarts: Range<usize>,
    observer: &mut dyn Observer,
    watch: &mut dyn Watch<D>,
) -> Result<()> {
    require_memory(device, data, settings, restarts.len(), false)?;
    check_rows_differ(data)?;
    let checksum = data.checksum();
    let run = Run::new(device, data, settings)?;
    let mut first = restarts.start;
    while first < restarts.end {
        let left = restarts.end - first;
        let side_by_side = device.restarts_at_once(left).clamp(1, left);
        let mut pack = Pack::new(&run, first..first + side_by_side)?;
        let trained = train_pack(&run, &mut pack, observer, &mut |_| Ok(false), watch);
        data.check_unchanged_since(&checksum)?;
        trained?;
        let models = finish(pack).into_iter().map(|(done, values)| {
            Vade::assemble(data, checksum.clone(), settings, &run.architecture, values, done)
        });
        watch.finished(models.collect())?;
        first += side_by_side;
    }
    Ok(())
}

/// The stages, from wherever the pack stands.
fn train_pack<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
    watch: &mut dyn Watch<D>,
) -> Result<()> {
    loop {
        let tried = start_to_try(run, pack);
        if let Some(start) = tried {
            observer.event(&Event::StartBegan { restart: pack.state.restarts.start, start });
        }
        if pack.state.stage == Stage::Pretrain {
            pretrain(run, pack, observer, save)?;
        }
        if pack.state.stage == Stage::Mixture {
            start_mixture(run, pack, observer, save)?;
            watch.epoch(run, pack)?;
        }
        if tried.is_none() {
            return train(run, pack, observer, save, watch);
        }
        try_start(run, pack, observer, save)?;
    }
}

/// What a trained pack leaves: the state that each restart kept.
fn finish<D: Device>(pack: Pack<D>) -> Vec<(Finished, Vec<f32>)> {
    let state = pack.state;
    let parts = state.records.into_iter().zip(state.best).zip(state.likelihoods).zip(pack.best_values);
    parts
        .map(|(((record, best), likelihood), values)| {
            (Finished { record, groups: best.groups, likelihood }, values)
        })
        .collect()
}

/// Clustering rows that are all the same has no answer.
fn check_rows_differ(data: &Dataset) -> Result<()> {
    let d = data.n_columns();
    let (mut first, mut other) = (vec![0.0; d], vec![0.0; d]);
    data.row_into(0, &mut first);
    for i in 1..data.n_rows() {
        data.row_into(i, &mut other);
        if other != first {
            return Ok(());
        }
    }
    let problem = format!("all {} rows are the same: there is nothing to cluster", data.n_rows());
    Err(Error::data(data.source(), problem).with_hint("check that the right array or columns were read"))
}

/// Keeps one restart by the label-free score that was asked for.
fn choose<D: Device>(
    run: &Run<'_, D>,
    checksum: String,
    finished: Vec<(Finished, Vec<f32>)>,
    observer: &mut dyn Observer,
) -> Result<Fit> {
    let score = |record: &RestartRecord| match run.settings.settings.choose {
        Choice::Elbo => record.elbo().unwrap_or(f64::NEG_INFINITY),
        Choice::Modularity => record.kept_state().map_or(f64::NEG_INFINITY, |state| state.modularity),
    };
    let restarts: Vec<RestartRecord> = finished.iter().map(|(finished, _)| finished.record.clone()).collect();
    let chosen = (1..restarts.len())
        .fold(0, |best, i| if score(&restarts[i]) > score(&restarts[best]) { i } else { best });
    let mut assignments = Vec::new();
    let mut go_on = ask(observer, Stage::Joint, run.settings.epochs);
    let mut model = None;
    for (i, (done, values)) in finished.into_iter().enumerate() {
        let checksum = checksum.clone();
        let vade = Vade::assemble(run.data, checksum, run.settings, &run.architecture, values, done);
        assignments.push(vade.assign_asking(run.device, run.data, &mut go_on)?.clusters);
        if i == chosen {
            model = Some(vade);
        }
    }
    let mut model = model.expect("at least one restart");
    let stability = metrics::stability(&assignments)?;
    let summary = |record: &RestartRecord| RestartSummary {
        restart: record.restart,
        elbo: record.elbo(),
        scores: record.kept_state().cloned(),
    };
    let occupancy = metrics::occupancy(&assignments[chosen], model.n_clusters())?;
    model.finish(occupancy, restarts.iter().map(summary).collect(), stability);
    Ok(Fit { model, restarts, assignments, chosen, stability })
}
