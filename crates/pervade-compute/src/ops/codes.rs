//! Codes that are partly a choice of one of many: adversarial auto-encoders and InfoGAN.

use std::ops::Range;

use crate::{Draw, Matrix, Result, Sums};

/// Softmax over some columns, blocks of columns, and drawn codes.
pub trait Codes: Sums {
    /// The first `n` columns of every row become their softmax; the others stay.
    fn softmax(&self, n: usize, x: &mut Matrix<Self::Buffer>) -> Result<()>;

    /// The gradient of `softmax`, in place, from what it left in `y`.
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

    /// Copies these rows and columns of `x` to rows `to[0]..` and columns `to[1]..` of `y`.
    fn copy_block(
        &self,
        x: &Matrix<Self::Buffer>,
        rows: Range<usize>,
        columns: Range<usize>,
        y: &mut Matrix<Self::Buffer>,
        to: [usize; 2],
    ) -> Result<()>;

    /// Draws codes: of the first `n_choices` columns of each row one is 1, the others 0; all further columns are
    /// uniform in [-1, 1).
    fn draw_codes(&self, draw: Draw<'_>, n_choices: usize, z: &mut Matrix<Self::Buffer>) -> Result<()>;

    /// log q(code | output), for codes as `draw_codes` makes them; `sizes` are its choices and how many of the numbers count. The output's
    /// first columns are logits of the choice, then come the numbers' means and, if there are as many columns more,
    /// their log variances; else their variance is 1. Adds the choice's part to the sums' cluster term and the numbers'
    /// part to the latent term, and replaces the output by the gradient of -`weight` log q, summed over rows and divided
    /// by their number. Rows of the output beyond those of `codes` have no code, and a gradient of zero.
    fn code_likelihood(
        &self,
        sizes: (usize, usize),
        weight: f32,
        codes: &Matrix<Self::Buffer>,
        output: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
}
