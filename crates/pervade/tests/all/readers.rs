//! Files written by NumPy, SciPy, PyArrow and Pillow, and our own files, read back.

use std::path::{Path, PathBuf};

use pervade::data::{Dataset, OutputFormat, OutputRows, OutputTable, ReadOptions, Values, read, read_bytes};

/// A line of `cases.json`, written by `testdata/oracle/make_readers.py`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    file: String,
    labels: Option<String>,
    array: Option<String>,
    kind: String,
    names: Option<Vec<String>>,
    label_ids: Option<Vec<u32>>,
    label_names: Option<Vec<String>>,
    image: Option<[usize; 3]>,
    rows: Vec<Vec<f32>>,
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/readers"))
}

fn cases() -> Vec<Case> {
    serde_json::from_slice(&std::fs::read(folder().join("cases.json")).unwrap()).unwrap()
}

impl Case {
    fn options(&self) -> ReadOptions {
        let labels = self
            .labels
            .as_ref()
            .map(|text| text.replace("FOLDER", &folder().display().to_string()).parse().unwrap());
        ReadOptions::default().with(|o| {
            o.labels = labels;
            o.array.clone_from(&self.array);
            // As stored: no types, no column left out.
            o.plain = Some(Vec::new());
        })
    }

    fn check(&self, data: &Dataset) {
        let kind = match data.values() {
            Values::U8(_) => "u8",
            Values::F16(_) => "f16",
            Values::F32(_) => "f32",
            Values::F64(_) => "f64",
            Values::Csr(_) => "csr",
        };
        assert_eq!(kind, self.kind, "{}", self.file);
        assert_eq!(data.n_rows(), self.rows.len(), "{}", self.file);
        assert_eq!(rows_of(data), self.rows.concat(), "{}", self.file);
        assert_eq!(data.column_names().map(<[String]>::to_vec), self.names, "{}", self.file);
        assert_eq!(data.image().map(|i| [i.height, i.width, i.channels]), self.image, "{}", self.file);
    }
}

fn rows_of(data: &Dataset) -> Vec<f32> {
    let mut out = vec![0.0; data.n_rows() * data.n_columns()];
    out.chunks_mut(data.n_columns()).enumerate().for_each(|(i, row)| data.row_into(i, row));
    out
}

#[test]
fn every_file_gives_the_rows_and_labels_that_were_written() {
    for case in cases() {
        let table =
            read(&folder().join(&case.file), &case.options()).unwrap_or_else(|e| panic!("{e}: {case:?}"));
        case.check(&table.data);
        let (ids, names) =
            table.labels.map_or((None, None), |l| (Some(l.ids().to_vec()), Some(l.names().to_vec())));
        assert_eq!((ids, names), (case.label_ids, case.label_names), "{}", case.file);
    }
}

/// Columns with types hold the same numbers.
#[test]
fn types_do_not_change_numbers() {
    let mut n_typed = 0;
    for case in cases() {
        let options = case.options().with(|o| o.plain = None);
        let data =
            read(&folder().join(&case.file), &options).unwrap_or_else(|e| panic!("{e}: {case:?}")).data;
        let is_plain = data.schema().is_none_or(|schema| schema.is_plain_numbers());
        n_typed += usize::from(data.schema().is_some());
        if is_plain && data.n_columns() == case.rows[0].len() {
            assert_eq!(rows_of(&data), case.rows.concat(), "{}", case.file);
            assert_eq!(data.column_names().map(<[String]>::to_vec), case.names, "{}", case.file);
        }
    }
    assert!(n_typed > 10, "only {n_typed} tables were typed");
}

#[test]
fn bytes_in_memory_give_the_same_table_as_the_file() {
    for case in cases() {
        let path = folder().join(&case.file);
        let from_another_file = case.labels.as_ref().is_some_and(|l| l.starts_with("FOLDER"));
        if path.is_dir() || from_another_file {
            continue;
        }
        let extension = path.extension().unwrap().to_str().unwrap();
        let table = read_bytes(&std::fs::read(&path).unwrap(), extension, &case.options());
        case.check(&table.unwrap_or_else(|e| panic!("{e}: {case:?}")).data);
    }
}

#[test]
fn npy_files_are_mapped_and_not_copied() {
    let table = read(&folder().join("f32_c.npy"), &ReadOptions::default()).unwrap();
    assert!(matches!(table.data.values(), Values::F32(pervade::data::Array::Mapped(_))));
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn written_rows_read_back_unchanged() {
    let values = [0.1f32, -2.5, 1e-30, 3.4e38, 0.0, -0.0];
    let names = ["a".to_string(), "b, c".to_string()];
    let folder = temporary();
    for file in ["rows.npy", "rows.csv", "rows.parquet"] {
        let path = folder.path().join(file);
        OutputRows { values: &values, n_columns: 2, names: Some(&names) }.write(&path).unwrap();
        let data = read(&path, &ReadOptions::default()).unwrap().data;
        assert_eq!((data.n_rows(), data.n_columns()), (3, 2), "{file}");
        assert_eq!(rows_of(&data), values, "{file}");
        if file != "rows.npy" {
            assert_eq!(data.column_names().unwrap(), names, "{file}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "temporary files were left behind");
}

#[test]
fn assignments_have_one_line_per_row() {
    let clusters = [2, 0];
    let all = OutputRows { values: &[0.25, 0.0, 0.75, 1.0, 0.0, 0.0], n_columns: 3, names: None };
    let text = |a: &OutputTable| {
        let mut out = Vec::new();
        a.write_to(&mut out, OutputFormat::Csv).unwrap();
        String::from_utf8(out).unwrap()
    };
    let plain = OutputTable { clusters: Some(&clusters), ..OutputTable::default() };
    assert_eq!(text(&plain), "cluster\n2\n0\n");
    let singles = vec![("probability", &[0.75, 1.0][..])];
    let full = OutputTable { singles, rows: Some(all), ..plain.clone() };
    assert_eq!(
        text(&full),
        "cluster,probability,cluster_0,cluster_1,cluster_2\n2,0.75,0.25,0.0,0.75\n0,1.0,1.0,0.0,0.0\n"
    );
    let folder = temporary();
    plain.write(&folder.path().join("c.npy")).unwrap();
    let labels = pervade::data::read_labels(&folder.path().join("c.npy")).unwrap();
    assert_eq!(labels.names(), ["0", "2"]);
    full.write(&folder.path().join("c.parquet")).unwrap();
    let options = ReadOptions::with_labels("column:cluster").unwrap().with(|o| o.plain = Some(Vec::new()));
    let table = read(&folder.path().join("c.parquet"), &options).unwrap();
    assert_eq!(rows_of(&table.data), [0.75, 0.25, 0.0, 0.75, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(table.labels.unwrap().ids(), [1, 0]);
}

#[test]
fn a_file_without_rows_has_columns() {
    let folder = temporary();
    for file in ["none.npy", "none.csv", "none.parquet"] {
        let path = folder.path().join(file);
        OutputRows { values: &[], n_columns: 2, names: None }.write(&path).unwrap();
        let error = read(&path, &ReadOptions::default()).unwrap_err().to_string();
        assert!(error.contains("empty"), "{file}: {error}");
    }
}

#[test]
fn a_failed_write_leaves_the_old_file_and_nothing_else() {
    let folder = temporary();
    let path = folder.path().join("model");
    std::fs::write(&path, "old").unwrap();
    let full_disk = |out: &mut std::io::BufWriter<&std::fs::File>| {
        use std::io::Write;
        out.write_all(b"half of the new")?;
        Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
    };
    let error = pervade::files::write_atomically(&path, full_disk).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot write `{}`", path.display())), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_bad_output_path_is_refused_before_any_work() {
    let error = OutputFormat::of(Path::new("latents.xlsx")).unwrap_err().to_string();
    assert_eq!(error, "`output file` is latents.xlsx, must end in .csv, .npy or .parquet");
    let nowhere = Path::new("no/such/folder/out.csv");
    let error = pervade::files::check_writable(nowhere).unwrap_err().to_string();
    assert!(error.starts_with("cannot write `no/such/folder/out.csv`"), "{error}");
    let folder = temporary();
    pervade::files::check_writable(&folder.path().join("out.csv")).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the check leaves nothing behind");
    assert!(pervade::files::check_writable(folder.path()).is_err());
}
