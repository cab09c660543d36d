//! Expectation maximisation for a diagonal mixture (Dempster, Laird and Rubin, 1977).

use super::DiagonalMixture;
use super::kmeans::{check_components, column_means, lloyd};
use crate::compute::{Device, Moments};
use crate::interrupt::Interrupt;
use crate::memory::product;
use crate::rows::check_latents;
use crate::seed::Key;
use crate::{Error, Result};
use pervade_compute::parallel::{map_chunks, n_chunks};

/// No variance falls below this share of the mean variance of the latents' columns. A component on
/// repeated rows would otherwise shrink for ever and its density grow without bound; a share keeps
/// the result the same when all latents are multiplied by a number. Components that matter are
/// broader by three orders of magnitude.
const VARIANCE_FLOOR_RATIO: f64 = 1e-6;
/// The floor where all rows are the same and a share of nothing would be nothing.
const MIN_VARIANCE: f64 = 1e-12;
/// Rows a component counts for at least, so that its log weight stays finite.
const MIN_MASS_ROWS: f64 = 1e-8;

/// How to fit a mixture.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct EmOptions {
    /// C
    pub components: usize,
    /// Starts tried; the one that ends with the highest log likelihood is kept.
    pub restarts: usize,
    /// EM iterations of each start at most.
    pub max_iterations: usize,
    /// Stop when an iteration raises the mean log likelihood by less than this share of it (of one
    /// nat where it is nearer to zero).
    pub tolerance: f64,
    /// No variance falls below this, whatever the scale of the rows; zero leaves the floor that depends on it.
    pub least_variance: f64,
}

impl Default for EmOptions {
    fn default() -> Self {
        Self { components: 10, restarts: 10, max_iterations: 150, tolerance: 1e-6, least_variance: 0.0 }
    }
}

impl EmOptions {
    /// The same options after a change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// A fitted mixture and how it came about.
#[derive(Clone, Debug)]
pub struct EmFit {
    /// The mixture.
    pub mixture: DiagonalMixture,
    /// Mean log density of the rows under `mixture`, in nats per row.
    pub log_likelihood: f64,
    /// The same at the start and after each iteration. `[iterations + 1]`
    pub trace: Vec<f64>,
    /// Whether the gain fell below the tolerance before the iterations ran out.
    pub converged: bool,
    /// Which restart this is.
    pub restart: usize,
}

/// Fits a mixture from several k-means starts and keeps the most likely (the first of equals).
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
    fit_asking(device, latents, n_latent, options, key, &mut || Ok(()))
}

/// The same, asking before each iteration whether to go on.
pub(crate) fn fit_asking<D: Device>(
    device: &D,
    latents: &[f32],
    n_latent: usize,
    options: &EmOptions,
    key: Key,
    ask: Interrupt<'_>,
) -> Result<EmFit> {
    let n_rows = check_latents(latents, n_latent)?;
    check_components("components", options.components, n_rows)?;
    if options.restarts == 0 {
        return Err(Error::setting("restarts", 0, "must be at least 1"));
    }
    let scale = Scale::of(latents, n_latent, options.least_variance);
    let mut points = device.points(latents, n_latent)?;
    let mut best: Option<EmFit> = None;
    for restart in 0..options.restarts {
        let start =
            lloyd(device, &mut points, latents, &scale.centre, options.components, key, restart, ask)?;
        let previous = DiagonalMixture {
            log_weights: vec![0.0; options.components],
            means: start.centres,
            variances: vec![scale.mean_variance; options.components * n_latent],
            n_components: options.components,
            n_latent,
        };
        let start = maximise(&start.moments, previous, &scale);
        let fit = EmFit { restart, ..iterate(device, &mut points, n_rows, start, options, &scale, ask)? };
        if best.as_ref().is_none_or(|best| fit.log_likelihood > best.log_likelihood) {
            best = Some(fit);
        }
    }
    Ok(best.expect("at least one restart"))
}

/// Bytes that k-means and EM need beside the latents: every chunk of rows has moments of its own, and every row its
/// nearest centre with the distance, before and after an iteration.
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
pub fn improve<D: Device>(
    device: &D,
    latents: &[f32],
    start: DiagonalMixture,
    options: &EmOptions,
) -> Result<EmFit> {
    let n_rows = check_latents(latents, start.n_latent)?;
    let scale = Scale::of(latents, start.n_latent, options.least_variance);
    let mut points = device.points(latents, start.n_latent)?;
    iterate(device, &mut points, n_rows, start, options, &scale, &mut || Ok(()))
}

/// Where the latents lie and how far they spread.
struct Scale {
    /// `[J]`
    centre: Vec<f64>,
    mean_variance: f64,
    variance_floor: f64,
}

impl Scale {
    fn of(latents: &[f32], n_latent: usize, least_variance: f64) -> Self {
        let centre = column_means(latents, n_latent);
        let squares = map_chunks(latents.len() / n_latent, |rows| {
            latents[rows.start * n_latent..rows.end * n_latent]
                .iter()
                .enumerate()
                .map(|(place, &z)| (f64::from(z) - centre[place % n_latent]).powi(2))
                .sum::<f64>()
        });
        let mean_variance = squares.iter().sum::<f64>() / latents.len() as f64;
        let variance_floor = (VARIANCE_FLOOR_RATIO * mean_variance).max(MIN_VARIANCE).max(least_variance);
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
    ask: Interrupt<'_>,
) -> Result<EmFit> {
    mixture.variances.iter_mut().for_each(|s2| *s2 = s2.max(scale.variance_floor));
    let mut trace = Vec::with_capacity(options.max_iterations + 1);
    loop {
        ask()?;
        let (moments, log_density) = device.e_step(points, &mixture.components(&scale.centre))?;
        let log_likelihood = log_density / n_rows as f64;
        let gain = trace.last().map_or(f64::INFINITY, |previous| log_likelihood - previous);
        trace.push(log_likelihood);
        let converged = gain < options.tolerance * log_likelihood.abs().max(1.0);
        if converged || trace.len() > options.max_iterations {
            return Ok(EmFit { mixture, log_likelihood, trace, converged, restart: 0 });
        }
        mixture = maximise(&moments, mixture, scale);
    }
}

/// M step: w_m = N_m / N, mu_m and s2_m the moments of component m. A component that no row
/// answers to keeps its place in `previous`.
fn maximise(moments: &Moments, previous: DiagonalMixture, scale: &Scale) -> DiagonalMixture {
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
