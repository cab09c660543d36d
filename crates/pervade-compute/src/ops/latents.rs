//! Sampling of latents (the reparameterisation trick).

use crate::random::Key;
use crate::{Matrix, Memory, Result};

/// The random stream of a step: one key per restart, and the step's index.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// One key per restart.
    pub keys: &'a [Key],
    /// The step's index within the stage.
    pub step: u64,
}

/// Samples latents from q(z|x).
pub trait Latents: Memory {
    /// z = mu + sigma eps for L samples of each of the first B = `n_rows` rows of each restart's head (the
    /// reparameterisation trick); head is [R, at least B, 2J], z [R, L B, J]. Without a draw, z = mu.
    fn sample_latents(
        &self,
        draw: Option<Draw<'_>>,
        n_rows: usize,
        head: &Matrix<Self::Buffer>,
        z: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;

    /// Adds the gradient of z, from the decoder and optionally from the prior, to that of the head's first `n_rows` rows.
    fn sample_latents_backward(
        &self,
        n_rows: usize,
        head: &Matrix<Self::Buffer>,
        z: &Matrix<Self::Buffer>,
        dz: &Matrix<Self::Buffer>,
        dz_prior: Option<&Matrix<Self::Buffer>>,
        d_head: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
}
