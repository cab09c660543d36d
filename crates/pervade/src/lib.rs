//! Clustering by Variational Deep Embedding.

pub mod compute;
pub mod config;
pub mod data;
mod error;
mod fit;
pub mod graph;
pub mod metrics;
pub mod mixture;
pub mod model;
pub mod nn;
mod parallel;
pub mod record;
mod rows;
pub mod seed;
pub mod train;

pub use error::{Error, Result};
pub use fit::{Finished, Fit, fit};
