//! Atomic writes: to a temporary file that is renamed, so that no file is ever half-written.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::links::resolve;
use super::pending::Pending;
use crate::{Error, Result};

/// Writes a file through `write` in the folder of `path`, then renames it to `path`; on any error `path` is left
/// unchanged and no file stays behind. A replaced file keeps its permissions.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<()> {
    write_atomically_with(path, |out| write(out).map_err(|e| Error::io("write", path, e)))
}

/// Like [`write_atomically`], for contents that are computed while they are written, which can fail for other reasons.
pub fn write_atomically_with<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<T>,
) -> Result<T> {
    let fail = |e| Error::io("write", path, e);
    let flushed = |file: &File| {
        let mut buffered = BufWriter::new(file);
        let written = write(&mut buffered)?;
        buffered.flush().map_err(fail)?;
        Ok(written)
    };
    // The target of a symbolic link is replaced, not the link.
    let target = resolve(path).map_err(fail)?;
    if is_stream(&target) {
        let file = File::options().write(true).open(&target).map_err(fail)?;
        return flushed(&file);
    }
    let folder = folder_of(&target);
    let (temporary, _pending) = temporary_in(&folder, &target).map_err(fail)?;
    let written = flushed(temporary.as_file())?;
    set_permissions(temporary.as_file(), &target, &folder).map_err(fail)?;
    temporary.as_file().sync_all().map_err(fail)?;
    temporary.persist(&target).map_err(|e| fail(e.error))?;
    // The rename itself must survive a power cut too; not every file system supports this.
    if let Ok(folder) = File::open(&folder) {
        let _ = folder.sync_all();
    }
    Ok(written)
}

/// Checks that a file can be created at `path`, without leaving one there. Call it before a long computation.
pub fn check_writable(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::setting("out", path.display(), "must be a file, this is a folder"));
    }
    let fail = |e| Error::io("write", path, e);
    let target = resolve(path).map_err(fail)?;
    if is_stream(&target) {
        return Ok(());
    }
    // A name that is too long fails only when the file is created.
    match fs::symlink_metadata(&target) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(fail(e)),
        _ => {}
    }
    temporary_in(&folder_of(&target), &target).map(drop).map_err(fail)
}

/// Creates a file at `path` for something that is written bit by bit, such as a log. An existing file is removed first,
/// so that programs still reading it lose nothing; its permissions are kept.
pub fn create(path: &Path) -> io::Result<File> {
    let target = resolve(path)?;
    if is_stream(&target) {
        return File::options().write(true).open(&target);
    }
    let folder = folder_of(&target);
    let (temporary, _pending) = temporary_in(&folder, &target)?;
    set_permissions(temporary.as_file(), &target, &folder)?;
    temporary.persist(&target).map_err(|e| e.error)
}

/// Pipes and devices are written to directly: renaming would replace them.
fn is_stream(target: &Path) -> bool {
    target.starts_with("/proc") || fs::metadata(target).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Prefix and suffix of temporary file names for `target`.
pub(crate) fn temporary_names(target: &Path) -> (String, &'static str) {
    // Only the beginning of the name: the temporary name must not be too long.
    let name: String = target.file_name().unwrap_or_default().to_string_lossy().chars().take(40).collect();
    (format!(".{name}."), ".pervade-tmp")
}

/// A private file of this process; its guard removes it if the process must exit at once.
fn temporary_in(folder: &Path, target: &Path) -> io::Result<(NamedTempFile, Pending)> {
    let (prefix, suffix) = temporary_names(target);
    Pending::create(|| {
        let file =
            tempfile::Builder::new().prefix(&prefix).suffix(suffix).tempfile_in(folder).map_err(plain)?;
        let path = file.path().to_path_buf();
        Ok((file, path))
    })
}

/// The system's error message, without the name of the temporary file, which the user does not know.
fn plain(error: io::Error) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(next) = cause {
        let code = next.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        if let Some(code) = code {
            return io::Error::from_raw_os_error(code);
        }
        cause = next.source();
    }
    error
}

/// Gives a finished file the permissions of the file that it replaces, or those of a new file.
#[cfg(unix)]
fn set_permissions(file: &File, target: &Path, folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    const PERMISSIONS: u32 = 0o777;
    let old = fs::symlink_metadata(target).ok().filter(fs::Metadata::is_file);
    let ours = |old: &fs::Metadata| old.uid() == rustix::process::geteuid().as_raw();
    let mode = match old {
        Some(old) if ours(&old) => old.mode() & PERMISSIONS,
        // Permissions chosen by another user can make the result more private, not more public.
        Some(old) => old.mode() & new_file_mode(folder)?,
        None => new_file_mode(folder)?,
    };
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_permissions(_file: &File, _target: &Path, _folder: &Path) -> io::Result<()> {
    Ok(())
}

/// The permissions of a new file in the folder, found by creating one: they depend on the umask and on the folder's
/// access list.
#[cfg(unix)]
fn new_file_mode(folder: &Path) -> io::Result<u32> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let anyone = fs::Permissions::from_mode(0o666);
    let (empty, _pending) = Pending::create(|| {
        let file = tempfile::Builder::new().prefix(".pervade-").permissions(anyone).tempfile_in(folder)?;
        let path = file.path().to_path_buf();
        Ok::<_, io::Error>((file, path))
    })?;
    Ok(empty.as_file().metadata()?.mode() & 0o666)
}
