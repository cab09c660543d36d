//! Expectation maximisation for a diagonal mixture (Dempster, Laird and Rubin, 1977).

use super::DiagonalMixture;
use super::kmeans::{check_components, column_means, lloyd};
use crate::compute::{Alone, Device, Moments, Ranks};
use crate::interrupt::Interrupt;
use crate::memory::product;
use crate::ranks::{gather_parts, part_of};
use crate::rows::check_latents;
use crate::seed::Key;
use crate::{Error, Result};
use pervade_compute::parallel::{map_chunks, n_chunks};

/// No variance falls below this fraction of the mean variance of the latents' columns. Otherwise a component on
/// repeated rows would shrink for ever and its density grow without bound; a relative floor keeps the result the same
/// if all latents are scaled. Components that matter are broader by three orders of magnitude.
const VARIANCE_FLOOR_RATIO: f64 = 1e-6;
/// The floor if all rows are the same, where a relative floor would be zero.
const MIN_VARIANCE: f64 = 1e-12;
/// Minimum number of rows a component counts for, so that its log weight stays finite.
const MIN_MASS_ROWS: f64 = 1e-8;

/// Options for fitting a mixture by EM.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct EmOptions {
    /// C
    pub components: usize,
    /// Number of k-means starts; the fit with the highest log likelihood is kept.
    pub restarts: usize,
    /// Maximum number of EM iterations per start.
    pub max_iterations: usize,
    /// Stop if an iteration raises the mean log likelihood by less than this fraction of it (of one nat if it is nearer
    /// to zero).
    pub tolerance: f64,
    /// Absolute lower bound on the variances; zero leaves only the floor relative to the scale of the rows.
    pub min_variance: f64,
}

impl Default for EmOptions {
    fn default() -> Self {
        Self { components: 10, restarts: 10, max_iterations: 150, tolerance: 1e-6, min_variance: 0.0 }
    }
}

impl EmOptions {
    /// Applies a change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// A fitted mixture, with the history of its fit.
#[derive(Clone, Debug)]
pub struct EmFit {
    /// The mixture.
    pub mixture: DiagonalMixture,
    /// Mean log density of the rows under `mixture`, in nats per row.
    pub log_likelihood: f64,
    /// The mean log density at the start and after each iteration. `[iterations + 1]`
    pub trace: Vec<f64>,
    /// Whether the gain fell below the tolerance before the iterations ran out.
    pub converged: bool,
    /// Index of the start that this fit came from.
    pub restart: usize,
}

/// Fits a mixture from several k-means starts and keeps the most likely; ties go to the first.
///
/// # Shapes
/// - latents: `[N, J]`
pub fn fit<D: Device>(
    device: &D,
    latents: &[f32],
    n_latent: usize,
    options: &EmOptions,
    key: Key,
) -> Result<EmFit> {
    let likelihood = &mut |fit: &EmFit| Ok(fit.log_likelihood);
    fit_scored(device, &Alone, latents, n_latent, options, key, likelihood, &mut || Ok(()))
}

/// Like [`fit`], but keeps the start with the highest `score`, and calls `interrupt` before each iteration to check for
/// an interrupt. Each rank fits some of the mixtures, and all ranks score all of them.
pub(crate) fn fit_scored<D: Device>(
    device: &D,
    ranks: &dyn Ranks,
    latents: &[f32],
    n_latent: usize,
    options: &EmOptions,
    key: Key,
    score: &mut dyn FnMut(&EmFit) -> Result<f64>,
    interrupt: Interrupt<'_>,
) -> Result<EmFit> {
    let n_rows = check_latents(latents, n_latent)?;
    check_components("components", options.components, n_rows)?;
    if options.restarts == 0 {
        return Err(Error::setting("restarts", 0, "must be at least 1"));
    }
    let scale = Scale::of(latents, n_latent, options.min_variance);
    let mut points = device.points(latents, n_latent)?;
    let mut own = Vec::new();
    for restart in part_of(ranks, options.restarts) {
        let start =
            lloyd(device, &mut points, latents, &scale.centre, options.components, key, restart, interrupt)?;
        let previous = DiagonalMixture {
            log_weights: vec![0.0; options.components],
            means: start.centres,
            variances: vec![scale.mean_variance; options.components * n_latent],
            n_components: options.components,
            n_latent,
        };
        let start = m_step(&start.moments, previous, &scale);
        own.push(iterate(device, &mut points, n_rows, start, options, &scale, interrupt)?);
    }
    let mut best: Option<(f64, EmFit)> = None;
    for (restart, fit) in fits_of_all(ranks, own, n_latent, options)?.into_iter().enumerate() {
        let fit = EmFit { restart, ..fit };
        let value = score(&fit)?;
        if best.as_ref().is_none_or(|(highest, _)| value > *highest) {
            best = Some((value, fit));
        }
    }
    Ok(best.expect("at least one restart").1)
}

/// The mixtures that all ranks fitted, in order.
fn fits_of_all(
    ranks: &dyn Ranks,
    own: Vec<EmFit>,
    n_latent: usize,
    options: &EmOptions,
) -> Result<Vec<EmFit>> {
    if ranks.size() == 1 {
        return Ok(own);
    }
    let (c, n_trace) = (options.components, options.max_iterations + 1);
    let cj = c * n_latent;
    // Weights, means, variances, log likelihood, whether it converged, length of the trace, and the trace.
    let width = c + 2 * cj + 3 + n_trace;
    let values = own.iter().flat_map(|fit| {
        let EmFit { mixture, trace, .. } = fit;
        let facts = [fit.log_likelihood, f64::from(u8::from(fit.converged)), trace.len() as f64];
        let padding = vec![0.0; n_trace - trace.len()];
        [&mixture.log_weights, &mixture.means, &mixture.variances, &facts[..], trace, &padding].concat()
    });
    let all = gather_parts(ranks, values.collect::<Vec<f64>>(), options.restarts, width)?;
    let fit = |values: &[f64]| {
        let (log_weights, rest) = values.split_at(c);
        let (means, rest) = rest.split_at(cj);
        let (variances, rest) = rest.split_at(cj);
        let mixture = DiagonalMixture {
            log_weights: log_weights.to_vec(),
            means: means.to_vec(),
            variances: variances.to_vec(),
            n_components: c,
            n_latent,
        };
        let trace = rest[3..3 + rest[2] as usize].to_vec();
        EmFit { mixture, log_likelihood: rest[0], trace, converged: rest[1] > 0.0, restart: 0 }
    };
    Ok(all.chunks_exact(width).map(fit).collect())
}

/// Bytes that k-means and EM need in addition to the latents: every chunk of rows has its own moments, and every row
/// its nearest centre and distance, before and after an iteration.
pub fn bytes_needed(n_rows: usize, n_latent: usize, components: usize) -> u64 {
    let mixtures = n_chunks(n_rows).saturating_add(4);
    let columns = n_latent.saturating_mul(2).saturating_add(1);
    let moments = product(&[mixtures, components, columns, size_of::<f64>()]);
    moments.saturating_add(product(&[2, n_rows, size_of::<(u32, f64)>()]))
}

/// EM from a given mixture; `options.components` and `options.restarts` are not used.
///
/// # Shapes
/// - latents: `[N, J]`
pub fn fit_from<D: Device>(
    device: &D,
    latents: &[f32],
    start: DiagonalMixture,
    options: &EmOptions,
) -> Result<EmFit> {
    let n_rows = check_latents(latents, start.n_latent)?;
    let scale = Scale::of(latents, start.n_latent, options.min_variance);
    let mut points = device.points(latents, start.n_latent)?;
    iterate(device, &mut points, n_rows, start, options, &scale, &mut || Ok(()))
}

/// Location and scale of the latents.
struct Scale {
    /// `[J]`
    centre: Vec<f64>,
    mean_variance: f64,
    variance_floor: f64,
}

impl Scale {
    fn of(latents: &[f32], n_latent: usize, min_variance: f64) -> Self {
        let centre = column_means(latents, n_latent);
        let squares = map_chunks(latents.len() / n_latent, |rows| {
            latents[rows.start * n_latent..rows.end * n_latent]
                .iter()
                .enumerate()
                .map(|(index, &z)| (f64::from(z) - centre[index % n_latent]).powi(2))
                .sum::<f64>()
        });
        let mean_variance = squares.iter().sum::<f64>() / latents.len() as f64;
        let variance_floor = (VARIANCE_FLOOR_RATIO * mean_variance).max(MIN_VARIANCE).max(min_variance);
        Self { centre, mean_variance, variance_floor }
    }
}

fn iterate<D: Device>(
    device: &D,
    points: &mut D::Points<'_>,
    n_rows: usize,
    mut mixture: DiagonalMixture,
    options: &EmOptions,
    scale: &Scale,
    interrupt: Interrupt<'_>,
) -> Result<EmFit> {
    mixture.variances.iter_mut().for_each(|s2| *s2 = s2.max(scale.variance_floor));
    let mut trace = Vec::with_capacity(options.max_iterations + 1);
    loop {
        interrupt()?;
        let (moments, log_density) = device.e_step(points, &mixture.components(&scale.centre))?;
        let log_likelihood = log_density / n_rows as f64;
        let gain = trace.last().map_or(f64::INFINITY, |previous| log_likelihood - previous);
        trace.push(log_likelihood);
        let converged = gain < options.tolerance * log_likelihood.abs().max(1.0);
        if converged || trace.len() > options.max_iterations {
            return Ok(EmFit { mixture, log_likelihood, trace, converged, restart: 0 });
        }
        mixture = m_step(&moments, mixture, scale);
    }
}

/// M step: w_m = N_m / N, mu_m and s2_m the moments of component m. A component without rows keeps its parameters from
/// `previous`.
fn m_step(moments: &Moments, previous: DiagonalMixture, scale: &Scale) -> DiagonalMixture {
    let DiagonalMixture { n_components, n_latent, .. } = previous;
    let mut mixture = previous;
    let mass = |m: usize| moments.mass(m).max(MIN_MASS_ROWS);
    let log_total = (0..n_components).map(mass).sum::<f64>().ln();
    for m in 0..n_components {
        mixture.log_weights[m] = mass(m).ln() - log_total;
        if moments.mass(m) < MIN_MASS_ROWS {
            continue;
        }
        for j in 0..n_latent {
            let (mean, variance) = moments.mean_and_variance(m, j);
            mixture.means[m * n_latent + j] = scale.centre[j] + mean;
            mixture.variances[m * n_latent + j] = variance.max(scale.variance_floor);
        }
    }
    mixture
}
