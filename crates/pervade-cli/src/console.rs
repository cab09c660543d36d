//! Console output: messages go to stderr, data to stdout; a closed pipe never causes a panic.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use pervade::{Error, Hint, Result, Term};
use serde::Serialize;

use crate::args::Common;
use crate::{interrupt, out_of_memory, shell};

/// The output of a command.
pub(crate) struct Console {
    /// One JSON object on stdout is wanted.
    pub(crate) json: bool,
    /// Only errors on stderr.
    pub(crate) quiet: bool,
}

impl Console {
    /// Configured by the flags.
    pub(crate) fn new(common: &Common) -> Self {
        if common.json {
            out_of_memory::in_json();
        }
        Self { json: common.json, quiet: common.quiet }
    }

    /// Prints a message, unless quiet.
    pub(crate) fn say(&self, text: &str) {
        if !self.quiet {
            Self::always(text);
        }
    }

    /// Prints a message even if quiet.
    pub(crate) fn always(text: &str) {
        let _ = writeln!(io::stderr().lock(), "{}", printable(text));
    }

    /// Whether stderr is a terminal that can show progress bars.
    pub(crate) fn is_terminal() -> bool {
        io::stderr().is_terminal()
    }

    /// Prints the error and its hint; also on stdout if JSON is expected there.
    pub(crate) fn error(&self, error: &Error) {
        // The library's hint to resume holds only if a checkpoint was written.
        let moot = matches!(error, Error::Interrupted { .. }) && !interrupt::resumable();
        let hint = error.hint().filter(|_| !moot).and_then(|hint| typed(&hint));
        Self::always(&format!("error: {error}"));
        hint.iter().for_each(|hint| Self::always(&format!("hint: {hint}")));
        if self.json {
            let object = serde_json::json!({"error": error.to_string(), "hint": hint});
            let _ = writeln!(io::stdout().lock(), "{object}");
        }
    }

    /// Prints the result: the JSON object if asked for, otherwise the text, if any.
    pub(crate) fn result(&self, value: &impl Serialize, text: &str) -> Result<()> {
        if !self.json {
            return if text.is_empty() {
                Ok(())
            } else {
                Self::data(|out| writeln!(out, "{}", printable(text)))
            };
        }
        Self::data(|out| {
            serde_json::to_writer(&mut *out, value)?;
            writeln!(out)
        })
    }

    /// Writes data to stdout.
    pub(crate) fn data(write: impl FnOnce(&mut io::BufWriter<io::Stdout>) -> io::Result<()>) -> Result<()> {
        let mut out = io::BufWriter::new(io::stdout());
        write(&mut out)
            .and_then(|()| out.flush())
            .map_err(|e| Error::io("write", Path::new("standard output"), e))
    }
}

/// A hint with settings and commands as they are typed in a shell.
fn typed(hint: &Hint) -> Option<String> {
    hint.worded(|term| match term {
        Term::Setting { name, value } => {
            let value = value.as_ref().map_or(String::new(), |value| format!(" {}", shell::word(value)));
            Some(format!("`--{}{value}`", name.replace('_', "-")))
        }
        Term::Command(name) => Some(format!("`pervade {name}`")),
        _ => None,
    })
}

/// Escapes control characters: names in files and on the command line must not move the cursor, change colours, or
/// reverse the text.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| if hidden(c) { c.escape_unicode().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(escaped).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_flags_as_typed() {
        let hint = Hint::new("lower ").setting("graph_rows").also("use ").setting_to("prepare", "unit");
        let hint = hint.also("see ").command("score");
        assert_eq!(typed(&hint).unwrap(), "lower `--graph-rows`; use `--prepare unit`; see `pervade score`");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(
            printable("a\u{1b}[31mb\r\u{9b}\u{7}\u{202e}x"),
            "a\\u{1b}[31mb\\u{d}\\u{9b}\\u{7}\\u{202e}x"
        );
        assert_eq!(printable("über\t1\n2 ± █"), "über\t1\n2 ± █");
    }
}
