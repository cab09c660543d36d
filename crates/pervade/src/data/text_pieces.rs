//! Text tables in pieces: blocks of lines, split and read one after the other.

use std::io::{self, Read};

use csv::{ByteRecord, ErrorKind};
use flate2::read::MultiGzDecoder;

use super::bytes::{FileBytes, Source, cannot_unpack, is_gzip};
use super::options::{ReadOptions, Table};
use super::text::{Layout, LineReader, Lines, Splitter, without_mark};
use super::text_table;
use crate::{Error, Result};

/// Bytes of a packed text that are looked at first, to find its columns.
const HEAD: usize = 1 << 16;
/// Lines that tell what the columns are: the names, the first row, and one more, so that these two are complete.
const HEAD_LINES: usize = 3;

/// A text whose lines are read in blocks.
pub(super) struct TextPieces {
    bytes: FileBytes,
    layout: Layout,
    rows: LineReader<Box<dyn Read + Send>>,
    skip_empty: bool,
    /// Lines that were read ahead.
    ahead: Vec<ByteRecord>,
    next_row: usize,
}

impl TextPieces {
    /// Finds the columns; `bytes` may be packed.
    pub(super) fn open(bytes: FileBytes, location: &str, options: &ReadOptions) -> Result<Self> {
        let layout = if is_gzip(bytes.as_ref()) {
            Layout::of(&unpacked_head(bytes.as_ref(), location)?, location, options)?
        } else {
            Layout::of(bytes.as_ref(), location, options)?
        };
        let (rows, skip_empty) = rows(&bytes, &layout)?;
        Ok(Self { bytes, layout, rows, skip_empty, ahead: Vec::new(), next_row: 0 })
    }

    /// Fields of a line.
    pub(super) fn n_columns(&self) -> usize {
        self.layout.n_fields
    }

    /// Starts again with the first row.
    pub(super) fn rewind(&mut self) -> Result<()> {
        (self.rows, _) = rows(&self.bytes, &self.layout)?;
        (self.ahead, self.next_row) = (Vec::new(), 0);
        Ok(())
    }

    /// Counts the rows by reading the whole text.
    pub(super) fn count(&self) -> Result<usize> {
        let (mut rows, _) = rows(&self.bytes, &self.layout)?;
        let (mut record, mut n) = (ByteRecord::new(), 0);
        while read_line(&mut rows, &mut record, &self.layout.location)? {
            n += 1;
        }
        self.bytes.release();
        Ok(n)
    }

    /// The next `n_rows` rows, or all that are left if these are fewer than `n_rows + n_tail`; `None` at the end.
    pub(super) fn next(
        &mut self,
        n_rows: usize,
        n_tail: usize,
        options: &ReadOptions,
    ) -> Result<Option<Table>> {
        let mut lines = std::mem::take(&mut self.ahead);
        while lines.len() < n_rows + n_tail {
            let mut record = ByteRecord::new();
            if !read_line(&mut self.rows, &mut record, &self.layout.location)? {
                break;
            }
            lines.push(record);
        }
        if lines.len() == n_rows + n_tail {
            self.ahead = lines.split_off(n_rows);
        }
        // A text without rows is refused by the reader.
        if lines.is_empty() && self.next_row > 0 {
            return Ok(None);
        }
        let options = ReadOptions { first_row: self.next_row, ..options.clone() };
        let table = text_table::read(&self.layout, &options, || {
            let lines = Lines::of_records(&lines, &self.layout.location, self.skip_empty);
            Ok(vec![lines.with_decimal_comma(self.layout.decimal_comma)])
        });
        self.next_row += lines.len();
        self.bytes.release();
        table.map(Some)
    }
}

/// The lines after the names, and whether empty fields are skipped.
fn rows(bytes: &FileBytes, layout: &Layout) -> Result<(LineReader<Box<dyn Read + Send>>, bool)> {
    let is_packed = is_gzip(bytes.as_ref());
    let head = if is_packed { unpacked_head(bytes.as_ref(), &layout.location)? } else { Vec::new() };
    let head = if is_packed { &head } else { bytes.as_ref() };
    let splitter = Splitter::of(head);
    let n_mark = head.len() - without_mark(head).len();
    let stream = Stream { bytes: bytes.clone(), at: 0 };
    let mut reader: Box<dyn Read + Send> =
        if is_packed { Box::new(MultiGzDecoder::new(stream)) } else { Box::new(stream) };
    io::copy(&mut reader.by_ref().take(n_mark as u64), &mut io::sink())
        .map_err(|e| cannot_unpack(&layout.location, &e))?;
    let mut rows = splitter.lines(reader);
    if layout.has_header {
        read_line(&mut rows, &mut ByteRecord::new(), &layout.location)?;
    }
    Ok((rows, splitter.skips_empty()))
}

fn read_line(
    rows: &mut LineReader<Box<dyn Read + Send>>,
    record: &mut ByteRecord,
    location: &str,
) -> Result<bool> {
    rows.next(record).map_err(|error| match error.kind() {
        ErrorKind::Io(error) => cannot_unpack(location, error),
        _ => Error::data(location, error.to_string()),
    })
}

/// The beginning of a packed text, long enough to tell its columns.
fn unpacked_head(bytes: &[u8], location: &str) -> Result<Vec<u8>> {
    let mut n_bytes = HEAD;
    loop {
        let head = Source::gzip(bytes, location).head(n_bytes)?;
        if head.len() < n_bytes || n_lines(&head, location)? >= HEAD_LINES {
            return Ok(head);
        }
        n_bytes = n_bytes.saturating_mul(8);
    }
}

/// Lines of a text, at most [`HEAD_LINES`].
fn n_lines(head: &[u8], location: &str) -> Result<usize> {
    let mut lines = Lines::new(head, location);
    for n in 0..HEAD_LINES {
        if lines.next()?.is_none() {
            return Ok(n);
        }
    }
    Ok(HEAD_LINES)
}

/// The bytes of a file as a stream.
struct Stream {
    bytes: FileBytes,
    at: usize,
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut left = &self.bytes.as_ref()[self.at..];
        let n = left.read(out)?;
        self.at += n;
        Ok(n)
    }
}
