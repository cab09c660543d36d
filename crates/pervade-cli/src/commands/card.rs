//! `pervade card`: a model card.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use pervade::Result;
use serde_json::json;

use crate::args::Common;
use crate::console::Console;
use crate::files::{Files, Kind};
use crate::{Outcome, outputs};

/// Write a model card in Markdown: what the model is, what it was fitted to, how sure its clusters are, how to use it
#[derive(Args)]
#[command(after_help = "Example:
  pervade card digits.pervade --out README.md

The card has the front matter that model hubs read; the licence is left to you. It holds
names of columns and levels, but no rows.")]
pub(crate) struct CardArgs {
    /// A model that `pervade fit` wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The card [default: stdout]
    #[arg(long, short, value_name = "FILE.md")]
    out: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(args: &CardArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let files = Files::new(common.force).input("MODEL", &args.model);
    let _claim = files.maybe_output("--out", args.out.as_deref(), Kind::Card).claim(console)?;
    let model = super::load(&args.model, console)?;
    let card = pervade_export::card::card(&model, &outputs::name_of(&args.model))?;
    match &args.out {
        Some(out) => {
            outputs::text(out, &card)?;
            console.say(&format!("wrote {}", out.display()));
            console.result(&json!({"out": out.display().to_string(), "bytes": card.len()}), "")?;
        }
        None if console.json => console.result(&json!({"card": card}), "")?,
        None => Console::data(|out| out.write_all(card.as_bytes()))?,
    }
    Ok(Outcome::Done)
}
