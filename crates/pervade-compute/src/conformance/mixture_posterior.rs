//! Mixtures of Gaussians as posteriors, and the likelihood by shares.

use super::gradient::{CURVED, Step, Tensor, central_differences, gradient_cases};
use super::inputs::*;
use super::likelihood::log_density_of_row;
use super::{Case, EveryOperation, Tolerance};
use crate::{Likelihood, PosteriorMixture, Result};

/// The means of the prior's components go from minus this to this.
const MAX_MEAN: f32 = 0.5;
const VALUE: Tolerance = Tolerance::Fixed(2e-6);
const GRADIENT: Tolerance = Tolerance::Fixed(1e-5);

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let bernoulli = &[Likelihood::Bernoulli];
    let two = &[Likelihood::Bernoulli, Likelihood::GaussianFixed { variance: 0.7 }];
    let mut cases = weighted_likelihood(two, [3, 4, 19], Some(CURVED));
    cases.extend(weighted_likelihood(bernoulli, [3, 5, 43], None));
    cases.extend(weighted_likelihood(&[Likelihood::Multinomial], [3, 2, 19], Some(CURVED)));
    cases.extend(posterior([2, 3, 4, 3], Some(CURVED)));
    // More components than a CUDA block has warps, more latents than a warp lanes.
    cases.extend(posterior([1, 3, 5, 35], None));
    cases.push(component_without_weight());
    cases
}

/// Positive weights of components, which need not sum to one.
fn weights(n: usize, salt: u32) -> Vec<f32> {
    numbers(n, salt).iter().map(|w| 0.1 + 0.3 * w.abs()).collect()
}

/// The likelihood of rows whose samples count by their shares: rows, samples, columns.
fn weighted_likelihood<D: EveryOperation>(
    families: &'static [Likelihood],
    shape: [usize; 3],
    step: Option<Step>,
) -> Vec<Case<D>> {
    let ([b, samples, d], r) = (shape, families.len());
    let inputs = move || [numbers(r * samples * b * d, 52), weights(r * b * samples, 53)];
    let x = fractions(r * b * d, 54);
    let wide_x = wide(&x);
    let definition = move |at: &[Vec<f64>]| {
        let (mut total, mut d_output, mut d_shares) = (0.0, Vec::new(), vec![0.0; at[1].len()]);
        for (i, output) in at[0].chunks(d).enumerate() {
            let (restart, sample, row) = (i / (samples * b), i / b % samples, i % b);
            let x = &wide_x[(restart * b + row) * d..][..d];
            let share = (restart * b + row) * samples + sample;
            let (value, slopes) = log_density_of_row(families[restart], x, output);
            total += at[1][share] * value;
            d_output.extend(slopes.iter().map(|slope| -at[1][share] * slope / b as f64));
            d_shares[share] = -value / b as f64;
        }
        (total, vec![d_output, d_shares])
    };
    let run = move |device: &D, at: &[Vec<f32>]| -> Result<(f64, Vec<Vec<f32>>)> {
        let (x, shares) = (upload(device, [r, b, d], &x)?, upload(device, [r, b, samples], &at[1])?);
        let mut output = upload(device, [r, samples * b, d], &at[0])?;
        // The gradient is added to what is there.
        let before = 0.5;
        let mut d_shares = upload(device, [r, b, samples], &vec![before; r * b * samples])?;
        let mut sums = device.sums(r, b, samples)?;
        device.weighted_likelihood(families, &x, &shares, &mut output, &mut d_shares, &mut sums)?;
        let total = device.take_sums(&mut sums)?.iter().map(|terms| terms.elbo()).sum();
        let d_shares = download(device, &d_shares)?.iter().map(|d| d - before).collect();
        Ok((total, vec![download(device, &output)?, d_shares]))
    };
    let name = format!("likelihood by shares {:?}", [r, b, samples, d]);
    let (value, value_of_device) = (definition.clone(), run.clone());
    let mut cases = vec![Case::against(
        name.clone(),
        VALUE,
        move |_| Ok(vec![value(&inputs().map(|values| wide(&values))).0]),
        move |device: &D| Ok(vec![value_of_device(device, &inputs())?.0]),
    )];
    let [output, shares] = inputs();
    cases.extend(gradient_cases(
        &name,
        GRADIENT,
        vec![Tensor::new("output", output, step), Tensor::new("shares", shares, step)],
        move |at| definition(at).1,
        move |device: &D, at| {
            let (total, gradients) = run(device, at)?;
            Ok((-total / b as f64, gradients))
        },
    ));
    cases
}

/// Restarts, rows, components, latents.
type Shape = [usize; 4];

/// Components' heads [R, K B, 2J], shares and drawn weights [R, B, K].
fn inputs([r, b, k, j]: Shape) -> [Vec<f32>; 3] {
    [numbers(r * k * b * 2 * j, 55), weights(r * b * k, 56), weights(r * b * k, 57)]
}

/// How many standard deviations each latent is from its mean: z moves with its component.
fn noise([r, b, k, j]: Shape) -> Vec<f32> {
    numbers(r * k * b * j, 58)
}

/// Sum over rows of the expected log prior and of -ln of the density of the mixture.
fn terms_of_row([_, b, k, j]: Shape, i: usize, at: &[Vec<f64>], noise: &[f64]) -> f64 {
    let (restart, row) = (i / b, i % b);
    let (mut total, mut density) = (0.0, 0.0);
    for m in 0..k {
        let component = restart * k * b + m * b + row;
        let prior_mean = f64::from(MAX_MEAN) * (2.0 * m as f64 / (k - 1) as f64 - 1.0);
        let (mut log_prior, mut log_density) = (0.0, 0.0);
        for c in 0..j {
            let (mean, l) = (at[0][component * 2 * j + c], at[0][component * 2 * j + j + c]);
            let eps = noise[component * j + c];
            log_prior -= 0.5 * (std::f64::consts::TAU.ln() + (mean - prior_mean).powi(2) + l.exp());
            log_density -= 0.5 * (std::f64::consts::TAU.ln() + l + eps * eps);
        }
        total += at[1][i * k + m] * log_prior;
        density += at[2][i * k + m] * log_density.exp();
    }
    total - density.ln()
}

fn terms(shape: Shape, at: &[Vec<f64>]) -> f64 {
    let noise = wide(&noise(shape));
    (0..shape[0] * shape[1]).map(|row| terms_of_row(shape, row, at, &noise)).sum()
}

/// The device's sum of the terms, and the gradients of minus their mean over rows.
fn run<D: EveryOperation>(device: &D, shape: Shape, at: &[Vec<f32>]) -> Result<(f64, Vec<Vec<f32>>)> {
    let ([r, b, k, j], noise) = (shape, noise(shape));
    let latent = |i: usize| {
        let mean = i / j * 2 * j + i % j;
        at[0][mean] + (0.5 * at[0][mean + j]).exp() * noise[i]
    };
    let z: Vec<f32> = (0..noise.len()).map(latent).collect();
    let (head, z) = (upload(device, [r, k * b, 2 * j], &at[0])?, upload(device, [r, k * b, j], &z)?);
    let (shares, drawn) = (upload(device, [r, b, k], &at[1])?, upload(device, [r, b, k], &at[2])?);
    let mut d_head = occupied(device, [r, k * b, 2 * j])?;
    let (mut d_shares, mut d_drawn) = (occupied(device, [r, b, k])?, occupied(device, [r, b, k])?);
    let mut sums = device.sums(r, b, k)?;
    let posterior = PosteriorMixture { head: &head, z: &z, shares: &shares, drawn: &drawn };
    device.posterior_mixture(MAX_MEAN, posterior, &mut d_head, &mut d_shares, &mut d_drawn, &mut sums)?;
    let total = device.take_sums(&mut sums)?.iter().map(|terms| terms.elbo()).sum();
    let gradients =
        vec![download(device, &d_head)?, download(device, &d_shares)?, download(device, &d_drawn)?];
    Ok((total, gradients))
}

fn posterior<D: EveryOperation>(shape: Shape, step: Option<Step>) -> Vec<Case<D>> {
    let name = format!("mixture as posterior {shape:?}");
    let mut cases = vec![Case::against(
        name.clone(),
        VALUE,
        move |_| Ok(vec![terms(shape, &inputs(shape).map(|values| wide(&values)))]),
        move |device: &D| Ok(vec![run(device, shape, &inputs(shape))?.0]),
    )];
    let [head, shares, drawn] = inputs(shape);
    let tensors = vec![
        Tensor::new("components", head, step),
        Tensor::new("shares", shares, step),
        Tensor::new("drawn weights", drawn, step),
    ];
    let b = shape[1] as f64;
    cases.extend(gradient_cases(
        &name,
        GRADIENT,
        tensors,
        move |at| central_differences(at, |at| -terms(shape, at) / b),
        move |device: &D, at| {
            let (total, gradients) = run(device, shape, at)?;
            Ok((-total / b, gradients))
        },
    ));
    cases
}

/// A component without weight has no part in the entropy, and a gradient of zero.
fn component_without_weight<D: EveryOperation>() -> Case<D> {
    let shape = [2, 3, 4, 3];
    let without = move || {
        let mut inputs = inputs(shape);
        inputs[2][0] = 0.0;
        inputs
    };
    Case::against(
        "mixture as posterior, a component without weight",
        VALUE,
        move |_| Ok(vec![terms(shape, &without().map(|values| wide(&values))), 0.0]),
        move |device: &D| {
            let (total, gradients) = run(device, shape, &without())?;
            let are_finite = gradients.iter().flatten().all(|d| d.is_finite());
            let gradient = f64::from(gradients[2][0]);
            Ok(vec![total, if are_finite { gradient } else { f64::NAN }])
        },
    )
}
