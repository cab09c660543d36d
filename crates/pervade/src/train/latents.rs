//! Inference over all rows during training.

use super::run::Run;
use crate::Result;
use crate::compute::{Device, Gamma, Params};
use crate::infer::{Pass, blocks};
use crate::interrupt::Interrupt;

/// Encodes all rows and calls `visit` with every block, in order.
///
/// Rows are assigned to components by the density at their latent mean, whatever the setting `gamma`: the mixture is
/// fitted to those means, and pretraining does not train the head's variances of q(z|x). With these variances, all rows
/// of a small table can end up in the widest component.
pub fn for_each_block<D: Device>(
    run: &Run<'_, D>,
    params: &Params<D::Buffer>,
    visit: impl FnMut(Pass<'_>) -> Result<()>,
) -> Result<()> {
    let gamma = Some(Gamma::Sampled);
    blocks(run.device, run.ranks, &run.rows, run.data.n_rows(), &run.architecture, gamma, params, visit)
}

/// Latent means of all rows, [N, J], per restart.
pub fn latents<D: Device>(run: &Run<'_, D>, params: &Params<D::Buffer>) -> Result<Vec<Vec<f32>>> {
    latents_with_interrupt(run, params, &mut || Ok(()))
}

/// [`latents`] with a call of `check_interrupt` after each block.
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
    blocks(run.device, run.ranks, &run.rows, n, &run.architecture, None, params, visit)?;
    Ok(latents)
}

/// Output of the encoder's head for all rows, [N, width of the head], in the first restart.
pub fn heads<D: Device>(run: &Run<'_, D>, params: &Params<D::Buffer>) -> Result<Vec<f32>> {
    let n = run.data.n_rows();
    let mut heads = Vec::with_capacity(n * run.architecture.n_head());
    blocks(run.device, run.ranks, &run.rows, n, &run.architecture, None, params, |pass| {
        if pass.restart == 0 {
            heads.extend_from_slice(pass.heads);
        }
        Ok(())
    })?;
    Ok(heads)
}
