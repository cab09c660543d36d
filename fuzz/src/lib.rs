//! What every target does with its bytes: read them in each way there is; only a crash counts.

use pervade::data::{ReadOptions, read_bytes, read_label_bytes};

/// Reads a table, with and without labels, and a file of labels.
///
/// Parquet has a target of its own, which knows about its decoder's panics.
pub fn read_all(bytes: &[u8], extension: &str) {
    if extension != "parquet" && bytes.starts_with(b"PAR1") {
        return;
    }
    let _ = read_bytes(bytes, extension, &ReadOptions::default());
    for labels in ["y", "column:last", "column:a"] {
        let _ = read_bytes(bytes, extension, &ReadOptions::with_labels(labels).unwrap());
    }
    let _ = read_label_bytes(bytes, extension);
}
