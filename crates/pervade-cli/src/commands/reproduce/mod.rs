//! `pervade reproduce`: the paper's tables and figures from the data, with a record of every run.

mod neighbours;
mod record;
mod rows;
mod runs;
mod tables;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use pervade::compute::Device;
use pervade::data::{Labels, Table, check_writable};
use pervade::{Error, Result, on_device};
use serde_json::{Map, Value, json};

use self::record::{Record, Run};
use self::rows::{DataSet, Row, Rows, Which};
use self::runs::{How, Measure, Scores, Working};
use self::tables::PaperTable;
use crate::args::Common;
use crate::console::Console;
use crate::{Outcome, interrupt, words};

/// Reproduce the tables and figures of the VaDE paper, with a record of every run
#[derive(Args)]
#[command(after_help = "Examples:
  pervade reproduce table2 --data DIR --only mnist:gmm          one row, ten seeds
  pervade reproduce table2 --data DIR --only mnist --device cuda
  pervade reproduce table2 --data DIR --dry-run                 what would be run, and which files are there
  pervade reproduce all --redraw                                tables and figures from the records alone

DIR holds mnist/ (the four original files), har/har.npz, reuters10k/x.npz and y.npy, \
cifar10-resnet50/features.npz; a data set that is not there is left out, and its lines say so. The rows of the \
paper are files of the program (`repro/rows` in its source); --rows gives it others. Every seed that is done stands \
in `OUT/records`, and is not run again. Labels only score.")]
pub(crate) struct ReproduceArgs {
    /// What to make
    #[arg(value_name = "WHAT")]
    what: What,
    /// Folder of the data sets
    #[arg(long, value_name = "DIR", required_unless_present = "redraw")]
    data: Option<PathBuf>,
    /// Only these rows
    #[arg(long, value_name = "DATASET:METHOD,..", value_delimiter = ',')]
    only: Vec<String>,
    /// Seeds 0, 1, ... of each row [default: the row's own, mostly 10]
    #[arg(long, value_name = "N")]
    seeds: Option<usize>,
    /// Folder of records, tables and figures
    #[arg(long, short, value_name = "DIR", default_value = "repro")]
    out: PathBuf,
    /// Own rows instead of the paper's: a file with `[[data]]` and `[[row]]`
    #[arg(long, value_name = "FILE.toml")]
    rows: Option<PathBuf>,
    /// Run again what the records have
    #[arg(long)]
    again: bool,
    /// List the rows, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Make tables and figures from the records, and run nothing
    #[arg(long, conflicts_with_all = ["again", "dry_run"])]
    redraw: bool,
    #[command(flatten)]
    quick: Quick,
}

const QUICK: &str = "For a quick look (records and tables say so)";

/// Flags that change the rows.
#[derive(Args)]
struct Quick {
    /// Only the first N rows of the data (of either part where there is a split)
    #[arg(long, value_name = "N", help_heading = QUICK)]
    take: Option<usize>,
    /// Widths of the encoder's hidden layers
    #[arg(long, value_name = "W,W,..", value_delimiter = ',', help_heading = QUICK)]
    hidden: Option<Vec<usize>>,
    /// Epochs of pretraining
    #[arg(long, value_name = "E", help_heading = QUICK)]
    pretrain_epochs: Option<usize>,
    /// Epochs of what follows
    #[arg(long, value_name = "E", help_heading = QUICK)]
    epochs: Option<usize>,
}

impl Quick {
    /// Those that settings know.
    fn settings(&self) -> Map<String, Value> {
        let all = [
            ("hidden", self.hidden.as_ref().map(|widths| json!(widths))),
            ("pretrain_epochs", self.pretrain_epochs.map(|n| json!(n))),
            ("epochs", self.epochs.map(|n| json!(n))),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))).collect()
    }

    /// All of them.
    fn all(&self) -> Map<String, Value> {
        let mut all = self.settings();
        all.extend(self.take.map(|n| ("take".to_string(), json!(n))));
        all
    }
}

/// What can be made.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Statistics of the data sets
    Table1,
    /// Clustering accuracy of all methods on all data sets
    Table2,
    /// Error of a k-nearest-neighbour classifier on the latents of MNIST
    Table3,
    /// Everything
    All,
}

impl What {
    fn tables(self) -> Vec<Which> {
        match self {
            What::Table1 => vec![Which::Table1],
            What::Table2 => vec![Which::Table2],
            What::Table3 => vec![Which::Table3],
            What::All => vec![Which::Table1, Which::Table2, Which::Table3],
        }
    }
}

/// Runs it.
pub(crate) fn run(args: &ReproduceArgs, common: &Common, console: &Console) -> Result<Outcome> {
    if args.seeds == Some(0) || args.quick.take == Some(0) {
        let name = if args.seeds == Some(0) { "seeds" } else { "take" };
        return Err(Error::setting(name, 0, "must be at least 1"));
    }
    let of = |which: &Which| Rows::of(*which, args.rows.as_deref());
    let tables: Vec<Rows> = args.what.tables().iter().map(of).collect::<Result<_>>()?;
    rows::check_only(&args.only, &tables)?;
    if args.dry_run {
        return list(args, &tables, console);
    }
    std::fs::create_dir_all(&args.out).map_err(|e| Error::io("create", &args.out, e))?;
    check_writable(&args.out.join("table"))?;
    let device = common.open_device(console)?;
    interrupt::listen(false);
    let mut done = Vec::new();
    let mut failed = Ok(());
    for (which, rows) in args.what.tables().into_iter().zip(tables) {
        let ran = match &args.data {
            Some(folder) if !args.redraw => {
                let name = device.name();
                on_device!(&device, device => run_table(args, which, &rows, folder, device, &name, console))
            }
            _ => Ok(()),
        };
        // What was done before something stopped it is in the table too.
        let table = PaperTable::load(which, rows, &args.out)?;
        let files = table.write(&args.out)?.map(|path| path.display().to_string());
        if !console.json {
            console.result(&Value::Null, table.markdown().trim_end())?;
        }
        console.say(&format!("wrote {}", files.join(" and ")));
        done.push(json!({"made": which.name(), "files": files}));
        failed = failed.and(ran);
        if matches!(failed, Err(Error::Interrupted { .. })) {
            break;
        }
    }
    failed?;
    if console.json {
        console.result(&done, "")?;
    }
    Ok(Outcome::Done)
}

/// All selected rows of a table, a data set after the other, each read once.
fn run_table<D: Device>(
    args: &ReproduceArgs,
    which: Which,
    rows: &Rows,
    folder: &Path,
    device: &D,
    device_name: &str,
    console: &Console,
) -> Result<()> {
    let selected = rows.selected(&args.only);
    let mut absent = None;
    let mut found_any = false;
    let mut refused = None;
    for set in &rows.sets {
        let rows: Vec<&Row> = selected.iter().copied().filter(|row| row.data == set.name).collect();
        if rows.is_empty() {
            continue;
        }
        if let Some(path) = set.absent(folder) {
            console.say(&format!("{}: skipped, there is no {}", set.title, path.display()));
            absent.get_or_insert(path);
            continue;
        }
        found_any = true;
        let table = set.read(folder)?;
        for row in rows {
            match run_row(args, which, row, set, &table, device, device_name, console) {
                Ok(()) => {}
                Err(error @ Error::Interrupted { .. }) => return Err(error),
                Err(error) => {
                    console.say(&format!("{} on {}: {error}", row.method, row.data));
                    refused.get_or_insert(error);
                }
            }
        }
    }
    match (absent, refused) {
        (_, Some(error)) => Err(error),
        (Some(path), None) if !found_any => {
            Err(Error::data(path.display(), "there is no such file or folder").with_hint(
                "`--data` is the folder that holds the data sets; `--dry-run` lists what is looked for",
            ))
        }
        _ => Ok(()),
    }
}

/// One row; what its method fails with is kept in its record, what cannot be begun is an error.
fn run_row<D: Device>(
    args: &ReproduceArgs,
    which: Which,
    row: &Row,
    set: &DataSet,
    table: &Table,
    device: &D,
    device_name: &str,
    console: &Console,
) -> Result<()> {
    let path = Record::place(&args.out, which, row);
    let earlier = if args.again { None } else { Record::load(&path)? };
    if which == Which::Table1 {
        let runs = vec![statistics(table, device_name)?];
        return new_record(args, which, row, &table.data, Map::new(), runs).save(&path);
    }
    let overrides = args.quick.settings();
    let how = How::<D>::of(row, set.clusters, &overrides)?;
    let measure = measure(which, set, table, args.quick.take)?;
    let settings = how.settings(row, set.clusters, &overrides);
    let record =
        new_record(args, which, row, measure.data(), settings, Vec::new()).continuing(earlier, &path)?;
    let seeds = args.seeds.unwrap_or(row.seeds);
    let missing = record.missing(seeds).len();
    let told = format!("{} on {} ({})", row.method, row.data, words::counted(measure.data().n_rows(), "row"));
    if missing == 0 {
        console.say(&format!("{told}: {} in the record already", words::counted(seeds, "seed")));
        return Ok(());
    }
    console.say(&format!("{told}: {} to run", words::counted(missing, "seed")));
    let device_name = device_name.to_string();
    let mut work =
        Working { device, device_name, measure: &measure, record, path, console, since: Instant::now() };
    match work.run(&how, seeds) {
        Err(error) if !matches!(error, Error::Interrupted { .. }) => {
            console.say(&format!("{} on {}: failed: {error}", row.method, row.data));
            work.record.problem = Some(error.to_string());
            work.record.save(&work.path)
        }
        other => other,
    }
}

fn new_record(
    args: &ReproduceArgs,
    which: Which,
    row: &Row,
    data: &pervade::data::Dataset,
    settings: Map<String, Value>,
    runs: Vec<Run>,
) -> Record {
    Record {
        table: which,
        data: row.data.clone(),
        method: row.method.clone(),
        rows: data.n_rows(),
        columns: data.n_columns(),
        data_checksum: data.checksum(),
        settings,
        overrides: if which == Which::Table1 { Map::new() } else { args.quick.all() },
        runs,
        problem: None,
    }
}

/// Table 1 of a data set.
fn statistics(table: &Table, device: &str) -> Result<Run> {
    let labels = labels_of(table)?;
    let counts = [table.data.n_rows(), table.data.n_columns(), labels.names().len()];
    let scores = ["rows", "columns", "clusters"].iter().zip(counts);
    let scores: Scores = scores.map(|(name, count)| ((*name).to_string(), count as f64)).collect();
    let (device, version) = (device.to_string(), env!("CARGO_PKG_VERSION").to_string());
    Ok(Run { seed: 0, scores, seconds: 0.0, side_by_side: 1, device, version })
}

fn labels_of(table: &Table) -> Result<&Labels> {
    table.labels.as_ref().ok_or_else(|| {
        Error::data(table.data.source(), "there are no labels")
            .with_hint("the data set needs `labels` or `label_file`")
    })
}

/// What a row of the table is held against; `take` leaves the first rows only.
fn measure<'t>(which: Which, set: &DataSet, table: &'t Table, take: Option<usize>) -> Result<Measure<'t>> {
    let (n, labels) = (table.data.n_rows(), labels_of(table)?);
    let part = |range: std::ops::Range<usize>| {
        let end = take.map_or(range.end, |take| range.end.min(range.start + take));
        range.start..end
    };
    if which != Which::Table3 {
        let rows = part(0..n);
        let ids: Vec<i64> = labels.ids()[rows.clone()].iter().map(|&id| i64::from(id)).collect();
        return Ok(Measure::Clusters { data: table.data.slice(rows), labels: Labels::from_integers(&ids) });
    }
    let split = set.train_rows.filter(|&train| train > 0 && train < n).ok_or_else(|| {
        let problem =
            format!("table 3 needs `train_rows` between 1 and {}, the number of rows less one", n - 1);
        Error::data(&set.name, problem)
    })?;
    let (train, test) = (part(0..split), part(split..n));
    Ok(Measure::Neighbours {
        train_labels: labels.ids()[train.clone()].to_vec(),
        train: table.data.slice(train),
        test_labels: labels.ids()[test.clone()].to_vec(),
        test: table.data.slice(test),
    })
}

/// `--dry-run`: rows, seeds that are done, and whether the data are there.
fn list(args: &ReproduceArgs, tables: &[Rows], console: &Console) -> Result<Outcome> {
    let mut lines = Vec::new();
    for (which, rows) in args.what.tables().into_iter().zip(tables) {
        for row in rows.selected(&args.only) {
            let path = Record::place(&args.out, which, row);
            let seeds = args.seeds.unwrap_or(row.seeds);
            let done = Record::load(&path)?.map_or(0, |record| seeds - record.missing(seeds).len());
            let absent = args.data.as_deref().and_then(|folder| rows.set(&row.data).ok()?.absent(folder));
            lines.push(json!({
                "table": which.name(), "data": row.data, "method": row.method, "seeds": seeds, "done": done,
                "absent": absent.map(|path| path.display().to_string()),
            }));
        }
    }
    let shown = |line: &Value| {
        let text = |key: &str| crate::settings::short(&line[key]);
        let absent = if line["absent"].is_null() {
            String::new()
        } else {
            format!("; there is no {}", text("absent"))
        };
        format!(
            "{}  {}:{}  {} of {} seeds done{absent}",
            text("table"),
            text("data"),
            text("method"),
            text("done"),
            text("seeds")
        )
    };
    let text: Vec<String> = lines.iter().map(shown).collect();
    console.result(&lines, &text.join("\n"))?;
    Ok(Outcome::Done)
}
