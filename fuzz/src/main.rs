//! The fuzzer: libFuzzer calls the target that the environment variable PERVADE_FUZZ names. With PERVADE_SEEDS it only
//! writes seeds to the folder given there.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pervade_fuzz::{TARGETS, Target};

static TARGET: OnceLock<Target> = OnceLock::new();

fn chosen() -> Target {
    if let Some(corpus) = std::env::var_os("PERVADE_SEEDS") {
        pervade_fuzz::seeds::write(corpus.as_ref());
        std::process::exit(0);
    }
    let name = std::env::var("PERVADE_FUZZ").unwrap_or_default();
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    let Some((_, target)) = found else {
        let names: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
        eprintln!("set PERVADE_FUZZ to one of: {}", names.join(" "));
        std::process::exit(2);
    };
    if name == "parquet" {
        // The decoder is not ours and panics on damaged files; the reader catches that and reports a damaged file. The
        // fuzzer's own hook would end the run at once. A panic that nobody catches still ends it.
        drop(std::panic::take_hook());
        std::panic::set_hook(Box::new(|_| ()));
    }
    *target
}

fuzz_target!(
    init: { TARGET.get_or_init(chosen); },
    |bytes: &[u8]| if let Some(target) = TARGET.get() {
        target(bytes);
    }
);
