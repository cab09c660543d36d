//! NumPy archives, and scipy's sparse ones.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pervade_fuzz::read_all(bytes, "npz"));
