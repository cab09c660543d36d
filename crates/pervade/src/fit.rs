//! The whole algorithm: pretraining, mixture start, joint training, and the choice of a restart.

use std::ops::Range;

use crate::choice::{Compared, Fit, judge, model_of};
use crate::compute::{Alone, Device, Ranks};
use crate::config::CheckedSettings;
use crate::data::Dataset;
use crate::ranks::{check_ranks, check_resumed};
use crate::record::Finished;
use crate::train::checkpoint::Checkpoints;
use crate::train::{
    EpochCallback, Event, NoCallback, Observer, Pack, Run, Save, Stage, current_trial, pretrain,
    require_memory, run_trial, save_or_report, start_mixture, train, train_towards_vote,
};
use crate::{Error, Hint, Result};

/// Fits VaDE to rows, without labels.
pub fn fit<D: Device>(
    data: &Dataset,
    settings: &CheckedSettings,
    device: &D,
    observer: &mut dyn Observer,
    checkpoints: Option<&Checkpoints>,
) -> Result<Fit> {
    fit_on_ranks(data, settings, device, &Alone, observer, checkpoints)
}

/// [`fit`] by several processes together, each of which calls this function with the same rows and settings; all get the
/// same model, whatever their number. The observer must give the same answer on all ranks. Only rank 0 writes checkpoints.
pub fn fit_on_ranks<D: Device>(
    data: &Dataset,
    settings: &CheckedSettings,
    device: &D,
    ranks: &dyn Ranks,
    observer: &mut dyn Observer,
    checkpoints: Option<&Checkpoints>,
) -> Result<Fit> {
    require_memory(device, data, settings, settings.settings.restarts, checkpoints.is_some())?;
    let checksum = data.checksum();
    check_ranks(ranks, settings, &checksum)?;
    let fit = fit_from(data, &checksum, settings, device, ranks, observer, checkpoints);
    let unchanged = match &fit {
        // The data were checked when the checkpoint was saved.
        Err(Error::Interrupted { .. }) => data.check_unchanged(),
        // Any other error may be due to changed data.
        _ => data.check_unchanged_since(&checksum),
    };
    unchanged.map_err(|error| match checkpoints {
        Some(checkpoints) if checkpoints.exists() => error.with_hint(
            Hint::new("leave the file alone while a run reads it; the checkpoint is kept: restore the file and use ")
                .setting("resume")
                .text(", or start again"),
        ),
        _ => error,
    })?;
    fit
}

/// [`fit`] without the checks of memory and of changed data.
fn fit_from<D: Device>(
    data: &Dataset,
    checksum: &str,
    settings: &CheckedSettings,
    device: &D,
    ranks: &dyn Ranks,
    observer: &mut dyn Observer,
    checkpoints: Option<&Checkpoints>,
) -> Result<Fit> {
    check_rows_differ(data)?;
    let run = Run { ranks, ..Run::new(device, data, settings)? };
    let is_first_rank = ranks.rank() == 0;
    checkpoints.filter(|_| is_first_rank).map_or(Ok(()), Checkpoints::prepare)?;
    // Before anything is trained: rows that it cannot take are refused now.
    let run = Run { judge: judge(&run, observer)?, ..run };
    let (mut finished, mut resumed) = match checkpoints {
        Some(checkpoints) if checkpoints.resume && checkpoints.exists() => {
            checkpoints.load(&run, checksum, observer)?
        }
        _ => (Vec::new(), None),
    };
    check_resumed(ranks, &progress_of(&finished, resumed.as_ref()))?;
    let save_state = |pack: Option<&Pack<D>>, finished: &[_]| match checkpoints.filter(|_| is_first_rank) {
        Some(checkpoints) => {
            // The state in a checkpoint was always trained on the data of its checksum.
            data.check_unchanged_since(checksum)?;
            checkpoints.save(&run, checksum, pack, finished).map(|()| true)
        }
        None => Ok(false),
    };
    let n_restarts = settings.settings.restarts;
    while finished.len() < n_restarts {
        let first = finished.len();
        let n_parallel = device.restarts_at_once(n_restarts - first).clamp(1, n_restarts - first);
        let mut pack = match resumed.take() {
            Some(pack) => pack,
            None => Pack::new(&run, first..first + n_parallel)?,
        };
        let mut save = |pack: &Pack<D>| save_state(Some(pack), &finished);
        train_pack(&run, &mut pack, observer, &mut save, &mut NoCallback)?;
        finished.extend(finish(pack));
        save_or_report(observer, || save_state(None, &finished))?;
    }
    let compared = Compared::new(&run, &finished[..n_restarts], observer)?;
    if finished.len() == n_restarts
        && let Some(mut pack) = compared.last_pack(&run, resumed.take(), &finished, observer)?
    {
        let mut save = |pack: &Pack<D>| save_state(Some(pack), &finished);
        train_towards_vote(&run, &mut pack, observer, &mut save)?;
        finished.extend(finish(pack));
        save_or_report(observer, || save_state(None, &finished))?;
    }
    compared.finish(&run, checksum, finished, observer)
}

/// Trains the given restarts, in parallel if the device can, and passes their models to the callback. Restart r is the
/// one that [`fit`] would train with the same settings.
pub fn fit_restarts<D: Device>(
    data: &Dataset,
    settings: &CheckedSettings,
    device: &D,
    restarts: Range<usize>,
    observer: &mut dyn Observer,
    callback: &mut dyn EpochCallback<D>,
) -> Result<()> {
    require_memory(device, data, settings, restarts.len(), false)?;
    check_rows_differ(data)?;
    let checksum = data.checksum();
    let run = Run::new(device, data, settings)?;
    let run = Run { judge: judge(&run, observer)?, ..run };
    let mut first = restarts.start;
    while first < restarts.end {
        let left = restarts.end - first;
        let n_parallel = device.restarts_at_once(left).clamp(1, left);
        let mut pack = Pack::new(&run, first..first + n_parallel)?;
        let trained = train_pack(&run, &mut pack, observer, &mut |_| Ok(false), callback);
        data.check_unchanged_since(&checksum)?;
        trained?;
        let models = finish(pack).into_iter().map(|(done, values)| model_of(&run, &checksum, done, values));
        callback.on_models(models.collect())?;
        first += n_parallel;
    }
    Ok(())
}

/// Runs all stages, from the pack's current state.
fn train_pack<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
    callback: &mut dyn EpochCallback<D>,
) -> Result<()> {
    loop {
        let trial = current_trial(run, pack);
        if let Some(start) = trial {
            observer.event(&Event::StartBegan { restart: pack.state.restarts.start, start });
        }
        if pack.state.stage == Stage::Pretrain {
            pretrain(run, pack, observer, save)?;
        }
        if pack.state.stage == Stage::Mixture {
            start_mixture(run, pack, observer, save)?;
            callback.on_epoch_end(run, pack)?;
        }
        if trial.is_none() {
            return train(run, pack, observer, save, callback);
        }
        run_trial(run, pack, observer, save)?;
    }
}

/// Where a resumed run continues, in words.
fn progress_of<D: Device>(finished: &[(Finished, Vec<f32>)], pack: Option<&Pack<D>>) -> String {
    match pack.map(|pack| &pack.state) {
        None if finished.is_empty() => "the beginning".to_string(),
        None => format!("the end of restart {}", finished.len()),
        Some(state) => {
            let (stage, epoch, step) = (state.stage.name(), state.epoch, state.step);
            format!("{stage}, restart {}, epoch {epoch}, step {step}", state.restarts.start)
        }
    }
}

/// The kept state of each restart in a trained pack.
fn finish<D: Device>(pack: Pack<D>) -> Vec<(Finished, Vec<f32>)> {
    let state = pack.state;
    let parts = state.records.into_iter().zip(state.best).zip(state.likelihoods).zip(pack.best_values);
    parts
        .map(|(((record, best), likelihood), values)| {
            (Finished { record, groups: best.groups, likelihood }, values)
        })
        .collect()
}

/// Returns an error if all rows are the same: there is then nothing to cluster.
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
