//! Softmax over some columns and columns put side by side, against their definitions in double precision.

use pervade::Result;
use pervade::compute::Matrix;
use pervade_rivals::RivalDevice;

use super::{Check, numbers, read};

/// Restarts, rows, columns, and the columns of the softmax.
const SIZES: [usize; 4] = [2, 150, 14, 10];

/// All checks of this file.
pub(super) fn checks<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let [r, b, columns, n] = SIZES;
    let (x, dy) = (numbers(r * b * columns, 43), numbers(r * b * columns, 44));
    let (mut wanted, mut slopes) = (Vec::new(), Vec::new());
    for (x, dy) in x.chunks(columns).zip(dy.chunks(columns)) {
        let powers: Vec<f64> = x[..n].iter().map(|&x| f64::from(x).exp()).collect();
        let total: f64 = powers.iter().sum();
        let y: Vec<f64> = powers.iter().map(|power| power / total).collect();
        let mean: f64 = y.iter().zip(dy).map(|(y, &d)| y * f64::from(d)).sum();
        slopes.extend(y.iter().zip(dy).map(|(y, &d)| y * (f64::from(d) - mean)));
        slopes.extend(dy[n..].iter().map(|&d| f64::from(d)));
        wanted.extend(y);
        wanted.extend(x[n..].iter().map(|&x| f64::from(x)));
    }
    let mut y = Matrix::zeros(device, r, b, columns)?;
    device.write(&mut y.data, 0, &x)?;
    device.softmax(n, &mut y)?;
    let mut gradient = Matrix::zeros(device, r, b, columns)?;
    device.write(&mut gradient.data, 0, &dy)?;
    device.softmax_backward(n, &y, &mut gradient)?;
    let mut block = Matrix::zeros(device, r, b + 3, 6)?;
    // In two parts, rows and columns.
    device.copy_block(&gradient, 0..40, 2..6, &mut block, [3, 1])?;
    device.copy_block(&gradient, 40..b, 2..6, &mut block, [43, 1])?;
    let copied = |place: usize| {
        let (restart, row, column) = (place / (6 * (b + 3)), place / 6 % (b + 3), place % 6);
        let inside = row >= 3 && (1..5).contains(&column);
        if inside { slopes[(restart * b + row - 3) * columns + column + 1] } else { 0.0 }
    };
    let blocks: Vec<f64> = (0..r * (b + 3) * 6).map(copied).collect();
    let all = 0..x.len();
    Ok(vec![
        Check::new("softmax", 2e-6, &read(device, &y.data, all.clone())?, &wanted),
        Check::new("softmax's gradient", 2e-6, &read(device, &gradient.data, all)?, &slopes),
        Check::new("blocks side by side", 2e-6, &read(device, &block.data, 0..blocks.len())?, &blocks),
    ])
}
