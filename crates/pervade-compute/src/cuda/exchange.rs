//! Means over ranks: from device to device by NCCL, as part of the recorded step, or else through host memory.

use std::sync::Arc;

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
    communicator: Arc<Communicator>,
    rank: usize,
    n_ranks: usize,
    /// Elements of a slice; the last slices may be shorter.
    slice: usize,
    len: usize,
    received: CudaBuffer,
}

impl DeviceMean {
    fn new(device: &Cuda, communicator: Arc<Communicator>, ranks: &dyn Ranks, len: usize) -> Result<Self> {
        let (rank, n_ranks) = (ranks.rank(), ranks.size());
        let slice = len.div_ceil(n_ranks);
        let received = device.zeros(n_ranks * slice)?;
        Ok(Self { communicator, rank, n_ranks, slice, len, received })
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
    fn average_slices(&self, mean: &DeviceMean, buffer: &CudaBuffer) -> Result<()> {
        self.sync_all_pending()?;
        let own = mean.slice_of(buffer, mean.rank);
        let of_buffer = || (0..mean.n_ranks).map(|rank| mean.slice_of(buffer, rank));
        let received = (0..mean.n_ranks)
            .map(|rank| Slice { address: mean.received.address(rank * mean.slice), len: own.len });
        let stream = self.driver.main_stream();
        // SAFETY: slices of live buffers; side streams were waited for above.
        unsafe { mean.communicator.exchange(of_buffer(), received, stream) }?;
        let first = mean.received.address(0);
        if own.len > 0 {
            let args = [first.into(), mean.n_ranks.into(), mean.slice.into(), own.len.into()];
            self.driver.launch(elementwise(Kernel::AverageSlices, own.len), &args)?;
        }
        let averaged = (0..mean.n_ranks).map(|_| Slice { address: first, len: own.len });
        // SAFETY: as above.
        unsafe { mean.communicator.exchange(averaged, of_buffer(), stream) }?;
        self.driver.disable_early_launch();
        Ok(())
    }

    fn communicator(&self) -> Option<&Arc<Communicator>> {
        self.communicator.get()?.as_ref()
    }
}

impl Exchange for Cuda {
    type RankMean = CudaRankMean;

    fn rank_mean(&self, ranks: &dyn Ranks, len: usize) -> Result<CudaRankMean> {
        if ranks.size() == 1 {
            return Ok(CudaRankMean::Host(HostMean::new(1, len)));
        }
        if self.communicator.get().is_none() {
            let connected = Communicator::connect(ranks, self.driver.uuid()?, self.shares_device)?;
            // Set by this thread alone.
            drop(self.communicator.set(connected.map(Arc::new)));
        }
        Ok(match self.communicator() {
            Some(connected) => CudaRankMean::Device(DeviceMean::new(self, connected.clone(), ranks, len)?),
            None => CudaRankMean::Host(HostMean::new(ranks.size(), len)),
        })
    }

    fn average_over_ranks(
        &self,
        mean: &mut CudaRankMean,
        ranks: &dyn Ranks,
        buffer: &mut CudaBuffer,
    ) -> Result<()> {
        match mean {
            CudaRankMean::Host(mean) => mean.average(self, ranks, buffer),
            CudaRankMean::Device(mean) => self.average_slices(mean, buffer),
        }
    }

    fn device_exchange(&self) -> Option<&str> {
        self.communicator().map(|communicator| communicator.name())
    }
}
