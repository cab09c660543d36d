//! Which part of a run draws which random numbers.

pub use pervade_compute::random::Key;

/// Which part of the run draws: no two parts share a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stream {
    /// Initial values of the weights.
    Weights = 1,
    /// Order of the rows while pretraining.
    PretrainOrder = 2,
    /// Dropout while pretraining layer by layer.
    Dropout = 3,
    /// Initialisation of k-means and of the mixture.
    Mixture = 4,
    /// Order of the rows in joint training.
    JointOrder = 5,
    /// Noise of the latent in joint training.
    Latent = 6,
    /// Rows drawn for a graph or a score.
    Sample = 7,
    /// Generated rows.
    Generate = 8,
    /// Noise of the latent when a fitted model is scored.
    Score = 9,
}

impl From<Stream> for u32 {
    fn from(stream: Stream) -> Self {
        stream as u32
    }
}
