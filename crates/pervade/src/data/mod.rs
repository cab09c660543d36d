//! Data input and output: files to rows and labels, rows to batches, results to files.
//!
//! `.npy`, `.npz`, IDX, svmlight and the files of STL-10 and RCV1-v2 are always supported; Parquet, images, text tables
//! and MATLAB files need the features `parquet`, `images`, `text` and `matlab`, which are on by default.

#[cfg(not(all(feature = "images", feature = "matlab", feature = "parquet", feature = "text")))]
mod absent;
mod arrays;
#[cfg(unix)]
mod bus_error;
mod bytes;
mod checks;
mod csr;
mod dataset;
mod decimal_comma;
mod elements;
#[cfg(feature = "text")]
mod encoding;
mod folder;
mod har;
mod idx;
#[cfg(feature = "images")]
mod images;
mod input_file;
mod labels;
mod mapped;
#[cfg(feature = "matlab")]
mod mat;
mod npy;
mod npz;
mod options;
mod other_formats;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
mod parquet_claims;
#[cfg(feature = "parquet")]
mod parquet_columns;
#[cfg(feature = "parquet")]
mod parquet_file;
#[cfg(feature = "parquet")]
mod parquet_numbers;
#[cfg(feature = "parquet")]
mod parquet_pieces;
#[cfg(feature = "parquet")]
mod parquet_shapes;
mod parts;
mod pieces;
mod prepare;
mod rcv1;
mod read;
#[cfg_attr(not(all(feature = "parquet", feature = "text")), allow(unused, reason = "for readers of tables"))]
mod schema;
mod sparse;
mod spool;
mod stl10;
mod svmlight;
mod table_writer;
#[cfg(feature = "text")]
mod text;
#[cfg(feature = "text")]
mod text_pieces;
#[cfg(feature = "text")]
mod text_table;
mod typed;
mod write;
mod write_filled;
#[cfg(feature = "parquet")]
mod write_parquet;

#[cfg(not(feature = "images"))]
use absent::images;
#[cfg(not(feature = "matlab"))]
use absent::mat;
#[cfg(not(feature = "parquet"))]
use absent::parquet;
#[cfg(not(feature = "text"))]
use absent::text;
pub use csr::Csr;
pub(crate) use dataset::column_in_words;
pub use dataset::{Array, Dataset, ImageShape, Values};
pub use labels::Labels;
pub use options::{Kept, LabelSource, PooledCell, ReadOptions, Table};
pub use parts::{PartKind, Parts};
pub use pieces::Pieces;
pub(crate) use prepare::require_columns;
pub use prepare::{Preparation, PrepareKind};
pub use read::{read, read_bytes, read_label_bytes, read_labels};
pub(crate) use schema::other_names;
pub use schema::{
    Coded, Column, ColumnSpec, ColumnType, DateFormat, LevelKind, MAX_LEVELS, NO_GAPS, OTHER, RawCells,
    RawColumn, Schema, TableShape, TimeFormat, Zone,
};
pub use spool::Spool;
pub use table_writer::TableWriter;
pub use write::{OutputCells, OutputFormat, OutputRows, OutputTable};
pub use write_filled::{FilledTable, TextTypes};
