//! Processes that train one model together, and the mean of their gradients.
//!
//! A library such as MPI only transports bytes. Its own sums depend on the number of processes and on the library, so
//! gradients are averaged here: in a binary tree whose shape depends on nothing but the number of shares.

use crate::{Memory, Result};

/// The processes (ranks) that train one model together. All ranks call the same functions in the same order.
pub trait Ranks: Sync {
    /// The number of this rank, from zero.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// Sends slice r of `send` to rank r; slice r of `received` is what rank r sent. Both consist of
    /// [`size`](Ranks::size) slices of the same length.
    fn all_to_all(&self, send: &[u8], received: &mut [u8]) -> Result<()>;

    /// Slice r of `all` becomes what rank r passes as `mine`; all pass the same number of bytes.
    fn all_gather(&self, mine: &[u8], all: &mut [u8]) -> Result<()>;
}

/// The only rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Ranks for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_to_all(&self, send: &[u8], received: &mut [u8]) -> Result<()> {
        received.copy_from_slice(send);
        Ok(())
    }

    fn all_gather(&self, mine: &[u8], all: &mut [u8]) -> Result<()> {
        all.copy_from_slice(mine);
        Ok(())
    }
}

/// Host buffers for the mean of a buffer over all ranks.
#[derive(Debug)]
pub struct HostMean {
    len: usize,
    /// Elements that each rank averages.
    slice: usize,
    whole: Vec<f32>,
    received: Vec<f32>,
}

impl HostMean {
    /// For buffers of `len` elements on `n_ranks` ranks, a power of two.
    pub fn new(n_ranks: usize, len: usize) -> Self {
        assert!(n_ranks.is_power_of_two(), "{n_ranks} ranks are not a power of two");
        let slice = len.div_ceil(n_ranks);
        let whole = vec![0.0; n_ranks * slice];
        Self { len, slice, received: whole.clone(), whole }
    }

    /// Replaces the buffer of every rank by the mean over all ranks: each rank averages one slice, then all gather the
    /// slices.
    pub fn average<D: Memory>(
        &mut self,
        device: &D,
        ranks: &dyn Ranks,
        buffer: &mut D::Buffer,
    ) -> Result<()> {
        device.read(buffer, 0, &mut self.whole[..self.len])?;
        ranks.all_to_all(bytemuck::cast_slice(&self.whole), bytemuck::cast_slice_mut(&mut self.received))?;
        average_slices(&mut self.received, self.slice);
        let mine = bytemuck::cast_slice(&self.received[..self.slice]);
        ranks.all_gather(mine, bytemuck::cast_slice_mut(&mut self.whole))?;
        device.write(buffer, 0, &self.whole[..self.len])
    }
}

/// Averages neighbouring slices, then neighbouring averages, and so on; the result is in the first slice.
fn average_slices(values: &mut [f32], slice: usize) {
    let mut distance = slice;
    while 0 < distance && distance < values.len() {
        for pair in values.chunks_mut(2 * distance) {
            let (left, right) = pair.split_at_mut(distance);
            let sums = left[..slice].iter_mut().zip(&right[..slice]);
            sums.for_each(|(a, b)| *a = 0.5 * (*a + b));
        }
        distance *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_averaged_as_a_binary_tree() {
        let mut values = vec![1.0f32, 10.0, 1e-8, 20.0, 3.0, 30.0, 7.0, 40.0];
        average_slices(&mut values, 2);
        let tree = [((1.0f32 + 1e-8) * 0.5 + (3.0f32 + 7.0) * 0.5) * 0.5, 25.0];
        assert_eq!(values[..2], tree);
    }
}
