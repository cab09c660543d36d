//! Writing beside the target and renaming, so that nothing is half-written.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::links::resolve;
use super::pending::Pending;
use crate::{Error, Result};

/// Writes a file through `write` beside `path`, then moves it there; on any error `path` is left
/// as it was and nothing stays behind. What is replaced keeps its permissions.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<()> {
    let fail = |e| Error::io("write", path, e);
    let flushed = |file: &File| {
        let mut buffered = BufWriter::new(file);
        write(&mut buffered)?;
        buffered.flush()
    };
    // Through a symbolic link the file behind it is replaced, not the link.
    let target = resolve(path).map_err(fail)?;
    if is_stream(&target) {
        let file = File::options().write(true).open(&target).map_err(fail)?;
        return flushed(&file).map_err(fail);
    }
    let folder = folder_of(&target);
    let (temporary, _pending) = temporary_in(&folder, &target).map_err(fail)?;
    flushed(temporary.as_file()).map_err(fail)?;
    set_permissions(temporary.as_file(), &target, &folder).map_err(fail)?;
    temporary.as_file().sync_all().map_err(fail)?;
    temporary.persist(&target).map_err(|e| fail(e.error))?;
    // The rename itself must survive a power cut too; not every file system can be asked.
    if let Ok(folder) = File::open(&folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Checks that a file can be created at `path`, without leaving one there. For before long work.
pub fn check_writable(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::setting("out", path.display(), "must be a file, this is a folder"));
    }
    let fail = |e| Error::io("write", path, e);
    let target = resolve(path).map_err(fail)?;
    if is_stream(&target) {
        return Ok(());
    }
    // A name that is too long is one only when the file gets it.
    match fs::symlink_metadata(&target) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(fail(e)),
        _ => {}
    }
    temporary_in(&folder_of(&target), &target).map(drop).map_err(fail)
}

/// A new file at `path` for something that is written bit by bit, such as a log. What was there is removed first, so
/// that nobody who still reads it loses anything; its permissions are kept.
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

/// A pipe or a device is written to as it is: renaming would replace it.
fn is_stream(target: &Path) -> bool {
    target.starts_with("/proc") || fs::metadata(target).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// What the names of temporary files for `target` begin and end with.
pub(crate) fn temporary_names(target: &Path) -> (String, &'static str) {
    // Only the beginning: a long name must not make a temporary one that is too long.
    let name: String = target.file_name().unwrap_or_default().to_string_lossy().chars().take(40).collect();
    (format!(".{name}."), ".pervade-tmp")
}

/// A private file of this process; its guard has it removed if the process must end at once.
fn temporary_in(folder: &Path, target: &Path) -> io::Result<(NamedTempFile, Pending)> {
    let (prefix, suffix) = temporary_names(target);
    Pending::create(|| {
        let file =
            tempfile::Builder::new().prefix(&prefix).suffix(suffix).tempfile_in(folder).map_err(plain)?;
        let path = file.path().to_path_buf();
        Ok((file, path))
    })
}

/// The system's own words, without the name of a temporary file that nobody asked for.
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

/// Gives a finished file the permissions of the one it replaces, or those of any new file.
#[cfg(unix)]
fn set_permissions(file: &File, target: &Path, folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    const PERMISSIONS: u32 = 0o777;
    let old = fs::symlink_metadata(target).ok().filter(fs::Metadata::is_file);
    let ours = |old: &fs::Metadata| old.uid() == rustix::process::geteuid().as_raw();
    let mode = match old {
        Some(old) if ours(&old) => old.mode() & PERMISSIONS,
        // Another user's choice can make the result more private, not more public.
        Some(old) => old.mode() & new_file_mode(folder)?,
        None => new_file_mode(folder)?,
    };
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_permissions(_file: &File, _target: &Path, _folder: &Path) -> io::Result<()> {
    Ok(())
}

/// The permissions of a new file in the folder, which only making one can tell: they depend on the umask and on the
/// folder's access list.
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
