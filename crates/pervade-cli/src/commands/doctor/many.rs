//! Products and updates of many restarts, for which a device may have kernels of their own, against the CPU.

use pervade::Result;
use pervade::compute::{Activation, Affine, Cpu, Layout, Matrix, Params, Tick};
use pervade_rivals::RivalDevice;

use super::{Check, numbers, read};

/// Restarts and B: several tiles, the last of them not full.
const RESTARTS: usize = 6;
const B: usize = 113;
/// Inputs and outputs: of a wide layer, of one that latents enter, and of one that they leave.
const LAYERS: [[usize; 2]; 3] = [[1108, 500], [10, 500], [2000, 20]];

/// relu(x W + b), and dy W^T where x is above zero.
fn products<D: RivalDevice>(device: &D, [inputs, outputs]: [usize; 2]) -> Result<[Vec<f32>; 2]> {
    let (restarts, b) = (RESTARTS, B);
    let mut layout = Layout::default();
    let layer: Affine = layout.push_affine("layer", inputs, outputs);
    let mut params = Params::zeros(device, restarts, layout.len())?;
    device.write(&mut params.values, 0, &numbers(restarts * params.stride, 60))?;
    let matrix = |columns: usize, which: Option<u32>| -> Result<Matrix<D::Buffer>> {
        let mut made = Matrix::zeros(device, restarts, b, columns)?;
        if let Some(which) = which {
            device.write(&mut made.data, 0, &numbers(restarts * b * columns, which))?;
        }
        Ok(made)
    };
    let (x, dy) = (matrix(inputs, Some(61))?, matrix(outputs, Some(62))?);
    let (mut y, mut dx) = (matrix(outputs, None)?, matrix(inputs, None)?);
    device.affine(&params, layer, &x, Activation::Relu, &mut y)?;
    device.affine_backward_input(&params, layer, &dy, Some(&x), &mut dx)?;
    Ok([read(device, &y.data, 0..restarts * b * outputs)?, read(device, &dx.data, 0..restarts * b * inputs)?])
}

/// Parameters and moments after steps of Adam that are taken, and recorded, as gradients are made.
fn updates<D: RivalDevice>(device: &D, restarts: usize) -> Result<[Vec<f32>; 3]> {
    let b = 100;
    let mut layout = Layout::default();
    let sizes = [[140, 132], [10, 500], [64, 196]];
    let layers = sizes.map(|[inputs, outputs]| layout.push_affine("layer", inputs, outputs));
    let mut params = Params::zeros(device, restarts, layout.len())?;
    let len = restarts * params.stride;
    device.write(&mut params.values, 0, &numbers(len, 63))?;
    let mut factors = Vec::new();
    for size in sizes {
        for columns in size {
            let mut made = Matrix::zeros(device, restarts, b, columns)?;
            device.write(&mut made.data, 0, &numbers(restarts * b * columns, 64 + factors.len() as u32))?;
            factors.push(made);
        }
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
    let values = read(device, &params.values, 0..len)?;
    let [mut first, mut second] =
        [&params.first_moments, &params.second_moments].map(|m| read(device, m, 0..len));
    for moments in [&mut first, &mut second].into_iter().flatten() {
        device.moments_to_rows(&layout.weights(), params.stride, moments);
    }
    Ok([values, first?, second?])
}

pub(super) fn against_cpu<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for restarts in [1, RESTARTS] {
        let pairs = updates(device, restarts)?.into_iter().zip(updates(&Cpu::new(), restarts)?);
        let names = ["parameters", "first moments", "second moments"];
        for (what, (got, wanted)) in names.into_iter().zip(pairs) {
            let wanted: Vec<f64> = wanted.into_iter().map(f64::from).collect();
            let name = format!("updates of {restarts} in a recorded step, {what}");
            // Second moments have the gradient's error twice.
            checks.push(Check::new(name, 2.0 * device.product_error(), &got, &wanted));
        }
    }
    for layer in LAYERS {
        let [inputs, outputs] = layer;
        let pairs = products(device, layer)?.into_iter().zip(products(&Cpu::new(), layer)?);
        for (what, (got, wanted)) in ["x W + b", "input's gradient"].into_iter().zip(pairs) {
            let wanted: Vec<f64> = wanted.into_iter().map(f64::from).collect();
            let name = format!("matrix product, {what}, {RESTARTS} restarts, {inputs} to {outputs}");
            checks.push(Check::new(name, device.product_error(), &got, &wanted));
        }
    }
    Ok(checks)
}
