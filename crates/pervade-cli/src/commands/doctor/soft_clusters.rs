//! DEC's clustering loss against its formula in double precision, its gradients against central differences of
//! that formula.

use pervade::Result;
use pervade::compute::{Layout, Matrix, MixtureSlots, Params};
use pervade_rivals::RivalDevice;

use super::{Check, numbers, read};

/// B, J and C: more components than a warp has lanes, and more latents than a row's block has warps.
const SIZES: (usize, usize, usize) = (11, 6, 37);

/// KL(P || Q) summed over rows, from z [B, J] and means [C, J] in one list and P [B, C].
fn divergence(at: &[f64], targets: &[f32]) -> f64 {
    let (b, j, c) = SIZES;
    let (z, means) = at.split_at(b * j);
    let row = |i: usize| -> f64 {
        let weight = |m: usize| {
            let square: f64 = (0..j).map(|k| (z[i * j + k] - means[m * j + k]).powi(2)).sum();
            1.0 / (1.0 + square)
        };
        let total: f64 = (0..c).map(weight).sum();
        let term = |m: usize| {
            let p = f64::from(targets[i * c + m]);
            if p > 0.0 { p * (p.ln() - (weight(m) / total).ln()) } else { 0.0 }
        };
        (0..c).map(term).sum()
    };
    (0..b).map(row).sum()
}

/// All checks of this file.
pub(super) fn checks<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let (b, j, c) = SIZES;
    let at = numbers((b + c) * j, 41);
    let mut targets: Vec<f32> = numbers(b * c, 42).iter().map(|x| x.max(0.0)).collect();
    for row in targets.chunks_mut(c) {
        let total: f32 = row.iter().sum();
        row.iter_mut().for_each(|p| *p /= total);
    }
    let wide: Vec<f64> = at.iter().map(|&x| f64::from(x)).collect();
    let slope = |i: usize| {
        let moved = |by: f64| {
            let mut at = wide.clone();
            at[i] += by;
            divergence(&at, &targets)
        };
        (moved(1e-5) - moved(-1e-5)) / 2e-5 / b as f64
    };
    let wanted: Vec<f64> = (0..at.len()).map(slope).collect();
    let (loss, gradients) = computed(device, &at, &targets)?;
    Ok(vec![
        Check::new("soft clusters", 2e-6, &[loss], &[divergence(&wide, &targets)]),
        Check::new("soft clusters' gradient", 1e-5, &gradients, &wanted),
    ])
}

/// The device's sum of KL(P || Q), and its gradients for z and the means.
fn computed<D: RivalDevice>(device: &D, at: &[f32], targets: &[f32]) -> Result<(f64, Vec<f32>)> {
    let (b, j, c) = SIZES;
    let mut layout = Layout::default();
    let slots = MixtureSlots {
        logits: layout.push("logits", 1, c),
        means: layout.push("means", c, j),
        log_variances: layout.push("log_variances", c, j),
    };
    let mut params = Params::zeros(device, 1, layout.len())?;
    device.write(&mut params.values, slots.means.offset, &at[b * j..])?;
    let (mut z, mut target) = (Matrix::zeros(device, 1, b, j)?, Matrix::zeros(device, 1, b, c)?);
    device.write(&mut z.data, 0, &at[..b * j])?;
    device.write(&mut target.data, 0, targets)?;
    let (mut pulls, mut dz) = (Matrix::zeros(device, 1, b, c)?, Matrix::zeros(device, 1, b, j)?);
    let mut sums = device.sums(1, b)?;
    device.soft_clusters(&mut params, slots, &target, &z, &mut pulls, &mut dz, &mut sums)?;
    let mut gradients = read(device, &dz.data, 0..b * j)?;
    gradients.extend(read(device, &params.gradients, slots.means.range())?);
    Ok((-device.take_sums(&mut sums)?[0].elbo(), gradients))
}
