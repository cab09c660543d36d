//! Tables of results as CSV, `.npy` and Parquet.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use super::options::{Kept, PooledCell};
use super::schema::Schema;
use super::table_writer::TableWriter;
use crate::files::write_atomically;
use crate::{Error, Result};

/// File formats for results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputFormat {
    /// NumPy.
    Npy,
    /// Text with a header.
    Csv,
    /// Parquet.
    Parquet,
}

impl OutputFormat {
    /// The format for the extension of `path`. Call it before any long computation.
    pub fn of(path: &Path) -> Result<Self> {
        let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        match ending.as_str() {
            "npy" => Ok(OutputFormat::Npy),
            "csv" => Ok(OutputFormat::Csv),
            "parquet" if cfg!(feature = "parquet") => Ok(OutputFormat::Parquet),
            "parquet" => {
                let must = "but this build of pervade cannot write Parquet files";
                Err(Error::setting("output file", path.display(), must).with_hint(
                    "build it with the feature `parquet`, which is on by default, or write a .csv or .npy file",
                ))
            }
            _ => Err(Error::setting("output file", path.display(), "must end in .csv, .npy or .parquet")),
        }
    }
}

/// A table of results to write: latents or generated rows.
#[derive(Debug, Clone, Copy)]
pub struct OutputRows<'a> {
    /// The numbers, row by row.
    pub values: &'a [f32],
    /// Columns per row.
    pub n_columns: usize,
    /// Names of the columns; by default `column_0`, `column_1`, ...
    pub names: Option<&'a [String]>,
}

/// Rows of a table whose columns have types, to write as the table itself would have them.
#[derive(Debug, Clone, Copy)]
pub struct OutputCells<'a> {
    /// What the columns mean.
    pub schema: &'a Schema,
    /// The cells, row by row; NaN where missing.
    pub cells: &'a [f64],
    /// Cells of the table with a rare level, which are written as they were, by row and column.
    pub pooled: &'a [PooledCell],
}

/// Any table of results: the columns that go along, then the cluster, numbers, rows, as far as there are any.
#[derive(Debug, Clone, Default)]
pub struct OutputTable<'a> {
    /// Columns of the data that only go along. `.npy` files cannot hold them.
    pub kept: Option<&'a Kept>,
    /// The cluster of every row.
    pub clusters: Option<&'a [u32]>,
    /// The name of each cluster, empty if it has none: a column `name` beside the cluster. `.npy` files cannot hold it.
    pub cluster_names: Option<&'a [String]>,
    /// Columns of numbers by name.
    pub singles: Vec<(&'static str, &'a [f32])>,
    /// A block of columns of numbers.
    pub rows: Option<OutputRows<'a>>,
    /// Rows in the types of the table. `.npy` files can hold them if they are numbers.
    pub cells: Option<OutputCells<'a>>,
}

impl OutputRows<'_> {
    /// Writes the table to `path` in the format of its extension.
    pub fn write(&self, path: &Path) -> Result<()> {
        let format = OutputFormat::of(path)?;
        write_atomically(path, |out| self.write_to(out, format))
    }

    /// Writes the table to a stream.
    pub fn write_to(&self, out: &mut (impl Write + Send), format: OutputFormat) -> io::Result<()> {
        OutputTable { rows: Some(*self), ..OutputTable::default() }.write_to(out, format)
    }

    fn n_rows(&self) -> usize {
        self.values.len().checked_div(self.n_columns).unwrap_or(0)
    }
}

impl OutputCells<'_> {
    fn n_rows(&self) -> usize {
        self.cells.len().checked_div(self.schema.columns.len()).unwrap_or(0)
    }

    /// The cells of row `i` that are written: of columns that the table itself has.
    fn row(&self, i: usize) -> &[f64] {
        &self.cells[i * self.schema.columns.len()..][..self.schema.source_columns().len()]
    }

    /// The rare level that a cell had before rare levels became one.
    pub(super) fn rare_level(&self, row: usize, column: usize) -> Option<&str> {
        let found = self.pooled.binary_search_by_key(&(row, column), |cell| (cell.row, cell.column));
        found.ok().map(|at| self.pooled[at].word.as_str())
    }
}

impl OutputTable<'_> {
    /// Returns an error if a file of this format cannot hold the table. Call it before any long computation.
    pub fn check_format(schema: Option<&Schema>, format: OutputFormat) -> Result<()> {
        let words =
            schema.iter().flat_map(|schema| schema.source_columns()).find(|column| !column.is_numeric());
        match words.filter(|_| format == OutputFormat::Npy) {
            None => Ok(()),
            Some(column) => {
                let must = format!(
                    "but column `{}` is of type {}, and .npy files hold numbers",
                    column.name, column.kind
                );
                Err(Error::setting("output file", "a .npy file", must)
                    .with_hint("write a .csv or .parquet file"))
            }
        }
    }

    /// Writes the table to `path` in the format of its extension.
    pub fn write(&self, path: &Path) -> Result<()> {
        let format = OutputFormat::of(path)?;
        Self::check_format(self.cells.map(|cells| cells.schema), format)?;
        write_atomically(path, |out| self.write_to(out, format))
    }

    /// Writes the table to a stream.
    ///
    /// CSV and Parquet have the columns that go along, `cluster`, its `name`, the numbers by name, then the blocks. `.npy` has the rows or
    /// cells alone; with clusters it is one axis of u32, or a structured array if there are numbers, too.
    pub fn write_to(&self, out: &mut (impl Write + Send), format: OutputFormat) -> io::Result<()> {
        let mut writer = TableWriter::new(out, format, self.n_rows())?;
        writer.add(self)?;
        writer.finish()
    }

    /// The number of rows; an error if not all columns have as many.
    pub(super) fn checked_len(&self) -> io::Result<usize> {
        let n = self.n_rows();
        let fits = self.clusters.is_none_or(|c| c.len() == n)
            && self.singles.iter().all(|(_, values)| values.len() == n)
            && self.rows.is_none_or(|r| r.values.len() == n * r.n_columns)
            && self.cells.is_none_or(|c| c.cells.len() == n * c.schema.columns.len())
            && self
                .named()
                .is_none_or(|(clusters, names)| clusters.iter().all(|&c| (c as usize) < names.len()))
            && self.kept.is_none_or(|kept| kept.columns.iter().all(|column| column.len() == n));
        if fits { Ok(n) } else { Err(io::Error::other("the columns of the result have different lengths")) }
    }

    fn n_rows(&self) -> usize {
        let of_block = self.rows.map(|rows| rows.n_rows()).or(self.cells.map(|cells| cells.n_rows()));
        let of_single = self.singles.first().map(|(_, values)| values.len());
        let of_kept = self.kept.and_then(|kept| kept.columns.first()).map(Vec::len);
        self.clusters.map(<[u32]>::len).or(of_single).or(of_block).or(of_kept).unwrap_or(0)
    }

    /// Clusters of the rows and names of the clusters, if there are both.
    pub(super) fn named(&self) -> Option<(&[u32], &[String])> {
        Some((self.clusters?, self.cluster_names?))
    }

    pub(super) fn names(&self) -> Vec<String> {
        let mut names = self.kept.map_or(Vec::new(), |kept| kept.names.clone());
        names.extend(self.clusters.map(|_| "cluster".to_string()));
        names.extend(self.named().map(|_| "name".to_string()));
        names.extend(self.singles.iter().map(|(name, _)| (*name).to_string()));
        if let Some(rows) = &self.rows {
            let stem = if self.clusters.is_some() { "cluster" } else { "column" };
            match rows.names {
                Some(given) => names.extend(given.iter().cloned()),
                None => names.extend((0..rows.n_columns).map(|j| format!("{stem}_{j}"))),
            }
        }
        let of_cells = self.cells.iter().flat_map(|cells| cells.schema.source_columns());
        names.extend(of_cells.map(|column| column.name.clone()));
        names
    }

    /// Writes `n` rows, with a header if they are the first.
    pub(super) fn write_csv(&self, out: &mut impl Write, n: usize, is_first: bool) -> io::Result<()> {
        if is_first {
            let names = self.names();
            let names: Vec<Cow<'_, str>> = names.iter().map(|name| quoted(name)).collect();
            writeln!(out, "{}", names.join(","))?;
        }
        for i in 0..n {
            let mut comma = "";
            for column in self.kept.iter().flat_map(|kept| &kept.columns) {
                write!(out, "{comma}{}", quoted_cell(&column[i]))?;
                comma = ",";
            }
            if let Some(clusters) = self.clusters {
                write!(out, "{comma}{}", clusters[i])?;
                comma = ",";
            }
            if let Some((clusters, names)) = self.named() {
                write!(out, ",{}", quoted_cell(&names[clusters[i] as usize]))?;
            }
            let block = self.rows.map_or(&[][..], |r| &r.values[i * r.n_columns..(i + 1) * r.n_columns]);
            for x in self.singles.iter().map(|(_, values)| &values[i]).chain(block) {
                // Debug formatting is the shortest text that parses to the same number, with an exponent if it is long.
                write!(out, "{comma}{x:?}")?;
                comma = ",";
            }
            if let Some(cells) = &self.cells {
                for (j, &x) in cells.row(i).iter().enumerate() {
                    let text = cells
                        .rare_level(i, j)
                        .map_or_else(|| Cow::Owned(cells.schema.cell_to_text(j, x)), Cow::Borrowed);
                    write!(out, "{comma}{}", quoted_cell(&text))?;
                    comma = ",";
                }
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Writes the header of a table of `n` rows.
    pub(super) fn write_npy_header(&self, out: &mut impl Write, n: usize) -> io::Result<()> {
        if let Some(cells) = &self.cells {
            if cells.schema.source_columns().iter().any(|column| !column.is_numeric()) {
                return Err(io::Error::other(".npy files hold only numbers"));
            }
            return write_npy_header(
                out,
                "'<f8'",
                &format!("({n}, {})", cells.schema.source_columns().len()),
            );
        }
        let width = self.rows.map_or(0, |r| r.n_columns);
        let (descr, shape) = match (self.clusters, self.rows) {
            (None, _) => ("'<f4'".to_string(), format!("({n}, {width})")),
            (Some(_), None) if self.singles.is_empty() => ("'<u4'".to_string(), format!("({n},)")),
            (Some(_), rows) => {
                let one = self.singles.iter().map(|(name, _)| format!(", ('{name}', '<f4')"));
                let one = one.collect::<Vec<String>>().concat();
                let all = rows.map_or(String::new(), |_| format!(", ('probabilities', '<f4', ({width},))"));
                (format!("[('cluster', '<u4'){one}{all}]"), format!("({n},)"))
            }
        };
        write_npy_header(out, &descr, &shape)
    }

    /// Writes `n` rows after the header.
    pub(super) fn write_npy(&self, out: &mut impl Write, n: usize) -> io::Result<()> {
        if let Some(cells) = &self.cells {
            return write_npy_cells(out, cells, n);
        }
        for i in 0..n {
            if let Some(clusters) = self.clusters {
                out.write_all(&clusters[i].to_le_bytes())?;
            }
            let block = self.rows.map_or(&[][..], |r| &r.values[i * r.n_columns..(i + 1) * r.n_columns]);
            for x in self.singles.iter().map(|(_, values)| &values[i]).chain(block) {
                out.write_all(&x.to_le_bytes())?;
            }
        }
        Ok(())
    }
}

pub(super) fn write_npy_header(out: &mut impl Write, descr: &str, shape: &str) -> io::Result<()> {
    let mut header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}");
    // The data begin at a multiple of 64 bytes, so that a reader can map them.
    let padding = 63 - (10 + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())
}

/// Cells that are numbers, in double precision.
fn write_npy_cells(out: &mut impl Write, cells: &OutputCells, n: usize) -> io::Result<()> {
    let columns = cells.schema.source_columns();
    for i in 0..n {
        for (column, &x) in columns.iter().zip(cells.row(i)) {
            let x = if column.whole { x.round() } else { x };
            out.write_all(&x.to_le_bytes())?;
        }
    }
    Ok(())
}

/// A cell for CSV: quoted if it would otherwise be split; nothing if it is missing.
fn quoted_cell(text: &str) -> Cow<'_, str> {
    if text.is_empty() { Cow::Borrowed("") } else { quoted(text) }
}

/// A name for CSV: quoted if it would otherwise be split or, at the beginning of a line, be a comment.
fn quoted(name: &str) -> Cow<'_, str> {
    if name.is_empty() || name.starts_with('#') || name.contains([',', '"', '\n', '\r']) {
        return Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")));
    }
    Cow::Borrowed(name)
}
