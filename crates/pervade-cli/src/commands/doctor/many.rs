//! Products of many restarts, for which a device may have kernels of their own, against the CPU.

use pervade::Result;
use pervade::compute::{Activation, Affine, Cpu, Device, Layout, Matrix, Params};

use super::{Check, numbers, read};

/// Restarts, B, inputs and outputs: several tiles each way, the last of them not full.
const SIZES: [usize; 4] = [6, 110, 1108, 500];

/// relu(x W + b), and dy W^T where x is above zero.
fn products<D: Device>(device: &D) -> Result<[Vec<f32>; 2]> {
    let [restarts, b, inputs, outputs] = SIZES;
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

pub(super) fn against_cpu<D: Device>(device: &D) -> Result<Vec<Check>> {
    let names = ["matrix product, x W + b, many restarts", "matrix product, input's gradient, many restarts"];
    let wanted = products(&Cpu::new())?;
    let checks = names.into_iter().zip(products(device)?).zip(wanted).map(|((name, got), wanted)| {
        let wanted: Vec<f64> = wanted.into_iter().map(f64::from).collect();
        Check::new(name, device.product_error(), &got, &wanted)
    });
    Ok(checks.collect())
}
