//! What every target does with its bytes: read them in each way there is; only a crash counts.

use std::fs;
use std::path::PathBuf;

use pervade::data::{ReadOptions, read, read_bytes, read_label_bytes};

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

/// The files of the folders that are known by their names, each with content that is in order.
const FOLDERS: [(&str, &[(&str, &[u8])]); 4] = [
    (
        "har",
        &[
            ("train/X_train.txt", b"  1.0e-001 2 3\n 4 5 6\n"),
            ("train/y_train.txt", b"1\n2\n"),
            ("test/X_test.txt", b"7 8 9\n"),
            ("test/y_test.txt", b"1\n"),
            ("features.txt", b"1 a\n2 b\n3 b\n"),
            ("activity_labels.txt", b"1 WALKING\n2 SITTING\n"),
        ],
    ),
    (
        "tokens",
        &[
            ("lyrl2004_tokens_test_pt0.dat", b".I 1\n.W\noil gas\noil\n\n.I 6\n.W\ntax\n\n"),
            ("lyrl2004_tokens_test_pt1.dat", b".I 2\n.W\ngas\n\n"),
            ("lyrl2004_tokens_test_pt2.dat", b""),
            ("lyrl2004_tokens_test_pt3.dat", b""),
            ("lyrl2004_tokens_train.dat", b".I 3\n.W\nvote\n"),
            ("rcv1-v2.topics.qrels", b"CCAT 1 1\nC11 1 1\nECAT 2 1\nMCAT 3 1\nCCAT 6 1\nGCAT 6 1\n"),
        ],
    ),
    (
        "vectors",
        &[
            ("lyrl2004_vectors_test_pt0.dat", b"1  7:0.5 9:0.25\n6  1:1\n"),
            ("lyrl2004_vectors_test_pt1.dat", b"2  9:1\n"),
            ("lyrl2004_vectors_test_pt2.dat", b""),
            ("lyrl2004_vectors_test_pt3.dat", b""),
            ("lyrl2004_vectors_train.dat", b"3  7:1\n"),
            ("rcv1-v2.topics.qrels", b"CCAT 1 1\nECAT 2 1\nMCAT 3 1\nCCAT 6 1\nGCAT 6 1\n"),
        ],
    ),
    (
        "stl10",
        &[
            ("train_X.bin", &[7; 27_648]),
            ("train_y.bin", &[1]),
            ("test_X.bin", &[9; 27_648]),
            ("test_y.bin", &[10]),
            ("class_names.txt", b"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"),
        ],
    ),
];

/// Puts the bytes, without the first, in the place of the file that the first byte names, and reads
/// that folder.
pub fn read_folder_with(bytes: &[u8]) {
    let Some((&victim, content)) = bytes.split_first() else { return };
    let all =
        FOLDERS.iter().flat_map(|(folder, files)| files.iter().map(move |file| (*folder, *files, file)));
    let Some((folder, files, (victim, _))) = all.cycle().nth(victim.into()) else { return };
    let root = std::env::temp_dir().join(format!("pervade-fuzz-{}", std::process::id())).join(folder);
    for (name, good) in files {
        let path: PathBuf = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, if name == victim { content } else { good }).unwrap();
    }
    let _ = read(&root, &ReadOptions::with_labels("y").unwrap());
}
