//! Training steps that a device can record and replay.

use crate::{Memory, Params, Result, Tick};

/// Runs training steps, or replays them.
pub trait Recording: Memory {
    /// A recorded step; empty at first.
    type Recording: Default;

    /// How many steps to pass to [`Recording::steps`] at once, at most [`MOST_STEPS`](crate::MOST_STEPS): a device that
    /// replays them saves the time between them.
    fn steps_at_once(&self) -> usize;

    /// Runs steps one after the other: calls `body` for each tick, or replays a recording of it with the tick's numbers in
    /// place of its own. `body` must do the same every time but for what the tick says.
    fn steps(
        &self,
        ticks: &[Tick],
        recording: &mut Self::Recording,
        params: &mut Params<Self::Buffer>,
        body: impl FnMut(&mut Params<Self::Buffer>, &Tick) -> Result<()>,
    ) -> Result<()>;
}
