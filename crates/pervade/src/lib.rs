//! Clustering by Variational Deep Embedding.

pub mod compute;
pub mod data;
mod error;
pub mod nn;
pub mod seed;

pub use error::{Error, Result};
