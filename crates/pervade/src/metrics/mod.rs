//! Scores of a clustering: against labels (which only this module sees), and without them.

mod contingency;
mod knn;
mod label_free;
mod matching;
mod vote;

pub use contingency::{Contingency, accuracy, ari, confusion, nmi};
pub use knn::{Labelled, knn_errors, knn_labels};
pub use label_free::{
    LIVE_SHARE, live_clusters, mean_entropy, occupancy, occupancy_entropy, silhouette, stability,
};
pub use matching::best_matching;
pub use vote::{Vote, agreement, vote};
