//! Inference with fixed parameters, without noise or gradients: for the fitted model, and for training, which scores
//! its own states.

mod memory;
mod pass;
mod probabilities;

pub(crate) use memory::{decoding_len, pass_len};
pub(crate) use pass::blocks;
pub use pass::{Pass, decoded, outputs};
pub(crate) use probabilities::{argmax, cluster_probabilities};
