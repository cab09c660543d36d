//! The whole algorithm: pretraining, mixture start, joint training, and the choice of a restart.

use std::ops::Range;

use crate::choice::{Compared, Fit, judge, model_of};
use crate::compute::{Alone, Device, Ranks};
use crate::config::CheckedSettings;
use crate::data::Dataset;
use crate::origin::origin;
use crate::ranks::{check_ranks, check_resumed};
use crate::record::Finished;
use crate::train::checkpoint::Checkpoints;
use crate::train::{
    EpochCallback, Event, NoCallback, Observer, Pack, Run, Save, Stage, TrainedRestart, current_trial,
    in_order, pretrain, require_memory, run_trial, save_or_report, start_mixture, train, train_towards_vote,
};
use crate::{Error, Hint, Result};

/// Fits VaDE to rows, without labels.
///
/// Small tables are fitted faster on a thread of a rayon pool (`pool.install(|| fit(...))`): from any other thread, each operation
/// wakes one of the pool's first.
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
    check_unchanged(data, &checksum, &fit).map_err(|error| match checkpoints {
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
    put_together(&run, checksum, finished, resumed, observer, &save_state)
}

/// The model of all restarts. After them, `finished` has the last model, if the run that is resumed had trained it.
fn put_together<D: Device>(
    run: &Run<'_, D>,
    checksum: &str,
    mut finished: Vec<(Finished, Vec<f32>)>,
    resumed: Option<Pack<D>>,
    observer: &mut dyn Observer,
    save_state: SaveState<'_, D>,
) -> Result<Fit> {
    let n_restarts = run.settings.settings.restarts;
    let compared = Compared::new(run, &finished[..n_restarts], observer)?;
    if finished.len() == n_restarts
        && let Some(mut pack) = compared.last_pack(run, resumed, &finished, observer)?
    {
        let mut save = |pack: &Pack<D>| save_state(Some(pack), &finished);
        train_towards_vote(run, &mut pack, observer, &mut save)?;
        finished.extend(finish(pack));
        save_or_report(observer, || save_state(None, &finished))?;
    }
    compared.finish(run, checksum, finished, observer)
}

/// Saves the pack in training and the finished restarts; the answer is whether there is a folder for it.
type SaveState<'s, D> = &'s dyn Fn(Option<&Pack<D>>, &[(Finished, Vec<f32>)]) -> Result<bool>;

/// Trains one of the restarts of [`fit`] on its own, in this process or in another: see [`fit_from_restarts`].
pub fn train_restart<D: Device>(
    data: &Dataset,
    settings: &CheckedSettings,
    device: &D,
    restart: usize,
    observer: &mut dyn Observer,
) -> Result<TrainedRestart> {
    let n_restarts = settings.settings.restarts;
    if restart >= n_restarts {
        let must = format!("must be below {n_restarts}, the number of restarts");
        return Err(Error::setting("restart", restart, must));
    }
    require_memory(device, data, settings, 1, false)?;
    let checksum = data.checksum();
    let trained = train_alone(data, settings, device, restart, observer);
    check_unchanged(data, &checksum, &trained)?;
    let (finished, values) = trained?;
    Ok(TrainedRestart::new(origin(settings, &checksum), device, finished, values))
}

/// [`train_restart`] without the checks of memory and of changed data.
fn train_alone<D: Device>(
    data: &Dataset,
    settings: &CheckedSettings,
    device: &D,
    restart: usize,
    observer: &mut dyn Observer,
) -> Result<(Finished, Vec<f32>)> {
    let run = begin(data, settings, device, observer)?;
    let mut pack = Pack::new(&run, restart..restart + 1)?;
    train_pack(&run, &mut pack, observer, &mut |_| Ok(false), &mut NoCallback)?;
    Ok(finish(pack).swap_remove(0))
}

/// What [`fit`] does after its restarts, for restarts that were each trained by [`train_restart`] with the same rows and
/// settings, in any order. On the CPU the result is that of [`fit`], to the byte; CUDA trains several restarts of [`fit`]
/// in parallel, which may round differently. Restarts of other rows, settings or versions are refused.
pub fn fit_from_restarts<D: Device>(
    data: &Dataset,
    settings: &CheckedSettings,
    device: &D,
    restarts: Vec<TrainedRestart>,
    observer: &mut dyn Observer,
) -> Result<Fit> {
    require_memory(device, data, settings, settings.settings.restarts, false)?;
    let checksum = data.checksum();
    let restarts = in_order(restarts, &origin(settings, &checksum), device, settings.settings.restarts)?;
    let fit = fit_from_ordered(data, &checksum, settings, device, restarts, observer);
    check_unchanged(data, &checksum, &fit)?;
    fit
}

/// [`fit_from_restarts`] without the checks of memory, of changed data, and of what the restarts were trained from.
fn fit_from_ordered<D: Device>(
    data: &Dataset,
    checksum: &str,
    settings: &CheckedSettings,
    device: &D,
    restarts: Vec<TrainedRestart>,
    observer: &mut dyn Observer,
) -> Result<Fit> {
    let run = begin(data, settings, device, observer)?;
    let finished = restarts.into_iter().map(|restart| restart.into_finished(&run)).collect::<Result<_>>()?;
    put_together(&run, checksum, finished, None, observer, &|_, _| Ok(false))
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
    let checksum = data.checksum();
    let run = begin(data, settings, device, observer)?;
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

/// The constant parts of a run in one process without checkpoints.
fn begin<'a, D: Device>(
    data: &'a Dataset<'a>,
    settings: &'a CheckedSettings,
    device: &'a D,
    observer: &mut dyn Observer,
) -> Result<Run<'a, D>> {
    check_rows_differ(data)?;
    let run = Run::new(device, data, settings)?;
    Ok(Run { judge: judge(&run, observer)?, ..run })
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

/// Returns an error if the data changed while `result` was computed.
fn check_unchanged<T>(data: &Dataset, checksum: &str, result: &Result<T>) -> Result<()> {
    match result {
        // The data were checked when the checkpoint was saved.
        Err(Error::Interrupted { .. }) => data.check_unchanged(),
        // Any other error may be due to changed data.
        _ => data.check_unchanged_since(checksum),
    }
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
