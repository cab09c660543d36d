//! The fitted model: what it is, what it can do, and its file.

mod file;
pub(crate) mod seal;
pub(crate) mod tensors;
mod usage;
mod vade;

pub(crate) use file::fills;
#[doc(hidden)]
pub use seal::reseal;
pub use usage::{Assignments, Generated};
pub use vade::{Metadata, RestartSummary, Vade};
