//! The networks: what they are made of, forward and backward.

mod architecture;
mod batch_norm;
mod convolution;
mod network;

pub use architecture::Architecture;
pub use batch_norm::{BatchNorm, Normed};
pub use convolution::{Convolution, TransposedConvolution};
pub use network::Tape;
