//! k-means: k-means++ start (Arthur and Vassilvitskii, 2007), then Lloyd's iterations.
//!
//! Lloyd's iteration is EM with unit variances and responsibilities of zero and one, and shares its arithmetic.

use crate::compute::{Components, Device, Moments};
use crate::interrupt::Interrupt;
use crate::rows::check_latents;
use crate::seed::Key;
use crate::{Error, Result};
use pervade_compute::parallel::map_chunks;

/// The start is drawn from a sample of at most this many rows.
const START_ROWS: usize = 20_000;
/// Maximum number of Lloyd's iterations, even if rows still move.
const MAX_ITERATIONS: usize = 40;
/// Third counter of the random draws for the start; `Key::permute` uses those below 8.
const START_DRAW: u32 = 8;

/// The result of k-means: centres and the cluster of every row.
#[derive(Clone, Debug)]
pub struct KMeansFit {
    /// `[K, J]`
    pub centres: Vec<f64>,
    /// The cluster of every row, that of its nearest centre; ties go to the first. `[N]`
    pub assignment: Vec<u32>,
    /// Sum over rows of the squared distance to their assigned centre (before its last move, if rows still moved when
    /// the iterations ran out).
    pub inertia: f64,
    /// Number of Lloyd's iterations.
    pub iterations: usize,
}

/// Clusters the rows into `n_clusters` by k-means. Draw `restart` of `key`'s stream gives the start.
///
/// # Shapes
/// - latents: `[N, J]`
pub fn kmeans<D: Device>(
    device: &D,
    latents: &[f32],
    n_latent: usize,
    n_clusters: usize,
    key: Key,
    restart: usize,
) -> Result<KMeansFit> {
    let n_rows = check_latents(latents, n_latent)?;
    check_components("clusters", n_clusters, n_rows)?;
    let centre = column_means(latents, n_latent);
    let mut points = device.points(latents, n_latent)?;
    let Lloyd { centres, iterations, .. } =
        lloyd(device, &mut points, latents, &centre, n_clusters, key, restart, &mut || Ok(()))?;
    let (assignment, square_distances) = device.assigned(&points)?;
    Ok(KMeansFit { centres, assignment, inertia: square_distances.iter().sum(), iterations })
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

/// The result of Lloyd's iterations.
pub(super) struct Lloyd {
    /// `[K, J]`
    pub(super) centres: Vec<f64>,
    /// Moments of the clusters, relative to the latents' centre.
    pub(super) moments: Moments,
    pub(super) iterations: usize,
}

/// k-means from a k-means++ start; `points` are the latents on the device.
pub(super) fn lloyd<D: Device>(
    device: &D,
    points: &mut D::Points<'_>,
    latents: &[f32],
    centre: &[f64],
    n_clusters: usize,
    key: Key,
    restart: usize,
    interrupt: Interrupt<'_>,
) -> Result<Lloyd> {
    let n_latent = centre.len();
    let mut centres = kmeans_plus_plus(device, points, latents, n_latent, n_clusters, key, restart)?;
    let mut iterations = 0;
    loop {
        iterations += 1;
        interrupt()?;
        // With unit variances and no constant the log joint is minus half the squared distance.
        let components = Components::new(&vec![0.0; n_clusters], &centres, |_| 1.0, centre);
        let (moments, moved) = device.assign(points, &components)?;
        for m in (0..n_clusters).filter(|&m| moments.mass(m) > 0.0) {
            for j in 0..n_latent {
                centres[m * n_latent + j] = centre[j] + moments.mean_and_variance(m, j).0;
            }
        }
        let empty: Vec<usize> = (0..n_clusters).filter(|&m| moments.mass(m) == 0.0).collect();
        let refilled =
            !empty.is_empty() && refill(&empty, latents, &mut centres, &device.assigned(points)?.1, n_latent);
        // In the first iteration, rows may still have the clusters of an earlier start.
        let settled = iterations > 1 && !moved && !refilled;
        if settled || iterations == MAX_ITERATIONS {
            return Ok(Lloyd { centres, moments, iterations });
        }
    }
}

/// Moves each empty cluster to the row farthest from its centre; ties go to the first. Rows that lie on their centre
/// stay, so that repeated rows do not prevent convergence.
fn refill(
    empty: &[usize],
    latents: &[f32],
    centres: &mut [f64],
    square_distances: &[f64],
    n_latent: usize,
) -> bool {
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

/// k-means++: draws each further centre among the rows with probability proportional to the squared distance from the
/// centres so far.
fn kmeans_plus_plus<D: Device>(
    device: &D,
    points: &mut D::Points<'_>,
    latents: &[f32],
    n_latent: usize,
    n_clusters: usize,
    key: Key,
    restart: usize,
) -> Result<Vec<f64>> {
    let n_rows = latents.len() / n_latent;
    let n_sample = n_rows.min(START_ROWS.max(n_clusters));
    // In random order, so that the first row is a uniform draw.
    let sample: Vec<u32> = (0..n_sample).map(|i| key.permute(i, n_rows, restart as u64) as u32).collect();
    let draws: Vec<f64> =
        (0..n_clusters).map(|m| key.uniform(restart as u64, m as u32, START_DRAW)).collect();
    let mut centres = vec![0.0; n_clusters * n_latent];
    for (m, row) in device.kmeans_plus_plus(points, &sample, &draws)?.into_iter().enumerate() {
        set_centre(&mut centres, m, row as usize, latents, n_latent);
    }
    Ok(centres)
}
