//! The networks: layers, forward and backward passes.

mod architecture;
mod batch_norm;
mod convolution;
mod layer;
mod network;
mod tape;

pub use architecture::{Architecture, Sizes};
pub use batch_norm::{BatchNorm, BatchNormBuffers};
pub use convolution::{Convolution, TransposedConvolution};
pub use layer::Layer;
pub use network::{Activations, Network};
pub use tape::Tape;
