//! The networks: what they are made of, forward and backward.

mod architecture;
mod network;

pub use architecture::Architecture;
pub use network::Tape;
