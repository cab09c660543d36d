//! Affine layers and their gradients, all restarts.

use super::adam::{Rates, adam_range, product_update};
use super::product::{Epilogue, View, product};
use super::simd::{Isa, for_isa};
use super::{Activation, AdamStep, Affine, M, Params};

/// y = activation(x W + b).
pub(super) fn forward(
    isa: Isa,
    params: &Params<Vec<f32>>,
    layer: Affine,
    x: &M,
    activation: Activation,
    y: &mut M,
) {
    debug_assert_eq!((x.columns, y.columns), (layer.weight.rows, layer.weight.columns));
    let y_stride = y.stride();
    for (restart, y) in y.data.chunks_exact_mut(y_stride).enumerate() {
        let values = &params.values[restart * params.stride..];
        let bias = &values[layer.bias.range()];
        let epilogue = match activation {
            Activation::Linear => Epilogue::Bias(bias),
            Activation::Relu => Epilogue::BiasRelu(bias),
        };
        let x_of = View::new(&x.data[restart * x.stride()..], x.rows, x.columns);
        product(isa, x_of, weight(values, layer), epilogue, y);
    }
}

/// dW = x^T dy, db = column sums of dy; or the layer after a step of Adam with these.
pub(super) fn backward_weights(
    isa: Isa,
    params: &mut Params<Vec<f32>>,
    layer: Affine,
    x: &M,
    dy: &M,
    update: Option<&AdamStep>,
) {
    for restart in 0..params.restarts {
        let base = restart * params.stride;
        let x_of = View::new(&x.data[restart * x.stride()..], x.rows, x.columns).transposed();
        let dy_of = &dy.data[restart * dy.stride()..(restart + 1) * dy.stride()];
        let dy_view = View::new(dy_of, dy.rows, dy.columns);
        let (weight, rates) = (layer.weight.range(), update.map(|step| Rates::new(step, params.beta1)));
        let (d_weight, d_bias) = params.gradients[base..].split_at_mut(layer.bias.offset);
        let d_bias = &mut d_bias[..layer.bias.columns];
        // The sums are short work for one thread while another begins with the product.
        rayon::join(
            || match rates {
                Some(rates) => {
                    let [p, m, v] =
                        [&mut params.values, &mut params.first_moments, &mut params.second_moments]
                            .map(|buffer| &mut buffer[base..][weight.clone()]);
                    product_update(isa, x_of, dy_view, rates, p, m, v);
                }
                None => product(isa, x_of, dy_view, Epilogue::Store, &mut d_weight[weight.clone()]),
            },
            || column_sums(isa, dy_of, d_bias),
        );
        if let Some(rates) = rates {
            adam_range(isa, params, restart, layer.bias.range(), rates);
        }
    }
}

/// dx = dy W^T, masked by the ReLU that made x.
pub(super) fn backward_input(
    isa: Isa,
    params: &Params<Vec<f32>>,
    layer: Affine,
    dy: &M,
    relu_output: Option<&M>,
    dx: &mut M,
) {
    let dx_stride = dx.stride();
    for (restart, dx) in dx.data.chunks_exact_mut(dx_stride).enumerate() {
        let values = &params.values[restart * params.stride..];
        let epilogue =
            relu_output.map_or(Epilogue::Store, |x| Epilogue::Mask(&x.data[restart * dx_stride..]));
        let dy_of = View::new(&dy.data[restart * dy.stride()..], dy.rows, dy.columns);
        product(isa, dy_of, weight(values, layer).transposed(), epilogue, dx);
    }
}

fn weight(values: &[f32], layer: Affine) -> View<'_> {
    View::new(&values[layer.weight.range()], layer.weight.rows, layer.weight.columns)
}

for_isa! {
    /// Sum over rows of each column.
    pub(super) fn column_sums(rows: &[f32], sums: &mut [f32]) {
        sums.fill(0.0);
        for row in rows.chunks_exact(sums.len()) {
            for (sum, &x) in sums.iter_mut().zip(row) {
                *sum += x;
            }
        }
    }
}
