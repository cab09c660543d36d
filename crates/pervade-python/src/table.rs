//! Python's arrays as the library's tables: values are neither copied nor converted.

use half::f16;
use numpy::{Element, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pervade::data::{Csr, Dataset, ImageShape, Values};
use pervade::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

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
}

/// A table that can be sent to another thread; it borrows the array's values.
pub(crate) struct Table<'a> {
    n_rows: usize,
    n_columns: usize,
    values: Values<'a>,
    column_names: Option<Vec<String>>,
    image: Option<ImageShape>,
}

impl<'py> FromPyObject<'_, 'py> for HeldArray<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
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
                "a table is an array of uint8, float16, float32 or float64 with two axes, or \
                 (starts: int64, columns: int32, values: float32, number of columns)",
            )
        })?;
        Ok(HeldArray::Csr(starts, columns, values, n_columns))
    }
}

impl HeldArray<'_> {
    /// The table, borrowed from the array; sparse rows are converted to the library's types.
    pub(crate) fn table(&self, column_names: Option<Vec<String>>) -> PyResult<Table<'_>> {
        fn dense<'a, T: Element>(array: &'a PyReadonlyArray2<'_, T>) -> PyResult<(&'a [T], [usize; 2])> {
            let &[n_rows, n_columns] = array.shape() else { unreachable!("the array has two axes") };
            Ok((array.as_slice()?, [n_rows, n_columns]))
        }
        let (values, [n_rows, n_columns]) = match self {
            HeldArray::U8(array) => dense(array).map(|(v, shape)| (Values::U8(v.into()), shape))?,
            HeldArray::F16(array) => dense(array).map(|(v, shape)| (Values::F16(v.into()), shape))?,
            HeldArray::F32(array) => dense(array).map(|(v, shape)| (Values::F32(v.into()), shape))?,
            HeldArray::F64(array) => dense(array).map(|(v, shape)| (Values::F64(v.into()), shape))?,
            HeldArray::Csr(starts, columns, values, n_columns) => {
                // The columns are copied: they are used as indices, and must not change after they were checked.
                let starts: Vec<usize> = starts.as_slice()?.iter().map(|&start| start as usize).collect();
                let columns = columns.as_slice()?.iter().map(|&column| column as u32).collect();
                let n_rows = starts.len().saturating_sub(1);
                let csr =
                    Csr::new(starts, columns, values.as_slice()?.to_vec(), *n_columns).map_err(raised)?;
                (Values::Csr(csr), [n_rows, *n_columns])
            }
        };
        Ok(Table { n_rows, n_columns, values, column_names, image: None })
    }
}

impl<'a> Table<'a> {
    /// Rows that are images: height, width and channels.
    pub(crate) fn with_image(mut self, shape: Option<[usize; 3]>) -> Self {
        self.image = shape.map(|[height, width, channels]| ImageShape { height, width, channels });
        self
    }

    /// The library's table; an error if any value is not finite.
    pub(crate) fn dataset(self) -> Result<Dataset<'a>> {
        let data = Dataset::new(self.n_rows, self.n_columns, self.values, NAME)?;
        if let Some(n) = self.column_names.as_ref().map(Vec::len).filter(|&n| n != self.n_columns) {
            return Err(Error::data(NAME, format!("there are {n} names for {} columns", self.n_columns)));
        }
        let data = match self.column_names {
            Some(names) => data.with_column_names(names),
            None => data,
        };
        Ok(match self.image {
            Some(image) => data.with_image(image),
            None => data,
        })
    }
}
