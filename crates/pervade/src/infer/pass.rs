//! Passes over all rows with fixed parameters, without noise or gradients.

use super::Observed;
use crate::Result;
use crate::compute::{Device, Gamma, Matrix, Params, Ranks, RowSelection};
use crate::nn::{Architecture, Tape};
use crate::seed::Key;

/// Rows per block of a pass: enough to fill the cores, small enough to stay in the cache.
pub(crate) const BLOCK: usize = 512;

/// The encoder's results for one block of rows and one restart, on the host.
pub struct Pass<'p> {
    /// Index of the restart within the parameters.
    pub restart: usize,
    /// Index of the block's first row.
    pub first: usize,
    /// Output of the head: means and log variances of q(z|x), [rows, 2J].
    pub heads: &'p [f32],
    /// Log joint of each component at the latent mean, [rows, C]; empty if it was not requested.
    pub log_joints: &'p [f32],
}

/// Calls `visit` with every block of rows, in order; log joints are computed only if `gamma` is given. Ranks encode
/// different blocks, and each of them visits all.
pub(crate) fn blocks<D: Device>(
    device: &D,
    ranks: &dyn Ranks,
    rows: &D::Rows<'_>,
    n_rows: usize,
    architecture: &Architecture,
    gamma: Option<Gamma>,
    params: &Params<D::Buffer>,
    mut visit: impl FnMut(Pass<'_>) -> Result<()>,
) -> Result<()> {
    let (r, b, size) = (params.restarts, BLOCK.min(n_rows), ranks.size());
    let (j2, c) = (architecture.n_head(), architecture.mixture.n_components());
    let mut batch = device.batch(rows, r, b)?;
    let mut tape = Tape::encoder(device, architecture, r, b)?;
    let c = if gamma.is_some() { c } else { 0 };
    let mut log_joints = Matrix::zeros(device, r, b, c)?;
    // Heads of all restarts, then log joints.
    let (n_heads, n_joints) = (r * b * j2, r * b * c);
    let mut own = vec![0.0f32; n_heads + n_joints];
    let mut gathered = vec![0.0f32; if size > 1 { size * own.len() } else { 0 }];
    for first_of_all in (0..n_rows).step_by(b * size) {
        let first = first_of_all + ranks.rank() * b;
        if first < n_rows {
            device.gather(rows, RowSelection::Range { first }, &mut batch)?;
            tape.encode(device, architecture, params, rows, &batch)?;
            if let Some(gamma) = gamma {
                device.log_joint(gamma, params, architecture.mixture, &tape.head, &mut log_joints)?;
                device.read(&log_joints.data, 0, &mut own[n_heads..])?;
            }
            device.read(&tape.head.data, 0, &mut own[..n_heads])?;
        }
        let all = if size > 1 {
            ranks.all_gather(bytemuck::cast_slice(&own), bytemuck::cast_slice_mut(&mut gathered))?;
            &gathered
        } else {
            &own
        };
        for (block, first) in all.chunks_exact(own.len()).zip((first_of_all..n_rows).step_by(b)) {
            let (heads, joints) = block.split_at(n_heads);
            let valid = b.min(n_rows - first);
            for restart in 0..r {
                let heads = &heads[restart * b * j2..][..valid * j2];
                let log_joints = &joints[restart * b * c..][..valid * c];
                visit(Pass { restart, first, heads, log_joints })?;
            }
        }
    }
    Ok(())
}

/// The decoder's output for each latent: [N, outputs].
///
/// # Shapes
/// - latents: `[N, J]`
pub fn outputs<D: Device>(
    device: &D,
    architecture: &Architecture,
    params: &Params<D::Buffer>,
    latents: &[f32],
) -> Result<Vec<f32>> {
    let n = latents.len() / architecture.n_latents();
    let mut outputs = Vec::with_capacity(n * architecture.n_outputs());
    output_blocks(device, architecture, params, latents, |block| outputs.extend_from_slice(block))?;
    Ok(outputs)
}

/// Calls `visit` with the decoder's output for each block of latents, in order.
fn output_blocks<D: Device>(
    device: &D,
    architecture: &Architecture,
    params: &Params<D::Buffer>,
    latents: &[f32],
    mut visit: impl FnMut(&[f32]),
) -> Result<()> {
    let (j, n) = (architecture.n_latents(), latents.len() / architecture.n_latents());
    if n == 0 {
        return Ok(());
    }
    let b = BLOCK.min(n);
    let mut tape = Tape::new(device, architecture, 1, b, 1)?;
    let width = tape.output.columns;
    let (mut padded, mut block) = (vec![0.0; b * j], vec![0.0; b * width]);
    for part in latents.chunks(b * j) {
        padded[..part.len()].copy_from_slice(part);
        device.write(&mut tape.z.data, 0, &padded)?;
        tape.decode(device, architecture, params)?;
        device.read(&tape.output.data, 0, &mut block)?;
        visit(&block[..part.len() / j * width]);
    }
    Ok(())
}

/// Decodes latents into rows, [N, D]: means of p(x|z) in the units of the data or, with a key, samples of it.
///
/// # Shapes
/// - latents: `[N, J]`
pub fn decoded<D: Device>(
    device: &D,
    architecture: &Architecture,
    params: &Params<D::Buffer>,
    observed: &Observed<'_>,
    latents: &[f32],
    key: Option<Key>,
) -> Result<Vec<f32>> {
    let n_rows = latents.len() / architecture.n_latents();
    let mut rows = Vec::with_capacity(n_rows * observed.preparation.n_columns());
    let mut index = 0;
    output_blocks(device, architecture, params, latents, |block| {
        for output in block.chunks_exact(architecture.n_outputs()) {
            let start = rows.len();
            match key {
                Some(key) => observed.append_draw(output, key, index, &mut rows),
                None => observed.append_mean(output, &mut rows),
            }
            observed.preparation.undo(&mut rows[start..]);
            index += 1;
        }
    })?;
    Ok(rows)
}
