//! Runs the real binary in a temporary folder.
#![allow(dead_code, reason = "every test file uses some of it")]

pub(crate) mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Settings that train in a moment.
pub(crate) const TINY: [&str; 8] =
    ["--hidden", "32,64", "--epochs", "2", "--pretrain-epochs", "3", "--mixture-starts", "2"];

/// Settings that train a tiny network on the CPU almost instantly.
pub(crate) const QUICK: [&str; 12] = [
    "--hidden",
    "8",
    "--latents",
    "2",
    "--pretrain-epochs",
    "1",
    "--mixture-starts",
    "2",
    "--epochs",
    "1",
    "--device",
    "cpu",
];

/// Two groups of rows in the columns a, b and c, and their labels in y.
pub(crate) fn two_groups(rows: usize) -> String {
    let row = |i: usize| {
        let side = if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        let wave = (i as f64 * 0.7).sin() * 0.3;
        format!("{:.4},{:.4},{:.4},{}\n", side + wave, side - wave, wave, i % 2)
    };
    format!("a,b,c,y\n{}", (0..rows).map(row).collect::<String>())
}

/// The embedded digits: 1,797 rows, 64 columns and the label.
pub(crate) fn digits() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/digits.csv.gz")
}

/// A file from the tests of the readers.
pub(crate) fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/readers").join(name)
}

/// The output of a run.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The one JSON object on stdout.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "one line of JSON, got {:?}", self.stdout);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// The run itself, which must have succeeded.
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.status, 0, "{}", self.stderr);
        self
    }
}

/// A temporary folder in which the command runs.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Names of all files in the folder.
    pub(crate) fn files(&self) -> Vec<String> {
        let name =
            |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = std::fs::read_dir(self.folder.path()).unwrap().map(name).collect();
        names.sort();
        names
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("pervade"));
        command.args(args).current_dir(self.folder.path()).env_remove("RAYON_NUM_THREADS");
        command
    }

    /// Runs the command and waits for it.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        finish(self.command(args))
    }

    /// Fits the digits with tiny settings to `model`.
    pub(crate) fn fit_digits(&self, model: &str, more: &[&str]) -> Ran {
        let digits = digits();
        let start =
            ["fit", digits.to_str().unwrap(), "--labels", "column:last", "--clusters", "10", "--out", model];
        self.run(&[&start[..], &TINY, more].concat())
    }
}

/// Runs a command and waits for it.
pub(crate) fn finish(mut command: Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran {
        status: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}
