//! `pervade describe`: what is in each cluster.

use std::path::PathBuf;

use clap::Args;
use pervade::data::{Kept, OutputFormat, OutputTable, Table};
use pervade::describe::{ClusterDescription, DescribeOptions, Description, ExampleRow, describe};
use pervade::names::{ClusterNames, NamedCluster};
use pervade::{Error, Result, on_device};
use serde::Serialize;

use crate::args::{Common, ModelAndData, NamesArg};
use crate::console::Console;
use crate::files::Kind;
use crate::{Outcome, words};

/// Describe every cluster: its size, the columns that tell it from the other rows, typical and doubtful rows
#[derive(Args)]
#[command(after_help = "Examples:
  pervade describe penguins.pervade penguins.csv --labels column:species
  pervade describe table.pervade table.csv --columns 20 --out columns.csv")]
pub(crate) struct DescribeArgs {
    #[command(flatten)]
    both: ModelAndData,
    /// Columns per cluster, the most telling ones [default: 5; 20 in JSON and files]
    #[arg(long, value_name = "N")]
    columns: Option<usize>,
    /// A .csv or .parquet file with one line per cluster and column [default: text on stdout]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    names: NamesArg,
}

/// Runs it.
pub(crate) fn run(args: &DescribeArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let out = args.out.as_deref();
    let format = out.map(OutputFormat::of).transpose()?.unwrap_or(OutputFormat::Csv);
    if let Some(out) = out.filter(|_| format == OutputFormat::Npy) {
        return Err(Error::setting(
            "out",
            out.display(),
            "must end in .csv or .parquet: names are no numbers",
        ));
    }
    let files = args.both.files(common).maybe_input("--names", args.names.names.as_deref());
    let _claim = files.maybe_output("--out", out, Kind::Table(format)).claim(console)?;
    let (device, model, table, names) = super::open_named(&args.both, &args.names, common, console)?;
    let default = if console.json || out.is_some() { 20 } else { 5 };
    let options = DescribeOptions::default().with(|o| o.columns = args.columns.unwrap_or(default));
    let found = on_device!(&device, device => describe(&model, device, &table.data, &options)?);
    if let Some(out) = out {
        let kept = lines(&found, names.as_ref());
        OutputTable { kept: Some(&kept), ..OutputTable::default() }.write(out)?;
        console.say(&format!("wrote {}", out.display()));
    }
    let text = if out.is_some() { String::new() } else { text(&found, &table, names.as_ref()) };
    console.result(&Named { found: &found, names: names.as_ref().map(ClusterNames::clusters) }, &text)?;
    Ok(Outcome::Done)
}

/// The description with the names of the clusters.
#[derive(Serialize)]
struct Named<'a> {
    #[serde(flatten)]
    found: &'a Description,
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<&'a [NamedCluster]>,
}

/// One line per cluster and column.
fn lines(found: &Description, named: Option<&ClusterNames>) -> Kept {
    let mut names =
        ["cluster", "column", "difference", "auc", "inside", "outside"].map(String::from).to_vec();
    names.extend(named.map(|_| "name".to_string()));
    let mut columns = vec![Vec::new(); names.len()];
    for cluster in &found.clusters {
        for column in &cluster.columns {
            let mut cells = vec![
                cluster.cluster.to_string(),
                column.name.clone(),
                column.difference.to_string(),
                column.auc.to_string(),
                column.inside.clone(),
                column.outside.clone(),
            ];
            cells.extend(named.map(|named| named.name(cluster.cluster).unwrap_or_default().to_string()));
            columns.iter_mut().zip(cells).for_each(|(column, cell)| column.push(cell));
        }
    }
    Kept { names, columns }
}

/// One paragraph per cluster, then the rows that belong nowhere.
fn text(found: &Description, table: &Table, names: Option<&ClusterNames>) -> String {
    let mut text = String::new();
    for cluster in &found.clusters {
        text.push_str(&paragraph(cluster, table, names));
    }
    let (doubtful, n) = (words::percent(found.doubtful_share), words::counted(found.n_rows, "row"));
    text.push_str(&format!("Doubtful rows (no cluster above 90 %): {doubtful} of {n}.\n"));
    if let Some(pair) = found.between.first() {
        let [a, b] = pair.clusters;
        let rows = words::counted(pair.n_rows, "row");
        text.push_str(&format!("Most of them lie between clusters {a} and {b}: {rows}.\n"));
    }
    let strangest: Vec<String> = found.outliers.iter().take(5).map(|o| name(&o.example, table)).collect();
    text.push_str(&format!("Rows least like any cluster: {}.", strangest.join(", ")));
    text
}

fn paragraph(cluster: &ClusterDescription, table: &Table, names: Option<&ClusterNames>) -> String {
    let rows = words::counted(cluster.n_rows, "row");
    let entry = names.map(|names| &names.clusters()[cluster.cluster]);
    if let Some(into) = entry.and_then(|entry| entry.merged_into) {
        return format!("Cluster {}: merged into cluster {into}.\n\n", cluster.cluster);
    }
    let called =
        entry.and_then(|entry| entry.name.as_ref()).map_or(String::new(), |name| format!(" ({name})"));
    if cluster.n_rows == 0 {
        return format!("Cluster {}{called}: {rows}.\n\n", cluster.cluster);
    }
    let mut text = format!(
        "Cluster {}{called}: {rows} ({}), mean confidence {}.\n",
        cluster.cluster,
        words::percent(cluster.share),
        words::percent(cluster.mean_confidence)
    );
    let width = |of: fn(&pervade::describe::Distinction) -> &str| {
        cluster.columns.iter().map(|column| of(column).chars().count()).max().unwrap_or(0).min(40)
    };
    let (names, insides, outsides) = (width(|c| &c.name), width(|c| &c.inside), width(|c| &c.outside));
    for column in &cluster.columns {
        text.push_str(&format!(
            "  {:<names$}  {:>insides$} against {:<outsides$}  {:+.2} sd, AUC {:.2}\n",
            column.name, column.inside, column.outside, column.difference, column.auc
        ));
    }
    let typical: Vec<String> = cluster.typical.iter().map(|row| name(row, table)).collect();
    text.push_str(&format!("  typical: {}\n", typical.join(", ")));
    let doubtful: Vec<String> = cluster.doubtful.iter().map(|row| doubtful_words(row, table)).collect();
    if !doubtful.is_empty() {
        text.push_str(&format!("  doubtful: {}\n", doubtful.join(", ")));
    }
    text.push('\n');
    text
}

/// `row 17`, counted from one, with the first column that goes along.
fn name(row: &ExampleRow, table: &Table) -> String {
    let kept = table.kept.as_ref().and_then(|kept| kept.columns.first());
    let id = kept.map(|column| &column[row.row]).filter(|id| !id.is_empty());
    let id = id.map_or(String::new(), |id| format!(" ({id})"));
    format!("row {}{id}", row.row + 1)
}

fn doubtful_words(row: &ExampleRow, table: &Table) -> String {
    let percent = |p: f32| format!("{:.0} %", 100.0 * p);
    let second = row.second.map_or(String::new(), |(k, p)| format!("; cluster {k}: {}", percent(p)));
    format!("{} [{}{second}]", name(row, table), percent(row.confidence))
}
