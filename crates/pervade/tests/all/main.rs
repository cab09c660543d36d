//! The tests of the library in one program, so that what is generic over the device is compiled once for all.
//! A new file is a new line here; `tidy` looks for those that were forgotten.

mod changed_input;
#[path = "../common/mod.rs"]
mod common;
mod consensus;
mod convolutional;
mod cuda;
mod determinism;
mod doors;
mod graph;
mod hostile;
mod identities;
mod informative_gaps;
mod integrity;
mod mixture;
mod names;
mod oracle_dec;
mod oracle_elbo;
mod oracle_images;
mod oracle_metrics;
mod oracle_mixture;
mod oracle_sticks;
mod oracle_typed;
mod originals;
mod readers;
mod real_data;
mod recovery;
mod restarts;
mod roundtrip;
mod shares;
mod starts;
mod tables;
mod tidy;
mod timing_maths;
mod typed;
mod words;
