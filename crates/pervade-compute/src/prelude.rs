//! Imports the traits of all operations, for code that calls them on a device of a concrete type.

pub use crate::{
    BatchNorm as _, Codes as _, Convolution as _, Exchange as _, Latents as _, Layers as _, Likelihoods as _,
    Memory as _, MixturePosterior as _, NeighbourAgreement as _, Points as _, Prior as _, Recording as _,
    Rows as _, SoftClusters as _, StickBreaking as _, Sums as _, TypedLikelihood as _,
};
