//! `pervade compare`: VaDE and its rivals on the same rows, with the same scores.

mod table;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use pervade::compute::Cpu;
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{Labels, Table};
use pervade::graph::PreparedGraph;
use pervade::metrics;
use pervade::seed::{Key, Stream};
use pervade::train::Observer;
use pervade::{Clusterer, Error, Result, on_device};
use pervade_rivals::Networks;
use pervade_rivals::RivalDevice;

use self::table::{Comparison, Format, MethodReport, RunReport};
use crate::args::{ColumnArgs, Common, ReadArgs};
use crate::console::Console;
use crate::files::{Files, Kind};
use crate::methods::{self, VADE};
use crate::report::LabelScores;
use crate::{Outcome, interrupt, outputs, words};

/// Compare VaDE with other methods on your rows: scores, deviation over seeds, seconds
#[derive(Args)]
pub(crate) struct CompareArgs {
    /// A table: .npy, .npz, .csv, .tsv, .parquet, IDX, svmlight, .mat (also .gz), or a folder of images, or the
    /// original folder of MNIST, STL-10, UCI HAR or RCV1-v2
    #[arg(value_name = "DATA")]
    data: PathBuf,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Methods, separated by commas, or `all`
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', default_value = "all")]
    methods: Vec<String>,
    /// Number of clusters, the same for all methods
    #[arg(long, short = 'k', value_name = "K")]
    clusters: Option<usize>,
    /// Runs of each method, with seeds 0, 1, ...
    #[arg(long, value_name = "N", default_value_t = 3)]
    seeds: usize,
    /// Save the table: .md, .csv or .json
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Deep methods: widths of the encoder's hidden layers [default: depends on the method]
    #[arg(long, value_name = "W,W,..", value_delimiter = ',')]
    hidden: Option<Vec<usize>>,
    /// Deep methods: epochs of pretraining [default: depends on the method]
    #[arg(long, value_name = "E")]
    pretrain_epochs: Option<usize>,
    /// Deep methods: epochs after pretraining [default: depends on the method]
    #[arg(long, value_name = "E")]
    epochs: Option<usize>,
}

/// A larger number of seeds is a typing error.
const MAX_SEEDS: usize = 100_000;
/// Maximum number of rows in the sample for the silhouette.
const SILHOUETTE_ROWS: usize = 2_000;
const EXAMPLES: &str = "Examples:
  pervade compare digits.csv.gz --labels column:last --clusters 10
  pervade compare table.npy --clusters 8 --methods vade,k-means,spectral --seeds 5 --out table.md

Each method gets the rows and a seed; labels are only used for scoring. All methods get the rows as `pervade fit` \
would prepare them; modularity and silhouette are computed on these rows and their graph of ten neighbours. \
Stability is the mean adjusted Rand index over all pairs of seeds. If a method fails, its line says why, and the \
others continue.

Methods:";

/// The end of the command's help: examples, and a description of every method.
pub(crate) fn list_methods(compare: clap::Command) -> clap::Command {
    let rivals = pervade_rivals::methods::<Cpu>();
    let all = VADE.iter().map(|vade| (vade.0, vade.2)).chain(rivals.iter().map(|m| (m.name, m.about)));
    let text = all.fold(EXAMPLES.to_string(), |text, (name, about)| text + &format!("\n  {name:<14}{about}"));
    compare.after_help(text)
}

/// Runs it.
pub(crate) fn run(args: &CompareArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let names = args.names()?;
    let format = args.out.as_deref().map(Format::of).transpose()?;
    let k = args.clusters.ok_or_else(|| {
        Error::setting("clusters", "missing", "must be a whole number of at least 2")
            .with_hint("add `--clusters 10`; `pervade fit DATA --clusters auto` finds a number")
    })?;
    if !(1..=MAX_SEEDS).contains(&args.seeds) {
        return Err(Error::setting("seeds", args.seeds, format!("must be between 1 and {MAX_SEEDS}")));
    }
    let kind = format.map_or(Kind::Text, Format::kind);
    let _claim = Files::new(common.force)
        .input("DATA", &args.data)
        .maybe_input("--labels", args.read.label_file().as_deref())
        .maybe_output("--out", args.out.as_deref(), kind)
        .claim(console)?;
    let device = common.open_device(console)?;
    let mut options = args.read.options()?;
    args.columns.add_to(&mut options)?;
    let table = args.read.read_with(&args.data, options, console)?;
    table.description.iter().for_each(|description| console.say(&format!("columns: {description}")));
    if k < 2 || k > table.data.n_rows() {
        let must = format!("must be between 2 and {}, the number of rows", table.data.n_rows());
        return Err(Error::setting("clusters", k, must));
    }
    // An error in the networks concerns all methods that have them.
    args.settings(Recipe::Robust, k).check(&table.data)?;
    let _polled = interrupt::poll();
    let methods = on_device!(&device, device => compare(args, &names, k, &table, device, console)?);
    let comparison = Comparison {
        data: outputs::name_of(&args.data),
        rows: table.data.n_rows(),
        columns: table.data.n_columns(),
        clusters: k,
        seeds: args.seeds,
        device: device.name(),
        threads: common.threads()?,
        labelled: table.labels.is_some(),
        methods,
    };
    if let (Some(path), Some(format)) = (&args.out, format) {
        comparison.write(path, format)?;
    }
    console.result(&comparison, comparison.markdown().trim_end())?;
    interrupt::check("comparing")?;
    // Runs from before the data changed are in the table.
    table.data.check_unchanged()?;
    Ok(Outcome::Done)
}

impl CompareArgs {
    /// The requested methods, in the order of the list.
    fn names(&self) -> Result<Vec<&'static str>> {
        let rivals = pervade_rivals::methods::<Cpu>();
        let all: Vec<&str> = VADE.iter().map(|v| v.0).chain(rivals.iter().map(|rival| rival.name)).collect();
        let wanted = |name: &&str| self.methods.iter().any(|typed| typed == "all" || typed == name);
        match self.methods.iter().find(|typed| *typed != "all" && !all.contains(&typed.as_str())) {
            Some(unknown) => {
                let must = format!("must be `all` or some of: {}", all.join(", "));
                Err(Error::setting("methods", format!("`{unknown}`"), must))
            }
            None => Ok(all.into_iter().filter(wanted).collect()),
        }
    }

    fn networks(&self) -> Networks {
        Networks { hidden: self.hidden.clone(), pretrain_epochs: self.pretrain_epochs, epochs: self.epochs }
    }

    fn settings(&self, recipe: Recipe, k: usize) -> Settings {
        self.networks().applied_to(Settings::recipe(recipe, Clusters::Fixed(k)))
    }

    /// The method of that name and its description.
    fn method<D: RivalDevice>(&self, name: &str, k: usize) -> Option<(Box<dyn Clusterer<D>>, &'static str)> {
        if let Some((_, recipe, about)) = VADE.iter().find(|vade| vade.0 == name) {
            return Some((Box::new(self.settings(*recipe, k)), about));
        }
        let method = pervade_rivals::method(name)?;
        Some((method.with_networks(k, &self.networks()), method.about))
    }
}

/// What all clusterings are scored against.
struct Reference<'t> {
    labels: Option<&'t Labels>,
    /// Prepared. `[N, D]`
    rows: Vec<f32>,
    graph: PreparedGraph,
    n_columns: usize,
}

impl Reference<'_> {
    fn score(&self, clusters: &[u32], seed: u64, seconds: f64) -> Result<RunReport> {
        let key = Key::new(0, Stream::Sample, 0);
        Ok(RunReport {
            seed,
            seconds,
            labelled: self.labels.map(|labels| LabelScores::new(clusters, labels)).transpose()?,
            modularity: self.graph.modularity(clusters)?,
            silhouette: metrics::silhouette(&self.rows, self.n_columns, clusters, SILHOUETTE_ROWS, key)?,
        })
    }
}

fn compare<D: RivalDevice>(
    args: &CompareArgs,
    names: &[&'static str],
    k: usize,
    table: &Table,
    device: &D,
    console: &Console,
) -> Result<Vec<MethodReport>> {
    let n_columns = table.data.n_columns();
    console.say(&format!(
        "{}: {} x {}; {} with {} each",
        args.data.display(),
        words::counted(table.data.n_rows(), "row"),
        words::counted(n_columns, "column"),
        words::counted(names.len(), "method"),
        words::counted(args.seeds, "seed")
    ));
    let rows = pervade_rivals::prepared_rows(&table.data)?;
    let checked = args.settings(Recipe::Robust, k).check(&table.data)?;
    let graph = PreparedGraph::new(device, &table.data, checked.preparation(), 0)?;
    // More than the table's own if it has categories.
    let n_columns = rows.len() / table.data.n_rows();
    let reference = Reference { labels: table.labels.as_ref(), rows, graph, n_columns };
    let mut reports = Vec::new();
    for name in names {
        let Some((method, about)) = args.method::<D>(name, k) else { continue };
        reports.push(run_method(args, name, about, method.as_ref(), table, &reference, device, console));
    }
    Ok(reports)
}

/// Runs all seeds of one method; a failure is printed and stored in its line.
fn run_method<D: RivalDevice>(
    args: &CompareArgs,
    name: &'static str,
    about: &'static str,
    method: &dyn Clusterer<D>,
    table: &Table,
    reference: &Reference<'_>,
    device: &D,
    console: &Console,
) -> MethodReport {
    let mut report = MethodReport { name, about, runs: Vec::new(), stability: None, problem: None };
    let mut partitions = Vec::new();
    report.problem = if interrupt::asked() {
        Some("interrupted".to_string())
    } else {
        table.data.check_unchanged().err().map(|error| error.to_string())
    };
    if report.problem.is_some() {
        return report;
    }
    let mut observer = observer(args, name, table, console);
    let seeds: Vec<u64> = (0..args.seeds as u64).collect();
    let mut started = Instant::now();
    let ran = method.cluster_each(&table.data, device, &seeds, observer.as_mut(), &mut |seed, found| {
        let clusters = found.assign(device, &table.data)?;
        let run = reference.score(&clusters, seed, started.elapsed().as_secs_f64())?;
        console.say(&format!("{name}, seed {seed}: {}", run.words()));
        partitions.push(clusters);
        report.runs.push(run);
        started = Instant::now();
        interrupt::check("comparing")
    });
    match ran {
        Err(Error::Interrupted { .. }) if partitions.len() < seeds.len() => {
            report.problem = Some("interrupted".to_string());
        }
        Err(error) if partitions.len() < seeds.len() => {
            console.say(&format!("{name}, seed {}: failed: {error}", partitions.len()));
            report.problem = Some(error.to_string());
        }
        _ => {}
    }
    report.stability = metrics::stability(&partitions).ok().flatten();
    report
}

/// The observer of a method.
fn observer<'c>(
    args: &CompareArgs,
    name: &str,
    table: &Table,
    console: &'c Console,
) -> Box<dyn Observer + 'c> {
    let vade = VADE.iter().find(|vade| vade.0 == name);
    let checked = vade.and_then(|(_, recipe, _)| args.settings(*recipe, 2).check(&table.data).ok());
    methods::observer(name, checked.as_ref(), console)
}
