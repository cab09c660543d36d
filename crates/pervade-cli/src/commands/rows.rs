//! `pervade embed`, `reconstruct` and `score`: one row of numbers per row of the data.

use clap::Args;
use pervade::compute::AnyDevice;
use pervade::data::{OutputCells, OutputRows, OutputTable, Table};
use pervade::model::Vade;
use pervade::{Result, on_device};
use serde_json::json;

use crate::args::{Common, ModelAndData};
use crate::console::Console;
use crate::json::{Object, cells_as_json};
use crate::stream::{Done, Job, OutArgs, Plan, Sink, Work};
use crate::{Outcome, words};

/// Map every row to its latent mean, a short vector suited to distances and plots
#[derive(Args)]
#[command(after_help = "Examples:
  pervade embed digits.pervade digits.csv.gz --labels column:last --out latents.npy
  pervade embed table.pervade rows/ --out latents/ --format npy            one file per part of a table in parts")]
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
#[command(after_help = "Examples:
  pervade score digits.pervade new.csv --out scores.csv
  pervade score table.pervade rows/ --out scores/                          one file per part of a table in parts")]
pub(crate) struct ScoreArgs {
    #[command(flatten)]
    both: ModelAndData,
    #[command(flatten)]
    to: OutArgs,
}

/// What all of these commands need.
struct Opened {
    plan: Plan,
    device: AnyDevice,
    model: Vade,
    _claim: crate::files::Claim,
}

impl Opened {
    fn new(both: &ModelAndData, to: &OutArgs, common: &Common, console: &Console) -> Result<Self> {
        let plan = to.plan(&both.data)?;
        let claim = plan.claim(both.files(common), console)?;
        let device = common.open_device(console)?;
        let model = super::load(&both.model, console)?;
        Ok(Self { plan, device, model, _claim: claim })
    }

    /// Whether all results are kept, for JSON on stdout.
    fn keeps(&self, console: &Console) -> bool {
        console.json && self.plan.out().is_none()
    }

    fn run(
        &self,
        command: &'static str,
        both: &ModelAndData,
        console: &Console,
        work: &mut dyn Work,
    ) -> Result<Done> {
        let (model, plan, flags) = (&self.model, &self.plan, both.read.flags());
        Job { command, both, model, plan, console, original: false, numbers_rows: false, flags }.run(work)
    }
}

/// Runs `embed`.
pub(crate) fn embed(args: &EmbedArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let opened = Opened::new(&args.both, &args.to, common, console)?;
    let names: Vec<String> = (0..opened.model.n_latents()).map(|j| format!("latent_{j}")).collect();
    let n_columns = names.len();
    let mut work = Embedding { opened: &opened, names, keep: opened.keeps(console), kept: Vec::new() };
    let done = opened.run("embed", &args.both, console, &mut work)?;
    say("latents", done.rows, n_columns, console);
    let object = object_of(done.rows, n_columns);
    let object = match opened.plan.out() {
        Some(_) => object.written(&opened.plan, &done),
        None if n_columns == 1 => object.numbers("latents", &work.kept),
        None => object.rows("latents", &work.kept, n_columns),
    };
    finish(&object, console)
}

/// The latents of pieces of a table.
struct Embedding<'a> {
    opened: &'a Opened,
    names: Vec<String>,
    keep: bool,
    kept: Vec<f32>,
}

impl Work for Embedding<'_> {
    fn n_kept(&self) -> usize {
        if self.keep { self.names.len() } else { 0 }
    }

    fn write(&mut self, piece: &Table, out: &mut Sink<'_>) -> Result<()> {
        let values = on_device!(&self.opened.device, device => self.opened.model.embed(device, &piece.data)?);
        let rows = OutputRows { values: &values, n_columns: self.names.len(), names: Some(&self.names) };
        out.add(&OutputTable { kept: piece.kept.as_ref(), rows: Some(rows), ..OutputTable::default() })?;
        if self.keep {
            self.kept.extend(values);
        }
        Ok(())
    }
}

/// Runs `reconstruct`.
pub(crate) fn reconstruct(args: &ReconstructArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let opened = Opened::new(&args.both, &args.to, common, console)?;
    OutputTable::check_format(opened.model.schema(), opened.plan.format())?;
    let schema = opened.model.schema();
    let n_columns = schema.map_or(opened.model.n_columns(), |schema| schema.source_columns().len());
    let mut work = Reconstructing { opened: &opened, keep: opened.keeps(console), kept: Vec::new() };
    let done = opened.run("reconstruct", &args.both, console, &mut work)?;
    say("reconstructions", done.rows, n_columns, console);
    let object = object_of(done.rows, n_columns);
    let object = match (opened.plan.out(), opened.model.schema()) {
        (Some(_), _) => object.written(&opened.plan, &done),
        (None, Some(schema)) if console.json => {
            let cells: Vec<f64> = work.kept.iter().map(|&x| f64::from(x)).collect();
            object.value("reconstructions", cells_as_json(schema, &cells))
        }
        (None, _) if n_columns == 1 => object.numbers("reconstructions", &work.kept),
        (None, _) => object.rows("reconstructions", &work.kept, n_columns),
    };
    finish(&object, console)
}

/// The reconstructions of pieces of a table.
struct Reconstructing<'a> {
    opened: &'a Opened,
    keep: bool,
    kept: Vec<f32>,
}

impl Work for Reconstructing<'_> {
    fn n_kept(&self) -> usize {
        if self.keep { self.opened.model.n_columns() } else { 0 }
    }

    fn write(&mut self, piece: &Table, out: &mut Sink<'_>) -> Result<()> {
        let model = &self.opened.model;
        let values = on_device!(&self.opened.device, device => model.reconstruct(device, &piece.data)?);
        let kept = piece.kept.as_ref();
        match model.schema() {
            Some(schema) => {
                let cells: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
                let cells = OutputCells { schema, cells: &cells, pooled: &[] };
                out.add(&OutputTable { kept, cells: Some(cells), ..OutputTable::default() })?;
            }
            None => {
                let (n_columns, names) = (model.n_columns(), model.column_names());
                let rows = OutputRows { values: &values, n_columns, names };
                out.add(&OutputTable { kept, rows: Some(rows), ..OutputTable::default() })?;
            }
        }
        if self.keep {
            self.kept.extend(values);
        }
        Ok(())
    }
}

/// Runs `score`.
pub(crate) fn score(args: &ScoreArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let opened = Opened::new(&args.both, &args.to, common, console)?;
    let name = opened.model.score_name();
    let mut work = Scoring {
        opened: &opened,
        names: [name.to_string(), "anomaly".to_string()],
        sum: 0.0,
        keep: opened.keeps(console),
        scores: Vec::new(),
        anomalies: Vec::new(),
    };
    let done = opened.run("score", &args.both, console, &mut work)?;
    let mean = work.sum / done.rows.max(1) as f64;
    console.say(&format!("mean {} {mean:.4} nats per row", name.replace('_', " ")));
    say("scores", done.rows, 2, console);
    let key = format!("mean_{name}");
    let object = object_of(done.rows, 2).value(&key, json!(mean));
    let object = match opened.plan.out() {
        Some(_) => object.written(&opened.plan, &done),
        None => object.numbers("scores", &work.scores).numbers("anomaly", &work.anomalies),
    };
    finish(&object, console)
}

/// The scores of pieces of a table.
struct Scoring<'a> {
    opened: &'a Opened,
    names: [String; 2],
    /// Of all scores so far.
    sum: f64,
    keep: bool,
    scores: Vec<f32>,
    anomalies: Vec<f32>,
}

impl Work for Scoring<'_> {
    fn n_kept(&self) -> usize {
        if self.keep { 2 } else { 0 }
    }

    fn write(&mut self, piece: &Table, out: &mut Sink<'_>) -> Result<()> {
        let model = &self.opened.model;
        let (scores, anomalies) = on_device!(&self.opened.device, device => {
            let scores = model.score(device, &piece.data)?;
            let anomalies = model.anomaly(device, &piece.data, &scores)?;
            (scores, anomalies)
        });
        self.sum = scores.iter().fold(self.sum, |sum, score| sum + score);
        let values: Vec<f32> = scores
            .iter()
            .zip(&anomalies)
            .flat_map(|(&score, &anomaly)| [score as f32, anomaly as f32])
            .collect();
        let rows = OutputRows { values: &values, n_columns: 2, names: Some(&self.names) };
        out.add(&OutputTable { kept: piece.kept.as_ref(), rows: Some(rows), ..OutputTable::default() })?;
        if self.keep {
            self.scores.extend(scores.iter().map(|&score| score as f32));
            self.anomalies.extend(anomalies.iter().map(|&anomaly| anomaly as f32));
        }
        Ok(())
    }
}

/// Says how many rows were written.
fn say(what: &str, n_rows: usize, n_columns: usize, console: &Console) {
    let (rows, columns) = (words::counted(n_rows, "row"), words::counted(n_columns, "column"));
    console.say(&format!("{what} of {rows}, {columns}"));
}

fn object_of<'a>(n_rows: usize, n_columns: usize) -> Object<'a> {
    Object::new([("rows", json!(n_rows)), ("columns", json!(n_columns))])
}

/// Prints the result if JSON was asked for.
fn finish(object: &Object<'_>, console: &Console) -> Result<Outcome> {
    if console.json {
        console.result(object, "")?;
    }
    Ok(Outcome::Done)
}
