//! `pervade impute`: rows with their gaps filled.

use std::path::PathBuf;

use clap::Args;
use pervade::data::{FilledTable, OutputFormat, OutputTable};
use pervade::model::Cells;
use pervade::{Error, Result, on_device};
use serde_json::json;

use crate::args::{Common, ModelAndData};
use crate::console::Console;
use crate::files::Kind;
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
    /// A .csv, .parquet or, for numbers, .npy file [default: CSV on stdout]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(args: &ImputeArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let out = args.out.as_deref();
    let format = out.map_or(Ok(OutputFormat::Csv), OutputFormat::of)?;
    let files = args.both.files(common).maybe_output("--out", out, Kind::Table(format));
    let _claim = files.claim(console)?;
    let device = common.open_device(console)?;
    let model = super::load(&args.both.model, console)?;
    let Some(schema) = model.schema() else {
        let problem = "its columns have no types, so that it does not know missing cells";
        let hint = "fit the table with its gaps, without `--prepare` and `--likelihood`";
        return Err(Error::model(args.both.model.display(), problem).with_hint(hint));
    };
    OutputTable::check_format(Some(schema), format)?;
    let table = super::read_rows(&args.both, &model, true, console)?;
    let how = if args.draw { Cells::Draw } else { Cells::Mean };
    let cells = on_device!(&device, device => model.impute(device, &table.data, how, args.seed)?);
    let filled = FilledTable::new(&table, schema, &cells)?;
    match out {
        Some(path) => filled.write(path)?,
        None if console.json => {}
        None => Console::data(|out| filled.write_to(out, OutputFormat::Csv))?,
    }
    let (n, rows) = (filled.n_filled(), table.data.n_rows());
    console.say(&format!("filled {} of {}", words::counted(n, "cell"), words::counted(rows, "row")));
    let object = json!({
        "rows": rows,
        "columns": table.data.n_source_columns(),
        "filled": n,
        "out": out.map(|path| path.display().to_string()),
    });
    console.result(&object, "")?;
    Ok(Outcome::Done)
}
