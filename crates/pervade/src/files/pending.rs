//! Temporary files and lock files of this process, which it removes even if it must exit at once.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

static PENDING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

type Files = BTreeSet<PathBuf>;

fn pending() -> MutexGuard<'static, Files> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that must be removed at exit; forgotten when this value is dropped.
#[derive(Debug)]
pub(super) struct Pending(PathBuf);

impl Pending {
    /// Creates a file and registers it, atomically with respect to [`remove_pending`].
    pub(super) fn create<T, E>(make: impl FnOnce() -> Result<(T, PathBuf), E>) -> Result<(T, Self), E> {
        let mut files = pending();
        let (made, path) = make()?;
        files.insert(path.clone());
        Ok((made, Self(path)))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        pending().remove(&self.0);
    }
}

/// Removes the temporary files and lock files of this process, which is about to exit: from now on none can be created.
pub fn remove_pending() {
    let files = pending();
    remove(&files);
    // Never released: another thread that is about to create a file waits until the process exits.
    std::mem::forget(files);
}

/// Like [`remove_pending`], for a process without memory: allocates nothing and waits for nothing.
pub fn try_remove_pending() {
    match PENDING.try_lock() {
        Ok(files) => remove(&files),
        Err(TryLockError::Poisoned(files)) => remove(files.get_ref()),
        Err(TryLockError::WouldBlock) => {}
    }
}

fn remove(files: &Files) {
    for path in files {
        let _ = std::fs::remove_file(path);
    }
}
