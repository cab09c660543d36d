//! The `pervade` command: data on stdout, messages on stderr; exit status 0 for success, 1 if a requested check failed,
//! 2 if it could not run.

pub mod allocator;
mod args;
mod cache;
mod column_names;
mod commands;
mod console;
mod explore;
mod feedback;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod interrupt;
mod json;
mod layout;
mod methods;
pub mod out_of_memory;
mod outputs;
mod page;
mod picture;
mod progress;
mod ranks;
mod report;
mod settings;
mod shell;
mod stream;
mod tables;
mod tensorboard;
mod words;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::panic::AssertUnwindSafe;

use clap::FromArgMatches;
use pervade::{Error, Result};

pub use crate::cache::cache_folder;
pub use crate::commands::demo::digits;
pub use crate::feedback::Feedback;
pub use crate::layout::lay_out;
pub use crate::page::{Caller, MAX_POINTS, PART, Subject, TableView, report_page, row_results};

use crate::args::Cli;
use crate::console::Console;

/// The outcome of a command that could run.
enum Outcome {
    /// Success: exit 0.
    Done,
    /// A check that the user asked for failed: exit 1.
    CheckFailed(String),
}

const DONE: u8 = 0;
const CHECK_FAILED: u8 = 1;
const COULD_NOT_RUN: u8 = 2;

/// Runs the command with `args` (the first is the program's name) and returns its exit status.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    interrupt::install();
    let args: Vec<OsString> = args.into_iter().collect();
    let parsed = args::command()
        .try_get_matches_from(args::with_joined_numbers(&args))
        .and_then(|found| Cli::from_arg_matches(&found));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(message) => return answer(&message, args.iter().any(|arg| arg == "--json")),
    };
    let console = Console::new(&cli.common);
    match without_panics(|| in_pool(&cli, || commands::run(&cli, &args, &console))) {
        Ok(Outcome::Done) => DONE,
        Ok(Outcome::CheckFailed(what)) => {
            Console::always(&format!("check failed: {what}"));
            CHECK_FAILED
        }
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => DONE,
        Err(error) => {
            console.error(&error);
            if matches!(error, Error::Interrupted { .. }) { interrupt::status() } else { COULD_NOT_RUN }
        }
    }
}

/// Help and version are successes; everything else is a usage error.
fn answer(message: &clap::Error, json: bool) -> u8 {
    if message.use_stderr() {
        // In colour if the terminal supports it, unless the arguments contain control characters.
        let text = message.render().to_string();
        match console::printable(&text) {
            Cow::Borrowed(_) => drop(message.print()),
            Cow::Owned(text) => Console::always(text.trim_end()),
        }
        if json {
            let error = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            let _ = writeln!(io::stdout(), "{}", serde_json::json!({"error": error, "hint": null}));
        }
        return COULD_NOT_RUN;
    }
    match message.print().and_then(|()| io::stdout().flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Console::always(&format!("error: cannot write `standard output`: {e}"));
            COULD_NOT_RUN
        }
        _ => DONE,
    }
}

/// A panic is a bug: it becomes an error that says so, without a backtrace.
fn without_panics<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::set_hook(Box::new(|_| {}));
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|what| {
        let text = what.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| what.downcast_ref::<&str>().copied()).unwrap_or("no description");
        Err(Error::device(format!("this is a bug in pervade: {text}"))
            .with_hint("please report it with the command that you ran; no file was left half-written"))
    })
}

/// Everything runs in one pool with the requested number of threads.
fn in_pool<T: Send>(cli: &Cli, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let threads = cli.common.threads()?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|e| {
        Error::setting("threads", threads, format!("but the threads could not be started: {e}"))
            .with_hint("lower `--threads`, or raise the limit on memory (ulimit -v) or processes (ulimit -u)")
    })?;
    pool.install(work)
}
