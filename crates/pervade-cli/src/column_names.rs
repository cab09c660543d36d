//! Names for the columns of tables that have none, such as arrays and sparse matrices of terms.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use pervade::data::{Dataset, Table};
use pervade::{Error, Result};

/// Bytes of a name, on average, at most.
const LONGEST_NAME: usize = 1_000;

/// Gives the columns the names in a text file, one per line.
pub(crate) fn name_columns(table: Table, path: &Path) -> Result<Table> {
    if table.data.column_names().is_some() {
        let must = "cannot be used: the table has column names of its own";
        return Err(Error::setting("column-names", path.display(), must));
    }
    let text = read_text(path, table.data.n_columns() * LONGEST_NAME)?;
    with_names(table, &text, path)
}

/// The table with the names in the text of the file at `path`.
pub(crate) fn with_names(mut table: Table, text: &str, path: &Path) -> Result<Table> {
    let names = text.trim_start_matches('\u{feff}').lines().map(|line| line.trim().to_string());
    let names: Vec<String> = names.collect();
    check(&names, &table.data, path)?;
    table.data = table.data.with_column_names(names);
    Ok(table)
}

/// The whole file, which may have at most so many bytes: a device or a pipe need not end.
fn read_text(path: &Path, limit: usize) -> Result<String> {
    let failed = |e| Error::io("read", path, e);
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > limit {
        return Err(Error::data(path.display(), "is too long for a list of names, one per line"));
    }
    String::from_utf8(bytes).map_err(|_| Error::data(path.display(), "is not text in UTF-8"))
}

fn check(names: &[String], data: &Dataset<'_>, path: &Path) -> Result<()> {
    let d = data.n_source_columns();
    if names.len() != d {
        let problem = format!("has {} lines, but the table has {d} columns", names.len());
        return Err(Error::data(path.display(), problem).with_hint("give one name per column, in order"));
    }
    match names.iter().position(String::is_empty) {
        Some(line) => Err(Error::data(path.display(), format!("has no name in line {}", line + 1))),
        None => Ok(()),
    }
}
