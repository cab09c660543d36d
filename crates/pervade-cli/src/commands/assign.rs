//! `pervade assign`: the cluster of every row.

use clap::Args;
use pervade::data::{OutputRows, OutputTable};
use pervade::{Result, metrics, on_device};
use serde_json::json;

use super::rows::OutArgs;
use crate::args::{Common, ModelAndData};
use crate::console::Console;
use crate::json::Object;
use crate::{Outcome, outputs, words};

/// Assign every row to its most probable cluster
#[derive(Args)]
#[command(after_help = "Examples:
  pervade assign digits.pervade digits.csv.gz --labels column:last > clusters.csv
  pervade assign table.pervade new-rows.parquet --probabilities --out clusters.parquet")]
pub(crate) struct AssignArgs {
    #[command(flatten)]
    both: ModelAndData,
    /// Add the probability of that cluster, and of every cluster
    #[arg(long)]
    probabilities: bool,
    #[command(flatten)]
    to: OutArgs,
}

/// Runs it.
pub(crate) fn run(args: &AssignArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let _claim = args.to.claim(&args.both, common, console)?;
    let (device, model, table) = super::open(&args.both, common, console)?;
    let found = on_device!(&device, device => model.assign(device, &table.data)?);
    let k = found.n_clusters;
    let probability: Vec<f32> = found
        .clusters
        .iter()
        .enumerate()
        .map(|(row, &cluster)| found.probabilities[row * k + cluster as usize])
        .collect();
    let all = OutputRows { values: &found.probabilities, n_columns: k, names: None };
    let written = OutputTable {
        kept: table.kept.as_ref(),
        clusters: Some(&found.clusters),
        singles: args.probabilities.then_some(("probability", probability.as_slice())).into_iter().collect(),
        rows: args.probabilities.then_some(all),
        cells: None,
    };
    outputs::table(&written, args.to.out.as_deref(), console)?;
    let occupancy = metrics::occupancy(&found.clusters, k)?;
    let rows = words::counted(found.clusters.len(), "row");
    console.say(&format!("assigned {rows} to {}", words::counted(k, "cluster")));
    if !console.json {
        return Ok(Outcome::Done);
    }
    let n = found.clusters.len();
    let object = Object::new([("rows", json!(n)), ("clusters", json!(k)), ("occupancy", json!(occupancy))]);
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
