//! The nearest-neighbour graph of the latents, modularity on it, and merging parts to groups.

mod knn;
mod merge;
mod modularity;

pub use knn::{Graph, GraphOptions};
pub use merge::{Grouping, Parts, Target, WARD_ABOVE_RATIO, group, refine};
pub use modularity::{PartGraph, modularity};
