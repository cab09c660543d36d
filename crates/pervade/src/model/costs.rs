//! Which cells of a row the model did not expect.

use super::Vade;
use crate::Result;
use crate::compute::{ColumnFamily, Device, Likelihood};
use crate::data::Dataset;

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
    /// The observed cells of one row, the least expected first. Empty unless the columns have types.
    pub fn cell_costs<D: Device>(&self, device: &D, data: &Dataset, row: usize) -> Result<Vec<CellCost>> {
        if !matches!(self.metadata.likelihood, Likelihood::Typed { .. }) {
            return Ok(Vec::new());
        }
        let one = data.slice(row..row + 1);
        let one = &*self.matched(&one)?;
        let output = self.outputs(device, &self.embed(device, one)?)?;
        let (preparation, observed) = (&self.metadata.preparation, self.observed());
        let mut cells = vec![0.0; one.n_columns()];
        preparation.prepared_row_into(one, 0, &mut cells);
        let mut expected = Vec::with_capacity(cells.len());
        observed.append_mean(&output, &mut expected);
        let mut in_units = expected.clone();
        preparation.undo(&mut in_units);
        let mut costs = Vec::new();
        for (j, column) in preparation.columns().iter().enumerate() {
            // A mean between two counts or levels has no density.
            let expected =
                if column.family == ColumnFamily::Gaussian { expected[j] } else { expected[j].round() };
            let log_density = |x: f32| column.log_density(x, &output, &observed.scales);
            if let (true, Some(own), Some(best)) =
                (column.is_observed(cells[j]), log_density(cells[j]), log_density(expected))
            {
                let (value, expected) = (one.cell(0, j), f64::from(in_units[j]));
                costs.push(CellCost { column: j, value, expected, nats: (best - own).max(0.0) });
            }
        }
        costs.sort_by(|a, b| b.nats.total_cmp(&a.nats).then(a.column.cmp(&b.column)));
        Ok(costs)
    }
}
