//! Softmax over some columns, blocks of columns, drawn codes and their likelihood.

use super::gradient::{CURVED, Step, Tensor, gradient_cases};
use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::{Cpu, Draw, Result};

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let mut cases = softmax([2, 3, 7], 4, Some(CURVED));
    cases.extend(softmax([2, 150, 14], 10, None));
    cases.push(far_logits());
    cases.extend([blocks_in_parts(), columns_side_by_side()]);
    cases.extend([drawn_codes(), choices_of_codes()]);
    // With log variances of the numbers, and without.
    for with_variances in [true, false] {
        let small = Sizes { rows: 5, outputs: 8, choices: 4, numbers: 3, with_variances };
        let large = Sizes { rows: 100, outputs: 150, choices: 7, numbers: 3, with_variances };
        cases.extend(code_likelihood(small, 2.0, Some(CURVED)));
        cases.extend(code_likelihood(large, 3.0, None));
    }
    cases
}

/// The softmax of the first `n` columns of a row; the others stay.
fn softmax_of_row(x: &[f64], n: usize) -> Vec<f64> {
    let total = log_sum_exp(&x[..n]);
    x.iter().enumerate().map(|(i, x)| if i < n { (x - total).exp() } else { *x }).collect()
}

fn softmax<D: EveryOperation>(shape: [usize; 3], n: usize, step: Option<Step>) -> Vec<Case<D>> {
    let (columns, len) = (shape[2], shape.iter().product());
    let (x, dy) = (numbers(len, 43), numbers(len, 44));
    let name = format!("softmax {shape:?}");
    let forward = move |device: &D, x: &[f32]| {
        let mut y = upload(device, shape, x)?;
        device.softmax(n, &mut y)?;
        Ok(y)
    };
    let (wide_x, x_of_run) = (wide(&x), x.clone());
    let mut cases = vec![Case::new(
        name.clone(),
        Tolerance::Fixed(2e-6),
        move || wide_x.chunks(columns).flat_map(|x| softmax_of_row(x, n)).collect(),
        move |device: &D| download(device, &forward(device, &x_of_run)?),
    )];
    let wide_dy = wide(&dy);
    let backward_of_row = move |(x, dy): (&[f64], &[f64])| -> Vec<f64> {
        let y = softmax_of_row(x, n);
        let mean: f64 = y[..n].iter().zip(dy).map(|(y, d)| y * d).sum();
        (0..columns).map(|i| if i < n { y[i] * (dy[i] - mean) } else { dy[i] }).collect()
    };
    cases.extend(gradient_cases(
        &name,
        Tolerance::Fixed(2e-6),
        vec![Tensor::new("input", x, step)],
        move |at| {
            vec![at[0].chunks(columns).zip(wide_dy.chunks(columns)).flat_map(backward_of_row).collect()]
        },
        move |device: &D, at| {
            let (y, mut dx) = (forward(device, &at[0])?, upload(device, shape, &dy)?);
            device.softmax_backward(n, &y, &mut dx)?;
            Ok((weighted_sum(&dy, &download(device, &y)?), vec![download(device, &dx)?]))
        },
    ));
    cases
}

/// Logits beyond what the exponential function holds.
fn far_logits<D: EveryOperation>() -> Case<D> {
    let row = [1e4, -1e4, 0.0, 1e4 - 1.0, 0.5, 0.25];
    let expected = move || softmax_of_row(&wide(&row), 4).repeat(6);
    Case::new("softmax, logits of 10,000", Tolerance::Fixed(2e-6), expected, move |device: &D| {
        let mut y = upload(device, [2, 3, 6], &row.repeat(6))?;
        device.softmax(4, &mut y)?;
        download(device, &y)
    })
}

/// A block of a matrix copied in two parts, by rows.
fn blocks_in_parts<D: EveryOperation>() -> Case<D> {
    let [r, b, columns] = [2, 150, 14];
    let x = move || numbers(r * b * columns, 45);
    let expected = move || {
        let entry = |i: usize| {
            let (restart, row, column) = (i / (6 * (b + 3)), i / 6 % (b + 3), i % 6);
            let is_inside = row >= 3 && (1..5).contains(&column);
            if is_inside { f64::from(x()[(restart * b + row - 3) * columns + column + 1]) } else { 0.0 }
        };
        (0..r * (b + 3) * 6).map(entry).collect()
    };
    Case::new("block copied in parts", Tolerance::Fixed(0.0), expected, move |device: &D| {
        let (x, mut block) = (upload(device, [r, b, columns], &x())?, zeros(device, [r, b + 3, 6])?);
        device.copy_block(&x, 0..40, 2..6, &mut block, [3, 1])?;
        device.copy_block(&x, 40..b, 2..6, &mut block, [43, 1])?;
        download(device, &block)
    })
}

fn columns_side_by_side<D: EveryOperation>() -> Case<D> {
    let x = || numbers(2 * 3 * 5, 46);
    let expected = move || {
        let entry = |i: usize| {
            let (restart, row, column) = (i / 42, i / 6 % 7, i % 6);
            let is_inside = row >= 4 && (2..5).contains(&column);
            if is_inside { f64::from(x()[(restart * 3 + row - 4) * 5 + column - 1]) } else { 0.0 }
        };
        (0..2 * 7 * 6).map(entry).collect()
    };
    Case::new("columns side by side", Tolerance::Fixed(0.0), expected, move |device: &D| {
        let (x, mut y) = (upload(device, [2, 3, 5], &x())?, zeros(device, [2, 7, 6])?);
        device.copy_columns(&x, 1..4, &mut y, [4, 2])?;
        download(device, &y)
    })
}

/// Two restarts, at a step that needs more than 32 bits.
fn draw_codes<D: EveryOperation>(device: &D, [b, columns, n_choices]: [usize; 3]) -> Result<Vec<f32>> {
    let mut z = occupied(device, [2, b, columns])?;
    device.draw_codes(Draw { keys: &keys(2), step: (1 << 33) + 5 }, n_choices, &mut z)?;
    download(device, &z)
}

/// The same numbers as the CPU's.
fn drawn_codes<D: EveryOperation>() -> Case<D> {
    let sizes = [130, 23, 7];
    Case::against(
        "drawn codes",
        Tolerance::Fixed(0.0),
        move |_: &D| Ok(wide(&draw_codes(&Cpu::new(), sizes)?)),
        move |device: &D| Ok(wide(&draw_codes(device, sizes)?)),
    )
}

/// One choice in each row.
fn choices_of_codes<D: EveryOperation>() -> Case<D> {
    let sizes @ [b, columns, n_choices] = [3000, 9, 5];
    let expected = move || vec![1.0; 2 * b];
    Case::new("drawn codes, choices of a row", Tolerance::Fixed(0.0), expected, move |device: &D| {
        let codes = draw_codes(device, sizes)?;
        Ok(codes.chunks(columns).map(|row| row[..n_choices].iter().sum()).collect())
    })
}

/// Rows with a code, rows of the output, choices, numbers that count.
#[derive(Clone, Copy)]
struct Sizes {
    rows: usize,
    outputs: usize,
    choices: usize,
    numbers: usize,
    with_variances: bool,
}

impl Sizes {
    /// Columns of a code: two numbers do not count.
    fn code_width(self) -> usize {
        self.choices + self.numbers + 2
    }

    fn output_width(self) -> usize {
        self.choices + self.numbers * if self.with_variances { 2 } else { 1 }
    }
}

const RESTARTS: usize = 2;
const WEIGHT: f32 = 0.7;

/// log q of one row, for its choice and its numbers; and the gradient of their sum.
fn log_q(sizes: Sizes, code: &[f64], output: &[f64]) -> ([f64; 2], Vec<f64>) {
    let Sizes { choices: k, numbers: n, .. } = sizes;
    let total = log_sum_exp(&output[..k]);
    let mut terms = [(0..k).map(|m| code[m] * (output[m] - total)).sum(), 0.0];
    let mut gradient = vec![0.0; output.len()];
    for m in 0..k {
        gradient[m] = code[m] - (output[m] - total).exp();
    }
    for i in 0..n {
        let l = if sizes.with_variances { output[k + n + i] } else { 0.0 };
        let error = output[k + i] - code[k + i];
        terms[1] -= 0.5 * (std::f64::consts::TAU.ln() + l + error * error * (-l).exp());
        gradient[k + i] = -error * (-l).exp();
        if sizes.with_variances {
            gradient[k + n + i] = -0.5 * (1.0 - error * error * (-l).exp());
        }
    }
    (terms, gradient)
}

/// Sums of each restart for choices and numbers; gradients of minus the weighted mean. Rows of the output without a
/// code have a gradient of zero.
fn code_likelihood_by_definition(sizes: Sizes, codes: &[f64], output: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (code_width, width) = (sizes.code_width(), sizes.output_width());
    let (mut sums, mut gradient) = (vec![0.0; 2 * RESTARTS], vec![0.0; output.len()]);
    for (i, code) in codes.chunks(code_width).enumerate() {
        let (restart, row) = (i / sizes.rows, i % sizes.rows);
        let start = (restart * sizes.outputs + row) * width;
        let (terms, slopes) = log_q(sizes, code, &output[start..start + width]);
        sums[2 * restart] += terms[0];
        sums[2 * restart + 1] += terms[1];
        for (column, slope) in slopes.iter().enumerate() {
            gradient[start + column] = -f64::from(WEIGHT) * slope / sizes.outputs as f64;
        }
    }
    (sums, gradient)
}

fn run_code_likelihood<D: EveryOperation>(
    device: &D,
    sizes: Sizes,
    codes: &[f32],
    output: &[f32],
) -> Result<(Vec<f64>, Vec<f32>)> {
    let codes = upload(device, [RESTARTS, sizes.rows, sizes.code_width()], codes)?;
    let mut output = upload(device, [RESTARTS, sizes.outputs, sizes.output_width()], output)?;
    let mut sums = device.sums(RESTARTS, sizes.outputs, 1)?;
    device.code_likelihood((sizes.choices, sizes.numbers), WEIGHT, &codes, &mut output, &mut sums)?;
    let terms = device.take_sums(&mut sums)?;
    let terms = terms.iter().flat_map(|terms| [terms.cluster, terms.latent]).collect();
    Ok((terms, download(device, &output)?))
}

/// Codes whose choices are one of many.
fn random_codes(sizes: Sizes) -> Vec<f32> {
    let mut codes = numbers(RESTARTS * sizes.rows * sizes.code_width(), 47);
    for (row, code) in codes.chunks_mut(sizes.code_width()).enumerate() {
        code[..sizes.choices].fill(0.0);
        code[row * 3 % sizes.choices] = 1.0;
    }
    codes
}

fn code_likelihood<D: EveryOperation>(sizes: Sizes, limit: f32, step: Option<Step>) -> Vec<Case<D>> {
    let tolerance = Tolerance::Fixed(5e-6);
    let output = scaled(RESTARTS * sizes.outputs * sizes.output_width(), 48, limit);
    let codes = random_codes(sizes);
    let variances = if sizes.with_variances { "with variances" } else { "variances of one" };
    let name = format!("likelihood of codes, {} rows, {variances}", sizes.rows);
    let (wide_codes, wide_output) = (wide(&codes), wide(&output));
    let (codes_of_run, output_of_run, codes_of_terms) = (codes.clone(), output.clone(), wide_codes.clone());
    let mut cases = vec![Case::against(
        name.clone(),
        tolerance,
        move |_| Ok(code_likelihood_by_definition(sizes, &codes_of_terms, &wide_output).0),
        move |device: &D| Ok(run_code_likelihood(device, sizes, &codes_of_run, &output_of_run)?.0),
    )];
    cases.extend(gradient_cases(
        &name,
        tolerance,
        vec![Tensor::new("output", output, step)],
        move |at| vec![code_likelihood_by_definition(sizes, &wide_codes, &at[0]).1],
        move |device: &D, at| {
            let (terms, gradient) = run_code_likelihood(device, sizes, &codes, &at[0])?;
            let loss = -f64::from(WEIGHT) * terms.iter().sum::<f64>() / sizes.outputs as f64;
            Ok((loss, vec![gradient]))
        },
    ));
    cases
}
