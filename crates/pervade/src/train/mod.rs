//! The stages of a fit: pretraining, mixture start, joint training. This module has their events and checkpoints;
//! the building blocks are in [`crate::internals`].

mod callback;
pub mod checkpoint;
mod checkpoint_checks;
mod consensus;
mod joint;
mod latents;
mod levels;
mod memory;
mod mixture_start;
mod neighbours;
mod observer;
mod pretrain;
mod probe;
mod reconstruction;
mod run;
mod scales;
mod score;
mod shares;
mod trained;
mod trials;

#[doc(hidden)]
pub use callback::clusters;
pub use callback::{EpochCallback, NoCallback};
#[doc(hidden)]
pub use consensus::train_towards_vote;
#[doc(hidden)]
pub use joint::{JointStep, maximise_elbo, train};
#[doc(hidden)]
pub use latents::{for_each_block, heads, latents};
#[doc(hidden)]
pub use memory::require_memory;
#[doc(hidden)]
pub use mixture_start::start_mixture;
pub(crate) use observer::interrupt_check;
pub use observer::{Control, Event, Observer, Silent, Stage};
#[doc(hidden)]
pub use pretrain::pretrain;
pub(crate) use run::save_or_report;
#[doc(hidden)]
pub use run::{Best, Pack, Run, Save, StartGrouping, State, run_steps};
pub use trained::TrainedRestart;
pub(crate) use trained::in_order;
#[doc(hidden)]
pub use trials::{current_trial, run_trial};
