//! From the log joints of components to clusters and their probabilities.

use crate::compute::cpu::math::exp;

/// q(c|x) of each cluster: the softmax of the log joints, summed over each cluster's components.
pub(crate) fn cluster_probabilities(log_joints: &[f32], groups: &[u32], n_clusters: usize) -> Vec<f32> {
    // A row of 1e20 is beyond the squares that single precision holds; its joints are minus infinity
    // or no number at all, and equal for all components: nothing is known about it.
    let finite = |log_joint: f32| log_joint.max(f32::MIN);
    let greatest = log_joints.iter().copied().fold(f32::MIN, f32::max);
    let mut sums = vec![0.0f64; n_clusters];
    for (&log_joint, &group) in log_joints.iter().zip(groups) {
        sums[group as usize] += f64::from(exp(finite(log_joint) - greatest));
    }
    let total: f64 = sums.iter().sum();
    sums.iter().map(|&sum| (sum / total) as f32).collect()
}

/// The place of the greatest, the first of equals.
pub(crate) fn argmax(values: &[f32]) -> usize {
    (1..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best })
}
