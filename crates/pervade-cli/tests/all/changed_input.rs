//! Input that changes while the command reads it, and input with which `--array` makes no sense.
#![cfg(unix)]

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Ran, Sandbox, sample};

const ROWS: usize = 20_000;
const COLUMNS: usize = 50;

/// Three clusters in 50 columns of single precision.
fn write_npy(sandbox: &Sandbox) -> std::path::PathBuf {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({ROWS}, {COLUMNS}), }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{header:<117}\n").bytes());
    for i in 0..ROWS * COLUMNS {
        let value = (i / COLUMNS % 3 * (i % COLUMNS % 5)) as f32 + (i as f32 * 0.37).sin() * 0.2;
        bytes.extend(value.to_le_bytes());
    }
    sandbox.write("x.npy", bytes)
}

/// A fit that takes long enough to be interrupted and saves after every epoch.
fn fit(sandbox: &Sandbox, model: &str) -> Command {
    let flags = "-k 3 --hidden 32,32 --pretrain-epochs 4 --mixture-starts 1 --epochs 300 --device cpu --checkpoint-seconds 0";
    let log = format!("{model}.jsonl");
    let mut args = vec!["fit", "x.npy", "--out", model, "--log", &log];
    args.extend(flags.split(' '));
    sandbox.command(&args)
}

/// Runs the command, changes its data once the log contains `word`, and waits for it to exit.
fn change_when(sandbox: &Sandbox, model: &str, word: &str, change: impl FnOnce(&Path)) -> Ran {
    let mut command = fit(sandbox, model);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_mins(2);
    let log = sandbox.path(&format!("{model}.jsonl"));
    while !std::fs::read_to_string(&log).is_ok_and(|log| log.contains(word)) {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "never said `{word}`");
        sleep(Duration::from_millis(2));
    }
    change(&sandbox.path("x.npy"));
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran {
        // A process killed by a signal has no exit code.
        status: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

#[track_caller]
fn assert_refused(ran: &Ran, problem: &str) {
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("error:")).collect();
    assert!(
        errors.len() == 1 && errors[0].contains("x.npy") && errors[0].contains(problem),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("leave the file alone"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

#[test]
fn shortening_the_data_during_a_fit_is_one_error() {
    for word in ["pretrained", "\"trained\""] {
        let sandbox = Sandbox::new();
        let data = write_npy(&sandbox);
        let size = std::fs::metadata(&data).unwrap().len();
        let ran = change_when(&sandbox, "m.pervade", word, |path| {
            OpenOptions::new().write(true).open(path).unwrap().set_len(1000).unwrap();
        });
        assert_refused(&ran, &format!("({size} bytes at the start, 1000 now)"));
        assert!(!sandbox.path("m.pervade").exists(), "a model of changed data was written");
    }
}

#[test]
fn shortening_the_data_during_a_comparison_is_one_error() {
    let sandbox = Sandbox::new();
    write_npy(&sandbox);
    let args = "compare x.npy -k 3 --methods k-means,ae+gmm --seeds 2 --hidden 32,32 --pretrain-epochs 300";
    let args: Vec<&str> = args.split(' ').chain(["--device", "cpu", "--out", "table.md"]).collect();
    let mut child = sandbox.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The line that follows k-means' second seed is the first of the next method.
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while !said.contains("k-means, seed 1") {
        said.push_str(&lines.next().expect("the first method ends").unwrap());
        said.push('\n');
    }
    OpenOptions::new().write(true).open(sandbox.path("x.npy")).unwrap().set_len(1000).unwrap();
    lines.for_each(|line| said.extend([line.unwrap().as_str(), "\n"]));
    let status = child.wait().unwrap().code().unwrap_or(-1);
    assert_refused(&Ran { status, stdout: String::new(), stderr: said }, "1000 now");
    let table = String::from_utf8(sandbox.bytes("table.md")).unwrap();
    assert!(table.contains("ae+gmm stopped after 0 of 2 seeds"), "{table}");
    assert!(!table.contains("k-means stopped"), "{table}");
}

#[test]
fn rewriting_the_data_during_a_fit_is_one_error() {
    let changes: [&[u8]; 2] = [&[7; 4096], &[0xff; 4096]]; // finite numbers, and NaN
    for bytes in changes {
        let sandbox = Sandbox::new();
        write_npy(&sandbox);
        let ran = change_when(&sandbox, "m.pervade", "\"trained\"", |path| {
            let mut file = OpenOptions::new().write(true).open(path).unwrap();
            file.seek(SeekFrom::Start(128)).unwrap();
            file.write_all(bytes).unwrap();
        });
        assert_refused(&ran, "was written to while it was in use");
        assert!(!sandbox.path("m.pervade").exists(), "a model of changed data was written");
    }
}

/// With a limit on address space that has room for the file once.
#[cfg(target_os = "linux")]
#[test]
fn a_npy_file_is_mapped_once() {
    const BYTES: usize = 600_000_000;
    let sandbox = Sandbox::new();
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({}, 1000), }}", BYTES / 1000);
    let mut start = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    start.extend(format!("{header:<117}\n").bytes());
    let file = sandbox.write("zeros.npy", &start);
    // The rest of the file is a hole: zeros without blocks on the disk.
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.set_len((start.len() + BYTES) as u64).unwrap();
    let mut command = Command::new("sh");
    let binary = assert_cmd::cargo::cargo_bin!("pervade");
    command
        .arg("-c")
        .arg("ulimit -v 1000000 && exec \"$0\" \"$@\"")
        .arg(binary)
        .current_dir(sandbox.path(""));
    command.args("--threads 1 fit zeros.npy -k 2 --device cpu -o m.pervade".split(' '));
    let ran = crate::common::finish(command);
    assert!(ran.stderr.contains("read zeros.npy: 600,000 rows"), "{}", ran.stderr);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
}

#[test]
fn choosing_an_array_is_refused_if_arrays_have_no_names() {
    let sandbox = Sandbox::new();
    let files = [
        "f32_c.npy",
        "packed.npy.gz",
        "bytes.idx",
        "header.csv",
        "one.svm",
        "doubles.parquet",
        "grey",
        "mnist",
    ];
    for name in files {
        let file = sample(name);
        let ran =
            sandbox.run(&["fit", file.to_str().unwrap(), "-k", "2", "--array", "nosuch", "-o", "m.pervade"]);
        assert_eq!(ran.status, 2, "{name}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("there is no array `nosuch`") && ran.stderr.contains("leave out `--array`"),
            "{name}: {}",
            ran.stderr
        );
    }
    for name in ["only_one.npz", "plain.mat"] {
        let file = sample(name);
        let ran =
            sandbox.run(&["fit", file.to_str().unwrap(), "-k", "2", "--array", "nosuch", "-o", "m.pervade"]);
        assert_eq!(ran.status, 2, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains("there is no array `nosuch`; there are"), "{name}: {}", ran.stderr);
    }
}

#[test]
fn damaged_parquet_files_print_no_panic() {
    let sandbox = Sandbox::new();
    let good = std::fs::read(sample("doubles.parquet")).unwrap();
    // Each of these makes the decoder (parquet and arrow-buffer, version 60) panic, at three different points in its code.
    for at in [137, 277, 649, 852] {
        let mut bytes = good.clone();
        bytes[at] ^= 0xff;
        sandbox.write("x.parquet", bytes);
        let ran = sandbox.run(&["fit", "x.parquet", "-k", "2", "--out", "m.pervade"]);
        assert_eq!(ran.status, 2, "byte {at}: {}", ran.stderr);
        assert!(ran.stderr.contains("the Parquet file cannot be read"), "byte {at}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("BACKTRACE"), "{}", ran.stderr);
    }
}
