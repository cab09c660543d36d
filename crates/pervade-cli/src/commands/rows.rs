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

/// Score every row by its ELBO, in nats: low for rows unlike those of the fit
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
        let kind = self.out.as_deref().map_or(Ok(Kind::Table(OutputFormat::Csv)), Kind::table)?;
        both.files(common).maybe_output("--out", self.out.as_deref(), kind).claim(console)
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
    let rows = OutputRows { values: &values, n_columns: model.n_columns(), names: model.column_names() };
    let Some(schema) = model.schema() else {
        return deliver("reconstructions", rows, &table, out, console);
    };
    let cells: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
    let written = OutputCells { schema, cells: &cells, pooled: &[] };
    let kept = table.kept.as_ref();
    outputs::table(&OutputTable { kept, cells: Some(written), ..OutputTable::default() }, out, console)?;
    report("reconstructions", rows, cells_as_json(schema, &cells), out, console)
}

/// Runs `score`.
pub(crate) fn score(args: &ScoreArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let _claim = args.to.claim(&args.both, common, console)?;
    let (device, model, table) = super::open(&args.both, common, console)?;
    let values: Vec<f32> = on_device!(&device, device => model.score(device, &table.data)?)
        .into_iter()
        .map(|x| x as f32)
        .collect();
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len().max(1) as f64;
    console.say(&format!("mean elbo {mean:.4} nats per row"));
    let names = ["elbo".to_string()];
    let rows = OutputRows { values: &values, n_columns: 1, names: Some(&names) };
    deliver("scores", rows, &table, args.to.out.as_deref(), console)
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
    let n = rows.values.len() / rows.n_columns.max(1);
    console.say(&format!(
        "{what} of {}, {}",
        words::counted(n, "row"),
        words::counted(rows.n_columns, "column")
    ));
    if !console.json {
        return Ok(Outcome::Done);
    }
    let mut object = Object::new([("rows", json!(n)), ("columns", json!(rows.n_columns))]);
    object = match out {
        Some(out) => object.value("out", json!(out.display().to_string())),
        None if !cells.is_null() => object.value(what, cells),
        None if rows.n_columns == 1 => object.numbers(what, rows.values),
        None => object.rows(what, rows.values, rows.n_columns),
    };
    if what == "scores" {
        let sum: f64 = rows.values.iter().map(|&x| f64::from(x)).sum();
        object = object.value("mean_elbo", json!(sum / n.max(1) as f64));
    }
    console.result(&object, "")?;
    Ok(Outcome::Done)
}
