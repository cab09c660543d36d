//! The readers of tables and labels.

use std::fs;
use std::path::PathBuf;

use pervade::data::{ReadOptions, Table, read, read_bytes, read_label_bytes};

use super::scratch;
use super::typed::write_filled;

/// Reads a table, with and without labels, and a file of labels.
///
/// Parquet has its own target, which tolerates its decoder's panics.
pub fn read_all(bytes: &[u8], extension: &str) {
    if extension != "parquet" && bytes.starts_with(b"PAR1") {
        return;
    }
    if let Ok(table) = read_bytes(bytes, extension, &ReadOptions::default()) {
        read_and_fill(bytes, extension, &table);
    }
    for labels in ["y", "column:last", "column:a"] {
        let _ = read_bytes(bytes, extension, &ReadOptions::with_labels(labels).unwrap());
    }
    let _ = read_bytes(bytes, extension, &ReadOptions::default().with(|o| o.decimal_comma = true));
    let _ = read_label_bytes(bytes, extension);
}

/// Reads rows as new ones of the table that they are, and writes them.
fn read_and_fill(bytes: &[u8], extension: &str, table: &Table) {
    let Some(schema) = table.data.schema() else { return };
    let options = ReadOptions::default().with(|o| {
        o.schema = Some(schema.clone());
        o.original = true;
    });
    let Ok(table) = read_bytes(bytes, extension, &options) else { return };
    write_filled(&table, schema);
}

/// A file of labels; the first byte chooses the file extension.
pub fn read_labels(bytes: &[u8]) {
    const EXTENSIONS: [&str; 7] = ["txt", "csv", "npy", "npz", "idx", "mat", "gz"];
    let Some((&first, content)) = bytes.split_first() else { return };
    if !content.starts_with(b"PAR1") {
        let _ = read_label_bytes(content, EXTENSIONS[usize::from(first) % EXTENSIONS.len()]);
    }
}

/// A folder of two images, one of which is the bytes.
pub fn read_images(bytes: &[u8]) {
    // 2 x 2 grey pixels.
    const GOOD: &[u8] =
        b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x02\x00\x00\x00\x02\x08\x00\x00\
        \x00\x00W\xddR\xf8\x00\x00\x00\x0eIDATx\x9cc`\x08`X\xf0\x01\x00\x03v\x01\xe1=[$\xb8\x00\
        \x00\x00\x00IEND\xaeB`\x82";
    let root = scratch("images");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("a.png"), GOOD).unwrap();
    fs::write(root.join("b.png"), bytes).unwrap();
    let _ = read(&root, &ReadOptions::default());
}

/// Folders that are recognised by their file names, each with valid files.
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

/// The first byte selects a file, which is replaced by the remaining bytes; then its folder is read.
pub fn read_folder_with(bytes: &[u8]) {
    let Some((&index, content)) = bytes.split_first() else { return };
    let all =
        FOLDERS.iter().flat_map(|(folder, files)| files.iter().map(move |file| (*folder, *files, file)));
    let Some((folder, files, (replaced, _))) = all.cycle().nth(index.into()) else { return };
    let root = scratch(folder);
    for (name, valid) in files {
        let path: PathBuf = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, if name == replaced { content } else { valid }).unwrap();
    }
    let _ = read(&root, &ReadOptions::with_labels("y").unwrap());
}
