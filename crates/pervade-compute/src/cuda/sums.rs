//! Running sums of the ELBO's terms, on the device.

use super::Cuda;
use super::driver::DeviceMemory;
use crate::{Result, Sums, Terms};

/// Running sums: the terms per sample of a batch, added up on the host by `take_sums`.
pub struct CudaSums {
    slots: DeviceMemory<f64>,
    restarts: usize,
    /// B.
    pub(super) n_rows: usize,
    /// L B.
    pub(super) n_samples: usize,
}

impl CudaSums {
    pub(super) fn address(&self) -> u64 {
        self.slots.address(0)
    }
}

impl Sums for Cuda {
    type Sums = CudaSums;

    fn sums(&self, restarts: usize, n_rows: usize, samples: usize) -> Result<CudaSums> {
        let n_samples = n_rows * samples;
        let slots = self.driver.zeros(restarts * n_samples.max(1) * Terms::N)?;
        Ok(CudaSums { slots, restarts, n_rows, n_samples })
    }

    fn take_sums(&self, sums: &mut CudaSums) -> Result<Vec<Terms>> {
        let slots = self.read_sums(sums)?;
        self.driver.clear(&mut sums.slots)?;
        Ok(slots.chunks_exact(sums.n_samples.max(1) * Terms::N).map(Terms::total).collect())
    }

    fn read_sums(&self, sums: &CudaSums) -> Result<Vec<f64>> {
        let mut slots = vec![0.0f64; sums.restarts * sums.n_samples.max(1) * Terms::N];
        self.driver.read(&sums.slots, 0, &mut slots)?;
        Ok(slots)
    }

    fn write_sums(&self, sums: &mut CudaSums, values: &[f64]) -> Result<()> {
        let per_restart = sums.n_samples.max(1) * Terms::N;
        let mut slots = vec![0.0f64; sums.restarts * per_restart];
        if values.len() == slots.len() {
            slots.copy_from_slice(values);
        } else {
            let of_restart = values.chunks_exact(values.len() / sums.restarts);
            for (slots, values) in slots.chunks_exact_mut(per_restart).zip(of_restart) {
                slots[..Terms::N].copy_from_slice(&Terms::total(values).values());
            }
        }
        self.driver.write(&mut sums.slots, 0, &slots)
    }
}
