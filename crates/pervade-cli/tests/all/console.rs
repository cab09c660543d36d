//! What reaches the screen: no control characters from files or arguments, and errors if the disk is full.
#![cfg(unix)]

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use crate::common::{QUICK, Ran, Sandbox, finish, two_groups};

const ESCAPE: &str = "\u{1b}]0;owned\u{7}\u{1b}[31m\u{9b}31m";

#[track_caller]
fn is_clean(ran: &Ran) {
    let hidden = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!ran.stderr.contains(hidden), "{:?}", ran.stderr);
    assert!(!ran.stdout.contains(hidden), "{:?}", ran.stdout);
}

#[test]
fn control_characters_in_names_and_flags_are_escaped() {
    let sandbox = Sandbox::new();
    let name = format!("x{ESCAPE}.csv");
    // A table with bytes below 32 is not text; these are above.
    let headed = two_groups(60).replacen("a,b", "a\u{9b}31m\u{202e},b", 1);
    sandbox.write(&name, headed);
    let fit = ["fit", &name, "--labels", "column:y", "-k", "2", "--out", "m.pervade"];
    let ran = sandbox.run(&[&fit[..], &QUICK].concat()).done();
    is_clean(&ran);
    assert!(ran.stderr.contains("x\\u{1b}]0;owned\\u{7}"), "{}", ran.stderr);
    is_clean(&sandbox.run(&["inspect", "m.pervade"]).done());
    let other = sandbox.write("other.csv", two_groups(60).replacen("a,b", "d\u{9b}31m,b", 1));
    is_clean(&sandbox.run(&[
        "assign",
        "m.pervade",
        other.to_str().unwrap(),
        "--labels",
        "column:y",
        "--out",
        "o.npy",
    ]));

    // Errors that quote what is in a file.
    sandbox.write("words.csv", format!("a,b\n1,2\n{ESCAPE},3\n"));
    sandbox.write("bad.toml", format!("\"{ESCAPE}\" = 3\n"));
    sandbox.write("worse.toml", format!("clusters = {ESCAPE}\n"));
    sandbox.write("header.npy", format!("\u{93}NUMPY\u{1}\0\u{40}\0{{'descr': '{ESCAPE}'}}"));
    let mut npy = b"\x93NUMPY\x01\x00\x60\x00".to_vec();
    npy.extend(format!("{{'descr': '{ESCAPE}', 'fortran_order': False, 'shape': (2, 2), }}").bytes());
    npy.resize(10 + 0x60, b' ');
    sandbox.write("descr.npy", npy);
    let cases: [&[&str]; 8] = [
        &["fit", "words.csv", "-k", "2"],
        &["fit", "m.pervade", "-k", "2", "--config", "bad.toml"],
        &["fit", "m.pervade", "-k", "2", "--config", "worse.toml"],
        &["fit", "header.npy", "-k", "2"],
        &["fit", "descr.npy", "-k", "2"],
        &["fit", ESCAPE, "-k", "2"],
        &["fit", "words.csv", "-k", ESCAPE],
        &[ESCAPE],
    ];
    for args in cases {
        let ran = sandbox.run(args);
        assert_eq!(ran.status, 2, "{args:?}: {}", ran.stderr);
        is_clean(&ran);
    }
    // Names that are not even UTF-8.
    let mut command = sandbox.command(&["fit", "-k", "2"]);
    command.arg(OsStr::from_bytes(b"\xff\x1b[31m.csv"));
    let ran = finish(command);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    is_clean(&ran);
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", two_groups(60));
    let fit = ["fit", "x.csv", "--labels", "column:y", "-k", "2", "--out", "m.pervade"];
    sandbox.run(&[&fit[..], &QUICK].concat()).done();
    let cases: [&[&str]; 8] = [
        &["--help"],
        &["--version"],
        &["fit", "--help"],
        &["completions", "bash"],
        &["inspect", "m.pervade"],
        &["assign", "m.pervade", "x.csv", "--labels", "column:y"],
        &["generate", "m.pervade", "--json"],
        &["evaluate", "m.pervade", "x.csv", "--labels", "column:y"],
    ];
    for args in cases {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = sandbox.command(args).stdout(Stdio::from(full)).output().unwrap();
        let talk = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {talk}");
        assert!(talk.contains("error: cannot write `standard output`"), "{args:?}: {talk}");
    }
}
