//! Batch normalisation (Ioffe and Szegedy, 2015).

use crate::{AdamStep, Affine, Layout, Matrix, Memory, Params, Result, Slot};

/// The parameters of a batch normalisation of C columns: gain, shift, running mean and running variance, each
/// [1, C].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormSlots {
    /// Multiplies the normalised columns.
    pub gain: Slot,
    /// Added afterwards.
    pub shift: Slot,
    /// Running means.
    pub mean: Slot,
    /// Running variances.
    pub variance: Slot,
}

/// Added to a variance before its square root is taken.
pub(crate) const NORM_EPSILON: f32 = 1e-5;
/// The weight of the old value in the running means and variances.
pub(crate) const NORM_MOMENTUM: f32 = 0.9;
/// Statistics per group of rows: mean, variance, and two sums of the backward pass.
pub(crate) const NORM_ROWS: usize = 4;

impl NormSlots {
    /// Adds the four slots to the layout.
    pub fn new(layout: &mut Layout, name: &str, columns: usize) -> Self {
        let mut slot = |what: &str| layout.push(format!("{name}.{what}"), 1, columns);
        let (gain, shift) = (slot("gain"), slot("shift"));
        Self { gain, shift, mean: slot("mean"), variance: slot("variance") }
    }

    /// The number of columns, C.
    pub fn n_columns(&self) -> usize {
        self.gain.columns
    }

    /// Rows of the matrix of statistics for `groups` groups.
    pub fn statistics_rows(groups: usize) -> usize {
        NORM_ROWS * groups
    }

    /// Changes weight and bias of the layer before the normalisation so that the layer alone gives what both give in
    /// inference. `values` are the parameters of one model.
    pub fn fold_into(&self, layer: Affine, values: &mut [f32]) {
        assert_eq!(layer.weight.columns, self.n_columns(), "columns");
        for c in 0..self.n_columns() {
            let [gain, shift, mean, variance] =
                [self.gain, self.shift, self.mean, self.variance].map(|slot| values[slot.offset + c]);
            let scale = gain / (variance + NORM_EPSILON).sqrt();
            layer.weight.range().skip(c).step_by(self.n_columns()).for_each(|i| values[i] *= scale);
            let bias = &mut values[layer.bias.offset + c];
            *bias = (*bias - mean) * scale + shift;
        }
    }

    /// The number of groups and the rows per group, from the shapes of `x` and its statistics.
    pub(crate) fn groups<B>(&self, x: &Matrix<B>, statistics: &Matrix<B>) -> (usize, usize) {
        let groups = statistics.rows / NORM_ROWS;
        assert_eq!((x.columns, statistics.columns), (self.n_columns(), self.n_columns()), "columns");
        assert!(groups > 0 && x.rows.is_multiple_of(groups), "{} rows in {groups} equal groups", x.rows);
        (groups, x.rows / groups)
    }
}

/// Batch normalisation, forward and backward.
pub trait BatchNorm: Memory {
    /// y = gain (x - mean) / deviation + shift, with the mean and standard deviation of each column. The rows are split
    /// into as many equal groups as `statistics`, [R, 4 groups, C], has room for; each is normalised separately. The
    /// statistics are saved for the backward pass. `y` may have a different row length than `x`.
    fn batch_norm(
        &self,
        params: &Params<Self::Buffer>,
        layer: NormSlots,
        x: &Matrix<Self::Buffer>,
        statistics: &mut Matrix<Self::Buffer>,
        y: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// Batch normalisation with the running statistics: a row's result does not depend on the other rows.
    fn batch_norm_inference(
        &self,
        params: &Params<Self::Buffer>,
        layer: NormSlots,
        x: &Matrix<Self::Buffer>,
        y: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// Computes dx of `batch_norm`; the sums for the gradients of gain and shift are saved in `statistics`.
    fn batch_norm_backward_input(
        &self,
        params: &Params<Self::Buffer>,
        layer: NormSlots,
        x: &Matrix<Self::Buffer>,
        dy: &Matrix<Self::Buffer>,
        statistics: &mut Matrix<Self::Buffer>,
        dx: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// Computes the gradients of gain and shift and, given an update, takes Adam's step. The running statistics move a
    /// tenth of the way to the groups' average.
    fn batch_norm_backward_weights(
        &self,
        params: &mut Params<Self::Buffer>,
        layer: NormSlots,
        statistics: &Matrix<Self::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()>;
}
