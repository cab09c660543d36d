//! Tables of results as CSV, `.npy` and Parquet.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

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

/// The clusters of the rows to write, with probabilities if they were asked for.
#[derive(Debug, Clone, Copy)]
pub struct OutputAssignments<'a> {
    /// The cluster of every row.
    pub clusters: &'a [u32],
    /// The probability of that cluster, one per row.
    pub probability: Option<&'a [f32]>,
    /// The share of restarts that agree on it, one per row.
    pub agreement: Option<&'a [f32]>,
    /// The probability of every cluster, `[N, K]` row by row.
    pub probabilities: Option<OutputRows<'a>>,
}

impl OutputRows<'_> {
    /// Writes the table to `path` in the format of its extension.
    pub fn write(&self, path: &Path) -> Result<()> {
        let format = OutputFormat::of(path)?;
        write_atomically(path, |out| self.write_to(out, format))
    }

    /// Writes the table to a stream.
    pub fn write_to(&self, out: &mut (impl Write + Send), format: OutputFormat) -> io::Result<()> {
        Columns { clusters: None, singles: Vec::new(), rows: Some(*self) }.write_to(out, format)
    }

    fn n_rows(&self) -> usize {
        self.values.len().checked_div(self.n_columns).unwrap_or(0)
    }
}

impl OutputAssignments<'_> {
    /// Writes the assignments to `path` in the format of its extension.
    pub fn write(&self, path: &Path) -> Result<()> {
        let format = OutputFormat::of(path)?;
        write_atomically(path, |out| self.write_to(out, format))
    }

    /// Writes the assignments to a stream.
    ///
    /// CSV and Parquet have the columns `cluster`, `probability`, `agreement` and one for each cluster; `.npy` is one axis
    /// of u32, or a structured array with those fields if there are others than `cluster`.
    pub fn write_to(&self, out: &mut (impl Write + Send), format: OutputFormat) -> io::Result<()> {
        let singles = [("probability", self.probability), ("agreement", self.agreement)];
        let singles = singles.into_iter().filter_map(|(name, values)| Some((name, values?))).collect();
        Columns { clusters: Some(self.clusters), singles, rows: self.probabilities }.write_to(out, format)
    }
}

/// The common form of both kinds of result: a few single columns, then a block of columns.
pub(super) struct Columns<'a> {
    pub(super) clusters: Option<&'a [u32]>,
    /// Names and values.
    pub(super) singles: Vec<(&'static str, &'a [f32])>,
    pub(super) rows: Option<OutputRows<'a>>,
}

impl Columns<'_> {
    fn write_to(&self, out: &mut (impl Write + Send), format: OutputFormat) -> io::Result<()> {
        let n = self.n_rows();
        let fits = self.clusters.is_none_or(|c| c.len() == n)
            && self.singles.iter().all(|(_, values)| values.len() == n)
            && self.rows.is_none_or(|r| r.values.len() == n * r.n_columns);
        if !fits {
            return Err(io::Error::other("the columns of the result have different lengths"));
        }
        match format {
            OutputFormat::Csv => self.write_csv(out, n),
            OutputFormat::Npy => self.write_npy(out, n),
            #[cfg(feature = "parquet")]
            OutputFormat::Parquet => self.write_parquet(out, n).map_err(io::Error::other),
            #[cfg(not(feature = "parquet"))]
            OutputFormat::Parquet => Err(io::Error::other(
                "this build of pervade, without the feature `parquet`, cannot write Parquet files",
            )),
        }
    }

    fn n_rows(&self) -> usize {
        self.clusters.map_or_else(|| self.rows.map_or(0, |r| r.n_rows()), <[u32]>::len)
    }

    pub(super) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        names.extend(self.clusters.map(|_| "cluster".to_string()));
        names.extend(self.singles.iter().map(|(name, _)| (*name).to_string()));
        if let Some(rows) = &self.rows {
            let stem = if self.clusters.is_some() { "cluster" } else { "column" };
            match rows.names {
                Some(given) => names.extend(given.iter().cloned()),
                None => names.extend((0..rows.n_columns).map(|j| format!("{stem}_{j}"))),
            }
        }
        names
    }

    fn write_csv(&self, out: &mut impl Write, n: usize) -> io::Result<()> {
        let names = self.names();
        let names: Vec<Cow<'_, str>> = names.iter().map(|name| quoted(name)).collect();
        writeln!(out, "{}", names.join(","))?;
        for i in 0..n {
            let mut comma = "";
            if let Some(clusters) = self.clusters {
                write!(out, "{}", clusters[i])?;
                comma = ",";
            }
            let block = self.rows.map_or(&[][..], |r| &r.values[i * r.n_columns..(i + 1) * r.n_columns]);
            for x in self.singles.iter().map(|(_, values)| &values[i]).chain(block) {
                // Debug formatting is the shortest text that parses to the same number, with an exponent if it is long.
                write!(out, "{comma}{x:?}")?;
                comma = ",";
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn write_npy(&self, out: &mut impl Write, n: usize) -> io::Result<()> {
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
        let mut header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}");
        // The data begin at a multiple of 64 bytes, so that a reader can map them.
        let padding = 63 - (10 + header.len()) % 64;
        header.extend(std::iter::repeat_n(' ', padding));
        header.push('\n');
        out.write_all(b"\x93NUMPY\x01\x00")?;
        out.write_all(&(header.len() as u16).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
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

/// A name for CSV: quoted if it would otherwise be split.
fn quoted(name: &str) -> Cow<'_, str> {
    if name.is_empty() || name.contains([',', '"', '\n', '\r']) {
        return Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")));
    }
    Cow::Borrowed(name)
}
