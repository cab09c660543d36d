//! log p(x|z) from the decoder's output.

use super::gradient::{CURVED, Step, Tensor, gradient_cases};
use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::{DECODER_LOG_VARIANCE_LIMIT, Likelihood, Result};

/// log p(x|z) of one column and its derivatives, from the decoder's outputs for it: the definition of every likelihood whose
/// columns are independent of each other.
///
/// Outputs are those of [`Likelihood::n_outputs`] for one column.
pub(super) fn log_density(family: Likelihood, x: f64, outputs: &[f64]) -> (f64, Vec<f64>) {
    let ln_tau = std::f64::consts::TAU.ln();
    let o = outputs[0];
    match family {
        Likelihood::Bernoulli => {
            let softplus = o.max(0.0) + (-o.abs()).exp().ln_1p();
            (x * o - softplus, vec![x - 1.0 / (1.0 + (-o).exp())])
        }
        Likelihood::Gaussian => {
            let limit = f64::from(DECODER_LOG_VARIANCE_LIMIT);
            let l = outputs[1].clamp(-limit, limit);
            let square = (o - x).powi(2) / l.exp();
            let is_inside = outputs[1].abs() < limit;
            let slope = if is_inside { 0.5 * (square - 1.0) } else { 0.0 };
            (-0.5 * (ln_tau + l + square), vec![(x - o) / l.exp(), slope])
        }
        Likelihood::GaussianFixed { variance } => {
            let v = f64::from(variance);
            (-0.5 * (ln_tau + v.ln() + (o - x).powi(2) / v), vec![(x - o) / v])
        }
        Likelihood::Multinomial | Likelihood::Typed { .. } | Likelihood::Counts => {
            unreachable!("columns that depend on each other, or on scales")
        }
    }
}

/// log p(x|z) of one row and its gradient for the decoder's output, in which each kind of output has D columns.
pub(super) fn log_density_of_row(family: Likelihood, x: &[f64], output: &[f64]) -> (f64, Vec<f64>) {
    if family == Likelihood::Multinomial {
        let (log_sum, sum) = (log_sum_exp(output), x.iter().sum::<f64>());
        let slope = |(x, o): (&f64, &f64)| x - sum * (o - log_sum).exp();
        let value = x.iter().zip(output).map(|(x, o)| x * (o - log_sum)).sum();
        return (value, x.iter().zip(output).map(slope).collect());
    }
    let (d, mut total, mut gradient) = (x.len(), 0.0, vec![0.0; output.len()]);
    for column in 0..d {
        let outputs: Vec<f64> = output.iter().skip(column).step_by(d).copied().collect();
        let (value, slopes) = log_density(family, x[column], &outputs);
        total += value;
        slopes.iter().enumerate().for_each(|(kind, slope)| gradient[kind * d + column] = *slope);
    }
    (total, gradient)
}

/// Rows, columns, samples per row.
type Shape = [usize; 3];

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let mut cases = Vec::new();
    for family in Likelihood::EXAMPLES {
        // 19 columns: more than one group of lanes, and a rest.
        for (shape, limit, tolerance, step) in [
            ([4, 19, 2], 2.0, 1e-6, Some(CURVED)),
            ([1, 1, 1], 1.0, 1e-6, None),
            ([21, 39, 2], 1.0, 1e-6, None),
            ([17, 43, 1], 3.0, 5e-6, None),
        ] {
            cases.extend(of_shape(family, shape, limit, Tolerance::Fixed(tolerance), step));
        }
    }
    cases.push(beyond_bounds());
    cases.push(of_restarts());
    cases
}

/// The sum over rows of the means over samples, and its gradient.
fn of_shape<D: EveryOperation>(
    family: Likelihood,
    shape: Shape,
    limit: f32,
    tolerance: Tolerance,
    step: Option<Step>,
) -> Vec<Case<D>> {
    let [b, d, samples] = shape;
    let width = family.n_outputs(d);
    let (x, output) = (fractions(b * d, 36), scaled(samples * b * width, 37, limit));
    let name = format!("likelihood {family:?} {b}x{d}x{samples}");
    let wide_x = wide(&x);
    let definition = move |output: &[f64]| {
        let (mut total, mut gradient) = (0.0, Vec::new());
        for (sample, output) in output.chunks(width).enumerate() {
            let (value, slopes) = log_density_of_row(family, &wide_x[sample % b * d..][..d], output);
            total += value / samples as f64;
            gradient.extend(slopes.into_iter().map(|slope| -slope / (samples * b) as f64));
        }
        (total, gradient)
    };
    let run = move |device: &D, output: &[f32]| -> Result<(f64, Vec<f32>)> {
        let (totals, gradient) = run([family].as_slice(), device, shape, &x, output)?;
        Ok((totals[0], gradient))
    };
    let (value, value_of_device, wide_output) = (definition.clone(), run.clone(), wide(&output));
    let at = output.clone();
    let mut cases = vec![Case::against(
        name.clone(),
        tolerance,
        move |_| Ok(vec![value(&wide_output).0]),
        move |device: &D| Ok(vec![value_of_device(device, &at)?.0]),
    )];
    cases.extend(gradient_cases(
        &name,
        tolerance,
        vec![Tensor::new("output", output, step)],
        move |at| vec![definition(&at[0]).1],
        move |device: &D, at| {
            let (total, gradient) = run(device, &at[0])?;
            Ok((-total / b as f64, vec![gradient]))
        },
    ));
    cases
}

/// The sums of each restart and the gradients, for as many restarts as there are families.
fn run<D: EveryOperation>(
    families: &[Likelihood],
    device: &D,
    [b, d, samples]: Shape,
    x: &[f32],
    output: &[f32],
) -> Result<(Vec<f64>, Vec<f32>)> {
    let (r, width) = (families.len(), families[0].n_outputs(d));
    let x = upload(device, [r, b, d], x)?;
    let mut output = upload(device, [r, samples * b, width], output)?;
    let mut sums = device.sums(r, b, samples)?;
    device.likelihood(families, &x, &mut output, &mut sums)?;
    let terms = device.take_sums(&mut sums)?;
    Ok((terms.iter().map(|terms| terms.reconstruction).collect(), download(device, &output)?))
}

/// Beyond the bounds of a decoder's log variance no gradient passes.
fn beyond_bounds<D: EveryOperation>() -> Case<D> {
    let shape @ [b, d, samples] = [4, 19, 2];
    let name = "likelihood Gaussian, gradient for log variances beyond their bounds";
    Case::new(
        name,
        Tolerance::Fixed(0.0),
        || vec![0.0; 2],
        move |device: &D| {
            let family = Likelihood::Gaussian;
            let width = family.n_outputs(d);
            let beyond = [d + 1, width + d + 2];
            let mut output = scaled(samples * b * width, 37, 2.0);
            (output[beyond[0]], output[beyond[1]]) =
                (DECODER_LOG_VARIANCE_LIMIT + 0.5, -DECODER_LOG_VARIANCE_LIMIT - 0.5);
            let gradient = run(&[family], device, shape, &fractions(b * d, 36), &output)?.1;
            Ok(beyond.map(|index| gradient[index]).to_vec())
        },
    )
}

/// Each restart has a noise variance of its own, and sees what it would see alone.
fn of_restarts<D: EveryOperation>() -> Case<D> {
    let shape @ [b, d, _] = [5, 19, 1];
    let families = [0.3, 1.7].map(|variance| Likelihood::GaussianFixed { variance });
    let inputs = move || (numbers(2 * b * d, 38), numbers(2 * b * d, 39));
    let list = |(totals, gradient): (Vec<f64>, Vec<f32>)| [totals, wide(&gradient)].concat();
    Case::against(
        "likelihood, two restarts against each alone",
        Tolerance::Fixed(0.0),
        move |device: &D| {
            let (x, output) = inputs();
            let (mut totals, mut gradients) = (Vec::new(), Vec::new());
            for restart in 0..2 {
                let part = restart * b * d..(restart + 1) * b * d;
                let alone =
                    run(&families[restart..=restart], device, shape, &x[part.clone()], &output[part])?;
                totals.extend(alone.0);
                gradients.extend(alone.1);
            }
            Ok(list((totals, gradients)))
        },
        move |device: &D| {
            let (x, output) = inputs();
            Ok(list(run(&families, device, shape, &x, &output)?))
        },
    )
}
