//! The fitted model: its content, its methods and its file.

mod columns;
mod file;
mod limits;
pub(crate) mod seal;
pub(crate) mod tensors;
mod usage;
mod vade;

pub use columns::Matched;
pub(crate) use file::covers_clusters;
#[doc(hidden)]
pub use seal::reseal;
pub use usage::{Assignments, Generated};
pub use vade::{ConsensusSummary, Metadata, RestartSummary, Vade};
