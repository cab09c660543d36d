//! Parquet files as blocks of rows: one file, several with the same columns, or a piece of one that is in memory.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_schema::Field;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};

use super::bytes::FileBytes;
use super::parquet_claims::{has_invalid_counts, has_invalid_footer, has_invalid_page};
use super::parts::column_order;
use crate::quiet::catch_panic;
use crate::{Error, Result};

/// Rows decoded at a time.
const BLOCK_ROWS: usize = 1 << 13;

/// Some rows of a file.
#[derive(Clone)]
pub(super) struct Block<'a> {
    pub(super) rows: RecordBatch,
    /// The file, for messages.
    pub(super) location: &'a str,
    /// Index of the first row in the file, for messages.
    pub(super) first_row: usize,
}

/// Blocks in order.
pub(super) type Blocks<'a> = Box<dyn Iterator<Item = Result<Block<'a>>> + 'a>;

/// A Parquet file whose footer was read.
pub(super) struct ParquetFile {
    bytes: Bytes,
    held: FileBytes,
    location: String,
    metadata: ArrowReaderMetadata,
    fields: Vec<Field>,
    /// The columns in the order of the first part, if that is another one.
    order: Option<Vec<usize>>,
}

impl ParquetFile {
    /// Reads the footer, and checks what it claims.
    pub(super) fn open(held: FileBytes, location: &str) -> Result<Self> {
        guarded(location, || {
            let bytes = Bytes::from_owner(held.clone());
            if has_invalid_footer(&bytes) {
                return Err(damaged(location, &"its footer is damaged"));
            }
            let metadata = ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::default())
                .map_err(|e| damaged(location, &e))?;
            if has_invalid_counts(metadata.metadata()) {
                return Err(damaged(location, &"its numbers of rows contradict each other"));
            }
            if has_invalid_page(&bytes, metadata.metadata()) {
                return Err(damaged(location, &"the header of a page is damaged"));
            }
            held.release();
            let fields = metadata.schema().fields().iter().map(|f| f.as_ref().clone()).collect();
            Ok(Self { bytes, held, location: location.to_string(), metadata, fields, order: None })
        })
    }

    /// The columns.
    pub(super) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The file, for messages.
    pub(super) fn location(&self) -> &str {
        &self.location
    }

    /// Rows, as the footer says.
    pub(super) fn n_rows(&self) -> usize {
        let rows = self.metadata.metadata().file_metadata().num_rows();
        usize::try_from(rows).unwrap_or(0)
    }

    /// Numbers of a row, about: lists have several.
    pub(super) fn n_cells(&self) -> usize {
        let groups = self.metadata.metadata().row_groups().iter();
        let n_values: i64 = groups.flat_map(|group| group.columns()).map(|column| column.num_values()).sum();
        let per_row = usize::try_from(n_values).unwrap_or(0).checked_div(self.n_rows()).unwrap_or(0);
        per_row.max(self.fields.len())
    }

    /// Gives memory back to the system if the file is mapped.
    pub(super) fn release(&self) {
        self.held.release();
    }

    /// The same file with the columns in the order of `first`; an error if it has others.
    pub(super) fn like(mut self, first: &ParquetFile) -> Result<Self> {
        let names = |file: &ParquetFile| -> Vec<String> {
            file.fields.iter().map(|field| field.name().clone()).collect()
        };
        let (wanted, given) = (names(first), names(&self));
        let order = column_order(&wanted, &given, &self.location, &first.location)?;
        for (field, &at) in first.fields.iter().zip(&order) {
            let (wanted, given) = (field.data_type(), self.fields[at].data_type());
            if wanted != given && !(wanted.is_numeric() && given.is_numeric()) {
                let name = field.name();
                let problem = format!(
                    "column `{name}` holds {given}, but {wanted} in the first part (`{}`)",
                    first.location
                );
                return Err(Error::data(&self.location, problem)
                    .with_hint("write all parts with the same types of columns"));
            }
        }
        self.fields = order.iter().map(|&at| self.fields[at].clone()).collect();
        self.order = (!order.is_sorted()).then_some(order);
        Ok(self)
    }

    fn reader(&self, rows: Range<usize>, block_rows: usize) -> Result<ParquetRecordBatchReader> {
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.bytes.clone(), self.metadata.clone());
        let builder = builder.with_batch_size(block_rows);
        let all = rows == (0..self.n_rows());
        let builder = if all { builder } else { builder.with_offset(rows.start).with_limit(rows.len()) };
        builder.build().map_err(|e| damaged(&self.location, &e))
    }

    /// All rows.
    pub(super) fn blocks(&self) -> Result<Blocks<'_>> {
        Ok(Box::new(self.owned_blocks(0..self.n_rows(), BLOCK_ROWS)?.map(|block| {
            let (rows, first_row) = block?;
            Ok(Block { rows, location: &self.location, first_row })
        })))
    }

    /// Some rows, each block with the index of its first row.
    pub(super) fn owned_blocks(
        &self,
        rows: Range<usize>,
        block_rows: usize,
    ) -> Result<impl Iterator<Item = Result<(RecordBatch, usize)>> + use<>> {
        let mut reader = guarded(&self.location, || self.reader(rows.clone(), block_rows))?;
        let (location, order, mut next_row) = (self.location.clone(), self.order.clone(), rows.start);
        Ok(std::iter::from_fn(move || {
            let block = guarded(&location, || {
                let block = reader.next().transpose().map_err(|e| damaged(&location, &e))?;
                let ordered = |block: RecordBatch| match &order {
                    Some(order) => block.project(order).map_err(|e| damaged(&location, &e)),
                    None => Ok(block),
                };
                block.map(ordered).transpose()
            });
            if matches!(block, Ok(None)) && next_row < rows.end {
                let missing = rows.end - std::mem::replace(&mut next_row, rows.end);
                return Some(Err(damaged(&location, &format!("{missing} of its rows are missing"))));
            }
            let first_row = next_row;
            let numbered = |block: RecordBatch| {
                next_row += block.num_rows();
                (block, first_row)
            };
            block.map(|block| block.map(numbered)).transpose()
        }))
    }
}

/// Runs third-party decoding, which flipped bytes do make panic (in `arrow-buffer` and in its column decoder, version
/// 60); a panic is reported as a damaged file.
pub(super) fn guarded<T>(location: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_panic(work).unwrap_or_else(|| Err(damaged(location, &"the decoder gave up")))
}

pub(super) fn damaged(location: &str, error: &dyn std::fmt::Display) -> Error {
    Error::data(location, format!("the Parquet file cannot be read: {error}"))
        .with_hint("the file is cut short or damaged")
}
