//! The terms of a mixture of Gaussians as posterior, and the likelihood by shares, against their formulas in double
//! precision; gradients against central differences.

use pervade::Result;
use pervade::compute::{Likelihood, Matrix, PosteriorMixture};
use pervade_rivals::RivalDevice;

use super::{Check, numbers, read};

/// Rows, components, latents and columns: more components than a CUDA block has warps, more latents than a warp lanes.
const SIZES: [usize; 4] = [3, 5, 35, 43];
const SPREAD: f64 = 0.5;

/// Where the parts of the list begin: decoder's outputs, components' heads, shares, drawn weights, and its end.
fn parts() -> [usize; 5] {
    let [b, k, j, d] = SIZES;
    let sizes = [k * b * d, k * b * 2 * j, b * k, b * k];
    let mut starts = [0; 5];
    (0..4).for_each(|i| starts[i + 1] = starts[i] + sizes[i]);
    starts
}

/// Row `row`'s share of the ELBO; z is the component's mean plus so many standard deviations.
fn elbo(row: usize, at: &[f64], x: &[f64], noise: &[f64]) -> f64 {
    let [b, k, j, d] = SIZES;
    let [outputs, heads, shares, drawn, _] = parts().map(|start| &at[start..]);
    let (mut total, mut density) = (0.0, 0.0);
    for m in 0..k {
        let place = m * b + row;
        let log_likelihood: f64 = (0..d)
            .map(|c| {
                let o = outputs[place * d + c];
                x[row * d + c] * o - (o.max(0.0) + (-o.abs()).exp().ln_1p())
            })
            .sum();
        let prior_mean = SPREAD * (2.0 * m as f64 / (k - 1) as f64 - 1.0);
        let (mut energy, mut log_density) = (0.0, 0.0);
        for c in 0..j {
            let (mean, l) = (heads[place * 2 * j + c], heads[place * 2 * j + j + c]);
            let eps = noise[place * j + c];
            energy -= 0.5 * (std::f64::consts::TAU.ln() + (mean - prior_mean).powi(2) + l.exp());
            log_density -= 0.5 * (std::f64::consts::TAU.ln() + l + eps * eps);
        }
        total += shares[row * k + m] * (log_likelihood + energy);
        density += drawn[row * k + m] * log_density.exp();
    }
    total - density.ln()
}

/// All checks of this file.
pub(super) fn checks<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let [b, k, j, d] = SIZES;
    let starts = parts();
    let mut at = numbers(starts[4], 47);
    at[starts[2]..].iter_mut().for_each(|w| *w = 0.1 + 0.3 * w.abs());
    let x: Vec<f32> = numbers(b * d, 48).iter().map(|x| 0.5 + 0.5 * x).collect();
    let noise = numbers(k * b * j, 49);
    let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let (wide_at, wide_x, wide_noise) = (wide(&at), wide(&x), wide(&noise));
    let exact: f64 = (0..b).map(|row| elbo(row, &wide_at, &wide_x, &wide_noise)).sum();
    let mut moved = wide_at.clone();
    let slope = |i: usize| {
        // The row that this number belongs to.
        let inside = |part: usize| i - starts[part];
        let row = match starts.iter().rposition(|&start| start <= i) {
            Some(0) => inside(0) / d % b,
            Some(1) => inside(1) / (2 * j) % b,
            Some(2) => inside(2) / k,
            _ => inside(3) / k,
        };
        let mut value = |by: f64| {
            moved[i] = wide_at[i] + by;
            -elbo(row, &moved, &wide_x, &wide_noise) / b as f64
        };
        let slope = (value(1e-5) - value(-1e-5)) / 2e-5;
        moved[i] = wide_at[i];
        slope
    };
    let wanted: Vec<f64> = (0..starts[4]).map(slope).collect();
    let (total, gradients) = computed(device, &at, &x, &noise)?;
    let mut checks = vec![Check::new("mixture as posterior", 2e-6, &[total], &[exact])];
    let names = ["likelihood by shares", "components", "shares", "drawn weights"];
    for (part, name) in names.into_iter().enumerate() {
        let range = starts[part]..starts[part + 1];
        let name = format!("posterior's gradient: {name}");
        checks.push(Check::new(name, 1e-5, &gradients[range.clone()], &wanted[range]));
    }
    Ok(checks)
}

/// The device's sum of the terms, and the gradients for the list.
fn computed<D: RivalDevice>(device: &D, at: &[f32], x: &[f32], noise: &[f32]) -> Result<(f64, Vec<f32>)> {
    let [b, k, j, d] = SIZES;
    let [outputs, heads, shares, drawn, _] = parts();
    let matrix = |rows: usize, columns: usize, values: &[f32]| -> Result<Matrix<D::Buffer>> {
        let mut made = Matrix::zeros(device, 1, rows, columns)?;
        device.write(&mut made.data, 0, &values[..rows * columns])?;
        Ok(made)
    };
    let head = &at[heads..];
    let latent = |i: usize| {
        let place = i / j * 2 * j + i % j;
        head[place] + (0.5 * head[place + j]).exp() * noise[i]
    };
    let z: Vec<f32> = (0..k * b * j).map(latent).collect();
    let (head, z) = (matrix(k * b, 2 * j, head)?, matrix(k * b, j, &z)?);
    let (shares, drawn) = (matrix(b, k, &at[shares..])?, matrix(b, k, &at[drawn..])?);
    let (x, mut output) = (matrix(b, d, x)?, matrix(k * b, d, &at[outputs..])?);
    let mut d_head = Matrix::zeros(device, 1, k * b, 2 * j)?;
    let (mut d_shares, mut d_drawn) = (Matrix::zeros(device, 1, b, k)?, Matrix::zeros(device, 1, b, k)?);
    let mut sums = device.sums(1, k * b)?;
    let posterior = PosteriorMixture { head: &head, z: &z, shares: &shares, drawn: &drawn };
    device.posterior_mixture(
        SPREAD as f32,
        posterior,
        &mut d_head,
        &mut d_shares,
        &mut d_drawn,
        &mut sums,
    )?;
    device.weighted_likelihood(
        &[Likelihood::Bernoulli],
        &x,
        &shares,
        &mut output,
        &mut d_shares,
        &mut sums,
    )?;
    let mut gradients = Vec::new();
    for matrix in [&output, &d_head, &d_shares, &d_drawn] {
        gradients.extend(read(device, &matrix.data, 0..matrix.stride())?);
    }
    Ok((device.take_sums(&mut sums)?[0].elbo(), gradients))
}
