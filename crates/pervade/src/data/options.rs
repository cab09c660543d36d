//! What to read: which array is the table, and where its labels are.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::dataset::Dataset;
use super::labels::Labels;
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
}

impl Table {
    /// Rows with the labels found among them.
    pub fn new(data: Dataset<'static>, labels: Option<Labels>) -> Self {
        Self { data, labels, labels_from: None }
    }
}

/// Options for reading a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Where the labels are; none are read by default.
    pub labels: Option<LabelSource>,
    /// Which array of an `.npz` or `.mat` file is the table; by default `x`, `X`, or the only one
    /// that can be a table.
    pub array: Option<String>,
}

impl ReadOptions {
    /// Options to read labels too, from the source that `text` describes (see [`LabelSource`]).
    pub fn with_labels(text: &str) -> Result<Self> {
        Ok(Self { labels: Some(text.parse()?), array: None })
    }

    /// Applies a change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
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
