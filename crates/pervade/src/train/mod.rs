//! The stages of a fit: pretraining, the start of the mixture, joint training. Here are the events they send and the
//! checkpoints they leave; what they are made of is in [`crate::internals`].

pub mod checkpoint;
mod checkpoint_checks;
mod joint;
mod latents;
mod memory;
mod mixture_start;
mod observer;
mod pretrain;
mod probe;
mod run;
mod score;
mod starts;
mod watch;

#[doc(hidden)]
pub use joint::{JointStep, maximise_elbo, train};
#[doc(hidden)]
pub use latents::{for_each_block, heads, latents};
#[doc(hidden)]
pub use memory::require_memory;
#[doc(hidden)]
pub use mixture_start::start_mixture;
pub(crate) use observer::ask;
pub use observer::{Control, Event, Observer, Silent, Stage};
#[doc(hidden)]
pub use pretrain::pretrain;
pub(crate) use run::save_or_tell;
#[doc(hidden)]
pub use run::{Best, Pack, Run, Save, StartGroups, State, run_steps};
#[doc(hidden)]
pub use starts::{start_to_try, try_start};
#[doc(hidden)]
pub use watch::clusters;
pub use watch::{Unwatched, Watch};
