//! What changes from step to step: rows, draws, learning rates and Adam's corrections.

use std::ops::Range;

/// Adam's running means: the share of the old value (Kingma and Ba, 2015). The first moment's is a field of
/// [`Params`](crate::Params).
pub(crate) const BETA2: f32 = 0.999;

/// The learning rate over the first moment's bias correction, after `step` steps.
pub(crate) fn step_size(step: u64, learning_rate: f32, beta1: f32) -> f32 {
    // Powers in double precision: at step 1e5 the single-precision one is off in the fourth digit.
    (f64::from(learning_rate) / (1.0 - f64::from(beta1).powf(step as f64))) as f32
}

/// The inverse root of the second moment's bias correction, after `step` steps.
pub(crate) fn inverse_root(step: u64) -> f32 {
    (1.0 / (1.0 - f64::from(BETA2).powf(step as f64)).sqrt()) as f32
}

/// A step of Adam for a part of the parameters; the others stay as they are.
#[derive(Clone, Debug)]
pub struct AdamStep {
    /// The part.
    pub range: Range<usize>,
    /// Which of the tick's learning rates is its own, for a device that replays the step.
    pub group: usize,
    /// That learning rate.
    pub learning_rate: f32,
    /// Steps taken, this one included.
    pub step: u64,
    /// Added to the root of the second moment.
    pub epsilon: f32,
}

/// The most steps that are passed at once.
pub const MOST_STEPS: usize = 8;

/// What changes from one step of a stage to the next. All else is the same every time, so that a device
/// may record one step and replay it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tick {
    /// Which shuffle, as in [`RowSelection::Shuffled`](crate::RowSelection::Shuffled).
    pub epoch: u64,
    /// The first position, as there.
    pub first: u64,
    /// The step of the draws: what [`Draw::step`](crate::Draw::step) counts from.
    pub draw: u64,
    /// Adam's step, as in [`AdamStep::step`].
    pub adam: u64,
    /// Learning rates of the parts that take steps of their own: networks, mixture.
    pub learning_rates: [f32; 2],
}

impl Tick {
    /// Adam's step for `range` with the learning rate of `group`.
    pub fn adam_step(&self, range: Range<usize>, group: usize, epsilon: f32) -> AdamStep {
        AdamStep { range, group, learning_rate: self.learning_rates[group], step: self.adam, epsilon }
    }
}

/// Ticks of steps that are passed at once; nothing is allocated for them.
pub struct Ticks {
    ticks: [Tick; MOST_STEPS],
    n_ticks: usize,
}

impl Ticks {
    /// One for each of `step_indices`, of which there are at most [`MOST_STEPS`].
    pub fn new(step_indices: Range<usize>, tick: impl Fn(usize) -> Tick) -> Self {
        let mut ticks = [Tick::default(); MOST_STEPS];
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
