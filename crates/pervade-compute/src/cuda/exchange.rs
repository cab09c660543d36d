//! Means over ranks: from device to device by NCCL, as part of the recorded step, or else through host memory.

use super::driver::Kernel;
use super::nccl::{Communicator, Slice};
use super::{Cuda, CudaBuffer, elementwise};
use crate::{Exchange, HostMean, Memory, Ranks, Result};

/// The memory for means over ranks.
pub enum CudaRankMean {
    /// Through host memory.
    Host(HostMean),
    /// From device to device.
    Device(DeviceMean),
}

/// The slice of every rank that this rank averages.
pub struct DeviceMean {
    rank: usize,
    n_ranks: usize,
    /// Elements of a slice; the last slices may be shorter.
    slice: usize,
    len: usize,
    received: CudaBuffer,
}

impl DeviceMean {
    fn new(device: &Cuda, rank: usize, n_ranks: usize, len: usize) -> Result<Self> {
        let slice = len.div_ceil(n_ranks);
        Ok(Self { rank, n_ranks, slice, len, received: device.zeros(n_ranks * slice)? })
    }

    /// The slice of a buffer that `rank` averages.
    fn slice_of(&self, buffer: &CudaBuffer, rank: usize) -> Slice {
        let first = (rank * self.slice).min(self.len);
        let len = self.slice.min(self.len - first);
        Slice { address: buffer.address(first), len }
    }
}

impl Cuda {
    /// Each rank gets its slice of all ranks' buffers, averages them, and sends the mean to all.
    fn average_slices(
        &self,
        communicator: &Communicator,
        mean: &mut DeviceMean,
        buffer: &CudaBuffer,
    ) -> Result<()> {
        self.sync_all_pending()?;
        let own = mean.slice_of(buffer, mean.rank);
        let of_buffer = || (0..mean.n_ranks).map(|rank| mean.slice_of(buffer, rank));
        let received = (0..mean.n_ranks)
            .map(|rank| Slice { address: mean.received.address(rank * mean.slice), len: own.len });
        let stream = self.driver.main_stream();
        // SAFETY: slices of live buffers; side streams were waited for above.
        unsafe { communicator.exchange(of_buffer(), received, stream) }?;
        let first = mean.received.address(0);
        let sizes = [mean.n_ranks.into(), mean.slice.into(), own.len.into()];
        let [n_ranks, slice, len] = sizes;
        if own.len > 0 {
            self.driver
                .launch(elementwise(Kernel::AverageSlices, own.len), &[first.into(), n_ranks, slice, len])?;
        }
        let averaged = (0..mean.n_ranks).map(|_| Slice { address: first, len: own.len });
        // SAFETY: as above.
        unsafe { communicator.exchange(averaged, of_buffer(), stream) }?;
        self.driver.disable_early_launch();
        Ok(())
    }

    fn communicator(&self) -> Option<&Communicator> {
        self.communicator.get()?.as_ref()
    }
}

impl Exchange for Cuda {
    type RankMean = CudaRankMean;

    fn rank_mean(&self, ranks: &dyn Ranks, len: usize) -> Result<CudaRankMean> {
        let (rank, n_ranks) = (ranks.rank(), ranks.size());
        if n_ranks > 1 && self.communicator.get().is_none() {
            let connected = Communicator::connect(ranks, self.driver.uuid()?, self.shares_device)?;
            // Set by this thread alone.
            drop(self.communicator.set(connected));
        }
        Ok(match self.communicator() {
            Some(_) if n_ranks > 1 => CudaRankMean::Device(DeviceMean::new(self, rank, n_ranks, len)?),
            _ => CudaRankMean::Host(HostMean::new(n_ranks, len)),
        })
    }

    fn average_over_ranks(
        &self,
        mean: &mut CudaRankMean,
        ranks: &dyn Ranks,
        buffer: &mut CudaBuffer,
    ) -> Result<()> {
        match (mean, self.communicator()) {
            (CudaRankMean::Host(mean), _) => mean.average(self, ranks, buffer),
            (CudaRankMean::Device(mean), Some(communicator)) => {
                self.average_slices(communicator, mean, buffer)
            }
            (CudaRankMean::Device(_), None) => unreachable!("made with a communicator"),
        }
    }

    fn device_exchange(&self) -> Option<String> {
        self.communicator().map(Communicator::name)
    }
}
