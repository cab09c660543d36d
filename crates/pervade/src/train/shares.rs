//! Shares of a batch: gradients and sums that are the same however many ranks compute them.
//!
//! A batch is divided into S equal shares, in order; S is a power of two. Each rank computes the gradients of consecutive
//! shares, one after the other. The mean of all shares is formed in a binary tree over their numbers, so that its rounding
//! does not depend on the number of ranks.

use std::ops::Range;

use super::run::Run;
use crate::Result;
use crate::compute::{self, Device, Params, Terms};

/// Bits of [`Draw::step`](crate::compute::Draw) below the number of the share.
const STEP_BITS: u32 = 48;

/// One share of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Its number among all S shares.
    pub(super) number: usize,
    /// Its index among the shares of this rank.
    pub(super) index: usize,
    /// Its number of rows.
    pub(super) n_rows: usize,
}

impl Share {
    /// The position of its first row, for a batch that begins at `first`.
    pub(super) fn first(self, first: usize) -> usize {
        first + self.number * self.n_rows
    }

    /// The step of its random numbers: another one for each share.
    pub(super) fn draw(self, step: u64) -> u64 {
        step | (self.number as u64) << STEP_BITS
    }
}

impl<D: Device> Run<'_, D> {
    /// The number of shares, S.
    pub(super) fn n_shares(&self) -> usize {
        self.settings.settings.shares
    }

    /// Rows of a share of a batch with `batch` rows.
    pub(super) fn share_rows(&self, batch: usize) -> usize {
        batch / self.n_shares()
    }

    /// Numbers of the shares that this rank computes.
    fn own_shares(&self) -> Range<usize> {
        let n = self.n_shares() / self.ranks.size();
        self.ranks.rank() * n..(self.ranks.rank() + 1) * n
    }
}

/// Buffers for the mean gradient of all shares.
pub(super) struct ShareMean<D: Device> {
    /// Means of 1, 2, 4, .. consecutive shares that wait for their right neighbour.
    waiting: Vec<D::Buffer>,
    /// Present if there are several ranks.
    between_ranks: Option<D::RankMean>,
}

impl<D: Device> ShareMean<D> {
    /// None if there is only one share: the networks are then updated in the backward pass.
    pub(super) fn new(run: &Run<'_, D>, restarts: usize) -> Result<Option<Self>> {
        if run.n_shares() == 1 {
            return Ok(None);
        }
        let len = restarts * run.architecture.layout.len();
        let waiting = (0..run.own_shares().len().ilog2()).map(|_| run.device.zeros(len));
        let waiting = waiting.collect::<compute::Result<_>>()?;
        let several = run.ranks.size() > 1;
        let between_ranks = several.then(|| run.device.rank_mean(run.ranks, len)).transpose()?;
        Ok(Some(Self { waiting, between_ranks }))
    }

    /// Calls `gradient` for each share of this rank, which leaves the share's gradient in `params`; then `update` with the
    /// mean gradient of all shares of all ranks.
    pub(super) fn step(
        &mut self,
        run: &Run<'_, D>,
        n_rows: usize,
        params: &mut Params<D::Buffer>,
        mut gradient: impl FnMut(&mut Params<D::Buffer>, Share) -> compute::Result<()>,
        update: impl FnOnce(&mut Params<D::Buffer>) -> compute::Result<()>,
    ) -> compute::Result<()> {
        let shares = run.own_shares();
        let n_own = shares.len();
        for (index, number) in shares.enumerate() {
            gradient(params, Share { number, index, n_rows })?;
            // As in a binary counter: an odd share completes as many means as its number ends with ones.
            let level = index.trailing_ones() as usize;
            for waiting in &self.waiting[..level] {
                run.device.average(waiting, &mut params.gradients)?;
            }
            if index + 1 < n_own {
                std::mem::swap(&mut params.gradients, &mut self.waiting[level]);
            }
        }
        if let Some(mean) = &mut self.between_ranks {
            run.device.average_over_ranks(mean, run.ranks, &mut params.gradients)?;
        }
        update(params)?;
        // A recorded step is replayed with the same addresses: every buffer returns to where it was.
        for index in (0..n_own - 1).rev() {
            let level = index.trailing_ones() as usize;
            std::mem::swap(&mut params.gradients, &mut self.waiting[level]);
        }
        Ok(())
    }
}

/// Sums of the ELBO terms since they were last taken, for each share of this rank.
pub(super) struct ShareSums<D: Device> {
    sums: Vec<D::Sums>,
}

impl<D: Device> ShareSums<D> {
    /// Zeros, for batches of `batch` rows.
    pub(super) fn new(run: &Run<'_, D>, restarts: usize, batch: usize, samples: usize) -> Result<Self> {
        let n_rows = run.share_rows(batch);
        let sums = run.own_shares().map(|_| run.device.sums(restarts, n_rows, samples));
        Ok(Self { sums: sums.collect::<compute::Result<_>>()? })
    }

    /// The sums of one share.
    pub(super) fn of(&mut self, index: usize) -> &mut D::Sums {
        &mut self.sums[index]
    }

    /// Returns the sums over all shares, one per restart, and resets them to zero.
    pub(super) fn take(&mut self, run: &Run<'_, D>) -> Result<Vec<Terms>> {
        let mut own = Vec::new();
        for sums in &mut self.sums {
            own.push(run.device.take_sums(sums)?);
        }
        let restarts = own[0].len();
        let values: Vec<f64> = own.iter().flatten().flat_map(Terms::values).collect();
        let all = gathered(run, &values)?;
        // All shares of a restart, in their order.
        let of_restart = |restart: usize| {
            let shares = all.chunks_exact(Terms::N).skip(restart).step_by(restarts);
            Terms::total(&shares.flatten().copied().collect::<Vec<_>>())
        };
        Ok((0..restarts).map(of_restart).collect())
    }

    /// The accumulators of all shares in the middle of an epoch, for a checkpoint.
    pub(super) fn read(&self, run: &Run<'_, D>) -> Result<Vec<f64>> {
        let mut own = Vec::new();
        for sums in &self.sums {
            own.extend(run.device.read_sums(sums)?);
        }
        gathered(run, &own)
    }

    /// The inverse of [`ShareSums::read`].
    pub(super) fn write(&mut self, run: &Run<'_, D>, all: &[f64]) -> Result<()> {
        let per_share = all.len() / run.n_shares();
        let own = &all[run.own_shares().start * per_share..];
        for (sums, values) in self.sums.iter_mut().zip(own.chunks_exact(per_share)) {
            run.device.write_sums(sums, values)?;
        }
        Ok(())
    }
}

/// The values of all ranks, in order.
fn gathered<D: Device>(run: &Run<'_, D>, own: &[f64]) -> Result<Vec<f64>> {
    let mut all = vec![0.0f64; own.len() * run.ranks.size()];
    run.ranks.all_gather(bytemuck::cast_slice(own), bytemuck::cast_slice_mut(&mut all))?;
    Ok(all)
}
