//! Ctrl-C: the first asks training to stop where it can be resumed, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
static RESUMABLE: AtomicBool = AtomicBool::new(false);

/// Listens from now on; `resumable` says whether a stopped run leaves a checkpoint. Where the system
/// refuses, Ctrl-C ends the process as usual.
pub(crate) fn listen(resumable: bool) {
    RESUMABLE.store(resumable, Ordering::SeqCst);
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(crate::INTERRUPTED));
        }
    });
}

/// Whether Ctrl-C was pressed.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// An error if Ctrl-C was pressed.
pub(crate) fn check(stage: &'static str) -> pervade::Result<()> {
    if asked() { Err(pervade::Error::Interrupted { stage, epoch: 0 }) } else { Ok(()) }
}

/// Whether a stopped run can be resumed.
pub(crate) fn resumable() -> bool {
    RESUMABLE.load(Ordering::SeqCst)
}
