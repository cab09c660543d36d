//! Running sums of the ELBO's terms.

use super::Cpu;
use crate::{Result, Sums, Terms};

/// Running sums of the terms, and scratch for the terms of each row.
#[derive(Debug)]
pub struct CpuSums {
    pub(super) totals: Vec<Terms>,
    /// B.
    pub(super) n_rows: usize,
    pub(super) per_row: Vec<[f64; 3]>,
}

impl CpuSums {
    /// The scratch of the first `n` rows, filled by tasks and then summed in order.
    pub(super) fn rows(&mut self, n: usize) -> &mut [[f64; 3]] {
        &mut self.per_row[..n]
    }

    /// Adds the log likelihoods in the rows' scratch to the totals: the mean over the samples of each row, with `n_samples`
    /// samples per restart.
    pub(super) fn add_reconstruction(&mut self, n_samples: usize) {
        let per_row = (n_samples / self.n_rows) as f64;
        for (restart, total) in self.totals.iter_mut().enumerate() {
            let rows = &self.per_row[restart * n_samples..(restart + 1) * n_samples];
            total.reconstruction += rows.iter().map(|r| r[0]).sum::<f64>() / per_row;
        }
    }
}

impl Sums for Cpu {
    type Sums = CpuSums;

    fn sums(&self, restarts: usize, n_rows: usize, samples: usize) -> Result<CpuSums> {
        let per_row = vec![[0.0; 3]; restarts * n_rows * samples];
        Ok(CpuSums { totals: vec![Terms::default(); restarts], n_rows, per_row })
    }

    fn take_sums(&self, sums: &mut CpuSums) -> Result<Vec<Terms>> {
        let fresh = vec![Terms::default(); sums.totals.len()];
        Ok(std::mem::replace(&mut sums.totals, fresh))
    }

    fn read_sums(&self, sums: &CpuSums) -> Result<Vec<f64>> {
        Ok(sums.totals.iter().flat_map(Terms::values).collect())
    }

    fn write_sums(&self, sums: &mut CpuSums, values: &[f64]) -> Result<()> {
        let per_restart = values.len() / sums.totals.len();
        sums.totals.iter_mut().zip(values.chunks_exact(per_restart)).for_each(|(total, values)| {
            *total = Terms::total(values);
        });
        Ok(())
    }
}
