//! The reconstruction term of the ELBO, log p(x|z), in training.

use super::run::Run;
use crate::compute::{self, Device, Likelihood};
use crate::nn::Tape;

/// p(x|z) of a pack on its device: one family for all columns, or a family per column with trained scales.
pub(super) struct Reconstruction<D: Device> {
    /// One per restart.
    likelihoods: Vec<Likelihood>,
    /// The columns, if scales are trained.
    columns: Option<D::Columns>,
}

impl<D: Device> Reconstruction<D> {
    /// Uploads the columns, if the likelihood has trained scales.
    pub(super) fn new(run: &Run<'_, D>, likelihoods: Vec<Likelihood>) -> compute::Result<Self> {
        let table = run.settings.preparation.column_table(run.likelihood);
        let columns = table.map(|table| run.device.columns(table)).transpose()?;
        Ok(Self { likelihoods, columns })
    }

    /// Adds log p(x|z) of the rows in the batch to the sums; the tape's output and scales become its gradient.
    pub(super) fn add(
        &self,
        device: &D,
        batch: &D::Batch,
        tape: &mut Tape<D::Buffer>,
        sums: &mut D::Sums,
    ) -> compute::Result<()> {
        let x = device.batch_rows(batch);
        match &self.columns {
            Some(columns) => device.typed_likelihood(columns, x, &mut tape.output, &mut tape.scales, sums),
            None => device.likelihood(&self.likelihoods, x, &mut tape.output, sums),
        }
    }
}
