//! Read: files to rows and labels, rows to batches, results to files.

mod checks;
mod dataset;

pub use dataset::{Array, Csr, Dataset, ImageShape, Values};
