//! The `pervade` command: stdout is data, stderr is talk; exit 0 done, 1 a stated check failed,
//! 2 could not run.

mod args;
mod cache;
mod commands;
mod console;
mod interrupt;
mod json;
mod methods;
pub mod out_of_memory;
mod outputs;
mod picture;
mod progress;
mod report;
mod settings;
mod tables;
mod words;

use std::ffi::OsString;

use clap::FromArgMatches;
use pervade::{Error, Result};

pub use crate::cache::cache_folder;
pub use crate::commands::demo::digits;

use crate::args::Cli;
use crate::console::Console;

/// What a command ends with when it could run.
enum Outcome {
    /// All is well: exit 0.
    Done,
    /// A check that the user stated failed: exit 1.
    CheckFailed(String),
}

const DONE: u8 = 0;
const CHECK_FAILED: u8 = 1;
const COULD_NOT_RUN: u8 = 2;
/// What shells report for a process that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Runs the command with `args` (the first is the program's name) and returns its exit status.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    let parsed = args::command().try_get_matches_from(&args).and_then(|found| Cli::from_arg_matches(&found));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(message) => {
            // Help and version are answers; everything else is a mistake in the command line.
            let status = if message.use_stderr() { COULD_NOT_RUN } else { DONE };
            let _ = message.print();
            return status;
        }
    };
    let console = Console::new(&cli.common);
    match in_pool(&cli, || commands::run(&cli, &args, &console)) {
        Ok(Outcome::Done) => DONE,
        Ok(Outcome::CheckFailed(what)) => {
            Console::always(&format!("check failed: {what}"));
            CHECK_FAILED
        }
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::BrokenPipe => DONE,
        Err(error) => {
            console.error(&error);
            if matches!(error, Error::Interrupted { .. }) { INTERRUPTED } else { COULD_NOT_RUN }
        }
    }
}

/// Everything runs inside one pool of the asked-for number of threads.
fn in_pool<T: Send>(cli: &Cli, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let threads = cli.common.threads()?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|e| {
        Error::setting("threads", threads, format!("but the threads could not be started: {e}"))
            .with_hint("lower `--threads`, or raise the limit on memory (ulimit -v) or processes (ulimit -u)")
    })?;
    pool.install(work)
}
