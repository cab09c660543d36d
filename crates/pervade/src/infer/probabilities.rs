//! Clusters and their probabilities from the log joints of components.

use crate::compute::math::exp;

/// q(c|x) of each cluster: the softmax of the log joints, summed over each cluster's components.
pub(crate) fn cluster_probabilities(log_joints: &[f32], groups: &[u32], n_clusters: usize) -> Vec<f32> {
    // The square of a value of 1e20 overflows in single precision: all log joints of the row are then minus infinity or
    // NaN, and all components become equally probable.
    let finite = |log_joint: f32| log_joint.max(f32::MIN);
    let greatest = log_joints.iter().copied().fold(f32::MIN, f32::max);
    let mut sums = vec![0.0f64; n_clusters];
    for (&log_joint, &group) in log_joints.iter().zip(groups) {
        sums[group as usize] += f64::from(exp(finite(log_joint) - greatest));
    }
    let total: f64 = sums.iter().sum();
    sums.iter().map(|&sum| (sum / total) as f32).collect()
}

/// Index of the greatest value; ties go to the first.
pub(crate) fn argmax(values: &[f32]) -> usize {
    (1..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best })
}
