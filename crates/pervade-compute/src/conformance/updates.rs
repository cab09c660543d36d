//! Adam, and layers that are updated as their gradients are made.

use super::inputs::*;
use super::layers::{Layer, SHAPES};
use super::rows::{ScalingKind, Storage, Table};
use super::{Case, EveryOperation, Tolerance};
use crate::{AdamStep, Affine, Cpu, Layout, Matrix, NormSlots, Params, Result, RowSelection, Tick};

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let mut cases = Vec::new();
    for (beta1, n) in [(0.9, 1000), (0.5, 1000), (0.9, 40_000)] {
        cases.extend(adam(beta1, n));
    }
    cases.push(average());
    for shape in SHAPES {
        cases.extend([false, true].map(|is_input| update_in_one_go(shape, is_input)));
    }
    cases.push(layer_and_norm());
    cases.extend([1, 6].into_iter().flat_map(recorded));
    cases
}

const MOMENTS: [&str; 3] = ["parameters", "first moments", "second moments"];

/// Cases for parameters, first and second moments.
fn for_each_of<D: EveryOperation>(
    name: String,
    tolerance: Tolerance,
    expected: impl Fn() -> Result<[Vec<f64>; 3]> + Clone + Send + Sync + 'static,
    run: impl Fn(&D) -> Result<[Vec<f32>; 3]> + Clone + Send + Sync + 'static,
) -> impl Iterator<Item = Case<D>> {
    MOMENTS.into_iter().enumerate().map(move |(index, what)| {
        let (expected, run) = (expected.clone(), run.clone());
        let name = format!("{name}, {what}");
        let expected = move |_: &D| Ok(std::mem::take(&mut expected()?[index]));
        Case::against(name, tolerance, expected, move |device: &D| Ok(wide(&run(device)?[index])))
    })
}

/// Parameters and moments of all restarts; moments in the order of the parameters.
fn read_all<D: EveryOperation>(
    device: &D,
    params: &Params<D::Buffer>,
    layout: &Layout,
) -> Result<[Vec<f32>; 3]> {
    let len = params.restarts * params.stride;
    let mut first = read(device, &params.first_moments, 0..len)?;
    let mut second = read(device, &params.second_moments, 0..len)?;
    for moments in [&mut first, &mut second] {
        device.moments_to_rows(&layout.weights(), params.stride, moments);
    }
    Ok([read(device, &params.values, 0..len)?, first, second])
}

/// Learning rates of two groups with a gap between them that belongs to neither, for two restarts.
fn adam_groups(n: usize) -> [(std::ops::Range<usize>, f32); 2] {
    [(0..n - n / 40, 1e-3), (n - n / 50..n, 1e-2)]
}

const ADAM_EPSILON: f32 = 1e-4;
const ADAM_STEPS: u64 = 3;

/// Three steps of Adam (Kingma and Ba, 2015); 40,000 numbers are more than a task of the CPU takes.
fn adam<D: EveryOperation>(beta1: f32, n: usize) -> impl Iterator<Item = Case<D>> {
    let name = format!("Adam, beta1 {beta1}, {n} numbers");
    for_each_of(
        name,
        Tolerance::Fixed(1e-6),
        move || Ok(adam_definition(beta1, n)),
        move |device: &D| {
            let mut params = params(device, 2, &numbers(2 * n, 31))?;
            params.beta1 = beta1;
            device.write(&mut params.gradients, 0, &numbers(2 * n, 32))?;
            for step in 1..=ADAM_STEPS {
                for (group, (range, learning_rate)) in adam_groups(n).into_iter().enumerate() {
                    let step = AdamStep { range, group, learning_rate, step, epsilon: ADAM_EPSILON };
                    device.adam(&mut params, &step)?;
                }
            }
            read_all(device, &params, &Layout::default())
        },
    )
}

/// The mean of two buffers, which is exact: halving loses no digit.
fn average<D: EveryOperation>() -> Case<D> {
    const N: usize = 40_000;
    let expected = |_: &D| {
        let pairs = numbers(N, 33).into_iter().zip(numbers(N, 34));
        Ok(pairs.map(|(a, b)| f64::from(0.5 * (a + b))).collect())
    };
    Case::against("average of two buffers".to_string(), Tolerance::Fixed(0.0), expected, |device: &D| {
        let [mut into, mut from] = [device.zeros(N)?, device.zeros(N)?];
        device.write(&mut into, 0, &numbers(N, 33))?;
        device.write(&mut from, 0, &numbers(N, 34))?;
        device.average(&from, &mut into)?;
        Ok(wide(&read(device, &into, 0..N)?))
    })
}

fn adam_definition(beta1: f32, n: usize) -> [Vec<f64>; 3] {
    let (beta1, beta2) = (f64::from(beta1), f64::from(crate::BETA2));
    let (mut values, gradients) = (wide(&numbers(2 * n, 31)), wide(&numbers(2 * n, 32)));
    let (mut first, mut second) = (vec![0.0; 2 * n], vec![0.0; 2 * n]);
    for (range, rate) in adam_groups(n) {
        for i in [0, n].into_iter().flat_map(|start| range.clone().map(move |i| start + i)) {
            for step in 1..=ADAM_STEPS {
                let g = gradients[i];
                first[i] = beta1 * first[i] + (1.0 - beta1) * g;
                second[i] = beta2 * second[i] + (1.0 - beta2) * g * g;
                let mean: f64 = first[i] / (1.0 - beta1.powf(step as f64));
                let square: f64 = second[i] / (1.0 - beta2.powf(step as f64));
                values[i] -= f64::from(rate) * mean / (square.sqrt() + f64::from(ADAM_EPSILON));
            }
        }
    }
    [values, first, second]
}

/// A layer that takes its step in the backward pass ends where gradient first, Adam after would; dense and sparse input,
/// two restarts.
fn update_in_one_go<D: EveryOperation>(shape: [usize; 3], is_input: bool) -> Case<D> {
    let [b, n, m] = shape;
    let layer = if is_input { "first layer, sparse rows" } else { "affine layer" };
    Case::against(
        format!("update in one go, {layer} {b}x{n}x{m}"),
        Tolerance::ExactOnHost(2.0),
        move |_| Ok(wide(&updated_layer(&Cpu::new(), shape, is_input, false)?)),
        move |device: &D| Ok(wide(&updated_layer(device, shape, is_input, true)?)),
    )
}

/// Parameters and moments of weights and biases after three steps.
fn updated_layer<D: EveryOperation>(
    device: &D,
    [b, n, m]: [usize; 3],
    is_input: bool,
    in_one_go: bool,
) -> Result<Vec<f32>> {
    let Layer { layout, layer } = Layer::new(n, m);
    let (x, dy) = (numbers(2 * b * n, 33), numbers(2 * b * m, 34));
    let (x, dy) = (upload(device, [2, b, n], &x)?, upload(device, [2, b, m], &dy)?);
    let mut params = params(device, 2, &numbers(2 * layout.len(), 35))?;
    Table::new(Storage::Csr, ScalingKind::Unscaled, b + 3, n).with_view(|view| {
        let rows = device.rows(view)?;
        let mut batch = device.batch(&rows, 2, b)?;
        device.gather(&rows, RowSelection::Range { first: 0 }, &mut batch)?;
        for step in 1..=3 {
            // A large epsilon, so that gradients close to zero do not count.
            let range = 0..layout.len();
            let adam = AdamStep { range, group: 0, learning_rate: 1e-2, step, epsilon: 0.1 };
            let update = in_one_go.then_some(&adam);
            if is_input {
                device.input_affine_backward(&mut params, layer, &rows, &batch, &dy, update)?;
            } else {
                device.affine_backward_weights(&mut params, layer, &x, &dy, update)?;
            }
            if !in_one_go {
                device.adam(&mut params, &adam)?;
            }
        }
        Ok(())
    })?;
    // A separate step leaves moments in the order of the weights.
    let in_tiles = if in_one_go { &layout } else { &Layout::default() };
    let all = read_all(device, &params, in_tiles)?;
    Ok(all.iter().flat_map(|values| without_padding(values, &layout, layer)).collect())
}

/// The numbers of weights and biases alone, of each restart.
fn without_padding(values: &[f32], layout: &Layout, layer: Affine) -> Vec<f32> {
    let parts = values.chunks(layout.len());
    parts.flat_map(|part| [&part[layer.weight.range()], &part[layer.bias.range()]].concat()).collect()
}

/// A layer and a normalisation whose gradients are nearly zero here and there, which Adam makes full steps of.
fn layer_and_norm<D: EveryOperation>() -> Case<D> {
    Case::against(
        "update in one go, affine layer and batch normalisation",
        Tolerance::Fixed(1e-6),
        |device: &D| Ok(wide(&updated_norm(device, false)?)),
        |device: &D| Ok(wide(&updated_norm(device, true)?)),
    )
}

fn updated_norm<D: EveryOperation>(device: &D, in_one_go: bool) -> Result<Vec<f32>> {
    let (b, inputs, outputs) = (40, 33, 21);
    let mut layout = Layout::default();
    let layer = layout.push_affine("layer", inputs, outputs);
    let end = layout.len();
    let norm = NormSlots::new(&mut layout, "norm", outputs);
    let step = |range| AdamStep { range, group: 0, learning_rate: 0.01, step: 1, epsilon: 1e-8 };
    let x = upload(device, [1, b, inputs], &numbers(b * inputs, 70))?;
    let dy = upload(device, [1, b, outputs], &numbers(b * outputs, 71))?;
    let y = upload(device, [1, b, outputs], &numbers(b * outputs, 72))?;
    let mut params = params(device, 1, &numbers(layout.len(), 73))?;
    params.beta1 = 0.5;
    let mut statistics = zeros(device, [1, NormSlots::statistics_rows(2), outputs])?;
    let (mut z, mut dz) = (zeros(device, [1, b, outputs])?, zeros(device, [1, b, outputs])?);
    device.batch_norm(&params, norm, &y, &mut statistics, &mut z)?;
    device.batch_norm_backward_input(&params, norm, &y, &dy, &mut statistics, &mut dz)?;
    let adam = in_one_go.then(|| step(0..layout.len()));
    device.batch_norm_backward_weights(&mut params, norm, &statistics, adam.as_ref())?;
    device.affine_backward_weights(&mut params, layer, &x, &dy, adam.as_ref())?;
    if !in_one_go {
        device.adam(&mut params, &step(0..end))?;
        device.adam(&mut params, &step(norm.gain.offset..norm.mean.offset))?;
    }
    read(device, &params.values, 0..layout.len())
}

/// Steps that are recorded and replayed, against the CPU.
fn recorded<D: EveryOperation>(restarts: usize) -> impl Iterator<Item = Case<D>> {
    let expected = move || Ok(recorded_updates(&Cpu::new(), restarts)?.map(|values| wide(&values)));
    let run = move |device: &D| recorded_updates(device, restarts);
    // Second moments have the gradient's error twice.
    for_each_of(
        format!("updates in recorded steps, restarts side by side: {restarts}"),
        Tolerance::Products(2.0),
        expected,
        run,
    )
}

/// Parameters and moments after steps of Adam that are taken, and recorded, as gradients are made.
fn recorded_updates<D: EveryOperation>(device: &D, restarts: usize) -> Result<[Vec<f32>; 3]> {
    let b = 100;
    let mut layout = Layout::default();
    let sizes = [[140, 132], [10, 500], [64, 196]];
    let layers = sizes.map(|[inputs, outputs]| layout.push_affine("layer", inputs, outputs));
    let mut params = params(device, restarts, &numbers(restarts * layout.len(), 63))?;
    let mut factors: Vec<Matrix<D::Buffer>> = Vec::new();
    for columns in sizes.into_iter().flatten() {
        let values = numbers(restarts * b * columns, 64 + factors.len() as u32);
        factors.push(upload(device, [restarts, b, columns], &values)?);
    }
    let mut recording = D::Recording::default();
    for adam in 1..=3 {
        let tick = Tick { adam, learning_rates: [1e-3; 2], ..Tick::default() };
        // A large epsilon, so that gradients close to zero do not count.
        let step = tick.adam_step(0..layout.len(), 0, 0.1);
        device.steps(&[tick], &mut recording, &mut params, |params, _| {
            for (&layer, pair) in layers.iter().zip(factors.chunks(2)) {
                device.affine_backward_weights(params, layer, &pair[0], &pair[1], Some(&step))?;
            }
            Ok(())
        })?;
    }
    read_all(device, &params, &layout)
}
