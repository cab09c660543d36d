//! A table with its gaps filled: every other cell as it was written.

use std::io::{self, Write};
use std::path::Path;

use super::options::{Kept, Table};
use super::schema::{Missing, RawColumn, Schema};
use super::table_writer::TableWriter;
use super::write::{OutputCells, OutputFormat, OutputTable};
#[cfg(feature = "parquet")]
use super::write_parquet::TextType;
use crate::files::write_atomically;
use crate::{Error, Result};

/// A table whose missing cells are filled in, with all its columns in the order of its file.
///
/// The table must have been read with [`ReadOptions::original`](super::ReadOptions::original) if it comes from a text or
/// Parquet file; of an array, the cells are written.
#[derive(Debug)]
pub struct FilledTable<'a> {
    schema: &'a Schema,
    cells: &'a [f64],
    /// All columns as text; empty for an array.
    columns: Kept,
    /// For each of them the column of the schema.
    kinds: Vec<Option<usize>>,
    has_names: bool,
    n_filled: usize,
}

impl<'a> FilledTable<'a> {
    /// Fills the gaps of `table` from `cells`, [N, D], whose columns are those of `schema`.
    pub fn new(table: &Table, schema: &'a Schema, cells: &'a [f64]) -> Result<Self> {
        let (n_rows, d) = (table.data.n_rows(), schema.columns.len());
        if cells.len() != n_rows * d || table.data.n_columns() != d {
            let problem = format!("{} cells do not fill {n_rows} rows x {d} columns", cells.len());
            return Err(Error::data(table.data.source(), problem));
        }
        let raw = table.original.as_deref().unwrap_or_default();
        let has_names = raw.iter().any(|column| !column.name.is_empty()) || raw.is_empty() && schema.is_named;
        let mut filled =
            Self { schema, cells, columns: Kept::default(), kinds: Vec::new(), has_names, n_filled: 0 };
        let missing = Missing::new(&table.missing);
        for (at, column) in raw.iter().enumerate() {
            let label = table.label_column;
            let position = at - usize::from(label.is_some_and(|label| label < at));
            let j = table.order.iter().position(|&known| known == position && label != Some(at));
            filled.add(column, j, n_rows, &missing);
        }
        if raw.is_empty() {
            filled.n_filled = (0..n_rows * d).filter(|&at| table.data.cell(at / d, at % d).is_nan()).count();
        }
        Ok(filled)
    }

    fn add(&mut self, column: &RawColumn, j: Option<usize>, n_rows: usize, missing: &Missing) {
        let d = self.schema.columns.len();
        let mut texts = Vec::with_capacity(n_rows);
        for i in 0..n_rows {
            let text = column.text(i);
            match j.filter(|_| missing.has_text(&text)) {
                None => texts.push(text),
                Some(j) => {
                    self.n_filled += 1;
                    texts.push(self.schema.cell_to_text(j, self.cells[i * d + j]));
                }
            }
        }
        let name = if column.name.is_empty() && !self.has_names {
            format!("column_{}", self.columns.names.len() + 1)
        } else {
            column.name.clone()
        };
        self.columns.names.push(name);
        self.columns.columns.push(texts);
        self.kinds.push(j);
    }

    /// How many cells were filled in.
    pub fn n_filled(&self) -> usize {
        self.n_filled
    }

    /// Writes the table to `path` in the format of its extension.
    pub fn write(&self, path: &Path) -> Result<()> {
        let format = OutputFormat::of(path)?;
        OutputTable::check_format(Some(self.schema), format)?;
        write_atomically(path, |out| self.write_to(out, format))
    }

    /// Writes the table to a stream; `.npy` has the clustered columns alone.
    pub fn write_to(&self, out: &mut (impl Write + Send), format: OutputFormat) -> io::Result<()> {
        let n_rows = self.cells.len().checked_div(self.schema.columns.len()).unwrap_or(0);
        let mut writer = TableWriter::new(out, format, n_rows)?;
        self.add_to(&mut writer, &self.text_types())?;
        writer.finish()
    }

    /// Appends the table to one whose columns have these types; see [`FilledTable::text_types`].
    pub fn add_to<W: Write + Send>(&self, writer: &mut TableWriter<W>, types: &TextTypes) -> io::Result<()> {
        #[cfg(feature = "parquet")]
        if let Some(parquet) = writer.parquet().filter(|_| !self.columns.names.is_empty()) {
            return parquet.add_texts(&self.columns, &types.0).map_err(io::Error::other);
        }
        let _ = types;
        if self.columns.names.is_empty() || writer.is_npy() {
            let cells = OutputCells { schema: self.schema, cells: self.cells, pooled: &[] };
            return writer.add(&OutputTable { cells: Some(cells), ..OutputTable::default() });
        }
        writer.add(&OutputTable { kept: Some(&self.columns), ..OutputTable::default() })
    }

    /// The types that the columns have in a Parquet file: those of a table in pieces are [widened](TextTypes::widen) by each.
    pub fn text_types(&self) -> TextTypes {
        #[cfg(feature = "parquet")]
        {
            let each = self.columns.columns.iter().zip(&self.kinds);
            let kind = |j: &Option<usize>| j.map(|j| &self.schema.columns[j]);
            TextTypes(each.map(|(texts, j)| TextType::of(texts, kind(j))).collect())
        }
        #[cfg(not(feature = "parquet"))]
        TextTypes()
    }
}

/// The types of columns of text in a Parquet file.
#[derive(Debug, Clone, Default)]
pub struct TextTypes(#[cfg(feature = "parquet")] Vec<TextType>);

impl TextTypes {
    /// Takes the types of another piece of the same table into account.
    pub fn widen(&mut self, other: &TextTypes) {
        #[cfg(feature = "parquet")]
        {
            if self.0.is_empty() {
                self.0.clone_from(&other.0);
            }
            self.0.iter_mut().zip(&other.0).for_each(|(this, other)| *this = this.wider(*other));
        }
        #[cfg(not(feature = "parquet"))]
        let _ = other;
    }
}
