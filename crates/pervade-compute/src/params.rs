//! Matrices, flat parameter buffers, and the layout of named slices in them.

use crate::{Memory, Result};

/// A batch of R matrices on a device, [R, rows, columns], row-major.
#[derive(Debug, Clone)]
pub struct Matrix<B> {
    /// The elements.
    pub data: B,
    /// The number of models, R.
    pub restarts: usize,
    /// Rows per model.
    pub rows: usize,
    /// Columns per model.
    pub columns: usize,
}

impl<B> Matrix<B> {
    /// A matrix of zeros on `device`.
    pub fn zeros<D: Memory<Buffer = B>>(
        device: &D,
        restarts: usize,
        rows: usize,
        columns: usize,
    ) -> Result<Self> {
        Ok(Self { data: device.zeros(restarts * rows * columns)?, restarts, rows, columns })
    }

    /// Elements per model.
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
    /// Index of the first element.
    pub offset: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
}

impl Slot {
    /// The slot's range of elements in the buffer.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.rows * self.columns
    }
}

/// Weight [in, out] and bias [1, out] of an affine layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affine {
    /// W.
    pub weight: Slot,
    /// b.
    pub bias: Slot,
}

/// The parameters of a Gaussian mixture: logits [1, C], means [C, J], log variances [C, J].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixtureSlots {
    /// The mixture weights are their softmax.
    pub logits: Slot,
    /// Means.
    pub means: Slot,
    /// Log variances.
    pub log_variances: Slot,
}

impl MixtureSlots {
    /// The number of components, C.
    pub fn n_components(&self) -> usize {
        self.means.rows
    }

    /// The number of latent columns, J.
    pub fn n_latents(&self) -> usize {
        self.means.columns
    }
}

/// The layout of a flat parameter buffer: named slots, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    slots: Vec<(String, Slot)>,
    len: usize,
}

impl Layout {
    /// Slots start on a cache line, so that no two threads of Adam share one.
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

    /// The slots of all layers' weights (not biases).
    pub fn weights(&self) -> Vec<Slot> {
        self.slots.iter().filter(|(name, _)| name.ends_with(".weight")).map(|&(_, slot)| slot).collect()
    }

    /// Elements in a buffer of this layout, including padding: P.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the layout has no slots.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Names and slots, in order.
    pub fn slots(&self) -> &[(String, Slot)] {
        &self.slots
    }
}

/// Parameters, gradients and Adam's two moments, each one flat buffer [R, P].
#[derive(Debug)]
pub struct Params<B> {
    /// The parameters.
    pub values: B,
    /// Gradients of the loss.
    pub gradients: B,
    /// Adam's running mean of the gradient.
    pub first_moments: B,
    /// Adam's running mean of the squared gradient.
    pub second_moments: B,
    /// The number of models, R.
    pub restarts: usize,
    /// Parameters per model, P.
    pub stride: usize,
    /// Adam's decay rate of the first moments.
    pub beta1: f32,
}

/// The default of Adam's authors.
const BETA1: f32 = 0.9;

impl<B> Params<B> {
    /// Zeros for R models of P parameters.
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

    /// Parameters for inference: the buffers of gradients and moments are empty.
    pub fn fixed<D: Memory<Buffer = B>>(device: &D, values: &[f32]) -> Result<Self> {
        let mut buffer = device.zeros(values.len())?;
        device.write(&mut buffer, 0, values)?;
        let empty = || device.zeros(0);
        Ok(Self {
            values: buffer,
            gradients: empty()?,
            first_moments: empty()?,
            second_moments: empty()?,
            restarts: 1,
            stride: values.len(),
            beta1: BETA1,
        })
    }
}
