//! Convolutions, their transposes and batch normalisation with their gradients against PyTorch;
//! `testdata/oracle/make_images.py` wrote the values.

use crate::common::Oracle;
use crate::common::ops::{Floats, assert_tensor_close, matrix, named_params, zeros};
use pervade::compute::prelude::*;
use pervade::compute::{Activation, Cpu, Layout, Matrix, NormSlots, Params, Windows};
use pervade::nn::{Convolution, TransposedConvolution};

const TOLERANCE: f64 = 1e-5;

/// The tensors of one case.
struct Case {
    oracle: Oracle,
    name: String,
}

impl Case {
    fn new(name: String) -> Self {
        Self { oracle: Oracle::open("images.safetensors"), name }
    }

    fn given(&self, name: &str) -> Floats {
        self.oracle.f32(&format!("{}/{name}", self.name))
    }

    fn rows(&self, name: &str, columns: usize) -> Matrix<Floats> {
        let values = self.given(name);
        matrix(1, values.len() / columns, columns, values)
    }

    #[track_caller]
    fn check(&self, name: &str, ours: &[f32]) {
        let theirs = self.oracle.f64(&format!("{}/{name}", self.name));
        assert_tensor_close(ours, &theirs, TOLERANCE, &format!("{}: {name}", self.name));
    }

    /// Parameters with the names of the case's tensors.
    fn params(&self, layout: &Layout) -> Params<Floats> {
        named_params(layout, |name| self.given(name.rsplit('.').next().unwrap()))
    }
}

#[test]
fn convolutions() {
    for (name, [n, height, width, channels, size, stride, padding, outputs]) in [
        ("halving", [3, 8, 8, 5, 4, 2, 1, 6]),
        ("odd", [2, 7, 5, 3, 3, 2, 1, 4]),
        ("no padding", [2, 6, 9, 2, 3, 3, 0, 3]),
        ("one pixel", [1, 1, 1, 4, 1, 1, 0, 2]),
    ] {
        let (cpu, case) = (Cpu::new(), Case::new(format!("convolution/{name}")));
        let windows = Windows { height, width, channels, size, stride, padding };
        let mut layout = Layout::default();
        let layer = Convolution::new(&mut layout, "layer", windows, outputs);
        let mut params = case.params(&layout);
        let (x, dy) = (case.rows("x", windows.image_len()), case.rows("dy", outputs));
        let (mut unfolded, mut y) = (zeros(1, dy.rows, windows.window_len()), zeros(1, dy.rows, outputs));
        layer.forward(&cpu, &params, &x, &mut unfolded, Activation::Linear, &mut y).unwrap();
        case.check("y", &y.data);
        let (mut d_unfolded, mut dx) = (unfolded.clone(), matrix(1, n, x.columns, vec![9.0; x.data.len()]));
        layer.backward_input(&cpu, &params, &dy, &mut d_unfolded, &mut dx).unwrap();
        case.check("gradient/x", &dx.data);
        layer.backward_weights(&cpu, &mut params, &unfolded, &dy, None).unwrap();
        case.check("gradient/weight", &params.gradients[layer.layer.weight.range()]);
        case.check("gradient/bias", &params.gradients[layer.layer.bias.range()]);
    }
}

#[test]
fn transposed_convolutions() {
    for (name, inputs, [height, width, channels, size, stride, padding]) in
        [("doubling", 6, [8, 8, 5, 4, 2, 1]), ("odd", 3, [7, 11, 2, 3, 2, 0])]
    {
        let (cpu, case) = (Cpu::new(), Case::new(format!("transposed/{name}")));
        let windows = Windows { height, width, channels, size, stride, padding };
        let mut layout = Layout::default();
        let layer = TransposedConvolution::new(&mut layout, "layer", inputs, windows);
        let mut params = case.params(&layout);
        let (x, dy) = (case.rows("x", inputs), case.rows("dy", windows.image_len()));
        let (mut unfolded, mut y) = (zeros(1, x.rows, windows.window_len()), zeros(1, dy.rows, dy.columns));
        layer.forward(&cpu, &params, &x, &mut unfolded, &mut y).unwrap();
        case.check("y", &y.data);
        let mut dx = zeros(1, x.rows, inputs);
        layer.backward_input(&cpu, &params, &dy, None, &mut unfolded, &mut dx).unwrap();
        case.check("gradient/x", &dx.data);
        layer.backward_weights(&cpu, &mut params, &x, &unfolded, None).unwrap();
        case.check("gradient/weight", &params.gradients[layer.layer.weight.range()]);
        case.check("gradient/bias", &params.gradients[layer.layer.bias.range()]);
    }
}

#[test]
fn batch_normalisation() {
    for (name, columns, groups) in [("one group", 5, 1), ("two groups", 37, 2), ("two rows", 3, 2)] {
        let (cpu, case) = (Cpu::new(), Case::new(format!("norm/{name}")));
        let mut layout = Layout::default();
        let layer = NormSlots::new(&mut layout, "layer", columns);
        let mut params = case.params(&layout);
        let (x, dy) = (case.rows("x", columns), case.rows("dy", columns));
        let mut statistics = zeros(1, NormSlots::statistics_rows(groups), columns);
        let (mut y, mut dx) = (zeros(1, x.rows, columns), zeros(1, x.rows, columns));
        cpu.batch_norm_inference(&params, layer, &x, &mut y).unwrap();
        case.check("kept", &y.data);
        cpu.batch_norm(&params, layer, &x, &mut statistics, &mut y).unwrap();
        case.check("y", &y.data);
        cpu.batch_norm_backward_input(&params, layer, &x, &dy, &mut statistics, &mut dx).unwrap();
        if name == "two rows" {
            // Two rows mirror each other: only the contribution of epsilon is left of the gradient.
            let largest = dx.data.iter().fold(0.0, |most: f32, d| most.max(d.abs()));
            assert!(largest < 1e-2, "{largest}");
        } else {
            case.check("gradient/x", &dx.data);
        }
        cpu.batch_norm_backward_weights(&mut params, layer, &statistics, None).unwrap();
        case.check("gradient/gain", &params.gradients[layer.gain.range()]);
        case.check("gradient/shift", &params.gradients[layer.shift.range()]);
        case.check("after/mean", &params.values[layer.mean.range()]);
        case.check("after/variance", &params.values[layer.variance.range()]);
    }
}
