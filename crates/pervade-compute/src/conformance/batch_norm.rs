//! Batch normalisation.

use super::gradient::{LINEAR, Step, Tensor, gradient_cases};
use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::{Layout, Matrix, NORM_EPSILON, NORM_MOMENTUM, NormSlots, Params, Result, Slot};

const TOLERANCE: Tolerance = Tolerance::Fixed(1e-5);

/// Restarts, groups of rows, rows of a group, columns.
type Shape = [usize; 4];

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    // 19 columns: more than a task of the CPU takes, and a rest. With four rows in a group, the curvature of their
    // deviation asks for a short step.
    let short = Step { h: 2e-3, tolerance: 5e-3 };
    [of_shape([2, 3, 4, 19], Some([short, LINEAR])), of_shape([2, 2, 150, 21], None)]
        .into_iter()
        .flatten()
        .collect()
}

/// x [R, groups rows, C], gain and shift [R, C], dy as x, running means and variances [R, C].
fn inputs([r, groups, n, columns]: Shape) -> [Vec<f32>; 6] {
    let len = r * groups * n * columns;
    let x = numbers(len, 65).iter().enumerate().map(|(i, x)| x + (i / columns % 7) as f32).collect();
    let positive = |salt| numbers(r * columns, salt).iter().map(|x| 1.5 + x).collect();
    [x, positive(66), positive(67), numbers(len, 68), positive(69), positive(70)]
}

fn wide_inputs(shape: Shape) -> [Vec<f64>; 6] {
    inputs(shape).map(|values| wide(&values))
}

/// A column of one group: where its numbers are, their mean and their variance.
struct Group {
    /// The column among those of all restarts.
    column: usize,
    indices: Vec<usize>,
    mean: f64,
    variance: f64,
}

impl Group {
    fn deviation(&self) -> f64 {
        (self.variance + f64::from(NORM_EPSILON)).sqrt()
    }

    fn unit(&self, x: f64) -> f64 {
        (x - self.mean) / self.deviation()
    }
}

fn groups([r, groups, n, columns]: Shape, x: &[f64]) -> Vec<Group> {
    let group = |i: usize| {
        let (group, column) = (i / columns, i % columns);
        let indices: Vec<usize> = (0..n).map(|row| (group * n + row) * columns + column).collect();
        let mean = indices.iter().map(|&i| x[i]).sum::<f64>() / n as f64;
        let variance = indices.iter().map(|&i| (x[i] - mean).powi(2)).sum::<f64>() / n as f64;
        Group { column: group / groups * columns + column, indices, mean, variance }
    };
    (0..r * groups * columns).map(group).collect()
}

fn normalised(shape: Shape) -> Vec<f64> {
    let [x, gain, shift, ..] = wide_inputs(shape);
    let mut y = vec![0.0; x.len()];
    for group in groups(shape, &x) {
        for &i in &group.indices {
            y[i] = gain[group.column] * group.unit(x[i]) + shift[group.column];
        }
    }
    y
}

fn normalised_for_inference(shape: Shape) -> Vec<f64> {
    let [x, gain, shift, _, means, variances] = wide_inputs(shape);
    let mut y = vec![0.0; x.len()];
    for Group { column, indices, .. } in groups(shape, &x) {
        let deviation = (variances[column] + f64::from(NORM_EPSILON)).sqrt();
        for i in indices {
            y[i] = gain[column] * (x[i] - means[column]) / deviation + shift[column];
        }
    }
    y
}

/// Gradients for x, gain and shift.
fn gradients(shape: Shape, at: &[Vec<f64>], dy: &[f64]) -> Vec<Vec<f64>> {
    let (x, gain, n) = (&at[0], &at[1], shape[2] as f64);
    let (mut dx, mut d_gain, mut d_shift) =
        (vec![0.0; x.len()], vec![0.0; gain.len()], vec![0.0; gain.len()]);
    for group in groups(shape, x) {
        let sum: f64 = group.indices.iter().map(|&i| dy[i]).sum();
        let product: f64 = group.indices.iter().map(|&i| dy[i] * group.unit(x[i])).sum();
        for &i in &group.indices {
            let centred = dy[i] - (sum + group.unit(x[i]) * product) / n;
            dx[i] = gain[group.column] / group.deviation() * centred;
        }
        d_gain[group.column] += product;
        d_shift[group.column] += sum;
    }
    vec![dx, d_gain, d_shift]
}

/// Running means, then variances, after a step.
fn running_statistics(shape: Shape) -> Vec<f64> {
    let [x, _, _, _, means, variances] = wide_inputs(shape);
    let momentum = f64::from(NORM_MOMENTUM);
    let (mut new_means, mut new_variances): (Vec<f64>, Vec<f64>) =
        (means.iter().map(|m| momentum * m).collect(), variances.iter().map(|v| momentum * v).collect());
    for group in groups(shape, &x) {
        new_means[group.column] += (1.0 - momentum) * group.mean / shape[1] as f64;
        new_variances[group.column] += (1.0 - momentum) * group.variance / shape[1] as f64;
    }
    [new_means, new_variances].concat()
}

/// A normalisation on the device.
struct OnDevice<B> {
    params: Params<B>,
    layer: NormSlots,
    x: Matrix<B>,
    statistics: Matrix<B>,
    y: Matrix<B>,
}

fn prepare<D: EveryOperation>(device: &D, shape: Shape, at: &[Vec<f32>]) -> Result<OnDevice<D::Buffer>> {
    let [r, groups, n, columns] = shape;
    let mut layout = Layout::default();
    let layer = NormSlots::new(&mut layout, "norm", columns);
    let mut params = Params::zeros(device, r, layout.len())?;
    let [.., means, variances] = inputs(shape);
    for restart in 0..r {
        let parts =
            [(layer.gain, &at[1]), (layer.shift, &at[2]), (layer.mean, &means), (layer.variance, &variances)];
        for (slot, values) in parts {
            let values = &values[restart * columns..][..columns];
            device.write(&mut params.values, restart * layout.len() + slot.offset, values)?;
        }
    }
    Ok(OnDevice {
        params,
        layer,
        x: upload(device, [r, groups * n, columns], &at[0])?,
        statistics: zeros(device, [r, NormSlots::statistics_rows(groups), columns])?,
        y: occupied(device, [r, groups * n, columns])?,
    })
}

/// What a forward and a backward pass leave: y; gradients of x, gain and shift; running means and variances.
struct Passes {
    y: Vec<f32>,
    gradients: Vec<Vec<f32>>,
    running: Vec<f32>,
}

fn run<D: EveryOperation>(device: &D, shape: Shape, at: &[Vec<f32>], dy: &[f32]) -> Result<Passes> {
    let [r, groups, n, columns] = shape;
    let OnDevice { mut params, layer, x, mut statistics, mut y } = prepare(device, shape, at)?;
    let dy = upload(device, [r, groups * n, columns], dy)?;
    let mut dx = occupied(device, [r, groups * n, columns])?;
    device.batch_norm(&params, layer, &x, &mut statistics, &mut y)?;
    device.batch_norm_backward_input(&params, layer, &x, &dy, &mut statistics, &mut dx)?;
    device.batch_norm_backward_weights(&mut params, layer, &statistics, None)?;
    let of_restarts = |buffer: &D::Buffer, slot: Slot| -> Result<Vec<f32>> {
        let mut all = Vec::new();
        for restart in 0..r {
            let start = restart * params.stride + slot.offset;
            all.extend(read(device, buffer, start..start + columns)?);
        }
        Ok(all)
    };
    let d_gain = of_restarts(&params.gradients, layer.gain)?;
    let d_shift = of_restarts(&params.gradients, layer.shift)?;
    let (means, variances) =
        (of_restarts(&params.values, layer.mean)?, of_restarts(&params.values, layer.variance)?);
    Ok(Passes {
        y: download(device, &y)?,
        gradients: vec![download(device, &dx)?, d_gain, d_shift],
        running: [means, variances].concat(),
    })
}

/// `steps` are those of x, and of gain and shift.
fn of_shape<D: EveryOperation>(shape: Shape, steps: Option<[Step; 2]>) -> Vec<Case<D>> {
    let name = format!("batch normalisation {shape:?}");
    let mut cases = vec![
        Case::new(
            name.clone(),
            TOLERANCE,
            move || normalised(shape),
            move |device: &D| {
                let inputs = inputs(shape);
                Ok(run(device, shape, &inputs[..3], &inputs[3])?.y)
            },
        ),
        Case::new(
            format!("{name}, running statistics"),
            TOLERANCE,
            move || running_statistics(shape),
            move |device: &D| {
                let inputs = inputs(shape);
                Ok(run(device, shape, &inputs[..3], &inputs[3])?.running)
            },
        ),
        Case::new(
            format!("{name}, inference"),
            TOLERANCE,
            move || normalised_for_inference(shape),
            move |device: &D| {
                let OnDevice { params, layer, x, mut y, .. } = prepare(device, shape, &inputs(shape)[..3])?;
                device.batch_norm_inference(&params, layer, &x, &mut y)?;
                download(device, &y)
            },
        ),
    ];
    let [x, gain, shift, dy, ..] = inputs(shape);
    let [step_of_x, step] = steps.map_or([None; 2], |steps| steps.map(Some));
    let tensors = vec![
        Tensor::new("input", x, step_of_x),
        Tensor::new("gain", gain, step),
        Tensor::new("shift", shift, step),
    ];
    let wide_dy = wide(&dy);
    cases.extend(gradient_cases(
        &name,
        TOLERANCE,
        tensors,
        move |at| gradients(shape, at, &wide_dy),
        move |device: &D, at| {
            let passes = run(device, shape, at, &dy)?;
            Ok((weighted_sum(&dy, &passes.y), passes.gradients))
        },
    ));
    cases
}
