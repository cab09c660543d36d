//! `pervade reproduce`: the paper's tables and figures from the data, with a record of every run.

mod figures;
mod pixels;
mod record;
mod rows;
mod runs;
mod tables;
mod work;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use pervade::compute::AnyDevice;
use pervade::data::OutputFormat;
use pervade::{Error, Result, on_device};
use pervade_rivals::RivalDevice;
use serde::Serialize;
use serde_json::{Map, Value, json};

use self::figures::{Figure, Studio};
use self::rows::{DataSet, Rows, Which};
use self::tables::PaperTable;
use self::work::{Failed, labels_of, list, run_table};
use crate::args::Common;
use crate::console::Console;
use crate::files::{Claim, Files, Kind};
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
paper are files of the program (`crates/pervade-cli/rows` in its source); --rows gives it others. Every seed that is done stands \
in `OUT/records`, and is not run again. Labels only score. `vade` is what `pervade fit` does by itself, `vade-paper` the \
paper's recipe; their seeds are restarts of one fit, trained side by side on a GPU.")]
pub(crate) struct ReproduceArgs {
    /// What to make; figures of one command share what is trained for them
    #[arg(value_name = "WHAT", required = true)]
    what: Vec<What>,
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
    /// Accuracy of VaDE over the epochs, with the rivals' levels from table 2
    FigureAccuracy,
    /// VaDE's latents at some epochs, by t-SNE
    FigureLatents,
    /// Digits made by GMM, VAE, InfoGAN and VaDE
    FigureSamples,
    /// Representations of VAE, DEC and VaDE, by t-SNE
    FigureEmbeddings,
    /// Digits made by VaDE with 7 and 14 clusters
    FigureClusters,
    /// Everything
    All,
}

impl What {
    fn tables(wanted: &[What]) -> Vec<Which> {
        let all =
            [(What::Table1, Which::Table1), (What::Table2, Which::Table2), (What::Table3, Which::Table3)];
        Self::among(wanted, &all)
    }

    fn figures(wanted: &[What]) -> Vec<Figure> {
        let all = [
            (What::FigureAccuracy, Figure::Accuracy),
            (What::FigureLatents, Figure::Latents),
            (What::FigureSamples, Figure::Samples),
            (What::FigureEmbeddings, Figure::Embeddings),
            (What::FigureClusters, Figure::Clusters),
        ];
        Self::among(wanted, &all)
    }

    /// Those of `all` that are wanted, in their order.
    fn among<T: Copy>(wanted: &[What], all: &[(What, T)]) -> Vec<T> {
        let is_wanted = |what: &What| wanted.contains(what) || wanted.contains(&What::All);
        all.iter().filter(|(what, _)| is_wanted(what)).map(|(_, thing)| *thing).collect()
    }
}

/// Runs it.
pub(crate) fn run(args: &ReproduceArgs, common: &Common, console: &Console) -> Result<Outcome> {
    if args.seeds == Some(0) || args.quick.take == Some(0) {
        let name = if args.seeds == Some(0) { "seeds" } else { "take" };
        return Err(Error::setting(name, 0, "must be at least 1"));
    }
    let of = |which: Which| Ok((which, Rows::of(which, args.rows.as_deref())?));
    let tables: Vec<(Which, Rows)> = What::tables(&args.what).into_iter().map(of).collect::<Result<_>>()?;
    // Figures go by the settings of table 2.
    let figure_rows = of(Which::Table2)?;
    let known = if tables.is_empty() { std::slice::from_ref(&figure_rows) } else { &tables };
    rows::check_only(&args.only, known)?;
    if args.dry_run {
        return list(args, &tables, &What::figures(&args.what), console);
    }
    std::fs::create_dir_all(&args.out).map_err(|e| Error::io("create", &args.out, e))?;
    let _claim = args.claim(&tables, common, console)?;
    let device = common.open_device(console)?;
    let _polled = interrupt::poll();
    let mut made = Made::default();
    let ran = make_tables(args, tables, &device, console, &mut made);
    let ran = match ran {
        Err(error @ Error::Interrupted { .. }) => Err(error),
        ran => ran.and(make_figures(args, &figure_rows.1, &device, console, &mut made)),
    };
    if matches!(ran, Err(Error::Interrupted { .. })) {
        console.say("every seed that was done is in the records; the same command goes on from there");
    }
    made.failed.iter().for_each(|failed| Console::always(&format!("failed: {}", failed.words())));
    ran?;
    if console.json {
        console.result(&made, "")?;
    }
    Ok(match made.failed.len() {
        0 => Outcome::Done,
        n => Outcome::CheckFailed(format!("{} could not be reproduced", words::counted(n, "row"))),
    })
}

/// What a command leaves: tables and figures, and the rows whose method failed.
#[derive(Default, Serialize)]
struct Made {
    made: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Failed>,
}

/// All tables; the first error, once all that could be made was made.
fn make_tables(
    args: &ReproduceArgs,
    tables: Vec<(Which, Rows)>,
    device: &AnyDevice,
    console: &Console,
    made: &mut Made,
) -> Result<()> {
    let mut failed = Ok(());
    for (which, rows) in tables {
        let ran = match args.folder() {
            Some(folder) => {
                let name = device.name();
                let failed = &mut made.failed;
                on_device!(device, device => {
                    run_table(args, which, &rows, folder, device, &name, failed, console)
                })
            }
            None => Ok(()),
        };
        // What was done before something stopped it is in the table too.
        let table = PaperTable::load(which, rows, &args.out)?;
        if table.is_empty() {
            console.say(&format!("{}: no records in {}, no table", which.name(), args.out.display()));
            failed = failed.and(ran);
            continue;
        }
        let files = table.write(&args.out)?.map(|path| path.display().to_string());
        if !console.json {
            console.result(&Value::Null, table.markdown().trim_end())?;
        }
        console.say(&format!("wrote {}", files.join(" and ")));
        made.made.push(json!({"made": which.name(), "files": files}));
        failed = failed.and(ran);
        if matches!(failed, Err(Error::Interrupted { .. })) {
            break;
        }
    }
    failed
}

/// All figures: what their records lack is trained, then they are drawn.
fn make_figures(
    args: &ReproduceArgs,
    rows: &Rows,
    device: &AnyDevice,
    console: &Console,
    made: &mut Made,
) -> Result<()> {
    let figures = What::figures(&args.what);
    if figures.is_empty() {
        return Ok(());
    }
    let filled = match args.folder() {
        Some(folder) => {
            let name = device.name();
            on_device!(device, device => fill_records(args, rows, folder, (device, name), &figures, console))
        }
        None => Ok(()),
    };
    let mut drawn = 0;
    for figure in figures {
        if let Some(files) = figures::draw(figure, rows, &args.out)? {
            let entry = figures::made(figure, &files);
            console.say(&format!("wrote {} and {}", files[0].display(), files[1].display()));
            made.made.push(entry);
            drawn += 1;
        }
    }
    filled?;
    if drawn == 0 {
        let problem = "there are no figures' records here";
        return Err(
            Error::data(args.out.display(), problem).with_hint("run without `--redraw`, with `--data DIR`")
        );
    }
    Ok(())
}

/// Trains what the figures' records lack; the first error, once all others were made.
fn fill_records<D: RivalDevice>(
    args: &ReproduceArgs,
    rows: &Rows,
    folder: &Path,
    device: (&D, String),
    figures: &[Figure],
    console: &Console,
) -> Result<()> {
    let set = args.figure_set(rows)?;
    if let Some(path) = set.absent(folder) {
        return Err(Error::data(path.display(), "there is no such file or folder")
            .with_hint("`--data` is the folder that holds the data sets"));
    }
    let table = set.read(folder, console)?;
    let how = (args.seeds, args.again, args.out.as_path());
    let mut studio = Studio::new(set, rows, &table, &args.quick, how, device, console)?;
    let mut failed = Ok(());
    for &figure in figures {
        match studio.make(figure) {
            Err(error @ Error::Interrupted { .. }) => return Err(error),
            Err(error) => {
                console.say(&format!("figure-{}: {error}", figure.name()));
                failed = failed.and(Err(error));
            }
            Ok(()) => {}
        }
    }
    failed
}

impl ReproduceArgs {
    /// Checks all files of the command before it starts; one run at a time works on a folder of records.
    fn claim(&self, tables: &[(Which, Rows)], common: &Common, console: &Console) -> Result<Claim> {
        let files = Files::new(common.force)
            .maybe_input("--data", self.folder())
            .maybe_input("--rows", self.rows.as_deref())
            .folder(&self.out.join("records"));
        let files = tables.iter().fold(files, |files, (which, _)| {
            let [markdown, csv] = PaperTable::paths(*which, &self.out);
            files.output("--out", &markdown, Kind::Text).output("--out", &csv, Kind::Table(OutputFormat::Csv))
        });
        files.claim(console)
    }

    /// The data folder, where something may be run.
    fn folder(&self) -> Option<&Path> {
        self.data.as_deref().filter(|_| !self.redraw)
    }

    /// The data set of the figures: the one that `--only` names, or the first.
    fn figure_set<'r>(&self, rows: &'r Rows) -> Result<&'r DataSet> {
        let named =
            self.only.iter().map(|only| only.split(':').next().unwrap_or(only)).find(|name| !name.is_empty());
        let first = rows.sets.first().map(|set| set.name.as_str());
        rows.set(named.or(first).unwrap_or_default())
    }
}
