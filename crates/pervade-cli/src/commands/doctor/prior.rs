//! The mixture prior: its terms against the formulas in double precision, its gradients against
//! central differences of those formulas.

use pervade::Result;
use pervade::compute::{Gamma, Layout, Matrix, MixtureSlots, Params};
use pervade_rivals::RivalDevice;

use super::{Check, numbers, read};

/// B, J and C.
const SIZES: (usize, usize, usize) = (11, 3, 5);

/// Everything that the terms depend on, in one list: heads [B, 2J], z [B, J], logits [C], means and
/// log variances [C, J].
struct Point {
    values: Vec<f64>,
}

impl Point {
    fn part(&self, which: usize) -> &[f64] {
        &self.values[places()[which].clone()]
    }

    /// The ELBO without reconstruction, summed over rows (paper, the detailed ELBO).
    fn elbo(&self, gamma: Gamma) -> f64 {
        let (b, j, _) = SIZES;
        let row = |i: usize| {
            let head = &self.part(0)[2 * j * i..2 * j * (i + 1)];
            let z = &self.part(1)[j * i..j * (i + 1)];
            let (means, log_variances) = head.split_at(j);
            let variances: Vec<f64> = log_variances.iter().map(|l| l.exp()).collect();
            let expected = self.log_joints(means, &variances);
            let entropy: f64 =
                log_variances.iter().map(|l| 0.5 * (1.0 + std::f64::consts::TAU.ln() + l)).sum();
            entropy
                + match gamma {
                    Gamma::Exact => log_sum_exp(&expected),
                    // sum over c of gamma_c (E log p(z, c) - log gamma_c), gamma = p(c|z)
                    Gamma::Sampled => {
                        let at_z = self.log_joints(z, &vec![0.0; j]);
                        let total = log_sum_exp(&at_z);
                        at_z.iter()
                            .zip(&expected)
                            .map(|(l, e)| (l - total).exp() * (e - (l - total)))
                            .sum::<f64>()
                    }
                }
        };
        (0..b).map(row).sum()
    }

    /// log w_c + E log N(p + noise of these variances; mu_c, s2_c) for each component.
    fn log_joints(&self, point: &[f64], variances: &[f64]) -> Vec<f64> {
        let (_, j, c) = SIZES;
        let (logits, means, logs) = (self.part(2), self.part(3), self.part(4));
        let total = log_sum_exp(logits);
        let density = |m: usize| -> f64 {
            let each = |k: usize| {
                let (mean, log) = (means[m * j + k], logs[m * j + k]);
                std::f64::consts::TAU.ln() + log + (variances[k] + (point[k] - mean).powi(2)) * (-log).exp()
            };
            logits[m] - total - 0.5 * (0..j).map(each).sum::<f64>()
        };
        (0..c).map(density).collect()
    }
}

/// Where each of the five lies in the list.
fn places() -> [std::ops::Range<usize>; 5] {
    let (b, j, c) = SIZES;
    let mut end = 0;
    [2 * b * j, b * j, c, c * j, c * j].map(|len| {
        end += len;
        end - len..end
    })
}

fn log_sum_exp(values: &[f64]) -> f64 {
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    greatest + values.iter().map(|v| (v - greatest).exp()).sum::<f64>().ln()
}

/// All checks of this file.
pub(super) fn checks<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for (gamma, name) in [(Gamma::Exact, "exact"), (Gamma::Sampled, "sampled")] {
        let at = numbers(places()[4].end, 40);
        let point = Point { values: at.iter().map(|&x| f64::from(x)).collect() };
        let (elbo, gradients) = computed(device, gamma, &at)?;
        let (h, b) = (1e-5, SIZES.0 as f64);
        let slope = |i: usize| {
            let moved = |by: f64| {
                let mut values = point.values.clone();
                values[i] += by;
                Point { values }.elbo(gamma)
            };
            -(moved(h) - moved(-h)) / (2.0 * h) / b
        };
        let wanted: Vec<f64> = (0..at.len()).map(slope).collect();
        checks.push(Check::new(
            format!("mixture prior, {name} gamma"),
            2e-6,
            &[elbo as f32],
            &[point.elbo(gamma)],
        ));
        checks.push(Check::new(format!("mixture prior's gradient, {name} gamma"), 1e-5, &gradients, &wanted));
    }
    Ok(checks)
}

/// The device's sum of terms, and its gradients in the order of [`Point`].
fn computed<D: RivalDevice>(device: &D, gamma: Gamma, at: &[f32]) -> Result<(f64, Vec<f32>)> {
    let (b, j, c) = SIZES;
    let mut layout = Layout::default();
    let slots = MixtureSlots {
        logits: layout.push("logits", 1, c),
        means: layout.push("means", c, j),
        log_variances: layout.push("log_variances", c, j),
    };
    let [heads, z, logits, means, logs] = places();
    let mut params = Params::zeros(device, 1, layout.len())?;
    let parts = [(slots.logits, logits), (slots.means, means), (slots.log_variances, logs)];
    for (slot, place) in &parts {
        device.write(&mut params.values, slot.offset, &at[place.clone()])?;
    }
    let (mut head, mut latent) = (Matrix::zeros(device, 1, b, 2 * j)?, Matrix::zeros(device, 1, b, j)?);
    device.write(&mut head.data, 0, &at[heads])?;
    device.write(&mut latent.data, 0, &at[z])?;
    let (mut d_head, mut dz) = (Matrix::zeros(device, 1, b, 2 * j)?, Matrix::zeros(device, 1, b, j)?);
    let mut scratch = device.prior_scratch(1, b, b, slots)?;
    let mut sums = device.sums(1, b)?;
    device.prior(gamma, &mut params, slots, &head, &latent, &mut scratch, &mut d_head, &mut dz, &mut sums)?;
    let mut gradients = read(device, &d_head.data, 0..b * 2 * j)?;
    gradients.extend(read(device, &dz.data, 0..b * j)?);
    for (slot, _) in &parts {
        gradients.extend(read(device, &params.gradients, slot.range())?);
    }
    Ok((device.take_sums(&mut sums)?[0].elbo(), gradients))
}
