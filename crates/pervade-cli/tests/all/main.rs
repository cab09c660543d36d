//! The tests of the command in one program: twenty would take longer to compile, and would run one after the other.
//! A new file is a new line here; `tidy` looks for those that were forgotten.

mod bad_input;
mod changed_input;
mod column_names;
mod common;
mod compare;
mod console;
mod explore;
mod export;
mod files;
mod fuzz_corpus;
mod integrity;
mod interrupt;
mod memory;
mod names;
mod numbers;
mod parts;
mod report;
mod reproduce;
mod roundtrip;
mod tables;
mod usage;
