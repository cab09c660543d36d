//! The fitted model: what it is, what it can do, and its file.

mod file;
pub(crate) mod tensors;
mod usage;
mod vade;

pub use usage::{Assignments, Generated};
pub use vade::{Metadata, RestartSummary, Vade};
