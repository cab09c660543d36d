//! Talk goes to stderr, data to stdout; nothing here can panic on a closed pipe.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use pervade::{Error, Result};
use serde::Serialize;

use crate::args::Common;
use crate::interrupt;

/// Where a command speaks.
pub(crate) struct Console {
    /// One JSON object on stdout is wanted.
    pub(crate) json: bool,
    /// Only errors on stderr.
    pub(crate) quiet: bool,
}

impl Console {
    /// As the flags say.
    pub(crate) fn new(common: &Common) -> Self {
        Self { json: common.json, quiet: common.quiet }
    }

    /// Talk, unless told to be quiet.
    pub(crate) fn say(&self, text: &str) {
        if !self.quiet {
            Self::always(text);
        }
    }

    /// Talk that even a quiet run shows.
    pub(crate) fn always(text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Whether stderr is a terminal that wants moving bars.
    pub(crate) fn is_terminal() -> bool {
        io::stderr().is_terminal()
    }

    /// The error and what to do about it; on stdout too where JSON is expected there.
    pub(crate) fn error(&self, error: &Error) {
        // The library's advice to resume holds only where there is a checkpoint.
        let moot = matches!(error, Error::Interrupted { .. }) && !interrupt::resumable();
        let hint = error.hint().filter(|_| !moot);
        Self::always(&format!("error: {error}"));
        hint.iter().for_each(|hint| Self::always(&format!("hint: {hint}")));
        if self.json {
            let object = serde_json::json!({"error": error.to_string(), "hint": hint});
            let _ = writeln!(io::stdout().lock(), "{object}");
        }
    }

    /// The result: the JSON object if asked for, else the text (none where it is talk already).
    pub(crate) fn result(&self, value: &impl Serialize, text: &str) -> Result<()> {
        if !self.json {
            return if text.is_empty() { Ok(()) } else { Self::data(|out| writeln!(out, "{text}")) };
        }
        Self::data(|out| {
            serde_json::to_writer(&mut *out, value)?;
            writeln!(out)
        })
    }

    /// Data on stdout.
    pub(crate) fn data(write: impl FnOnce(&mut io::BufWriter<io::Stdout>) -> io::Result<()>) -> Result<()> {
        let mut out = io::BufWriter::new(io::stdout());
        write(&mut out)
            .and_then(|()| out.flush())
            .map_err(|e| Error::io("write", Path::new("standard output"), e))
    }
}
