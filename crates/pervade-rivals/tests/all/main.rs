//! The tests of the rivals in one program, so that what is generic over the device is compiled once for all.
//! A new file is a new line here; `tidy` looks for those that were forgotten.

mod common;
mod deep;
mod infogan;
mod methods;
mod representations;
mod typed;
