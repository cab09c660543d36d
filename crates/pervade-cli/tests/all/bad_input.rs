//! Hostile, broken or impossible input: one clear error, exit 2, nothing left behind.

use crate::common::{Ran, Sandbox, TINY, digits, sample};

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
fn refused(sandbox: &Sandbox, data: &str, flags: &[&str], wanted: &str) {
    let before = sandbox.files();
    let mut args = [&["fit", data, "--out", "model.pervade"], &TINY[..], flags].concat();
    for (flag, value) in [("-k", "2"), ("--log", "log.jsonl"), ("--record", "record.json")] {
        if !flags.contains(&flag) {
            args.extend([flag, value]);
        }
    }
    let ran = sandbox.run(&args);
    one_error(&ran, wanted, &format!("{data} {flags:?}"));
    let mut after = sandbox.files();
    after.retain(|name| !before.contains(name));
    assert_eq!(after, Vec::<String>::new(), "{data} {flags:?} left files behind");
}

#[test]
fn a_negative_number_is_a_wrong_value_and_no_unknown_flag() {
    let sandbox = Sandbox::new();
    sandbox.write("good.csv", good_csv());
    refused(&sandbox, "good.csv", &["-k", "-3"], "`clusters` is `-3`, must be a whole number of at least 1");
    refused(
        &sandbox,
        "good.csv",
        &["--seed", "-1"],
        "invalid value '-1' for '--seed <S>': must be a whole number of at least 0",
    );
    refused(
        &sandbox,
        "good.csv",
        &["-k", "2", "--epsilon", "-1e-3"],
        "`epsilon` is -0.001, must be at least",
    );
}

#[test]
fn broken_files_are_refused() {
    let sandbox = Sandbox::new();
    let cut = |name: &str, keep: usize| {
        let bytes = std::fs::read(sample(name)).unwrap();
        sandbox.write(name, &bytes[..bytes.len() - bytes.len() / keep]);
    };
    sandbox.write("empty.csv", "");
    sandbox.write("magic.npy", "this is not numpy");
    sandbox.write("short.npy", npy("(100, 4)", "<f4", &floats(&[1.0; 10])));
    sandbox.write("vast.npy", npy("(1152921504606846976, 4)", "<f4", &floats(&[1.0; 10])));
    sandbox.write("vast.idx", [&[0, 0, 8, 2][..], &[255; 8], &[1; 20]].concat());
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
        refused(&sandbox, name, &[], wanted);
    }
}

#[test]
fn broken_folders_of_known_data_sets_are_refused() {
    let sandbox = Sandbox::new();
    for folder in ["stl10_binary", "UCI HAR Dataset/train", "UCI HAR Dataset/test", "reuters"] {
        std::fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    sandbox.write("stl10_binary/train_X.bin", [7; 27_648 + 1]);
    sandbox.write("UCI HAR Dataset/train/X_train.txt", "  1.0e-001 2.0e-001\n");
    sandbox.write("UCI HAR Dataset/test/X_test.txt", "  1.0e-001\n");
    sandbox.write("reuters/lyrl2004_tokens_train.dat", "oil\n.I 1\n.W\n");
    refused(&sandbox, "stl10_binary", &[], "27649 bytes are not a whole number of pictures");
    refused(&sandbox, "UCI HAR Dataset", &[], "the rows have 1 columns, those of `UCI HAR Dataset/train");
    refused(&sandbox, "UCI HAR Dataset", &["--labels", "y"], "neither `train/y_train.txt`");
    refused(&sandbox, "reuters", &[], "neither `rcv1-v2.topics.qrels` nor");
    sandbox.write("reuters/rcv1-v2.topics.qrels", "CCAT 1 1\n");
    refused(&sandbox, "reuters", &[], "neither `lyrl2004_tokens_test_pt0.dat` nor");
    for part in 0..4 {
        sandbox.write(&format!("reuters/lyrl2004_tokens_test_pt{part}.dat"), "");
    }
    refused(
        &sandbox,
        "reuters",
        &[],
        "lyrl2004_tokens_train.dat`: line 1: `oil` comes before the first `.I`",
    );
}

#[test]
fn tables_that_are_not_numeric_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("ragged.csv", good_csv() + "1,2\n");
    sandbox.write("words.csv", format!("a,b,c\n{}1,two,3\n", good_csv()));
    sandbox.write("empty_row.npy", npy("(3, 2)", "<f4", &floats(&[1.0, 2.0, f32::NAN, f32::NAN, 5.0, 7.0])));
    sandbox.write(
        "infinite.npy",
        npy("(4, 2)", "<f4", &floats(&[1.0, 2.0, f32::INFINITY, 4.0, 5.0, 6.0, 7.0, 8.0])),
    );
    refused(&sandbox, "ragged.csv", &[], "line 201 has 2 fields, expected 3");
    refused(&sandbox, "words.csv", &[], "two");
    refused(&sandbox, "words.csv", &[], "`b`");
    refused(&sandbox, "words.csv", &[], "`two` in row 201");
    refused(&sandbox, "words.csv", &["--type", "d=count"], "the columns are `a`, `b`, `c`");
    refused(&sandbox, "words.csv", &["--type", "a=cuont"], "must be one of number, positive, count");
    refused(&sandbox, "words.csv", &["--type", "a"], "must be like `age=count`");
    refused(&sandbox, "words.csv", &["--keep-columns", "b,e"], "no column is named `e`");
    refused(&sandbox, "empty_row.npy", &[], "row 2 has no values");
    refused(&sandbox, "infinite.npy", &[], "inf in row 2, column 1");
}

#[test]
fn data_without_clusters_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("constant.csv", "3,3,3\n".repeat(100));
    sandbox.write("duplicates.csv", "1,2,3\n".repeat(100));
    sandbox.write("duplicates.npy", npy("(100, 3)", "|u1", &[1, 2, 3].repeat(100)));
    sandbox.write("one.csv", "1,2,3\n");
    sandbox.write("good.csv", good_csv());
    sandbox.write("negative.npy", npy("(4, 2)", "<f4", &floats(&[-1.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])));
    sandbox.write("above.npy", npy("(4, 2)", "<f4", &floats(&[1.5, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])));
    refused(&sandbox, "constant.csv", &[], "there is nothing to cluster");
    refused(&sandbox, "duplicates.csv", &[], "left out: column_1 (always 1), column_2 (always 2)");
    refused(&sandbox, "duplicates.npy", &[], "all 100 rows are the same");
    refused(&sandbox, "one.csv", &[], "only 1 row");
    refused(&sandbox, "one.csv", &["-k", "auto"], "only 1 row");
    refused(&sandbox, "good.csv", &["-k", "0"], "`clusters` is 0");
    refused(&sandbox, "good.csv", &["-k", "201"], "`clusters` is 201, but the data have only 200 rows");
    for name in ["negative.npy", "above.npy"] {
        refused(&sandbox, name, &["--likelihood", "bernoulli", "--prepare", "none"], "outside [0, 1]");
    }
    // Python says it as `prepare="unit"`.
    let ran = sandbox.run(&["fit", "above.npy", "-k", "2", "--likelihood", "bernoulli", "--prepare", "none"]);
    assert!(
        ran.stderr.ends_with("hint: use `--prepare unit`, or `--likelihood gaussian-fixed`\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn labels_that_do_not_fit_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("good.csv", good_csv());
    sandbox.write("labels.txt", "1\n2\n3\n");
    refused(&sandbox, "good.csv", &["--labels", "labels.txt"], "there are 3 labels for 200 rows");
    refused(&sandbox, "good.csv", &["--labels", "missing.txt"], "missing.txt");
    refused(&sandbox, "good.csv", &["--labels", "column:colour"], "colour");
    refused(&sandbox, "good.csv", &["--image", "2x2"], "which is 4 values, but the rows have 3");
}

#[test]
fn outputs_that_cannot_be_written_are_refused_first() {
    let sandbox = Sandbox::new();
    sandbox.write("good.csv", good_csv());
    sandbox.write("file", "");
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    for out in ["nowhere/m.pervade", "file/m.pervade", "folder"] {
        let before = sandbox.files();
        let ran = sandbox.run(&["fit", "good.csv", "-k", "2", "--out", out]);
        one_error(&ran, out, out);
        assert!(!ran.stderr.contains("read good.csv"), "the path is checked before the data are read");
        assert_eq!(sandbox.files(), before);
    }
    for flag in ["--log", "--record", "--config"] {
        refused(&sandbox, "good.csv", &[flag, "nowhere/file"], "nowhere/file");
    }
}

#[test]
fn files_that_are_not_models_are_refused() {
    let sandbox = Sandbox::new();
    let digits = digits();
    let digits = digits.to_str().unwrap();
    sandbox.fit_digits("m.pervade", &["--quiet"]).done();
    let model = sandbox.bytes("m.pervade");
    let at = model.windows(15).position(|bytes| bytes == b"pervade-model-1").unwrap();
    let mut newer = model.clone();
    newer[at..at + 15].copy_from_slice(b"pervade-model-9");
    pervade::model::reseal(&mut newer);
    sandbox.write("newer.pervade", newer);
    sandbox.write("cut.pervade", &model[..model.len() / 2]);
    sandbox.write("empty.pervade", "");
    sandbox.write("vast.pervade", [&u64::MAX.to_le_bytes()[..], b"{}"].concat());
    sandbox.write("other.csv", good_csv());
    let before = sandbox.files();
    for (name, wanted) in [
        ("newer.pervade", "its format is `pervade-model-9`"),
        ("cut.pervade", "not a pervade model"),
        ("empty.pervade", "not a pervade model"),
        ("vast.pervade", "not a pervade model"),
        ("nowhere.pervade", "cannot read `nowhere.pervade`"),
    ] {
        one_error(&sandbox.run(&["inspect", name]), wanted, name);
        let ran = sandbox.run(&["assign", name, digits, "--labels", "column:last", "--out", "a.csv"]);
        one_error(&ran, wanted, name);
    }
    for command in ["assign", "embed", "score", "reconstruct"] {
        let ran = sandbox.run(&[command, "m.pervade", "other.csv", "--out", "a.csv"]);
        one_error(&ran, "3 columns", command);
    }
    let ran = sandbox.run(&["assign", "m.pervade", digits, "--labels", "column:last", "--out", "a.xlsx"]);
    one_error(&ran, "must end in .csv, .npy or .parquet", "a.xlsx");
    assert_eq!(sandbox.files(), before);
    let ran = sandbox.run(&["inspect", "cut.pervade", "--json"]);
    assert!(ran.status == 2 && ran.json()["error"].as_str().unwrap().contains("not a pervade model"));
}

/// A disk that is full after a few kilobytes: the shell's limit on file sizes, with its signal ignored.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    let digits = digits();
    let digits = digits.to_str().unwrap();
    let limited = |args: &[&str]| {
        let mut shell = std::process::Command::new("bash");
        let script = "trap '' XFSZ; ulimit -f 8; exec \"$@\"";
        let command = sandbox.command(args);
        shell.args(["-c", script, "bash"]).arg(command.get_program()).args(command.get_args());
        shell.current_dir(sandbox.path(""));
        crate::common::finish(shell)
    };
    let fit = ["fit", digits, "--labels", "column:last", "-k", "10", "--out", "m.pervade"];
    one_error(&limited(&[&fit[..], &TINY].concat()), "cannot write", "fit");
    assert_eq!(sandbox.files(), Vec::<String>::new());
    sandbox.fit_digits("m.pervade", &["--quiet"]).done();
    for out in ["z.csv", "z.npy", "z.parquet"] {
        let ran = limited(&["embed", "m.pervade", digits, "--labels", "column:last", "--out", out]);
        one_error(&ran, "cannot write", out);
    }
    assert_eq!(sandbox.files(), ["m.pervade"]);
    if cfg!(target_os = "linux") {
        let ran =
            sandbox.run(&["embed", "m.pervade", digits, "--labels", "column:last", "--out", "/dev/full"]);
        assert_eq!(ran.status, 2);
    }
}
