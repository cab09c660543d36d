//! The cache folder.

use std::path::PathBuf;

/// `$XDG_CACHE_HOME/pervade`, else `~/.cache/pervade` (on Windows below `%LOCALAPPDATA%`); `None` if none of them is
/// known.
pub fn cache_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let of_home = || set("HOME").map(|home| home.join(".cache"));
    set("XDG_CACHE_HOME")
        .or_else(|| set("LOCALAPPDATA"))
        .or_else(of_home)
        .map(|caches| caches.join("pervade"))
}
