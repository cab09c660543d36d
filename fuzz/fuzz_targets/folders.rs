//! Folders that are known by the names of their files: STL-10, UCI HAR, RCV1-v2.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pervade_fuzz::read_folder_with(bytes));
