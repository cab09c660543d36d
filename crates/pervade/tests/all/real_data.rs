//! The readers on the real data sets, if they are available.
#![expect(clippy::print_stderr, reason = "a skipped test must say so")]

use std::path::PathBuf;

use pervade::data::{ReadOptions, Table, Values, read};

/// A file or folder of the large data, or `None` (with a message) if it is not available.
fn large(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("PERVADE_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let path = folder.join(name);
    if !path.exists() {
        eprintln!(
            "skipped: `{}` is not there; set PERVADE_DATA to the folder of the large data",
            path.display()
        );
        return None;
    }
    Some(path)
}

fn load(name: &str, labels: &str) -> Option<Table> {
    let path = large(name)?;
    let labels = labels.replace("FOLDER", &path.parent().unwrap().display().to_string());
    let start = std::time::Instant::now();
    let table = read(&path, &ReadOptions::with_labels(&labels).unwrap()).unwrap();
    eprintln!("{name}: {:.3} s", start.elapsed().as_secs_f64());
    Some(table)
}

fn shape(table: &Table) -> (usize, usize, usize) {
    (table.data.n_rows(), table.data.n_columns(), table.labels.as_ref().unwrap().names().len())
}

#[test]
fn mnist_has_seventy_thousand_digits_of_bytes() {
    let Some(table) = load("mnist", "y") else { return };
    assert_eq!(shape(&table), (70_000, 784, 10));
    assert!(matches!(table.data.values(), Values::U8(_)));
    assert_eq!(table.data.image().map(|i| (i.height, i.width, i.channels)), Some((28, 28, 1)));
    // The first digits of the training and of the test files are well known.
    let ids = table.labels.unwrap().ids().to_vec();
    assert_eq!(ids[..5], [5, 0, 4, 1, 9]);
    assert_eq!(ids[60_000..60_005], [7, 2, 1, 0, 4]);
}

#[test]
fn usps_har_and_features_come_from_named_arrays() {
    if let Some(table) = load("usps/usps.npz", "y") {
        assert_eq!(shape(&table), (9_298, 256, 10));
        assert!(matches!(table.data.values(), Values::U8(_)));
    }
    if let Some(table) = load("har/har.npz", "y") {
        assert_eq!(shape(&table), (10_299, 549, 6));
        assert!(matches!(table.data.values(), Values::F32(_)));
    }
    if let Some(table) = load("cifar10-resnet50/features.npz", "y") {
        assert_eq!(shape(&table), (13_000, 2_048, 10));
        assert!(matches!(table.data.values(), Values::F16(_)));
    }
}

#[test]
fn reuters_stays_sparse_and_its_rows_have_the_stated_length() {
    let Some(table) = load("reuters10k/x.npz", "FOLDER/y.npy") else { return };
    assert_eq!(shape(&table), (10_000, 2_000, 4));
    let Values::Csr(csr) = table.data.values() else { panic!("the rows are not sparse") };
    let square: f64 = csr.row(0).1.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    assert!((square - 2_000.0).abs() < 0.1, "{square}");
    let counts = table.labels.unwrap().ids().iter().fold([0; 4], |mut c, &id| {
        c[id as usize] += 1;
        c
    });
    let mut sorted = counts;
    sorted.sort_unstable();
    assert_eq!(sorted, [837, 2_230, 2_829, 4_104].map(|x: i32| x));
}

#[test]
fn digits_come_from_packed_text() {
    let Some(table) = load("digits/digits.csv.gz", "column:last") else { return };
    assert_eq!(shape(&table), (1_797, 64, 10));
    assert_eq!(table.data.range(), (0.0, 16.0));
}
