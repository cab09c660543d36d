//! Output files: written completely or not at all, by one writer at a time, and never through a link that another user
//! made.

mod atomic;
mod kernels;
mod links;
mod lock;
mod pending;
mod space;

pub(crate) use atomic::temporary_names;
pub use atomic::{check_writable, create, write_atomically, write_atomically_with};
pub use kernels::KernelFolder;
pub use links::resolve;
use links::{close_to_others, is_private, make_private_folder};
pub use lock::Lock;
pub use pending::{remove_pending, try_remove_pending};
pub use space::require_space;
