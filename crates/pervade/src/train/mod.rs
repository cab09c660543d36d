//! The stages: pretrain, start the mixture, train jointly.

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

pub use joint::{JointStep, maximise_elbo, train};
pub use latents::{for_each_block, heads, latents};
pub use memory::require_memory;
pub use mixture_start::start_mixture;
pub(crate) use observer::ask;
pub use observer::{Control, Event, Observer, Silent, Stage};
pub use pretrain::pretrain;
pub(crate) use run::save_or_tell;
pub use run::{Best, Pack, Run, Save, StartGroups, State, run_steps};
pub use starts::{start_to_try, try_start};
pub use watch::{Unwatched, Watch, clusters};
