//! Matrix products, likelihoods and Adam against double precision.

use pervade::Result;
use pervade::compute::{Activation, AdamStep, Affine, Layout, Likelihood, Matrix, Params};
use pervade_rivals::RivalDevice;

use super::{Check, numbers, read};

/// B, inputs and outputs: none a multiple of a vector's width.
const SIZES: (usize, usize, usize) = (53, 301, 77);

/// All checks of this file; `tolerance` is that of products.
pub(super) fn checks<D: RivalDevice>(device: &D, tolerance: f64) -> Result<Vec<Check>> {
    let mut checks = products(device, tolerance)?;
    checks.push(likelihood(device, "bernoulli likelihood", Likelihood::Bernoulli)?);
    checks.push(likelihood(device, "gaussian likelihood", Likelihood::Gaussian)?);
    checks.push(likelihood(
        device,
        "gaussian likelihood, fixed variance",
        Likelihood::GaussianFixed { variance: 0.5 },
    )?);
    checks.push(adam(device, "Adam", 0.9)?);
    checks.push(adam(device, "Adam, beta1 one half", 0.5)?);
    Ok(checks)
}

fn matrix<D: RivalDevice>(
    device: &D,
    rows: usize,
    columns: usize,
    values: &[f32],
) -> Result<Matrix<D::Buffer>> {
    let mut made = Matrix::zeros(device, 1, rows, columns)?;
    device.write(&mut made.data, 0, values)?;
    Ok(made)
}

/// sum over k of a(i, k) b(k, j), row by row.
fn reference(
    rows: usize,
    inner: usize,
    columns: usize,
    term: impl Fn(usize, usize, usize) -> f64,
) -> Vec<f64> {
    let cell = |i: usize, j: usize| (0..inner).map(|k| term(i, k, j)).sum();
    (0..rows * columns).map(|at| cell(at / columns, at % columns)).collect()
}

/// x W + b, x^T dy and dy W^T.
fn products<D: RivalDevice>(device: &D, tolerance: f64) -> Result<Vec<Check>> {
    let (b, inputs, outputs) = SIZES;
    let mut layout = Layout::default();
    let layer: Affine = layout.push_affine("layer", inputs, outputs);
    let mut params = Params::zeros(device, 1, layout.len())?;
    let values = numbers(layout.len(), 10);
    device.write(&mut params.values, 0, &values)?;
    let (x, dy) = (numbers(b * inputs, 11), numbers(b * outputs, 12));
    let x_matrix = matrix(device, b, inputs, &x)?;
    let dy_matrix = matrix(device, b, outputs, &dy)?;
    let (mut y, mut dx) = (Matrix::zeros(device, 1, b, outputs)?, Matrix::zeros(device, 1, b, inputs)?);
    device.affine(&params, layer, &x_matrix, Activation::Linear, &mut y)?;
    device.affine_backward_weights(&mut params, layer, &x_matrix, &dy_matrix, None)?;
    device.affine_backward_input(&params, layer, &dy_matrix, None, &mut dx)?;
    let (weight, bias) = (&values[layer.weight.range()], &values[layer.bias.range()]);
    let wide = |a: f32, b: f32| f64::from(a) * f64::from(b);
    let mut wanted =
        reference(b, inputs, outputs, |i, k, j| wide(x[i * inputs + k], weight[k * outputs + j]));
    wanted.iter_mut().enumerate().for_each(|(at, y)| *y += f64::from(bias[at % outputs]));
    let wanted_dw = reference(inputs, b, outputs, |i, k, j| wide(x[k * inputs + i], dy[k * outputs + j]));
    let wanted_db = reference(1, b, outputs, |_, k, j| f64::from(dy[k * outputs + j]));
    let wanted_dx =
        reference(b, outputs, inputs, |i, k, j| wide(dy[i * outputs + k], weight[j * outputs + k]));
    Ok(vec![
        Check::new("matrix product, x W + b", tolerance, &read(device, &y.data, 0..b * outputs)?, &wanted),
        Check::new(
            "matrix product, weights' gradient",
            tolerance,
            &read(device, &params.gradients, layer.weight.range())?,
            &wanted_dw,
        ),
        Check::new(
            "biases' gradient",
            tolerance,
            &read(device, &params.gradients, layer.bias.range())?,
            &wanted_db,
        ),
        Check::new(
            "matrix product, input's gradient",
            tolerance,
            &read(device, &dx.data, 0..b * inputs)?,
            &wanted_dx,
        ),
    ])
}

/// log p of one value from the decoder's output o (and, where there is one, the log variance l).
fn log_density(family: Likelihood, x: f64, o: f64, l: f64) -> f64 {
    let tau = std::f64::consts::TAU;
    match family {
        Likelihood::Bernoulli => x * o - o.max(0.0) - (-o.abs()).exp().ln_1p(),
        Likelihood::Gaussian => -0.5 * (tau.ln() + l + (x - o).powi(2) * (-l).exp()),
        Likelihood::GaussianFixed { variance } => {
            let v = f64::from(variance);
            -0.5 * ((tau * v).ln() + (x - o).powi(2) / v)
        }
    }
}

/// The sum over all rows, and the gradient by central differences of the reference.
fn likelihood<D: RivalDevice>(device: &D, name: &str, family: Likelihood) -> Result<Check> {
    let (b, d) = (17, 43);
    let width = family.n_outputs(d);
    let x: Vec<f32> = numbers(b * d, 20).iter().map(|x| 0.5 + 0.5 * x).collect();
    let output: Vec<f32> = numbers(b * width, 21).iter().map(|o| 3.0 * o).collect();
    let x_matrix = matrix(device, b, d, &x)?;
    let mut gradient = matrix(device, b, width, &output)?;
    let mut sums = device.sums(1, b)?;
    device.likelihood(&[family], &x_matrix, &mut gradient, &mut sums)?;
    let total = device.take_sums(&mut sums)?[0].reconstruction;
    let value = |place: usize, nudge: f64| {
        let (row, column) = (place / width, place % width % d);
        let at = |column: usize| {
            f64::from(output[row * width + column]) + if row * width + column == place { nudge } else { 0.0 }
        };
        let l = if width > d { at(d + column) } else { 0.0 };
        log_density(family, f64::from(x[row * d + column]), at(column), l)
    };
    let h = 1e-5;
    let mut wanted: Vec<f64> =
        (0..b * width).map(|place| -(value(place, h) - value(place, -h)) / (2.0 * h) / b as f64).collect();
    let mut got = read(device, &gradient.data, 0..b * width)?;
    // The sum in units of the gradient's largest entry, so that one number judges both.
    let largest = wanted.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let exact: f64 = (0..b * d).map(|i| value(i / d * width + i % d, 0.0)).sum();
    wanted.push(largest);
    got.push((largest * (total / exact)) as f32);
    Ok(Check::new(name, 5e-6, &got, &wanted))
}

/// Three steps of Adam (Kingma and Ba, 2015).
fn adam<D: RivalDevice>(device: &D, name: &str, beta1: f32) -> Result<Check> {
    let n = 1000;
    let (start, gradient, rate, epsilon) = (numbers(n, 30), numbers(n, 31), 0.01f32, 1e-4f32);
    let mut params = Params::zeros(device, 1, n)?;
    params.beta1 = beta1;
    device.write(&mut params.values, 0, &start)?;
    device.write(&mut params.gradients, 0, &gradient)?;
    let mut wanted: Vec<f64> = start.iter().map(|&x| f64::from(x)).collect();
    let (mut first, mut second, beta1) = (vec![0.0; n], vec![0.0; n], f64::from(beta1));
    for step in 1..=3 {
        device.adam(&mut params, &AdamStep { range: 0..n, group: 0, learning_rate: rate, step, epsilon })?;
        for i in 0..n {
            let g = f64::from(gradient[i]);
            first[i] = beta1 * first[i] + (1.0 - beta1) * g;
            second[i] = 0.999 * second[i] + 0.001 * g * g;
            let mean: f64 = first[i] / (1.0 - beta1.powf(step as f64));
            let square: f64 = second[i] / (1.0 - 0.999f64.powf(step as f64));
            wanted[i] -= f64::from(rate) * mean / (square.sqrt() + f64::from(epsilon));
        }
    }
    Ok(Check::new(name, 1e-6, &read(device, &params.values, 0..n)?, &wanted))
}
