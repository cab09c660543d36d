//! Parquet files in pieces: batches of rows, decoded one after the other.

use std::ops::Range;

use arrow_array::RecordBatch;

use super::bytes::FileBytes;
use super::options::{ReadOptions, Table};
use super::parquet::read_piece;
use super::parquet_file::ParquetFile;
use crate::Result;

/// Rows decoded at a time: pieces are made of whole blocks, except the last.
const BLOCK_ROWS: usize = 1 << 10;

type Rows = Box<dyn Iterator<Item = Result<(RecordBatch, usize)>> + Send>;

/// A Parquet file whose rows are read in order.
pub(super) struct ParquetPieces {
    file: ParquetFile,
    rows: Rows,
}

impl ParquetPieces {
    /// Reads the footer.
    pub(super) fn open(bytes: FileBytes, location: &str) -> Result<Self> {
        let file = ParquetFile::open(bytes, location)?;
        let rows = Box::new(file.owned_blocks(0..file.n_rows(), BLOCK_ROWS)?);
        Ok(Self { file, rows })
    }

    /// Starts with another row.
    pub(super) fn select(&mut self, rows: Range<usize>) -> Result<()> {
        self.rows = Box::new(self.file.owned_blocks(rows, BLOCK_ROWS)?);
        Ok(())
    }

    pub(super) fn n_rows(&self) -> usize {
        self.file.n_rows()
    }

    /// Numbers of a row, about.
    pub(super) fn n_cells(&self) -> usize {
        self.file.n_cells()
    }

    /// The next rows.
    pub(super) fn next(&mut self, n_rows: usize, options: &ReadOptions) -> Result<Table> {
        let mut blocks = Vec::new();
        let mut n = 0;
        while n < n_rows {
            let Some(block) = self.rows.next().transpose()? else { break };
            n += block.0.num_rows();
            blocks.push(block);
        }
        let table = read_piece(&self.file, &blocks, options);
        self.file.release();
        table
    }
}
