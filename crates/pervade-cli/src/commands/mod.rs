//! One module per command.

pub(crate) mod assign;
pub(crate) mod bench;
pub(crate) mod card;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod describe;
pub(crate) mod doctor;
pub(crate) mod evaluate;
pub(crate) mod explore;
pub(crate) mod export;
pub(crate) mod fit;
pub(crate) mod generate;
pub(crate) mod impute;
pub(crate) mod inspect;
pub(crate) mod map;
pub(crate) mod reference;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod rows;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use pervade::Result;
use pervade::compute::AnyDevice;
use pervade::data::{ReadOptions, Table};
use pervade::model::{Matched, Vade};
use pervade::names::ClusterNames;

use crate::Outcome;
use crate::args::{Cli, Command, Common, ModelAndData, NamesArg};
use crate::console::Console;

/// Runs the command that was typed.
pub(crate) fn run(cli: &Cli, args: &[OsString], console: &Console) -> Result<Outcome> {
    let common = &cli.common;
    match &cli.command {
        Command::Demo(typed) => demo::run(typed, common, console),
        Command::Fit(typed) => fit::run(typed, args, common, console),
        Command::Assign(typed) => assign::run(typed, common, console),
        Command::Describe(typed) => describe::run(typed, common, console),
        Command::Map(typed) => map::run(typed, common, console),
        Command::Report(typed) => report::run(typed, common, console),
        Command::Explore(typed) => explore::run(typed, common, console),
        Command::Embed(typed) => rows::embed(typed, common, console),
        Command::Generate(typed) => generate::run(typed, common, console),
        Command::Impute(typed) => impute::run(typed, common, console),
        Command::Reconstruct(typed) => rows::reconstruct(typed, common, console),
        Command::Score(typed) => rows::score(typed, common, console),
        Command::Evaluate(typed) => evaluate::run(typed, common, console),
        Command::Compare(typed) => compare::run(typed, common, console),
        Command::Reproduce(typed) => reproduce::run(typed, common, console),
        Command::Inspect(typed) => inspect::run(typed, console),
        Command::Export(typed) => export::run(typed, common, console),
        Command::Card(typed) => card::run(typed, common, console),
        Command::Bench(typed) => bench::run(typed, common, console),
        Command::Doctor(typed) => doctor::run(typed, common, console),
        Command::Completions(typed) => completions::run(typed, console),
        Command::Reference(typed) => reference::run(typed, console),
    }
}

/// Reads new rows with the types of the fit: the rows themselves would suggest others.
pub(crate) fn for_model(model: &Vade, options: &mut ReadOptions) {
    options.schema = model.schema().cloned().map(Arc::new);
    if options.schema.is_none() {
        options.plain = Some(model.column_names().unwrap_or_default().to_vec());
        options.keep.extend(model.metadata().other_columns.iter().cloned());
    }
}

/// Opens the device, the model and the data, those that fail fastest first.
fn open(both: &ModelAndData, common: &Common, console: &Console) -> Result<(AnyDevice, Vade, Table)> {
    let device = common.open_device(console)?;
    let model = load(&both.model, console)?;
    let table = read_rows(both, &model, console)?;
    Ok((device, model, table))
}

/// [`open`] with the names of clusters; clusters that were merged are merged in the model.
fn open_named(
    both: &ModelAndData,
    names: &NamesArg,
    common: &Common,
    console: &Console,
) -> Result<(AnyDevice, Vade, Table, Option<ClusterNames>)> {
    let device = common.open_device(console)?;
    let (model, names) = names.apply(load(&both.model, console)?)?;
    let table = read_rows(both, &model, console)?;
    Ok((device, model, table, names))
}

/// The name of each cluster, empty if it has none.
fn cluster_names(names: &ClusterNames) -> Vec<String> {
    names.clusters().iter().map(|entry| entry.name.clone().unwrap_or_default()).collect()
}

/// Reads rows for a model.
fn read_rows(both: &ModelAndData, model: &Vade, console: &Console) -> Result<Table> {
    let options = both.read.options()?.with(|o| for_model(model, o));
    let mut table = both.read.read_with(&both.data, options, console)?;
    // The model would match them itself; doing it here prints a note, and rejects other columns before any work.
    let reordered = match model.matched(&table.data)? {
        Matched::AsGiven(_) => None,
        Matched::Reordered(data) => Some(data),
    };
    if let Some(data) = reordered {
        console.say("note: columns were matched by name");
        table.data = data;
    }
    Ok(table)
}

/// Opens a model and prints remarks about its file.
fn load(path: &Path, console: &Console) -> Result<Vade> {
    let model = Vade::load(path)?;
    model.remarks().iter().for_each(|remark| console.say(&format!("note: {remark}")));
    Ok(model)
}
