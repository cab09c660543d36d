//! The paper as data: its data sets, and every row of its tables with the published value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pervade::data::Table;
use pervade::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::args::ReadArgs;
use crate::console::Console;

/// A file of rows: data sets, and the methods to run on them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowsFile {
    #[serde(default, rename = "data")]
    pub(super) sets: Vec<DataSet>,
    #[serde(default, rename = "row")]
    pub(super) rows: Vec<Row>,
}

/// A data set and its path below the data folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DataSet {
    pub(super) name: String,
    /// The name in tables.
    pub(super) title: String,
    path: PathBuf,
    /// An array or column of the file itself.
    labels: Option<String>,
    /// A file below the data folder.
    label_file: Option<PathBuf>,
    /// K.
    pub(super) clusters: usize,
    /// The official split: the number of training rows, which come first.
    pub(super) train_rows: Option<usize>,
    /// Height x width, if the rows are images.
    image: Option<String>,
    /// The paper's data set that this one stands for.
    pub(super) stands_for: Option<String>,
    /// How the two differ.
    pub(super) note: Option<String>,
}

/// One row of a table: a method on one data set.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) data: String,
    pub(super) method: String,
    pub(super) seeds: usize,
    /// Settings that differ from the method's defaults.
    #[serde(default)]
    pub(super) settings: Map<String, Value>,
    /// The paper's values, by score.
    #[serde(default)]
    pub(super) paper: BTreeMap<String, f64>,
    /// Where the paper has them.
    #[serde(rename = "where")]
    pub(super) stands_at: Option<String>,
}

/// A table of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TableId {
    Table1,
    Table2,
    Table3,
}

impl TableId {
    pub(super) fn name(self) -> &'static str {
        match self {
            TableId::Table1 => "table1",
            TableId::Table2 => "table2",
            TableId::Table3 => "table3",
        }
    }

    /// The embedded rows of the table.
    fn embedded(self) -> &'static str {
        match self {
            TableId::Table1 => include_str!("../../../rows/table1.toml"),
            TableId::Table2 => include_str!("../../../rows/table2.toml"),
            TableId::Table3 => include_str!("../../../rows/table3.toml"),
        }
    }
}

const DATA: &str = include_str!("../../../rows/data.toml");

impl RowsFile {
    /// The rows of a table: those of `file`, or the paper's.
    pub(super) fn of(table: TableId, file: Option<&Path>) -> Result<Self> {
        let rows = match file {
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
                parse(&text, &path.display().to_string())?
            }
            None => {
                let mut rows = parse(table.embedded(), table.name())?;
                rows.sets = parse(DATA, "data.toml")?.sets;
                rows
            }
        };
        rows.check(&file.map_or_else(|| table.name().to_string(), |path| path.display().to_string()))?;
        Ok(rows)
    }

    fn check(&self, location: &str) -> Result<()> {
        for row in &self.rows {
            if !self.sets.iter().any(|set| set.name == row.data) {
                let problem =
                    format!("the row `{}:{}` names a data set that has no `[[data]]`", row.data, row.method);
                return Err(Error::data(location, problem));
            }
            if row.seeds == 0 {
                let problem = format!("the row `{}:{}` has no seeds", row.data, row.method);
                return Err(Error::data(location, problem).with_hint("`seeds` must be at least 1"));
            }
        }
        Ok(())
    }

    pub(super) fn set(&self, name: &str) -> Result<&DataSet> {
        let known: Vec<&str> = self.sets.iter().map(|set| set.name.as_str()).collect();
        self.sets.iter().find(|set| set.name == name).ok_or_else(|| {
            Error::setting(
                "only",
                format!("`{name}`"),
                format!("must be one of the data sets {}", known.join(", ")),
            )
        })
    }

    /// The rows that `only` names: `DATASET:METHOD`, `DATASET` or `:METHOD`; all when it is empty.
    pub(super) fn selected(&self, only: &[String]) -> Vec<&Row> {
        let wanted = |row: &&Row| only.is_empty() || only.iter().any(|wanted| row.is(wanted));
        self.rows.iter().filter(wanted).collect()
    }
}

/// Returns an error for anything in `only` that none of the tables has.
pub(super) fn check_only(only: &[String], tables: &[(TableId, RowsFile)]) -> Result<()> {
    let rows = || tables.iter().flat_map(|(_, table)| &table.rows);
    let Some(unknown) = only.iter().find(|wanted| !rows().any(|row| row.is(wanted))) else { return Ok(()) };
    let list = |of: fn(&Row) -> &str| distinct(rows().map(of)).join(", ");
    let must = "must be DATASET:METHOD, or DATASET for all its methods";
    Err(Error::setting("only", format!("`{unknown}`"), must).with_hint(format!(
        "data sets: {}; methods: {}",
        list(|row| &row.data),
        list(|row| &row.method)
    )))
}

/// Names in order of first occurrence, without duplicates.
pub(super) fn distinct<'r>(names: impl Iterator<Item = &'r str>) -> Vec<&'r str> {
    let mut found = Vec::new();
    names.for_each(|name| {
        if !found.contains(&name) {
            found.push(name);
        }
    });
    found
}

impl Row {
    /// Whether `DATASET:METHOD`, `DATASET` or `:METHOD` selects the row.
    fn is(&self, wanted: &str) -> bool {
        match wanted.split_once(':') {
            Some((data, method)) => (data.is_empty() || data == self.data) && method == self.method,
            None => wanted == self.data,
        }
    }
}

fn parse(text: &str, location: &str) -> Result<RowsFile> {
    toml::from_str(text).map_err(|e| Error::data(location, e.to_string().trim_end().replace('\n', "\n  ")))
}

impl DataSet {
    /// The first of its files that does not exist.
    pub(super) fn absent(&self, folder: &Path) -> Option<PathBuf> {
        let paths = std::iter::once(&self.path).chain(&self.label_file).map(|path| folder.join(path));
        paths.into_iter().find(|path| !path.exists())
    }

    /// Reads rows and labels.
    pub(super) fn read(&self, folder: &Path, console: &Console) -> Result<Table> {
        let file = self.label_file.as_ref().map(|file| folder.join(file).display().to_string());
        let labels = file.or_else(|| self.labels.clone());
        ReadArgs::new(labels, self.image.clone()).read(&folder.join(&self.path), console)
    }

    /// The title in tables, with the paper's name if it stands for another data set.
    pub(super) fn in_place_of(&self) -> String {
        match &self.stands_for {
            Some(paper) => format!("{} (for {paper})", self.title),
            None => self.title.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_the_paper_are_complete() {
        let [one, two, three] = [TableId::Table1, TableId::Table2, TableId::Table3]
            .map(|table| RowsFile::of(table, None).unwrap());
        assert_eq!(one.rows.len(), one.sets.len());
        let is_uniform = |row: &&Row| !row.method.starts_with("vade-authors");
        assert_eq!(two.rows.iter().filter(is_uniform).count(), 10 * two.sets.len());
        let vade = |row: &&Row| row.method == "vade-paper" && row.data == "mnist";
        assert_eq!(two.rows.iter().find(vade).unwrap().paper["accuracy"], 94.46);
        assert_eq!(three.rows.iter().find(vade).unwrap().paper["k10"], 2.22);
        // Every value of the paper has its source.
        for row in [one, two, three].iter().flat_map(|rows| rows.rows.clone()) {
            assert_eq!(row.paper.is_empty(), row.stands_at.is_none(), "{}:{}", row.data, row.method);
        }
    }

    #[test]
    fn errors_in_a_file_name_its_location() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.toml");
        for (text, expected) in [
            ("[[row]]\ndata = \"x\"\nmethod = \"gmm\"\nseeds = 1\n", "`x:gmm` names a data set"),
            ("[[row]]\ndata = 3\n", "invalid type: integer `3`, expected a string"),
            ("[[rows]]\n", "unknown field `rows`"),
            ("[[row]\n", "own.toml"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = RowsFile::of(TableId::Table2, Some(&file)).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("own.toml"), "{error}");
        }
    }
}
