//! Which cells of a row the model did not expect.

use super::Vade;
use crate::Result;
use crate::compute::{ColumnFamily, Device, Likelihood};
use crate::data::{Dataset, PrepareKind};

/// A cell and what the model expects there.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CellCost {
    /// Index of the column.
    pub column: usize,
    /// The cell, in the units of the data.
    pub value: f64,
    /// The mean or most likely level of p(x|z) at the row's latent mean, in the units of the data.
    pub expected: f64,
    /// How much less likely the cell is than the expected value, in nats.
    pub nats: f64,
}

impl Vade {
    /// The observed cells of one row, the least expected first. Empty unless each cell has a density of its own that can be told in
    /// the units of the data: columns with types, or Gaussian ones whose rows are not scaled to one length.
    pub fn cell_costs<D: Device>(&self, device: &D, data: &Dataset, row: usize) -> Result<Vec<CellCost>> {
        let (preparation, likelihood) = (&self.metadata.preparation, self.metadata.likelihood);
        let is_row_norm = preparation.kind() == PrepareKind::RowNorm;
        let has_costs = match likelihood {
            Likelihood::Typed { .. } => true,
            Likelihood::Gaussian | Likelihood::GaussianFixed { .. } => !is_row_norm,
            _ => false,
        };
        if !has_costs {
            return Ok(Vec::new());
        }
        let one = data.slice(row..row + 1);
        let one = &*self.matched(&one)?;
        let output = self.outputs(device, &self.embed(device, one)?)?;
        let observed = self.observed();
        let mut cells = vec![0.0; one.n_columns()];
        preparation.prepared_row_into(one, 0, &mut cells);
        let mut expected = Vec::with_capacity(cells.len());
        observed.append_mean(&output, &mut expected);
        let mut in_units = expected.clone();
        preparation.undo(&mut in_units);
        let mut costs = Vec::new();
        for (j, &cell) in cells.iter().enumerate() {
            let nats = match preparation.columns().get(j) {
                Some(column) => {
                    // A mean between two counts or levels has no density.
                    let is_gaussian = column.family == ColumnFamily::Gaussian;
                    let expected = if is_gaussian { expected[j] } else { expected[j].round() };
                    let log_density = |x: f32| column.log_density(x, &output, &observed.scales);
                    let known = (log_density(cell), log_density(expected));
                    if let (true, (Some(own), Some(best))) = (column.is_observed(cell), known) {
                        best - own
                    } else {
                        continue;
                    }
                }
                None => gaussian_cost(likelihood, cell, &output, j, cells.len()),
            };
            let (value, expected) = (one.cell(0, j), f64::from(in_units[j]));
            costs.push(CellCost { column: j, value, expected, nats: nats.max(0.0) });
        }
        costs.sort_by(|a, b| b.nats.total_cmp(&a.nats).then(a.column.cmp(&b.column)));
        Ok(costs)
    }
}

/// How much less likely a cell is than its mean.
fn gaussian_cost(likelihood: Likelihood, cell: f32, output: &[f32], j: usize, d: usize) -> f64 {
    let mean = output[j];
    // The log variances follow the means, if there are any.
    let of_column: Vec<f32> = [Some(&mean), output.get(d + j)].into_iter().flatten().copied().collect();
    likelihood.log_density(&[mean], &of_column) - likelihood.log_density(&[cell], &of_column)
}
