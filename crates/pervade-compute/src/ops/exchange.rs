//! Means over the processes that train one model together.

use crate::{Memory, Ranks, Result};

/// Averages buffers over all ranks.
pub trait Exchange: Memory {
    /// The memory that a mean needs.
    type RankMean: Send;

    /// Memory for means of buffers with `len` elements. All ranks call it in the same order.
    fn rank_mean(&self, ranks: &dyn Ranks, len: usize) -> Result<Self::RankMean>;

    /// Replaces the buffer of every rank by the mean over all ranks, formed in a binary tree over their numbers.
    fn average_over_ranks(
        &self,
        mean: &mut Self::RankMean,
        ranks: &dyn Ranks,
        buffer: &mut Self::Buffer,
    ) -> Result<()>;

    /// The library that moves the buffers from device to device, if [`Exchange::rank_mean`] has found one; such an exchange
    /// can be part of a recorded step. Otherwise buffers go through host memory.
    fn device_exchange(&self) -> Option<&str> {
        None
    }
}
