//! One writer at a time: an advisory lock file for the file or folder that a run writes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::links::resolve;
use super::pending::Pending;
use crate::{Error, Result};

/// Maximum length of the text about a holder that is shown.
const MAX_TEXT: u64 = 300;
/// How often, and at which interval, that text is read.
const MAX_LOOKS: usize = 50;
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Longest file name to which the prefix and suffix of a lock can be added.
const MAX_NAME: usize = 200;

/// An advisory lock, held until dropped; the system also releases it when the process dies.
#[derive(Debug)]
pub struct Lock {
    // Dropped in this order: the file must be removed while it is still locked, or another run could lock a file that
    // is about to disappear.
    path: PathBuf,
    _pending: Pending,
    _file: File,
}

impl Lock {
    /// Locks `target`, a file or folder that need not exist; `holder` describes this run to others.
    ///
    /// `None` if the file system has no locks. The error names the run that holds the lock.
    pub fn take(target: &Path, holder: &str) -> Result<Option<Self>> {
        let fail = |e| Error::io("lock", target, e);
        let path = lock_path(&resolve(target).map_err(fail)?);
        let taken = Pending::create(|| {
            loop {
                let mut file = open(&path).map_err(|e| Refused::Error(fail(e)))?;
                match file.try_lock() {
                    Ok(()) => {}
                    Err(TryLockError::WouldBlock) => return Err(Refused::Error(held(target, &mut file))),
                    Err(TryLockError::Error(_)) => return Err(Refused::Unknown),
                }
                // The previous holder may have removed the file between our opening and locking it.
                if is_same(&file, &path) {
                    return Ok((file, path.clone()));
                }
            }
        });
        match taken {
            Ok((mut file, pending)) => {
                // A full disk must not prevent locking: the text is only for people.
                let _ = file.set_len(0).and_then(|()| file.write_all(holder.as_bytes()));
                Ok(Some(Self { path, _pending: pending, _file: file }))
            }
            Err(Refused::Unknown) => Ok(None),
            Err(Refused::Error(error)) => Err(error),
        }
    }
}

/// Why there is no lock.
enum Refused {
    /// The file system has no locks.
    Unknown,
    /// Another run holds it, or it cannot be created.
    Error(Error),
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// `.NAME.pervade-lock` in the folder of the target.
fn lock_path(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    if name.len() > MAX_NAME {
        name = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(name.as_encoded_bytes())).into();
    }
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".pervade-lock");
    target.with_file_name(hidden)
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NOFOLLOW);
    }
    match options.read(true).write(true).create(true).truncate(false).open(path) {
        // The lock file of another user can be locked without being written to.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            options.write(false).create(false).open(path)
        }
        opened => opened,
    }
}

/// Whether the path still refers to the open file.
fn is_same(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |about: std::fs::Metadata| (about.dev(), about.ino());
        let now = std::fs::symlink_metadata(path).ok().map(identity);
        now.is_some() && now == file.metadata().ok().map(identity)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

fn held(target: &Path, file: &mut File) -> Error {
    let mut holder = String::new();
    // A run writes its description just after it has taken the lock.
    for _ in 0..MAX_LOOKS {
        let _ = file.take(MAX_TEXT).read_to_string(&mut holder);
        if !holder.trim().is_empty() {
            break;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    let holder = match holder.trim() {
        "" => "another run of pervade".to_string(),
        holder => holder.to_string(),
    };
    let busy = io::Error::new(io::ErrorKind::WouldBlock, format!("{holder} is writing it"));
    Error::io("write", target, busy)
        .with_hint("wait until that run has ended, or choose another file or folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_error_names_the_first_holder() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("model");
        let first = Lock::take(&target, "process 7 (fit a.npy)").unwrap().unwrap();
        let error = Lock::take(&target, "process 8").unwrap_err();
        assert!(error.to_string().ends_with("process 7 (fit a.npy) is writing it"), "{error}");
        assert!(error.hint().is_some());
        assert!(Lock::take(&folder.path().join("other"), "process 8").unwrap().is_some());
        drop(first);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no lock file stays");
        assert!(Lock::take(&target, "process 8").unwrap().is_some());
    }

    #[test]
    fn the_lock_file_of_a_killed_run_is_reused() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("x".repeat(250));
        std::fs::write(lock_path(&target), "process 1 is long gone and had a much longer text than ours")
            .unwrap();
        let lock = Lock::take(&target, "process 8").unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(&lock.path).unwrap(), "process 8");
    }

    #[test]
    fn only_one_of_many_holds_the_lock() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let (target, holders) = (folder.path().join("model"), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        if let Ok(Some(_lock)) = Lock::take(&target, "x") {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                            holders.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
    }
}
