//! A Gaussian mixture on the prepared rows, by expectation maximisation.
//!
//! Paper: Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM algorithm" (1977):
//! gamma_nm ∝ w_m N(x_n; mu_m, S_m); w_m, mu_m and S_m are the moments under gamma. In the VaDE paper's
//! table 2 it has diagonal S_m and is the best of ten starts by likelihood; so is `gmm`, which calls
//! `pervade::mixture::fit`, as VaDE's mixture start does. `gmm-full` has full S_m.
//! Departures: full covariances have a single start, from the best of ten k-means starts (an iteration costs N K D²), and
//! a fraction of the mean variance is added to their diagonals in each M-step, as scikit-learn's `reg_covar` does in
//! absolute terms: constant columns would otherwise make S_m singular. Diagonal variances stay above 1e-3,
//! which scikit-learn's mixture added to them when the paper was written (`min_covar` of 0.17).
//! Expected on MNIST: 0.54 (the paper's table 2, best of ten) for diagonal covariances; repro/table2.md has ours, and
//! docs/paper.md the effect of the variance floor.

use pervade::compute::Device;
use pervade::data::{Dataset, Preparation};
use pervade::memory::{Need, product, require};
use pervade::mixture::{EmOptions, fit};
use pervade::seed::{Key, Stream};
use pervade::train::Observer;
use pervade::{Clusterer, Clustering, Error, Result};
use rayon::prelude::*;

use crate::kmeans::best_start;
use crate::rows::{RowMixture, check_rows, dense, preparation, require_mixture};
use crate::small::{cholesky, invert_lower};

/// Rows whose densities are computed together.
const LANES: usize = 32;
/// The maximum number of columns with full covariances: time grows with N K D², memory with K D².
const MAX_FULL_COLUMNS: usize = 1024;
/// The minimum mass of a component, in rows, so that its log weight stays finite.
const MIN_MASS_ROWS: f64 = 1e-8;

/// The form of the components' covariances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covariance {
    /// One variance per column.
    Diagonal,
    /// One variance per column and one covariance per pair of columns.
    Full,
}

/// A Gaussian mixture with its settings.
#[derive(Clone, Debug)]
pub struct Gmm {
    /// The number of clusters, K.
    pub n_clusters: usize,
    /// The number of starts, of which the best is kept.
    pub starts: usize,
    /// The form of the components' covariances.
    pub covariance: Covariance,
    /// The maximum number of EM iterations per start.
    pub max_iterations: usize,
    /// EM stops when an iteration raises the mean log likelihood by less than this fraction of it.
    pub tolerance: f64,
    /// Diagonal covariances only: the minimum variance.
    pub least_variance: f64,
    /// Full covariances only: added to each variance, as a fraction of the columns' mean variance.
    pub ridge: f64,
}

impl Default for Gmm {
    fn default() -> Self {
        let EmOptions { max_iterations, tolerance, .. } = EmOptions::default();
        let covariance = Covariance::Diagonal;
        Self {
            n_clusters: 10,
            starts: 10,
            covariance,
            max_iterations,
            tolerance,
            least_variance: 1e-3,
            ridge: 1e-4,
        }
    }
}

impl<D: Device> Clusterer<D> for Gmm {
    fn name(&self) -> &'static str {
        match self.covariance {
            Covariance::Diagonal => "gmm",
            Covariance::Full => "gmm-full",
        }
    }

    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        _observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        let (preparation, d) = (preparation(data)?, data.n_columns());
        check_rows(data, self.n_clusters, 2)?;
        if self.covariance == Covariance::Diagonal {
            require_mixture(data.n_rows(), d, self.n_clusters)?;
            let rows = dense(data, &preparation)?;
            let options = EmOptions::default().with(|o| {
                o.components = self.n_clusters;
                o.restarts = self.starts;
                o.max_iterations = self.max_iterations;
                o.tolerance = self.tolerance;
                o.min_variance = self.least_variance;
            });
            let key = Key::new(seed, Stream::Mixture, 0);
            let mixture = fit(device, &rows, d, &options, key)?.mixture;
            return Ok(Box::new(RowMixture { preparation, mixture }));
        }
        if d > MAX_FULL_COLUMNS {
            let problem =
                format!("{d} columns are too many for full covariances, at largest {MAX_FULL_COLUMNS}");
            return Err(Error::data("data", problem));
        }
        let rows = dense(data, &preparation)?;
        // Covariances and inverse factors, now and in the next iteration.
        let matrices = product(&[4, self.n_clusters, d, d, size_of::<f64>()]);
        let need = Need::of("covariances", matrices)
            .and("responsibilities", product(&[2, data.n_rows(), self.n_clusters, size_of::<f64>()]));
        require("a mixture with full covariances", &need, "ask for fewer clusters, or use `gmm`")?;
        let start = best_start(device, &rows, d, self.n_clusters, self.starts, seed)?;
        let ridge = self.ridge * mean_variance(&rows, d);
        let mut gamma = vec![0.0; start.assignment.len() * self.n_clusters];
        for (row, &cluster) in gamma.chunks_exact_mut(self.n_clusters).zip(&start.assignment) {
            row[cluster as usize] = 1.0;
        }
        let start = FullMixture::m_step(&rows, d, &gamma, self.n_clusters, ridge, None)?;
        let (mixture, _) = start.run_em(&rows, self.max_iterations, self.tolerance, ridge)?;
        Ok(Box::new(FullRowMixture { preparation, mixture }))
    }
}

/// A mixture with full covariances on prepared rows.
struct FullRowMixture {
    preparation: Preparation,
    mixture: FullMixture,
}

impl<D: Device> Clustering<D> for FullRowMixture {
    fn n_clusters(&self) -> usize {
        self.mixture.log_weights.len()
    }

    fn assign(&self, _device: &D, data: &Dataset) -> Result<Vec<u32>> {
        self.preparation.check_columns(data)?;
        let log_joint = self.mixture.log_joint(&dense(data, &self.preparation)?);
        Ok(log_joint.chunks_exact(self.mixture.log_weights.len()).map(argmax).collect())
    }

    fn embed(&self, _device: &D, _data: &Dataset) -> Result<Option<Vec<f32>>> {
        Ok(None)
    }
}

/// The index of the largest value; ties go to the first.
fn argmax(row: &[f64]) -> u32 {
    (1..row.len()).fold(0, |best, m| if row[m] > row[best] { m } else { best }) as u32
}

/// p(x) = sum_m w_m N(x; mu_m, S_m).
#[derive(Clone)]
pub(crate) struct FullMixture {
    /// `[K]`
    pub(crate) log_weights: Vec<f64>,
    /// `[K, D]`
    pub(crate) means: Vec<f64>,
    /// Inverse Cholesky factors of S_m. `[K, D, D]`
    pub(crate) inverse_factors: Vec<Vec<f64>>,
    /// S_m. `[K, D, D]`
    pub(crate) covariances: Vec<Vec<f64>>,
}

impl FullMixture {
    /// The M-step: moments of the rows under `gamma`; a component without rows stays as in `previous`.
    ///
    /// # Shapes
    /// - rows: `[N, D]`, gamma: `[N, K]`
    pub(crate) fn m_step(
        rows: &[f32],
        d: usize,
        gamma: &[f64],
        k: usize,
        ridge: f64,
        previous: Option<&Self>,
    ) -> Result<Self> {
        // One thread sums a component in the order of the rows: the result does not depend on the number of threads.
        let parts: Result<Vec<_>> =
            (0..k).into_par_iter().map(|m| component(rows, d, gamma, k, m, ridge, previous)).collect();
        let parts = parts?;
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
    pub(crate) fn run_em(
        self,
        rows: &[f32],
        max_iterations: usize,
        tolerance: f64,
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
            mixture = Self::m_step(rows, d, &gamma, k, ridge, Some(&mixture))?;
        }
        Ok((mixture, previous))
    }

    /// log w_m + log N(x; mu_m, S_m), where with L Lᵀ = S_m the exponent is -|L⁻¹ (x - mu_m)|² / 2.
    ///
    /// # Shapes
    /// - rows: `[N, D]`, result: `[N, K]`
    pub(crate) fn log_joint(&self, rows: &[f32]) -> Vec<f64> {
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
        (0..i).for_each(|j| covariance[j * d + i] = covariance[i * d + j]);
    }
    let factor = cholesky(&covariance, d).ok_or_else(|| {
        Error::data("data", format!("the covariance of component {m} is singular"))
            .with_hint("raise the ridge, or use diagonal covariances")
    })?;
    Ok(Component { mass, mean, covariance, inverse_factor: invert_lower(&factor, d) })
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
pub(crate) fn mean_variance(rows: &[f32], d: usize) -> f64 {
    let n = (rows.len() / d) as f64;
    let mut mean = vec![0.0; d];
    rows.iter().enumerate().for_each(|(i, &x)| mean[i % d] += f64::from(x) / n);
    let squares = rows.iter().enumerate().map(|(i, &x)| (f64::from(x) - mean[i % d]).powi(2));
    squares.sum::<f64>() / rows.len() as f64
}
