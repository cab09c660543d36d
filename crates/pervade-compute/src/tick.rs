//! What changes from one training step to the next: rows, random draws, learning rates and Adam's bias corrections.

use std::ops::Range;

/// Adam's decay rate of the second moment (Kingma and Ba, 2015). That of the first moment is a field of
/// [`Params`](crate::Params).
pub(crate) const BETA2: f32 = 0.999;

/// The learning rate over the first moment's bias correction, after `step` steps.
pub(crate) fn step_size(step: u64, learning_rate: f32, beta1: f32) -> f32 {
    // In double precision: at step 1e5 the single-precision power is wrong in the fourth digit.
    (f64::from(learning_rate) / (1.0 - f64::from(beta1).powf(step as f64))) as f32
}

/// The inverse square root of the second moment's bias correction, after `step` steps.
pub(crate) fn inverse_root(step: u64) -> f32 {
    (1.0 / (1.0 - f64::from(BETA2).powf(step as f64)).sqrt()) as f32
}

/// A step of Adam for a range of the parameters.
#[derive(Clone, Debug)]
pub struct AdamStep {
    /// The parameters to update.
    pub range: Range<usize>,
    /// Index into [`Tick::learning_rates`], for a device that replays the step.
    pub group: usize,
    /// The learning rate.
    pub learning_rate: f32,
    /// The number of steps taken, including this one.
    pub step: u64,
    /// Added to the square root of the second moment.
    pub epsilon: f32,
}

/// The largest number of steps in one call of [`Recording::steps`](crate::Recording::steps).
pub const MAX_STEPS: usize = 8;

/// What changes from one step of a stage to the next. Everything else stays the same, so that a device
/// may record one step and replay it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tick {
    /// The epoch, which selects the shuffle: see [`RowSelection::Shuffled`](crate::RowSelection::Shuffled).
    pub epoch: u64,
    /// The batch's first position in the shuffle.
    pub first: u64,
    /// The base of [`Draw::step`](crate::Draw::step).
    pub draw: u64,
    /// Adam's step count: see [`AdamStep::step`].
    pub adam: u64,
    /// Learning rates of the parameter groups: networks, mixture.
    pub learning_rates: [f32; 2],
}

impl Tick {
    /// Adam's step for `range` with the learning rate of `group`.
    pub fn adam_step(&self, range: Range<usize>, group: usize, epsilon: f32) -> AdamStep {
        AdamStep { range, group, learning_rate: self.learning_rates[group], step: self.adam, epsilon }
    }
}

/// The ticks of up to [`MAX_STEPS`] steps, without a heap allocation.
pub struct Ticks {
    ticks: [Tick; MAX_STEPS],
    n_ticks: usize,
}

impl Ticks {
    /// One tick per step index; at most [`MAX_STEPS`].
    pub fn new(step_indices: Range<usize>, tick: impl Fn(usize) -> Tick) -> Self {
        let mut ticks = [Tick::default(); MAX_STEPS];
        let n_ticks = step_indices.len();
        for (to, step) in ticks[..n_ticks].iter_mut().zip(step_indices) {
            *to = tick(step);
        }
        Self { ticks, n_ticks }
    }
}

impl std::ops::Deref for Ticks {
    type Target = [Tick];

    fn deref(&self) -> &[Tick] {
        &self.ticks[..self.n_ticks]
    }
}
