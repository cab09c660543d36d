//! Rows that are too large for the networks' arithmetic. They must be looked for in the input: a sum that overflows to
//! NaN in a hidden layer is zero after the ReLU, and the answer would look like any other.

use super::Vade;
use crate::data::{Dataset, column_in_words};
use crate::nn::{Architecture, Layer};
use crate::{Error, Hint, Result};

/// Prepared values up to this are never too large: sums of weights that made them so would be beyond reason.
const MODEST: f32 = 1e10;
/// Half of what single precision holds, which leaves room for rounding.
const LARGEST: f64 = f32::MAX as f64 / 2.0;

impl Vade {
    /// Refuses rows for which a sum in the encoder could overflow; in the decoder too, if it is to be used.
    pub(super) fn check_magnitude(&self, data: &Dataset, decoder_too: bool) -> Result<()> {
        let preparation = &self.metadata.preparation;
        preparation.check_columns(data)?;
        let (low, high) = preparation.prepared_range(data);
        if low >= -MODEST && high <= MODEST {
            return Ok(());
        }
        let limit = self.largest_input(decoder_too);
        let mut row = vec![0.0; data.n_columns()];
        let too_large = |&i: &usize| {
            preparation.prepared_row_into(data, i, &mut row);
            // Written so that NaN counts.
            !row.iter().all(|x| f64::from(x.abs()) <= limit)
        };
        match (0..data.n_rows()).find(too_large) {
            Some(i) => Err(self.too_large(data, i)),
            None => Ok(()),
        }
    }

    /// The largest prepared value for which no sum can overflow: |output| <= gain |input| + offset, layer by layer, with
    /// the largest sums of absolute weights and the largest biases.
    fn largest_input(&self, decoder_too: bool) -> f64 {
        let Architecture { encoder, decoder, .. } = &self.architecture;
        let decoder: &[Layer] = if decoder_too { &decoder.layers } else { &[] };
        let (mut gain, mut offset, mut limit) = (1.0, 0.0, LARGEST);
        for layer in encoder.layers.iter().chain(decoder) {
            // Where windows of a transposed convolution overlap, they add up.
            let (overlap, layer) = (layer.overlap() as f64, layer.weights());
            let mut sums = vec![0.0f64; layer.weight.columns];
            for row in self.values[layer.weight.range()].chunks_exact(layer.weight.columns) {
                sums.iter_mut().zip(row).for_each(|(sum, w)| *sum += f64::from(w.abs()));
            }
            let greatest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
            let gain_here = overlap * greatest(&mut sums.into_iter());
            let bias =
                overlap * greatest(&mut self.values[layer.bias.range()].iter().map(|b| f64::from(b.abs())));
            (gain, offset) = (gain * gain_here, offset * gain_here + bias);
            limit = f64::min(limit, (LARGEST - offset) / gain);
        }
        limit
    }

    /// The error for row `i`.
    pub(super) fn too_large(&self, data: &Dataset, i: usize) -> Error {
        let mut row = vec![0.0; data.n_columns()];
        data.row_into(i, &mut row);
        let column = (1..row.len()).fold(0, |most, j| if row[j].abs() > row[most].abs() { j } else { most });
        let names = data.column_names().or(self.column_names());
        let problem = format!(
            "row {} is beyond what the model can compute; its largest value is {:e} in column {}",
            data.row_number(i),
            row[column],
            column_in_words(names, column)
        );
        Error::data(data.source(), problem).with_hint(
            Hint::new("correct or remove the row")
                .also("such rows get very low values from ")
                .command("score"),
        )
    }
}
