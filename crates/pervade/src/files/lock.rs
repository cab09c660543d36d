//! One writer at a time: an advisory lock beside the file or folder that a run writes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::links::resolve;
use super::pending::Pending;
use crate::{Error, Result};

/// Longest text about a holder that is shown.
const MOST_TEXT: u64 = 300;
/// How often and how long apart the text is looked for.
const MOST_LOOKS: usize = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// Longest file name that still leaves room for the lock's own letters.
const MOST_NAME: usize = 200;

/// Held until dropped; the system releases it too when the process dies.
#[derive(Debug)]
pub struct Lock {
    // Dropped in this order: the file must go while it is still locked, or another run could lock a file that is about
    // to disappear.
    path: PathBuf,
    _pending: Pending,
    _file: File,
}

impl Lock {
    /// Locks `target`, a file or folder that need not exist; `holder` tells others which run this is.
    ///
    /// None where the file system has no locks. An error says which run holds it.
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
                // Whoever held it before may have removed the file between our opening and locking it.
                if is_same(&file, &path) {
                    return Ok((file, path.clone()));
                }
            }
        });
        match taken {
            Ok((mut file, pending)) => {
                // A full disk must not keep a run from locking: the text is for people only.
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
    /// The file system has none.
    Unknown,
    /// Another run holds it, or it cannot be made.
    Error(Error),
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// `.NAME.pervade-lock` beside the target.
fn lock_path(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    if name.len() > MOST_NAME {
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

/// Whether the path still leads to the open file.
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
    // A run writes who it is just after it has taken the lock.
    for _ in 0..MOST_LOOKS {
        let _ = file.take(MOST_TEXT).read_to_string(&mut holder);
        if !holder.trim().is_empty() {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
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
    fn the_second_is_told_who_was_first() {
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
    fn a_file_left_by_a_killed_run_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("x".repeat(250));
        std::fs::write(lock_path(&target), "process 1 is long gone and had a much longer text than ours")
            .unwrap();
        let lock = Lock::take(&target, "process 8").unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(&lock.path).unwrap(), "process 8");
    }

    #[test]
    fn many_takers_never_hold_it_together() {
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
