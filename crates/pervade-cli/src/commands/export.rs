//! `pervade export`: a model as a file of another tool.

use std::path::PathBuf;

use clap::Args;
use pervade::Result;
use pervade_export::onnx::{OnnxOptions, has_scores_for_complete_rows_only, inputs, write_onnx};
use serde_json::json;

use crate::args::Common;
use crate::console::Console;
use crate::files::{Files, Kind};
use crate::{Outcome, words};

/// Inputs that are listed.
const MOST_INPUTS: usize = 12;

/// Write a model as a file of another tool: ONNX, for any language that has a runtime for it
#[derive(Args)]
#[command(after_help = "Example:
  pervade export digits.pervade --onnx digits.onnx

The graph takes rows as they are, their preparation is part of it, and gives `cluster`
(int64), `probabilities`, `latents` and `score` (float32). Tables of numbers are one input,
`rows`, of shape [batch, columns]: float32, or float64 where columns have types, with NaN
for missing cells. Tables with categories or dates have one input of shape [batch, 1] per
column, with its name: float64 for numbers and for dates (seconds since 1970-01-01 UTC),
text for levels. `score` is that of `pervade score`; for small tables of numbers that had no
gaps in the fit it is NaN where cells are missing. Names, types and levels of the columns
are in the file's metadata.")]
pub(crate) struct ExportArgs {
    /// A model that `pervade fit` wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The ONNX file (opset 17)
    #[arg(long, value_name = "FILE.onnx")]
    onnx: PathBuf,
    /// Leave the output `score` out: the file is half as large, and a row takes less time
    #[arg(long)]
    no_score: bool,
}

/// Runs it.
pub(crate) fn run(args: &ExportArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let files = Files::new(common.force).input("MODEL", &args.model);
    let _claim = files.output("--onnx", &args.onnx, Kind::Onnx).claim(console)?;
    let model = super::load(&args.model, console)?;
    let options = OnnxOptions::default().with(|o| o.score = !args.no_score);
    let bytes = write_onnx(&model, &options, &args.onnx)?;
    let inputs = inputs(&model);
    let listed: Vec<String> = inputs
        .iter()
        .take(MOST_INPUTS)
        .map(|input| format!("{} ({} [batch, {}])", input.name, input.element, input.n_columns))
        .collect();
    let more = inputs.len().saturating_sub(MOST_INPUTS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    console.say(&format!("wrote {}, {}", args.onnx.display(), words::bytes(bytes)));
    console.say(&format!("inputs: {}{more}", listed.join(", ")));
    let score = options.score.then(|| model.score_name());
    if options.score && model.schema().is_some() {
        let gaps = if has_scores_for_complete_rows_only(&model) {
            ", and is NaN for rows with missing cells, which the fit did not have"
        } else {
            ""
        };
        console.say(&format!(
            "note: `score` takes many passes of the decoder per row{gaps}; `--no-score` leaves it out"
        ));
    }
    let inputs: Vec<_> = inputs
        .iter()
        .map(|input| json!({"name": input.name, "type": input.element, "columns": input.n_columns}))
        .collect();
    let object = json!({
        "out": args.onnx.display().to_string(),
        "bytes": bytes,
        "inputs": inputs,
        "clusters": model.n_clusters(),
        "latents": model.n_latents(),
        "score": score,
    });
    console.result(&object, "")?;
    Ok(Outcome::Done)
}
