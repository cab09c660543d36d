//! Symbolic links, followed only if they can be trusted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// As many links as Linux follows.
#[cfg(unix)]
const MAX_LINKS: usize = 40;

/// Resolves all symbolic links of `path`, whose last component need not exist.
///
/// A link that belongs to neither this user nor root is refused: in a shared folder anyone can plant one, and writing
/// through it would replace a file of the link's choice.
#[cfg(unix)]
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    use std::ffi::OsString;
    use std::os::unix::fs::MetadataExt;
    use std::path::Component;

    let parts = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|part| part.as_os_str().to_os_string()).collect()
    };
    let me = rustix::process::geteuid().as_raw();
    let (mut real, mut left, mut links) = (PathBuf::new(), parts(path), 0);
    while let Some(part) = left.pop() {
        let next = real.join(&part);
        let is_name = matches!(Path::new(&part).components().next(), Some(Component::Normal(_)));
        let about = fs::symlink_metadata(&next).ok().filter(|about| is_name && about.is_symlink());
        let Some(about) = about else {
            real = next;
            continue;
        };
        if next.starts_with("/proc") {
            // The kernel's own links to open files: their text is not a path.
            return Ok(left.iter().rev().fold(next, |path, part| path.join(part)));
        }
        if about.uid() != me && about.uid() != 0 {
            let problem =
                format!("`{}` is a link that another user (id {}) made", next.display(), about.uid());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::other("too many levels of symbolic links"));
        }
        let target = fs::read_link(&next)?;
        if target.is_absolute() {
            real = PathBuf::new();
        }
        left.extend(parts(&target));
    }
    Ok(real)
}

/// Resolves all symbolic links of `path`, whose last component need not exist.
#[cfg(not(unix))]
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    Ok(fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()))
}

/// Whether the file or folder, itself not a link, belongs to this user and nobody else may change it.
#[cfg(unix)]
pub(super) fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    const OTHERS_WRITE: u32 = 0o022;
    let ours = |about: &fs::Metadata| {
        about.uid() == rustix::process::geteuid().as_raw() && about.mode() & OTHERS_WRITE == 0
    };
    fs::symlink_metadata(path).is_ok_and(|about| !about.is_symlink() && ours(&about))
}

/// Creates the folder if it does not exist, restricts one of ours to this user, and returns whether it is private now.
pub(super) fn make_private_folder(folder: &Path) -> bool {
    if let Some(above) = folder.parent() {
        let _ = fs::create_dir_all(above);
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let _ = builder.create(folder);
    if folder.is_dir() && !is_private(folder) {
        close_to_others(folder, 0o700);
    }
    folder.is_dir() && is_private(folder)
}

/// Sets the mode of a file or folder of ours; files of other users, and links, stay unchanged.
#[cfg(unix)]
pub(super) fn close_to_others(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    if fs::symlink_metadata(path).is_ok_and(|about| !about.is_symlink()) {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode));
    }
}

/// Nothing to do on this system.
#[cfg(not(unix))]
pub(super) fn close_to_others(_path: &Path, _mode: u32) {}

/// Whether the file or folder exists; permissions are not checked on this system.
#[cfg(not(unix))]
pub(super) fn is_private(path: &Path) -> bool {
    path.exists()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    #[test]
    fn own_links_are_followed_and_loops_end() {
        let folder = tempfile::tempdir().unwrap();
        let base = resolve(folder.path()).unwrap();
        let at = |name: &str| base.join(name);
        fs::create_dir(at("real")).unwrap();
        symlink("real", at("link")).unwrap();
        symlink(at("link").join("file"), at("far")).unwrap();
        symlink("loop", at("loop")).unwrap();
        assert_eq!(resolve(&at("link").join("new")).unwrap(), at("real").join("new"));
        assert_eq!(resolve(&at("far")).unwrap(), at("real").join("file"));
        assert_eq!(resolve(Path::new("a/b")).unwrap(), Path::new("a/b"));
        assert!(resolve(&at("loop")).is_err());
        if rustix::process::geteuid().is_root() {
            lchown(at("link"), Some(12345), None).unwrap();
            let error = resolve(&at("link").join("new")).unwrap_err().to_string();
            assert!(error.contains("another user (id 12345)"), "{error}");
            assert!(resolve(&at("far")).is_err(), "a link behind a link");
        }
    }

    #[test]
    fn what_others_may_change_is_not_private() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        fs::write(&file, "").unwrap();
        for (mode, private) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_private(&file), private, "{mode:o}");
        }
        symlink(&file, folder.path().join("link")).unwrap();
        assert!(!is_private(&folder.path().join("link")) && !is_private(&folder.path().join("none")));
    }
}
