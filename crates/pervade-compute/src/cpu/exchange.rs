//! Means over ranks.

use super::Cpu;
use crate::{Exchange, HostMean, Ranks, Result};

impl Exchange for Cpu {
    type RankMean = HostMean;

    fn rank_mean(&self, ranks: &dyn Ranks, len: usize) -> Result<HostMean> {
        Ok(HostMean::new(ranks.size(), len))
    }

    fn average_over_ranks(
        &self,
        mean: &mut HostMean,
        ranks: &dyn Ranks,
        buffer: &mut Vec<f32>,
    ) -> Result<()> {
        mean.average(self, ranks, buffer)
    }
}
