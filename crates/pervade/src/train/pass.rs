//! A pass over all rows with the parameters as they are: no noise, no gradient.

use super::run::Run;
use crate::Result;
use crate::compute::cpu::math::softplus_and_logistic;
use crate::compute::{Device, Gamma, Likelihood, Matrix, Params, Pick};
use crate::data::Preparation;
use crate::nn::{Architecture, Tape};
use crate::parallel::Ask;

/// Rows a block of a pass: enough to fill the cores, small enough to stay in the cache.
pub(super) const BLOCK: usize = 512;

/// One block of rows, on the host, of one restart.
pub struct Pass<'p> {
    /// Restart's place in the pack.
    pub place: usize,
    /// The first row.
    pub first: usize,
    /// What the head gives: means and log variances of q(z|x), [rows, 2J].
    pub heads: &'p [f32],
    /// Log joint of each component at the latent mean, [rows, C]; empty if not asked for.
    pub log_joints: &'p [f32],
}

/// Calls `visit` with every block of rows in order.
///
/// Rows go to components by the density at their latent mean, whichever `gamma` the objective has:
/// the mixture is fitted to those means, and the variances of q(z|x) come from a head that
/// pretraining leaves untrained. Counting them, all rows of a small table can fall to the widest
/// component.
pub fn for_each_block<D: Device>(
    run: &Run<'_, D>,
    params: &Params<D::Buffer>,
    visit: impl FnMut(Pass<'_>) -> Result<()>,
) -> Result<()> {
    let gamma = Some(Gamma::Sampled);
    blocks(run.device, &run.rows, run.data.n_rows(), &run.architecture, gamma, params, visit)
}

/// Latent means of all rows, of each restart: [N, J].
pub fn latents<D: Device>(run: &Run<'_, D>, params: &Params<D::Buffer>) -> Result<Vec<Vec<f32>>> {
    latents_asking(run, params, &mut || Ok(()))
}

/// The same, asking after each block whether to go on.
pub(super) fn latents_asking<D: Device>(
    run: &Run<'_, D>,
    params: &Params<D::Buffer>,
    ask: Ask<'_>,
) -> Result<Vec<Vec<f32>>> {
    let (n, j) = (run.data.n_rows(), run.architecture.n_latents());
    let mut latents: Vec<Vec<f32>> = (0..params.restarts).map(|_| Vec::with_capacity(n * j)).collect();
    let visit = |pass: Pass<'_>| {
        latents[pass.place].extend(pass.heads.chunks_exact(2 * j).flat_map(|head| &head[..j]));
        ask()
    };
    blocks(run.device, &run.rows, n, &run.architecture, None, params, visit)?;
    Ok(latents)
}

/// What the head gives for all rows of the first restart: [N, head's columns].
pub fn heads<D: Device>(run: &Run<'_, D>, params: &Params<D::Buffer>) -> Result<Vec<f32>> {
    let n = run.data.n_rows();
    let mut heads = Vec::with_capacity(n * run.architecture.head.weight.columns);
    blocks(run.device, &run.rows, n, &run.architecture, None, params, |pass| {
        if pass.place == 0 {
            heads.extend_from_slice(pass.heads);
        }
        Ok(())
    })?;
    Ok(heads)
}

/// Calls `visit` with every block of rows of a fitted model; without a `gamma`, without log joints.
pub(crate) fn blocks<D: Device>(
    device: &D,
    rows: &D::Rows<'_>,
    n_rows: usize,
    architecture: &Architecture,
    gamma: Option<Gamma>,
    params: &Params<D::Buffer>,
    mut visit: impl FnMut(Pass<'_>) -> Result<()>,
) -> Result<()> {
    let (r, b) = (params.restarts, BLOCK.min(n_rows));
    let (j2, c) = (architecture.head.weight.columns, architecture.mixture.n_components());
    let mut batch = device.batch(rows, r, b)?;
    let mut tape = Tape::encoder(device, architecture, r, b)?;
    let c = if gamma.is_some() { c } else { 0 };
    let mut log_joints = Matrix::zeros(device, r, b, c)?;
    let (mut all_heads, mut all_joints) = (vec![0.0; r * b * j2], vec![0.0; r * b * c]);
    for first in (0..n_rows).step_by(b) {
        device.gather(rows, Pick::Range { first }, &mut batch)?;
        tape.encode(device, architecture, params, rows, &batch)?;
        if let Some(gamma) = gamma {
            device.log_joint(gamma, params, architecture.mixture, &tape.head, &mut log_joints)?;
            device.read(&log_joints.data, 0, &mut all_joints)?;
        }
        device.read(&tape.head.data, 0, &mut all_heads)?;
        let valid = b.min(n_rows - first);
        for place in 0..r {
            let heads = &all_heads[place * b * j2..][..valid * j2];
            let log_joints = &all_joints[place * b * c..][..valid * c];
            visit(Pass { place, first, heads, log_joints })?;
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
    let mut outputs = Vec::with_capacity(n * architecture.output.weight.columns);
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

/// The rows that latents stand for, [N, D]: means of p(x|z) in the units of the data.
///
/// # Shapes
/// - latents: `[N, J]`
pub fn decoded<D: Device>(
    device: &D,
    architecture: &Architecture,
    params: &Params<D::Buffer>,
    likelihood: Likelihood,
    preparation: &Preparation,
    latents: &[f32],
) -> Result<Vec<f32>> {
    let d = architecture.encoder[0].weight.rows;
    let width = likelihood.n_outputs(d);
    let mut rows = Vec::with_capacity(latents.len() / architecture.n_latents() * d);
    output_blocks(device, architecture, params, latents, |block| {
        for output in block.chunks_exact(width) {
            let start = rows.len();
            match likelihood {
                Likelihood::Bernoulli => rows.extend(output.iter().map(|&o| softplus_and_logistic(o).1)),
                Likelihood::Gaussian | Likelihood::GaussianFixed { .. } => {
                    rows.extend_from_slice(&output[..d]);
                }
            }
            preparation.undo(&mut rows[start..]);
        }
    })?;
    Ok(rows)
}
