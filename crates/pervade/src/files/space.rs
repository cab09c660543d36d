//! Room on a disk, checked before much is written.

use std::path::Path;

use crate::units::size;
use crate::{Error, Result};

/// Returns an error if the file system of `folder`, which `setting` names, has no room for so many bytes; `what` they are.
pub fn require_space(folder: &Path, bytes: u64, what: &str, setting: &'static str) -> Result<()> {
    match free_space(folder) {
        Some(free) if free < bytes => {
            let problem =
                format!("there is no room for {what}: {} are needed, {} are free", size(bytes), size(free));
            Err(Error::data(folder.display(), problem).with_hint(
                crate::Hint::new("make room, or name a folder on another disk with ").setting(setting),
            ))
        }
        _ => Ok(()),
    }
}

/// Bytes that this user can write; `None` if the system does not say.
fn free_space(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let about = rustix::fs::statvfs(folder).ok()?;
        Some(about.f_bavail.saturating_mul(about.f_frsize))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}
