//! Detection of rows whose values would overflow in the networks. It must be done on the input: a sum that overflows to
//! NaN in a hidden layer is zero after the ReLU, and the result would look like any other.

use super::Vade;
use crate::data::{Dataset, column_in_words};
use crate::nn::{Architecture, Layer};
use crate::{Error, Hint, Result};

/// Prepared values up to this are never too large for plausible weights.
const MODEST: f32 = 1e10;
/// Half of the largest `f32`, with a margin for rounding.
const LARGEST: f64 = f32::MAX as f64 / 2.0;

impl Vade {
    /// Returns an error if a sum in the encoder or, `with_decoder`, in the decoder could overflow.
    pub(super) fn check_magnitude(&self, data: &Dataset, with_decoder: bool) -> Result<()> {
        let preparation = &self.metadata.preparation;
        preparation.check_columns(data)?;
        let (low, high) = preparation.prepared_range(data);
        if low >= -MODEST && high <= MODEST {
            return Ok(());
        }
        let limit = self.largest_input(with_decoder);
        let is_typed = self.schema().is_some();
        let mut row = vec![0.0; data.n_columns()];
        let too_large = |&i: &usize| {
            preparation.prepared_row_into(data, i, &mut row);
            // NaN is a missing cell, or too large, too.
            !row.iter().all(|x| f64::from(x.abs()) <= limit || (is_typed && x.is_nan()))
        };
        match (0..data.n_rows()).find(too_large) {
            Some(i) => Err(self.too_large(data, i)),
            None => Ok(()),
        }
    }

    /// The largest prepared value for which no sum can overflow. Each layer has |output| <= gain |input| + offset,
    /// where gain is the largest sum of absolute weights and offset the largest absolute bias.
    fn largest_input(&self, with_decoder: bool) -> f64 {
        let Architecture { encoder, decoder, .. } = &self.architecture;
        let decoder: &[Layer] = if with_decoder { &decoder.layers } else { &[] };
        let (mut gain, mut offset, mut limit) = (1.0, 0.0, LARGEST);
        for layer in encoder.layers.iter().chain(decoder) {
            // Overlapping windows of a transposed convolution add up.
            let (overlap, layer) = (layer.overlap() as f64, layer.weights());
            let mut sums = vec![0.0f64; layer.weight.columns];
            for row in self.values[layer.weight.range()].chunks_exact(layer.weight.columns) {
                sums.iter_mut().zip(row).for_each(|(sum, w)| *sum += f64::from(w.abs()));
            }
            let greatest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
            let layer_gain = overlap * greatest(&mut sums.into_iter());
            let bias =
                overlap * greatest(&mut self.values[layer.bias.range()].iter().map(|b| f64::from(b.abs())));
            (gain, offset) = (gain * layer_gain, offset * layer_gain + bias);
            limit = f64::min(limit, (LARGEST - offset) / gain);
        }
        limit
    }

    /// The error for row `i`.
    pub(super) fn too_large(&self, data: &Dataset, i: usize) -> Error {
        let mut row = vec![0.0; data.n_columns()];
        data.row_into(i, &mut row);
        let column = (1..row.len()).fold(0, |max, j| if row[j].abs() > row[max].abs() { j } else { max });
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
