//! `pervade embed`, `reconstruct` and `score`: one row of numbers per row of the data.

use std::path::{Path, PathBuf};

use clap::Args;
use pervade::data::{OutputCells, OutputFormat, OutputRows, OutputTable, Table};
use pervade::{Result, on_device};
use serde_json::{Value, json};

use crate::args::{Common, ModelAndData};
use crate::console::Console;
use crate::files::{Claim, Kind};
use crate::json::{Object, cells_as_json};
use crate::{Outcome, outputs, words};

/// Map every row to its latent mean, a short vector suited to distances and plots
#[derive(Args)]
#[command(after_help = "Example:
  pervade embed digits.pervade digits.csv.gz --labels column:last --out latents.npy")]
pub(crate) struct EmbedArgs {
    #[command(flatten)]
    both: ModelAndData,
    #[command(flatten)]
    to: OutArgs,
}

/// Reconstruct every row from its latent mean, in the units of the data
#[derive(Args)]
#[command(after_help = "Example:
  pervade reconstruct digits.pervade digits.csv.gz --labels column:last --out rebuilt.npy")]
pub(crate) struct ReconstructArgs {
    #[command(flatten)]
    both: ModelAndData,
    #[command(flatten)]
    to: OutArgs,
}

/// Score every row: its log density or ELBO in nats, low for rows unlike those of the fit, and how anomalous it is
#[derive(Args)]
#[command(after_help = "Example:
  pervade score digits.pervade new.csv --out scores.csv")]
pub(crate) struct ScoreArgs {
    #[command(flatten)]
    both: ModelAndData,
    #[command(flatten)]
    to: OutArgs,
}

/// Where the rows are written.
#[derive(Args)]
pub(super) struct OutArgs {
    /// A .csv, .npy or .parquet file [default: CSV on stdout]
    #[arg(long, short, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

impl OutArgs {
    /// Checks all files of the command before it starts.
    pub(super) fn claim(&self, both: &ModelAndData, common: &Common, console: &Console) -> Result<Claim> {
        both.files(common).maybe_output("--out", self.out.as_deref(), self.kind()?).claim(console)
    }

    /// The kind of the file that is written.
    pub(super) fn kind(&self) -> Result<Kind> {
        self.out.as_deref().map_or(Ok(Kind::Table(OutputFormat::Csv)), Kind::table)
    }
}

/// Runs `embed`.
pub(crate) fn embed(args: &EmbedArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let _claim = args.to.claim(&args.both, common, console)?;
    let (device, model, table) = super::open(&args.both, common, console)?;
    let values = on_device!(&device, device => model.embed(device, &table.data)?);
    let names: Vec<String> = (0..model.n_latents()).map(|j| format!("latent_{j}")).collect();
    let rows = OutputRows { values: &values, n_columns: names.len(), names: Some(&names) };
    deliver("latents", rows, &table, args.to.out.as_deref(), console)
}

/// Runs `reconstruct`.
pub(crate) fn reconstruct(args: &ReconstructArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let _claim = args.to.claim(&args.both, common, console)?;
    let (device, model, table) = super::open(&args.both, common, console)?;
    let out = args.to.out.as_deref();
    OutputTable::check_format(model.schema(), out.map_or(Ok(OutputFormat::Csv), OutputFormat::of)?)?;
    let values = on_device!(&device, device => model.reconstruct(device, &table.data)?);
    let Some(schema) = model.schema() else {
        let rows = OutputRows { values: &values, n_columns: model.n_columns(), names: model.column_names() };
        return deliver("reconstructions", rows, &table, out, console);
    };
    let cells: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
    let written = OutputCells { schema, cells: &cells, pooled: &[] };
    let kept = table.kept.as_ref();
    let (values, n_columns) = (schema.source_cells(&values), schema.source_columns().len());
    let rows = OutputRows { values: &values, n_columns, names: None };
    outputs::table(&OutputTable { kept, cells: Some(written), ..OutputTable::default() }, out, console)?;
    report("reconstructions", rows, cells_as_json(schema, &cells), out, console)
}

/// Runs `score`.
pub(crate) fn score(args: &ScoreArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let _claim = args.to.claim(&args.both, common, console)?;
    let (device, model, table) = super::open(&args.both, common, console)?;
    let (scores, anomalies) = on_device!(&device, device => {
        let scores = model.score(device, &table.data)?;
        let anomalies = model.anomaly(device, &table.data, &scores)?;
        (scores, anomalies)
    });
    let name = model.score_name();
    let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
    console.say(&format!("mean {} {mean:.4} nats per row", name.replace('_', " ")));
    let [scores, anomalies] =
        [scores, anomalies].map(|all| all.iter().map(|&x| x as f32).collect::<Vec<f32>>());
    let values: Vec<f32> =
        scores.iter().zip(&anomalies).flat_map(|(&score, &anomaly)| [score, anomaly]).collect();
    let names = [name.to_string(), "anomaly".to_string()];
    let rows = OutputRows { values: &values, n_columns: 2, names: Some(&names) };
    let out = args.to.out.as_deref();
    let kept = table.kept.as_ref();
    outputs::table(&OutputTable { kept, rows: Some(rows), ..OutputTable::default() }, out, console)?;
    said("scores", rows, console);
    if console.json {
        let key = format!("mean_{name}");
        let object = object_of(rows).value(&key, json!(mean));
        let object = match out {
            Some(out) => object.value("out", json!(out.display().to_string())),
            None => object.numbers("scores", &scores).numbers("anomaly", &anomalies),
        };
        console.result(&object, "")?;
    }
    Ok(Outcome::Done)
}

/// Writes the rows, after the columns that go along, and reports what was written.
fn deliver(
    what: &str,
    rows: OutputRows<'_>,
    table: &Table,
    out: Option<&Path>,
    console: &Console,
) -> Result<Outcome> {
    let kept = table.kept.as_ref();
    outputs::table(&OutputTable { kept, rows: Some(rows), ..OutputTable::default() }, out, console)?;
    report(what, rows, Value::Null, out, console)
}

/// Reports what was written; on stdout the rows themselves, or `cells` in their own types.
fn report(
    what: &str,
    rows: OutputRows<'_>,
    cells: Value,
    out: Option<&Path>,
    console: &Console,
) -> Result<Outcome> {
    said(what, rows, console);
    if !console.json {
        return Ok(Outcome::Done);
    }
    let object = object_of(rows);
    let object = match out {
        Some(out) => object.value("out", json!(out.display().to_string())),
        None if !cells.is_null() => object.value(what, cells),
        None if rows.n_columns == 1 => object.numbers(what, rows.values),
        None => object.rows(what, rows.values, rows.n_columns),
    };
    console.result(&object, "")?;
    Ok(Outcome::Done)
}

/// Says how many rows were written.
fn said(what: &str, rows: OutputRows<'_>, console: &Console) {
    console.say(&format!(
        "{what} of {}, {}",
        words::counted(n_rows(rows), "row"),
        words::counted(rows.n_columns, "column")
    ));
}

fn object_of<'a>(rows: OutputRows<'_>) -> Object<'a> {
    Object::new([("rows", json!(n_rows(rows))), ("columns", json!(rows.n_columns))])
}

fn n_rows(rows: OutputRows<'_>) -> usize {
    rows.values.len() / rows.n_columns.max(1)
}
