//! Rows of mixed tables, with numbers and categories apart.

use pervade::Result;
use pervade::compute::{ColumnFamily, TypedColumn};
use pervade::data::{Dataset, Preparation};

use crate::rows::dense;

/// The code of a missing level.
pub(crate) const MISSING: u32 = u32::MAX;

/// The cells of a table: numbers on the scale of the prepared rows, and levels of categories.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MixedRows {
    pub(crate) n_rows: usize,
    /// The number of numeric columns, P.
    pub(crate) n_numbers: usize,
    /// NaN where missing. `[N, P]`
    pub(crate) numbers: Vec<f32>,
    /// The number of columns that are categories, Q.
    pub(crate) n_categories: usize,
    /// Indices of levels, [`MISSING`] where missing. `[N, Q]`
    pub(crate) codes: Vec<u32>,
}

/// One row of a mixed table.
#[derive(Clone, Copy)]
pub(crate) struct MixedRow<'a> {
    /// `[P]`
    pub(crate) numbers: &'a [f32],
    /// `[Q]`
    pub(crate) codes: &'a [u32],
}

impl MixedRows {
    /// The rows of `data`: its cells if the columns have types, otherwise the prepared numbers.
    pub(crate) fn of(data: &Dataset, preparation: &Preparation) -> Result<Self> {
        let (n_rows, prepared) = (data.n_rows(), dense(data, preparation)?);
        let (d, columns) = (preparation.n_distance_columns(), preparation.columns());
        if columns.is_empty() {
            return Ok(Self { n_rows, n_numbers: d, numbers: prepared, n_categories: 0, codes: Vec::new() });
        }
        let is_number =
            |column: &TypedColumn| matches!(column.family, ColumnFamily::Gaussian | ColumnFamily::Count);
        let n_numbers = columns.iter().filter(|column| is_number(column)).count();
        let (mut numbers, mut codes) = (Vec::new(), Vec::new());
        for (i, row) in prepared.chunks_exact(d).enumerate() {
            for (j, column) in columns.iter().enumerate() {
                let cell = data.cell(i, j) as f32;
                match (is_number(column), column.is_observed(cell)) {
                    (true, true) => numbers.push(row[column.input as usize]),
                    (true, false) => numbers.push(f32::NAN),
                    (false, true) => codes.push(cell as u32),
                    (false, false) => codes.push(MISSING),
                }
            }
        }
        Ok(Self { n_rows, n_numbers, numbers, n_categories: columns.len() - n_numbers, codes })
    }

    pub(crate) fn row(&self, i: usize) -> MixedRow<'_> {
        MixedRow {
            numbers: &self.numbers[i * self.n_numbers..(i + 1) * self.n_numbers],
            codes: &self.codes[i * self.n_categories..(i + 1) * self.n_categories],
        }
    }

    /// The chosen rows, in this order.
    pub(crate) fn selected(&self, rows: &[usize]) -> Self {
        Self {
            n_rows: rows.len(),
            numbers: rows.iter().flat_map(|&i| self.row(i).numbers).copied().collect(),
            codes: rows.iter().flat_map(|&i| self.row(i).codes).copied().collect(),
            ..*self
        }
    }
}
