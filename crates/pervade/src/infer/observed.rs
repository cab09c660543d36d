//! p(x|z) on the host: densities, means and samples from the decoder's output.

use crate::compute::Likelihood;
use crate::data::Preparation;
use crate::nn::Architecture;
use crate::seed::Key;

/// The distribution of a row given z.
pub struct Observed<'a> {
    /// Its family.
    pub likelihood: Likelihood,
    /// How rows were prepared, and the types of their columns.
    pub preparation: &'a Preparation,
    /// The trained log scales; empty if the family has none.
    pub scales: Vec<f32>,
}

impl<'a> Observed<'a> {
    /// That of a model with these parameters. `[P]`
    pub fn new(
        likelihood: Likelihood,
        preparation: &'a Preparation,
        architecture: &Architecture,
        values: &[f32],
    ) -> Self {
        Self { likelihood, preparation, scales: scales(architecture, values) }
    }

    /// log p(x|z) of a prepared row.
    pub fn log_density(&self, x: &[f32], output: &[f32]) -> f64 {
        match self.preparation.column_table(self.likelihood) {
            Some(table) => table.log_density(x, output, &self.scales),
            None => self.likelihood.log_density(x, output),
        }
    }

    /// The mean of a prepared row.
    pub fn append_mean(&self, output: &[f32], rows: &mut Vec<f32>) {
        match self.preparation.column_table(self.likelihood) {
            Some(table) => table.append_mean(output, self.preparation.row_sum(), rows),
            None => self.likelihood.append_mean(output, rows),
        }
    }

    /// A sample of a prepared row; it depends on the key and the row's index.
    pub fn append_draw(&self, output: &[f32], key: Key, row: u64, rows: &mut Vec<f32>) {
        match self.preparation.column_table(self.likelihood) {
            Some(table) => {
                table.append_draw(output, &self.scales, self.preparation.row_sum(), (key, row), rows);
            }
            None => self.likelihood.append_draw(output, (key, row), rows),
        }
    }
}

/// The log scales among a model's parameters: the layer's output for its input, one.
pub(crate) fn scales(architecture: &Architecture, values: &[f32]) -> Vec<f32> {
    let Some(layer) = architecture.scales else { return Vec::new() };
    let (weight, bias) = (&values[layer.weight.range()], &values[layer.bias.range()]);
    weight.iter().zip(bias).map(|(w, b)| w + b).collect()
}
