//! Gaussian mixtures with full, tied or diagonal covariances by expectation maximisation, on the host in double precision:
//! for small tables, without a network.

use rayon::prelude::*;

use super::triangular::{cholesky, invert_lower};
use crate::{Error, Result};

/// Rows whose densities are computed together.
const LANES: usize = 32;
/// The minimum mass of a component, in rows, so that its log weight stays finite.
const MIN_MASS_ROWS: f64 = 1e-8;

/// The form of the components' covariances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Covariance {
    /// One variance per column.
    Diagonal,
    /// Full, and the same for all components.
    Tied,
    /// One variance per column and one covariance per pair of columns.
    Full,
}

impl Covariance {
    /// Free parameters of a mixture of K components in D columns.
    pub fn n_parameters(self, k: usize, d: usize) -> usize {
        let pairs = d * (d + 1) / 2;
        let covariances = match self {
            Covariance::Diagonal => k * d,
            Covariance::Tied => pairs,
            Covariance::Full => k * pairs,
        };
        k - 1 + k * d + covariances
    }
}

/// p(x) = sum_m w_m N(x; mu_m, S_m).
#[derive(Clone, Debug)]
pub struct FullMixture {
    /// Logarithms of the weights. `[K]`
    pub log_weights: Vec<f64>,
    /// Means. `[K, D]`
    pub means: Vec<f64>,
    /// Inverse Cholesky factors of S_m. `[K, D, D]`
    pub inverse_factors: Vec<Vec<f64>>,
    /// S_m. `[K, D, D]`
    pub covariances: Vec<Vec<f64>>,
}

impl FullMixture {
    /// The mixture with these parameters; an error if a covariance is not positive definite.
    pub fn new(log_weights: Vec<f64>, means: Vec<f64>, covariances: Vec<Vec<f64>>) -> Result<Self> {
        let d = means.len() / log_weights.len().max(1);
        let factors = covariances.iter().enumerate().map(|(m, covariance)| inverse_factor(covariance, d, m));
        let inverse_factors = factors.collect::<Result<_>>()?;
        Ok(Self { log_weights, means, inverse_factors, covariances })
    }

    /// The mixture with its parameters rounded to single precision, as a model file holds them.
    pub(crate) fn in_single_precision(&self) -> Result<Self> {
        let single = |values: &[f64]| values.iter().map(|&x| f64::from(x as f32)).collect::<Vec<f64>>();
        let covariances = self.covariances.iter().map(|covariance| single(covariance)).collect();
        Self::new(single(&self.log_weights), single(&self.means), covariances)
    }

    /// log p of the observed cells of a row, where NaN is missing: the others are integrated out, which leaves a mixture of the
    /// observed columns' means and covariances.
    ///
    /// # Shapes
    /// - row: `[D]`
    pub fn log_density(&self, row: &[f32]) -> f64 {
        let (k, d) = (self.log_weights.len(), row.len());
        let observed: Vec<usize> = (0..d).filter(|&j| !row[j].is_nan()).collect();
        if observed.len() == d {
            let mut joints = self.log_joint(row);
            return softmax(&mut joints);
        }
        let n = observed.len();
        let pairs = || observed.iter().flat_map(|&i| observed.iter().map(move |&j| i * d + j));
        let marginal = Self::new(
            self.log_weights.clone(),
            (0..k).flat_map(|m| observed.iter().map(move |&j| self.means[m * d + j])).collect(),
            self.covariances.iter().map(|covariance| pairs().map(|at| covariance[at]).collect()).collect(),
        );
        let cells: Vec<f32> = observed.iter().map(|&j| row[j]).collect();
        // A part of a positive definite matrix is positive definite.
        if n == 0 { 0.0 } else { marginal.map_or(f64::NAN, |mixture| mixture.log_density(&cells)) }
    }

    /// One Gaussian with the mean and the covariance of the whole mixture.
    pub fn merged(&self) -> Result<Self> {
        let (k, d) = (self.log_weights.len(), self.means.len() / self.log_weights.len());
        let weights: Vec<f64> = self.log_weights.iter().map(|w| w.exp()).collect();
        let component = |m: usize| &self.means[m * d..][..d];
        let mean: Vec<f64> = (0..d).map(|j| (0..k).map(|m| weights[m] * component(m)[j]).sum()).collect();
        let covariance = |i: usize, j: usize| -> f64 {
            let between = |m: usize| (component(m)[i] - mean[i]) * (component(m)[j] - mean[j]);
            (0..k).map(|m| weights[m] * (self.covariances[m][i * d + j] + between(m))).sum()
        };
        let covariance = (0..d * d).map(|at| covariance(at / d, at % d)).collect();
        Self::new(vec![0.0], mean, vec![covariance])
    }

    /// The M-step: moments of the rows under `gamma`; a component without rows stays as in `previous`.
    ///
    /// # Shapes
    /// - rows: `[N, D]`, gamma: `[N, K]`
    pub fn m_step(
        rows: &[f32],
        d: usize,
        gamma: &[f64],
        k: usize,
        covariance: Covariance,
        ridge: f64,
        previous: Option<&Self>,
    ) -> Result<Self> {
        // One thread sums a component in the order of the rows: the result does not depend on the number of threads.
        let parts: Result<Vec<_>> = (0..k)
            .into_par_iter()
            .map(|m| component(rows, d, gamma, k, m, covariance, ridge, previous))
            .collect();
        let mut parts = parts?;
        if covariance == Covariance::Tied {
            tie(&mut parts, d)?;
        }
        let log_total = parts.iter().map(|part| part.mass).sum::<f64>().ln();
        let log_weights = parts.iter().map(|part| part.mass.ln() - log_total).collect();
        let mut mixture = Self { log_weights, means: vec![], inverse_factors: vec![], covariances: vec![] };
        for part in parts {
            mixture.means.extend(part.mean);
            mixture.inverse_factors.push(part.inverse_factor);
            mixture.covariances.push(part.covariance);
        }
        Ok(mixture)
    }

    /// Runs EM until it gains less than the tolerance; returns the mixture and the mean log density of the rows.
    pub fn run_em(
        self,
        rows: &[f32],
        max_iterations: usize,
        tolerance: f64,
        covariance: Covariance,
        ridge: f64,
    ) -> Result<(Self, f64)> {
        let (k, d) = (self.log_weights.len(), self.means.len() / self.log_weights.len());
        let mut mixture = self;
        let mut previous = f64::NEG_INFINITY;
        for iteration in 0.. {
            let mut gamma = mixture.log_joint(rows);
            let log_densities: Vec<f64> = gamma.par_chunks_exact_mut(k).map(softmax).collect();
            let mean = log_densities.iter().sum::<f64>() / log_densities.len() as f64;
            if iteration == max_iterations || mean - previous < tolerance * mean.abs().max(1.0) {
                previous = mean;
                break;
            }
            previous = mean;
            mixture = Self::m_step(rows, d, &gamma, k, covariance, ridge, Some(&mixture))?;
        }
        Ok((mixture, previous))
    }

    /// log w_m + log N(x; mu_m, S_m), where with L Lᵀ = S_m the exponent is -|L⁻¹ (x - mu_m)|² / 2.
    ///
    /// # Shapes
    /// - rows: `[N, D]`, result: `[N, K]`
    pub fn log_joint(&self, rows: &[f32]) -> Vec<f64> {
        let (k, d) = (self.log_weights.len(), self.means.len() / self.log_weights.len());
        let constants: Vec<f64> = (0..k)
            .map(|m| {
                let log_precision: f64 = (0..d).map(|j| self.inverse_factors[m][j * d + j].ln()).sum();
                self.log_weights[m] + log_precision - 0.5 * d as f64 * std::f64::consts::TAU.ln()
            })
            .collect();
        let mut log_joint = vec![0.0; rows.len() / d * k];
        log_joint.par_chunks_mut(LANES * k).zip(rows.par_chunks(LANES * d)).for_each(|(out, block)| {
            let mut centred = vec![[0.0; LANES]; d];
            for m in 0..k {
                for (lane, row) in block.chunks_exact(d).enumerate() {
                    (0..d).for_each(|j| centred[j][lane] = f64::from(row[j]) - self.means[m * d + j]);
                }
                let squares = squares(&self.inverse_factors[m], &centred, d);
                for (lane, row) in out.chunks_exact_mut(k).enumerate() {
                    row[m] = constants[m] - 0.5 * squares[lane];
                }
            }
        });
        log_joint
    }
}

/// |L⁻¹ x|² of `LANES` rows.
fn squares(inverse_factor: &[f64], centred: &[[f64; LANES]], d: usize) -> [f64; LANES] {
    let mut squares = [0.0; LANES];
    for j in 0..d {
        let mut y = [0.0; LANES];
        for (factor, x) in inverse_factor[j * d..=j * d + j].iter().zip(centred) {
            (0..LANES).for_each(|lane| y[lane] += factor * x[lane]);
        }
        (0..LANES).for_each(|lane| squares[lane] += y[lane] * y[lane]);
    }
    squares
}

/// One component's result of an M-step.
struct Component {
    mass: f64,
    mean: Vec<f64>,
    covariance: Vec<f64>,
    inverse_factor: Vec<f64>,
}

fn component(
    rows: &[f32],
    d: usize,
    gamma: &[f64],
    k: usize,
    m: usize,
    shape: Covariance,
    ridge: f64,
    previous: Option<&FullMixture>,
) -> Result<Component> {
    let members =
        || rows.chunks_exact(d).zip(gamma[m..].iter().step_by(k)).filter(|(_, weight)| **weight > 0.0);
    let mass: f64 = members().map(|(_, weight)| weight).sum();
    if let Some(previous) = previous.filter(|_| mass < MIN_MASS_ROWS) {
        let mean = previous.means[m * d..(m + 1) * d].to_vec();
        let (covariance, inverse_factor) =
            (previous.covariances[m].clone(), previous.inverse_factors[m].clone());
        return Ok(Component { mass: MIN_MASS_ROWS, mean, covariance, inverse_factor });
    }
    let mass = mass.max(MIN_MASS_ROWS);
    let mut mean = vec![0.0; d];
    for (row, weight) in members() {
        (0..d).for_each(|j| mean[j] += weight / mass * f64::from(row[j]));
    }
    let mut covariance = vec![0.0; d * d];
    let mut centred = vec![0.0; d];
    for (row, weight) in members() {
        (0..d).for_each(|j| centred[j] = f64::from(row[j]) - mean[j]);
        for i in 0..d {
            let scaled = weight / mass * centred[i];
            let row = &mut covariance[i * d..=i * d + i];
            row.iter_mut().zip(&centred).for_each(|(sum, x)| *sum += scaled * x);
        }
    }
    for i in 0..d {
        covariance[i * d + i] += ridge;
        let is_free = shape != Covariance::Diagonal;
        (0..i).for_each(|j| {
            covariance[i * d + j] *= f64::from(u8::from(is_free));
            covariance[j * d + i] = covariance[i * d + j];
        });
    }
    let inverse_factor = inverse_factor(&covariance, d, m)?;
    Ok(Component { mass, mean, covariance, inverse_factor })
}

fn inverse_factor(covariance: &[f64], d: usize, m: usize) -> Result<Vec<f64>> {
    let factor = cholesky(covariance, d).ok_or_else(|| {
        Error::data("data", format!("the covariance of component {m} is singular"))
            .with_hint("raise the ridge, or use diagonal covariances")
    })?;
    Ok(invert_lower(&factor, d))
}

/// Gives all components their mean covariance, by mass.
fn tie(parts: &mut [Component], d: usize) -> Result<()> {
    let total: f64 = parts.iter().map(|part| part.mass).sum();
    let mut mean = vec![0.0; d * d];
    for part in parts.iter() {
        mean.iter_mut().zip(&part.covariance).for_each(|(sum, x)| *sum += part.mass / total * x);
    }
    let factor = inverse_factor(&mean, d, 0)?;
    for part in parts {
        part.covariance.clone_from(&mean);
        part.inverse_factor.clone_from(&factor);
    }
    Ok(())
}

/// Turns log joints into responsibilities; returns the log density.
fn softmax(row: &mut [f64]) -> f64 {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    row.iter_mut().for_each(|x| *x = (*x - largest).exp());
    let sum: f64 = row.iter().sum();
    row.iter_mut().for_each(|x| *x /= sum);
    largest + sum.ln()
}

/// The mean of the columns' variances.
pub fn mean_variance(rows: &[f32], d: usize) -> f64 {
    let n = (rows.len() / d) as f64;
    let mut mean = vec![0.0; d];
    rows.iter().enumerate().for_each(|(i, &x)| mean[i % d] += f64::from(x) / n);
    let squares = rows.iter().enumerate().map(|(i, &x)| (f64::from(x) - mean[i % d]).powi(2));
    squares.sum::<f64>() / rows.len() as f64
}
