//! Inference with fixed parameters, without noise or gradients: for the fitted model, and for training, which scores
//! its own states.

mod memory;
mod observed;
mod pass;
mod probabilities;

pub(crate) use memory::{decoding_len, pass_len};
pub use observed::Observed;
pub(crate) use observed::scales;
pub(crate) use pass::{BLOCK, blocks};
pub use pass::{Pass, decoded, outputs};
pub(crate) use probabilities::{argmax, cluster_probabilities};
