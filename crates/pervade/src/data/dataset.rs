//! Rows without labels, in the type they were stored in.

use std::ops::{Deref, Range};
use std::sync::Arc;

use half::f16;

use super::csr::Csr;
use super::input_file::{self, InputFile};
use super::mapped::Mapped;
use super::prepare::Preparation;
use super::schema::{Schema, number_schema};
use crate::compute::{self, RowValues, RowsView};
use crate::{Error, Result};

/// An N x D table of numbers without labels.
///
/// The numbers are owned, lie in a mapped file, or are borrowed for `'d`.
#[derive(Debug)]
pub struct Dataset<'d> {
    n_rows: usize,
    n_columns: usize,
    values: Values<'d>,
    column_names: Option<Vec<String>>,
    image: Option<ImageShape>,
    source: String,
    /// What the columns mean, if each has a type. Only then may cells be missing (NaN).
    schema: Option<Arc<Schema>>,
    /// The file that the numbers are mapped from, if any.
    file: Option<Arc<InputFile>>,
    /// Index of the first row in the whole table, for messages.
    first_row: usize,
}

/// The numbers of a table, row by row, in their stored type.
#[derive(Debug)]
pub enum Values<'d> {
    /// Bytes, usually of images.
    U8(Array<'d, u8>),
    /// Half precision.
    F16(Array<'d, f16>),
    /// Single precision.
    F32(Array<'d, f32>),
    /// Double precision; converted to single precision for batches.
    F64(Array<'d, f64>),
    /// Sparse rows.
    Csr(Csr),
}

impl Values<'_> {
    fn view(&self) -> RowValues<'_> {
        match self {
            Values::U8(x) => RowValues::U8(x),
            Values::F16(x) => RowValues::F16(x),
            Values::F32(x) => RowValues::F32(x),
            Values::F64(x) => RowValues::F64(x),
            Values::Csr(csr) => RowValues::Csr(compute::Csr {
                starts: csr.starts(),
                columns: csr.columns(),
                values: csr.values(),
            }),
        }
    }
}

/// Numbers that are owned, mapped from a file, or borrowed.
#[derive(Debug)]
pub enum Array<'d, T> {
    /// In memory.
    Owned(Vec<T>),
    /// In a file mapped into memory.
    Mapped(Mapped<T>),
    /// In memory of the caller, such as a NumPy array.
    Borrowed(&'d [T]),
}

impl<T: bytemuck::Pod> Deref for Array<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Array::Owned(values) => values,
            Array::Mapped(mapped) => mapped.as_slice(),
            Array::Borrowed(values) => values,
        }
    }
}

impl<T: bytemuck::Pod> Array<'_, T> {
    fn release(&self) {
        if let Array::Mapped(mapped) = self {
            mapped.release(0..mapped.as_slice().len());
        }
    }
}

impl<T> From<Vec<T>> for Array<'_, T> {
    fn from(values: Vec<T>) -> Self {
        Array::Owned(values)
    }
}

impl<'d, T> From<&'d [T]> for Array<'d, T> {
    fn from(values: &'d [T]) -> Self {
        Array::Borrowed(values)
    }
}

/// Height, width and channels of the images that the rows hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageShape {
    /// Rows of pixels.
    pub height: usize,
    /// Columns of pixels.
    pub width: usize,
    /// One for grey, three for colour (interleaved).
    pub channels: usize,
}

/// Column `j` for messages: its name, or its number counted from one.
pub(crate) fn column_in_words(names: Option<&[String]>, j: usize) -> String {
    names.map_or_else(|| (j + 1).to_string(), |names| format!("`{}`", names[j]))
}

impl Values<'_> {
    fn len(&self) -> Option<usize> {
        match self {
            Values::U8(v) => Some(v.len()),
            Values::F16(v) => Some(v.len()),
            Values::F32(v) => Some(v.len()),
            Values::F64(v) => Some(v.len()),
            Values::Csr(_) => None,
        }
    }
}

impl<'d> Dataset<'d> {
    /// Creates a table from its numbers. NaN stands for a missing cell and gives the table a [`Schema`]; infinite numbers
    /// are an error.
    pub fn new(
        n_rows: usize,
        n_columns: usize,
        values: Values<'d>,
        source: impl Into<String>,
    ) -> Result<Self> {
        Self::named(n_rows, n_columns, values, source.into(), None)
    }

    /// Like [`Dataset::new`], with names for the columns, which error messages then use.
    pub(super) fn named(
        n_rows: usize,
        n_columns: usize,
        values: Values<'d>,
        source: String,
        column_names: Option<Vec<String>>,
    ) -> Result<Self> {
        Self::numbered(n_rows, n_columns, values, source, column_names, 0)
    }

    /// Like [`Dataset::named`], for rows of a larger table, whose row `first_row` is the first of these.
    pub(super) fn numbered(
        n_rows: usize,
        n_columns: usize,
        values: Values<'d>,
        source: String,
        column_names: Option<Vec<String>>,
        first_row: usize,
    ) -> Result<Self> {
        let fits = match &values {
            Values::Csr(csr) => csr.n_rows() == n_rows,
            dense => dense.len() == n_rows.checked_mul(n_columns),
        };
        if !fits {
            return Err(Error::data(
                &source,
                format!("the numbers do not fill {n_rows} rows x {n_columns} columns"),
            ));
        }
        if n_rows == 0 || n_columns == 0 {
            return Err(Error::data(
                &source,
                format!("the table is empty: {n_rows} rows x {n_columns} columns"),
            ));
        }
        let (image, schema, file) = (None, None, None);
        let mut data =
            Self { n_rows, n_columns, values, column_names, image, source, schema, file, first_row };
        data.check_finite()?;
        if data.has_missing_cells() {
            data.schema = Some(Arc::new(number_schema(&data)));
        }
        Ok(data)
    }

    /// A table whose numbers were checked piece by piece.
    pub(super) fn unchecked(
        n_rows: usize,
        n_columns: usize,
        values: Values<'d>,
        source: String,
        column_names: Option<Vec<String>>,
    ) -> Self {
        let (image, schema, file) = (None, None, None);
        Self { n_rows, n_columns, values, column_names, image, source, schema, file, first_row: 0 }
    }

    /// Sets what the columns mean.
    pub(super) fn with_schema(mut self, schema: Schema) -> Self {
        self.schema = Some(Arc::new(schema));
        self
    }

    /// Creates a table from cells, row by row, as `schema` describes them.
    pub fn typed(cells: Vec<f64>, schema: Arc<Schema>, source: String) -> Result<Self> {
        Self::typed_from(cells, schema, source, 0)
    }

    /// Like [`Dataset::typed`], for rows of a larger table, whose row `first_row` is the first of these.
    pub(super) fn typed_from(
        cells: Vec<f64>,
        schema: Arc<Schema>,
        source: String,
        first_row: usize,
    ) -> Result<Self> {
        let n_columns = schema.columns.len();
        let n_rows = cells.len().checked_div(n_columns).unwrap_or(0);
        let data = Self {
            n_rows,
            n_columns,
            values: Values::F64(cells.into()),
            column_names: schema.is_named.then(|| schema.names()),
            image: None,
            source,
            schema: Some(schema),
            file: None,
            first_row,
        };
        data.check_finite()?;
        Ok(data)
    }

    /// Creates a dense table of single-precision numbers, row by row.
    pub fn from_rows(n_rows: usize, n_columns: usize, values: Vec<f32>) -> Result<Self> {
        Self::new(n_rows, n_columns, Values::F32(values.into()), "rows in memory")
    }

    /// The cells in double precision, row by row.
    pub(crate) fn cells(&self) -> Vec<f64> {
        if let Values::F64(cells) = &self.values {
            return cells.to_vec();
        }
        let mut row = vec![0.0; self.n_columns];
        let mut cells = Vec::with_capacity(self.n_rows * self.n_columns);
        for i in 0..self.n_rows {
            self.row_into(i, &mut row);
            cells.extend(row.iter().map(|&x| f64::from(x)));
        }
        cells
    }

    /// Sets the names of the columns; those that tell where others have gaps are named after them.
    pub fn with_column_names(mut self, mut names: Vec<String>) -> Self {
        debug_assert_eq!(names.len(), self.n_source_columns());
        if let Some(schema) = &mut self.schema {
            let schema = Arc::make_mut(schema);
            schema.is_named = true;
            schema.rename(&names);
            names = schema.names();
        }
        self.column_names = Some(names);
        self
    }

    /// Sets the shape of the images that the rows hold.
    pub fn with_image(mut self, image: ImageShape) -> Self {
        debug_assert_eq!(image.height * image.width * image.channels, self.n_columns);
        self.image = Some(image);
        self
    }

    /// Numbers the rows as those of a larger table, whose row `first_row` is the first of this one: in messages, and where random
    /// numbers depend on the row.
    pub fn with_first_row(mut self, first_row: usize) -> Self {
        self.first_row = first_row;
        self
    }

    /// A table of some of the rows: dense rows are borrowed, sparse rows copied.
    pub fn slice(&self, rows: Range<usize>) -> Dataset<'_> {
        let numbers = rows.start * self.n_columns..rows.end * self.n_columns;
        let values = match &self.values {
            Values::U8(v) => Values::U8(v[numbers].into()),
            Values::F16(v) => Values::F16(v[numbers].into()),
            Values::F32(v) => Values::F32(v[numbers].into()),
            Values::F64(v) => Values::F64(v[numbers].into()),
            Values::Csr(csr) => Values::Csr(csr.slice(rows.clone())),
        };
        Dataset {
            n_rows: rows.len(),
            n_columns: self.n_columns,
            values,
            column_names: self.column_names.clone(),
            schema: self.schema.clone(),
            image: self.image,
            source: self.source.clone(),
            file: self.file.clone(),
            first_row: self.first_row + rows.start,
        }
    }

    /// Some of the rows in memory of their own, or in the same mapped file.
    pub(super) fn piece(&self, rows: Range<usize>) -> Dataset<'static> {
        fn part<T: bytemuck::Pod>(array: &Array<'_, T>, range: Range<usize>) -> Array<'static, T> {
            match array {
                Array::Mapped(mapped) => Array::Mapped(mapped.slice(range)),
                others => Array::Owned(others[range].to_vec()),
            }
        }
        let numbers = rows.start * self.n_columns..rows.end * self.n_columns;
        let values = match &self.values {
            Values::U8(v) => Values::U8(part(v, numbers)),
            Values::F16(v) => Values::F16(part(v, numbers)),
            Values::F32(v) => Values::F32(part(v, numbers)),
            Values::F64(v) => Values::F64(part(v, numbers)),
            Values::Csr(csr) => Values::Csr(csr.slice(rows.clone())),
        };
        let Dataset { n_columns, image, first_row, .. } = *self;
        Dataset {
            n_rows: rows.len(),
            n_columns,
            values,
            column_names: self.column_names.clone(),
            image,
            source: self.source.clone(),
            schema: self.schema.clone(),
            file: self.file.clone(),
            first_row: first_row + rows.start,
        }
    }

    /// Gives the memory of mapped rows that were read back to the system; they are read from their file again when needed.
    /// Does nothing for other tables.
    pub fn release(&self) {
        match &self.values {
            Values::U8(v) => v.release(),
            Values::F16(v) => v.release(),
            Values::F32(v) => v.release(),
            Values::F64(v) => v.release(),
            Values::Csr(_) => {}
        }
    }

    /// Whether the numbers lie in a mapped file.
    pub(super) fn is_in_place(&self) -> bool {
        match &self.values {
            Values::U8(v) => matches!(v, Array::Mapped(_)),
            Values::F16(v) => matches!(v, Array::Mapped(_)),
            Values::F32(v) => matches!(v, Array::Mapped(_)),
            Values::F64(v) => matches!(v, Array::Mapped(_)),
            Values::Csr(_) => false,
        }
    }

    /// Marks the numbers as mapped from `file`.
    pub(super) fn with_file(mut self, file: InputFile) -> Self {
        self.file = Some(Arc::new(file));
        self
    }

    /// Returns an error if the numbers are mapped from a file that was written to since it was opened. Other tables
    /// cannot change.
    ///
    /// Compares the length and the modification time of the file, which takes microseconds.
    pub fn check_unchanged(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.check_unchanged())
    }

    /// Like [`Dataset::check_unchanged`], and also returns an error if the [checksum](Dataset::checksum) is no longer
    /// `checksum`. Reads the whole file; as fast as the former for a table that is not mapped from a file.
    pub fn check_unchanged_since(&self, checksum: &str) -> Result<()> {
        self.check_unchanged()?;
        let Some(file) = &self.file else { return Ok(()) };
        let now = self.checksum();
        // Again: the file may have been shortened while it was read.
        self.check_unchanged()?;
        if now == checksum {
            return Ok(());
        }
        let problem =
            format!("the values changed while the file was in use ({checksum} at the start, {now} now)");
        Err(input_file::changed(file.location(), problem))
    }

    /// `result`, unless the file behind the table changed, when an error about strange numbers would mislead.
    pub fn unless_changed<T>(&self, result: Result<T>) -> Result<T> {
        self.check_unchanged()?;
        result
    }

    /// A copy with other columns: column j is column `columns[j]` of this table, in the same type. Rows are no longer
    /// images unless the order of the columns stays the same.
    pub(crate) fn with_columns(&self, columns: &[usize]) -> Dataset<'static> {
        fn chosen<T: Copy>(values: &[T], n_columns: usize, columns: &[usize]) -> Array<'static, T> {
            let rows = values.chunks_exact(n_columns);
            Array::Owned(rows.flat_map(|row| columns.iter().map(|&j| row[j])).collect())
        }
        let d = self.n_columns;
        let values = match &self.values {
            Values::U8(v) => Values::U8(chosen(v, d, columns)),
            Values::F16(v) => Values::F16(chosen(v, d, columns)),
            Values::F32(v) => Values::F32(chosen(v, d, columns)),
            Values::F64(v) => Values::F64(chosen(v, d, columns)),
            Values::Csr(csr) => Values::Csr(csr.with_columns(columns)),
        };
        let names = self.column_names.as_ref();
        Dataset {
            n_rows: self.n_rows,
            n_columns: columns.len(),
            values,
            column_names: names.map(|names| columns.iter().map(|&j| names[j].clone()).collect()),
            schema: self.schema.as_ref().map(|schema| Arc::new(schema.with_columns(columns))),
            image: self.image.filter(|_| columns.iter().copied().eq(0..d)),
            source: self.source.clone(),
            file: None,
            first_row: self.first_row,
        }
    }

    /// Bytes of the numbers, plus their column indices if rows are sparse.
    pub(crate) fn n_bytes(&self) -> u64 {
        let bytes = match &self.values {
            Values::U8(v) => size_of_val(&v[..]),
            Values::F16(v) => size_of_val(&v[..]),
            Values::F32(v) => size_of_val(&v[..]),
            Values::F64(v) => size_of_val(&v[..]),
            Values::Csr(csr) => {
                size_of_val(csr.values()) + size_of_val(csr.columns()) + size_of_val(csr.starts())
            }
        };
        bytes as u64
    }

    /// Row `i` for messages: counted from one, in the whole table if this is a part of one.
    pub(crate) fn row_number(&self, i: usize) -> usize {
        self.first_row + i + 1
    }

    /// Number of rows, N.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of columns, D.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// The numbers.
    pub fn values(&self) -> &Values<'d> {
        &self.values
    }

    /// Names of the columns, if the file had them.
    pub fn column_names(&self) -> Option<&[String]> {
        self.column_names.as_deref()
    }

    /// What the columns mean, if each has a type of its own; cells are missing (NaN) only then. A table of numbers may also
    /// be given types for a fit: see [`Dataset::typed_schema`].
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.schema.as_ref()
    }

    /// A cell before preparation, in double precision; NaN if it is missing.
    #[inline]
    pub fn cell(&self, i: usize, j: usize) -> f64 {
        let at = i * self.n_columns + j;
        match &self.values {
            Values::U8(v) => f64::from(v[at]),
            Values::F16(v) => v[at].to_f64(),
            Values::F32(v) => f64::from(v[at]),
            Values::F64(v) => v[at],
            Values::Csr(csr) => {
                let (columns, values) = csr.row(i);
                columns.binary_search(&(j as u32)).map_or(0.0, |entry| f64::from(values[entry]))
            }
        }
    }

    /// The shape of the images, if the rows are images.
    pub fn image(&self) -> Option<ImageShape> {
        self.image
    }

    /// The source of the table, for messages.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Writes row `i` into `out` in single precision, before preparation.
    #[inline]
    pub fn row_into(&self, i: usize, out: &mut [f32]) {
        self.values.view().row_into(i, self.n_columns, out);
    }

    /// The rows in the form that a device reads, scaled by `preparation`.
    pub fn view<'a>(&'a self, preparation: &'a Preparation) -> RowsView<'a> {
        RowsView {
            n_rows: self.n_rows,
            n_columns: self.n_columns,
            values: self.values.view(),
            scaling: preparation.scaling(),
            inputs: preparation.inputs(),
        }
    }
}
