//! Small versions of the paper's data sets in their distributed formats: rows and labels as NumPy and scikit-learn read
//! them (`testdata/oracle/make_originals.py`), and one clear error for each kind of damage.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use pervade::data::{Dataset, ReadOptions, Table, Values, read};

mod har;
mod rcv1;
mod stl10;

fn originals() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/originals"))
}

fn expected<T: serde::de::DeserializeOwned>(file: &str) -> T {
    serde_json::from_slice(&fs::read(originals().join(file)).unwrap()).unwrap()
}

fn with_labels(path: &Path, labels: &str) -> Table {
    read(path, &ReadOptions::with_labels(labels).unwrap()).unwrap_or_else(|e| panic!("{e}"))
}

/// The problem with a folder or file, without the folder's path, and the hint.
fn refusal(path: &Path, folder: &Path, labels: Option<&str>) -> (String, String) {
    let options = labels.map_or(ReadOptions::default(), |text| ReadOptions::with_labels(text).unwrap());
    let error = read(path, &options).expect_err("must not be read");
    let text = error.to_string().replace(&format!("{}/", folder.display()), "");
    (text.replace(&folder.display().to_string(), "FOLDER"), error.hint().unwrap_or_default().to_string())
}

/// The problem with a folder when labels are wanted.
fn problem(folder: &Path) -> String {
    refusal(folder, folder, Some("y")).0
}

/// A copy of a fixture that a test may damage.
fn copy_of(name: &str) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.path().is_dir() {
                copy(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    copy(&originals().join(name), folder.path());
    folder
}

fn label_words(table: &Table) -> Vec<String> {
    let labels = table.labels.as_ref().unwrap();
    labels.ids().iter().map(|&id| labels.names()[id as usize].clone()).collect()
}

fn rows_of(data: &Dataset) -> Vec<Vec<f32>> {
    let mut row = vec![0.0; data.n_columns()];
    let read = |i| {
        data.row_into(i, &mut row);
        row.clone()
    };
    (0..data.n_rows()).map(read).collect()
}

/// `HHAR.mat` and `reuters10k.mat` of the authors: X, and Y as a row or a column, packed or not.
#[test]
fn the_authors_matlab_files_have_labels_in_y() {
    #[derive(serde::Deserialize)]
    struct Expected {
        x: Vec<Vec<f32>>,
        y: Vec<u32>,
    }
    let expected: Expected = expected("mat.json");
    for name in ["lying", "lying_packed", "standing", "standing_packed"] {
        let path = originals().join(format!("mat/{name}.mat"));
        let table = with_labels(&path, "Y");
        assert!(matches!(table.data.values(), Values::F64(_)), "{name}");
        assert_eq!(rows_of(&table.data), expected.x, "{name}");
        let words: Vec<String> = expected.y.iter().map(ToString::to_string).collect();
        assert_eq!(label_words(&table), words, "{name}");
        // The same labels for rows from another file.
        let labels = pervade::data::read_labels(&path).unwrap();
        assert_eq!(&labels, table.labels.as_ref().unwrap(), "{name}");
        let (text, _) = refusal(&path, &originals(), Some("y"));
        let shape = if name.starts_with("lying") { "[1, 6]" } else { "[6, 1]" };
        assert_eq!(
            text,
            format!("`mat/{name}.mat`: there are no labels `y` here; there are `X` [6, 4], `Y` {shape}")
        );
    }
}

#[test]
fn an_unknown_folder_gives_a_hint_with_the_supported_ones() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("notes.txt"), "nothing").unwrap();
    let (text, hint) = refusal(folder.path(), folder.path(), None);
    assert_eq!(text, "`FOLDER`: the folder has neither IDX files nor images");
    assert!(hint.contains("STL-10, UCI HAR or RCV1-v2 under their own names"), "{hint}");
}

proptest! {
    // Fewer cases: each copies and reads whole folders.
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// One file of a folder is cut short or has bytes changed; only the absence of a panic counts.
    #[test]
    fn damaged_folders_never_panic(
        cut in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        victim in any::<prop::sample::Index>(),
    ) {
        for name in ["tokens", "vectors", "har"] {
            let folder = copy_of(name);
            let mut files: Vec<PathBuf> = files_below(folder.path());
            files.sort();
            let file = &files[victim.index(files.len())];
            let mut bytes = fs::read(file).unwrap();
            for (at, value) in &flips {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            fs::write(file, &bytes).unwrap();
            let labels = ReadOptions::with_labels("y").unwrap();
            let _ = read(folder.path(), &labels);
            bytes.truncate(cut.index(bytes.len()));
            fs::write(file, &bytes).unwrap();
            let _ = read(folder.path(), &labels);
        }
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
