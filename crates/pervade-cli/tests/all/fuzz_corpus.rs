//! Every fuzz target once over its seeds and the corpus in `fuzz/corpus`: what fuzzing found stays mended.

#[allow(dead_code, unreachable_pub, reason = "it is a crate of its own, too")]
#[path = "../../../../fuzz/src/lib.rs"]
mod targets;

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use targets::TARGETS;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The inputs of all targets by name.
fn inputs() -> BTreeMap<String, Vec<(String, Vec<u8>)>> {
    let mut inputs: BTreeMap<String, Vec<(String, Vec<u8>)>> = BTreeMap::new();
    for seed in targets::seeds::all(&root().join("testdata")) {
        inputs.entry(seed.target.to_string()).or_default().push((seed.name, seed.bytes));
    }
    for folder in fs::read_dir(root().join("fuzz/corpus")).unwrap() {
        let folder = folder.unwrap();
        let target = folder.file_name().into_string().unwrap();
        for file in fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            inputs.entry(target.clone()).or_default().push((name, fs::read(path).unwrap()));
        }
    }
    inputs
}

#[test]
fn no_input_of_the_past_is_a_finding() {
    let mut inputs = inputs();
    check_answers(&inputs["requests"]);
    for (target, run) in TARGETS {
        let inputs = inputs.remove(target).unwrap_or_default();
        assert!(inputs.len() > 1, "{target} has no input");
        for (name, bytes) in inputs {
            let ended = catch_unwind(AssertUnwindSafe(|| run(&bytes)));
            assert!(ended.is_ok(), "{target}: {name} is a finding");
        }
    }
    assert_eq!(inputs.into_keys().collect::<Vec<_>>(), Vec::<String>::new(), "targets that do not exist");
    fs::remove_dir_all(targets::scratch_root()).unwrap();
}

/// Otherwise fuzzing would begin with requests that the server refuses.
fn check_answers(requests: &[(String, Vec<u8>)]) {
    for (name, bytes) in requests {
        let (wanted, n) = match name.as_str() {
            "code" => ("HTTP/1.1 303 See Other", 1),
            "none" | "other-host" => ("403 Forbidden", 1),
            // The last one walks to a cluster that was merged by then.
            "several" => ("HTTP/1.1 200 OK", 5),
            corpus if corpus.starts_with("fuzz/") => continue,
            _ => ("HTTP/1.1 200 OK", 1),
        };
        let received = String::from_utf8(targets::explore::received(bytes)).unwrap();
        assert_eq!(received.matches(wanted).count(), n, "{name}: {received}");
    }
}
