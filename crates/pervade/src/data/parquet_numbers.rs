//! Parquet files whose columns are numbers, as rows of one type: for tables that are written to a file of their own.

use super::dataset::Values;
use super::options::Table;
use super::parquet::{Kind, RowBuffer, column_names};
use super::parquet_file::{Block, ParquetFile, guarded};
use super::parts::other_width;
use super::schema::looks_like_id;
use crate::Result;

/// Which columns of some files are read, and as what.
pub(super) struct NumberColumns {
    columns: Vec<usize>,
    kind: Kind,
    /// Names of all numbers of a row: lists have several.
    pub(super) names: Vec<String>,
    /// Ids and row numbers, by their names, which are not clustered.
    pub(super) aside: Vec<String>,
}

impl NumberColumns {
    /// The columns of files like this one; `None` if one of them holds something else.
    pub(super) fn of(file: &ParquetFile) -> Result<Option<Self>> {
        let is_index = |j: &usize| file.fields()[*j].name().starts_with("__index_level_");
        let is_id = |j: &usize| {
            let field = &file.fields()[*j];
            field.data_type().is_integer() && looks_like_id(field.name()).is_some()
        };
        let all = (0..file.fields().len()).filter(|j| !is_index(j));
        let (aside, columns): (Vec<usize>, Vec<usize>) = all.partition(is_id);
        let Some(kind) = Self::kind_of(file, &columns) else { return Ok(None) };
        let mut reader = Self { columns, kind, names: Vec::new(), aside: Vec::new() };
        reader.aside = aside.iter().map(|&j| file.fields()[j].name().clone()).collect();
        if let Some(block) = file.blocks()?.next() {
            let (_, widths) = reader.rows(&block?)?;
            for (&j, (width, is_list)) in reader.columns.iter().zip(widths) {
                reader.names.extend(column_names(file.fields()[j].name(), width, is_list));
            }
        }
        Ok((!reader.names.is_empty()).then_some(reader))
    }

    fn kind_of(file: &ParquetFile, columns: &[usize]) -> Option<Kind> {
        Kind::of(columns.iter().map(|&j| &file.fields()[j]), file.location()).ok()
    }

    /// Takes another file into account, whose columns are those of the first; `false` if some are no numbers.
    pub(super) fn widen(&mut self, file: &ParquetFile) -> bool {
        let kind = Self::kind_of(file, &self.columns);
        self.kind = kind.map_or(self.kind, |kind| kind.max(self.kind));
        kind.is_some()
    }

    /// Whether the numbers are bytes, or have double precision; otherwise they have single precision.
    pub(super) fn is_bytes_or_double(&self) -> (bool, bool) {
        (self.kind == Kind::Bytes, self.kind > Kind::Singles)
    }

    /// The numbers of a block; NaN where missing.
    pub(super) fn read(&self, block: &Block<'_>) -> Result<Values<'static>> {
        let (rows, widths) = self.rows(block)?;
        let n: usize = widths.iter().map(|(width, _)| width).sum();
        if n != self.names.len() {
            return Err(other_width(block.location, n, "the first block", self.names.len()));
        }
        Ok(rows)
    }

    fn rows(&self, block: &Block<'_>) -> Result<(Values<'static>, Vec<(usize, bool)>)> {
        guarded(block.location, || {
            let mut rows = RowBuffer::new(self.kind);
            rows.add_with_gaps(block, &self.columns)?;
            let widths = rows.widths.clone();
            Ok((rows.into_stored(), widths))
        })
    }
}

/// A note about columns that are not clustered.
pub(super) fn describe(table: &mut Table, aside: &[String]) {
    if !aside.is_empty() {
        let names: Vec<String> = aside.iter().map(|name| format!("`{name}`")).collect();
        table.description = Some(format!("numbers; not clustered, by their names: {}", names.join(", ")));
    }
}
