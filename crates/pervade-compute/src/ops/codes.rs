//! Latent codes with a categorical part and a continuous part, for adversarial auto-encoders and InfoGAN.

use std::ops::Range;

use crate::{Draw, Matrix, Result, Sums};

/// Softmax over leading columns, copies of blocks, and codes with a categorical and a continuous part.
pub trait Codes: Sums {
    /// Applies softmax to the first `n` columns of every row, in place; the others are unchanged.
    fn softmax(&self, n: usize, x: &mut Matrix<Self::Buffer>) -> Result<()>;

    /// The gradient of `softmax`, in place, from its output `y`.
    fn softmax_backward(
        &self,
        n: usize,
        y: &Matrix<Self::Buffer>,
        dy: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// Copies columns `from` of all rows of `x` to rows `to[0]..` and columns `to[1]..` of `y`.
    fn copy_columns(
        &self,
        x: &Matrix<Self::Buffer>,
        from: Range<usize>,
        y: &mut Matrix<Self::Buffer>,
        to: [usize; 2],
    ) -> Result<()> {
        self.copy_block(x, 0..x.rows, from, y, to)
    }

    /// Copies a block of `x` to rows `to[0]..` and columns `to[1]..` of `y`.
    fn copy_block(
        &self,
        x: &Matrix<Self::Buffer>,
        rows: Range<usize>,
        columns: Range<usize>,
        y: &mut Matrix<Self::Buffer>,
        to: [usize; 2],
    ) -> Result<()>;

    /// Draws random codes: the first `n_choices` columns of each row are a one-hot vector, all further columns are uniform
    /// in [-1, 1).
    fn draw_codes(&self, draw: Draw<'_>, n_choices: usize, z: &mut Matrix<Self::Buffer>) -> Result<()>;

    /// log q(code | output) for codes of `draw_codes`, and its gradient. `sizes` are the numbers of categories and of
    /// continuous columns that count. The output holds the logits of the categories, the means of the continuous columns
    /// and, if it has that many more columns, their log variances; otherwise their variance is 1. Adds the categorical part
    /// to the cluster term and the continuous part to the latent term, and replaces the output by the gradient of
    /// -`weight` log q, averaged over rows. Output rows beyond those of `codes` get a gradient of zero.
    fn code_likelihood(
        &self,
        sizes: (usize, usize),
        weight: f32,
        codes: &Matrix<Self::Buffer>,
        output: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
}
