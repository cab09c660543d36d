//! The CPU backend: the reference implementation of every operation, vectorised and multi-threaded.
//!
//! Threads come from the caller's rayon pool, which a training step keeps awake (`team.rs`). Work is split into pieces of a fixed size and sums are
//! taken in a fixed order, so that results depend neither on the number of threads nor on the instruction set.

mod activation;
mod adam;
mod batch_norm;
mod block;
mod codes;
mod convolution;
mod exchange;
mod latents;
mod layers;
mod likelihood;
mod memory;
mod mixture_posterior;
mod neighbour_term;
mod neighbours;
mod pages;
mod points;
mod prior;
pub mod product;
mod rows;
mod shared;
pub mod simd;
mod soft_clusters;
mod stick_breaking;
mod sums;
mod team;
mod tiles;
mod typed;

pub use block::{Block, argmax};
pub use memory::Cpu;
pub use neighbours::nearest_rows;
pub use points::CpuPoints;
pub use rows::CpuBatch;
pub use sums::CpuSums;
pub use typed::CpuColumns;

type M = crate::Matrix<Vec<f32>>;
