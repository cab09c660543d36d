//! The networks and the mixture with their parameters as they are, without noise or gradients: for training, which looks at
//! its own state, and for the fitted model.

mod memory;
mod pass;
mod probabilities;

pub(crate) use memory::{decoding_len, pass_len};
pub(crate) use pass::blocks;
pub use pass::{Pass, decoded, outputs};
pub(crate) use probabilities::{argmax, cluster_probabilities};
