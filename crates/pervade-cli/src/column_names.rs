//! Names for the columns of tables that have none, such as arrays and sparse matrices of terms.

use std::path::Path;

use pervade::data::{Dataset, Table};
use pervade::{Error, Result};

/// Gives the columns the names in a text file, one per line.
pub(crate) fn name_columns(mut table: Table, path: &Path) -> Result<Table> {
    if table.data.column_names().is_some() {
        let must = "cannot be used: the table has column names of its own";
        return Err(Error::setting("column-names", path.display(), must));
    }
    let bytes = std::fs::read(path).map_err(|e| Error::io("read", path, e))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::data(path.display(), "is not UTF-8 text with one name per line"))?;
    let names: Vec<String> =
        text.trim_start_matches('\u{feff}').lines().map(|l| l.trim().to_string()).collect();
    check(&names, &table.data, path)?;
    table.data = table.data.with_column_names(names);
    Ok(table)
}

fn check(names: &[String], data: &Dataset<'_>, path: &Path) -> Result<()> {
    let d = data.n_columns();
    if names.len() != d {
        let problem = format!("has {} lines, but the table has {d} columns", names.len());
        return Err(Error::data(path.display(), problem).with_hint("give one name per column, in order"));
    }
    match names.iter().position(String::is_empty) {
        Some(line) => Err(Error::data(path.display(), format!("has no name in line {}", line + 1))),
        None => Ok(()),
    }
}
