//! `pervade fit`: trains a model on rows.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use pervade::compute::{AnyDevice, Device};
use pervade::data::{Dataset, OutputFormat, OutputTable, Parts, ReadOptions, Table};
use pervade::train::checkpoint::Checkpoints;
use pervade::{Error, Fit, Result, on_device};

use crate::args::{ColumnArgs, Common, ReadArgs};
use crate::column_names::name_columns;
use crate::console::Console;
use crate::files::{Files, Kind};
use crate::page::{self, Caller, MAX_POINTS, Subject};
use crate::progress::{Plan, Progress};
use crate::ranks::Job;
use crate::report::{FitReport, RunRecord, Seconds, summary, travelling_command};
use crate::settings::{self, Config, SettingFlags};
use crate::stream::RowProgress;
use crate::tensorboard::TensorBoard;
use crate::{Outcome, interrupt, outputs, shell, words};

/// Fit a model to rows: pretrain, start the mixture, train jointly
#[derive(Args)]
#[command(after_help = "Examples:
  pervade fit digits.csv.gz --labels column:last --clusters 10
  pervade fit features.npz --clusters auto --restarts 5 --out features.pervade
  pervade fit rows/ --clusters 10 --out rows.pervade                       a folder of Parquet files
  mpiexec -n 4 pervade fit large.npy --clusters 20 --batch 2048 --shares 4 --ranks mpi")]
pub(crate) struct FitArgs {
    /// A table: .npy, .npz, .csv, .tsv, .parquet, IDX, svmlight, .mat (also .gz); a folder of .parquet, .npy or .csv
    /// files, or a pattern in quotes, which are one table in parts; a folder of images; or the original folder of MNIST,
    /// STL-10, UCI HAR or RCV1-v2
    #[arg(value_name = "DATA")]
    data: PathBuf,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Names of the columns, one per line of a text file, if the table has none: terms of a sparse matrix, features of
    /// an array
    #[arg(long, value_name = "FILE")]
    column_names: Option<PathBuf>,
    /// Model file to write [default: DATA's name with .pervade, in the current folder]
    #[arg(long, short, value_name = "MODEL")]
    out: Option<PathBuf>,
    /// Folder of the checkpoint, or `none`; it is removed when the model is written [default: MODEL.checkpoint]
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    /// Continue from the checkpoint that an interrupted run left
    #[arg(long)]
    resume: bool,
    /// Minimum number of seconds between checkpoints; 0 saves after every epoch
    #[arg(long, value_name = "S", default_value_t = 20.0, value_parser = settings::finite)]
    checkpoint_seconds: f64,
    /// Folder for a temporary file with the rows of all Parquet or .npy parts, which is used instead of memory [default:
    /// the folder of MODEL]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Write every event as a line of JSON to this file
    #[arg(long, value_name = "FILE.jsonl")]
    log: Option<PathBuf>,
    /// Write the full record of the run to this file: settings, timings, scores, every epoch
    #[arg(long, value_name = "FILE.json")]
    record: Option<PathBuf>,
    /// Write the cluster of every row to this file (.csv, .npy, .parquet), and the share of restarts that agree on it
    #[arg(long, value_name = "FILE")]
    assignments: Option<PathBuf>,
    /// Write a page about the clusters to this file, as `pervade report` does
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write curves of training, and latents for the projector, to a new run in this folder: `tensorboard --logdir DIR`
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
    /// Train by several processes together, which a launcher of MPI starts: `mpiexec -n 4 pervade fit .. --shares 4
    /// --ranks mpi`
    #[arg(long, value_name = "HOW", value_parser = ["mpi"])]
    ranks: Option<String>,
    /// Settings from a file, and types of columns in its table `[columns]`; flags override it
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags,
}

/// Runs it; of several ranks, only the first talks and writes.
pub(crate) fn run(args: &FitArgs, typed: &[OsString], common: &Common, console: &Console) -> Result<Outcome> {
    let job = Job::open(args.ranks.as_deref(), console)?;
    let silent = Console { json: false, quiet: true };
    let result = run_on(args, typed, common, &job, if job.is_first() { console } else { &silent });
    job.end(result, console)
}

fn run_on(
    args: &FitArgs,
    typed: &[OsString],
    common: &Common,
    job: &Job,
    console: &Console,
) -> Result<Outcome> {
    let started = Instant::now();
    let config = Config::read(args.config.as_deref())?;
    let settings = args.settings.resolve(&config)?;
    let mut options = args.read.options()?;
    (options.types, options.missing_informative) = (config.columns, config.missing_informative);
    args.columns.add_to(&mut options)?;
    let out = args.out.clone().unwrap_or_else(|| settings::default_model(&args.data));
    let checkpoints = args.checkpoints(&out)?;
    let every = checkpoints.as_ref().map(|_| args.save_every()).transpose()?;
    let files = args.files(&out, checkpoints.as_ref(), common)?;
    let _claim = job.is_first().then(|| files.claim(console)).transpose()?;
    let device = common.open_device(console)?;
    let mut table = args.read_table(options, &out, console)?;
    if let Some(names) = &args.column_names {
        table = name_columns(table, names)?;
    }
    let read = started.elapsed();
    console.say(&data_summary(&table.data, &args.data, &out, args.out.is_none()));
    table.description.iter().for_each(|description| console.say(&format!("columns: {description}")));
    let checked = settings.check(&table.data)?;
    checkpoints.iter().for_each(|checkpoints| announce_checkpoint(checkpoints, console));
    let curves = args.tensorboard.as_deref().filter(|_| job.is_first());
    let curves =
        curves.map(|folder| TensorBoard::new(folder, &out, checked.settings().restarts, args.resume));
    let log = args.log.as_deref().filter(|_| job.is_first());
    let mut progress = Progress::new(console, Plan::new(&checked, every), log, started);
    progress.set_tensorboard(curves);
    let polled = interrupt::poll();
    let fit = on_device!(&device, device => {
        let mut observer = job.observer(&mut progress);
        pervade::fit_on_ranks(&table.data, &checked, device, job, &mut observer, checkpoints.as_ref())
    });
    let fit = fit.inspect_err(|error| announce_kept_checkpoint(error, checkpoints.as_ref(), console))?;
    if !job.is_first() {
        return Ok(Outcome::Done);
    }
    interrupt::wait_for_writing();
    save(&fit, &out, progress.is_saved(), checkpoints.as_ref())?;
    drop(polled);
    let seconds = Seconds::new(read, progress.spent(), started);
    let curves = progress.take_tensorboard();
    drop(progress);
    let mut report = FitReport::new(&fit, &out, table.labels.as_ref(), seconds)?;
    report.ranks = job.report(device.device_exchange());
    console.say(&summary(&report, &fit, &args.read.typed(&args.data)));
    // Before the result, so that no failure follows it.
    if let Some(path) = &args.assignments {
        let agreement = fit.agreement()?;
        assignments(&fit, agreement.as_deref(), &table).write(path)?;
    }
    if let Some(path) = &args.report {
        args.write_report(path, &out, &fit, &table, &device, console)?;
    }
    if let Some(curves) = curves {
        on_device!(&device, device => curves.finish(&fit, &table, device, console)?);
    }
    if let Some(path) = &args.record {
        write_record(path, &args.data, typed, common, &device, report.clone(), &fit)?;
    }
    console.result(&report, "")?;
    Ok(Outcome::Done)
}

/// Writes the model, then removes the checkpoint. If the model cannot be written, the checkpoint has the finished fit;
/// if that could not be written either, the model goes to the system's temporary folder.
fn save(fit: &Fit, out: &Path, is_saved: bool, checkpoints: Option<&Checkpoints>) -> Result<()> {
    let checkpoint = checkpoints.filter(|checkpoints| checkpoints.exists());
    let Err(error) = fit.model.save(out) else {
        checkpoints.iter().for_each(|checkpoints| checkpoints.remove());
        return Ok(());
    };
    if let Some(checkpoints) = checkpoint.filter(|_| is_saved) {
        let folder = checkpoints.folder.display();
        return Err(error.with_hint(format!(
            "nothing is lost: the same command with `--resume --checkpoint {folder} --out ELSEWHERE` writes the \
             model without training again"
        )));
    }
    let elsewhere = || -> Option<PathBuf> {
        let folder = tempfile::Builder::new().prefix("pervade-").tempdir().ok()?;
        fit.model.save(&folder.path().join(outputs::name_of(out))).ok()?;
        Some(folder.keep().join(outputs::name_of(out)))
    };
    Err(match elsewhere() {
        Some(path) => {
            error.with_hint(format!("nothing is lost: the model is in `{}` instead", path.display()))
        }
        None => error,
    })
}

/// Prints what an existing checkpoint means for the run.
fn announce_checkpoint(checkpoints: &Checkpoints, console: &Console) {
    let folder = checkpoints.folder.display();
    match (checkpoints.resume, checkpoints.exists()) {
        (true, true) => {
            interrupt::set_resumable();
            console.say(&format!("resuming from {folder}"));
        }
        (true, false) => console.say(&format!("no checkpoint in {folder}: starting from the beginning")),
        (false, true) => console.say(&format!(
            "note: {folder} holds the checkpoint of an interrupted run, which will be replaced; `--resume` would continue it"
        )),
        (false, false) => {}
    }
}

/// After an error, prints that the checkpoint can be used again once the cause is fixed.
fn announce_kept_checkpoint(error: &Error, checkpoints: Option<&Checkpoints>, console: &Console) {
    // An interruption has its own message.
    let interrupted = matches!(error, Error::Interrupted { .. });
    if let Some(checkpoints) =
        checkpoints.filter(|checkpoints| checkpoints.exists() && !interrupted && interrupt::resumable())
    {
        console.say(&format!(
            "note: the checkpoint in {} is kept; `--resume` continues from it",
            checkpoints.folder.display()
        ));
    }
}

/// A summary of the data and of where the model will be written.
fn data_summary(data: &Dataset, path: &Path, out: &Path, out_is_default: bool) -> String {
    let rows = words::counted(data.n_rows(), "row");
    let columns = words::counted(data.n_source_columns(), "column");
    let goes = if out_is_default { format!("; the model will be {}", out.display()) } else { String::new() };
    format!("read {}: {rows} x {columns}{goes}", path.display())
}

impl FitArgs {
    /// Reads the table; the rows of parts go to a temporary file if that is possible.
    fn read_table(&self, options: ReadOptions, out: &Path, console: &Console) -> Result<Table> {
        let options = self.read.options_with(options)?;
        let parts = Parts::find(&self.data)?;
        let spool = parts.as_ref().map(|parts| parts.spool(&options)).transpose()?.flatten();
        let Some(spool) = spool else {
            return self.read.read_with(&self.data, options, console);
        };
        let beside = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = self.scratch.as_deref().unwrap_or(beside);
        let (rows, bytes) = (words::counted(spool.n_rows(), "row"), words::bytes(spool.n_bytes()));
        console.say(&format!("copying {rows} into a temporary file of {bytes} in {}", folder.display()));
        let n_rows = spool.n_rows();
        let progress = RowProgress::new("copying", console);
        progress.expect(n_rows);
        let table = spool.write(folder, |n| progress.add(n - progress.rows()))?;
        self.read.with_image(table)
    }

    /// All files of the command.
    fn files(&self, out: &Path, checkpoints: Option<&Checkpoints>, common: &Common) -> Result<Files> {
        let table = self.assignments.as_deref().map(OutputFormat::of).transpose()?;
        let checkpoint = checkpoints.map(Checkpoints::path);
        let files = Files::new(common.force)
            .input("DATA", &self.data)
            .maybe_input("--labels", self.read.label_file().as_deref())
            .maybe_input("--column-names", self.column_names.as_deref())
            .maybe_input("--config", self.config.as_deref())
            .output("--out", out, Kind::Model)
            .maybe_output("--record", self.record.as_deref(), Kind::Json)
            .maybe_output("--report", self.report.as_deref(), Kind::Html)
            .maybe_output("--log", self.log.as_deref(), Kind::Json)
            .maybe_shared_folder("--tensorboard", self.tensorboard.as_deref())
            .maybe_output("--checkpoint", checkpoint.as_deref(), Kind::Checkpoint);
        Ok(match table {
            Some(format) => {
                files.maybe_output("--assignments", self.assignments.as_deref(), Kind::Table(format))
            }
            None => files,
        })
    }

    fn write_report(
        &self,
        path: &Path,
        out: &Path,
        fit: &Fit,
        table: &Table,
        device: &AnyDevice,
        console: &Console,
    ) -> Result<()> {
        let subject = Subject {
            model: &fit.model,
            table: table.into(),
            caller: Caller::Command {
                model: shell::word(&outputs::name_of(out)).into_owned(),
                data: self.read.typed(outputs::name_of(&self.data).as_ref()),
            },
            title: outputs::name_of(&self.data),
            points: MAX_POINTS,
            names: None,
        };
        on_device!(device, device => page::write(&subject, device, path, console)?);
        Ok(())
    }

    /// The requested folder, or one next to the model if that is a regular file.
    fn checkpoints(&self, out: &Path) -> Result<Option<Checkpoints>> {
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
        let checkpoints = Checkpoints::new(folder);
        Ok(Some(if self.resume { checkpoints.resuming() } else { checkpoints }))
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

/// The record of the run, without paths of the machine.
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
        consensus_history: fit.is_consensus().then_some(&about.record),
    };
    outputs::json(&record, path)
}

/// The clusters of the rows and the share of restarts that agree on each, unless one restart was chosen.
fn assignments<'a>(fit: &'a Fit, agreement: Option<&'a [f32]>, table: &'a Table) -> OutputTable<'a> {
    let agreement = agreement.map(|agreement| ("agreement", agreement));
    let (kept, clusters) = (table.kept.as_ref(), Some(fit.clusters.as_slice()));
    OutputTable { kept, clusters, singles: agreement.into_iter().collect(), ..OutputTable::default() }
}

/// A fit without files, for `demo` and `doctor`.
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
