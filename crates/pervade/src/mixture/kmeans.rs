//! k-means: k-means++ start (Arthur and Vassilvitskii, 2007), then Lloyd's iterations.
//!
//! Lloyd's iteration is EM with unit variances and responsibilities of zero and one, and shares
//! the arithmetic of [`super::block`].

use super::block::{Components, Moments};
use super::diagonal::highest;
use crate::parallel::{Ask, collect_rows, map_chunks};
use crate::rows::check_latents;
use crate::seed::Key;
use crate::{Error, Result};

/// The start is drawn from a sample of at most this many rows.
const START_ROWS: usize = 20_000;
/// Lloyd's iterations stop here even if rows still move.
const MAX_ITERATIONS: usize = 40;
/// Third counter of the draws for the start; `Key::permute` uses the ones below 8.
const START_DRAW: u32 = 8;

/// Clusters around centres.
#[derive(Clone, Debug)]
pub struct KMeans {
    /// `[K, J]`
    pub centres: Vec<f64>,
    /// The cluster of every row: its nearest centre, the first of equals. `[N]`
    pub assignment: Vec<u32>,
    /// Sum over rows of the squared distance to the centre they were assigned to (where it stood
    /// before its last move, if rows still moved when the iterations ran out).
    pub inertia: f64,
    /// Lloyd's iterations done.
    pub iterations: usize,
}

/// Finds `n_clusters` centres. Draw number `restart` of `key`'s stream gives the start.
///
/// # Shapes
/// - latents: `[N, J]`
pub fn kmeans(
    latents: &[f32],
    n_latent: usize,
    n_clusters: usize,
    key: Key,
    restart: usize,
) -> Result<KMeans> {
    let n_rows = check_latents(latents, n_latent)?;
    check_components("clusters", n_clusters, n_rows)?;
    let centre = column_means(latents, n_latent);
    Ok(lloyd(latents, &centre, n_clusters, key, restart, &mut || Ok(()))?.0)
}

/// An error unless `n_components` lies between one and the number of rows.
pub(super) fn check_components(name: &str, n_components: usize, n_rows: usize) -> Result<()> {
    if n_components == 0 || n_components > n_rows {
        let must = format!("must be between 1 and {n_rows}, the number of rows");
        return Err(Error::setting(name, n_components, must));
    }
    Ok(())
}

/// Mean of every column.
///
/// # Shapes
/// - latents: `[N, J]`, result: `[J]`
pub(super) fn column_means(latents: &[f32], n_latent: usize) -> Vec<f64> {
    let n_rows = latents.len() / n_latent;
    let sums = map_chunks(n_rows, |rows| {
        let mut sums = vec![0.0; n_latent];
        for z in latents[rows.start * n_latent..rows.end * n_latent].chunks_exact(n_latent) {
            (0..n_latent).for_each(|j| sums[j] += f64::from(z[j]));
        }
        sums
    });
    (0..n_latent).map(|j| sums.iter().map(|chunk| chunk[j]).sum::<f64>() / n_rows as f64).collect()
}

/// k-means, and the moments of its clusters relative to `centre`.
pub(super) fn lloyd(
    latents: &[f32],
    centre: &[f64],
    n_clusters: usize,
    key: Key,
    restart: usize,
    ask: Ask<'_>,
) -> Result<(KMeans, Moments)> {
    let n_latent = centre.len();
    let mut centres = plus_plus_start(latents, n_latent, n_clusters, key, restart);
    let mut assignment = Vec::new();
    let mut iterations = 0;
    loop {
        iterations += 1;
        ask()?;
        let pass = assign_pass(latents, &centres, centre);
        let moved = pass.assignment != assignment;
        assignment = pass.assignment;
        for m in (0..n_clusters).filter(|&m| pass.moments.mass[m] > 0.0) {
            for j in 0..n_latent {
                centres[m * n_latent + j] = centre[j] + pass.moments.mean_and_variance(m, j).0;
            }
        }
        let refilled = refill_empty(latents, &mut centres, &pass.moments, &pass.square_distances, n_latent);
        if iterations == MAX_ITERATIONS || !(moved || refilled) {
            let inertia = pass.square_distances.iter().sum();
            return Ok((KMeans { centres, assignment, inertia, iterations }, pass.moments));
        }
    }
}

struct Pass {
    assignment: Vec<u32>,
    square_distances: Vec<f64>,
    moments: Moments,
}

/// Every row to its nearest centre.
fn assign_pass(latents: &[f32], centres: &[f64], centre: &[f64]) -> Pass {
    let n_latent = centre.len();
    let n_clusters = centres.len() / n_latent;
    // With unit variances and no constant the log joint is minus half the squared distance.
    let components = Components::new(&vec![0.0; n_clusters], centres, |_| 1.0, centre);
    let chunks = map_chunks(latents.len() / n_latent, |rows| {
        let mut nearest = Vec::with_capacity(rows.len());
        let mut moments = components.zero_moments();
        components.for_each_block(latents, rows, |block| {
            for row in block.rows_mut(n_clusters) {
                let m = highest(row);
                nearest.push((m as u32, -2.0 * row[m]));
                row.fill(0.0);
                row[m] = 1.0;
            }
            block.clear_padding(n_clusters);
            moments.add(block);
        });
        (nearest, moments)
    });
    let mut moments = components.zero_moments();
    for (_, chunk) in &chunks {
        moments.merge(chunk);
    }
    let (assignment, square_distances) = chunks.into_iter().flat_map(|(nearest, _)| nearest).unzip();
    Pass { assignment, square_distances, moments }
}

/// Gives each empty cluster the row farthest from its centre; the first of equals. Rows that lie
/// on their centre are left there, so that repeated rows do not keep it going.
fn refill_empty(
    latents: &[f32],
    centres: &mut [f64],
    moments: &Moments,
    square_distances: &[f64],
    n_latent: usize,
) -> bool {
    let n_clusters = centres.len() / n_latent;
    let empty: Vec<usize> = (0..n_clusters).filter(|&m| moments.mass[m] == 0.0).collect();
    if empty.is_empty() {
        return false;
    }
    let mut farthest: Vec<usize> =
        (0..square_distances.len()).filter(|&row| square_distances[row] > 0.0).collect();
    farthest.sort_by(|&a, &b| square_distances[b].total_cmp(&square_distances[a]).then(a.cmp(&b)));
    for (&m, &row) in empty.iter().zip(&farthest) {
        set_centre(centres, m, row, latents, n_latent);
    }
    !farthest.is_empty()
}

fn set_centre(centres: &mut [f64], m: usize, row: usize, latents: &[f32], n_latent: usize) {
    for j in 0..n_latent {
        centres[m * n_latent + j] = f64::from(latents[row * n_latent + j]);
    }
}

/// k-means++: each further centre is a row drawn with probability in proportion to its squared
/// distance from the centres so far.
fn plus_plus_start(
    latents: &[f32],
    n_latent: usize,
    n_clusters: usize,
    key: Key,
    restart: usize,
) -> Vec<f64> {
    let n_rows = latents.len() / n_latent;
    let n_sample = n_rows.min(START_ROWS.max(n_clusters));
    let sample: Vec<usize> = (0..n_sample).map(|i| key.permute(i, n_rows, restart as u64)).collect();
    let mut centres = vec![0.0; n_clusters * n_latent];
    let mut nearest_square = vec![f64::INFINITY; n_sample];
    let mut pick = 0; // the sample is in random order, so its first row is a uniform draw
    for m in 0..n_clusters {
        set_centre(&mut centres, m, sample[pick], latents, n_latent);
        let newest = &centres[m * n_latent..(m + 1) * n_latent];
        nearest_square = collect_rows(n_sample, |places| {
            places
                .map(|place| {
                    let z = &latents[sample[place] * n_latent..(sample[place] + 1) * n_latent];
                    let square = (0..n_latent).map(|j| (f64::from(z[j]) - newest[j]).powi(2)).sum();
                    nearest_square[place].min(square)
                })
                .collect()
        });
        let total: f64 = nearest_square.iter().sum();
        let draw = key.uniform(restart as u64, m as u32, START_DRAW);
        pick = place_of_mass(&nearest_square, draw * total).unwrap_or((draw * n_sample as f64) as usize);
    }
    centres
}

/// The place where the running sum passes `mass`; none when there is no mass at all.
fn place_of_mass(masses: &[f64], mass: f64) -> Option<usize> {
    let mut sum = 0.0;
    let passed = masses.iter().position(|&each| {
        sum += each;
        sum > mass
    });
    passed.or_else(|| masses.iter().rposition(|&each| each > 0.0))
}
