//! Preparation of tables whose columns have types, and of tables of counts: what the network sees of a row, and the
//! distribution of each of its cells.

use super::dataset::{Dataset, Values};
use super::prepare::{Preparation, PrepareKind};
use super::schema::{Column, ColumnType, Schema};
use crate::compute::{ColumnFamily, ColumnTable, Inputs, Likelihood, TypedColumn};
use crate::{Error, Hint, Result};

impl Preparation {
    /// Standardises numbers over their observed cells, and lays out the network's inputs and outputs.
    pub(crate) fn fit_typed(data: &Dataset, schema: &Schema) -> Self {
        let moments = Moments::of(data, &schema.columns);
        let mut layout = Layout::default();
        let mut columns: Vec<TypedColumn> = schema
            .columns
            .iter()
            .zip(&moments)
            .map(|(column, moments)| layout.push(column.kind, column.levels.len(), moments))
            .collect();
        // After the values, so that these are the first inputs.
        for (column, _) in columns.iter_mut().zip(&moments).filter(|(_, moments)| moments.n_missing > 0) {
            column.gap = Some(layout.inputs);
            layout.inputs += 1;
        }
        let is_scaled: Vec<bool> =
            columns.iter().map(|column| column.family == ColumnFamily::Gaussian).collect();
        let scaled = |value: fn(&Moments) -> f64, otherwise: f32| {
            let each = is_scaled.iter().zip(&moments);
            each.map(|(&is_scaled, moments)| if is_scaled { value(moments) as f32 } else { otherwise })
                .collect()
        };
        Self {
            kind: PrepareKind::Typed,
            n_columns: data.n_columns(),
            row_norm: None,
            shift: scaled(|moments| moments.mean, 0.0),
            scale: scaled(Moments::inverse_deviation, 1.0),
            log: schema.columns.iter().map(|column| column.kind == ColumnType::Positive).collect(),
            columns,
            row_sum: None,
        }
    }

    /// Rows of counts: the network sees them scaled to the median sum, on a logarithmic scale.
    pub(super) fn fit_counts(data: &Dataset) -> Result<Self> {
        let (low, _) = data.range();
        if low < 0.0 || !data.is_whole() {
            let problem = if low < 0.0 {
                format!("the smallest value is {low}")
            } else {
                "there are values with fractions".into()
            };
            return Err(Error::data(
                data.source(),
                format!("{problem}, but counts are whole numbers of at least zero"),
            )
            .with_hint(Hint::new("use another ").setting("likelihood").text(", or give the raw counts")));
        }
        let mut sums = row_sums(data);
        sums.sort_unstable_by(f64::total_cmp);
        let median = sums[sums.len() / 2].max(1.0);
        Ok(Self {
            kind: PrepareKind::Counts,
            n_columns: data.n_columns(),
            row_norm: None,
            shift: Vec::new(),
            scale: vec![1.0],
            log: Vec::new(),
            columns: Vec::new(),
            row_sum: Some(median as f32),
        })
    }

    /// The columns of p(x|z), if it has trained scales.
    pub(crate) fn column_table(&self, likelihood: Likelihood) -> Option<ColumnTable<'_>> {
        match likelihood {
            Likelihood::Typed { .. } => Some(ColumnTable::Typed(&self.columns)),
            Likelihood::Counts => Some(ColumnTable::Counts { n_columns: self.n_columns }),
            _ => None,
        }
    }

    /// The columns with their types; empty if the table has none.
    pub fn columns(&self) -> &[TypedColumn] {
        &self.columns
    }

    /// Whether the columns have types, and all of them are numbers without gaps: the network's inputs are then the cells.
    pub(crate) fn is_all_gaussian(&self) -> bool {
        let is_plain = |c: &TypedColumn| c.family == ColumnFamily::Gaussian && c.gap.is_none();
        !self.columns.is_empty() && self.columns.iter().all(is_plain)
    }

    /// The sum that rows of counts are scaled to; one for other tables.
    pub fn row_sum(&self) -> f32 {
        self.row_sum.unwrap_or(1.0)
    }

    /// What the network sees of a prepared row.
    pub(super) fn inputs(&self) -> Inputs<'_> {
        match (self.kind, self.row_sum) {
            (PrepareKind::Typed, _) => Inputs::Typed(&self.columns),
            (_, Some(row_sum)) => Inputs::Counts { row_sum },
            _ => Inputs::Values,
        }
    }

    /// Inputs of the network.
    pub fn n_inputs(&self) -> usize {
        self.inputs().n_inputs(self.n_columns)
    }

    /// Columns of a row for distances: the network's inputs, without those that tell where cells are missing.
    pub fn n_distance_columns(&self) -> usize {
        self.n_inputs() - self.columns.iter().filter(|column| column.gap.is_some()).count()
    }

    /// Writes row `i` as the network sees it into `out`, of length [`Preparation::n_distance_columns`], for methods without a
    /// network. Missing cells are zero, which is the mean of a number.
    pub fn input_row_into(&self, data: &Dataset, i: usize, out: &mut [f32]) {
        if self.inputs() == Inputs::Values {
            return self.prepared_row_into(data, i, out);
        }
        let mut cells = vec![0.0; self.n_columns];
        self.prepared_row_into(data, i, &mut cells);
        let mut input = vec![0.0; self.n_inputs()];
        self.inputs().write(&cells, &mut input);
        out.copy_from_slice(&input[..out.len()]);
    }

    /// [`Preparation::input_row_into`] for distances between rows: levels are scaled so that the squared distance of two different
    /// ones is one, as it is for yes and no.
    pub(crate) fn distance_row_into(&self, data: &Dataset, i: usize, out: &mut [f32]) {
        self.input_row_into(data, i, out);
        for column in self.columns.iter().filter(|column| column.n_inputs() > 1) {
            let levels = &mut out[column.input as usize..][..column.n_inputs()];
            levels.iter_mut().for_each(|x| *x *= std::f32::consts::FRAC_1_SQRT_2);
        }
    }

    /// An imputed value of column `j` as a cell of the table: counts are whole, and yes/no is one or the other.
    pub(crate) fn cell(&self, j: usize, value: f32) -> f64 {
        match self.columns.get(j).map(|column| column.family) {
            Some(ColumnFamily::Bernoulli) => f64::from(u8::from(value >= 0.5)),
            Some(ColumnFamily::Count) => f64::from(value.round().max(0.0)),
            _ => f64::from(value),
        }
    }
}

/// Whether the moments are those of log1p.
fn takes_log(kind: ColumnType) -> bool {
    matches!(kind, ColumnType::Positive | ColumnType::Count)
}

/// Mean and variance of the observed cells of a column, on the scale that the network sees.
struct Moments {
    mean: f64,
    variance: f64,
    n_missing: usize,
}

impl Moments {
    fn of(data: &Dataset, columns: &[Column]) -> Vec<Self> {
        let zero: f64 = [0.0; 0].iter().sum();
        let new = |column: &Column| Adding { is_log: takes_log(column.kind), n: 0, mean: 0.0, sum: zero };
        let mut states: Vec<Adding> = columns.iter().map(new).collect();
        data.fold_columns(&mut states, |state, x| state.add(x, |_, x| x));
        for state in &mut states {
            state.mean = state.sum / state.n.max(1) as f64;
            (state.sum, state.n) = (zero, 0);
        }
        data.fold_columns(&mut states, |state, x| state.add(x, |mean, x| (x - mean).powi(2)));
        let of = |state: &Adding| Self {
            mean: state.mean,
            variance: state.sum / state.n.max(1) as f64,
            n_missing: data.n_rows() - state.n,
        };
        states.iter().map(of).collect()
    }

    fn inverse_deviation(&self) -> f64 {
        // Rounding leaves a constant column with a deviation of about 1e-16 of its mean.
        let deviation = self.variance.sqrt();
        let inverse = 1.0 / deviation;
        let is_constant = deviation <= 1e-12 * self.mean.abs();
        if is_constant || !(inverse as f32).is_finite() { 0.0 } else { inverse }
    }
}

/// A sum over the observed cells of a column.
struct Adding {
    is_log: bool,
    n: usize,
    mean: f64,
    sum: f64,
}

impl Adding {
    fn add(&mut self, x: f64, of: impl Fn(f64, f64) -> f64) {
        if !x.is_nan() {
            let x = if self.is_log { x.max(0.0).ln_1p() } else { x };
            self.sum += of(self.mean, x);
            self.n += 1;
        }
    }
}

/// Where the next column's inputs, outputs and scale begin.
#[derive(Default)]
struct Layout {
    inputs: u32,
    outputs: u32,
    scales: u32,
}

impl Layout {
    fn push(&mut self, kind: ColumnType, n_levels: usize, moments: &Moments) -> TypedColumn {
        let family = match kind {
            ColumnType::Count => ColumnFamily::Count,
            ColumnType::YesNo => ColumnFamily::Bernoulli,
            ColumnType::Category => ColumnFamily::Categorical { levels: n_levels.max(1) as u32 },
            _ => ColumnFamily::Gaussian,
        };
        let has_scale = matches!(family, ColumnFamily::Gaussian | ColumnFamily::Count);
        let is_count = family == ColumnFamily::Count;
        let factor = if is_count { moments.inverse_deviation().clamp(1e-3, 1e3) as f32 } else { 1.0 };
        let column = TypedColumn {
            family,
            input: self.inputs,
            output: self.outputs,
            scale: has_scale.then_some(self.scales),
            gap: None,
            shift: if is_count { moments.mean as f32 } else { 0.0 },
            factor,
            weight: 1.0,
        };
        self.inputs += column.n_inputs() as u32;
        self.outputs += column.n_outputs() as u32;
        self.scales += u32::from(has_scale);
        column
    }
}

/// The sum of each row.
fn row_sums(data: &Dataset) -> Vec<f64> {
    let sum = |values: &[f32]| values.iter().map(|&x| f64::from(x)).sum();
    if let Values::Csr(csr) = data.values() {
        return (0..csr.n_rows()).map(|i| sum(csr.row(i).1)).collect();
    }
    let mut row = vec![0.0; data.n_columns()];
    (0..data.n_rows())
        .map(|i| {
            data.row_into(i, &mut row);
            sum(&row)
        })
        .collect()
}
