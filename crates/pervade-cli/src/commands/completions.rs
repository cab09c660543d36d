//! `pervade completions`: shell completions.

use clap::Args;
use clap_complete::Shell;
use pervade::Result;
use serde_json::json;

use crate::Outcome;
use crate::console::Console;

/// Print the completions of a shell
#[derive(Args)]
#[command(after_help = "Example:
  pervade completions bash > ~/.local/share/bash-completion/completions/pervade")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Runs it.
pub(crate) fn run(args: &CompletionsArgs, console: &Console) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::args::command(), "pervade", &mut script);
    let script = String::from_utf8_lossy(&script);
    console.result(&json!({"shell": args.shell.to_string(), "script": script}), script.trim_end())?;
    Ok(Outcome::Done)
}
