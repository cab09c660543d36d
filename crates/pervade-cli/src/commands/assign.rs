//! `pervade assign`: the cluster of every row.

use std::borrow::Cow;

use clap::Args;
use pervade::data::{OutputRows, OutputTable};
use pervade::model::{Assignments, Vade};
use pervade::{Result, metrics, on_device};
use serde_json::json;

use super::rows::OutArgs;
use crate::args::{Common, ModelAndData, NamesArg};
use crate::console::Console;
use crate::json::Object;
use crate::{Outcome, outputs, words};

/// Assign every row to its most probable cluster
#[derive(Args)]
#[command(after_help = "Examples:
  pervade assign digits.pervade digits.csv.gz --labels column:last > clusters.csv
  pervade assign table.pervade new-rows.parquet --probabilities --out clusters.parquet
  pervade assign table.pervade table.csv --names table.names.json

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
    let kind = args.to.kind()?;
    args.names.check_format(kind)?;
    let files = args.both.files(common).maybe_input("--names", args.names.names.as_deref());
    let _claim = files.maybe_output("--out", args.to.out.as_deref(), kind).claim(console)?;
    let (device, model, table, names) = super::open_named(&args.both, &args.names, common, console)?;
    let found = on_device!(&device, device => model.assign(device, &table.data)?);
    let k = found.n_clusters;
    let probability: Vec<f32> = found
        .clusters
        .iter()
        .enumerate()
        .map(|(row, &cluster)| found.probabilities[row * k + cluster as usize])
        .collect();
    let (columns, values) = of_living_clusters(&model, &found);
    let headings: Vec<String> = columns.iter().map(|cluster| format!("cluster_{cluster}")).collect();
    let all = OutputRows { values: &values, n_columns: columns.len(), names: Some(&headings) };
    let cluster_names = names.as_ref().map(super::cluster_names);
    let written = OutputTable {
        kept: table.kept.as_ref(),
        clusters: Some(&found.clusters),
        cluster_names: cluster_names.as_deref(),
        singles: args.probabilities.then_some(("probability", probability.as_slice())).into_iter().collect(),
        rows: args.probabilities.then_some(all),
        cells: None,
    };
    outputs::table(&written, args.to.out.as_deref(), console)?;
    let occupancy = metrics::occupancy(&found.clusters, k)?;
    let rows = words::counted(found.clusters.len(), "row");
    console.say(&format!("assigned {rows} to {}", words::counted(columns.len(), "cluster")));
    if !console.json {
        return Ok(Outcome::Done);
    }
    let n = found.clusters.len();
    let object = Object::new([("rows", json!(n)), ("clusters", json!(k)), ("occupancy", json!(occupancy))]);
    let object = match &names {
        Some(names) => object.value("names", json!(names.clusters())),
        None => object,
    };
    let object = match &args.to.out {
        Some(out) => object.value("out", json!(out.display().to_string())),
        None if args.probabilities => {
            object.whole("assignments", &found.clusters).rows("probabilities", &found.probabilities, k)
        }
        None => object.whole("assignments", &found.clusters),
    };
    console.result(&object, "")?;
    Ok(Outcome::Done)
}

/// Clusters that were not merged into another, and the probabilities of each row for these.
fn of_living_clusters<'a>(model: &Vade, found: &'a Assignments) -> (Vec<usize>, Cow<'a, [f32]>) {
    let k = found.n_clusters;
    let columns: Vec<usize> = (0..k).filter(|&cluster| model.has_components(cluster)).collect();
    if columns.len() == k {
        return (columns, Cow::Borrowed(&found.probabilities));
    }
    let rows = found.probabilities.chunks_exact(k);
    let values = rows.flat_map(|row| columns.iter().map(|&cluster| row[cluster])).collect();
    (columns, Cow::Owned(values))
}
