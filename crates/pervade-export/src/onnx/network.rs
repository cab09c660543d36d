//! Layers of the networks: products with weights, and convolutions over images whose channels come last.

use pervade::compute::{Affine, Windows};
use pervade::model::Parts;
use pervade::nn::{Layer, Network};

use super::graph::{Attribute, Graph, Value};

/// The output of a network for the rows `x`, with a ReLU after each layer but the last. `[batch, outputs]`
pub(super) fn network(g: &mut Graph, parts: &Parts<'_>, name: &str, network: &Network, x: &str) -> Value {
    let mut x = x.to_string();
    for (i, layer) in network.layers.iter().enumerate() {
        let weights = Weights { parts, affine: layer.weights(), name: format!("{name}.{i}") };
        x = match layer {
            Layer::Affine(_) => weights.affine(g, &x),
            Layer::Convolution(layer) => weights.convolution(g, &layer.windows, &x),
            Layer::TransposedConvolution(layer) => weights.transposed(g, &layer.windows, &x),
        };
        if i + 1 < network.layers.len() {
            x = g.op("Relu", &[&x]);
        }
    }
    x
}

/// Weights and biases of a layer.
struct Weights<'a> {
    parts: &'a Parts<'a>,
    affine: Affine,
    name: String,
}

impl Weights<'_> {
    fn weight(&self) -> &[f32] {
        &self.parts.values[self.affine.weight.range()]
    }

    fn bias(&self) -> &[f32] {
        &self.parts.values[self.affine.bias.range()]
    }

    fn affine(&self, g: &mut Graph, x: &str) -> Value {
        let [rows, columns] = [self.affine.weight.rows, self.affine.weight.columns];
        let weight = g.weights(&format!("{}.weight", self.name), &[rows, columns], self.weight());
        let bias = g.weights(&format!("{}.bias", self.name), &[columns], self.bias());
        g.op("Gemm", &[x, &weight, &bias])
    }

    /// Weights are [k, k, C, outputs], ONNX has [outputs, C, k, k].
    fn convolution(&self, g: &mut Graph, windows: &Windows, x: &str) -> Value {
        let (outputs, size, channels) = (self.affine.weight.columns, windows.size, windows.channels);
        let from = |o: usize, c: usize, pixel: usize| (pixel * channels + c) * outputs + o;
        let order = |o: usize| (0..channels).flat_map(move |c| (0..size * size).map(move |p| from(o, c, p)));
        let values: Vec<f32> = (0..outputs).flat_map(order).map(|at| self.weight()[at]).collect();
        let dims = [outputs, channels, size, size];
        let weight = g.weights(&format!("{}.weight", self.name), &dims, &values);
        let bias = g.weights(&format!("{}.bias", self.name), &[outputs], self.bias());
        let image = channels_first(g, x, [windows.height, windows.width, channels]);
        let [strides, pads] = moves(windows);
        let shape = [Attribute::Integers("strides", &strides), Attribute::Integers("pads", &pads)];
        let y = g.op_with("Conv", &[&image, &weight, &bias], &shape);
        channels_last(g, &y)
    }

    /// Weights are [inputs, k, k, C], ONNX has [inputs, C, k, k]. Biases belong to the elements of windows: their sum is one
    /// constant image.
    fn transposed(&self, g: &mut Graph, windows: &Windows, x: &str) -> Value {
        let (inputs, size, channels) = (self.affine.weight.rows, windows.size, windows.channels);
        let from = |i: usize, c: usize, pixel: usize| (i * size * size + pixel) * channels + c;
        let order = |i: usize| (0..channels).flat_map(move |c| (0..size * size).map(move |p| from(i, c, p)));
        let values: Vec<f32> = (0..inputs).flat_map(order).map(|at| self.weight()[at]).collect();
        let dims = [inputs, channels, size, size];
        let weight = g.weights(&format!("{}.weight", self.name), &dims, &values);
        let [down, across] = windows.count();
        let image = channels_first(g, x, [down, across, inputs]);
        let ([strides, pads], reached) =
            (moves(windows), |n: usize| (n - 1) * windows.stride + windows.size - 2 * windows.padding);
        let rest = [windows.height - reached(down), windows.width - reached(across)].map(|n| n as i64);
        let shape = [
            Attribute::Integers("strides", &strides),
            Attribute::Integers("pads", &pads),
            Attribute::Integers("output_padding", &rest),
        ];
        let y = g.op_with("ConvTranspose", &[&image, &weight], &shape);
        let flat = channels_last(g, &y);
        let bias =
            g.weights(&format!("{}.bias", self.name), &[windows.image_len()], &self.bias_image(windows));
        g.add(&flat, &bias)
    }

    /// The sum of the biases of all windows.
    fn bias_image(&self, windows: &Windows) -> Vec<f32> {
        let Windows { height, width, channels, size, stride, padding } = *windows;
        let mut image = vec![0.0; windows.image_len()];
        let [down, across] = windows.count();
        for (at, bias) in (0..down * across).flat_map(|window| {
            self.bias().iter().enumerate().map(move |(i, bias)| ((window, i / channels, i % channels), bias))
        }) {
            let (window, pixel, channel) = at;
            let top = (window / across * stride + pixel / size).checked_sub(padding).filter(|&y| y < height);
            let left = (window % across * stride + pixel % size).checked_sub(padding).filter(|&x| x < width);
            if let (Some(y), Some(x)) = (top, left) {
                image[(y * width + x) * channels + channel] += bias;
            }
        }
        image
    }
}

/// Strides and padding of windows.
fn moves(windows: &Windows) -> [Vec<i64>; 2] {
    [vec![windows.stride as i64; 2], vec![windows.padding as i64; 4]]
}

/// Rows of pixels as images. `[batch, channels, height, width]`
fn channels_first(g: &mut Graph, x: &str, image: [usize; 3]) -> Value {
    let [height, width, channels] = image.map(|n| n as i64);
    let shape = g.integers(&[-1, height, width, channels]);
    let image = g.op("Reshape", &[x, &shape]);
    g.op_with("Transpose", &[&image], &[Attribute::Integers("perm", &[0, 3, 1, 2])])
}

/// Images as rows of pixels.
fn channels_last(g: &mut Graph, image: &str) -> Value {
    let image = g.op_with("Transpose", &[image], &[Attribute::Integers("perm", &[0, 2, 3, 1])]);
    g.op_with("Flatten", &[&image], &[Attribute::Integer("axis", 1)])
}
