//! `pervade assign`: the cluster of every row.

use std::borrow::Cow;

use clap::Args;
use pervade::compute::AnyDevice;
use pervade::data::{OutputRows, OutputTable, Table};
use pervade::model::{Assignments, Vade};
use pervade::{Result, metrics, on_device};
use serde_json::json;

use crate::args::{Common, ModelAndData, NamesArg};
use crate::console::Console;
use crate::files::Kind;
use crate::json::Object;
use crate::stream::{Job, OutArgs, Sink, Work};
use crate::{Outcome, words};

/// Assign every row to its most probable cluster
#[derive(Args)]
#[command(after_help = "Examples:
  pervade assign digits.pervade digits.csv.gz --labels column:last > clusters.csv
  pervade assign table.pervade new-rows.parquet --probabilities --out clusters.parquet
  pervade assign table.pervade table.csv --names table.names.json
  pervade assign table.pervade rows/ --out clusters/                       one file per part
  pervade assign table.pervade 'rows/part-*.parquet' --out clusters/ --part 2/8

A folder of .parquet, .npy or .csv files, or a pattern in quotes, is one table in parts. If the run is interrupted, the same
command goes on with the parts that are missing.

With names there is a column `name` after `cluster`. Rows of a cluster that was merged into another have that cluster's
number, and its probability is the sum of both; merged clusters have no column of their own among the probabilities.")]
pub(crate) struct AssignArgs {
    #[command(flatten)]
    both: ModelAndData,
    /// Add the probability of that cluster, and of every cluster
    #[arg(long)]
    probabilities: bool,
    #[command(flatten)]
    names: NamesArg,
    #[command(flatten)]
    to: OutArgs,
}

/// Runs it.
pub(crate) fn run(args: &AssignArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let plan = args.to.plan(&args.both.data)?;
    args.names.check_format(Kind::Table(plan.format()))?;
    let files = args.both.files(common).maybe_input("--names", args.names.names.as_deref());
    let _claim = plan.claim(files, console)?;
    let device = common.open_device(console)?;
    let (model, names) = args.names.apply(super::load(&args.both.model, console)?)?;
    let mut flags = args.both.read.flags();
    flags.insert("probabilities".to_string(), json!(args.probabilities));
    flags.insert("names".to_string(), json!(names.as_ref().map(|names| names.clusters())));
    let k = model.n_clusters();
    let living: Vec<usize> = (0..k).filter(|&cluster| model.has_components(cluster)).collect();
    let mut work = Assigning {
        device: &device,
        model: &model,
        headings: living.iter().map(|cluster| format!("cluster_{cluster}")).collect(),
        living,
        cluster_names: names.as_ref().map(super::cluster_names),
        probabilities: args.probabilities,
        occupancy: vec![0; k],
        keep: console.json && plan.out().is_none(),
        kept: Assignments::empty(k),
    };
    let job = Job {
        command: "assign",
        both: &args.both,
        model: &model,
        plan: &plan,
        console,
        original: false,
        numbers_rows: false,
        flags,
    };
    let done = job.run(&mut work)?;
    let (rows, clusters) = (words::counted(done.rows, "row"), words::counted(work.living.len(), "cluster"));
    console.say(&format!("assigned {rows} to {clusters}"));
    if !console.json {
        return Ok(Outcome::Done);
    }
    let occupancy = &work.occupancy;
    let object =
        Object::new([("rows", json!(done.rows)), ("clusters", json!(k)), ("occupancy", json!(occupancy))]);
    let object = match &names {
        Some(names) => object.value("names", json!(names.clusters())),
        None => object,
    };
    let object = match plan.out() {
        Some(_) => object.written(&plan, &done),
        None if args.probabilities => object.whole("assignments", &work.kept.clusters).rows(
            "probabilities",
            &work.kept.probabilities,
            k,
        ),
        None => object.whole("assignments", &work.kept.clusters),
    };
    console.result(&object, "")?;
    Ok(Outcome::Done)
}

/// The clusters of pieces of a table.
struct Assigning<'a> {
    device: &'a AnyDevice,
    model: &'a Vade,
    /// Clusters that were not merged into another, and the names of their columns.
    living: Vec<usize>,
    headings: Vec<String>,
    cluster_names: Option<Vec<String>>,
    probabilities: bool,
    /// Rows of each cluster so far.
    occupancy: Vec<u64>,
    /// Whether all results are kept, for JSON on stdout.
    keep: bool,
    kept: Assignments,
}

impl Work for Assigning<'_> {
    fn n_kept(&self) -> usize {
        if self.keep { 1 + self.model.n_clusters() } else { 0 }
    }

    fn write(&mut self, piece: &Table, out: &mut Sink<'_>) -> Result<()> {
        let found = on_device!(self.device, device => self.model.assign(device, &piece.data)?);
        let k = found.n_clusters;
        let own = |(row, &cluster): (usize, &u32)| found.probabilities[row * k + cluster as usize];
        let probability: Vec<f32> = found.clusters.iter().enumerate().map(own).collect();
        let values = self.of_living_clusters(&found);
        let all = OutputRows { values: &values, n_columns: self.living.len(), names: Some(&self.headings) };
        let single = self.probabilities.then_some(("probability", probability.as_slice()));
        out.add(&OutputTable {
            kept: piece.kept.as_ref(),
            clusters: Some(&found.clusters),
            cluster_names: self.cluster_names.as_deref(),
            singles: single.into_iter().collect(),
            rows: self.probabilities.then_some(all),
            cells: None,
        })?;
        let occupancy = metrics::occupancy(&found.clusters, k)?;
        self.occupancy.iter_mut().zip(occupancy).for_each(|(sum, n)| *sum += n);
        if self.keep {
            self.kept.clusters.extend(&found.clusters);
            self.kept.probabilities.extend(&found.probabilities);
        }
        Ok(())
    }
}

impl Assigning<'_> {
    /// The probabilities of each row for the clusters that were not merged into another.
    fn of_living_clusters<'f>(&self, found: &'f Assignments) -> Cow<'f, [f32]> {
        let k = found.n_clusters;
        if self.living.len() == k {
            return Cow::Borrowed(&found.probabilities);
        }
        let rows = found.probabilities.chunks_exact(k);
        Cow::Owned(rows.flat_map(|row| self.living.iter().map(|&cluster| row[cluster])).collect())
    }
}
