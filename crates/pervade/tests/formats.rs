//! A build without some of the formats refuses their files by name: `cargo test -p pervade --no-default-features --test
//! formats`.

use std::path::{Path, PathBuf};

use pervade::data::{OutputFormat, ReadOptions, read, read_labels};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

/// Whether a format is enabled, a file of it, and its name in messages.
const FORMATS: [(bool, &str, &str, &str); 5] = [
    (cfg!(feature = "parquet"), "parquet", "readers/whole.parquet", "a Parquet file"),
    (cfg!(feature = "matlab"), "matlab", "readers/plain.mat", "a MATLAB file"),
    (cfg!(feature = "text"), "text", "readers/plain.csv", "a text table (CSV, TSV)"),
    (cfg!(feature = "text"), "text", "originals/har", "a text table (CSV, TSV)"),
    (cfg!(feature = "images"), "images", "readers/grey", "a folder of images or of other files"),
];

#[test]
fn a_format_is_read_or_refused_by_name() {
    for (is_there, feature, name, what) in FORMATS {
        let table = read(&file(name), &ReadOptions::default());
        if is_there {
            assert!(table.unwrap().data.n_rows() > 0, "{name}");
            continue;
        }
        let error = table.unwrap_err();
        let problem = format!("this is {what}, which this build of pervade cannot read");
        assert!(error.to_string().ends_with(&problem), "{name}: {error}");
        let hint = error.hint().unwrap().to_string();
        assert!(hint.starts_with(&format!("build it with the feature `{feature}`")), "{name}: {hint}");
    }
    assert_eq!(read_labels(&file("readers/labels.txt")).is_ok(), cfg!(feature = "text"));
    assert_eq!(read_labels(&file("readers/labels.parquet")).is_ok(), cfg!(feature = "parquet"));
    assert_eq!(OutputFormat::of(Path::new("x.parquet")).is_ok(), cfg!(feature = "parquet"));
    // These need no feature.
    for name in ["readers/le_f8.npy", "readers/stored.npz", "readers/one.svm", "readers/mnist"] {
        read(&file(name), &ReadOptions::default()).unwrap();
    }
    assert!(OutputFormat::of(Path::new("x.csv")).is_ok() && OutputFormat::of(Path::new("x.npy")).is_ok());
}
