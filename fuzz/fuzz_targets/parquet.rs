//! Parquet.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The decoder is not ours and panics on damaged files; the reader catches that and reports a damaged
// file. The fuzzer's own hook would end the run at once, so it goes; a panic that nobody catches still
// ends it.
fuzz_target!(
    init: {
        drop(std::panic::take_hook());
        std::panic::set_hook(Box::new(|_| ()));
    },
    |bytes: &[u8]| pervade_fuzz::read_all(bytes, "parquet")
);
