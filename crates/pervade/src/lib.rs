//! Clustering by Variational Deep Embedding.

pub mod compute;
pub mod data;
mod error;
pub mod graph;
pub mod metrics;
pub mod mixture;
mod parallel;
mod rows;
pub mod seed;

pub use error::{Error, Result};
