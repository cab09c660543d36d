//! The data set on a device, and batches of its rows.

use half::f16;

use crate::random::Key;
use crate::{Activation, AdamStep, Affine, Matrix, Memory, Params, Result};

/// A view of a table for a device: values of one type, row-major, and their scaling.
#[derive(Clone, Copy, Debug)]
pub struct RowsView<'a> {
    /// The number of rows, N.
    pub n_rows: usize,
    /// The number of columns, D.
    pub n_columns: usize,
    /// The unscaled values.
    pub values: RowValues<'a>,
    /// How they are scaled to become the network's input.
    pub scaling: Scaling<'a>,
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

/// How values are scaled: `x' = (x * row_factor - shift_j) * scale_j`.
///
/// `row_factor` is `row_norm / ||x||` where rows are normalised (rows of zeros stay zero), else 1.
#[derive(Clone, Copy, Debug)]
pub struct Scaling<'a> {
    /// The Euclidean norm to which rows are normalised, if they are.
    pub row_norm: Option<f32>,
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
        let scale = if self.scale.len() == 1 { self.scale[0] } else { self.scale[column as usize] };
        value * row_factor * scale
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
    /// Writes row `i`, scaled, into `out` of length D.
    #[inline]
    pub fn row_into(&self, i: usize, out: &mut [f32]) {
        self.values.row_into(i, self.n_columns, out);
        self.scaling.apply(out);
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

    /// Copies the selected rows, scaled, into `batch`.
    fn gather(
        &self,
        rows: &Self::Rows<'_>,
        selection: RowSelection<'_>,
        batch: &mut Self::Batch,
    ) -> Result<()>;

    /// The rows of the batch as a dense matrix, [R, B, D].
    fn batch_rows<'b>(&self, batch: &'b Self::Batch) -> &'b Matrix<Self::Buffer>;

    /// y = activation(x W + b), where x are the rows of the batch; a device may use a sparse product for sparse rows.
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
