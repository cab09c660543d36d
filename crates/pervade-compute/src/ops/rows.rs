//! The data set on a device, and batches of its rows.

use half::f16;

use crate::math::{double, ln_1p};
use crate::ops::density;
use crate::random::Key;
use crate::{Activation, AdamStep, Affine, ColumnTable, Draw, Matrix, Memory, Params, Result, TypedColumn};

/// A view of a table for a device: values of one type, row-major, and their scaling.
#[derive(Clone, Copy, Debug)]
pub struct RowsView<'a> {
    /// The number of rows, N.
    pub n_rows: usize,
    /// The number of columns, D.
    pub n_columns: usize,
    /// The unscaled values.
    pub values: RowValues<'a>,
    /// How they are scaled.
    pub scaling: Scaling<'a>,
    /// What the network sees of a scaled row.
    pub inputs: Inputs<'a>,
}

/// What the encoder sees of a scaled row x.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Inputs<'a> {
    /// The scaled values themselves.
    #[default]
    Values,
    /// An expansion of each column; see [`TypedColumn::write_input`].
    Typed(&'a [TypedColumn]),
    /// log1p(x row_sum / (sum of the row)); sparse rows stay sparse. A row of zeros gives zeros.
    Counts {
        /// The sum that rows are brought to, usually the median of all sums.
        row_sum: f32,
    },
}

impl Inputs<'_> {
    /// Columns of the encoder's input, for a table with D columns.
    pub fn n_inputs(self, n_columns: usize) -> usize {
        match self {
            Inputs::Values | Inputs::Counts { .. } => n_columns,
            Inputs::Typed(columns) => ColumnTable::Typed(columns).n_inputs(),
        }
    }

    /// Writes what the encoder sees of a scaled row.
    #[inline]
    pub fn write(self, x: &[f32], input: &mut [f32]) {
        match self {
            Inputs::Values => input.copy_from_slice(x),
            Inputs::Typed(columns) => {
                columns.iter().zip(x).for_each(|(column, &x)| column.write_input(x, input));
            }
            Inputs::Counts { row_sum } => {
                let factor = count_factor(row_sum, x.iter().copied());
                input.iter_mut().zip(x).for_each(|(to, &x)| *to = ln_1p(x * factor));
            }
        }
    }
}

/// What brings a row of counts (for a sparse row, its entries) to the sum `row_sum`; zero for a row of zeros.
pub(crate) fn count_factor(row_sum: f32, x: impl Iterator<Item = f32>) -> f32 {
    let sum = density::row_sum(x);
    if sum > 0.0 { (f64::from(row_sum) / sum) as f32 } else { 0.0 }
}

/// The values of a table.
#[derive(Clone, Copy, Debug)]
pub enum RowValues<'a> {
    /// Bytes, [N, D].
    U8(&'a [u8]),
    /// Half precision, [N, D].
    F16(&'a [f16]),
    /// Single precision, [N, D].
    F32(&'a [f32]),
    /// Double precision, [N, D]; converted to single precision.
    F64(&'a [f64]),
    /// Sparse rows.
    Csr(Csr<'a>),
}

/// Compressed sparse rows: the entries of row i are `starts[i]..starts[i + 1]`.
#[derive(Clone, Copy, Debug)]
pub struct Csr<'a> {
    /// [N + 1], non-decreasing from zero to the number of entries.
    pub starts: &'a [usize],
    /// The column of each entry, below D and increasing within a row.
    pub columns: &'a [u32],
    /// The value of each entry.
    pub values: &'a [f32],
}

impl<'a> Csr<'a> {
    /// Columns and values of row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> (&'a [u32], &'a [f32]) {
        let entries = self.starts[i]..self.starts[i + 1];
        (&self.columns[entries.clone()], &self.values[entries])
    }
}

/// How values are scaled: `x' = (x * row_factor - shift_j) * scale_j`, or `(log1p(x * row_factor) - shift_j) * scale_j`. A
/// value that is NaN stays so.
///
/// `row_factor` is `row_norm / ||x||` where rows are normalised (rows of zeros stay zero), else 1.
#[derive(Clone, Copy, Debug)]
pub struct Scaling<'a> {
    /// The Euclidean norm to which rows are normalised, if they are.
    pub row_norm: Option<f32>,
    /// Whether log1p is taken before the shift: empty, or one value per column.
    pub log: &'a [bool],
    /// Subtracted: empty, or one value per column. Empty for rows that must stay sparse.
    pub shift: &'a [f32],
    /// Multiplied with afterwards: a single value, or one per column.
    pub scale: &'a [f32],
}

impl Scaling<'_> {
    /// Scales a dense row in place.
    #[inline]
    pub fn apply(&self, row: &mut [f32]) {
        let row_factor = self.row_factor(row);
        if row_factor != 1.0 {
            for x in row.iter_mut() {
                *x *= row_factor;
            }
        }
        for (x, _) in row.iter_mut().zip(self.log).filter(|(_, is_log)| **is_log) {
            *x = ln_1p(*x);
        }
        if !self.shift.is_empty() {
            row.iter_mut().zip(self.shift).for_each(|(x, shift)| *x -= shift);
        }
        match self.scale {
            [one] if *one == 1.0 => {}
            [one] => row.iter_mut().for_each(|x| *x *= one),
            many => row.iter_mut().zip(many).for_each(|(x, scale)| *x *= scale),
        }
    }

    /// The normalising factor of a row, from its values (for a sparse row, from its entries).
    #[inline]
    pub fn row_factor(&self, row: &[f32]) -> f32 {
        let Some(target) = self.row_norm else { return 1.0 };
        let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        if norm > 0.0 { (f64::from(target) / norm) as f32 } else { 1.0 }
    }

    /// The scaled value of a stored entry. Absent entries stay zero: sparse rows are never shifted.
    #[inline]
    pub fn entry(&self, column: u32, value: f32, row_factor: f32) -> f32 {
        debug_assert!(self.shift.is_empty(), "sparse rows have no shift");
        let column = column as usize;
        let value = value * row_factor;
        let value = if self.is_log(column) { ln_1p(value) } else { value };
        value * self.column_scale(column)
    }

    /// The scaled value of a cell in double precision, for rows that are not normalised: seconds since 1970 have more digits
    /// than single precision.
    #[inline]
    pub fn cell(&self, column: usize, value: f64) -> f32 {
        let value = if self.is_log(column) { double::ln_1p(value) } else { value };
        let shift = self.shift.get(column).copied().unwrap_or(0.0);
        ((value - f64::from(shift)) * f64::from(self.column_scale(column))) as f32
    }

    fn is_log(&self, column: usize) -> bool {
        self.log.get(column).copied().unwrap_or(false)
    }

    fn column_scale(&self, column: usize) -> f32 {
        if self.scale.len() == 1 { self.scale[0] } else { self.scale[column] }
    }
}

impl RowValues<'_> {
    /// Writes row `i` of `n_columns` columns, unscaled, into `out`.
    #[inline]
    pub fn row_into(&self, i: usize, n_columns: usize, out: &mut [f32]) {
        let dense = i * n_columns..(i + 1) * n_columns;
        match self {
            RowValues::U8(x) => out.iter_mut().zip(&x[dense]).for_each(|(o, &x)| *o = f32::from(x)),
            RowValues::F16(x) => out.iter_mut().zip(&x[dense]).for_each(|(o, &x)| *o = x.to_f32()),
            RowValues::F32(x) => out.copy_from_slice(&x[dense]),
            RowValues::F64(x) => out.iter_mut().zip(&x[dense]).for_each(|(o, &x)| *o = x as f32),
            RowValues::Csr(csr) => {
                out.fill(0.0);
                let (columns, values) = csr.row(i);
                columns.iter().zip(values).for_each(|(&column, &x)| out[column as usize] = x);
            }
        }
    }
}

impl RowsView<'_> {
    /// Writes row `i`, scaled, into `out` of length D. Cells of typed tables are scaled in double precision.
    #[inline]
    pub fn row_into(&self, i: usize, out: &mut [f32]) {
        if let (Inputs::Typed(_), RowValues::F64(values)) = (self.inputs, self.values) {
            let cells = &values[i * self.n_columns..(i + 1) * self.n_columns];
            out.iter_mut().zip(cells).enumerate().for_each(|(j, (x, &c))| *x = self.scaling.cell(j, c));
            return;
        }
        self.values.row_into(i, self.n_columns, out);
        if let Inputs::Typed(_) = self.inputs {
            // As above: the type that the same numbers are stored in makes no difference.
            out.iter_mut().enumerate().for_each(|(j, x)| *x = self.scaling.cell(j, f64::from(*x)));
        } else {
            self.scaling.apply(out);
        }
    }

    /// Columns of the encoder's input.
    pub fn n_inputs(&self) -> usize {
        self.inputs.n_inputs(self.n_columns)
    }

    /// Writes what the encoder sees of row `i` into `out` of length [`n_inputs`](Self::n_inputs).
    pub fn input_into(&self, i: usize, out: &mut [f32]) {
        let mut x = vec![0.0; self.n_columns];
        self.row_into(i, &mut x);
        self.inputs.write(&x, out);
    }
}

/// Which rows form a batch.
#[derive(Clone, Copy, Debug)]
pub enum RowSelection<'a> {
    /// Positions `first..first + B` of each restart's shuffle of this epoch.
    Shuffled {
        /// One key per restart.
        keys: &'a [Key],
        /// The epoch, which selects the shuffle.
        epoch: u64,
        /// The first position.
        first: usize,
    },
    /// As `Shuffled` for the first half of a batch with neighbours; the second half are neighbours of these rows, one drawn
    /// for each.
    ShuffledPairs {
        /// One key per restart, for the order.
        keys: &'a [Key],
        /// One key per restart, for the neighbours.
        neighbour_keys: &'a [Key],
        /// The index of the shuffle.
        epoch: u64,
        /// The first position.
        first: usize,
    },
    /// Rows `first..first + B`, the same for all restarts. In a batch with neighbours the second half are the first
    /// neighbours in the lists of these rows.
    Range {
        /// The first row.
        first: usize,
    },
}

/// The neighbours of all rows, for each restart.
#[derive(Clone, Debug)]
pub struct NeighbourLists {
    /// Row indices, [N, k], one list per restart.
    pub lists: Vec<Vec<u32>>,
    /// k.
    pub n_neighbours: usize,
}

/// Which of `n` neighbours the row at `position` of an epoch's order is paired with.
pub(crate) fn draw_neighbour(key: Key, epoch: u64, position: usize, n: usize) -> usize {
    let [word, ..] = key.draw(epoch, position as u32, 0);
    ((u64::from(word) * n as u64) >> 32) as usize
}

/// The threshold of [`is_hidden`] for a rate.
pub(crate) fn hiding_threshold(rate: f32) -> u32 {
    (f64::from(rate) * 4_294_967_296.0) as u32
}

/// Whether `hide_cells` hides the cell at (row, column) of a restart's batch, with probability `threshold` / 2^32.
#[inline]
pub(crate) fn is_hidden(key: Key, step: u64, row: usize, column: usize, threshold: u32) -> bool {
    key.draw(step, row as u32, column as u32 / 4)[column % 4] < threshold
}

/// The data set on the device, batches of its rows, and the first layer, which reads them.
pub trait Rows: Memory {
    /// The data set on the device, in its stored type.
    type Rows<'a>: Sync;
    /// The rows of a step: their indices and their scaled values.
    type Batch: Send;

    /// Makes the data set available to `gather`.
    fn rows<'a>(&self, data: RowsView<'a>) -> Result<Self::Rows<'a>>;

    /// Allocates a batch of `n_rows` rows per restart.
    fn batch(&self, rows: &Self::Rows<'_>, restarts: usize, n_rows: usize) -> Result<Self::Batch>;

    /// Allocates a batch of `n_rows` rows per restart, and a neighbour for each of them in its second half.
    fn batch_with_neighbours(
        &self,
        rows: &Self::Rows<'_>,
        restarts: usize,
        n_rows: usize,
        neighbours: NeighbourLists,
    ) -> Result<Self::Batch>;

    /// Copies the selected rows, scaled, into `batch`, and what the encoder sees of them.
    fn gather(
        &self,
        rows: &Self::Rows<'_>,
        selection: RowSelection<'_>,
        batch: &mut Self::Batch,
    ) -> Result<()>;

    /// The rows of the batch as a dense matrix, [R, B, D].
    fn batch_rows<'b>(&self, batch: &'b Self::Batch) -> &'b Matrix<Self::Buffer>;

    /// For typed inputs: hides each observed cell of the batch from the encoder with probability `rate`, as if it were missing;
    /// the rows of the batch keep it. Nothing is hidden of other inputs.
    fn hide_cells(
        &self,
        rows: &Self::Rows<'_>,
        draw: Draw<'_>,
        rate: f32,
        batch: &mut Self::Batch,
    ) -> Result<()>;

    /// y = activation(x W + b), where x is what the encoder sees of the batch; a device may use a sparse product for sparse
    /// rows.
    fn input_affine(
        &self,
        params: &Params<Self::Buffer>,
        layer: Affine,
        rows: &Self::Rows<'_>,
        batch: &Self::Batch,
        activation: Activation,
        y: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// Gradients of the weights and bias of `input_affine`; see [`affine_backward_weights`](crate::Layers::affine_backward_weights).
    fn input_affine_backward(
        &self,
        params: &mut Params<Self::Buffer>,
        layer: Affine,
        rows: &Self::Rows<'_>,
        batch: &Self::Batch,
        dy: &Matrix<Self::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()>;
}
