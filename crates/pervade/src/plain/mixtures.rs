//! Gaussian mixtures on the rows of a small table: fits, Schwarz's criterion, and the density of the rows.

use super::MAX_ROWS;
use super::row_density::{RowDensity, quantiles};
use crate::Result;
use crate::compute::Device;
use crate::graph::PreparedGraph;
use crate::interrupt::Interrupt;
use crate::mixture::{Covariance, FullMixture, kmeans, mean_variance};
use crate::seed::{Key, Stream};

/// Products that the fits of one kind of mixture may take: seconds on two cores.
const MAX_PRODUCTS: f64 = 2e10;
/// No column of a table for mixtures has one value in more than this share of its rows: a Gaussian on a repeated value can be
/// as narrow as it likes. (Biopsy, marks from 1 to 10: the likeliest mixture has ARI 0.55, Ward's method 0.86.)
const MOST_REPEATED: f64 = 1.0 / 3.0;
/// Added to each variance, as a fraction of the mean one.
const RIDGE: f64 = 1e-4;
/// Iterations of EM at most, and the gain below which it stops earlier.
const ITERATIONS: usize = 200;
const TOLERANCE: f64 = 1e-5;
/// Components of a density at most, rows for each at least, and starts of each number.
const MOST_COMPONENTS: usize = 6;
const COMPONENT_ROWS: usize = 10;
const DENSITY_STARTS: usize = 2;
/// Not the index of a restart, nor one of the other uses of the stream.
const DENSITY: usize = u32::MAX as usize - 2;

/// The density of the rows of a small table of numbers. None for large tables, and where densities mean nothing.
pub(crate) fn density_of_rows<D: Device>(
    device: &D,
    judge: &PreparedGraph,
    interrupt: Interrupt<'_>,
) -> Result<Option<RowDensity>> {
    let mixture = best_mixture(device, judge, interrupt)?;
    mixture.map(|mixture| RowDensity::new(mixture, quantiles(judge.rows(), judge.n_columns()))).transpose()
}

/// The mixture on the rows that has the lowest BIC, with any number of components and any form of covariances.
fn best_mixture<D: Device>(
    device: &D,
    judge: &PreparedGraph,
    interrupt: Interrupt<'_>,
) -> Result<Option<FullMixture>> {
    let (rows, d) = (judge.rows(), judge.n_columns());
    let n = rows.len() / d;
    if n > MAX_ROWS || !is_continuous(rows, d) {
        return Ok(None);
    }
    let (key, ridge) = (Key::new(judge.seed(), Stream::Mixture, DENSITY), ridge(rows, d));
    let mut best: Option<(f64, FullMixture)> = None;
    for k in 1..=(n / COMPONENT_ROWS).clamp(1, MOST_COMPONENTS) {
        let before = best.as_ref().map(|(score, _)| *score);
        for start in 0..DENSITY_STARTS.min(affordable(n, k, d)) {
            interrupt()?;
            let assignment = kmeans(device, rows, d, k, key, start)?.assignment;
            for covariance in [Covariance::Diagonal, Covariance::Tied, Covariance::Full] {
                let Some((mean, mixture)) = fit_mixture(rows, d, k, &assignment, covariance, ridge) else {
                    continue;
                };
                let score = penalised(mean, covariance.n_parameters(k, d), n);
                if best.as_ref().is_none_or(|(highest, _)| score > *highest) {
                    best = Some((score, mixture));
                }
            }
        }
        // One more component did not help: more will not, either.
        if k > 2 && before == best.as_ref().map(|(score, _)| *score) {
            break;
        }
    }
    Ok(best.map(|(_, mixture)| mixture))
}

/// Whether no column repeats one value too often for densities.
pub(super) fn is_continuous(rows: &[f32], d: usize) -> bool {
    let most = MOST_REPEATED * (rows.len() / d) as f64;
    (0..d).all(|j| {
        let mut values: Vec<f32> = rows[j..].iter().step_by(d).copied().collect();
        values.sort_by(f32::total_cmp);
        let longest = values.chunk_by(|a, b| a == b).map(<[f32]>::len).max().unwrap_or(0);
        longest == values.len() || longest as f64 <= most
    })
}

/// What is added to each variance of a mixture on these rows.
pub(super) fn ridge(rows: &[f32], d: usize) -> f64 {
    RIDGE * mean_variance(rows, d)
}

/// EM from hard assignments: mean log density and mixture; none if a covariance is singular.
pub(super) fn fit_mixture(
    rows: &[f32],
    d: usize,
    k: usize,
    start: &[u32],
    covariance: Covariance,
    ridge: f64,
) -> Option<(f64, FullMixture)> {
    let mut gamma = vec![0.0; start.len() * k];
    for (row, &cluster) in gamma.chunks_exact_mut(k).zip(start) {
        row[cluster as usize] = 1.0;
    }
    let start = FullMixture::m_step(rows, d, &gamma, k, covariance, ridge, None).ok()?;
    let (mixture, mean) = start.run_em(rows, ITERATIONS, TOLERANCE, covariance, ridge).ok()?;
    Some((mean, mixture))
}

/// How many fits of a mixture there is time for.
pub(super) fn affordable(n_rows: usize, k: usize, d: usize) -> usize {
    let one = 2.0 * (n_rows * k) as f64 * (d * d) as f64 * ITERATIONS as f64;
    (MAX_PRODUCTS / one.max(1.0)) as usize
}

/// A mean log likelihood less Schwarz's penalty, in nats per row: -BIC / 2N.
pub(super) fn penalised(log_likelihood: f64, n_parameters: usize, n_rows: usize) -> f64 {
    let n = n_rows as f64;
    log_likelihood - 0.5 * n_parameters as f64 * n.ln() / n
}
