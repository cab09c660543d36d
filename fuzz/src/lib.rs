//! The fuzz targets: each reads its bytes in every supported way. A crash is a finding, and so is a broken promise: a model that
//! was accepted but cannot be saved, pieces that are not the whole, an answer of the server that is none.

pub mod explore;
mod fixtures;
mod models;
mod parts;
mod readers;
pub mod seeds;
mod typed;

use std::fs;
use std::path::PathBuf;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Target); 20] = [
    ("npy", |bytes| readers::read_all(bytes, "npy")),
    ("npz", |bytes| readers::read_all(bytes, "npz")),
    ("idx", |bytes| readers::read_all(bytes, "idx")),
    ("text", |bytes| readers::read_all(bytes, "csv")),
    ("svmlight", |bytes| readers::read_all(bytes, "svm")),
    ("mat", |bytes| readers::read_all(bytes, "mat")),
    ("parquet", |bytes| readers::read_all(bytes, "parquet")),
    ("folders", readers::read_folder_with),
    ("images", readers::read_images),
    ("labels", readers::read_labels),
    ("parts", parts::read_parts),
    ("schema", typed::read_typed),
    ("impute", typed::read_new_rows),
    ("config", models::read_config),
    ("column-names", typed::read_column_names),
    ("names", models::read_names),
    ("model", |bytes| models::with_and_without_checksum(bytes, models::use_model)),
    ("checkpoint", |bytes| models::with_and_without_checksum(bytes, models::read_checkpoint)),
    ("requests", explore::connect),
    ("questions", explore::ask),
];

/// Targets that call decoders whose panics the readers catch.
pub const CATCHES_PANICS: [&str; 3] = ["parquet", "parts", "impute"];

/// Divides the bytes of a target that needs several files.
const DIVIDER: &[u8] = b"\n%%\n";

/// The files in the bytes of a target, at most `most`.
fn divided(bytes: &[u8], most: usize) -> Vec<&[u8]> {
    let mut rest = bytes;
    let mut files = Vec::new();
    while files.len() + 1 < most {
        let Some(at) = rest.windows(DIVIDER.len()).position(|window| window == DIVIDER) else { break };
        files.push(&rest[..at]);
        rest = &rest[at + DIVIDER.len()..];
    }
    files.push(rest);
    files
}

/// The folder for the files of this process, in memory if that is possible.
pub fn scratch_root() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let is_free = std::env::var_os("TMPDIR").is_none() && memory.is_dir();
    let folder = if is_free { memory } else { std::env::temp_dir() };
    folder.join(format!("pervade-fuzz-{}", std::process::id()))
}

/// A folder for the files of a target.
fn scratch(name: &str) -> PathBuf {
    let folder = scratch_root().join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}
