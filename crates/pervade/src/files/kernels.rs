//! A cache of compiled CUDA kernels in a folder that only this user can write to.

use std::io::Write;
use std::path::PathBuf;

use super::{close_to_others, is_private, make_private_folder, write_atomically};
use crate::compute::KernelCache;

/// A folder that caches compiled kernels.
#[derive(Debug, Clone)]
pub struct KernelFolder {
    folder: PathBuf,
}

impl KernelFolder {
    /// The cache in `folder`, which is created when needed.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }
}

impl KernelCache for KernelFolder {
    /// Returns nothing that another user could have written.
    fn load(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.folder.join(name);
        let is_trusted = make_private_folder(&self.folder) && is_private(&path);
        std::fs::read(&path).ok().filter(|_| is_trusted)
    }

    fn store(&self, name: &str, bytes: &[u8]) {
        if make_private_folder(&self.folder) {
            let path = self.folder.join(name);
            // A folder that cannot be written to only costs time at the next start.
            let _ = write_atomically(&path, |file| file.write_all(bytes));
            close_to_others(&path, 0o600);
        }
    }
}
