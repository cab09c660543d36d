//! Python's arrays and columns as the library's tables: values of arrays are neither copied nor converted.

use std::sync::Arc;

use half::f16;
use numpy::{Element, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pervade::data::{
    self, Coded, ColumnSpec, Csr, Dataset, DateFormat, ImageShape, RawCells, RawColumn, ReadOptions, Values,
    Zone,
};
use pervade::model::{Matched, Vade};
use pervade::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::errors::raised;

/// The name of the table in messages.
const NAME: &str = "X";

/// A borrowed NumPy array: it stays alive, and numpy's borrow checking prevents writes, while it is read.
pub(crate) enum HeldArray<'py> {
    U8(PyReadonlyArray2<'py, u8>),
    F16(PyReadonlyArray2<'py, f16>),
    F32(PyReadonlyArray2<'py, f32>),
    F64(PyReadonlyArray2<'py, f64>),
    /// Compressed sparse rows: the start of each row, the column and value of each entry, and the number of columns.
    Csr(PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i32>, PyReadonlyArray1<'py, f32>, usize),
    /// Columns of a data frame.
    Columns(Vec<GivenColumn<'py>>),
}

/// A column of a data frame.
#[derive(FromPyObject)]
pub(crate) struct GivenColumn<'py> {
    name: String,
    /// What the values are; see `Column` in `_frames.py`.
    kind: String,
    /// Numbers, truth values, indices into the levels, or seconds since 1970; NaN where missing.
    values: PyReadonlyArray1<'py, f64>,
    levels: Vec<String>,
    /// Decimal places of seconds.
    decimals: u8,
}

/// What the user said about columns.
#[derive(FromPyObject)]
pub(crate) struct ColumnOptions {
    /// Their names; for arrays, which have none.
    pub(crate) names: Option<Vec<String>>,
    types: Vec<(String, String)>,
    keep: Vec<String>,
    missing: Vec<String>,
    missing_informative: bool,
}

impl ColumnOptions {
    /// The options for a fit.
    pub(crate) fn read_options(&self) -> Result<ReadOptions> {
        let typed = |(name, kind): &(String, String)| match kind.parse::<ColumnSpec>() {
            Ok(spec) => Ok((name.clone(), spec)),
            Err(Error::Setting { must, .. }) => {
                Err(Error::setting("type", format!("{{'{name}': '{kind}'}}"), must))
            }
            Err(error) => Err(error),
        };
        let types = self.types.iter().map(typed).collect::<Result<Vec<_>>>()?;
        Ok(ReadOptions::default().with(|options| {
            options.types = types;
            options.keep.clone_from(&self.keep);
            options.missing.clone_from(&self.missing);
            options.missing_informative = self.missing_informative;
        }))
    }
}

/// A table that can be sent to another thread; it borrows the values of an array.
pub(crate) struct Table<'a> {
    content: Content<'a>,
    column_names: Option<Vec<String>>,
    image: Option<ImageShape>,
}

enum Content<'a> {
    Array { n_rows: usize, n_columns: usize, values: Values<'a> },
    Columns(Vec<RawColumn>),
}

/// The library's table, and what is to be said about it.
pub(crate) struct Read<'a> {
    pub(crate) data: Dataset<'a>,
    /// What the columns were taken for; none if they are plain numbers.
    pub(crate) description: Option<String>,
    /// Remarks about cells that are not used as they are.
    pub(crate) notes: Vec<String>,
}

impl<'py> FromPyObject<'_, 'py> for HeldArray<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if given.is_instance_of::<PyList>() {
            return Ok(HeldArray::Columns(given.extract()?));
        }
        if let Ok(array) = given.extract() {
            return Ok(HeldArray::U8(array));
        }
        if let Ok(array) = given.extract() {
            return Ok(HeldArray::F16(array));
        }
        if let Ok(array) = given.extract() {
            return Ok(HeldArray::F32(array));
        }
        if let Ok(array) = given.extract() {
            return Ok(HeldArray::F64(array));
        }
        let (starts, columns, values, n_columns) = given.extract().map_err(|_| {
            PyTypeError::new_err(
                "a table is an array of uint8, float16, float32 or float64 with two axes, \
                 (starts: int64, columns: int32, values: float32, number of columns), or a list of columns",
            )
        })?;
        Ok(HeldArray::Csr(starts, columns, values, n_columns))
    }
}

impl HeldArray<'_> {
    /// The table, borrowed from the array; sparse rows and columns are converted to the library's types.
    pub(crate) fn table(&self, column_names: Option<Vec<String>>) -> PyResult<Table<'_>> {
        fn dense<'a, T: Element>(
            array: &'a PyReadonlyArray2<'_, T>,
            values: impl Fn(&'a [T]) -> Values<'a>,
        ) -> PyResult<Content<'a>> {
            let &[n_rows, n_columns] = array.shape() else { unreachable!("the array has two axes") };
            Ok(Content::Array { n_rows, n_columns, values: values(array.as_slice()?) })
        }
        let content = match self {
            HeldArray::U8(array) => dense(array, |v| Values::U8(v.into()))?,
            HeldArray::F16(array) => dense(array, |v| Values::F16(v.into()))?,
            HeldArray::F32(array) => dense(array, |v| Values::F32(v.into()))?,
            HeldArray::F64(array) => dense(array, |v| Values::F64(v.into()))?,
            HeldArray::Csr(starts, columns, values, n_columns) => {
                // The columns are copied: they are used as indices, and must not change after they were checked.
                let starts: Vec<usize> = starts.as_slice()?.iter().map(|&start| start as usize).collect();
                let columns = columns.as_slice()?.iter().map(|&column| column as u32).collect();
                let n_rows = starts.len().saturating_sub(1);
                let csr =
                    Csr::new(starts, columns, values.as_slice()?.to_vec(), *n_columns).map_err(raised)?;
                Content::Array { n_rows, n_columns: *n_columns, values: Values::Csr(csr) }
            }
            HeldArray::Columns(columns) => {
                Content::Columns(columns.iter().map(GivenColumn::raw).collect::<PyResult<_>>()?)
            }
        };
        Ok(Table { content, column_names, image: None })
    }
}

impl GivenColumn<'_> {
    pub(crate) fn raw(&self) -> PyResult<RawColumn> {
        let values = self.values.as_slice()?.to_vec();
        let present = |x: &f64| (!x.is_nan()).then_some(*x);
        let coded = || {
            let codes = values.iter().map(|x| present(x).map(|code| code as u32));
            Coded::new(self.levels.clone(), codes).map_err(raised)
        };
        let zone = if self.kind == "timestamps-utc" { Zone::Utc } else { Zone::Local };
        let cells = match self.kind.as_str() {
            "truth" => RawCells::Truth(values.iter().map(|x| present(x).map(|truth| truth != 0.0)).collect()),
            "words" => RawCells::Words(coded()?),
            kind @ ("categories" | "ordered") => {
                RawCells::Categories { coded: coded()?, ordered: kind == "ordered" }
            }
            "numbers" => RawCells::Numbers(values),
            "days" => RawCells::Dates { seconds: values, format: DateFormat::DAYS },
            "timestamps" | "timestamps-utc" => {
                RawCells::Dates { seconds: values, format: DateFormat::timestamps(zone, self.decimals) }
            }
            other => return Err(PyTypeError::new_err(format!("a column is not of the kind `{other}`"))),
        };
        Ok(RawColumn { name: self.name.clone(), cells })
    }
}

impl<'a> Table<'a> {
    /// Rows that are images: height, width and channels.
    pub(crate) fn with_image(mut self, shape: Option<[usize; 3]>) -> Self {
        self.image = shape.map(|[height, width, channels]| ImageShape { height, width, channels });
        self
    }

    /// The library's table; an error if any value is infinite. The options are for columns of data frames.
    pub(crate) fn read(self, options: &ReadOptions) -> Result<Read<'a>> {
        let n_columns = match &self.content {
            Content::Array { n_columns, .. } => *n_columns,
            Content::Columns(columns) => columns.len(),
        };
        if let Some(n) = self.column_names.as_ref().map(Vec::len).filter(|&n| n != n_columns) {
            return Err(Error::data(NAME, format!("there are {n} names for {n_columns} columns")));
        }
        let (n_rows, values) = match self.content {
            Content::Array { n_rows, values, .. } => (n_rows, values),
            Content::Columns(mut columns) => {
                let names = self.column_names.unwrap_or_default();
                columns.iter_mut().zip(names).for_each(|(column, name)| column.name = name);
                let data::Table { data, description, notes, .. } =
                    data::Table::from_columns(columns, options, NAME)?;
                return Ok(Read { data, description, notes });
            }
        };
        let data = Dataset::new(n_rows, n_columns, values, NAME)?;
        let data = match self.column_names {
            Some(names) => data.with_column_names(names),
            None => data,
        };
        let data = match self.image {
            Some(image) => data.with_image(image),
            None => data,
        };
        let notes = options.missing_informative.then(|| data::NO_GAPS.to_string());
        Ok(Read { data, description: None, notes: notes.into_iter().collect() })
    }

    /// New rows for a fitted model: columns of data frames are matched by name if both have names.
    pub(crate) fn for_model(self, vade: &Vade) -> Result<Read<'a>> {
        let schema = vade.schema().cloned().map(Arc::new);
        let read = self.read(&ReadOptions::default().with(|options| options.schema = schema))?;
        match vade.schema() {
            None => read.data.check_complete()?,
            // An array has no columns that tell where others have gaps.
            Some(schema) if schema.has_gap_columns() => {
                if let Matched::Reordered(data) = vade.matched(&read.data)? {
                    return Ok(Read { data, ..read });
                }
            }
            Some(_) => {}
        }
        Ok(read)
    }
}
