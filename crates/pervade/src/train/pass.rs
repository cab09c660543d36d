//! A pass over all rows with the parameters as they are: no noise, no gradient.

use super::run::Run;
use crate::Result;
use crate::compute::{Device, Gamma, Matrix, Params, Pick};
use crate::nn::{Architecture, Tape};

/// Rows a block of a pass: enough to fill the cores, small enough to stay in the cache.
const BLOCK: usize = 512;

/// One block of rows, on the host, of one restart.
pub struct Pass<'p> {
    /// Restart's place in the pack.
    pub place: usize,
    /// The first row.
    pub first: usize,
    /// Means and log variances of q(z|x), [rows, 2J].
    pub heads: &'p [f32],
    /// Log joint of each component at the latent mean, [rows, C].
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
    blocks(run.device, &run.rows, run.data.n_rows(), &run.architecture, Gamma::Sampled, params, visit)
}

/// The same for a fitted model.
pub(crate) fn blocks<D: Device>(
    device: &D,
    rows: &D::Rows<'_>,
    n_rows: usize,
    architecture: &Architecture,
    gamma: Gamma,
    params: &Params<D::Buffer>,
    mut visit: impl FnMut(Pass<'_>) -> Result<()>,
) -> Result<()> {
    let (r, b) = (params.restarts, BLOCK.min(n_rows));
    let (j2, c) = (2 * architecture.n_latents(), architecture.mixture.n_components());
    let mut batch = device.batch(rows, r, b)?;
    let mut tape = Tape::encoder(device, architecture, r, b)?;
    let mut log_joints = Matrix::zeros(device, r, b, c)?;
    let (mut host_heads, mut host_joints) = (vec![0.0; b * j2], vec![0.0; b * c]);
    for first in (0..n_rows).step_by(b) {
        device.gather(rows, Pick::Range { first }, &mut batch)?;
        tape.encode(device, architecture, params, rows, &batch)?;
        device.log_joint(gamma, params, architecture.mixture, &tape.head, &mut log_joints)?;
        let valid = b.min(n_rows - first);
        for place in 0..r {
            device.read(&tape.head.data, place * b * j2, &mut host_heads)?;
            device.read(&log_joints.data, place * b * c, &mut host_joints)?;
            let (heads, log_joints) = (&host_heads[..valid * j2], &host_joints[..valid * c]);
            visit(Pass { place, first, heads, log_joints })?;
        }
    }
    Ok(())
}
