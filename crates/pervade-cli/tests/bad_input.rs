//! Hostile, broken or impossible input: one clear error, exit 2, nothing left behind.

mod common;

use common::{Place, Ran, TINY, digits, sample};

/// An `.npy` file whose header claims `shape`, followed by `data`.
fn npy(shape: &str, kind: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + header.len()) % 64 != 63 {
        header.push(' ');
    }
    header.push('\n');
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// 200 rows of three columns that differ.
fn good_csv() -> String {
    let rows: Vec<String> = (0..200).map(|i| format!("{},{},{}\n", i % 7, i % 11, (i * i) % 13)).collect();
    rows.concat()
}

fn one_error(ran: &Ran, wanted: &str, case: &str) {
    assert_eq!(ran.status, 2, "{case}: {}", ran.stderr);
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("error:")).collect();
    assert_eq!(errors.len(), 1, "{case}: {}", ran.stderr);
    assert!(errors[0].contains(wanted), "{case}: {}", ran.stderr);
    assert!(ran.stdout.is_empty(), "{case}: {}", ran.stdout);
    assert!(!ran.stderr.contains("panicked"), "{case}: {}", ran.stderr);
}

/// Fits the file and expects the error; nothing may be left behind.
fn refused(place: &Place, data: &str, flags: &[&str], wanted: &str) {
    let before = place.files();
    let mut args = [&["fit", data, "--out", "model.pervade"], &TINY[..], flags].concat();
    for (flag, value) in [("-k", "2"), ("--log", "log.jsonl"), ("--record", "record.json")] {
        if !flags.contains(&flag) {
            args.extend([flag, value]);
        }
    }
    let ran = place.run(&args);
    one_error(&ran, wanted, &format!("{data} {flags:?}"));
    let mut after = place.files();
    after.retain(|name| !before.contains(name));
    assert_eq!(after, Vec::<String>::new(), "{data} {flags:?} left files behind");
}

#[test]
fn broken_files_are_refused() {
    let place = Place::new();
    let cut = |name: &str, keep: usize| {
        let bytes = std::fs::read(sample(name)).unwrap();
        place.write(name, &bytes[..bytes.len() - bytes.len() / keep]);
    };
    place.write("empty.csv", "");
    place.write("magic.npy", "this is not numpy");
    place.write("short.npy", npy("(100, 4)", "<f4", &floats(&[1.0; 10])));
    place.write("vast.npy", npy("(1152921504606846976, 4)", "<f4", &floats(&[1.0; 10])));
    place.write("vast.idx", [&[0, 0, 8, 2][..], &[255; 8], &[1; 20]].concat());
    for name in ["stored.npz", "bytes.idx", "whole.parquet"] {
        cut(name, 3);
    }
    for (name, wanted) in [
        ("nowhere.csv", "cannot read `nowhere.csv`"),
        ("empty.csv", "`empty.csv`: the file is empty"),
        ("magic.npy", "not a .npy file"),
        ("short.npy", "short.npy"),
        ("vast.npy", "vast.npy"),
        ("vast.idx", "vast.idx"),
        ("stored.npz", "stored.npz"),
        ("bytes.idx", "bytes.idx"),
        ("whole.parquet", "whole.parquet"),
    ] {
        refused(&place, name, &[], wanted);
    }
}

#[test]
fn broken_folders_of_known_data_sets_are_refused() {
    let place = Place::new();
    for folder in ["stl10_binary", "UCI HAR Dataset/train", "UCI HAR Dataset/test", "reuters"] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
    }
    place.write("stl10_binary/train_X.bin", [7; 27_648 + 1]);
    place.write("UCI HAR Dataset/train/X_train.txt", "  1.0e-001 2.0e-001\n");
    place.write("UCI HAR Dataset/test/X_test.txt", "  1.0e-001\n");
    place.write("reuters/lyrl2004_tokens_train.dat", "oil\n.I 1\n.W\n");
    refused(&place, "stl10_binary", &[], "27649 bytes are not a whole number of pictures");
    refused(&place, "UCI HAR Dataset", &[], "the rows have 1 columns, those of `UCI HAR Dataset/train");
    refused(&place, "UCI HAR Dataset", &["--labels", "y"], "neither `train/y_train.txt`");
    refused(&place, "reuters", &[], "neither `rcv1-v2.topics.qrels` nor");
    place.write("reuters/rcv1-v2.topics.qrels", "CCAT 1 1\n");
    refused(&place, "reuters", &[], "neither `lyrl2004_tokens_test_pt0.dat` nor");
    for part in 0..4 {
        place.write(&format!("reuters/lyrl2004_tokens_test_pt{part}.dat"), "");
    }
    refused(&place, "reuters", &[], "lyrl2004_tokens_train.dat`: line 1: `oil` comes before the first `.I`");
}

#[test]
fn tables_that_are_no_tables_of_numbers_are_refused() {
    let place = Place::new();
    place.write("ragged.csv", good_csv() + "1,2\n");
    place.write("words.csv", format!("a,b,c\n{}1,two,3\n", good_csv()));
    place.write("nan.npy", npy("(4, 2)", "<f4", &floats(&[1.0, 2.0, 3.0, 4.0, 5.0, f32::NAN, 7.0, 8.0])));
    place.write(
        "infinite.npy",
        npy("(4, 2)", "<f4", &floats(&[1.0, 2.0, f32::INFINITY, 4.0, 5.0, 6.0, 7.0, 8.0])),
    );
    refused(&place, "ragged.csv", &[], "line 201 has 2 fields, expected 3");
    refused(&place, "words.csv", &[], "two");
    refused(&place, "words.csv", &[], "`b`");
    refused(&place, "nan.npy", &[], "NaN in row 3, column 2");
    refused(&place, "infinite.npy", &[], "inf in row 2, column 1");
}

#[test]
fn data_without_clusters_are_refused() {
    let place = Place::new();
    place.write("constant.csv", "3,3,3\n".repeat(100));
    place.write("duplicates.csv", "1,2,3\n".repeat(100));
    place.write("one.csv", "1,2,3\n");
    place.write("good.csv", good_csv());
    place.write("negative.npy", npy("(4, 2)", "<f4", &floats(&[-1.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])));
    place.write("above.npy", npy("(4, 2)", "<f4", &floats(&[1.5, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])));
    refused(&place, "constant.csv", &[], "there is nothing to cluster");
    refused(&place, "duplicates.csv", &[], "all 100 rows are the same");
    refused(&place, "one.csv", &[], "only 1 row");
    refused(&place, "one.csv", &["-k", "auto"], "only 1 row");
    refused(&place, "good.csv", &["-k", "0"], "`clusters` is 0");
    refused(&place, "good.csv", &["-k", "201"], "`clusters` is 201, but the data have only 200 rows");
    for name in ["negative.npy", "above.npy"] {
        refused(&place, name, &["--likelihood", "bernoulli", "--prepare", "none"], "outside [0, 1]");
    }
    // Python says it as `prepare="unit"`.
    let ran = place.run(&["fit", "above.npy", "-k", "2", "--likelihood", "bernoulli", "--prepare", "none"]);
    assert!(
        ran.stderr.ends_with("hint: use `--prepare unit`, or `--likelihood gaussian-fixed`\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn labels_that_do_not_fit_are_refused() {
    let place = Place::new();
    place.write("good.csv", good_csv());
    place.write("labels.txt", "1\n2\n3\n");
    refused(&place, "good.csv", &["--labels", "labels.txt"], "there are 3 labels for 200 rows");
    refused(&place, "good.csv", &["--labels", "missing.txt"], "missing.txt");
    refused(&place, "good.csv", &["--labels", "column:colour"], "colour");
    refused(&place, "good.csv", &["--image", "2x2"], "which is 4 values, but the rows have 3");
}

#[test]
fn outputs_that_cannot_be_written_are_refused_first() {
    let place = Place::new();
    place.write("good.csv", good_csv());
    place.write("file", "");
    std::fs::create_dir(place.path("folder")).unwrap();
    for out in ["nowhere/m.pervade", "file/m.pervade", "folder"] {
        let before = place.files();
        let ran = place.run(&["fit", "good.csv", "-k", "2", "--out", out]);
        one_error(&ran, out, out);
        assert!(!ran.stderr.contains("read good.csv"), "the path is checked before the data are read");
        assert_eq!(place.files(), before);
    }
    for flag in ["--log", "--record", "--config"] {
        refused(&place, "good.csv", &[flag, "nowhere/file"], "nowhere/file");
    }
}

#[test]
fn models_that_are_none_are_refused() {
    let place = Place::new();
    let digits = digits();
    let digits = digits.to_str().unwrap();
    place.fit_digits("m.pervade", &["--quiet"]).done();
    let model = place.bytes("m.pervade");
    let at = model.windows(15).position(|bytes| bytes == b"pervade-model-1").unwrap();
    let mut newer = model.clone();
    newer[at..at + 15].copy_from_slice(b"pervade-model-9");
    pervade::model::reseal(&mut newer);
    place.write("newer.pervade", newer);
    place.write("cut.pervade", &model[..model.len() / 2]);
    place.write("empty.pervade", "");
    place.write("vast.pervade", [&u64::MAX.to_le_bytes()[..], b"{}"].concat());
    place.write("other.csv", good_csv());
    let before = place.files();
    for (name, wanted) in [
        ("newer.pervade", "its format is `pervade-model-9`"),
        ("cut.pervade", "not a pervade model"),
        ("empty.pervade", "not a pervade model"),
        ("vast.pervade", "not a pervade model"),
        ("nowhere.pervade", "cannot read `nowhere.pervade`"),
    ] {
        one_error(&place.run(&["inspect", name]), wanted, name);
        let ran = place.run(&["assign", name, digits, "--labels", "column:last", "--out", "a.csv"]);
        one_error(&ran, wanted, name);
    }
    for command in ["assign", "embed", "score", "reconstruct"] {
        let ran = place.run(&[command, "m.pervade", "other.csv", "--out", "a.csv"]);
        one_error(&ran, "3 columns", command);
    }
    let ran = place.run(&["assign", "m.pervade", digits, "--labels", "column:last", "--out", "a.xlsx"]);
    one_error(&ran, "must end in .csv, .npy or .parquet", "a.xlsx");
    assert_eq!(place.files(), before);
    let ran = place.run(&["inspect", "cut.pervade", "--json"]);
    assert!(ran.status == 2 && ran.json()["error"].as_str().unwrap().contains("not a pervade model"));
}

/// A disk that is full after a few kilobytes: the shell's limit on file sizes, with the signal off.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let place = Place::new();
    let digits = digits();
    let digits = digits.to_str().unwrap();
    let limited = |args: &[&str]| {
        let mut shell = std::process::Command::new("bash");
        let script = "trap '' XFSZ; ulimit -f 8; exec \"$@\"";
        let command = place.command(args);
        shell.args(["-c", script, "bash"]).arg(command.get_program()).args(command.get_args());
        shell.current_dir(place.path(""));
        common::finish(shell)
    };
    let fit = ["fit", digits, "--labels", "column:last", "-k", "10", "--out", "m.pervade"];
    one_error(&limited(&[&fit[..], &TINY].concat()), "cannot write", "fit");
    assert_eq!(place.files(), Vec::<String>::new());
    place.fit_digits("m.pervade", &["--quiet"]).done();
    for out in ["z.csv", "z.npy", "z.parquet"] {
        let ran = limited(&["embed", "m.pervade", digits, "--labels", "column:last", "--out", out]);
        one_error(&ran, "cannot write", out);
    }
    assert_eq!(place.files(), ["m.pervade"]);
    if cfg!(target_os = "linux") {
        let ran = place.run(&["embed", "m.pervade", digits, "--labels", "column:last", "--out", "/dev/full"]);
        assert_eq!(ran.status, 2);
    }
}
