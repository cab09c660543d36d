//! `pervade inspect`: a model's architecture, settings and history.

use std::path::PathBuf;

use clap::Args;
use pervade::Result;
use pervade::model::{Metadata, RestartSummary};
use pervade::record::RestartRecord;

use crate::console::Console;
use crate::report::{
    decided, found, levels_table, occupancy_bars, on_graph_of_rows, quality, restarts, start,
};
use crate::settings::short;
use crate::{Outcome, words};

/// Show a model's architecture, settings and history
#[derive(Args)]
#[command(after_help = "Example:
  pervade inspect digits.pervade")]
pub(crate) struct InspectArgs {
    /// A model that `pervade fit` wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,
}

/// Runs it.
pub(crate) fn run(args: &InspectArgs, console: &Console) -> Result<Outcome> {
    let model = super::load(&args.model, console)?;
    console.result(model.metadata(), &page(model.metadata()))?;
    Ok(Outcome::Done)
}

/// The type of every column, and how much of it the model explains.
fn columns_table(about: &Metadata) -> String {
    let Some(schema) = &about.schema else { return String::new() };
    let width = schema.columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(0).max(6);
    let mut text = format!("\n  {:<width$}  {:<8}  explained\n", "column", "type");
    for (column, explained) in schema.columns.iter().zip(&about.explained) {
        let share = words::percent(explained.share.max(0.0));
        text.push_str(&format!("  {:<width$}  {:<8}  {share:>9}\n", column.name, column.kind.to_string()));
    }
    text
}

/// The page of text.
fn page(about: &Metadata) -> String {
    let image =
        about.image.map_or(String::new(), |i| format!(", pictures of {} x {} pixels", i.height, i.width));
    let mut text = format!(
        "{}\n\nFitted to {} x {}{image}; {}.\nWritten by pervade {}, format {}, data {}.\n",
        found(about),
        words::counted(about.n_rows, "row"),
        words::counted(about.n_source_columns(), "column"),
        decided(about),
        about.version,
        about.format,
        about.data_checksum,
    );
    text.push_str("\n  cluster    rows    share\n");
    text.push_str(&occupancy_bars(&about.occupancy));
    text.push_str(&levels_table(&about.record.levels));
    text.push_str(&columns_table(about));
    text.push_str(&format!("\n{}", history(&about.record)));
    if let Some(scores) = about.record.kept_state() {
        text.push_str(&format!("{}\n", quality(scores)));
    }
    if let Some(rows) = on_graph_of_rows(about) {
        text.push_str(&format!("{rows}\n"));
    }
    if let Some(start) = start(&about.record) {
        text.push_str(&format!("{start}\n"));
    }
    for remark in &about.record.remarks {
        text.push_str(&format!("Note: {remark}.\n"));
    }
    if let Some(restarts) = restarts(about) {
        text.push_str(&format!("{restarts}\n"));
    }
    text.push_str(&agreement(&about.restarts));
    text.push_str(&format!("\nSettings:\n{}", settings(about)));
    text
}

/// A matrix of so many restarts fits into a terminal.
const MOST_IN_TABLE: usize = 12;

/// The agreement of each pair of restarts; of many restarts only of the pair that agrees least, of two nothing: it is their
/// stability.
fn agreement(restarts: &[RestartSummary]) -> String {
    let n = restarts.len();
    if n < 3 || restarts.iter().any(|restart| restart.agreement.len() != n) {
        return String::new();
    }
    if n > MOST_IN_TABLE {
        let pairs =
            restarts.iter().enumerate().flat_map(|(i, r)| (0..i).map(move |j| (r.agreement[j], j, i)));
        let least = pairs.min_by(|a, b| a.0.total_cmp(&b.0));
        return least.map_or(String::new(), |(ari, a, b)| {
            format!("Restarts {} and {} agree least: ARI {ari:.3}.\n", a + 1, b + 1)
        });
    }
    let heading = (1..=n).map(|i| format!("{i:>7}")).collect::<Vec<_>>().concat();
    let mut text = format!("\n  ARI of restarts\n  {:>2}{heading}\n", "");
    for (i, restart) in restarts.iter().enumerate() {
        let cells = restart.agreement.iter().map(|ari| format!("{ari:>7.3}")).collect::<Vec<_>>().concat();
        text.push_str(&format!("  {:>2}{cells}\n", i + 1));
    }
    text
}

/// All settings as keys and values.
fn settings(about: &Metadata) -> String {
    let lines: Vec<String> =
        about.settings.to_keys().iter().map(|(key, value)| format!("  {key:24} {}", short(value))).collect();
    lines.join("\n")
}

/// First and last loss, first and last ELBO with its terms, and every scored state.
fn history(record: &RestartRecord) -> String {
    let mut text = String::new();
    if let (Some(first), Some(last)) = (record.pretrain.first(), record.pretrain.last()) {
        let epochs = words::counted(record.pretrain.len(), "epoch");
        text.push_str(&format!("Pretraining: {epochs}, loss {:.3} to {:.3}.\n", first.loss, last.loss));
    }
    if let (Some(first), Some(last)) = (record.joint.first(), record.joint.last()) {
        let terms = &last.terms;
        text.push_str(&format!(
            "Joint training: {}, elbo {:.3} to {:.3} nats per row\n  \
             (reconstruction {:.3}, latent {:.3}, cluster {:.3}, entropy {:.3}){}.\n",
            words::counted(record.joint.len(), "epoch"),
            first.elbo,
            last.elbo,
            terms.reconstruction,
            terms.latent,
            terms.cluster,
            terms.entropy,
            match terms.neighbour {
                0.0 => String::new(),
                neighbour => format!("; neighbour term {neighbour:.3}"),
            }
        ));
    }
    text.push_str("\n  epoch  modularity  silhouette  live clusters\n");
    for (index, state) in record.states.iter().enumerate() {
        let kept = if index == record.kept { "  <- kept" } else { "" };
        text.push_str(&format!(
            "  {:>5}  {:>10.4}  {:>10.4}  {:>6} of {}{kept}\n",
            state.epoch, state.modularity, state.silhouette, state.live_clusters, state.clusters
        ));
    }
    text.push('\n');
    text
}
