//! Tables in parts for a fit: the rows are copied into one temporary file, which is then used in place. Only a block of
//! them is in memory at a time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use super::dataset::{Array, Dataset, ImageShape, Values};
use super::input_file::InputFile;
use super::mapped::{FileMap, Mapped};
use super::npy;
use super::options::{LabelSource, ReadOptions, Table};
#[cfg(feature = "parquet")]
use super::parquet_file::{Block, ParquetFile};
#[cfg(feature = "parquet")]
use super::parquet_numbers::{NumberColumns, describe};
use super::parts::{PartKind, Parts, other_width};
use super::pieces::Pieces;
use super::read::{file_bytes, located, read_labels};
use super::schema::number_schema;
use crate::files::require_space;
use crate::memory::product;
use crate::{Error, Result};

/// Rows of Parquet files that are copied at a time.
#[cfg(feature = "parquet")]
const BLOCK_ROWS: usize = 1 << 13;

/// The type of the numbers in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stored {
    Bytes,
    Singles,
    Doubles,
}

impl Stored {
    fn n_bytes(self) -> usize {
        match self {
            Stored::Bytes => 1,
            Stored::Singles => 4,
            Stored::Doubles => 8,
        }
    }

    fn of(values: &Values<'_>) -> Self {
        match values {
            Values::U8(_) => Stored::Bytes,
            Values::F16(_) | Values::F32(_) | Values::Csr(_) => Stored::Singles,
            Values::F64(_) => Stored::Doubles,
        }
    }
}

/// A table in parts that can be copied into one file.
pub struct Spool<'p> {
    parts: &'p Parts,
    n_rows: usize,
    n_columns: usize,
    stored: Stored,
    names: Option<Vec<String>>,
    image: Option<ImageShape>,
    labels: Option<LabelSource>,
    #[cfg(feature = "parquet")]
    columns: Option<NumberColumns>,
}

impl Parts {
    /// How to copy the parts into one file; `None` if they have to be read into memory instead: text, columns that are not
    /// numbers, and types or labels given for columns. Reads the headers of all parts, and checks that they fit together.
    pub fn spool(&self, options: &ReadOptions) -> Result<Option<Spool<'_>>> {
        let options = located(options, |_| Ok(false))?;
        let has_labels = !matches!(options.labels, None | Some(LabelSource::File(_)));
        let is_refused = options.array.is_some() || options.decimal_comma;
        if has_labels || options.has_column_options() || is_refused {
            return Ok(None);
        }
        let spool = match self.kind() {
            PartKind::Npy => Spool::of_arrays(self).map(Some),
            #[cfg(feature = "parquet")]
            PartKind::Parquet => Spool::of_parquet(self),
            _ => Ok(None),
        };
        Ok(spool?.map(|spool| Spool { labels: options.labels, ..spool }))
    }
}

impl<'p> Spool<'p> {
    fn of_arrays(parts: &'p Parts) -> Result<Self> {
        let mut spool: Option<Self> = None;
        for path in parts.files() {
            let file = InputFile::open(path)?;
            let (shape, stored) = file.unless_changed(array_header(&file))?;
            let (n_rows, n_columns, image) = shape;
            let first = spool.get_or_insert_with(|| Self { image, ..Self::new(parts, n_columns, stored) });
            if n_columns != first.n_columns {
                let named_first = parts.files()[0].display().to_string();
                return Err(other_width(file.location(), n_columns, &named_first, first.n_columns));
            }
            first.n_rows += n_rows;
            first.stored = first.stored.max(stored);
        }
        spool.ok_or_else(|| Error::data(parts.location(), "there are no parts"))
    }

    #[cfg(feature = "parquet")]
    fn of_parquet(parts: &'p Parts) -> Result<Option<Self>> {
        let mut columns: Option<NumberColumns> = None;
        let mut first: Option<ParquetFile> = None;
        let mut n_rows = 0;
        for path in parts.files() {
            let input = InputFile::open(path)?;
            let file = ParquetFile::open(file_bytes(&input)?, input.location());
            let mut file = input.unless_changed(file)?;
            if let Some(first) = &first {
                file = file.like(first)?;
            }
            n_rows += file.n_rows();
            match &mut columns {
                None if file.n_rows() > 0 => match NumberColumns::of(&file)? {
                    Some(found) => columns = Some(found),
                    None => return Ok(None),
                },
                Some(columns) => {
                    let are_numbers = columns.widen(&file);
                    if !are_numbers {
                        return Ok(None);
                    }
                }
                None => {}
            }
            first.get_or_insert(file);
        }
        let Some(columns) = columns else { return Ok(None) };
        let stored = match columns.is_bytes_or_double() {
            (true, _) => Stored::Bytes,
            (_, true) => Stored::Doubles,
            _ => Stored::Singles,
        };
        let names = Some(columns.names.clone());
        let spool = Self::new(parts, columns.names.len(), stored);
        Ok(Some(Self { n_rows, names, columns: Some(columns), ..spool }))
    }

    fn new(parts: &'p Parts, n_columns: usize, stored: Stored) -> Self {
        Self {
            parts,
            n_rows: 0,
            n_columns,
            stored,
            names: None,
            image: None,
            labels: None,
            #[cfg(feature = "parquet")]
            columns: None,
        }
    }

    /// Rows in all.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Bytes of the file.
    pub fn n_bytes(&self) -> u64 {
        product(&[self.n_rows, self.n_columns, self.stored.n_bytes()])
    }

    /// Copies the rows into a file without a name in `folder`, which the system removes when the table is dropped or the
    /// process ends, however it ends. Calls `copied` with the number of rows so far.
    pub fn write(self, folder: &Path, mut copied: impl FnMut(usize)) -> Result<Table> {
        require_space(folder, self.n_bytes(), "the rows of all parts", "scratch")?;
        let fail = |e| Error::io("write", folder, e);
        let file = tempfile::tempfile_in(folder).map_err(|e| fail(std::io::Error::from(e.kind())))?;
        let mut out =
            Out { file: BufWriter::new(&file), folder, stored: self.stored, n_rows: 0, has_gaps: false };
        for path in self.parts.files() {
            self.copy(path, &mut out, &mut copied)?;
        }
        out.file.flush().map_err(fail)?;
        let Out { n_rows, has_gaps, .. } = out;
        let mut table = self.table(&file, n_rows, has_gaps)?;
        if let Some(LabelSource::File(path)) = &self.labels {
            let labels = read_labels(path)?;
            labels.check_length(n_rows, &path.display().to_string())?;
            (table.labels, table.labels_from) = (Some(labels), self.labels.clone());
        }
        Ok(table)
    }

    fn copy(&self, path: &Path, out: &mut Out<'_>, copied: &mut dyn FnMut(usize)) -> Result<()> {
        #[cfg(feature = "parquet")]
        if let Some(columns) = &self.columns {
            return self.copy_parquet(path, columns, out, copied);
        }
        let mut pieces = Pieces::open(path, &ReadOptions::default())?;
        while let Some(piece) = pieces.next_piece()? {
            out.add(piece.data.values(), piece.data.n_rows())?;
            copied(out.n_rows);
        }
        Ok(())
    }

    #[cfg(feature = "parquet")]
    fn copy_parquet(
        &self,
        path: &Path,
        columns: &NumberColumns,
        out: &mut Out<'_>,
        copied: &mut dyn FnMut(usize),
    ) -> Result<()> {
        let first = &self.parts.files()[0];
        let open = |path: &Path| -> Result<(InputFile, ParquetFile)> {
            let input = InputFile::open(path)?;
            let file = ParquetFile::open(file_bytes(&input)?, input.location());
            let file = input.unless_changed(file)?;
            Ok((input, file))
        };
        let (input, file) = open(path)?;
        let file = if path == first { file } else { file.like(&open(first)?.1)? };
        for block in file.owned_blocks(0..file.n_rows(), BLOCK_ROWS)? {
            let (rows, first_row) = input.unless_changed(block)?;
            let n_rows = rows.num_rows();
            let block = Block { rows, location: file.location(), first_row };
            let values = columns.read(&block)?;
            // Infinite numbers are reported with their row and column.
            let (location, names) = (file.location().to_string(), self.names.clone());
            let data = Dataset::numbered(n_rows, self.n_columns, values, location, names, first_row)?;
            out.add(data.values(), n_rows)?;
            file.release();
            copied(out.n_rows);
        }
        input.check_unchanged()
    }

    /// The file in place.
    fn table(&self, file: &File, n_rows: usize, has_gaps: bool) -> Result<Table> {
        let location = self.parts.location();
        if n_rows == 0 || self.n_columns == 0 {
            let problem = format!("the table is empty: {n_rows} rows x {} columns", self.n_columns);
            return Err(Error::data(location, problem));
        }
        let n_values = n_rows * self.n_columns;
        let fail = |e| Error::io("map", Path::new(location), e);
        let busy = || fail(std::io::Error::other("too many files are mapped"));
        let map = FileMap::new(file, n_values * self.stored.n_bytes()).map_err(fail)?.ok_or_else(busy)?;
        let map = Arc::new(map);
        map.keep_small();
        let values = match self.stored {
            Stored::Bytes => Mapped::new(map, 0, n_values).map(|v| Values::U8(Array::Mapped(v))),
            Stored::Singles => Mapped::new(map, 0, n_values).map(|v| Values::F32(Array::Mapped(v))),
            Stored::Doubles => Mapped::new(map, 0, n_values).map(|v| Values::F64(Array::Mapped(v))),
        };
        let values = values.ok_or_else(busy)?;
        let names = self.names.clone();
        let mut data = Dataset::unchecked(n_rows, self.n_columns, values, location.to_string(), names);
        if has_gaps {
            let schema = number_schema(&data);
            data = data.with_schema(schema);
        }
        if let Some(image) = self.image {
            data = data.with_image(image);
        }
        #[allow(unused_mut, reason = "only columns of Parquet files are set aside")]
        let mut table = Table::new(self.with_aside(data)?, None);
        #[cfg(feature = "parquet")]
        if let Some(columns) = &self.columns {
            describe(&mut table, &columns.aside);
        }
        Ok(table)
    }

    /// The model must know the names of columns that are not clustered.
    fn with_aside(&self, data: Dataset<'static>) -> Result<Dataset<'static>> {
        #[cfg(feature = "parquet")]
        if let Some(columns) = self.columns.as_ref().filter(|columns| !columns.aside.is_empty())
            && let Some(schema) = data.typed_schema(false)?
        {
            let mut schema = Arc::unwrap_or_clone(schema);
            schema.kept.clone_from(&columns.aside);
            return Ok(data.with_schema(schema));
        }
        Ok(data)
    }
}

/// Rows and columns of an array, whether these are images, and the type that its numbers are stored in.
fn array_header(file: &InputFile) -> Result<((usize, usize, Option<ImageShape>), Stored)> {
    let bytes = file_bytes(file)?;
    let header = npy::read_header(&mut super::bytes::Source::plain(bytes.as_ref(), file.location()))?;
    let rows: usize = header.shape.first().copied().unwrap_or(0);
    let columns = header.shape.iter().skip(1).try_fold(1usize, |n, &size| n.checked_mul(size)).unwrap_or(0);
    let mut pieces = Pieces::open(Path::new(file.location()), &ReadOptions::default())?;
    match pieces.next_piece()? {
        Some(piece) => {
            let stored = if header.is_integer() { Stored::Doubles } else { Stored::of(piece.data.values()) };
            Ok(((rows, columns, piece.data.image()), stored))
        }
        None => Ok(((rows, columns, None), Stored::Singles)),
    }
}

/// The file that is written.
struct Out<'a> {
    file: BufWriter<&'a File>,
    folder: &'a Path,
    stored: Stored,
    n_rows: usize,
    has_gaps: bool,
}

impl Out<'_> {
    fn add(&mut self, values: &Values<'_>, n_rows: usize) -> Result<()> {
        let singles = |values: &Values<'_>| -> Vec<f32> {
            match values {
                Values::U8(v) => v.iter().map(|&x| x.into()).collect(),
                Values::F16(v) => v.iter().map(|x| x.to_f32()).collect(),
                Values::F32(v) => v.to_vec(),
                Values::F64(v) => v.iter().map(|&x| x as f32).collect(),
                Values::Csr(_) => Vec::new(),
            }
        };
        let written = match (self.stored, values) {
            (Stored::Bytes, Values::U8(v)) => self.file.write_all(v),
            (Stored::Singles, Values::F32(v)) => self.file.write_all(bytemuck::cast_slice(v)),
            (Stored::Doubles, Values::F64(v)) => self.file.write_all(bytemuck::cast_slice(v)),
            (Stored::Doubles, others) => {
                let doubles: Vec<f64> = singles(others).into_iter().map(f64::from).collect();
                self.file.write_all(bytemuck::cast_slice(&doubles))
            }
            (_, others) => self.file.write_all(bytemuck::cast_slice(&singles(others))),
        };
        let has_nan = match values {
            Values::F16(v) => v.iter().any(|x| x.is_nan()),
            Values::F32(v) => v.iter().any(|x| x.is_nan()),
            Values::F64(v) => v.iter().any(|x| x.is_nan()),
            Values::U8(_) | Values::Csr(_) => false,
        };
        self.has_gaps |= has_nan;
        self.n_rows += n_rows;
        written.map_err(|e| Error::io("write", self.folder, e))
    }
}
