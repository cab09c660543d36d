//! The families of operations, one trait per file, with the types of their arguments.

mod batch_norm;
mod codes;
mod convolution;
mod latents;
mod layers;
mod likelihood;
mod memory;
mod mixture_posterior;
mod neighbour_term;
mod points;
mod prior;
mod recording;
mod rows;
mod soft_clusters;
mod stick_breaking;
mod sums;

pub use batch_norm::{BatchNorm, NormSlots};
pub(crate) use batch_norm::{NORM_EPSILON, NORM_MOMENTUM, NORM_ROWS};
pub use codes::Codes;
pub use convolution::{Convolution, Windows};
pub use latents::{Draw, Latents};
pub use layers::{Activation, Layers};
pub use likelihood::{Likelihood, Likelihoods};
pub use memory::Memory;
pub use mixture_posterior::{MixturePosterior, PosteriorMixture};
pub(crate) use neighbour_term::WRONG_NEIGHBOURS;
pub use neighbour_term::{NeighbourAgreement, NeighbourTerm};
pub use points::Points;
pub use prior::{Gamma, Prior, UnknownGamma};
pub use recording::Recording;
pub(crate) use rows::draw_neighbour;
pub use rows::{Csr, NeighbourLists, RowSelection, RowValues, Rows, RowsView, Scaling};
pub use soft_clusters::SoftClusters;
pub(crate) use stick_breaking::{DRAWN_FRACTION, KUMARASWAMY_LIMITS, SERIES_TERMS};
pub use stick_breaking::{MAX_STICKS, StickBreaking, StickPrior};
pub use sums::{Sums, Terms};
