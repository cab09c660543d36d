//! The memory that inference needs.

use super::pass::BLOCK;
use crate::memory::product;
use crate::nn::Architecture;

/// Elements needed by a pass over all rows: one block on the device, and its results on the host.
pub(crate) fn pass_len(architecture: &Architecture) -> u64 {
    let (d, c) = (architecture.n_inputs(), architecture.mixture.n_components());
    product(&[BLOCK, d + architecture.encoder.activations_len() + 2 * architecture.n_head() + 2 * c])
}

/// Elements needed to decode a block of rows.
pub(crate) fn decoding_len(architecture: &Architecture) -> u64 {
    let encoder = 2 * (architecture.encoder.activations_len() + architecture.n_head());
    let decoder = 2 * architecture.decoder.activations_len() + 4 * architecture.n_latents();
    product(&[BLOCK, encoder + decoder + 2 * architecture.n_outputs()])
}
