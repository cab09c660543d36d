//! Tables of results written in pieces: every file is written this way, a table at once as a single piece.

use std::io::{self, Write};

use super::write::{OutputFormat, OutputTable};
#[cfg(feature = "parquet")]
use super::write_parquet::ParquetWriter;

/// A table of results that is written piece by piece, so that only a piece is in memory.
pub struct TableWriter<W: Write + Send> {
    sink: Sink<W>,
    /// Rows of the whole table, which the header of `.npy` states.
    n_rows: usize,
    n_written: usize,
    is_begun: bool,
}

enum Sink<W: Write + Send> {
    Csv(W),
    Npy(W),
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetWriter<W>>),
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a table of `n_rows` rows; only `.npy` needs their number.
    pub fn new(out: W, format: OutputFormat, n_rows: usize) -> io::Result<Self> {
        let sink = match format {
            OutputFormat::Csv => Sink::Csv(out),
            OutputFormat::Npy => Sink::Npy(out),
            #[cfg(feature = "parquet")]
            OutputFormat::Parquet => Sink::Parquet(Box::new(ParquetWriter::new(out))),
            #[cfg(not(feature = "parquet"))]
            OutputFormat::Parquet => {
                return Err(io::Error::other(
                    "this build of pervade, without the feature `parquet`, cannot write Parquet files",
                ));
            }
        };
        Ok(Self { sink, n_rows, n_written: 0, is_begun: false })
    }

    /// Appends rows; every piece must have the same columns.
    ///
    /// The same bytes come out however a table is cut into pieces of a multiple of 1,024 rows.
    pub fn add(&mut self, piece: &OutputTable<'_>) -> io::Result<()> {
        let n = piece.checked_len()?;
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        match &mut self.sink {
            Sink::Csv(out) => piece.write_csv(out, n, is_first)?,
            Sink::Npy(out) => {
                if is_first {
                    piece.write_npy_header(out, self.n_rows)?;
                }
                piece.write_npy(out, n)?;
            }
            #[cfg(feature = "parquet")]
            Sink::Parquet(out) => out.add(piece, n).map_err(io::Error::other)?,
        }
        self.n_written += n;
        Ok(())
    }

    /// The Parquet file, if that is the format.
    #[cfg(feature = "parquet")]
    pub(super) fn parquet(&mut self) -> Option<&mut ParquetWriter<W>> {
        match &mut self.sink {
            Sink::Parquet(out) => Some(out),
            _ => None,
        }
    }

    /// Whether the file holds an array.
    pub(super) fn is_npy(&self) -> bool {
        matches!(self.sink, Sink::Npy(_))
    }

    /// Ends the table.
    pub fn finish(self) -> io::Result<()> {
        match self.sink {
            Sink::Npy(_) if self.n_written != self.n_rows => {
                let problem = format!("{} rows were written, but {} announced", self.n_written, self.n_rows);
                Err(io::Error::other(problem))
            }
            Sink::Csv(_) | Sink::Npy(_) => Ok(()),
            #[cfg(feature = "parquet")]
            Sink::Parquet(out) => out.finish().map_err(io::Error::other),
        }
    }
}
