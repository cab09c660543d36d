//! The bytes of an input file, and checks that they did not change since it was opened.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::mapped::FileMap;
use crate::memory::{FEWER_ROWS, Need, cannot_map, grow, require};
use crate::{Error, Result};

/// Bytes copied at a time.
const BLOCK: usize = 1 << 16;

/// An open file: mapped if possible, otherwise copied into memory (pipes, empty files).
///
/// Results of mapped bytes are invalid if the file changed meanwhile, so every reader ends with
/// [`InputFile::unless_changed`].
#[derive(Debug)]
pub(super) struct InputFile {
    location: String,
    contents: Contents,
}

#[derive(Debug)]
enum Contents {
    Copied(Vec<u8>),
    Mapped { map: Arc<FileMap>, file: File, opened: Stamp },
}

/// What identifies a changed file without reading it.
///
/// It is taken from the open file: renaming another file to its name is not a change, since the old one stays as it was
/// while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    len: u64,
    /// Time since (or before) 1970.
    modified: Option<std::result::Result<Duration, Duration>>,
}

impl Stamp {
    fn new(about: &Metadata) -> Self {
        let modified = about.modified().ok();
        let modified = modified.map(|time| time.duration_since(UNIX_EPOCH).map_err(|e| e.duration()));
        Self { len: about.len(), modified }
    }

    /// Returns an error if the file changed.
    fn compare(self, now: Self, location: &str) -> Result<()> {
        let (before, after) = (self.len, now.len);
        let what = if after < before {
            "was shortened"
        } else if after > before {
            "grew"
        } else if self.modified != now.modified {
            return Err(changed(
                location,
                "the file was written to while it was in use (its modification time changed)",
            ));
        } else {
            return Ok(());
        };
        Err(changed(
            location,
            format!("the file {what} while it was in use ({before} bytes at the start, {after} now)"),
        ))
    }
}

/// The error for a changed input file.
pub(super) fn changed(location: &str, problem: impl Into<String>) -> Error {
    Error::data(location, problem).with_hint("leave the file alone while it is in use, and start again")
}

impl InputFile {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let fail = |e| Error::io("read", path, e);
        let location = path.display().to_string();
        let mut file = File::open(path).map_err(fail)?;
        let about = file.metadata().map_err(fail)?;
        let opened = Stamp::new(&about);
        if about.is_file()
            && let Some(len) = usize::try_from(opened.len).ok().filter(|&len| len > 0)
        {
            match FileMap::new(&file, len) {
                Ok(Some(map)) => {
                    let contents = Contents::Mapped { map: Arc::new(map), file, opened };
                    return Ok(Self { location, contents });
                }
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    return Err(cannot_map(path, opened.len, error));
                }
                // File systems that cannot map, and too many mapped files: read instead.
                _ => require(&format!("reading `{location}`"), &Need::of("", opened.len), FEWER_ROWS)?,
            }
        }
        let mut bytes = Vec::new();
        // Files of the kernel have content but no length; others are read up to the length they had when opened.
        let most = if about.is_file() && opened.len > 0 { opened.len } else { u64::MAX };
        let what = format_args!("reading `{location}`");
        let mut left = file.by_ref().take(most);
        loop {
            // In blocks: a device may have no end.
            grow(&mut bytes, BLOCK, &what, FEWER_ROWS)?;
            if left.by_ref().take(BLOCK as u64).read_to_end(&mut bytes).map_err(fail)? == 0 {
                break;
            }
        }
        if about.is_file() {
            opened.compare(Stamp::new(&file.metadata().map_err(fail)?), &location)?;
        }
        Ok(Self { location, contents: Contents::Copied(bytes) })
    }

    /// The file name for messages.
    pub(super) fn location(&self) -> &str {
        &self.location
    }

    /// The mapping, if the file is mapped.
    pub(super) fn map(&self) -> Option<&Arc<FileMap>> {
        match &self.contents {
            Contents::Copied(_) => None,
            Contents::Mapped { map, .. } => Some(map),
        }
    }

    /// Gives memory back to the system if the file is mapped.
    pub(super) fn release(&self) {
        if let Some(map) = self.map() {
            map.release(0..self.len());
        }
    }

    /// Returns an error if the file was written to since it was opened.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let Contents::Mapped { map, file, opened } = &self.contents else { return Ok(()) };
        let about = file.metadata().map_err(|e| Error::io("read", Path::new(&self.location), e))?;
        opened.compare(Stamp::new(&about), &self.location)?;
        if map.is_lost() {
            return Err(Error::data(&self.location, "a part of the file could not be read from the disk")
                .with_hint("check the disk, or copy the file to another one"));
        }
        Ok(())
    }

    /// `result`, unless the file changed meanwhile, when an error about strange content would mislead.
    pub(super) fn unless_changed<T>(&self, result: Result<T>) -> Result<T> {
        self.check_unchanged()?;
        result
    }
}

impl Deref for InputFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.contents {
            Contents::Copied(bytes) => bytes,
            Contents::Mapped { map, .. } => map.bytes(),
        }
    }
}

/// The result of `parse` for the file at `path`, which must not change meanwhile.
pub(super) fn parse<T>(path: &Path, parse: impl FnOnce(&[u8], &str) -> Result<T>) -> Result<T> {
    let file = InputFile::open(path)?;
    file.unless_changed(parse(&file, file.location()))
}
