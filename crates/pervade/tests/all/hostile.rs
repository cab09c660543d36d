//! Broken and hostile files: one clear error each, never a panic, never an allocation that a header merely claims.

use std::io::Write;
use std::path::{Path, PathBuf};

use pervade::data::{
    FilledTable, OutputFormat, OutputRows, ReadOptions, Table, read, read_bytes, read_labels,
};
use proptest::prelude::*;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/readers"))
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

/// The error message and the hint for bytes that cannot be read.
fn refusal(bytes: &[u8], extension: &str) -> (String, String) {
    let error = read_bytes(bytes, extension, &ReadOptions::default()).expect_err("must not be read");
    (error.to_string(), error.hint().unwrap_or_default().to_string())
}

/// Rows for a model without column types.
fn plain() -> ReadOptions {
    ReadOptions::default().with(|o| o.plain = Some(Vec::new()))
}

/// The error message and the hint for bytes that are not rows of numbers.
fn plain_refusal(bytes: &[u8], extension: &str) -> (String, String) {
    let error = read_bytes(bytes, extension, &plain()).expect_err("must not be read");
    (error.to_string(), error.hint().unwrap_or_default().to_string())
}

fn problem(bytes: &[u8], extension: &str) -> String {
    refusal(bytes, extension).0.strip_prefix("`bytes in memory").expect("names the location").to_string()
}

fn npy(header: &str, body: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(body);
    out
}

#[test]
fn empty_and_foreign_files() {
    assert_eq!(problem(b"", "npy"), "`: the file is empty");
    assert_eq!(problem(b"hello, world", "npy"), "`: this is not a .npy file: it starts with `hello, w`");
    assert_eq!(
        problem(b"\x00\x01\x02\x03binary", "dat"),
        "`: the format of this file is unknown: it starts with `\\x00\\x01\\x02\\x03bina`"
    );
    let (hdf, hint) = refusal(b"\x89HDF\r\n\x1a\n", "mat");
    assert!(hdf.contains("HDF5") && hint.contains("-v7"), "{hdf}: {hint}");
    assert!(refusal(b"\x89PNG\r\n\x1a\n", "png").1.contains("folder of images"));
    let zip =
        |name: &str| [&b"PK\x03\x04"[..], &[0; 22], &[name.len() as u8, 0, 0, 0], name.as_bytes()].concat();
    for (bytes, what, hint) in [
        (zip("[Content_Types].xml"), "a file of Excel", "CSV UTF-8"),
        (zip("mimetype"), "an OpenDocument file", "as CSV"),
        (zip("genes.csv"), "a zip archive", "unpack it"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec(), "a file of Excel", "CSV UTF-8"),
        (b"ARROW1\0\0".to_vec(), "Feather", "Parquet"),
        (b"RDX3\nX\n\0\0".to_vec(), "an R file", "write.csv"),
        (b"[{\"a\": 1}]".to_vec(), "JSON", "CSV or Parquet"),
        (b"{\n \"a\": [1]}\n".to_vec(), "JSON", "CSV or Parquet"),
    ] {
        let (message, advice) = refusal(&bytes, "dat");
        assert!(message.contains(what) && advice.contains(hint), "{message}: {advice}");
    }
    // Texts that begin with the same letters.
    for text in ["RDX,BZh\n1,2\n3,4\n", "ORC\n1\n2\n", "[mass],b\n1,2\n3,4\n"] {
        assert!(read_bytes(text.as_bytes(), "csv", &ReadOptions::default()).is_ok(), "{text}");
    }
    let nowhere = read(Path::new("no/such/file.npy"), &ReadOptions::default()).unwrap_err().to_string();
    assert!(nowhere.starts_with("cannot read `no/such/file.npy`"), "{nowhere}");
}

#[test]
fn headers_that_claim_more_than_there_is() {
    let rows = 1u64 << 60;
    let claim = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 4), }}\n");
    let text = problem(&npy(&claim, &[0; 64]), "npy");
    assert!(text.starts_with("`: the header claims 18446744073709551615 bytes"), "{text}");
    let overflow = format!("{{'descr': '<f4', 'fortran_order': True, 'shape': ({rows}, {rows}), }}\n");
    assert!(problem(&npy(&overflow, &[]), "npy").contains("the impossible shape"));
    let mut idx = vec![0, 0, 8, 3];
    (0..3).for_each(|_| idx.extend((1u32 << 20).to_be_bytes()));
    assert_eq!(
        problem(&idx, "idx"),
        "`: the header claims 1152921504606846976 bytes of numbers, the file has room for 0"
    );
    let mut mat = fixture("big_endian.mat");
    let at = 128 + 8 + 16 + 8; // header, tag of the matrix, its flags, tag of its shape
    mat[at..at + 8].copy_from_slice(&[0x40, 0, 0, 0, 0x40, 0, 0, 0]);
    assert!(problem(&mat, "mat").contains("array x`: the header claims"), "{}", problem(&mat, "mat"));
    let text = "1 4294967295:1\n";
    assert!(problem(text.as_bytes(), "svm").contains("4294967295 columns are more than"));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&idx).unwrap();
    assert!(problem(&packed.finish().unwrap(), "gz").contains("the header claims"));
}

#[test]
fn files_that_end_early() {
    for (name, extension, expected) in [
        ("f32_c.npy", "npy", "the header claims 96 bytes of numbers, the file has room for 48"),
        ("stored.npz", "npz", "the zip file cannot be read"),
        ("bytes.idx", "idx", "the header claims 36 bytes of numbers"),
        ("i16.idx.gz", "gz", "the file"),
        ("doubles.parquet", "parquet", "the Parquet file cannot be read"),
        ("plain.mat", "mat", "a matrix ends early"),
    ] {
        let bytes = fixture(name);
        let cut = if name == "f32_c.npy" { bytes.len() - 48 } else { bytes.len() * 2 / 3 };
        let (text, hint) = refusal(&bytes[..cut], extension);
        assert!(text.contains(expected), "{name}: {text}");
        assert_eq!(hint, "the file is cut short or damaged", "{name}");
    }
    // Mapped files give the same errors as bytes in memory.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.npy");
    std::fs::write(&path, &fixture("f32_c.npy")[..200]).unwrap();
    let text = read(&path, &ReadOptions::default()).unwrap_err().to_string();
    assert!(text.contains("short.npy`: the header claims 96 bytes"), "{text}");
}

#[test]
fn damage_inside_packed_files_is_detected() {
    let mut bytes = fixture("f64.idx.gz");
    let checksum = bytes.len() - 8;
    bytes[checksum] ^= 1;
    assert!(problem(&bytes, "gz").contains("cannot be unpacked"), "{}", problem(&bytes, "gz"));
}

#[test]
fn text_tables_name_line_and_column() {
    assert_eq!(problem(b"a,b\n1,2\n3\n", "csv"), "`: line 3 has 1 fields, expected 2 as in the first line");
    assert_eq!(
        problem(b"a,b\n1,2\n3,4,5\n", "csv"),
        "`: line 3 has 3 fields, expected 2 as in the first line"
    );
    // Lines as an editor counts them, whatever ends them and comes before.
    for (text, line) in [
        ("a,b\r\n1,2\r\n3\r\n", 3),
        ("a,b\r\n1,2\r\n3", 3),
        ("a,b\n1,2\n3", 3),
        ("a,b\r1,2\r3", 3),
        ("# a\n\na,b\n\n1,2\n# b\n\n3\n", 8),
        ("a,b\r\n\r\n# b\r\n3\r\n", 4),
        ("a,b\n\"x\ny\",2\n\"z\n\"\n", 4),
    ] {
        let wanted = format!("`: line {line} has 1 fields, expected 2 as in the first line");
        assert_eq!(problem(text.as_bytes(), "csv"), wanted, "{text:?}");
    }
    let (text, hint) = plain_refusal(b"size,kind\n1,2\n3,cat\n", "csv");
    assert_eq!(text, "`bytes in memory`: line 3, column `kind` is `cat`, not a finite number");
    assert!(hint.contains("`labels = \"column:NAME\"`"), "{hint}");
    assert_eq!(plain_refusal(b"1,2\n3,\n", "csv").0, "`bytes in memory`: line 2, column 2 is empty");
    assert_eq!(problem(b"a,b\n", "csv"), "`: the table is empty: 0 rows x 2 columns");
    let wanted = ReadOptions::with_labels("column:colour").unwrap();
    let text = read_bytes(b"size,kind\n1,2\n", "csv", &wanted).unwrap_err().to_string();
    assert_eq!(
        text,
        "`bytes in memory`: there are no labels `column:colour` here; the columns are `size`, `kind`"
    );
    assert_eq!(problem(b"1 1:2 x\n", "svm"), "`: line 1: `x` is not `index:value`");
}

#[test]
fn numbers_that_are_none() {
    let text = plain_refusal(b"a,b\n1,2\n3,nan\n", "csv").0;
    assert_eq!(text, "`bytes in memory`: line 3, column `b` is `nan`, not a finite number");
    let columns = ["a".to_string(), "b".to_string()];
    let mut parquet = Vec::new();
    OutputRows { values: &[1.0, 2.0, 3.0, f32::NAN], n_columns: 2, names: Some(&columns) }
        .write_to(&mut parquet, OutputFormat::Parquet)
        .unwrap();
    let not_a_number = npy(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n",
        bytemuck::cast_slice(&[1.0f32, 2.0, 3.0, f32::NAN]),
    );
    for (bytes, extension, column) in [(parquet, "parquet", "`b`"), (not_a_number, "npy", "2")] {
        let text = plain_refusal(&bytes, extension).0;
        let wanted = format!("1 values are not finite numbers; the first is NaN in row 2, column {column}");
        assert!(text.contains(&wanted), "{text}");
        read_bytes(&bytes, extension, &ReadOptions::default()).expect("a gap for a model with column types");
    }
    let infinite = npy(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n",
        bytemuck::cast_slice(&[1.0f32, f32::INFINITY]),
    );
    assert!(problem(&infinite, "npy").contains("the first is inf in row 1, column 2"));
    let text = read(&folder().join("null.parquet"), &plain()).unwrap_err().to_string();
    assert!(text.ends_with("row 2, column `a` is null"), "{text}");
}

#[test]
fn arrays_that_are_not_tables() {
    let objects = npy("{'descr': '|O', 'fortran_order': False, 'shape': (1, 2), }\n", &[]);
    assert!(problem(&objects, "npy").contains("Python objects"));
    let (text, _) = refusal(&fixture("labels_i64.npy"), "npy");
    assert!(text.contains("an array of shape [6] is not a table"), "{text}");
    let (text, _) = refusal(&fixture("labels_words.npy"), "npy");
    assert!(text.contains("is not a table"), "{text}");
    let wanted = ReadOptions::default().with(|o| o.array = Some("z".into()));
    let text = read_bytes(&fixture("stored.npz"), "npz", &wanted).unwrap_err().to_string();
    assert!(text.contains("there is no array `z`; there are `x` [6, 4], `y` [6], `other` [6, 4]"), "{text}");
    let wanted = ReadOptions::with_labels("target").unwrap();
    let text = read_bytes(&fixture("stored.npz"), "npz", &wanted).unwrap_err().to_string();
    assert!(text.contains("no labels `target` here; there are `x` [6, 4], `y` [6]"), "{text}");
}

#[test]
fn labels_of_another_length() {
    let folder_of_labels = tempfile::tempdir().unwrap();
    let path = folder_of_labels.path().join("y.txt");
    std::fs::write(&path, "1\n2\n").unwrap();
    let options = ReadOptions::with_labels(path.to_str().unwrap()).unwrap();
    let text = read(&folder().join("f32_c.npy"), &options).unwrap_err().to_string();
    assert!(text.ends_with("y.txt`: there are 2 labels for 6 rows"), "{text}");
    std::fs::write(&path, "1,2\n").unwrap();
    let text = read_labels(&path).unwrap_err().to_string();
    assert!(text.ends_with("y.txt`: line 1 has 2 fields, a file of labels has one"), "{text}");
}

#[test]
fn images_of_another_size_are_named() {
    let images = tempfile::tempdir().unwrap();
    std::fs::copy(folder().join("colour/a.png"), images.path().join("a.png")).unwrap();
    std::fs::copy(folder().join("grey/ant/1.bmp"), images.path().join("b.bmp")).unwrap();
    let text = read(images.path(), &ReadOptions::default()).unwrap_err().to_string();
    assert!(text.ends_with("b.bmp`: the image is 2 x 3 pixels, the first one is 4 x 3"), "{text}");
    std::fs::write(images.path().join("a.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    let text = read(images.path(), &ReadOptions::default()).unwrap_err().to_string();
    assert!(text.contains("a.png`: the image cannot be read"), "{text}");
    let empty = tempfile::tempdir().unwrap();
    let text = read(empty.path(), &ReadOptions::default()).unwrap_err().to_string();
    assert!(text.contains("neither IDX files nor images"), "{text}");
}

/// Every single-file fixture with its extension.
fn fixtures() -> Vec<(Vec<u8>, String)> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|p| p.is_file() && p.extension().unwrap() != "json").collect();
    files.sort();
    files
        .iter()
        .map(|p| (std::fs::read(p).unwrap(), p.extension().unwrap().to_str().unwrap().into()))
        .collect()
}

/// Reads the bytes in every possible way; only the absence of a panic counts.
fn try_all(bytes: &[u8], extension: &str) {
    for labels in ["", "y", "column:last", "column:a"] {
        let options =
            if labels.is_empty() { Ok(ReadOptions::default()) } else { ReadOptions::with_labels(labels) };
        let _ = read_bytes(bytes, extension, &options.unwrap());
    }
    let _ = pervade::data::read_label_bytes(bytes, extension);
    if let Ok(table) = read_bytes(bytes, extension, &ReadOptions::default()) {
        read_and_fill(bytes, extension, &table);
    }
}

/// Reads rows as new ones of the table that they are: that must be possible, and so must writing them.
fn read_and_fill(bytes: &[u8], extension: &str, table: &Table) {
    let Some(schema) = table.data.schema() else { return };
    let options = ReadOptions::default().with(|o| {
        o.schema = Some(schema.clone());
        o.original = true;
    });
    let again = read_bytes(bytes, extension, &options).unwrap();
    let (n, d) = (again.data.n_rows(), again.data.n_columns());
    for at in 0..n * d {
        let (old, new) = (table.data.cell(at / d, at % d), again.data.cell(at / d, at % d));
        assert!(old == new || old.is_nan() && new.is_nan(), "{old} {new}");
    }
    let cells = vec![0.5; n * d];
    FilledTable::new(&again, schema, &cells).unwrap().write_to(&mut Vec::new(), OutputFormat::Csv).unwrap();
}

/// File headers that lead to each reader.
const BEGINNINGS: [&[u8]; 10] = [
    b"",
    b"\x93NUMPY\x01\x00\x20\x00{'descr': '<f4', ",
    b"PK\x03\x04",
    b"PAR1",
    b"\x00\x00\x08\x03",
    b"\x00\x00\x0d\x01\x00\x00\x00",
    b"\x1f\x8b\x08\x00",
    b"1 1:2 ",
    b"a,b\n1,",
    b"MATLAB 5.0 MAT-file",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes_never_panic(start in 0..BEGINNINGS.len(), rest in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = BEGINNINGS[start].to_vec();
        if start == 9 {
            bytes.resize(126, b' ');
            bytes.extend(b"IM\x0e\x00\x00\x00\x80\x00\x00\x00\x06\x00\x00\x00\x08\x00\x00\x00");
        }
        bytes.extend(rest);
        for extension in ["npy", "csv", "svm", ""] {
            try_all(&bytes, extension);
        }
    }

    #[test]
    fn damaged_files_never_panic(cut in any::<prop::sample::Index>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)) {
        for (mut bytes, extension) in fixtures() {
            for (at, value) in &flips {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            try_all(&bytes, &extension);
            bytes.truncate(cut.index(bytes.len()));
            try_all(&bytes, &extension);
        }
    }
}

proptest! {
    // Fewer cases: each writes ten small files.
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn damaged_images_and_idx_files_in_folders_never_panic(cut in any::<prop::sample::Index>(), flip in any::<(prop::sample::Index, u8)>()) {
        let files = ["grey/ant/1.bmp", "grey/cat/0.png", "grey/cat/2.pgm", "photo/flat.jpg", "mnist/t10k-images-idx3-ubyte"];
        for file in files {
            let mut bytes = fixture(file);
            let at = flip.0.index(bytes.len());
            bytes[at] = flip.1;
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(Path::new(file).file_name().unwrap());
            std::fs::write(&path, &bytes).unwrap();
            let _ = read(folder.path(), &ReadOptions::default());
            std::fs::write(&path, &bytes[..cut.index(bytes.len())]).unwrap();
            let _ = read(folder.path(), &ReadOptions::default());
        }
    }
}
