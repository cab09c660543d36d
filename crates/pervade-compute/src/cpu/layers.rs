//! Affine layers and their gradients, activations, dropout and Adam, for all restarts.

use rayon::prelude::*;

use super::activation;
use super::adam::{Rates, Weight, adam_range, product_update};
use super::product::{Epilogue, View, product};
use super::simd::{Isa, for_isa};
use super::team::TeamForEach;
use super::{Cpu, M};
use crate::{Activation, AdamStep, Affine, Draw, Layers, Params, Result};

/// Elements per task of an activation or an average.
const CHUNK: usize = 16 * 1024;

impl Layers for Cpu {
    fn affine(
        &self,
        params: &Params<Vec<f32>>,
        layer: Affine,
        x: &M,
        activation: Activation,
        y: &mut M,
    ) -> Result<()> {
        debug_assert_eq!((x.columns, y.columns), (layer.weight.rows, layer.weight.columns));
        let y_stride = y.stride();
        for (restart, y_of) in y.data.chunks_exact_mut(y_stride).enumerate() {
            let values = &params.values[restart * params.stride..];
            let bias = &values[layer.bias.range()];
            let epilogue = match activation {
                Activation::Relu => Epilogue::BiasRelu(bias),
                _ => Epilogue::Bias(bias),
            };
            let x_of = View::new(&x.data[restart * x.stride()..], x.rows, x.columns);
            product(self.isa, x_of, weight(values, layer), epilogue, y_of);
        }
        if activation == Activation::Relu { Ok(()) } else { self.activate(activation, y) }
    }

    fn affine_backward_weights(
        &self,
        params: &mut Params<Vec<f32>>,
        layer: Affine,
        x: &M,
        dy: &M,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        for restart in 0..params.restarts {
            let x_of = View::new(&x.data[restart * x.stride()..], x.rows, x.columns).transposed();
            let dy_of = View::new(&dy.data[restart * dy.stride()..], dy.rows, dy.columns);
            if let Some(step) = update {
                let rates = Rates::new(step, params.beta1);
                let (weight, gradients) = Weight::of(params, restart, layer.weight);
                let [gradient, of_bias] = gradients
                    .get_disjoint_mut([layer.weight.range(), layer.bias.range()])
                    .expect("parameters of different slots");
                product_update(self.isa, x_of, dy_of, rates, weight, gradient, of_bias);
                adam_range(self.isa, params, restart, layer.bias.range(), rates);
            } else {
                let gradients = &mut params.gradients[restart * params.stride..];
                column_sums(self.isa, dy_of, &mut gradients[layer.bias.range()]);
                product(self.isa, x_of, dy_of, Epilogue::Store, &mut gradients[layer.weight.range()]);
            }
        }
        Ok(())
    }

    fn affine_backward_input(
        &self,
        params: &Params<Vec<f32>>,
        layer: Affine,
        dy: &M,
        relu_output: Option<&M>,
        dx: &mut M,
    ) -> Result<()> {
        let dx_stride = dx.stride();
        for (restart, dx) in dx.data.chunks_exact_mut(dx_stride).enumerate() {
            let values = &params.values[restart * params.stride..];
            let epilogue =
                relu_output.map_or(Epilogue::Store, |x| Epilogue::Mask(&x.data[restart * dx_stride..]));
            let dy_of = View::new(&dy.data[restart * dy.stride()..], dy.rows, dy.columns);
            product(self.isa, dy_of, weight(values, layer).transposed(), epilogue, dx);
        }
        Ok(())
    }

    fn activate(&self, activation: Activation, x: &mut M) -> Result<()> {
        if activation != Activation::Linear {
            x.data.par_chunks_mut(CHUNK).team_for_each(|x| activation::apply(self.isa, activation, x));
        }
        Ok(())
    }

    fn activate_backward(&self, activation: Activation, y: &M, dy: &mut M) -> Result<()> {
        assert_eq!(y.data.len(), dy.data.len(), "a gradient for each element");
        if activation != Activation::Linear {
            let pieces = dy.data.par_chunks_mut(CHUNK).zip(y.data.par_chunks(CHUNK));
            pieces.team_for_each(|(dy, y)| activation::backward(self.isa, activation, y, dy));
        }
        Ok(())
    }

    fn dropout(&self, draw: Draw<'_>, rate: f32, x: &M, y: &mut M) -> Result<()> {
        y.data.copy_from_slice(&x.data);
        drop_in_place(draw, rate, y);
        Ok(())
    }

    fn dropout_backward(&self, draw: Draw<'_>, rate: f32, dy: &mut M) -> Result<()> {
        drop_in_place(draw, rate, dy);
        Ok(())
    }

    fn average(&self, from: &Vec<f32>, into: &mut Vec<f32>) -> Result<()> {
        let parts = into.par_chunks_mut(CHUNK).zip(from.par_chunks(CHUNK));
        parts.team_for_each(|(into, from)| into.iter_mut().zip(from).for_each(|(a, b)| *a = 0.5 * (*a + b)));
        Ok(())
    }

    fn adam(&self, params: &mut Params<Vec<f32>>, step: &AdamStep) -> Result<()> {
        if step.learning_rate != 0.0 {
            let rates = Rates::new(step, params.beta1);
            for restart in 0..params.restarts {
                adam_range(self.isa, params, restart, step.range.clone(), rates);
            }
        }
        Ok(())
    }
}

/// Zeroes each element with probability `rate` and scales up the others.
fn drop_in_place(draw: Draw<'_>, rate: f32, x: &mut M) {
    let (columns, rows) = (x.columns, x.rows);
    let keep = 1.0 / (1.0 - rate);
    let threshold = (f64::from(rate) * 4_294_967_296.0) as u32;
    x.data.par_chunks_mut(columns).with_min_len(8).enumerate().team_for_each(|(row, values)| {
        let key = draw.keys[row / rows];
        for (quad, four) in values.chunks_mut(4).enumerate() {
            let words = key.draw(draw.step, (row % rows) as u32, quad as u32);
            for (x, word) in four.iter_mut().zip(words) {
                *x = if word < threshold { 0.0 } else { *x * keep };
            }
        }
    });
}

fn weight(values: &[f32], layer: Affine) -> View<'_> {
    View::new(&values[layer.weight.range()], layer.weight.rows, layer.weight.columns)
}

/// Columns per task of a sum over rows: their sums fit into registers.
const STRIPE: usize = 64;

/// Sum over rows of each column of a row-major matrix.
pub(super) fn column_sums(isa: Isa, matrix: View, sums: &mut [f32]) {
    let (rows, n_columns) = (matrix.row_major(), matrix.columns());
    let sums = &mut sums[..n_columns];
    let stripes = sums.par_chunks_mut(STRIPE).enumerate();
    stripes.team_for_each(|(stripe, sums)| stripe_sums(isa, rows, n_columns, stripe * STRIPE, sums));
}

for_isa! {
    /// Sum over rows of each column from `first` on.
    fn stripe_sums(rows: &[f32], n_columns: usize, first: usize, sums: &mut [f32]) {
        let rows = rows.chunks_exact(n_columns).map(|row| &row[first..]);
        if sums.len() < STRIPE {
            sums.fill(0.0);
            return rows.for_each(|row| sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x));
        }
        let mut in_registers = [0.0; STRIPE];
        for row in rows {
            in_registers.iter_mut().zip(&row[..STRIPE]).for_each(|(sum, x)| *sum += x);
        }
        sums.copy_from_slice(&in_registers);
    }
}
