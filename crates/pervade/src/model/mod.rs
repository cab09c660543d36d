//! The fitted model: its content, its methods and its file.

mod columns;
mod costs;
mod density;
mod explained;
mod file;
mod importance;
mod impute;
mod limits;
mod merged;
mod parts;
pub(crate) mod seal;
pub(crate) mod tensors;
mod usage;
mod vade;

pub use crate::plain::{CloseMethod, PlainMethod, PlainSummary};
pub use columns::Matched;
pub use costs::CellCost;
pub use explained::ExplainedColumn;
pub(crate) use file::covers_clusters;
#[doc(hidden)]
pub use parts::Parts;
#[doc(hidden)]
pub use seal::reseal;
pub use usage::{Assignments, Cells, Generated};
pub use vade::{ConsensusSummary, Metadata, RestartSummary, Vade};
