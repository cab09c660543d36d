//! Scores that need no labels: occupancy, entropy, stability, silhouette.

use super::ari;
use super::contingency::entropy;
use crate::rows::{check_latents, sample_rows};
use crate::seed::Key;
use crate::{Error, Result};
use pervade_compute::parallel::collect_rows;

/// A cluster is live if it holds at least this fraction of the rows.
pub const LIVE_SHARE: f64 = 0.005;

/// Number of rows in each cluster.
///
/// # Shapes
/// - clusters: `[N]`, result: `[K]`
pub fn occupancy(clusters: &[u32], n_clusters: usize) -> Result<Vec<u64>> {
    let mut counts = vec![0; n_clusters];
    for &cluster in clusters {
        match counts.get_mut(cluster as usize) {
            Some(count) => *count += 1,
            None => return Err(Error::setting("cluster", cluster, format!("must be below {n_clusters}"))),
        }
    }
    Ok(counts)
}

/// Entropy of the cluster sizes in nats: log K if all are equal, zero if one holds all rows (or there are no rows).
///
/// # Shapes
/// - occupancy: `[K]`
pub fn occupancy_entropy(occupancy: &[u64]) -> f64 {
    entropy(occupancy)
}

/// Clusters that hold at least [`LIVE_SHARE`] of the rows.
///
/// # Shapes
/// - occupancy: `[K]`
pub fn live_clusters(occupancy: &[u64]) -> usize {
    let least = LIVE_SHARE * occupancy.iter().sum::<u64>() as f64;
    occupancy.iter().filter(|&&count| count > 0 && count as f64 >= least).count()
}

/// Mean entropy of q(c|x) in nats: zero if every row has one certain cluster.
///
/// # Shapes
/// - probabilities: `[N, K]`
pub fn mean_entropy<P: Copy + Into<f64>>(probabilities: &[P], n_clusters: usize) -> Result<f64> {
    if n_clusters == 0 || probabilities.is_empty() || !probabilities.len().is_multiple_of(n_clusters) {
        let problem = format!("{} values do not make rows of {n_clusters} clusters", probabilities.len());
        return Err(Error::data("probabilities", problem));
    }
    let positive = probabilities.iter().map(|&p| p.into()).filter(|&p| p > 0.0);
    let sum: f64 = positive.map(|p: f64| -p * p.ln()).sum();
    Ok(sum / (probabilities.len() / n_clusters) as f64)
}

/// Mean pairwise adjusted Rand index of several clusterings of the same rows: one if all are equal. `None` if there are
/// fewer than two.
///
/// # Shapes
/// - each of partitions: `[N]`
pub fn stability<P: AsRef<[u32]>>(partitions: &[P]) -> Result<Option<f64>> {
    let (mut sum, mut n_pairs) = (0.0, 0);
    for (index, first) in partitions.iter().enumerate() {
        for second in &partitions[index + 1..] {
            sum += ari(first.as_ref(), second.as_ref())?;
            n_pairs += 1;
        }
    }
    Ok((n_pairs > 0).then(|| sum / f64::from(n_pairs)))
}

/// Mean silhouette (Rousseeuw, 1987) by Euclidean distance, exact on a uniform sample of at most `max_rows` rows: the
/// mean of (b - a) / max(a, b), with a the mean distance to the other rows of the same cluster and b to those of the
/// nearest other cluster; zero for a row alone in its cluster. `None` if the sample has fewer than two clusters.
///
/// # Shapes
/// - latents: `[N, J]`, clusters: `[N]`
pub fn silhouette(
    latents: &[f32],
    n_latent: usize,
    clusters: &[u32],
    max_rows: usize,
    key: Key,
) -> Result<Option<f64>> {
    let n_rows = check_latents(latents, n_latent)?;
    if clusters.len() != n_rows {
        let problem = format!("{} clusters cannot score {n_rows} rows", clusters.len());
        return Err(Error::data("clusters", problem));
    }
    let sample: Vec<usize> = sample_rows(n_rows, max_rows, key).into_iter().map(|row| row as usize).collect();
    let mut values: Vec<u32> = sample.iter().map(|&row| clusters[row]).collect();
    values.sort_unstable();
    values.dedup();
    if values.len() < 2 {
        return Ok(None);
    }
    // Rows of the sample as (cluster, latent), with clusters renumbered without gaps.
    let id = |row: usize| values.partition_point(|&value| value < clusters[row]);
    let points: Vec<(usize, &[f32])> =
        sample.iter().map(|&row| (id(row), &latents[row * n_latent..(row + 1) * n_latent])).collect();
    let mut sizes = vec![0usize; values.len()];
    for (cluster, _) in &points {
        sizes[*cluster] += 1;
    }
    let each =
        collect_rows(sample.len(), |rows| rows.map(|row| silhouette_of(row, &points, &sizes)).collect());
    Ok(Some(each.iter().sum::<f64>() / sample.len() as f64))
}

fn silhouette_of(row: usize, points: &[(usize, &[f32])], sizes: &[usize]) -> f64 {
    let (own, z) = points[row];
    if sizes[own] == 1 {
        return 0.0;
    }
    let mut sums = vec![0.0; sizes.len()];
    for (cluster, other) in points {
        let square: f64 = z.iter().zip(*other).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
        sums[*cluster] += square.sqrt();
    }
    let within = sums[own] / (sizes[own] - 1) as f64;
    let others = (0..sizes.len()).filter(|&cluster| cluster != own);
    let nearest = others.map(|cluster| sums[cluster] / sizes[cluster] as f64).fold(f64::INFINITY, f64::min);
    let larger = within.max(nearest);
    if larger > 0.0 { (nearest - within) / larger } else { 0.0 }
}
