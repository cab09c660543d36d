//! Checks and statistics of whole tables: finiteness, range, checksum.

use rayon::prelude::*;
use xxhash_rust::xxh3::Xxh3;

use super::dataset::{Dataset, Values, column_in_words};
use crate::{Error, Result};

impl Dataset<'_> {
    /// Smallest and largest value; absent entries of sparse rows count as zero.
    pub fn range(&self) -> (f64, f64) {
        fn of(values: impl Iterator<Item = f64>) -> (f64, f64) {
            values
                .filter(|x| !x.is_nan())
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
        }
        match self.values() {
            Values::U8(v) => of(v.iter().map(|&x| f64::from(x))),
            Values::F16(v) => of(v.iter().map(|&x| x.to_f64())),
            Values::F32(v) => of(v.iter().map(|&x| f64::from(x))),
            Values::F64(v) => of(v.iter().copied()),
            Values::Csr(csr) => {
                let (low, high) = of(csr.values().iter().map(|&x| f64::from(x)));
                let full = csr.n_entries() == self.n_rows() * self.n_columns();
                if full { (low, high) } else { (low.min(0.0), high.max(0.0)) }
            }
        }
    }

    /// Whether every value is a whole number.
    pub fn is_whole(&self) -> bool {
        match self.values() {
            Values::U8(_) => true,
            Values::F16(v) => v.iter().all(|x| x.to_f32().fract() == 0.0),
            Values::F32(v) => v.iter().all(|x| x.fract() == 0.0),
            Values::F64(v) => v.iter().all(|x| x.fract() == 0.0),
            Values::Csr(csr) => csr.values().iter().all(|x| x.fract() == 0.0),
        }
    }

    /// Standard deviation of each column, `[D]`.
    pub fn column_deviations(&self) -> Vec<f64> {
        let (n, d) = (self.n_rows() as f64, self.n_columns());
        let (mut sums, mut squares) = (vec![0.0f64; d], vec![0.0f64; d]);
        let mut add = |column: usize, x: f32| {
            sums[column] += f64::from(x);
            squares[column] += f64::from(x) * f64::from(x);
        };
        let mut row = vec![0.0f32; d];
        for i in 0..self.n_rows() {
            if let Values::Csr(csr) = self.values() {
                let (columns, values) = csr.row(i);
                columns.iter().zip(values).for_each(|(&column, &x)| add(column as usize, x));
            } else {
                self.row_into(i, &mut row);
                row.iter().enumerate().for_each(|(column, &x)| add(column, x));
            }
        }
        let deviation = |(sum, square): (&f64, &f64)| (square / n - (sum / n).powi(2)).max(0.0).sqrt();
        sums.iter().zip(&squares).map(deviation).collect()
    }

    /// Adds the cells of each column to its state, in the order of the rows; NaN where missing. Columns are worked on in
    /// parallel, a block of rows after the other, so that a large table is read once and not once per column.
    pub(super) fn fold_columns<S: Send>(&self, states: &mut [S], add: impl Fn(&mut S, f64) + Sync) {
        const BLOCK: usize = 1 << 12;
        for first in (0..self.n_rows()).step_by(BLOCK) {
            let rows = first..(first + BLOCK).min(self.n_rows());
            states.par_iter_mut().enumerate().for_each(|(j, state)| {
                rows.clone().for_each(|i| add(state, self.cell(i, j)));
            });
        }
    }

    /// A checksum of shape and values, which tells whether a checkpoint belongs to this table.
    pub fn checksum(&self) -> String {
        let mut hash = Xxh3::new();
        hash.update(&(self.n_rows() as u64).to_le_bytes());
        hash.update(&(self.n_columns() as u64).to_le_bytes());
        match self.values() {
            Values::U8(v) => hash.update(v),
            Values::F16(v) => hash.update(bytemuck::cast_slice(v)),
            Values::F32(v) => hash.update(bytemuck::cast_slice(v)),
            Values::F64(v) => hash.update(bytemuck::cast_slice(v)),
            Values::Csr(csr) => {
                for i in 0..csr.n_rows() {
                    let (columns, values) = csr.row(i);
                    hash.update(&(columns.len() as u64).to_le_bytes());
                    hash.update(bytemuck::cast_slice(columns));
                    hash.update(bytemuck::cast_slice(values));
                }
            }
        }
        if let Some(schema) = self.schema() {
            // Cells are indices of levels, and mean something else with other levels.
            hash.update(&serde_json::to_vec(&**schema).unwrap_or_default());
        }
        format!("xxh3-128:{:032x}", hash.digest128())
    }

    /// Whether cells are missing (NaN).
    pub(super) fn has_missing_cells(&self) -> bool {
        match self.values() {
            Values::U8(_) | Values::Csr(_) => false,
            Values::F16(v) => v.iter().any(|x| x.is_nan()),
            Values::F32(v) => v.iter().any(|x| x.is_nan()),
            Values::F64(v) => v.iter().any(|x| x.is_nan()),
        }
    }

    /// The rows in which every cell is missing.
    pub(super) fn rows_without_cells(&self) -> Vec<usize> {
        if self.schema().is_none() {
            return Vec::new();
        }
        let n_source = self.n_source_columns();
        let is_empty = |&i: &usize| (0..n_source).all(|j| self.cell(i, j).is_nan());
        (0..self.n_rows()).filter(is_empty).collect()
    }

    /// Returns an error if cells are missing, for models that cannot deal with it: how many, and where the first one is.
    pub fn check_complete(&self) -> Result<()> {
        let bad = match self.values() {
            Values::F16(v) => first_bad(v.iter().map(|x| x.to_f64())),
            Values::F32(v) => first_bad(v.iter().map(|&x| f64::from(x))),
            Values::F64(v) => first_bad(v.iter().copied()),
            Values::U8(_) | Values::Csr(_) => None,
        };
        self.refuse(bad)
    }

    /// Returns an error if there are infinite numbers, or NaN in sparse rows: how many, and where the first one is.
    pub(super) fn check_finite(&self) -> Result<()> {
        // Missing cells are NaN.
        let or_missing = |x: f64| if x.is_nan() { 0.0 } else { x };
        self.refuse(match self.values() {
            Values::U8(_) => None,
            Values::F16(v) => first_bad(v.iter().map(|x| or_missing(x.to_f64()))),
            Values::F32(v) => first_bad(v.iter().map(|&x| or_missing(f64::from(x)))),
            // A double beyond the range of `f32` would become infinite in a batch.
            Values::F64(v) => first_bad(v.iter().map(|&x| or_missing(f64::from(x as f32)))),
            Values::Csr(csr) => first_bad(csr.values().iter().map(|&x| f64::from(x))),
        })
    }

    fn refuse(&self, bad: Option<(usize, f64, usize)>) -> Result<()> {
        let d = self.n_columns();
        let Some((first, value, count)) = bad else { return Ok(()) };
        let (row, column) = match self.values() {
            Values::Csr(csr) => csr.position_of_entry(first),
            _ => (first / d, first % d),
        };
        let (row, column) = (self.row_number(row), column_in_words(self.column_names(), column));
        Err(Error::data(
            self.source(),
            format!(
                "{count} values are not finite numbers; the first is {value} in row {row}, column {column}"
            ),
        )
        .with_hint("remove those rows or fill in the values first"))
    }
}

/// Index and value of the first value that is not finite, and how many there are.
fn first_bad(values: impl Iterator<Item = f64>) -> Option<(usize, f64, usize)> {
    let mut found = None;
    let mut count = 0;
    for (i, x) in values.enumerate() {
        if !x.is_finite() {
            count += 1;
            found.get_or_insert((i, x));
        }
    }
    found.map(|(i, x)| (i, x, count))
}
