//! How much memory inference takes.

use super::pass::BLOCK;
use crate::compute::Affine;
use crate::memory::product;
use crate::nn::Architecture;

/// Numbers of a pass over all rows: a block on the device, and what the host reads of it.
pub(crate) fn pass_len(architecture: &Architecture) -> u64 {
    let head = architecture.head.weight.columns;
    let (d, c) = (architecture.encoder[0].weight.rows, architecture.mixture.n_components());
    product(&[BLOCK, d + widths(&architecture.encoder) + 2 * head + 2 * c])
}

/// Numbers of a block of rows that are decoded.
pub(crate) fn decoding_len(architecture: &Architecture) -> u64 {
    let outputs = architecture.output.weight.columns;
    let encoder = 2 * (widths(&architecture.encoder) + architecture.head.weight.columns);
    let decoder = 2 * widths(&architecture.decoder) + 4 * architecture.n_latents() + 2 * outputs;
    product(&[BLOCK, encoder + decoder])
}

pub(crate) fn widths(layers: &[Affine]) -> usize {
    layers.iter().map(|layer| layer.weight.columns).sum()
}
