//! `pervade impute`: rows with their gaps filled.

use clap::Args;
use pervade::compute::AnyDevice;
use pervade::data::{FilledTable, OutputFormat, OutputTable, Schema, Table, TextTypes};
use pervade::model::{Cells, Vade};
use pervade::{Error, Result, on_device};
use serde_json::json;

use crate::args::{Common, ModelAndData};
use crate::console::Console;
use crate::json::Object;
use crate::stream::{Job, OutArgs, Sink, Work};
use crate::{Outcome, words};

/// Fill the missing cells of rows; all other cells stay as they are written
#[derive(Args)]
#[command(after_help = "Examples:
  pervade impute penguins.pervade penguins.csv --labels column:species --out complete.csv
  pervade impute table.pervade new-rows.parquet --draw --seed 1 --out complete.parquet")]
pub(crate) struct ImputeArgs {
    #[command(flatten)]
    both: ModelAndData,
    /// Draw the cells from their distribution instead of taking its mean or its most likely level
    #[arg(long)]
    draw: bool,
    /// Seed of the random numbers of `--draw`
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    to: OutArgs,
}

/// Runs it.
pub(crate) fn run(args: &ImputeArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let plan = args.to.plan(&args.both.data)?;
    let _claim = plan.claim(args.both.files(common), console)?;
    let device = common.open_device(console)?;
    let model = super::load(&args.both.model, console)?;
    let Some(schema) = model.schema() else {
        let problem = "its columns have no types, so that it does not know missing cells";
        let hint = "fit the table with its gaps, without `--prepare` and `--likelihood`";
        return Err(Error::model(args.both.model.display(), problem).with_hint(hint));
    };
    OutputTable::check_format(Some(schema), plan.format())?;
    let mut flags = args.both.read.flags();
    flags.insert("draw".to_string(), json!(args.draw));
    flags.insert("seed".to_string(), json!(args.seed));
    let how = if args.draw { Cells::Draw } else { Cells::Mean };
    let mut work = Imputing {
        device: &device,
        model: &model,
        schema,
        how,
        seed: args.seed,
        types: None,
        first: None,
        n_filled: 0,
    };
    let job = Job {
        command: "impute",
        both: &args.both,
        model: &model,
        plan: &plan,
        console,
        original: true,
        numbers_rows: args.draw,
        flags,
    };
    let done = job.run(&mut work)?;
    let (filled, rows) = (words::counted(work.n_filled, "cell"), words::counted(done.rows, "row"));
    console.say(&format!("filled {filled} of {rows}"));
    let values = [
        ("rows", json!(done.rows)),
        ("columns", json!(schema.source_columns().len())),
        ("filled", json!(work.n_filled)),
        ("out", json!(null)),
    ];
    let object = match plan.out() {
        Some(_) => Object::new(values).written(&plan, &done),
        None => Object::new(values),
    };
    console.result(&object, "")?;
    Ok(Outcome::Done)
}

/// Fills the gaps in pieces of a table.
struct Imputing<'a> {
    device: &'a AnyDevice,
    model: &'a Vade,
    schema: &'a Schema,
    how: Cells,
    seed: u64,
    /// The types of the columns in a Parquet file, which depend on all of its rows.
    types: Option<TextTypes>,
    /// The cells of the first piece, if it was looked at: most tables have no other.
    first: Option<Vec<f64>>,
    n_filled: usize,
}

impl Work for Imputing<'_> {
    fn looks_first(&self, format: OutputFormat) -> bool {
        format == OutputFormat::Parquet
    }

    fn begin(&mut self) {
        (self.types, self.first) = (None, None);
    }

    fn look(&mut self, piece: &Table) -> Result<()> {
        let cells = self.cells(piece)?;
        let types = FilledTable::new(piece, self.schema, &cells)?.text_types();
        match &mut self.types {
            Some(known) => known.widen(&types),
            None => {
                self.types = Some(types);
                self.first = Some(cells);
            }
        }
        Ok(())
    }

    fn write(&mut self, piece: &Table, out: &mut Sink<'_>) -> Result<()> {
        let cells = match self.first.take() {
            Some(cells) => cells,
            None => self.cells(piece)?,
        };
        let filled = FilledTable::new(piece, self.schema, &cells)?;
        self.n_filled += filled.n_filled();
        match &self.types {
            Some(types) => out.add_filled(&filled, types),
            None => out.add_filled(&filled, &filled.text_types()),
        }
    }
}

impl Imputing<'_> {
    fn cells(&self, piece: &Table) -> Result<Vec<f64>> {
        on_device!(self.device, device => self.model.impute(device, &piece.data, self.how, self.seed))
    }
}
