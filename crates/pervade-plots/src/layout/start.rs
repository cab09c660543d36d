//! Where the rows start.

use crate::tsne::{initially_scaled, principal_plane};

/// The initial layout: components at the principal plane of their means (classical scaling of the distances between
/// them), rows around them by the principal axes of what the means leave. Without components it is the principal
/// plane of the rows.
///
/// # Shapes
/// - latents: `[N, J]`, components: `[N]`
pub(super) fn initial_layout(latents: &[f32], n_latents: usize, components: &[u32]) -> Vec<[f64; 2]> {
    let (means, slots) = component_means(latents, n_latents, components);
    if means.len() == n_latents {
        return initially_scaled(principal_plane(latents, n_latents));
    }
    let residuals: Vec<f32> = latents
        .chunks_exact(n_latents)
        .zip(&slots)
        .flat_map(|(row, &slot)| row.iter().zip(&means[slot * n_latents..]).map(|(x, mean)| x - mean))
        .collect();
    let centres = principal_plane(&means, n_latents);
    let around = principal_plane(&residuals, n_latents);
    // K discs of this radius cover about the area over which the centres are spread.
    let radius = root_mean_square(&centres) / (centres.len() as f64).sqrt();
    let scale = radius / root_mean_square(&around).max(f64::MIN_POSITIVE);
    let shifted =
        |(around, &slot): ([f64; 2], &usize)| [0, 1].map(|axis| centres[slot][axis] + scale * around[axis]);
    initially_scaled(around.into_iter().zip(&slots).map(shifted).collect())
}

fn root_mean_square(points: &[[f64; 2]]) -> f64 {
    (points.iter().map(|p| p[0] * p[0] + p[1] * p[1]).sum::<f64>() / points.len() as f64).sqrt()
}

/// The means of the components that have rows, and for each row the index of its mean.
fn component_means(latents: &[f32], n_latents: usize, components: &[u32]) -> (Vec<f32>, Vec<usize>) {
    let mut present: Vec<u32> = components.to_vec();
    present.sort_unstable();
    present.dedup();
    let slots: Vec<usize> = components.iter().map(|c| present.partition_point(|p| p < c)).collect();
    let mut sums = vec![0.0f64; present.len() * n_latents];
    let mut counts = vec![0.0f64; present.len()];
    for (row, &slot) in latents.chunks_exact(n_latents).zip(&slots) {
        counts[slot] += 1.0;
        sums[slot * n_latents..][..n_latents].iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    let means = sums.iter().enumerate().map(|(i, sum)| (sum / counts[i / n_latents]) as f32).collect();
    (means, slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_of_present_components() {
        let (means, slots) = component_means(&[1.0, 2.0, 5.0, 5.0, 3.0, 4.0], 2, &[7, 2, 7]);
        assert_eq!((means, slots), (vec![5.0, 5.0, 2.0, 3.0], vec![1, 0, 1]));
    }

    /// Three components in a row: their rows start around them, in that order along the first axis.
    #[test]
    fn rows_start_around_their_components() {
        let noise = |i: usize| ((i * 7919) % 1000) as f32 / 1000.0 - 0.5;
        let latents: Vec<f32> =
            (0..90).flat_map(|i| [(i % 3) as f32 * 9.0 + noise(i), noise(i + 50)]).collect();
        let components: Vec<u32> = (0..90).map(|i| i % 3).collect();
        let points = initial_layout(&latents, 2, &components);
        let mean = |c: usize| (0..30).map(|i| points[3 * i + c][0]).sum::<f64>() / 30.0;
        let inner = (mean(1) - mean(0)) / (mean(2) - mean(0));
        assert!((inner - 0.5).abs() < 0.05, "{inner}");
    }
}
