//! Runs the rows of a table: each data set is read once, each row's record is continued.

use std::path::Path;
use std::time::Instant;

use pervade::data::{Dataset, Labels, Table};
use pervade::{Error, Result};
use pervade_rivals::RivalDevice;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ReproduceArgs;
use super::figures::{Figure, is_begun};
use super::record::{Record, SeedRun};
use super::rows::{DataSet, Row, RowsFile, TableId};
use super::runs::{Measure, RowRunner, Runner, Scores};
use crate::console::Console;
use crate::{Outcome, words};

/// A row whose method failed on its data.
#[derive(Serialize)]
pub(super) struct Failed {
    table: &'static str,
    data: String,
    method: String,
    error: String,
}

impl Failed {
    /// `gmm on mnist (table2): ...`.
    pub(super) fn words(&self) -> String {
        format!("{} on {} ({}): {}", self.method, self.data, self.table, self.error)
    }
}

/// Runs all selected rows of a table, one data set after the other, each read once; rows that fail are added to
/// `failed`, and the others continue.
pub(super) fn run_table<D: RivalDevice>(
    args: &ReproduceArgs,
    which: TableId,
    rows: &RowsFile,
    folder: &Path,
    device: &D,
    device_name: &str,
    failed: &mut Vec<Failed>,
    console: &Console,
) -> Result<()> {
    let selected = rows.selected(&args.only);
    let mut absent = None;
    let mut found_any = false;
    let mut refused = None;
    for set in &rows.sets {
        let rows: Vec<&Row> = selected.iter().copied().filter(|row| row.data == set.name).collect();
        if rows.is_empty() {
            continue;
        }
        if let Some(path) = set.absent(folder) {
            console.say(&format!("{}: skipped, there is no {}", set.title, path.display()));
            absent.get_or_insert(path);
            continue;
        }
        found_any = true;
        let table = set.read(folder, console)?;
        for row in rows {
            match run_row(args, which, row, set, &table, device, device_name, console) {
                Ok(None) => {}
                Ok(Some(error)) => failed.push(Failed {
                    table: which.name(),
                    data: row.data.clone(),
                    method: row.method.clone(),
                    error: error.to_string(),
                }),
                Err(error @ Error::Interrupted { .. }) => return Err(error),
                Err(error) => {
                    console.say(&format!("{} on {}: {error}", row.method, row.data));
                    refused.get_or_insert(error);
                }
            }
        }
    }
    match (absent, refused) {
        (_, Some(error)) => Err(error),
        (Some(path), None) if !found_any => {
            Err(Error::data(path.display(), "there is no such file or folder").with_hint(
                "`--data` is the folder that holds the data sets; `--dry-run` lists what is looked for",
            ))
        }
        _ => Ok(()),
    }
}

/// Runs one row; a failure of its method is stored in its record and returned, a row that cannot be started is an
/// error.
fn run_row<D: RivalDevice>(
    args: &ReproduceArgs,
    which: TableId,
    row: &Row,
    set: &DataSet,
    table: &Table,
    device: &D,
    device_name: &str,
    console: &Console,
) -> Result<Option<Error>> {
    let path = Record::path(&args.out, which, row);
    let earlier = if args.again { None } else { Record::load(&path)? };
    if which == TableId::Table1 {
        let runs = vec![statistics(table, device_name)?];
        new_record(args, which, row, &table.data, Map::new(), runs).save(&path)?;
        return Ok(None);
    }
    let overrides = args.quick.settings();
    let how = Runner::<D>::of(row, set.clusters, &overrides)?;
    let measure = measure(which, set, table, args.quick.take)?;
    let settings = how.settings(row, set.clusters, &overrides);
    let record =
        new_record(args, which, row, measure.data(), settings, Vec::new()).continuing(earlier, &path)?;
    let seeds = args.seeds.unwrap_or(row.seeds);
    let missing = record.missing(seeds).len();
    let summary =
        format!("{} on {} ({})", row.method, row.data, words::counted(measure.data().n_rows(), "row"));
    if missing == 0 {
        console.say(&format!("{summary}: {} in the record already", words::counted(seeds, "seed")));
        return Ok(None);
    }
    console.say(&format!("{summary}: {} to run", words::counted(missing, "seed")));
    let device_name = device_name.to_string();
    let mut work =
        RowRunner { device, device_name, measure: &measure, record, path, console, since: Instant::now() };
    match work.run(&how, seeds) {
        Err(error) if !matches!(error, Error::Interrupted { .. }) => {
            console.say(&format!("{} on {}: failed: {error}", row.method, row.data));
            work.record.problem = Some(error.to_string());
            work.record.save(&work.path)?;
            Ok(Some(error))
        }
        other => other.map(|()| None),
    }
}

fn new_record(
    args: &ReproduceArgs,
    which: TableId,
    row: &Row,
    data: &Dataset,
    settings: Map<String, Value>,
    runs: Vec<SeedRun>,
) -> Record {
    Record {
        table: which,
        data: row.data.clone(),
        method: row.method.clone(),
        rows: data.n_rows(),
        columns: data.n_columns(),
        data_checksum: data.checksum(),
        settings,
        overrides: if which == TableId::Table1 { Map::new() } else { args.quick.all() },
        runs,
        problem: None,
    }
}

/// Table 1 of a data set.
fn statistics(table: &Table, device: &str) -> Result<SeedRun> {
    let labels = labels_of(table)?;
    let counts = [table.data.n_rows(), table.data.n_columns(), labels.names().len()];
    let scores = ["rows", "columns", "clusters"].iter().zip(counts);
    let scores: Scores = scores.map(|(name, count)| ((*name).to_string(), count as f64)).collect();
    let (device, version) = (device.to_string(), env!("CARGO_PKG_VERSION").to_string());
    Ok(SeedRun { seed: 0, scores, seconds: 0.0, side_by_side: 1, device, version })
}

pub(super) fn labels_of(table: &Table) -> Result<&Labels> {
    table.labels.as_ref().ok_or_else(|| {
        Error::data(table.data.source(), "there are no labels")
            .with_hint("the data set needs `labels` or `label_file`")
    })
}

/// What a row of the table is scored against; `take` keeps only the first rows.
fn measure<'t>(which: TableId, set: &DataSet, table: &'t Table, take: Option<usize>) -> Result<Measure<'t>> {
    let (n, labels) = (table.data.n_rows(), labels_of(table)?);
    let part = |range: std::ops::Range<usize>| {
        let end = take.map_or(range.end, |take| range.end.min(range.start + take));
        range.start..end
    };
    if which != TableId::Table3 {
        let rows = part(0..n);
        let ids: Vec<i64> = labels.ids()[rows.clone()].iter().map(|&id| i64::from(id)).collect();
        return Ok(Measure::Clusters { data: table.data.slice(rows), labels: Labels::from_integers(&ids) });
    }
    let split = set.train_rows.filter(|&train| train > 0 && train < n).ok_or_else(|| {
        let problem =
            format!("table 3 needs `train_rows` between 1 and {}, the number of rows less one", n - 1);
        Error::data(&set.name, problem)
    })?;
    let (train, test) = (part(0..split), part(split..n));
    Ok(Measure::Neighbours {
        train_labels: labels.ids()[train.clone()].to_vec(),
        train: table.data.slice(train),
        test_labels: labels.ids()[test.clone()].to_vec(),
        test: table.data.slice(test),
    })
}

/// `--dry-run`: rows, finished seeds, whether the data exist, and figures.
pub(super) fn list(
    args: &ReproduceArgs,
    tables: &[(TableId, RowsFile)],
    figures: &[Figure],
    console: &Console,
) -> Result<Outcome> {
    let mut lines = Vec::new();
    for (which, rows) in tables {
        let which = *which;
        for row in rows.selected(&args.only) {
            let path = Record::path(&args.out, which, row);
            let seeds = args.seeds.unwrap_or(row.seeds);
            let done = Record::load(&path)?.map_or(0, |record| seeds - record.missing(seeds).len());
            let absent = args.data.as_deref().and_then(|folder| rows.set(&row.data).ok()?.absent(folder));
            lines.push(json!({
                "table": which.name(), "data": row.data, "method": row.method, "seeds": seeds, "done": done,
                "absent": absent.map(|path| path.display().to_string()),
            }));
        }
    }
    let shown = |line: &Value| {
        let text = |key: &str| crate::settings::short(&line[key]);
        let absent = if line["absent"].is_null() {
            String::new()
        } else {
            format!("; there is no {}", text("absent"))
        };
        format!(
            "{}  {}:{}  {} of {} seeds done{absent}",
            text("table"),
            text("data"),
            text("method"),
            text("done"),
            text("seeds")
        )
    };
    let mut text: Vec<String> = lines.iter().map(shown).collect();
    for &figure in figures {
        let begun = is_begun(figure, &args.out);
        lines.push(json!({"figure": figure.name(), "record": begun}));
        text.push(format!("figure-{}  {}", figure.name(), if begun { "has a record" } else { "to be made" }));
    }
    console.result(&json!({"rows": lines}), &text.join("\n"))?;
    Ok(Outcome::Done)
}
