//! Affine layers, activations and dropout.

use super::gradient::{CURVED, LINEAR, Step, Tensor, gradient_cases};
use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::{Activation, Affine, Cpu, Draw, Layout, Matrix, Memory, Params, Result, Slot};

/// Rows, inputs and outputs: single numbers, less than a vector, odd rests, and the paper's first layer.
pub(super) const SHAPES: [[usize; 3]; 8] = [
    [1, 1, 1],
    [7, 3, 5],
    [5, 7, 6],
    [31, 127, 33],
    [13, 64, 70],
    [300, 20, 16],
    [53, 301, 77],
    [100, 784, 500],
];
const PRODUCT: Tolerance = Tolerance::Products(1.0);

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let mut cases: Vec<Case<D>> = SHAPES.into_iter().flat_map(affine).collect();
    cases.extend(SIDE_BY_SIDE_LAYERS.into_iter().flat_map(side_by_side));
    cases.extend(activations());
    cases.extend(dropout());
    cases
}

/// A layer with weights and biases.
pub(super) struct Layer {
    pub(super) layout: Layout,
    pub(super) layer: Affine,
}

impl Layer {
    pub(super) fn new(inputs: usize, outputs: usize) -> Self {
        let mut layout = Layout::default();
        let layer = layout.push_affine("layer", inputs, outputs);
        Self { layout, layer }
    }

    /// Its parameters on the device; gradients hold random numbers, which a backward pass overwrites.
    pub(super) fn upload<D: Memory>(
        &self,
        device: &D,
        weight: &[f32],
        bias: &[f32],
    ) -> Result<Params<D::Buffer>> {
        let mut made = Params::zeros(device, 1, self.layout.len())?;
        device.write(&mut made.values, self.layer.weight.offset, weight)?;
        device.write(&mut made.values, self.layer.bias.offset, bias)?;
        device.write(&mut made.gradients, 0, &numbers(self.layout.len(), 1))?;
        Ok(made)
    }

    /// Gradients of weight and bias.
    pub(super) fn gradients<D: Memory>(
        &self,
        device: &D,
        params: &Params<D::Buffer>,
    ) -> Result<[Vec<f32>; 2]> {
        let of = |slot: Slot| read(device, &params.gradients, slot.range());
        Ok([of(self.layer.weight)?, of(self.layer.bias)?])
    }
}

/// x W + b by its definition, [rows, outputs].
pub(super) fn affine_output([b, n, m]: [usize; 3], weight: &[f64], bias: &[f64], x: &[f64]) -> Vec<f64> {
    let mut y = product([b, n, m], |i, k| x[i * n + k], |k, j| weight[k * m + j]);
    y.iter_mut().enumerate().for_each(|(i, y)| *y += bias[i % m]);
    y
}

/// Gradients of weight and bias by their definition.
pub(super) fn affine_gradients([b, n, m]: [usize; 3], x: &[f64], dy: &[f64]) -> [Vec<f64>; 2] {
    let weight = product([n, b, m], |i, k| x[k * n + i], |k, j| dy[k * m + j]);
    let bias = product([1, b, m], |_, _| 1.0, |k, j| dy[k * m + j]);
    [weight, bias]
}

fn affine<D: EveryOperation>(shape: [usize; 3]) -> Vec<Case<D>> {
    let [b, n, m] = shape;
    let (weight, bias) = (numbers(n * m, 10), numbers(m, 11));
    let (x, dy) = (numbers(b * n, 12), numbers(b * m, 13));
    let name = format!("affine layer {b}x{n}x{m}");
    let mut cases = Vec::new();
    for activation in [Activation::Linear, Activation::Relu] {
        let parameters = [weight.clone(), bias.clone(), x.clone()];
        let wide_parameters = parameters.clone().map(|values| wide(&values));
        let expected = move || {
            let [weight, bias, x] = &wide_parameters;
            let y = affine_output(shape, weight, bias, x);
            y.into_iter().map(|y| activated(activation, y)[0]).collect()
        };
        cases.push(Case::new(format!("{name}, {activation:?}"), PRODUCT, expected, move |device: &D| {
            let [weight, bias, x] = &parameters;
            forward(device, shape, [weight, bias, x], activation)
        }));
    }
    // A larger layer has too many parameters for difference quotients.
    let step = (b * n * m <= 250).then_some(LINEAR);
    let tensors = vec![
        Tensor::new("weights", weight.clone(), step),
        Tensor::new("biases", bias.clone(), step),
        Tensor::new("input", x, step),
    ];
    let (wide_dy, dy_of_run) = (wide(&dy), dy.clone());
    cases.extend(gradient_cases(
        &name,
        PRODUCT,
        tensors,
        move |at| {
            let [d_weight, d_bias] = affine_gradients(shape, &at[2], &wide_dy);
            vec![d_weight, d_bias, input_gradient(shape, &at[0], &wide_dy)]
        },
        move |device: &D, at| backward(device, shape, at, &dy_of_run),
    ));
    // The ReLU may be off for a single input, and the loss would not move.
    let step = step.filter(|_| b * n > 1);
    cases.extend(behind_relu(&name, shape, [weight, bias], dy, step));
    cases
}

fn input_gradient([b, n, m]: [usize; 3], weight: &[f64], dy: &[f64]) -> Vec<f64> {
    product([b, m, n], |i, k| dy[i * m + k], |k, j| weight[j * m + k])
}

fn forward<D: EveryOperation>(
    device: &D,
    [b, n, m]: [usize; 3],
    [weight, bias, x]: [&[f32]; 3],
    activation: Activation,
) -> Result<Vec<f32>> {
    let layer = Layer::new(n, m);
    let params = layer.upload(device, weight, bias)?;
    let (x, mut y) = (upload(device, [1, b, n], x)?, occupied(device, [1, b, m])?);
    device.affine(&params, layer.layer, &x, activation, &mut y)?;
    download(device, &y)
}

/// The sum of dy y, and its gradients for weights, biases and x.
fn backward<D: EveryOperation>(
    device: &D,
    [b, n, m]: [usize; 3],
    at: &[Vec<f32>],
    dy: &[f32],
) -> Result<(f64, Vec<Vec<f32>>)> {
    let y = forward(device, [b, n, m], [&at[0], &at[1], &at[2]], Activation::Linear)?;
    let layer = Layer::new(n, m);
    let mut params = layer.upload(device, &at[0], &at[1])?;
    let (x, d_output) = (upload(device, [1, b, n], &at[2])?, upload(device, [1, b, m], dy)?);
    let mut dx = occupied(device, [1, b, n])?;
    device.affine_backward_weights(&mut params, layer.layer, &x, &d_output, None)?;
    device.affine_backward_input(&params, layer.layer, &d_output, None, &mut dx)?;
    let [d_weight, d_bias] = layer.gradients(device, &params)?;
    Ok((weighted_sum(dy, &y), vec![d_weight, d_bias, download(device, &dx)?]))
}

/// The gradient for what enters a ReLU in front of the layer.
fn behind_relu<D: EveryOperation>(
    name: &str,
    shape: [usize; 3],
    [weight, bias]: [Vec<f32>; 2],
    dy: Vec<f32>,
    step: Option<Step>,
) -> Vec<Case<D>> {
    let [b, n, m] = shape;
    let (wide_weight, wide_dy) = (wide(&weight), wide(&dy));
    gradient_cases(
        &format!("{name} behind a ReLU"),
        PRODUCT,
        vec![Tensor::new("input", away_from_zero(b * n, 14), step)],
        move |at| {
            let dx = input_gradient(shape, &wide_weight, &wide_dy);
            vec![dx.iter().zip(&at[0]).map(|(d, x)| d * activated(Activation::Relu, *x)[1]).collect()]
        },
        move |device: &D, at| {
            let relu: Vec<f32> = at[0].iter().map(|x| x.max(0.0)).collect();
            let y = forward(device, shape, [&weight, &bias, &relu], Activation::Linear)?;
            let layer = Layer::new(n, m);
            let params = layer.upload(device, &weight, &bias)?;
            let (relu, mut dx) = (upload(device, [1, b, n], &relu)?, occupied(device, [1, b, n])?);
            let d_output = upload(device, [1, b, m], &dy)?;
            device.affine_backward_input(&params, layer.layer, &d_output, Some(&relu), &mut dx)?;
            Ok((weighted_sum(&dy, &y), vec![download(device, &dx)?]))
        },
    )
}

/// Inputs and outputs of a wide layer, of one that latents enter, and of one that they leave.
const SIDE_BY_SIDE_LAYERS: [[usize; 2]; 3] = [[1108, 500], [10, 500], [2000, 20]];
/// Restarts and rows: several tiles, the last of them not full.
const SIDE_BY_SIDE: [usize; 2] = [6, 113];

/// Products of several restarts, for which a device may have kernels of their own, against the CPU.
fn side_by_side<D: EveryOperation>(layer: [usize; 2]) -> [Case<D>; 2] {
    let [inputs, outputs] = layer;
    let name = format!("affine layer {inputs}x{outputs}, {} restarts", SIDE_BY_SIDE[0]);
    [
        Case::against(
            format!("{name}, Relu"),
            PRODUCT,
            move |_| Ok(wide(&side_by_side_output(&Cpu::new(), layer)?)),
            move |device: &D| Ok(wide(&side_by_side_output(device, layer)?)),
        ),
        Case::against(
            format!("{name}, gradient for input"),
            PRODUCT,
            move |_| Ok(wide(&side_by_side_gradient(&Cpu::new(), layer)?)),
            move |device: &D| Ok(wide(&side_by_side_gradient(device, layer)?)),
        ),
    ]
}

/// Parameters and inputs of all restarts.
fn side_by_side_inputs<D: EveryOperation>(
    device: &D,
    [inputs, outputs]: [usize; 2],
) -> Result<(Affine, Params<D::Buffer>, Matrix<D::Buffer>)> {
    let [r, b] = SIDE_BY_SIDE;
    let Layer { layout, layer } = Layer::new(inputs, outputs);
    let params = params(device, r, &numbers(r * layout.len(), 60))?;
    Ok((layer, params, upload(device, [r, b, inputs], &numbers(r * b * inputs, 61))?))
}

/// relu(x W + b).
fn side_by_side_output<D: EveryOperation>(device: &D, shape: [usize; 2]) -> Result<Vec<f32>> {
    let (layer, params, x) = side_by_side_inputs(device, shape)?;
    let mut y = zeros(device, [x.restarts, x.rows, shape[1]])?;
    device.affine(&params, layer, &x, Activation::Relu, &mut y)?;
    download(device, &y)
}

/// dy W^T where x is above zero.
fn side_by_side_gradient<D: EveryOperation>(device: &D, shape: [usize; 2]) -> Result<Vec<f32>> {
    let (layer, params, x) = side_by_side_inputs(device, shape)?;
    let [r, b] = SIDE_BY_SIDE;
    let dy = upload(device, [r, b, shape[1]], &numbers(r * b * shape[1], 62))?;
    let mut dx = zeros(device, [r, b, shape[0]])?;
    device.affine_backward_input(&params, layer, &dy, Some(&x), &mut dx)?;
    download(device, &dx)
}

/// The value of an activation and its derivative.
pub(super) fn activated(activation: Activation, x: f64) -> [f64; 2] {
    match activation {
        Activation::Linear => [x, 1.0],
        Activation::Relu => [x.max(0.0), f64::from(u8::from(x > 0.0))],
        Activation::LeakyRelu { .. } if x > 0.0 => [x, 1.0],
        Activation::LeakyRelu { slope } => [f64::from(slope) * x, f64::from(slope)],
        Activation::Sigmoid => {
            let y = 1.0 / (1.0 + (-x).exp());
            [y, y * (1.0 - y)]
        }
    }
}

fn activations<D: EveryOperation>() -> Vec<Case<D>> {
    let tolerance = Tolerance::Fixed(1e-6);
    let mut cases = Vec::new();
    for (activation, step) in [
        (Activation::Relu, LINEAR),
        (Activation::LeakyRelu { slope: 0.1 }, LINEAR),
        (Activation::LeakyRelu { slope: 0.0 }, LINEAR),
        (Activation::Sigmoid, CURVED),
    ] {
        for ([b, n], values, step) in
            [([5, 9], away_from_zero(45, 15), Some(step)), ([70, 37], scaled(70 * 37, 16, 6.0), None)]
        {
            let name = format!("{activation:?} {b}x{n}");
            let (x, dy) = (values.clone(), numbers(b * n, 17));
            let expected =
                move || wide(&x).into_iter().map(|x| activated(activation, x)[0]).collect::<Vec<_>>();
            let x = values.clone();
            cases.push(Case::new(name.clone(), tolerance, expected, move |device: &D| {
                let mut y = upload(device, [1, b, n], &x)?;
                device.activate(activation, &mut y)?;
                download(device, &y)
            }));
            let wide_dy = wide(&dy);
            let slopes = move |x: &[f64]| {
                x.iter().zip(&wide_dy).map(|(&x, d)| d * activated(activation, x)[1]).collect()
            };
            cases.extend(gradient_cases(
                &name,
                tolerance,
                vec![Tensor::new("input", values, step)],
                move |at| vec![slopes(&at[0])],
                move |device: &D, at| {
                    let mut y = upload(device, [1, b, n], &at[0])?;
                    device.activate(activation, &mut y)?;
                    let mut dx = upload(device, [1, b, n], &dy)?;
                    device.activate_backward(activation, &y, &mut dx)?;
                    Ok((weighted_sum(&dy, &download(device, &y)?), vec![download(device, &dx)?]))
                },
            ));
        }
    }
    cases
}

const DROPOUT_RATE: f32 = 0.3;
const DROPOUT_STEP: u64 = 9;

/// The factor of each number: zero if it is dropped. [restarts, rows, columns]
fn dropout_factors([restarts, rows, columns]: [usize; 3]) -> Vec<f64> {
    let (keys, rate) = (keys(restarts), f64::from(DROPOUT_RATE));
    let factor = |i: usize| {
        let (row, column) = (i / columns, i % columns);
        let words = keys[row / rows].draw(DROPOUT_STEP, (row % rows) as u32, column as u32 / 4);
        // A word below the rate's share of all words drops its number.
        let kept = f64::from(words[column % 4]) >= rate * 4_294_967_296.0 - 1.0;
        if kept { 1.0 / (1.0 - rate) } else { 0.0 }
    };
    (0..restarts * rows * columns).map(factor).collect()
}

fn dropout<D: EveryOperation>() -> Vec<Case<D>> {
    let mut cases = Vec::new();
    for (shape, step) in [([1, 5, 9], Some(LINEAR)), ([2, 33, 21], None)] {
        let n = shape.iter().product();
        let (x, dy) = (numbers(n, 18), numbers(n, 19));
        let name = format!("dropout {shape:?}");
        let times_factors = move |values: &[f64]| -> Vec<f64> {
            values.iter().zip(dropout_factors(shape)).map(|(value, factor)| value * factor).collect()
        };
        let forward = move |device: &D, x: &[f32]| {
            let (x, mut y) = (upload(device, shape, x)?, occupied(device, shape)?);
            let draw = Draw { keys: &keys(shape[0]), step: DROPOUT_STEP };
            device.dropout(draw, DROPOUT_RATE, &x, &mut y)?;
            download(device, &y)
        };
        let (x_of_run, wide_x, wide_dy) = (x.clone(), wide(&x), wide(&dy));
        cases.push(Case::new(
            name.clone(),
            Tolerance::Fixed(2e-7),
            move || times_factors(&wide_x),
            move |device: &D| forward(device, &x_of_run),
        ));
        cases.extend(gradient_cases(
            &name,
            Tolerance::Fixed(2e-7),
            vec![Tensor::new("input", x, step)],
            move |_| vec![times_factors(&wide_dy)],
            move |device: &D, at| {
                let mut dx = upload(device, shape, &dy)?;
                let draw = Draw { keys: &keys(shape[0]), step: DROPOUT_STEP };
                device.dropout_backward(draw, DROPOUT_RATE, &mut dx)?;
                Ok((weighted_sum(&dy, &forward(device, &at[0])?), vec![download(device, &dx)?]))
            },
        ));
    }
    cases
}
