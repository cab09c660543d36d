//! `pervade fit`: rows in, a model out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use pervade::compute::{AnyDevice, Device};
use pervade::config::CheckedSettings;
use pervade::data::{Dataset, Table};
use pervade::train::checkpoint::Checkpoints;
use pervade::{Error, Fit, Result, on_device};

use crate::args::{Common, ReadArgs};
use crate::console::Console;
use crate::progress::{Plan, Progress};
use crate::report::{FitReport, RunRecord, Seconds, summary, travelling_command};
use crate::settings::{self, SettingFlags};
use crate::{Outcome, interrupt, outputs};

/// Fit a model to rows: pretrain, start the mixture, train jointly
#[derive(Args)]
#[command(after_help = "Examples:
  pervade fit digits.csv.gz --labels column:last --clusters 10
  pervade fit features.npz --clusters auto --restarts 5 --out features.pervade")]
pub(crate) struct FitArgs {
    /// A table: .npy, .npz, .csv, .tsv, .parquet, IDX, svmlight, .mat (also .gz), or a folder of images, or the
    /// original folder of MNIST, STL-10, UCI HAR or RCV1-v2
    #[arg(value_name = "DATA")]
    data: PathBuf,
    #[command(flatten)]
    read: ReadArgs,
    /// Where the model goes [default: DATA's name with .pervade, in the current folder]
    #[arg(long, short, value_name = "MODEL")]
    out: Option<PathBuf>,
    /// Folder of the checkpoint, or `none`; it is removed when the model is written [default: MODEL.checkpoint]
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    /// Continue from the checkpoint that an interrupted run left
    #[arg(long)]
    resume: bool,
    /// Least seconds between checkpoints; 0 saves after every epoch
    #[arg(long, value_name = "S", default_value_t = 20.0, value_parser = settings::finite)]
    checkpoint_seconds: f64,
    /// Write every event as a line of JSON
    #[arg(long, value_name = "FILE.jsonl")]
    log: Option<PathBuf>,
    /// Write the full record of the run: settings, timings, scores, every epoch
    #[arg(long, value_name = "FILE.json")]
    record: Option<PathBuf>,
    /// Settings from a file; flags override it
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags,
}

/// Runs it.
pub(crate) fn run(args: &FitArgs, typed: &[OsString], common: &Common, console: &Console) -> Result<Outcome> {
    let started = Instant::now();
    let device = common.open_device(console)?;
    let settings = args.settings.resolve(args.config.as_deref())?;
    let out = args.out.clone().unwrap_or_else(|| settings::default_model(&args.data));
    outputs::check(&[Some(&out), args.log.as_deref(), args.record.as_deref()])?;
    let table = args.read.read(&args.data)?;
    let read = started.elapsed();
    console.say(&told(&table.data, &args.data, &out, args.out.is_none()));
    let checked = settings.check(&table.data)?;
    let checkpoints = args.checkpoints(&out, console)?;
    let every = checkpoints.as_ref().map(|_| args.save_every()).transpose()?;
    let mut progress = Progress::new(console, Plan::new(&checked, every), args.log.as_deref(), started);
    interrupt::listen(checkpoints.is_some());
    let fit = on_device!(&device, device => {
        fit_and_save(&table.data, &checked, device, &mut progress, checkpoints.as_ref(), &out)?
    });
    let seconds = Seconds::new(read, progress.spent(), started);
    drop(progress);
    let report = FitReport::new(&fit, &out, table.labels.as_ref(), seconds)?;
    console.say(&summary(&report, &fit, &args.read.typed(&args.data)));
    console.result(&report, "")?;
    if let Some(path) = &args.record {
        write_record(path, &args.data, typed, common, &device, report, &fit)?;
    }
    Ok(Outcome::Done)
}

/// Fits, writes the model and removes the checkpoint, which only an interruption leaves behind.
fn fit_and_save<D: Device>(
    data: &Dataset,
    settings: &CheckedSettings,
    device: &D,
    progress: &mut Progress<'_>,
    checkpoints: Option<&Checkpoints>,
    out: &Path,
) -> Result<Fit> {
    let earlier = checkpoints.is_some_and(Checkpoints::exists);
    let fit = pervade::fit(data, settings, device, progress, checkpoints)
        .and_then(|fit| fit.model.save(out).map(|()| fit));
    match (&fit, checkpoints) {
        (Ok(_), Some(place)) => place.remove(),
        // Ctrl-C leaves it for `--resume`; what an earlier run left is not ours to remove.
        (Err(Error::Interrupted { .. }), Some(_)) => {}
        // A device that was lost may come back.
        (Err(Error::Device { .. }), Some(place)) if place.exists() => {}
        (Err(_), Some(place)) if !earlier => place.remove(),
        _ => {}
    }
    fit
}

/// What was read and where the result will go.
fn told(data: &Dataset, path: &Path, out: &Path, out_is_default: bool) -> String {
    let rows = crate::words::counted(data.n_rows(), "row");
    let columns = crate::words::counted(data.n_columns(), "column");
    let goes = if out_is_default { format!("; the model will be {}", out.display()) } else { String::new() };
    format!("read {}: {rows} x {columns}{goes}", path.display())
}

impl FitArgs {
    /// The folder asked for, or one beside the model where that is a plain file.
    fn checkpoints(&self, out: &Path, console: &Console) -> Result<Option<Checkpoints>> {
        let folder = match &self.checkpoint {
            Some(folder) if folder.as_os_str() == "none" && self.resume => {
                return Err(Error::setting("checkpoint", "none", "but `--resume` needs a checkpoint"));
            }
            Some(folder) if folder.as_os_str() == "none" => return Ok(None),
            Some(folder) => folder.clone(),
            None if out.exists() && !out.is_file() => return Ok(None),
            None => {
                let mut name = out.as_os_str().to_os_string();
                name.push(".checkpoint");
                PathBuf::from(name)
            }
        };
        let place = Checkpoints { folder, resume: self.resume };
        match (self.resume, place.exists()) {
            (true, true) => console.say(&format!("resuming from {}", place.folder.display())),
            (true, false) => {
                console.say(&format!("no checkpoint in {}: starting from the beginning", place.folder.display()));
            }
            (false, true) => console.say(&format!(
                "note: {} holds the checkpoint of an interrupted run, which will be replaced; `--resume` would continue it",
                place.folder.display()
            )),
            (false, false) => {}
        }
        Ok(Some(place))
    }

    fn save_every(&self) -> Result<Duration> {
        Duration::try_from_secs_f64(self.checkpoint_seconds).map_err(|_| {
            Error::setting(
                "checkpoint-seconds",
                self.checkpoint_seconds,
                "must be a number of seconds, 0 or more",
            )
        })
    }
}

/// The record of the run, free of machine paths.
fn write_record(
    path: &Path,
    data: &Path,
    typed: &[OsString],
    common: &Common,
    device: &AnyDevice,
    mut report: FitReport<'_>,
    fit: &Fit,
) -> Result<()> {
    let about = fit.model.metadata();
    report.model = outputs::name_of(Path::new(&report.model));
    let record = RunRecord {
        command: travelling_command(typed),
        version: env!("CARGO_PKG_VERSION"),
        device: device.name(),
        threads: common.threads()?,
        data: outputs::name_of(data),
        result: report,
        settings: &about.settings,
        preparation: about.preparation.kind().to_string(),
        likelihood: about.likelihood,
        data_checksum: &about.data_checksum,
        history: &fit.restarts,
    };
    outputs::json(&record, path)
}

/// A fit without files around it, for `demo` and `doctor`.
pub(crate) fn fit_table<D: Device>(
    table: &Table,
    settings: pervade::config::Settings,
    device: &D,
    console: &Console,
) -> Result<(Fit, [Duration; 3])> {
    let checked = settings.check(&table.data)?;
    let mut progress = Progress::new(console, Plan::new(&checked, None), None, Instant::now());
    let fit = pervade::fit(&table.data, &checked, device, &mut progress, None)?;
    Ok((fit, progress.spent()))
}
