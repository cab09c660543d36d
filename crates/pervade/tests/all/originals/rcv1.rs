//! RCV1-v2: token and vector files, compared with scikit-learn's result for the same documents.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use pervade::data::{Csr, ReadOptions, Values, read};

use super::{copy_of, expected, label_words, originals, problem, refusal, with_labels};

#[derive(serde::Deserialize)]
struct Expected {
    names: Vec<String>,
    roots: Vec<String>,
}

fn rows(path: &Path) -> Csr {
    match read(path, &ReadOptions::default()).unwrap().data.values() {
        Values::Csr(csr) => csr.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn documents_of_one_root_are_weighted_as_in_scikit_learn() {
    for kind in ["tokens", "vectors"] {
        let folder = originals().join(kind);
        let wanted: Expected = expected(&format!("{kind}/expected.json"));
        let table = with_labels(&folder, "y");
        assert_eq!(table.data.column_names().unwrap(), wanted.names, "{kind}");
        assert_eq!(label_words(&table), wanted.roots, "{kind}");
        let (found, expected) = (rows(&folder), rows(&folder.join("expected.npz")));
        assert_eq!((found.starts(), found.columns()), (expected.starts(), expected.columns()), "{kind}");
        for (entry, (x, y)) in found.values().iter().zip(expected.values()).enumerate() {
            // Both use double precision until the end; the last digit may differ with the order of sums.
            assert!((x - y).abs() <= 1e-6 * y, "{kind}, entry {entry}: {x}, expected {y}");
        }
    }
    let tokens = read(&originals().join("tokens"), &ReadOptions::default()).unwrap().data;
    assert_eq!(tokens.n_columns(), 2000, "the limit was reached");
    let csr = rows(&originals().join("tokens"));
    let n_empty = (0..csr.n_rows()).filter(|&i| csr.row(i).0.is_empty()).count();
    assert_eq!(n_empty, 2, "a document without words and one with rare words alone keep their rows");
}

/// Writes a collection of one document per part, each with these lines.
fn write_parts(folder: &Path, prefix: &str, documents: [&str; 5]) {
    let parts = ["test_pt0", "test_pt1", "test_pt2", "test_pt3", "train"];
    for (part, document) in parts.iter().zip(documents) {
        fs::write(folder.join(format!("lyrl2004_{prefix}_{part}.dat")), document).unwrap();
    }
    let qrels = "C11 1 1\nCCAT 1 1\nECAT 2 1\nGCAT 3 1\nMCAT 4 1\nCCAT 5 1\nGCAT 6 1\nMCAT 6 1\nM11 7 1\n";
    fs::write(folder.join("rcv1-v2.topics.qrels"), qrels).unwrap();
}

const TOKENS: [&str; 5] = [
    ".I 1\n.W\noil oil gas\n\n.I 6\n.W\ntax tax tax\n\n",
    ".I 2\n.W\ntax\noil\n\n",
    ".I 3\n.W\r\nvote\r\n\r\n",
    ".I 4\n.W\nbond bond bond bond\n",
    ".I 7\n.W\nnone\n\n.I 5\n.W\ngas",
];

/// The formula by hand: N = 5; oil is in 2 documents, gas in 2, tax in 1, vote in 1, bond in 1.
#[test]
fn weights_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    write_parts(folder.path(), "tokens", TOKENS);
    let table = with_labels(folder.path(), "y");
    assert_eq!(table.data.column_names().unwrap(), ["bond", "gas", "oil", "tax", "vote"]);
    assert_eq!(label_words(&table), ["CCAT", "ECAT", "GCAT", "MCAT", "CCAT"]);
    let csr = rows(folder.path());
    let (idf_one, idf_two) = ((6.0f64 / 2.0).ln() + 1.0, (6.0f64 / 3.0).ln() + 1.0);
    let near = |found: &[f32], expected: &[f64]| {
        let norm = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
        let expected: Vec<f64> = expected.iter().map(|x| x / norm * 5f64.sqrt()).collect();
        let close = found.iter().zip(&expected).all(|(f, e)| (f64::from(*f) - e).abs() < 1e-6);
        assert!(close && found.len() == expected.len(), "{found:?}, expected {expected:?}");
    };
    assert_eq!(csr.row(0).0, [1, 2]);
    near(csr.row(0).1, &[idf_two, (1.0 + 2f64.ln()) * idf_two]);
    assert_eq!(csr.row(1).0, [2, 3]);
    near(csr.row(1).1, &[idf_two, idf_one]);
    assert_eq!((csr.row(2).0, csr.row(3).0, csr.row(4).0), (&[4][..], &[0][..], &[1][..]));
    (2..5).for_each(|row| near(csr.row(row).1, &[1.0]));
}

/// 2,500 terms in the first document, the later half of them again in the second: those 1,250 and the 750 with the
/// smallest ids are the 2,000 most frequent.
#[test]
fn the_most_frequent_terms_of_vectors_are_kept_and_ties_go_to_the_smallest_id() {
    let folder = tempfile::tempdir().unwrap();
    let line = |id: u32, terms: std::ops::Range<u32>| {
        let mut line = format!("{id} ");
        terms.for_each(|term| write!(line, " {term}:0.5").unwrap());
        line
    };
    let (first, second) = (line(1, 1..2501), line(2, 1251..2501));
    write_parts(
        folder.path(),
        "vectors",
        [&first, &second, "3  7:1\n", "4  7:0.1 9:0.1\n", "5  1300:1\n6 0:1\n"],
    );
    let data = read(folder.path(), &ReadOptions::default()).unwrap().data;
    let expected: Vec<String> = (1..751).chain(1251..2501).map(|term| term.to_string()).collect();
    assert_eq!(data.column_names().unwrap(), expected);
    let csr = rows(folder.path());
    assert_eq!(csr.row(0).1[0], 1.0, "2,000 equal weights of a row of length sqrt(2000)");
    assert_eq!(csr.row(3).0, [6, 8]);
    // If a folder has both, tokens take precedence over vectors.
    write_parts(folder.path(), "tokens", TOKENS);
    assert_eq!(read(folder.path(), &ReadOptions::default()).unwrap().data.n_columns(), 5);
}

#[test]
fn missing_files_are_named() {
    let folder = copy_of("tokens");
    fs::remove_file(folder.path().join("lyrl2004_tokens_test_pt2.dat.gz")).unwrap();
    let (text, hint) = refusal(folder.path(), folder.path(), None);
    assert_eq!(
        text,
        "`FOLDER`: there is neither `lyrl2004_tokens_test_pt2.dat` nor `lyrl2004_tokens_test_pt2.dat.gz` in the folder"
    );
    assert!(hint.contains("rcv1-v2.topics.qrels and either lyrl2004_tokens_"), "{hint}");
    fs::remove_file(folder.path().join("rcv1-v2.topics.qrels.gz")).unwrap();
    assert!(
        problem(folder.path()).contains("neither `rcv1-v2.topics.qrels` nor"),
        "{}",
        problem(folder.path())
    );
    let alone = tempfile::tempdir().unwrap();
    fs::write(alone.path().join("rcv1-v2.topics.qrels"), "CCAT 1 1\n").unwrap();
    assert!(problem(alone.path()).contains("neither `lyrl2004_tokens_test_pt0.dat`"));
}

#[test]
fn broken_documents_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (document, expected) in [
        ("oil gas\n.I 1\n.W\n", "line 1: `oil gas` comes before the first `.I`"),
        (".W\noil\n", "line 1: `.W` does not follow `.I`"),
        (".I one\n.W\noil\n", "line 1: `.I one` is not `.I ID`, such as `.I 2286`"),
        (".I 99999999999\n.W\n", "line 1: `.I 99999999999` is not `.I ID`, such as `.I 2286`"),
        (".I 1\noil\n", "line 2: `oil` comes before the `.W` of document 1"),
        (".I 1\n.I 2\n.W\n", "line 2: document 1 has no `.W`"),
        (".I 1\n.W\noil\n.W\n", "line 4: `.W` does not follow `.I`"),
        (".I 1\n.W\noil\n\n.I 8\n", "the file ends before the `.W` of document 8"),
        (".I 1\n.W\n\u{e9}t\u{c9} oil\n", ""),
    ] {
        let mut documents = TOKENS;
        documents[0] = document;
        write_parts(folder.path(), "tokens", documents);
        if expected.is_empty() {
            let data = read(folder.path(), &ReadOptions::default()).unwrap().data;
            assert!(
                data.column_names().unwrap().contains(&"\u{e9}t\u{e9}".to_string()),
                "letters are letters"
            );
        } else {
            assert_eq!(problem(folder.path()), format!("`lyrl2004_tokens_test_pt0.dat`: {expected}"));
        }
    }
    write_parts(folder.path(), "tokens", TOKENS);
    fs::write(folder.path().join("lyrl2004_tokens_test_pt0.dat"), b".I 1\n.W\n\xff\xff\n").unwrap();
    assert_eq!(problem(folder.path()), "`lyrl2004_tokens_test_pt0.dat`: line 3: the words are not UTF-8");
    // A packed line could fill the memory; 17 MiB of it are enough to be refused.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b".I 1\n.W\n").unwrap();
    (0..17).for_each(|_| packed.write_all(&[b'a'; 1 << 20]).unwrap());
    fs::write(folder.path().join("lyrl2004_tokens_test_pt0.dat"), packed.finish().unwrap()).unwrap();
    assert_eq!(
        problem(folder.path()),
        "`lyrl2004_tokens_test_pt0.dat`: line 3 is longer than 16777216 bytes"
    );
}

#[test]
fn missing_or_duplicate_documents_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut documents = TOKENS;
    documents[2] = "";
    documents[3] = ".I 8\n.W\noil\n";
    write_parts(folder.path(), "tokens", documents);
    assert_eq!(
        problem(folder.path()),
        "`FOLDER`: 2 of the 5 documents that rcv1-v2.topics.qrels gives one root are in none of the other files; \
         the first is 3"
    );
    documents[2] = ".I 2\n.W\noil\n";
    write_parts(folder.path(), "tokens", documents);
    assert_eq!(problem(folder.path()), "`FOLDER`: document 2 occurs twice");
}

#[test]
fn broken_topics_and_vectors_are_named() {
    let folder = tempfile::tempdir().unwrap();
    write_parts(folder.path(), "tokens", TOKENS);
    let qrels = folder.path().join("rcv1-v2.topics.qrels");
    for line in ["CCAT", "CCAT 2", "CCAT two 1", "CCAT 2 0", "CCAT 2 1 1", "CCAT -2 1"] {
        fs::write(&qrels, format!("CCAT 1 1\n{line}\n")).unwrap();
        assert_eq!(
            problem(folder.path()),
            format!("`rcv1-v2.topics.qrels`: line 2: `{line}` is not `TOPIC ID 1`, such as `CCAT 2286 1`")
        );
    }
    fs::write(&qrels, "C11 1 1\nCCAT 2 1\nECAT 2 1\n").unwrap();
    assert_eq!(
        problem(folder.path()),
        "`rcv1-v2.topics.qrels`: no document here has exactly one of the roots CCAT, ECAT, GCAT, MCAT"
    );
    let folder = tempfile::tempdir().unwrap();
    for (line, expected) in [
        ("one 1:1", "`one 1:1` does not start with the number of a document"),
        ("1 7", "`7` is not `TERM:WEIGHT` with a weight above 0"),
        ("1 7:x", "`7:x` is not `TERM:WEIGHT` with a weight above 0"),
        ("1 7:-1", "`7:-1` is not `TERM:WEIGHT` with a weight above 0"),
        ("1 7:inf", "`7:inf` is not `TERM:WEIGHT` with a weight above 0"),
        ("1 7:nan", "`7:nan` is not `TERM:WEIGHT` with a weight above 0"),
    ] {
        write_parts(folder.path(), "vectors", [line, "2 1:1", "3 1:1", "4 1:1", "5 1:1"]);
        assert_eq!(problem(folder.path()), format!("`lyrl2004_vectors_test_pt0.dat`: line 1: {expected}"));
    }
}
