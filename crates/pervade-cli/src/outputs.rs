//! Writing results to files and stdout.

use std::io::Write;
use std::path::Path;

use pervade::data::{OutputFormat, OutputTable};
use pervade::files::write_atomically;
use pervade::{Error, Result};
use serde::Serialize;

use crate::console::Console;

/// Writes a table to a file, or as CSV to stdout unless JSON goes there.
pub(crate) fn table(table: &OutputTable<'_>, path: Option<&Path>, console: &Console) -> Result<()> {
    match path {
        Some(path) => table.write(path),
        None if console.json => Ok(()),
        None => Console::data(|out| table.write_to(out, OutputFormat::Csv)),
    }
}

/// Writes a JSON file, indented for people.
pub(crate) fn json(value: &impl Serialize, path: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Error::io("write", path, std::io::Error::other(e)))?;
    write_atomically(path, |out| writeln!(out, "{text}"))
}

/// Writes a text file.
pub(crate) fn text(path: &Path, text: &str) -> Result<()> {
    write_atomically(path, |out| out.write_all(text.as_bytes()))
}

/// The file name without its folder, for messages and records that are shared.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
