//! The fuzzer: libFuzzer calls the target named by the environment variable PERVADE_FUZZ. With PERVADE_SEEDS it only
//! writes seeds to that folder, in the root of the repository.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pervade_fuzz::{CATCHES_PANICS, TARGETS, Target};

static TARGET: OnceLock<Target> = OnceLock::new();

fn selected() -> Target {
    if let Some(corpus) = std::env::var_os("PERVADE_SEEDS") {
        pervade_fuzz::seeds::write(corpus.as_ref(), "testdata".as_ref());
        std::process::exit(0);
    }
    let name = std::env::var("PERVADE_FUZZ").unwrap_or_default();
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    let Some((_, target)) = found else {
        let names: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
        eprintln!("set PERVADE_FUZZ to one of: {}", names.join(" "));
        std::process::exit(2);
    };
    if CATCHES_PANICS.contains(&name.as_str()) {
        // The third-party decoder panics on damaged files; the reader catches that and returns an error. The fuzzer's
        // panic hook would end the run at once. An uncaught panic still ends it.
        drop(std::panic::take_hook());
        std::panic::set_hook(Box::new(|_| ()));
    }
    *target
}

fuzz_target!(
    init: { TARGET.get_or_init(selected); },
    |bytes: &[u8]| if let Some(target) = TARGET.get() {
        target(bytes);
    }
);
