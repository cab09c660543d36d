//! Python's arrays as the library's tables: numbers stay where they are, in the type they have.

use half::f16;
use numpy::{Element, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pervade::data::{Csr, Dataset, Values};
use pervade::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::errors::raised;

/// How messages call the table.
const NAME: &str = "X";

/// An array that is held, so that it stays and nobody who asks may write to it, while it is read.
pub(crate) enum Held<'py> {
    U8(PyReadonlyArray2<'py, u8>),
    F16(PyReadonlyArray2<'py, f16>),
    F32(PyReadonlyArray2<'py, f32>),
    F64(PyReadonlyArray2<'py, f64>),
    /// Where rows start, the column and the value of each entry, and the number of columns.
    Csr(PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i32>, PyReadonlyArray1<'py, f32>, usize),
}

/// A table that can go to another thread: its numbers are still the array's.
pub(crate) struct Table<'a> {
    n_rows: usize,
    n_columns: usize,
    values: Values<'a>,
    column_names: Option<Vec<String>>,
}

impl<'py> FromPyObject<'_, 'py> for Held<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = given.extract() {
            return Ok(Held::U8(array));
        }
        if let Ok(array) = given.extract() {
            return Ok(Held::F16(array));
        }
        if let Ok(array) = given.extract() {
            return Ok(Held::F32(array));
        }
        if let Ok(array) = given.extract() {
            return Ok(Held::F64(array));
        }
        let (starts, columns, values, n_columns) = given.extract().map_err(|_| {
            PyTypeError::new_err(
                "a table is an array of uint8, float16, float32 or float64 with two axes, or \
                 (starts: int64, columns: int32, values: float32, number of columns)",
            )
        })?;
        Ok(Held::Csr(starts, columns, values, n_columns))
    }
}

impl Held<'_> {
    /// The table, borrowed from the array; sparse rows are brought to the library's form.
    pub(crate) fn table(&self, column_names: Option<Vec<String>>) -> PyResult<Table<'_>> {
        fn dense<'a, T: Element>(array: &'a PyReadonlyArray2<'_, T>) -> PyResult<(&'a [T], [usize; 2])> {
            let &[n_rows, n_columns] = array.shape() else { unreachable!("the array has two axes") };
            Ok((array.as_slice()?, [n_rows, n_columns]))
        }
        let (values, [n_rows, n_columns]) = match self {
            Held::U8(array) => dense(array).map(|(v, shape)| (Values::U8(v.into()), shape))?,
            Held::F16(array) => dense(array).map(|(v, shape)| (Values::F16(v.into()), shape))?,
            Held::F32(array) => dense(array).map(|(v, shape)| (Values::F32(v.into()), shape))?,
            Held::F64(array) => dense(array).map(|(v, shape)| (Values::F64(v.into()), shape))?,
            Held::Csr(starts, columns, values, n_columns) => {
                // The columns are copied: they are places in memory, and what was checked must stay.
                let starts: Vec<usize> = starts.as_slice()?.iter().map(|&start| start as usize).collect();
                let columns = columns.as_slice()?.iter().map(|&column| column as u32).collect();
                let n_rows = starts.len().saturating_sub(1);
                let csr =
                    Csr::new(starts, columns, values.as_slice()?.to_vec(), *n_columns).map_err(raised)?;
                (Values::Csr(csr), [n_rows, *n_columns])
            }
        };
        Ok(Table { n_rows, n_columns, values, column_names })
    }
}

impl<'a> Table<'a> {
    /// The library's table; every number is looked at once, to refuse those that are not finite.
    pub(crate) fn dataset(self) -> Result<Dataset<'a>> {
        let data = Dataset::new(self.n_rows, self.n_columns, self.values, NAME)?;
        if let Some(n) = self.column_names.as_ref().map(Vec::len).filter(|&n| n != self.n_columns) {
            return Err(Error::data(NAME, format!("there are {n} names for {} columns", self.n_columns)));
        }
        Ok(match self.column_names {
            Some(names) => data.with_column_names(names),
            None => data,
        })
    }
}
