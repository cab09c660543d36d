//! Matrices and the flat parameter buffers with their table of named slices.

use crate::{Memory, Result};

/// Numbers on a device as [R, rows, columns], row-major.
#[derive(Debug, Clone)]
pub struct Matrix<B> {
    /// The numbers.
    pub data: B,
    /// Models side by side, R.
    pub restarts: usize,
    /// Rows of each.
    pub rows: usize,
    /// Columns of each.
    pub columns: usize,
}

impl<B> Matrix<B> {
    /// Zeros on `device`.
    pub fn zeros<D: Memory<Buffer = B>>(
        device: &D,
        restarts: usize,
        rows: usize,
        columns: usize,
    ) -> Result<Self> {
        Ok(Self { data: device.zeros(restarts * rows * columns)?, restarts, rows, columns })
    }

    /// Numbers of one restart.
    pub fn stride(&self) -> usize {
        self.rows * self.columns
    }

    /// The same numbers as so many rows per restart.
    ///
    /// # Panics
    /// If the numbers cannot be divided into that many rows.
    pub fn reshape(&mut self, rows: usize) {
        let stride = self.stride();
        assert!(stride == 0 || stride.is_multiple_of(rows), "{stride} numbers in {rows} rows");
        if stride > 0 {
            (self.rows, self.columns) = (rows, stride / rows);
        }
    }
}

/// A matrix inside the flat parameter buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// First number.
    pub offset: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
}

impl Slot {
    /// Where the numbers lie.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.rows * self.columns
    }
}

/// Weight [in, out] and bias [1, out] of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affine {
    /// W.
    pub weight: Slot,
    /// b.
    pub bias: Slot,
}

/// The mixture's free parameters: logits [1, C], means [C, J], log variances [C, J].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixtureSlots {
    /// Weights are their softmax.
    pub logits: Slot,
    /// Means.
    pub means: Slot,
    /// Log variances.
    pub log_variances: Slot,
}

impl MixtureSlots {
    /// C.
    pub fn n_components(&self) -> usize {
        self.means.rows
    }

    /// J.
    pub fn n_latents(&self) -> usize {
        self.means.columns
    }
}

/// The table of named slices: what lies where in a flat buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    slots: Vec<(String, Slot)>,
    len: usize,
}

impl Layout {
    /// Slices start on a cache line, so that no two threads of Adam share one.
    const ALIGN: usize = 16;

    /// Adds a named matrix at the end.
    pub fn push(&mut self, name: impl Into<String>, rows: usize, columns: usize) -> Slot {
        let slot = Slot { offset: self.len, rows, columns };
        self.slots.push((name.into(), slot));
        self.len = (self.len + rows * columns).next_multiple_of(Self::ALIGN);
        slot
    }

    /// Adds the weight and bias of a layer.
    pub fn push_affine(&mut self, name: &str, inputs: usize, outputs: usize) -> Affine {
        let weight = self.push(format!("{name}.weight"), inputs, outputs);
        let bias = self.push(format!("{name}.bias"), 1, outputs);
        Affine { weight, bias }
    }

    /// The layers' weights.
    pub fn weights(&self) -> Vec<Slot> {
        self.slots.iter().filter(|(name, _)| name.ends_with(".weight")).map(|&(_, slot)| slot).collect()
    }

    /// Numbers in a buffer of this layout, padding included: P.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Names and places, in order.
    pub fn slots(&self) -> &[(String, Slot)] {
        &self.slots
    }
}

/// Parameters, gradients and Adam's two moments, each one flat buffer [R, P].
#[derive(Debug)]
pub struct Params<B> {
    /// The parameters.
    pub values: B,
    /// Gradient of the loss.
    pub gradients: B,
    /// Adam's running mean of the gradient.
    pub first_moments: B,
    /// Adam's running mean of the squared gradient.
    pub second_moments: B,
    /// Models side by side, R.
    pub restarts: usize,
    /// Numbers of one model, P.
    pub stride: usize,
    /// Adam's share of the old value in the first moments.
    pub beta1: f32,
}

/// What Adam's authors propose.
const BETA1: f32 = 0.9;

impl<B> Params<B> {
    /// Zeros for R models of P numbers.
    pub fn zeros<D: Memory<Buffer = B>>(device: &D, restarts: usize, stride: usize) -> Result<Self> {
        let zeros = || device.zeros(restarts * stride);
        Ok(Self {
            values: zeros()?,
            gradients: zeros()?,
            first_moments: zeros()?,
            second_moments: zeros()?,
            restarts,
            stride,
            beta1: BETA1,
        })
    }

    /// Parameters alone, for a fitted model that only computes forward: the other buffers are empty.
    pub fn fixed<D: Memory<Buffer = B>>(device: &D, values: &[f32]) -> Result<Self> {
        let mut buffer = device.zeros(values.len())?;
        device.write(&mut buffer, 0, values)?;
        let none = || device.zeros(0);
        Ok(Self {
            values: buffer,
            gradients: none()?,
            first_moments: none()?,
            second_moments: none()?,
            restarts: 1,
            stride: values.len(),
            beta1: BETA1,
        })
    }
}
