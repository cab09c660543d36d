//! The command line: commands, shared flags, and how data are specified.

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, CommandFactory, Parser, Subcommand};
use pervade::compute::{AnyDevice, KernelCache, Precision};
use pervade::data::{ColumnSpec, ImageShape, LabelSource, OutputFormat, ReadOptions, Table};
use pervade::files::KernelFolder;
use pervade::model::Vade;
use pervade::names::ClusterNames;
use pervade::{Error, Result};
use serde_json::{Map, Value, json};

use crate::cache::cache_folder;
use crate::commands::{
    assign, bench, card, compare, completions, demo, describe, doctor, evaluate, explore, export, fit,
    generate, impute, inspect, map, reference, report, reproduce, rows,
};
use crate::console::Console;
use crate::files::{Files, Kind};
use crate::{settings, shell};

/// Clusters data by Variational Deep Embedding: assigns every row to a cluster, maps rows to a small
/// latent space and generates new rows. It never needs labels.
#[derive(Parser)]
#[command(name = "pervade", version, propagate_version = true, after_help = FIRST_STEPS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

const FIRST_STEPS: &str = "First steps:
  pervade demo                              see it work on handwritten digits, in under a minute
  pervade fit table.csv --clusters 10       cluster your own rows; writes table.pervade
  pervade assign table.pervade table.csv    the cluster of every row";

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    Demo(demo::DemoArgs),
    Fit(Box<fit::FitArgs>),
    Report(report::ReportArgs),
    Explore(explore::ExploreArgs),
    Assign(assign::AssignArgs),
    Describe(describe::DescribeArgs),
    Map(map::MapArgs),
    Embed(rows::EmbedArgs),
    Generate(generate::GenerateArgs),
    Impute(impute::ImputeArgs),
    Reconstruct(rows::ReconstructArgs),
    Score(rows::ScoreArgs),
    Evaluate(evaluate::EvaluateArgs),
    Compare(compare::CompareArgs),
    Reproduce(reproduce::ReproduceArgs),
    Inspect(inspect::InspectArgs),
    Export(export::ExportArgs),
    Card(card::CardArgs),
    Bench(bench::BenchArgs),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Reference(reference::ReferenceArgs),
}

const EVERYWHERE: &str = "Everywhere";

/// Flags of every command.
#[derive(Args)]
pub(crate) struct Common {
    /// Print one JSON object on stdout
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
    /// Print nothing on stderr but errors
    #[arg(long, short, global = true, help_heading = EVERYWHERE)]
    pub(crate) quiet: bool,
    /// Overwrite an output file even if it exists and is of another kind
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) force: bool,
    /// Threads to use; the result does not depend on it [default: all cores]
    #[arg(long, global = true, value_name = "T", help_heading = EVERYWHERE)]
    threads: Option<usize>,
    /// Device to compute on: auto, cpu, cuda, or cuda:N for the N-th device from 0
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "DEVICE")]
    #[arg(default_value = "auto")]
    device: String,
    /// Rounding of the factors of matrix products on CUDA: tf32 is faster and less precise
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "P")]
    #[arg(default_value = "fp32", value_parser = ["fp32", "tf32"])]
    precision: String,
    /// Where CUDA keeps the rows: auto leaves tables that are too large for the device in the host's memory
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "WHERE")]
    #[arg(default_value = "auto", value_parser = ["auto", "device", "host"])]
    rows_on: String,
}

/// A larger number of threads is a typing error.
const MAX_THREADS: usize = 4096;

impl Common {
    /// The requested number of threads, by default all cores, or this rank's part of them.
    pub(crate) fn threads(&self) -> Result<usize> {
        match self.threads {
            None => Ok(crate::ranks::default_threads()),
            Some(n) if (1..=MAX_THREADS).contains(&n) => Ok(n),
            Some(n) => Err(Error::setting("threads", n, format!("must be between 1 and {MAX_THREADS}"))),
        }
    }

    /// The requested device.
    pub(crate) fn open_device(&self, console: &Console) -> Result<AnyDevice> {
        let precision = if self.precision == "tf32" { Precision::Tf32 } else { Precision::Fp32 };
        let kernels = cache_folder().map(KernelFolder::new);
        let kernels = kernels.as_ref().map(|folder| folder as &dyn KernelCache);
        let (mut device, why_not_cuda) =
            AnyDevice::open(&crate::ranks::own_device(&self.device), precision, kernels)?;
        device.keep_rows_on(self.rows_on.parse().unwrap_or_default());
        if crate::ranks::may_share_device() {
            device.share_device();
        }
        if let Some(reason) = why_not_cuda {
            console.say(&format!("note: using the CPU, because {reason}"));
        }
        Ok(device)
    }
}

/// How rows and their labels are read.
#[derive(Args, Clone, Default)]
pub(crate) struct ReadArgs {
    /// Known labels: a file, `column:NAME`, `column:last`, or an array such as `y`. Used for scoring, never for
    /// training. A column named here is not part of the data
    #[arg(long, value_name = "L")]
    pub(crate) labels: Option<String>,
    /// Which array of an .npz or .mat file is the table
    #[arg(long, value_name = "NAME")]
    array: Option<String>,
    /// The rows are images: HEIGHTxWIDTH, or HEIGHTxWIDTHx3 for colour
    #[arg(long, value_name = "HxW")]
    image: Option<String>,
    /// Columns that are not clustered but go along to the results, such as ids
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    keep_columns: Vec<String>,
    /// Words for missing cells, beside an empty cell, NA, NaN, null, None, ?, . and -
    #[arg(long, value_name = "WORD,..", value_delimiter = ',', allow_hyphen_values = true)]
    missing: Vec<String>,
    /// Numbers of a text table have a decimal comma, as in 3,14 or 1.234,56
    #[arg(long)]
    decimal_comma: bool,
}

/// Types of columns, for commands that fit a model.
#[derive(Args, Clone, Default)]
pub(crate) struct ColumnArgs {
    /// Type of a column, if the inferred one is wrong: number, positive (an amount on a logarithmic scale), count,
    /// yes/no, category, `ordered: LOW < .. < HIGH`, date, or keep (not clustered). Can be repeated
    #[arg(long = "type", value_name = "NAME=TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Missing cells mean something: clusters may also differ in which cells are missing
    #[arg(long)]
    missing_informative: bool,
}

impl ColumnArgs {
    /// Adds what was typed to the options for reading; of two types for one column the one that was typed counts.
    pub(crate) fn add_to(&self, options: &mut ReadOptions) -> Result<()> {
        options.types.extend(self.parsed()?);
        options.missing_informative |= self.missing_informative;
        Ok(())
    }

    /// The types as typed, by name.
    fn parsed(&self) -> Result<Vec<(String, ColumnSpec)>> {
        let each = self.types.iter().map(|text| {
            // A name may have `=` in it, a type has none.
            let Some((name, spec)) = text.rsplit_once('=') else {
                return Err(Error::setting("type", format!("`{text}`"), "must be like `age=count`"));
            };
            Ok((name.trim().to_string(), spec.trim().parse()?))
        });
        each.collect()
    }
}

impl ReadArgs {
    /// Arguments as if typed.
    pub(crate) fn new(labels: Option<String>, image: Option<String>) -> Self {
        Self { labels, image, ..Self::default() }
    }

    /// The label file, if the labels are not part of the data.
    pub(crate) fn label_file(&self) -> Option<PathBuf> {
        match self.labels.as_deref()?.parse() {
            Ok(LabelSource::File(path)) => Some(path),
            // It is read if the data offer no labels of that name.
            Ok(LabelSource::Named(name)) => Some(PathBuf::from(name)).filter(|path| path.is_file()),
            _ => None,
        }
    }

    /// The data arguments as typed, for the command line of another command.
    pub(crate) fn typed(&self, path: &Path) -> String {
        let column = self.labels.as_deref().filter(|labels| labels.starts_with("column:"));
        let labels = column.map_or(String::new(), |labels| format!(" --labels {}", shell::word(labels)));
        let array =
            self.array.as_ref().map_or(String::new(), |array| format!(" --array {}", shell::word(array)));
        let comma = if self.decimal_comma { " --decimal-comma" } else { "" };
        format!("{}{labels}{array}{comma}", shell::word(&path.to_string_lossy()))
    }

    /// The options for reading, as typed.
    pub(crate) fn options(&self) -> Result<ReadOptions> {
        let labels = self.labels.as_deref().map(str::parse).transpose()?;
        Ok(ReadOptions::default().with(|o| {
            o.labels = labels;
            o.array.clone_from(&self.array);
            o.keep.clone_from(&self.keep_columns);
            o.missing.clone_from(&self.missing);
            o.decimal_comma = self.decimal_comma;
        }))
    }

    /// Reads the table at `path`.
    pub(crate) fn read(&self, path: &Path, console: &Console) -> Result<Table> {
        self.read_with(path, self.options()?, console)
    }

    /// Reads the table at `path` with more options, and prints what is to be said about its cells.
    pub(crate) fn read_with(&self, path: &Path, options: ReadOptions, console: &Console) -> Result<Table> {
        let table = pervade::data::read(path, &self.options_with(options)?)?;
        table.notes.iter().for_each(|note| console.say(&format!("note: {note}")));
        say_labels(&table, path, console);
        self.with_image(table)
    }

    /// The options for rows that may be images.
    pub(crate) fn options_with(&self, mut options: ReadOptions) -> Result<ReadOptions> {
        let shape = self.image.as_deref().map(parse_image).transpose()?;
        if shape.is_some() && options.schema.is_none() {
            // Pixels have no types of their own.
            options.plain.get_or_insert_default();
        }
        Ok(options)
    }

    /// The table with the shape of its images, if one was given.
    pub(crate) fn with_image(&self, mut table: Table) -> Result<Table> {
        let Some(shape) = self.image.as_deref().map(parse_image).transpose()? else { return Ok(table) };
        let pixels = shape.height * shape.width * shape.channels;
        if pixels != table.data.n_columns() {
            let must = format!("which is {pixels} values, but the rows have {}", table.data.n_columns());
            return Err(Error::setting("image", self.image.as_deref().unwrap_or_default(), must));
        }
        table.data = table.data.with_image(shape);
        Ok(table)
    }

    /// The flags as typed, by name.
    pub(crate) fn flags(&self) -> Map<String, Value> {
        let flags = [
            ("labels", json!(self.labels)),
            ("array", json!(self.array)),
            ("image", json!(self.image)),
            ("keep-columns", json!(self.keep_columns)),
            ("missing", json!(self.missing)),
            ("decimal-comma", json!(self.decimal_comma)),
        ];
        flags.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }
}

/// Says where labels were found that could also be a file.
pub(crate) fn say_labels(table: &Table, path: &Path, console: &Console) {
    if let Some(LabelSource::Named(name)) = &table.labels_from
        && Path::new(name).is_file()
    {
        console.say(&format!(
            "note: the labels are `{name}` in {}, not the file of that name (for that, `--labels ./{name}`)",
            path.display()
        ));
    }
}

fn parse_image(text: &str) -> Result<ImageShape> {
    const MOST: usize = 1 << 16;
    let sizes: Option<Vec<usize>> =
        text.split('x').map(|part| part.parse().ok().filter(|n| (1..=MOST).contains(n))).collect();
    match sizes.as_deref() {
        Some(&[height, width]) => Ok(ImageShape { height, width, channels: 1 }),
        Some(&[height, width, channels @ (1 | 3)]) => Ok(ImageShape { height, width, channels }),
        _ => Err(Error::setting("image", format!("`{text}`"), "must be like 28x28 or 32x32x3")),
    }
}

/// A fitted model and the rows to use it on.
#[derive(Args)]
pub(crate) struct ModelAndData {
    /// A model that `pervade fit` wrote
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Rows with the columns that the model was fitted on
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

impl ModelAndData {
    /// All input files.
    pub(crate) fn files(&self, common: &Common) -> Files {
        Files::new(common.force)
            .input("MODEL", &self.model)
            .input("DATA", &self.data)
            .maybe_input("--labels", self.read.label_file().as_deref())
    }
}

/// Names of clusters.
#[derive(Args)]
pub(crate) struct NamesArg {
    /// Names and merges of clusters, as `pervade explore` writes them
    #[arg(long, value_name = "FILE.json")]
    pub(crate) names: Option<PathBuf>,
}

impl NamesArg {
    /// Returns an error if names were given for a file that cannot hold them.
    pub(crate) fn check_format(&self, kind: Kind) -> Result<()> {
        if self.names.is_some() && kind == Kind::Table(OutputFormat::Npy) {
            return Err(Error::setting("out", "a .npy file", "which cannot hold the names of `--names`")
                .with_hint("write a .csv or .parquet file"));
        }
        Ok(())
    }

    /// The model with merged clusters, and the names, if there are any.
    pub(crate) fn apply(&self, model: Vade) -> Result<(Vade, Option<ClusterNames>)> {
        let Some(path) = &self.names else { return Ok((model, None)) };
        let names = ClusterNames::load(path, &model)?;
        Ok((names.applied_to(&model)?, Some(names)))
    }
}

/// The whole command line; the help of `fit` states the defaults of the recipes, `compare` lists its methods.
pub(crate) fn command() -> clap::Command {
    Cli::command()
        .mut_subcommand("fit", settings::state_defaults)
        .mut_subcommand("compare", compare::list_methods)
        .mut_subcommands(explain_numbers)
}

/// Errors about numbers that say what is wrong: `--clusters -3` is a wrong value of the flag, not an unknown flag `-3`, and
/// `--seed -1` must be a whole number, where clap would say "invalid digit found in string".
fn explain_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let has_value = arg.get_action().takes_values() && !arg.is_positional();
            let arg = arg.allow_negative_numbers(has_value);
            match arg.get_value_parser().type_id() {
                id if id == TypeId::of::<usize>() => arg.value_parser(whole::<usize>),
                id if id == TypeId::of::<u64>() => arg.value_parser(whole::<u64>),
                _ => arg,
            }
        })
        .mut_subcommands(explain_numbers)
}

/// The arguments with numbers such as `-1e-3`, which clap takes for flags, joined to the flags before them: `--epsilon=-1e-3`.
pub(crate) fn with_joined_numbers(args: &[OsString]) -> Vec<OsString> {
    let n_before_files = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let is_flag = |arg: &OsStr| arg.as_encoded_bytes().starts_with(b"-");
    let is_number = |arg: &OsStr| {
        arg.to_str().is_some_and(|text| text.contains(['e', 'E']) && text.parse::<f64>().is_ok())
    };
    let mut joined: Vec<OsString> = Vec::new();
    for arg in &args[..n_before_files] {
        match joined.last_mut() {
            Some(flag) if is_flag(flag) && is_flag(arg) && is_number(arg) => {
                flag.push("=");
                flag.push(arg);
            }
            _ => joined.push(arg.clone()),
        }
    }
    joined.extend_from_slice(&args[n_before_files..]);
    joined
}

fn whole<T: FromStr>(text: &str) -> std::result::Result<T, String> {
    let is_too_large = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let must = if is_too_large {
        format!("be at most {}", u64::MAX)
    } else {
        "be a whole number of at least 0".into()
    };
    text.parse().map_err(|_| format!("must {must}"))
}
