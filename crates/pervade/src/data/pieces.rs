//! Tables in pieces: bounded numbers of rows, read one after the other, for files that are larger than the memory.

use std::ops::Range;
use std::path::Path;

use super::elements::NdArray;
use super::input_file::InputFile;
use super::labels::Labels;
use super::options::{LabelSource, ReadOptions, Table};
#[cfg(feature = "parquet")]
use super::parquet_pieces::ParquetPieces;
use super::parts::Parts;
use super::read::{Format, Input, extension, located, read, read_file, read_labels};
use super::schema::RawColumn;
#[cfg(feature = "text")]
use super::text_pieces::TextPieces;
use super::{Kept, npy};
use crate::{Error, Result};

/// Cells of a piece, about.
const CELLS: usize = 1 << 22;
/// Rows of a piece are a multiple of this, which is one of the writers' blocks.
const BLOCK_ROWS: usize = 1 << 10;
const MAX_ROWS: usize = 1 << 16;
/// Fewer rows are added to the piece before them: a device computes at least a block at a time.
const TAIL: usize = 512;

/// The rows of a file, in pieces of bounded size. Each is read with the options of the whole: with the types of a model,
/// which are known before the first row.
///
/// Parquet, `.npy` and text files are never in memory as a whole; other files are.
pub struct Pieces {
    file: Option<InputFile>,
    options: ReadOptions,
    content: Content,
    /// Rows of a piece.
    n_piece: usize,
    /// All rows, if the number is known, and those that are left.
    all: Option<Range<usize>>,
    left: Option<Range<usize>>,
    labels: Option<(Labels, String)>,
    n_read: usize,
}

/// What is cut into pieces.
enum Content {
    #[cfg(feature = "parquet")]
    Parquet(ParquetPieces),
    #[cfg(feature = "text")]
    Text(TextPieces),
    /// An array in a mapped file.
    Array(NdArray),
    /// A table in memory.
    Table(Box<Table>),
}

impl Pieces {
    /// Opens a file or a folder for reading in pieces.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        if path.is_dir() || Parts::find(path)?.is_some() {
            let table = Content::Table(Box::new(read(path, options)?));
            return Ok(Self::new(None, table, options.clone()));
        }
        let file = InputFile::open(path)?;
        let ending = extension(path);
        let input = Input::of_file(&file, path, &ending);
        let mut options = file.unless_changed(located(options, |name| input.offers(name)))?;
        let format = file.unless_changed(input.format())?;
        let is_refused = options.array.is_some() || options.decimal_comma && format != Format::Text;
        let is_streamed = matches!(format, Format::Parquet | Format::Npy | Format::Text) && !is_refused;
        let content = if is_streamed {
            file.unless_changed(Content::of(&file, format, &input, &options))?
        } else {
            None
        };
        let Some(content) = content else {
            let table = read_file(file, path, &options)?;
            return Ok(Self::new(None, Content::Table(Box::new(table)), options));
        };
        let label_file = match &options.labels {
            Some(LabelSource::File(path)) => Some(path.clone()),
            _ => None,
        };
        if label_file.is_some() {
            options.labels = None;
        }
        let labels = label_file.map(|path| Ok::<_, Error>((read_labels(&path)?, path.display().to_string())));
        let labels = labels.transpose()?;
        let pieces = Self::new(Some(file), content, options);
        if let (Some((labels, location)), Some(rows)) = (&labels, &pieces.left) {
            labels.check_length(rows.len(), location)?;
        }
        Ok(Self { labels, ..pieces })
    }

    fn new(file: Option<InputFile>, content: Content, options: ReadOptions) -> Self {
        let all = content.n_rows().map(|n| 0..n);
        let n_piece = piece_rows(content.n_columns());
        Self { file, options, content, n_piece, left: all.clone(), all, labels: None, n_read: 0 }
    }

    /// Rows in all, if that is known without reading them.
    pub fn n_rows(&self) -> Option<usize> {
        self.all.as_ref().map(Range::len)
    }

    /// Rows in all; a text is read to count them.
    pub fn count_rows(&self) -> Result<usize> {
        match (&self.content, self.n_rows()) {
            (_, Some(n)) => Ok(n),
            #[cfg(feature = "text")]
            (Content::Text(text), None) => text.count(),
            #[allow(unreachable_patterns, reason = "without text, all numbers are known")]
            (_, None) => Ok(0),
        }
    }

    /// Keeps only the rows of one of `of` ranges of about the same size, counted from zero. Only before the first piece, and
    /// only for files whose rows can be skipped: Parquet and `.npy`.
    pub fn share(mut self, index: usize, of: usize) -> Result<Self> {
        let can_skip = match &self.content {
            #[cfg(feature = "parquet")]
            Content::Parquet(_) => true,
            Content::Array(_) => true,
            _ => false,
        };
        let Some(rows) = self.left.clone().filter(|_| can_skip) else {
            let location = self.file.as_ref().map_or("the table", |file| file.location());
            return Err(Error::data(location, "only rows of Parquet and .npy files can be divided")
                .with_hint("give a folder of parts, or save the table as Parquet"));
        };
        let cut = |i: usize| (rows.len() as u128 * i as u128 / of.max(1) as u128) as usize;
        self.all = Some(cut(index)..cut(index + 1));
        self.rewind()?;
        Ok(self)
    }

    /// Starts again with the first row.
    pub fn rewind(&mut self) -> Result<()> {
        match &mut self.content {
            #[cfg(feature = "parquet")]
            Content::Parquet(parquet) => parquet.select(self.all.clone().unwrap_or_default())?,
            #[cfg(feature = "text")]
            Content::Text(text) => text.rewind()?,
            _ => {}
        }
        (self.left, self.n_read) = (self.all.clone(), 0);
        Ok(())
    }

    /// The next rows; `None` at the end.
    pub fn next_piece(&mut self) -> Result<Option<Table>> {
        if let Some(file) = &self.file {
            file.release();
        }
        let rows = match &self.left {
            Some(left) if left.is_empty() && self.n_read > 0 => return self.end(),
            Some(left) => Some(left.start..left.start + self.next_length(left.len())),
            None => None,
        };
        let options =
            ReadOptions { first_row: rows.as_ref().map_or(0, |rows| rows.start), ..self.options.clone() };
        let piece = self.content.read(rows, self.n_piece, &options, self.file.as_ref());
        let piece = match &self.file {
            Some(file) => file.unless_changed(piece)?,
            None => piece?,
        };
        let Some(piece) = piece else { return self.end() };
        let n = piece.data.n_rows();
        self.n_read += n;
        if let Some(left) = &mut self.left {
            left.start += n;
        }
        Ok(Some(piece))
    }

    fn next_length(&self, n_left: usize) -> usize {
        if n_left < self.n_piece + TAIL { n_left } else { self.n_piece }
    }

    /// At the end the number of labels can be checked, if it was not known before.
    fn end(&self) -> Result<Option<Table>> {
        match &self.labels {
            Some((labels, location)) if self.left.is_none() => {
                labels.check_length(self.n_read, location).map(|()| None)
            }
            _ => Ok(None),
        }
    }
}

/// Rows of a piece of a table with so many columns.
fn piece_rows(n_columns: usize) -> usize {
    let rows = CELLS.checked_div(n_columns).unwrap_or(CELLS).clamp(BLOCK_ROWS, MAX_ROWS);
    rows - rows % BLOCK_ROWS
}

impl Content {
    /// The content of a file that can be read in pieces; `None` for others.
    fn of(
        file: &InputFile,
        format: Format,
        input: &Input<'_>,
        options: &ReadOptions,
    ) -> Result<Option<Self>> {
        match format {
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                ParquetPieces::open(input.file_bytes()?, file.location()).map(|p| Some(Content::Parquet(p)))
            }
            #[cfg(feature = "text")]
            Format::Text => {
                // The labels may be a file of their own.
                let inside = match &options.labels {
                    Some(LabelSource::File(_)) => ReadOptions { labels: None, ..options.clone() },
                    _ => options.clone(),
                };
                TextPieces::open(input.packed_bytes(), file.location(), &inside)
                    .map(|p| Some(Content::Text(p)))
            }
            // Labels within the file are refused there.
            Format::Npy if matches!(options.labels, None | Some(LabelSource::File(_))) => {
                Ok(match file.map() {
                    Some(map) if !input.is_packed() => {
                        npy::in_place(map, file.location())?.map(Content::Array)
                    }
                    _ => None,
                })
            }
            _ => Ok(None),
        }
    }

    fn n_rows(&self) -> Option<usize> {
        match self {
            #[cfg(feature = "parquet")]
            Content::Parquet(parquet) => Some(parquet.n_rows()),
            #[cfg(feature = "text")]
            Content::Text(_) => None,
            Content::Array(array) => array.shape.first().copied(),
            Content::Table(table) => Some(table.data.n_rows()),
        }
    }

    fn n_columns(&self) -> usize {
        match self {
            #[cfg(feature = "parquet")]
            Content::Parquet(parquet) => parquet.n_cells(),
            #[cfg(feature = "text")]
            Content::Text(text) => text.n_columns(),
            Content::Array(array) => array.shape.iter().skip(1).product(),
            Content::Table(table) => table.data.n_columns(),
        }
    }

    /// Reads some rows, or `n_piece` of those that are left.
    fn read(
        &mut self,
        rows: Option<Range<usize>>,
        n_piece: usize,
        options: &ReadOptions,
        file: Option<&InputFile>,
    ) -> Result<Option<Table>> {
        let rows = rows.unwrap_or_default();
        #[cfg(not(feature = "text"))]
        let _ = n_piece; // others know their rows
        match self {
            #[cfg(feature = "parquet")]
            Content::Parquet(parquet) => parquet.next(rows.len(), options).map(Some),
            #[cfg(feature = "text")]
            Content::Text(text) => text.next(n_piece, TAIL, options),
            Content::Array(array) => {
                let location = file.map_or("", |file| file.location());
                let Some(piece) = array.mapped_rows(rows.clone()) else { return Ok(None) };
                let data = piece.into_dataset_from(location, rows.start)?;
                Table::new(data, None).with_column_options(options).map(Some)
            }
            Content::Table(table) => Ok(Some(table.piece(rows))),
        }
    }
}

impl Table {
    /// Some of the rows, without labels.
    fn piece(&self, rows: Range<usize>) -> Table {
        let kept = self.kept.as_ref().map(|kept| Kept {
            names: kept.names.clone(),
            columns: kept.columns.iter().map(|column| column[rows.clone()].to_vec()).collect(),
        });
        let original = |columns: &Vec<RawColumn>| columns.iter().map(|c| c.piece(rows.clone())).collect();
        let mut piece = Table::new(self.data.piece(rows.clone()), None);
        piece.notes = if rows.start == 0 { self.notes.clone() } else { Vec::new() };
        piece.pooled = self.pooled.iter().filter(|cell| rows.contains(&cell.row)).cloned().collect();
        piece.pooled.iter_mut().for_each(|cell| cell.row -= rows.start);
        (piece.kept, piece.original) = (kept, self.original.as_ref().map(original));
        (piece.missing, piece.order, piece.label_column) =
            (self.missing.clone(), self.order.clone(), self.label_column);
        (piece.description, piece.labels_from) = (self.description.clone(), self.labels_from.clone());
        piece
    }
}
