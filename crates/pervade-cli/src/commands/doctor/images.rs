//! What networks for images and their codes are made of, against its definitions in double precision; and the first
//! updates of one on a device against the CPU's.

use pervade::compute::{
    Activation, AdamStep, Codes as _, Cpu, Draw, Layout, Matrix, NormSlots, Params, Windows,
};
use pervade::data::Dataset;
use pervade::seed::{Key, Stream};
use pervade::train::{Control, Event, Observer};
use pervade::{Clusterer, Result};
use pervade_rivals::InfoGan;
use pervade_rivals::RivalDevice;

use super::{Check, numbers, read};

/// All checks of this file that need one device.
pub(super) fn checks<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let mut checks = windows(device)?;
    checks.extend(activations(device)?);
    checks.extend(batch_norm(device)?);
    checks.push(updates(device)?);
    checks.push(drawn(device)?);
    checks.extend(codes(device)?);
    Ok(checks)
}

fn matrix<D: RivalDevice>(
    device: &D,
    [restarts, rows, columns]: [usize; 3],
    values: &[f32],
) -> Result<Matrix<D::Buffer>> {
    let mut made = Matrix::zeros(device, restarts, rows, columns)?;
    device.write(&mut made.data, 0, values)?;
    Ok(made)
}

fn all<D: RivalDevice>(device: &D, x: &Matrix<D::Buffer>) -> Result<Vec<f32>> {
    read(device, &x.data, 0..x.restarts * x.stride())
}

/// Images that are not square, windows that overlap and leave a rest.
fn windows<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let windows = Windows { height: 13, width: 10, channels: 5, size: 4, stride: 2, padding: 1 };
    let ([down, across], [r, n]) = (windows.count(), [2, 3]);
    let (image, window) = (windows.image_len(), windows.window_len());
    let (x, w) = (numbers(r * n * image, 60), numbers(r * n * down * across * window, 61));
    let (mut unfolded, mut folded) = (vec![0.0; w.len()], vec![0.0; x.len()]);
    for (at, (to, &from)) in unfolded.iter_mut().zip(&w).enumerate() {
        let (place, inside) = (at / window % (down * across), at % window / windows.channels);
        let i = (place / across * 2 + inside / 4).checked_sub(1).filter(|&i| i < windows.height);
        let j = (place % across * 2 + inside % 4).checked_sub(1).filter(|&j| j < windows.width);
        if let (Some(i), Some(j)) = (i, j) {
            let pixel = (at / window / (down * across) * windows.height + i) * windows.width + j;
            let number = pixel * windows.channels + at % windows.channels;
            *to = f64::from(x[number]);
            folded[number] += f64::from(from);
        }
    }
    let x = matrix(device, [r, n, image], &x)?;
    let w = matrix(device, [r, n * down * across, window], &w)?;
    let (mut y, mut pixels) =
        (Matrix::zeros(device, r, w.rows, window)?, Matrix::zeros(device, r, n, image)?);
    device.unfold(&windows, &x, &mut y)?;
    device.fold(&windows, &w, &mut pixels)?;
    Ok(vec![
        Check::new("windows of images", 0.0, &all(device, &y)?, &unfolded),
        Check::new("images from windows", 1e-6, &all(device, &pixels)?, &folded),
    ])
}

fn activations<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let (rows, columns) = (70, 37);
    let x: Vec<f32> = numbers(rows * columns, 62).iter().map(|x| 6.0 * x).collect();
    let dy = numbers(rows * columns, 63);
    let mut checks = Vec::new();
    let activations = [
        ("ReLU", Activation::Relu),
        ("leaky ReLU", Activation::LeakyRelu { slope: 0.1 }),
        ("logistic function", Activation::Sigmoid),
    ];
    for (name, activation) in activations {
        let value_and_slope = |x: f64| match activation {
            Activation::Linear => (x, 1.0),
            Activation::Relu if x > 0.0 => (x, 1.0),
            Activation::Relu => (0.0, 0.0),
            Activation::LeakyRelu { .. } if x > 0.0 => (x, 1.0),
            Activation::LeakyRelu { slope } => (f64::from(slope) * x, f64::from(slope)),
            Activation::Sigmoid => {
                let y = 1.0 / (1.0 + (-x).exp());
                (y, y * (1.0 - y))
            }
        };
        let wanted = x.iter().map(|&x| value_and_slope(f64::from(x)).0);
        let slopes = x.iter().zip(&dy).map(|(&x, &d)| f64::from(d) * value_and_slope(f64::from(x)).1);
        let wanted: Vec<f64> = wanted.chain(slopes).collect();
        let mut y = matrix(device, [1, rows, columns], &x)?;
        let mut gradient = matrix(device, [1, rows, columns], &dy)?;
        device.activate(activation, &mut y)?;
        device.activate_backward(activation, &y, &mut gradient)?;
        let got = [all(device, &y)?, all(device, &gradient)?].concat();
        checks.push(Check::new(format!("{name} and its gradient"), 1e-6, &got, &wanted));
    }
    Ok(checks)
}

/// What batch normalisation should give: [y, y with the kept statistics, dx, then gain's and shift's gradients and the
/// kept means and variances after it].
fn normalised(sizes: [usize; 4], layer: NormSlots, values: &[f32], x: &[f32], dy: &[f32]) -> [Vec<f64>; 4] {
    let [r, groups, n, columns] = sizes;
    let mut wanted = [vec![0.0; x.len()], vec![0.0; x.len()], vec![0.0; x.len()], vec![0.0; r * 4 * columns]];
    let stride = values.len() / r;
    for (restart, column) in (0..r * columns).map(|place| (place / columns, place % columns)) {
        let of = |slot: usize| f64::from(values[restart * stride + slot + column]);
        let (gain, shift) = (of(layer.gain.offset), of(layer.shift.offset));
        let (kept_mean, kept_variance) = (of(layer.mean.offset), of(layer.variance.offset));
        let mut totals = [0.0; 4];
        for group in 0..groups {
            let rows = (0..n).map(|row| ((restart * groups + group) * n + row) * columns + column);
            let mean = rows.clone().map(|at| f64::from(x[at])).sum::<f64>() / n as f64;
            let square = |at: usize| (f64::from(x[at]) - mean).powi(2);
            let variance = rows.clone().map(square).sum::<f64>() / n as f64;
            let deviation = (variance + f64::from(1e-5f32)).sqrt();
            let unit = |at: usize| (f64::from(x[at]) - mean) / deviation;
            let sum: f64 = rows.clone().map(|at| f64::from(dy[at])).sum();
            let product: f64 = rows.clone().map(|at| f64::from(dy[at]) * unit(at)).sum();
            for at in rows {
                wanted[0][at] = gain * unit(at) + shift;
                let kept = (f64::from(x[at]) - kept_mean) / (kept_variance + f64::from(1e-5f32)).sqrt();
                wanted[1][at] = gain * kept + shift;
                wanted[2][at] =
                    gain / deviation * (f64::from(dy[at]) - (sum + unit(at) * product) / n as f64);
            }
            let parts = [product, sum, mean / groups as f64, variance / groups as f64];
            totals.iter_mut().zip(parts).for_each(|(total, part)| *total += part);
        }
        totals[2] = 0.9 * kept_mean + 0.1 * totals[2];
        totals[3] = 0.9 * kept_variance + 0.1 * totals[3];
        totals.iter().enumerate().for_each(|(i, t)| wanted[3][(restart * 4 + i) * columns + column] = *t);
    }
    wanted
}

/// Two models, two groups of rows each.
fn batch_norm<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let [r, groups, n, columns] = [2, 2, 150, 21];
    let mut layout = Layout::default();
    let layer = NormSlots::new(&mut layout, "norm", columns);
    let values: Vec<f32> = numbers(r * layout.len(), 64).iter().map(|x| 1.5 + x).collect();
    let x: Vec<f32> =
        numbers(r * groups * n * columns, 65).iter().enumerate().map(|(i, x)| x + (i % 7) as f32).collect();
    let dy = numbers(x.len(), 66);
    let wanted = normalised([r, groups, n, columns], layer, &values, &x, &dy);
    let mut params = Params::zeros(device, r, layout.len())?;
    device.write(&mut params.values, 0, &values)?;
    let [x, dy] = [&x, &dy].map(|values| matrix(device, [r, groups * n, columns], values));
    let (x, dy) = (x?, dy?);
    let zeros = |rows| Matrix::zeros(device, r, rows, columns);
    let (mut y, mut kept, mut dx) = (zeros(x.rows)?, zeros(x.rows)?, zeros(x.rows)?);
    let mut statistics = zeros(NormSlots::statistics_rows(groups))?;
    device.batch_norm_inference(&params, layer, &x, &mut kept)?;
    device.batch_norm(&params, layer, &x, &mut statistics, &mut y)?;
    device.batch_norm_backward_input(&params, layer, &x, &dy, &mut statistics, &mut dx)?;
    device.batch_norm_backward_weights(&mut params, layer, &statistics, None)?;
    let mut learned = Vec::new();
    for base in (0..r).map(|restart| restart * params.stride) {
        let at = |offset: usize| base + offset..base + offset + columns;
        learned.extend(read(device, &params.gradients, at(layer.gain.offset))?);
        learned.extend(read(device, &params.gradients, at(layer.shift.offset))?);
        learned.extend(read(device, &params.values, at(layer.mean.offset))?);
        learned.extend(read(device, &params.values, at(layer.variance.offset))?);
    }
    let [of_y, of_kept, of_dx, of_learned] = &wanted;
    Ok(vec![
        Check::new("batch normalisation", 1e-5, &all(device, &y)?, of_y),
        Check::new("batch normalisation, kept statistics", 1e-5, &all(device, &kept)?, of_kept),
        Check::new("batch normalisation's gradient", 1e-5, &all(device, &dx)?, of_dx),
        Check::new("batch normalisation, what it learns", 1e-5, &learned, of_learned),
    ])
}

/// A layer and a normalisation that are updated as their gradients are made, against the same by gradients and Adam.
fn updates<D: RivalDevice>(device: &D) -> Result<Check> {
    let (b, inputs, outputs) = (40, 33, 21);
    let mut layout = Layout::default();
    let layer = layout.push_affine("layer", inputs, outputs);
    let end = layout.len();
    let norm = NormSlots::new(&mut layout, "norm", outputs);
    let step = |range| AdamStep { range, group: 0, learning_rate: 0.01, step: 1, epsilon: 1e-8 };
    let learned = norm.gain.offset..norm.mean.offset;
    let x = matrix(device, [1, b, inputs], &numbers(b * inputs, 70))?;
    let dy = matrix(device, [1, b, outputs], &numbers(b * outputs, 71))?;
    let y = matrix(device, [1, b, outputs], &numbers(b * outputs, 72))?;
    let mut results = Vec::new();
    for at_once in [true, false] {
        let mut params = Params::zeros(device, 1, layout.len())?;
        params.beta1 = 0.5;
        device.write(&mut params.values, 0, &numbers(layout.len(), 73))?;
        let mut statistics = Matrix::zeros(device, 1, NormSlots::statistics_rows(2), outputs)?;
        let (mut z, mut dz) = (Matrix::zeros(device, 1, b, outputs)?, Matrix::zeros(device, 1, b, outputs)?);
        device.batch_norm(&params, norm, &y, &mut statistics, &mut z)?;
        device.batch_norm_backward_input(&params, norm, &y, &dy, &mut statistics, &mut dz)?;
        let adam = at_once.then(|| step(0..layout.len()));
        device.batch_norm_backward_weights(&mut params, norm, &statistics, adam.as_ref())?;
        device.affine_backward_weights(&mut params, layer, &x, &dy, adam.as_ref())?;
        if !at_once {
            device.adam(&mut params, &step(0..end))?;
            device.adam(&mut params, &step(learned.clone()))?;
        }
        results.push(read(device, &params.values, 0..layout.len())?);
    }
    let wanted: Vec<f64> = results[1].iter().map(|&x| f64::from(x)).collect();
    Ok(Check::new("updates as gradients are made", 1e-6, &results[0], &wanted))
}

/// Codes against those of the CPU: the same numbers everywhere.
fn drawn<D: RivalDevice>(device: &D) -> Result<Check> {
    let (r, b, columns, k) = (2, 130, 23, 7);
    let keys = [0, 1].map(|restart| Key::new(3, Stream::Latent, restart));
    let draw = Draw { keys: &keys, step: (1 << 33) + 5 };
    let mut z = Matrix::zeros(device, r, b, columns)?;
    device.draw_codes(draw, k, &mut z)?;
    let cpu = Cpu::new();
    let mut reference = Matrix::zeros(&cpu, r, b, columns)?;
    cpu.draw_codes(draw, k, &mut reference)?;
    let wanted: Vec<f64> = reference.data.iter().map(|&x| f64::from(x)).collect();
    Ok(Check::new("drawn codes", 0.0, &all(device, &z)?, &wanted))
}

/// log q of one row, and its gradient.
fn log_q((k, c): (usize, usize), code: &[f32], output: &[f32]) -> ([f64; 2], Vec<f64>) {
    let o: Vec<f64> = output.iter().map(|&o| f64::from(o)).collect();
    let total: f64 = o[..k].iter().map(|o| o.exp()).sum();
    let mut terms = [(0..k).map(|m| f64::from(code[m]) * (o[m] - total.ln())).sum(), 0.0];
    let mut gradient: Vec<f64> = (0..k).map(|m| f64::from(code[m]) - o[m].exp() / total).collect();
    gradient.resize(o.len(), 0.0);
    for i in 0..c {
        let l = o.get(k + c + i).copied().unwrap_or(0.0);
        let error = o[k + i] - f64::from(code[k + i]);
        terms[1] -= 0.5 * (std::f64::consts::TAU.ln() + l + error * error * (-l).exp());
        gradient[k + i] = -error * (-l).exp();
        if let Some(slope) = gradient.get_mut(k + c + i) {
            *slope = -0.5 * (1.0 - error * error * (-l).exp());
        }
    }
    (terms, gradient)
}

/// With and without log variances; a third of the rows have no code.
fn codes<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let (r, b, places, sizes, weight) = (2, 100, 150, (7, 3), 0.7);
    let code = numbers(r * b * 12, 67);
    let mut checks = Vec::new();
    for (name, width) in [("likelihood of codes", 13), ("likelihood of codes, deviations 1", 10)] {
        let output: Vec<f32> = numbers(r * places * width, 68).iter().map(|x| 3.0 * x).collect();
        let (mut wanted, mut totals) = (vec![0.0; output.len()], vec![0.0; 2 * r]);
        for (restart, row) in (0..r * b).map(|place| (place / b, place % b)) {
            let at = (restart * places + row) * width;
            let (terms, gradient) =
                log_q(sizes, &code[(restart * b + row) * 12..][..12], &output[at..at + width]);
            let gradient = gradient.iter().map(|g| -f64::from(weight) * g / places as f64);
            wanted[at..at + width].iter_mut().zip(gradient).for_each(|(to, g)| *to = g);
            totals[2 * restart] += terms[0];
            totals[2 * restart + 1] += terms[1];
        }
        let mut got = matrix(device, [r, places, width], &output)?;
        let mut sums = device.sums(r, places)?;
        device.code_likelihood(sizes, weight, &matrix(device, [r, b, 12], &code)?, &mut got, &mut sums)?;
        let terms = device.take_sums(&mut sums)?;
        let terms: Vec<f32> = terms.iter().flat_map(|t| [t.cluster as f32, t.latent as f32]).collect();
        checks.push(Check::new(name, 5e-6, &terms, &totals));
        checks.push(Check::new(format!("{name}, gradient"), 5e-6, &all(device, &got)?, &wanted));
    }
    Ok(checks)
}

/// Remembers what D and Q made of each update.
struct Losses(Vec<f64>);

impl Observer for Losses {
    fn event(&mut self, event: &Event<'_>) -> Control {
        if let Event::Trained(_, entry) = event {
            self.0.extend([entry.terms.reconstruction, entry.terms.cluster, entry.terms.latent]);
        }
        Control::Continue
    }
}

/// The first updates of InfoGAN on images of 12 x 12 pixels.
pub(super) fn updates_against_cpu<D: RivalDevice>(device: &D) -> Result<Check> {
    const UPDATES: usize = 8;
    let (n, d) = (300, 144);
    let values = numbers(n * d, 69).iter().map(|x| 0.5 + 0.5 * x).collect();
    let data = Dataset::from_rows(n, d, values)?;
    let method = InfoGan {
        n_clusters: 5,
        channels: [16, 24],
        width: 128,
        recognition: 32,
        updates: 1,
        epochs: UPDATES,
        ..InfoGan::default()
    };
    let (mut ours, mut reference) = (Losses(Vec::new()), Losses(Vec::new()));
    method.cluster(&data, device, 1, &mut ours)?;
    method.cluster(&data, &Cpu::new(), 1, &mut reference)?;
    // A rounding error changes the sign of gradients that are nearly zero, and Adam makes full steps of them.
    let tolerance = (5.0 * device.product_error()).max(5e-3);
    let name = format!("first {UPDATES} updates of InfoGAN against the CPU");
    Ok(Check::new(name, tolerance, &ours.0, &reference.0))
}
