//! Panics of third-party decoders, caught without output on stderr.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Runs `work` on this thread; `None` if it panics, without printing anything.
///
/// Only for third-party decoders of untrusted bytes: a panic of our own is a bug and should be reported. The first call
/// installs a hook before the program's panic hook, which still receives all other panics.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    HOOK.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            if !IS_QUIET.try_with(Cell::get).unwrap_or(false) {
                previous(info);
            }
        }));
    });
    let outer = IS_QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_QUIET.set(outer);
    result.ok()
}
