//! Preparation: the scaling between the data and the network, stored in the model.
//!
//! Every kind of preparation is the same formula, `x' = (x * row_factor - shift_j) * scale_j`, so that new rows, sparse
//! rows and other devices need only one implementation.

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::dataset::{Dataset, Values};
use crate::compute::{ColumnTable, Scaling, TypedColumn};
use crate::memory::{Need, product, require};
use crate::{Error, Hint, Result};

/// How to scale the data for the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PrepareKind {
    /// Use the numbers unchanged.
    None,
    /// Scale the whole table to `[0, 1]` with one shift and one scale; bytes that are grey levels are divided by 255.
    #[serde(rename = "unit")]
    UnitRange,
    /// Scale every column to mean 0 and standard deviation 1; sparse rows are scaled but not shifted, because a shift
    /// would fill in every absent entry.
    Standardise,
    /// Scale each row to length `sqrt(D)`, so that its mean square is 1.
    RowNorm,
    /// Every column by its type; not typed by users, but chosen for tables whose columns have types.
    Typed,
    /// Rows of counts, for the likelihood `counts`.
    Counts,
}

impl PrepareKind {
    /// All kinds that users can ask for, in the order of the help text.
    pub const ALL: [PrepareKind; 4] =
        [PrepareKind::None, PrepareKind::UnitRange, PrepareKind::Standardise, PrepareKind::RowNorm];

    /// The name that users type.
    pub fn name(self) -> &'static str {
        match self {
            PrepareKind::None => "none",
            PrepareKind::UnitRange => "unit",
            PrepareKind::Standardise => "standardise",
            PrepareKind::RowNorm => "row-norm",
            PrepareKind::Typed => "typed",
            PrepareKind::Counts => "counts",
        }
    }
}

impl fmt::Display for PrepareKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PrepareKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            Error::setting("prepare", text, "must be one of none, unit, standardise, row-norm")
        })
    }
}

/// A fitted scaling of the data: `x' = (x * row_factor - shift_j) * scale_j`, with log1p before the shift in some columns of
/// a typed table.
///
/// `row_factor` is `row_norm / ||x||` if rows are normalised (rows of zeros stay zero), otherwise 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Preparation {
    pub(super) kind: PrepareKind,
    pub(super) n_columns: usize,
    pub(super) row_norm: Option<f32>,
    pub(super) shift: Vec<f32>,
    pub(super) scale: Vec<f32>,
    /// Whether log1p is taken before the shift: empty, or one value per column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) log: Vec<bool>,
    /// The columns of a table whose columns have types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) columns: Vec<TypedColumn>,
    /// The median sum of rows of counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) row_sum: Option<f32>,
}

/// A preparation as stored in a file, before its lengths are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    kind: PrepareKind,
    n_columns: usize,
    row_norm: Option<f32>,
    shift: Vec<f32>,
    scale: Vec<f32>,
    #[serde(default)]
    log: Vec<bool>,
    #[serde(default)]
    columns: Vec<TypedColumn>,
    #[serde(default)]
    row_sum: Option<f32>,
}

impl TryFrom<Unchecked> for Preparation {
    type Error = String;

    fn try_from(u: Unchecked) -> std::result::Result<Self, String> {
        let lengths_fit = (u.shift.is_empty() || u.shift.len() == u.n_columns)
            && (u.scale.len() == 1 || u.scale.len() == u.n_columns)
            && (u.log.is_empty() || u.log.len() == u.n_columns);
        if !lengths_fit {
            return Err(format!(
                "preparation of {} columns has {} shifts and {} scales",
                u.n_columns,
                u.shift.len(),
                u.scale.len()
            ));
        }
        if u.shift.iter().chain(&u.scale).chain(&u.row_norm).chain(&u.row_sum).any(|x| !x.is_finite()) {
            return Err("preparation has a shift or scale that is not a finite number".into());
        }
        let is_typed = u.kind == PrepareKind::Typed;
        if (u.columns.len() != if is_typed { u.n_columns } else { 0 })
            || !ColumnTable::Typed(&u.columns).is_valid()
            || (u.kind == PrepareKind::Counts) != u.row_sum.is_some_and(|sum| sum > 0.0)
        {
            return Err("the types of its columns do not fit together".into());
        }
        Ok(Self {
            kind: u.kind,
            n_columns: u.n_columns,
            row_norm: u.row_norm,
            shift: u.shift,
            scale: u.scale,
            log: u.log,
            columns: u.columns,
            row_sum: u.row_sum,
        })
    }
}

impl Preparation {
    /// Computes shift and scale from `data`.
    pub fn fit(kind: PrepareKind, data: &Dataset) -> Result<Self> {
        let n_columns = data.n_columns();
        require_columns(data)?;
        let (shift, scale) = match kind {
            PrepareKind::None | PrepareKind::RowNorm => (Vec::new(), vec![1.0]),
            PrepareKind::UnitRange => unit_range(data)?,
            PrepareKind::Standardise => standardise(data)?,
            PrepareKind::Counts => return Self::fit_counts(data),
            PrepareKind::Typed => {
                let must = "but the columns of this table have no types";
                let schema =
                    data.typed_schema(false)?.ok_or_else(|| Error::setting("prepare", kind, must))?;
                return Ok(Self::fit_typed(data, &schema));
            }
        };
        let row_norm = (kind == PrepareKind::RowNorm).then(|| (n_columns as f32).sqrt());
        let (log, columns, row_sum) = (Vec::new(), Vec::new(), None);
        Ok(Self { kind, n_columns, row_norm, shift, scale, log, columns, row_sum })
    }

    /// The kind of preparation.
    pub fn kind(&self) -> PrepareKind {
        self.kind
    }

    /// Number of columns, D.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// The length that every row is scaled to, if rows are normalised.
    pub fn row_norm(&self) -> Option<f32> {
        self.row_norm
    }

    /// The shift: empty, or one number per column.
    pub fn shift(&self) -> &[f32] {
        &self.shift
    }

    /// The scale, applied after the shift: one number, or one per column.
    pub fn scale(&self) -> &[f32] {
        &self.scale
    }

    /// Whether log1p is taken before the shift: empty, or one value per column.
    pub fn log(&self) -> &[bool] {
        &self.log
    }

    /// Returns an error unless `data` has as many columns as this preparation.
    pub fn check_columns(&self, data: &Dataset) -> Result<()> {
        if data.n_columns() == self.n_columns {
            return Ok(());
        }
        Err(Error::data(
            data.source(),
            format!("the table has {} columns, the model was fitted on {}", data.n_columns(), self.n_columns),
        )
        .with_hint("give a table with the same columns in the same order as in `fit`"))
    }

    /// Writes the prepared row `i` of `data` into `out`, of length D.
    #[inline]
    pub fn prepared_row_into(&self, data: &Dataset, i: usize, out: &mut [f32]) {
        data.view(self).row_into(i, out);
    }

    /// The formula in the form that a device applies.
    pub(super) fn scaling(&self) -> Scaling<'_> {
        Scaling { row_norm: self.row_norm, log: &self.log, shift: &self.shift, scale: &self.scale }
    }

    /// Converts a prepared row (such as a generated one) back to the units of the data.
    ///
    /// The original norm of a row is lost in preparation and cannot be restored.
    pub fn undo(&self, row: &mut [f32]) {
        for (j, x) in row.iter_mut().enumerate() {
            let scale = if self.scale.len() == 1 { self.scale[0] } else { self.scale[j] };
            let shift = self.shift.get(j).copied().unwrap_or(0.0);
            // A constant column has scale 0 and is restored as its constant.
            *x = if scale == 0.0 { shift } else { *x / scale + shift };
            if self.log.get(j).copied().unwrap_or(false) {
                *x = x.exp_m1().max(0.0);
            }
        }
    }

    /// The mean of a cell of column `j` in the units of the data, whose prepared value has this mean and, if it is Gaussian, this
    /// variance: the logarithm of an amount has its mean above the exponential of the logarithm's.
    pub(crate) fn undo_mean(&self, j: usize, mean: f64, variance: f64) -> f64 {
        let scale = f64::from(if self.scale.len() == 1 { self.scale[0] } else { self.scale[j] });
        let shift = f64::from(self.shift.get(j).copied().unwrap_or(0.0));
        if scale == 0.0 {
            return shift;
        }
        let value = mean / scale + shift;
        if self.log.get(j).copied().unwrap_or(false) {
            (value + 0.5 * variance / (scale * scale)).exp_m1().max(0.0)
        } else {
            value
        }
    }

    /// Smallest and largest value of `data` after preparation.
    pub fn prepared_range(&self, data: &Dataset) -> (f32, f32) {
        let merge = |a: (f32, f32), b: (f32, f32)| (a.0.min(b.0), a.1.max(b.1));
        let nothing = (f32::INFINITY, f32::NEG_INFINITY);
        let of_row = |out: &mut Vec<f32>, i: usize| match data.values() {
            Values::Csr(csr) if self.shift.is_empty() => {
                let (columns, values) = csr.row(i);
                let factor = self.scaling().row_factor(values);
                let absent = if columns.len() < data.n_columns() { (0.0, 0.0) } else { nothing };
                columns.iter().zip(values).fold(absent, |range, (&c, &x)| {
                    let x = self.scaling().entry(c, x, factor);
                    merge(range, (x, x))
                })
            }
            _ => {
                out.resize(data.n_columns(), 0.0);
                self.prepared_row_into(data, i, out);
                out.iter().fold(nothing, |range, &x| merge(range, (x, x)))
            }
        };
        (0..data.n_rows())
            .into_par_iter()
            .with_min_len(256)
            .map_init(Vec::new, of_row)
            .reduce(|| nothing, merge)
    }
}

/// Bytes per column to compute the statistics of a table: sums, squares and counts in double precision, a row, a shift
/// and a scale.
const COLUMN_BYTES: usize = 4 * size_of::<f64>() + 3 * size_of::<f32>();

/// Returns an error if the memory cannot hold the statistics of all columns; sparse files may claim any number.
pub(crate) fn require_columns(data: &Dataset) -> Result<()> {
    let need = Need::of("", product(&[data.n_columns(), COLUMN_BYTES]));
    let what = format!("preparing the {} columns of `{}`", data.n_columns(), data.source());
    require(&what, &need, "give a table with fewer columns")
}

/// A byte table whose maximum exceeds this has grey levels; otherwise counts or marks, like other integers.
const MIN_GREY_LEVEL: f64 = 127.0;

/// Shift and scale of the whole table to `[0, 1]`.
fn unit_range(data: &Dataset) -> Result<(Vec<f32>, Vec<f32>)> {
    // Values reach the network as f32, so the range is computed in f32 and the result stays in [0, 1].
    let (low, high) = data.range();
    // Grey levels keep their full range, whatever this table contains: new rows may have other levels.
    if matches!(data.values(), Values::U8(_)) && high > MIN_GREY_LEVEL {
        return Ok((Vec::new(), vec![scale_to_one(255.0)]));
    }
    let (low, high) = (low as f32, high as f32);
    let advise =
        || Hint::new("use ").setting_to("prepare", "row-norm").text(" or ").setting_to("prepare", "none");
    if low == high || !(high - low).is_finite() || high - low < f32::MIN_POSITIVE {
        return Err(Error::data(
            data.source(),
            format!("values from {low} to {high} cannot be scaled to [0, 1]"),
        )
        .with_hint(if low == high {
            Hint::from("a table with a single value has no clusters")
        } else {
            advise()
        }));
    }
    if low == 0.0 {
        return Ok((Vec::new(), vec![scale_to_one(high)]));
    }
    if matches!(data.values(), Values::Csr(_)) {
        return Err(Error::data(
            data.source(),
            format!("the smallest value of these sparse rows is {low}; scaling to [0, 1] would fill in every absent entry"),
        )
        .with_hint(advise()));
    }
    Ok((vec![low; data.n_columns()], vec![scale_to_one(high - low)]))
}

/// The largest scale that maps `width` to at most 1 after rounding.
fn scale_to_one(width: f32) -> f32 {
    let mut scale = 1.0 / width;
    while width * scale > 1.0 {
        scale = scale.next_down();
    }
    scale
}

/// Mean (dense data only) and inverse standard deviation of every column.
fn standardise(data: &Dataset) -> Result<(Vec<f32>, Vec<f32>)> {
    let n = data.n_rows() as f64;
    let mut mean = vec![0.0f64; data.n_columns()];
    for_each_entry(data, |j, x| mean[j] += x);
    for m in &mut mean {
        *m /= n;
    }
    let mut square = vec![0.0f64; data.n_columns()];
    let mut stored = vec![0usize; data.n_columns()];
    for_each_entry(data, |j, x| {
        square[j] += (x - mean[j]).powi(2);
        stored[j] += 1;
    });
    let inverse_std = |j: usize| {
        let absent = n - stored[j] as f64;
        let std = ((square[j] + absent * mean[j] * mean[j]) / n).sqrt();
        // Rounding leaves a constant column with a standard deviation of about 1e-16 of its mean.
        let constant = std <= 1e-12 * mean[j].abs();
        let scale = (1.0 / std) as f32;
        if constant || !scale.is_finite() { 0.0 } else { scale }
    };
    let scale: Vec<f32> = (0..data.n_columns()).map(inverse_std).collect();
    if scale.iter().all(|&s| s == 0.0) {
        return Err(Error::data(data.source(), "every column is constant: there is nothing to cluster")
            .with_hint("check that the right array or columns were read"));
    }
    let is_sparse = matches!(data.values(), Values::Csr(_));
    let shift = if is_sparse { Vec::new() } else { mean.iter().map(|&m| m as f32).collect() };
    Ok((shift, scale))
}

/// Calls `visit(column, value)` for every stored value, row by row.
fn for_each_entry(data: &Dataset, mut visit: impl FnMut(usize, f64)) {
    if let Values::Csr(csr) = data.values() {
        for i in 0..csr.n_rows() {
            let (columns, values) = csr.row(i);
            columns.iter().zip(values).for_each(|(&c, &x)| visit(c as usize, f64::from(x)));
        }
        return;
    }
    let mut row = vec![0.0; data.n_columns()];
    for i in 0..data.n_rows() {
        data.row_into(i, &mut row);
        row.iter().enumerate().for_each(|(j, &x)| visit(j, f64::from(x)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::csr::Csr;
    use super::*;

    fn table(d: usize, values: &[f32]) -> Dataset<'static> {
        Dataset::from_rows(values.len() / d, d, values.to_vec()).unwrap()
    }

    fn sparse(values: [f32; 3]) -> Dataset<'static> {
        let csr = Csr::new(vec![0, 2, 2, 3], vec![0, 2, 1], values.to_vec(), 3).unwrap();
        Dataset::new(3, 3, Values::Csr(csr), "sparse").unwrap()
    }

    fn row(p: &Preparation, data: &Dataset, i: usize) -> Vec<f32> {
        let mut out = vec![0.0; data.n_columns()];
        p.prepared_row_into(data, i, &mut out);
        out
    }

    #[test]
    fn every_byte_is_scaled_into_the_unit_range() {
        let data = Dataset::new(1, 256, Values::U8((0..=255).collect::<Vec<u8>>().into()), "bytes").unwrap();
        let p = Preparation::fit(PrepareKind::UnitRange, &data).unwrap();
        assert_eq!(p.prepared_range(&data), (0.0, 1.0));
        assert!(row(&p, &data, 0).iter().enumerate().all(|(i, x)| (x - i as f32 / 255.0).abs() < 1e-7));
    }

    /// Counts are scaled like the same numbers of any other type, grey levels by their full range.
    #[test]
    fn bytes_are_scaled_as_grey_levels_or_as_counts() {
        for (largest, wanted) in [(16, 1.0), (128, 128.0 / 255.0)] {
            let data = Dataset::new(1, 3, Values::U8(vec![0, largest / 2, largest].into()), "bytes").unwrap();
            let p = Preparation::fit(PrepareKind::UnitRange, &data).unwrap();
            assert_eq!(row(&p, &data, 0), [0.0, wanted / 2.0, wanted]);
        }
    }

    #[test]
    fn unit_range_is_never_exceeded() {
        let data = table(2, &[-3.1, 0.7, 1e-3, 9.9, 123.456, 7.0]);
        let p = Preparation::fit(PrepareKind::UnitRange, &data).unwrap();
        let (low, high) = p.prepared_range(&data);
        assert!(low == 0.0 && high <= 1.0 && high > 0.999_999, "{low} {high}");
        let mut back = row(&p, &data, 1);
        p.undo(&mut back);
        assert!((back[0] - 1e-3).abs() < 1e-5 && (back[1] - 9.9).abs() < 1e-5, "{back:?}");
        let constant = Preparation::fit(PrepareKind::UnitRange, &table(2, &[5.0; 4])).unwrap_err();
        assert!(constant.to_string().contains("values from 5 to 5"), "{constant}");
    }

    #[test]
    fn standardise_gives_mean_zero_and_deviation_one() {
        let data = table(3, &[1.0, 7.0, 1e6, 3.0, 7.0, 1e6 + 4.0]);
        let p = Preparation::fit(PrepareKind::Standardise, &data).unwrap();
        assert_eq!(row(&p, &data, 0), [-1.0, 0.0, -1.0]);
        assert_eq!(row(&p, &data, 1), [1.0, 0.0, 1.0]);
        let mut back = row(&p, &data, 1);
        p.undo(&mut back);
        assert_eq!(back, [3.0, 7.0, 1e6 + 4.0]);
        assert!(Preparation::fit(PrepareKind::Standardise, &table(2, &[0.1; 6])).is_err());
    }

    #[test]
    fn sparse_rows_agree_with_their_dense_form_and_stay_sparse() {
        let data = sparse([3.0, 4.0, 2.0]);
        let Values::Csr(csr) = data.values() else { unreachable!() };
        for kind in PrepareKind::ALL {
            let p = Preparation::fit(kind, &data).unwrap();
            for i in 0..3 {
                let mut out = vec![0.0; 3];
                let factor = p.scaling().row_factor(csr.row(i).1);
                let (columns, values) = csr.row(i);
                columns
                    .iter()
                    .zip(values)
                    .for_each(|(&c, &x)| out[c as usize] = p.scaling().entry(c, x, factor));
                assert_eq!(out, row(&p, &data, i), "{kind} row {i}");
            }
        }
        // Column 0 holds 3, 0, 0: standard deviation sqrt(2).
        let p = Preparation::fit(PrepareKind::Standardise, &data).unwrap();
        assert!((p.scale()[0] - 1.0 / 2f32.sqrt()).abs() < 1e-6);
        let negative = Preparation::fit(PrepareKind::UnitRange, &sparse([-1.0, 4.0, 2.0])).unwrap_err();
        assert!(negative.to_string().contains("smallest value of these sparse rows is -1"), "{negative}");
        assert!(negative.hint().unwrap().to_string().contains("row-norm"));
    }

    #[test]
    fn row_norm_gives_unit_mean_square_and_leaves_zero_rows() {
        let data = sparse([3.0, 4.0, 2.0]);
        let p = Preparation::fit(PrepareKind::RowNorm, &data).unwrap();
        let first = row(&p, &data, 0);
        assert!((first.iter().map(|x| x * x).sum::<f32>() - 3.0).abs() < 1e-5);
        assert_eq!(row(&p, &data, 1), [0.0; 3]);
    }

    #[test]
    fn another_number_of_columns_is_an_error_with_both_numbers() {
        let p = Preparation::fit(PrepareKind::None, &table(2, &[1.0; 4])).unwrap();
        let error = p.check_columns(&table(3, &[1.0; 6])).unwrap_err().to_string();
        assert!(error.contains("has 3 columns, the model was fitted on 2"), "{error}");
    }

    #[test]
    fn a_stored_preparation_is_checked_when_it_is_read() {
        let p = Preparation::fit(PrepareKind::UnitRange, &table(2, &[1.0, 2.0, 3.0, 5.0])).unwrap();
        let text = serde_json::to_string(&p).unwrap();
        assert!(text.contains("\"kind\":\"unit\""), "{text}");
        assert_eq!(serde_json::from_str::<Preparation>(&text).unwrap(), p);
        assert!(
            serde_json::from_str::<Preparation>(&text.replace("\"n_columns\":2", "\"n_columns\":3")).is_err()
        );
        assert!(serde_json::from_str::<Preparation>(&text.replace("\"kind\"", "\"x\":1,\"kind\"")).is_err());
        for kind in PrepareKind::ALL {
            assert_eq!(kind.name().parse::<PrepareKind>().unwrap(), kind);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
        assert!("stretch".parse::<PrepareKind>().is_err());
    }
}
