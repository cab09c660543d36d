//! Read: files to rows and labels, rows to batches, results to files.

mod arrays;
#[cfg(unix)]
mod bus_error;
mod bytes;
mod checks;
mod dataset;
mod elements;
mod folder;
mod har;
mod idx;
mod images;
mod input_file;
mod labels;
mod mapped;
mod mat;
mod npy;
mod npz;
mod options;
mod parquet;
mod parquet_claims;
mod parquet_shapes;
mod prepare;
mod rcv1;
mod read;
mod sparse;
mod stl10;
mod svmlight;
mod text;
mod write;

pub use dataset::{Array, Csr, Dataset, ImageShape, Values};
pub use labels::Labels;
pub use options::{LabelSource, ReadOptions, Table};
pub(crate) use prepare::require_columns;
pub use prepare::{Preparation, PrepareKind};
pub use read::{read, read_bytes, read_label_bytes, read_labels};
pub use write::{Assignments, OutputFormat, Rows};
