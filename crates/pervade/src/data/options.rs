//! What to read: which array is the table, and where its labels are.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use super::dataset::Dataset;
use super::labels::Labels;
use super::schema::{ColumnSpec, ColumnType, RawColumn, Schema, listed};
use crate::{Error, Hint, Result};

/// Rows, with labels if they were asked for.
#[derive(Debug)]
#[non_exhaustive]
pub struct Table {
    /// The rows.
    pub data: Dataset<'static>,
    /// The labels that [`ReadOptions::labels`] selects; only for scoring.
    pub labels: Option<Labels>,
    /// Where the labels were found: a bare name can be that of an array or of a file.
    pub labels_from: Option<LabelSource>,
    /// Columns that are not clustered, but go along to results.
    pub kept: Option<Kept>,
    /// What the columns were taken for, in a paragraph; none if all are plain numbers.
    pub description: Option<String>,
    /// Remarks about cells that are not used as they are.
    pub notes: Vec<String>,
    /// Cells with a rare level, by row and column: the table has them as one level.
    pub pooled: Vec<PooledCell>,
    /// Words for missing cells, beside the usual ones.
    pub(super) missing: Vec<String>,
    /// All columns of the file, labels included, as [`ReadOptions::original`] asks for.
    pub(super) original: Option<Vec<RawColumn>>,
    /// Which of these holds the labels.
    pub(super) label_column: Option<usize>,
    /// For each clustered column its index among the columns of the file, labels aside.
    pub(super) order: Vec<usize>,
}

/// Columns that are not clustered, such as ids, as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Their names.
    pub names: Vec<String>,
    /// Their cells, one list per column; empty where missing.
    pub columns: Vec<Vec<String>>,
}

impl Kept {
    /// The text of columns as they were found; `None` if there are none.
    pub(super) fn of<'a>(columns: impl IntoIterator<Item = (&'a str, &'a RawColumn)>) -> Option<Self> {
        let each = columns.into_iter().map(|(name, column)| {
            (name.to_string(), (0..column.len()).map(|row| column.text(row)).collect::<Vec<String>>())
        });
        let (names, columns): (Vec<_>, Vec<_>) = each.unzip();
        (!names.is_empty()).then_some(Self { names, columns })
    }
}

/// A cell whose level is rare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PooledCell {
    /// Its row.
    pub row: usize,
    /// Its column among the clustered ones.
    pub column: usize,
    /// The level as it was.
    pub word: String,
}

impl Table {
    /// Rows with the labels found among them.
    pub fn new(data: Dataset<'static>, labels: Option<Labels>) -> Self {
        Self {
            data,
            labels,
            labels_from: None,
            kept: None,
            description: None,
            notes: Vec::new(),
            pooled: Vec::new(),
            missing: Vec::new(),
            original: None,
            label_column: None,
            order: Vec::new(),
        }
    }
}

/// Options for reading a table.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Where the labels are; none are read by default.
    pub labels: Option<LabelSource>,
    /// Which array of an `.npz` or `.mat` file is the table; by default `x`, `X`, or the only one
    /// that can be a table.
    pub array: Option<String>,
    /// Types of columns by name; of several for one column the last counts. The others are inferred.
    pub types: Vec<(String, ColumnSpec)>,
    /// Columns that are not clustered, but go along to results.
    pub keep: Vec<String>,
    /// Words for missing cells, beside the usual ones (an empty cell, `NA`, `NaN`, `null`, `?` and others).
    pub missing: Vec<String>,
    /// Whether it means something that a cell is missing: each column with gaps gets a yes/no column beside it that tells where
    /// they are, and which is clustered like any other.
    pub missing_informative: bool,
    /// Whether numbers of a text table have a decimal comma, as in `3,14`.
    pub decimal_comma: bool,
    /// Reads new rows for a model with these columns: in any order, with the levels and formats of the fit.
    pub schema: Option<Arc<Schema>>,
    /// Reads new rows for a model without column types: every column must be numbers without gaps. With the names of the
    /// model's columns, text in other columns goes along; empty if it has none.
    pub plain: Option<Vec<String>>,
    /// Also keeps every cell of a text or Parquet file as it is written, for a [`FilledTable`](super::FilledTable).
    pub original: bool,
    /// Index of the first row that is read in the whole table, for messages.
    pub(super) first_row: usize,
}

impl ReadOptions {
    /// Options to read labels too, from the source that `text` describes (see [`LabelSource`]).
    pub fn with_labels(text: &str) -> Result<Self> {
        Ok(Self { labels: Some(text.parse()?), ..Self::default() })
    }

    /// Applies a change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Whether anything is said about columns, except that they are plain numbers.
    pub(super) fn has_column_options(&self) -> bool {
        let is_nothing_given = self.types.is_empty() && self.keep.is_empty() && self.missing.is_empty();
        self.schema.is_some() || !is_nothing_given
    }

    /// The type that was given to a column.
    pub(super) fn spec(&self, name: &str) -> Option<ColumnSpec> {
        if self.keep.iter().any(|kept| kept == name) {
            return Some(ColumnType::Kept.into());
        }
        self.types.iter().rev().find(|(column, _)| column == name).map(|(_, spec)| spec.clone())
    }

    /// Returns an error if a type is given to a column that does not exist.
    pub(super) fn check_names(&self, columns: &[RawColumn]) -> Result<()> {
        let types = self.types.iter().map(|(name, spec)| ("type", name, format!("`{name}={}`", spec.kind)));
        let kept = self.keep.iter().map(|name| ("keep-columns", name, format!("`{name}`")));
        for (setting, name, value) in types.chain(kept) {
            if columns.iter().all(|column| column.name != *name) {
                let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                let must = format!("but no column is named `{name}`; the columns are {}", listed(&names, 20));
                return Err(Error::setting(setting, value, must));
            }
        }
        Ok(())
    }
}

/// Where labels come from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelSource {
    /// A file with one label per row.
    File(PathBuf),
    /// `column:NAME`: a column of the table itself, which is then not part of the data.
    Column(String),
    /// `column:last`: the last column of the table itself.
    LastColumn,
    /// Anything else: labels that the data offer by that name, such as an array of an `.npz` file; otherwise a file of
    /// that name.
    Named(String),
}

impl FromStr for LabelSource {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let must = "must be a file, `column:NAME`, `column:last`, or an array such as `y`";
        match text.strip_prefix("column:") {
            Some("") => Err(Error::setting("labels", text, must)),
            Some("last") => Ok(LabelSource::LastColumn),
            Some(name) => Ok(LabelSource::Column(name.to_string())),
            None if text.is_empty() => Err(Error::setting("labels", "empty", must)),
            None if looks_like_a_file(text) => Ok(LabelSource::File(PathBuf::from(text))),
            None => Ok(LabelSource::Named(text.to_string())),
        }
    }
}

impl std::fmt::Display for LabelSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LabelSource::File(path) => write!(f, "{}", path.display()),
            LabelSource::Column(name) => write!(f, "column:{name}"),
            LabelSource::LastColumn => f.write_str("column:last"),
            LabelSource::Named(name) => f.write_str(name),
        }
    }
}

/// The error for labels that are not in the data.
pub(super) fn not_offered(location: &str, wanted: &LabelSource, offered: &str) -> Error {
    Error::data(location, format!("there are no labels `{wanted}` here; {offered}")).with_hint(
        Hint::new("")
            .setting("labels")
            .text(" takes a file, `column:NAME`, `column:last`, or the name of an array"),
    )
}

/// The error for [`ReadOptions::decimal_comma`] with anything but text.
pub(super) fn no_text(location: &str) -> Error {
    Error::data(location, "a decimal comma is possible in text tables only, which this is not")
        .with_hint(Hint::new("leave out ").setting("decimal_comma"))
}

/// The error for a named array in a file without named arrays.
pub(super) fn no_arrays(location: &str, name: &str, held: &str) -> Error {
    Error::data(location, format!("there is no array `{name}` here; {held}")).with_hint(
        Hint::new("leave out ").setting("array").text(", which chooses an array of an .npz or .mat file"),
    )
}

/// A mistyped path must be reported as a missing file, not as a missing array. Whether the file exists does not matter:
/// the meaning of `y` must not depend on the current folder.
fn looks_like_a_file(text: &str) -> bool {
    const ENDINGS: [&str; 11] =
        ["npy", "npz", "csv", "tsv", "txt", "gz", "parquet", "mat", "dat", "labels", "bin"];
    let path = Path::new(text);
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
    text.contains(std::path::MAIN_SEPARATOR) || ENDINGS.contains(&ending.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_sources_parse_as_typed() {
        let parse = |text: &str| text.parse::<LabelSource>().unwrap();
        assert_eq!(parse("column:last"), LabelSource::LastColumn);
        assert_eq!(parse("column:kind of wine"), LabelSource::Column("kind of wine".into()));
        assert_eq!(parse("y"), LabelSource::Named("y".into()));
        assert_eq!(
            parse("Cargo.toml"),
            LabelSource::Named("Cargo.toml".into()),
            "though there is such a file"
        );
        assert_eq!(parse("no/such.file"), LabelSource::File("no/such.file".into()));
        assert_eq!(parse("labels.csv").to_string(), "labels.csv");
        assert!("column:".parse::<LabelSource>().is_err() && "".parse::<LabelSource>().is_err());
    }
}
