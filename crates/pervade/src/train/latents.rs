//! Passes of training over all rows with the parameters as they are.

use super::run::Run;
use crate::Result;
use crate::compute::{Device, Gamma, Params};
use crate::infer::{Pass, blocks};
use crate::interrupt::Interrupt;

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
    latents_with_interrupt(run, params, &mut || Ok(()))
}

/// The same; `check_interrupt` is called after each block.
pub(super) fn latents_with_interrupt<D: Device>(
    run: &Run<'_, D>,
    params: &Params<D::Buffer>,
    check_interrupt: Interrupt<'_>,
) -> Result<Vec<Vec<f32>>> {
    let (n, j) = (run.data.n_rows(), run.architecture.n_latents());
    let mut latents: Vec<Vec<f32>> = (0..params.restarts).map(|_| Vec::with_capacity(n * j)).collect();
    let visit = |pass: Pass<'_>| {
        latents[pass.restart].extend(pass.heads.chunks_exact(2 * j).flat_map(|head| &head[..j]));
        check_interrupt()
    };
    blocks(run.device, &run.rows, n, &run.architecture, None, params, visit)?;
    Ok(latents)
}

/// What the head gives for all rows of the first restart: [N, head's columns].
pub fn heads<D: Device>(run: &Run<'_, D>, params: &Params<D::Buffer>) -> Result<Vec<f32>> {
    let n = run.data.n_rows();
    let mut heads = Vec::with_capacity(n * run.architecture.n_head());
    blocks(run.device, &run.rows, n, &run.architecture, None, params, |pass| {
        if pass.restart == 0 {
            heads.extend_from_slice(pass.heads);
        }
        Ok(())
    })?;
    Ok(heads)
}
