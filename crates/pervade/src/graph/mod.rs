//! The nearest-neighbour graph of the latents, its modularity, and merging of parts into groups; Ward's tree of rows.

mod knn;
mod merge;
mod modularity;
mod prepared;
mod refine;
mod ward;

pub use knn::{Graph, GraphOptions};
pub use merge::{Grouping, Parts, Target, WARD_ABOVE_RATIO, group};
pub(crate) use merge::{group_each_until, group_until, merge_history};
pub use modularity::{PartGraph, modularity};
pub use prepared::PreparedGraph;
pub(crate) use prepared::{PREPARED_NEIGHBOURS, n_prepared};
pub use refine::refine;
pub(crate) use refine::refine_until;
pub use ward::{Merge, SquareDistances, cut, ward};
