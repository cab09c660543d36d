//! Building blocks for other methods on the same networks and devices, and what the command line needs around a run.
//! The crate `pervade-rivals` uses them. They change whenever VaDE's own code does: depend on an exact version.
//!
//! A [`Run`] holds what stays the same during training (device, rows, settings, networks), a [`Pack`] what changes: the
//! parameters of restarts that are trained in parallel, and their [`State`]. A [`Tape`] holds the activations between a
//! forward and a backward pass.

#[doc(inline)]
pub use crate::infer::{Observed, Pass, decoded, outputs};
#[doc(inline)]
pub use crate::nn::{
    Activations, Architecture, BatchNorm, BatchNormBuffers, Convolution, Layer, Network, Sizes, Tape,
    TransposedConvolution,
};
#[doc(inline)]
pub use crate::record::Finished;
#[doc(inline)]
pub use crate::train::{
    Best, JointStep, Pack, Run, Save, StartGrouping, State, clusters, current_trial, for_each_block, heads,
    latents, maximise_elbo, pretrain, require_memory, run_steps, run_trial, start_mixture, train,
};
#[doc(inline)]
pub use crate::{files, memory, seed};
