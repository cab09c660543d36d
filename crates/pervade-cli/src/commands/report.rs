//! `pervade report`: everything about the clusters on one page.

use std::path::PathBuf;

use clap::Args;
use pervade::{Result, on_device};
use serde_json::json;

use crate::args::{Common, ModelAndData, NamesArg};
use crate::console::Console;
use crate::files::Kind;
use crate::page::{self, Caller, MAX_POINTS, Subject};
use crate::{Outcome, outputs, shell};

/// Write one page about the clusters: a map of all rows, what is in each cluster, doubtful and unusual rows, history
#[derive(Args)]
#[command(after_help = "Example:
  pervade report penguins.pervade penguins.csv --labels column:species

The page is one HTML file that makes no request: open it in a browser, or send it to somebody. Beside summaries it
holds some rows of the table.")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    both: ModelAndData,
    /// The page [default: MODEL's name with .report.html, in the current folder]
    #[arg(long, short, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// Rows on the map, at most; of more rows a sample is shown
    #[arg(long, value_name = "N", default_value_t = MAX_POINTS)]
    points: usize,
    #[command(flatten)]
    names: NamesArg,
}

/// Runs it.
pub(crate) fn run(args: &ReportArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let model_name = outputs::name_of(&args.both.model);
    let stem = model_name.strip_suffix(".pervade").unwrap_or(&model_name);
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{stem}.report.html")));
    let _claim = args
        .both
        .files(common)
        .maybe_input("--names", args.names.names.as_deref())
        .output("--out", &out, Kind::Html)
        .claim(console)?;
    let (device, model, table, names) = super::open_named(&args.both, &args.names, common, console)?;
    let subject = Subject {
        model: &model,
        table: (&table).into(),
        caller: Caller::Command {
            model: shell::word(&model_name).into_owned(),
            data: args.both.read.typed(outputs::name_of(&args.both.data).as_ref()),
        },
        title: outputs::name_of(&args.both.data),
        points: args.points,
        names: names.as_ref(),
    };
    let threads = common.threads()?;
    let bytes = on_device!(&device, device => {
        if let Some(forecast) = page::forecast(&subject, device, threads)? {
            console.say(&forecast);
        }
        page::write(&subject, device, &out, console)?
    });
    let object = json!({
        "out": out.display().to_string(),
        "bytes": bytes,
        "rows": table.data.n_rows(),
        "clusters": model.n_clusters(),
    });
    console.result(&object, "")?;
    Ok(Outcome::Done)
}
