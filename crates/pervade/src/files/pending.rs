//! Temporary files and lock files of this process, so that a process that must end at once can remove them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static PENDING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file that must not stay behind; forgotten when this value is dropped.
#[derive(Debug)]
pub(super) struct Pending(PathBuf);

impl Pending {
    pub(super) fn new(path: &Path) -> Self {
        PENDING.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_path_buf());
        Self(path.to_path_buf())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        PENDING.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Removes the temporary files and lock files of this process. Only for a process that is about to exit.
pub fn remove_pending() {
    for path in std::mem::take(&mut *PENDING.lock().unwrap_or_else(PoisonError::into_inner)) {
        let _ = std::fs::remove_file(path);
    }
}
