//! Random number streams, one per part of a run.

pub use pervade_compute::random::Key;

/// A random number stream; no two parts of a run share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stream {
    /// Initial weights.
    Weights = 1,
    /// Order of the rows in pretraining.
    PretrainOrder = 2,
    /// Dropout in layer-by-layer pretraining.
    Dropout = 3,
    /// Initialisation of k-means and of the mixture.
    Mixture = 4,
    /// Order of the rows in joint training.
    JointOrder = 5,
    /// Noise of the latent in joint training.
    Latent = 6,
    /// Sample of rows for a graph or a score.
    Sample = 7,
    /// Generated rows.
    Generate = 8,
    /// Noise of the latent when a fitted model is scored.
    Score = 9,
    /// Which neighbour a row is paired with in joint training.
    Neighbour = 10,
    /// Cells of generated and imputed rows, given their latents.
    GenerateCells = 11,
}

impl From<Stream> for u32 {
    fn from(stream: Stream) -> Self {
        stream as u32
    }
}
