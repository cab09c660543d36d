//! Read: files to rows and labels, rows to batches, results to files.

mod checks;
mod dataset;
mod prepare;

pub use dataset::{Array, Csr, Dataset, ImageShape, Values};
pub use prepare::{PrepareKind, Preparation};
