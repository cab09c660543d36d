//! `pervade evaluate`: how well the clusters agree with labels that training never saw.

use clap::Args;
use pervade::data::Labels;
use pervade::metrics::{self, Contingency};
use pervade::{Error, Result, on_device};
use serde_json::{Value, json};

use crate::args::{Common, ModelAndData};
use crate::console::Console;
use crate::report::LabelScores;
use crate::{Outcome, words};

/// Compare the clusters with known labels: accuracy, NMI, ARI, confusion table
#[derive(Args)]
#[command(after_help = "Examples:
  pervade evaluate digits.pervade digits.csv.gz --labels column:last
  pervade evaluate mnist.pervade mnist/ --labels y --at-least 0.95 --json")]
pub(crate) struct EvaluateArgs {
    #[command(flatten)]
    both: ModelAndData,
    /// Fail (exit 1) if the accuracy is below this fraction
    #[arg(long, value_name = "ACCURACY", value_parser = crate::settings::finite)]
    at_least: Option<f64>,
}

/// Runs it.
pub(crate) fn run(args: &EvaluateArgs, common: &Common, console: &Console) -> Result<Outcome> {
    if args.both.read.labels.is_none() {
        return Err(Error::setting("labels", "missing", "must say where the labels are")
            .with_hint("a file, `column:NAME`, `column:last`, or an array of the data file such as `y`"));
    }
    if let Some(least) = args.at_least.filter(|least| !(0.0..=1.0).contains(least)) {
        return Err(Error::setting("at-least", least, "must be a fraction between 0 and 1"));
    }
    let _claim = args.both.files(common).claim(console)?;
    let (device, model, table) = super::open(&args.both, common, console)?;
    let Some(labels) = table.labels else {
        return Err(Error::data(args.both.data.display(), "no labels were found"));
    };
    let found = on_device!(&device, device => model.assign(device, &table.data)?);
    let scores = LabelScores::new(&found.clusters, &labels)?;
    let confusion = metrics::confusion(&found.clusters, labels.ids())?;
    let object = described(&scores, &confusion, &labels, found.n_clusters);
    console.result(&object, &page(&scores, &confusion, &labels))?;
    Ok(match args.at_least {
        Some(least) if scores.accuracy < least => {
            Outcome::CheckFailed(format!("the accuracy is {:.4}, below {least}", scores.accuracy))
        }
        _ => Outcome::Done,
    })
}

fn described(scores: &LabelScores, confusion: &Contingency, labels: &Labels, n_clusters: usize) -> Value {
    let width = confusion.second_values.len();
    json!({
        "accuracy": scores.accuracy,
        "nmi": scores.nmi,
        "ari": scores.ari,
        "rows": labels.len(),
        "clusters": n_clusters,
        // Rows of the table are labels, columns are clusters in the order of `confusion_clusters`.
        "confusion": confusion.counts.chunks(width).collect::<Vec<_>>(),
        "confusion_labels": labels.names(),
        "confusion_clusters": confusion.second_values,
    })
}

/// The table with aligned columns; each label's matched cluster is on the diagonal.
fn page(scores: &LabelScores, confusion: &Contingency, labels: &Labels) -> String {
    const WIDEST_NAME: usize = 24;
    let names: Vec<String> =
        labels.names().iter().map(|name| name.chars().take(WIDEST_NAME).collect()).collect();
    let clusters: Vec<String> = confusion.second_values.iter().map(|c| format!("c{c}")).collect();
    let cells: Vec<String> =
        confusion.counts.iter().map(|&n| if n == 0 { "·".into() } else { n.to_string() }).collect();
    let width = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let (left, each) = (width(&names).max(5), width(&clusters).max(width(&cells)));
    let line = |name: &str, cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("  {cell:>each$}")).collect();
        format!("{name:>left$}{}", cells.concat())
    };
    let mut text = format!("{} rows: {}\n\n", words::count(labels.len()), scores.words());
    text.push_str(&line("label", &clusters));
    for (name, row) in names.iter().zip(cells.chunks(clusters.len())) {
        text.push('\n');
        text.push_str(&line(name, row));
    }
    text
}
