//! Recording and replay of training steps.

use crate::{Memory, Params, Result, Tick};

/// Runs training steps, replaying them where the device can.
pub trait Recording: Memory {
    /// A recorded step; initially empty.
    type Recording: Default;

    /// How many steps to pass to [`Recording::steps`] at once, at most [`MAX_STEPS`](crate::MAX_STEPS): a device that
    /// replays them saves the gaps between them.
    fn steps_at_once(&self) -> usize;

    /// Runs steps in order: calls `body` for each tick, or replays a recording of it with the values of the tick. `body`
    /// must launch the same operations every time and may depend on nothing that changes except the tick.
    fn steps(
        &self,
        ticks: &[Tick],
        recording: &mut Self::Recording,
        params: &mut Params<Self::Buffer>,
        body: impl FnMut(&mut Params<Self::Buffer>, &Tick) -> Result<()>,
    ) -> Result<()>;
}
