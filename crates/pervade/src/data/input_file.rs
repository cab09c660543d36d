//! The bytes of an input file, and whether they are still those that it was opened with.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::mapped::FileMap;
use crate::memory::{FEWER_ROWS, Need, cannot_map, grow, require};
use crate::{Error, Result};

/// Bytes that are copied at a time.
const BLOCK: usize = 1 << 16;

/// An open file: mapped where that is possible, else copied into memory (pipes, empty files).
///
/// Whatever is made of mapped bytes is worth nothing if the file changed meanwhile, so every reader ends with
/// [`InputFile::unless_changed`].
#[derive(Debug)]
pub(super) struct InputFile {
    place: String,
    contents: Contents,
}

#[derive(Debug)]
enum Contents {
    Copied(Vec<u8>),
    Mapped { map: Arc<FileMap>, file: File, opened: Stamp },
}

/// What tells a file from a changed one without reading it.
///
/// It is taken from the open file: one that is replaced by renaming another to its name is no change, since the old one
/// stays as it is for those who have it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    len: u64,
    /// Since 1970, or before it.
    modified: Option<std::result::Result<Duration, Duration>>,
}

impl Stamp {
    fn new(about: &Metadata) -> Self {
        let modified = about.modified().ok();
        let modified = modified.map(|time| time.duration_since(UNIX_EPOCH).map_err(|e| e.duration()));
        Self { len: about.len(), modified }
    }

    /// The error for a file that is not as it was.
    fn compare(self, now: Self, place: &str) -> Result<()> {
        let (before, after) = (self.len, now.len);
        let what = if after < before {
            "was shortened"
        } else if after > before {
            "grew"
        } else if self.modified != now.modified {
            return Err(changed(
                place,
                "the file was written to while it was in use (its modification time changed)",
            ));
        } else {
            return Ok(());
        };
        Err(changed(
            place,
            format!("the file {what} while it was in use ({before} bytes at the start, {after} now)"),
        ))
    }
}

/// The error for input that changed.
pub(super) fn changed(place: &str, problem: impl Into<String>) -> Error {
    Error::data(place, problem).with_hint("leave the file alone while it is in use, and start again")
}

impl InputFile {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let fail = |e| Error::io("read", path, e);
        let place = path.display().to_string();
        let mut file = File::open(path).map_err(fail)?;
        let about = file.metadata().map_err(fail)?;
        let opened = Stamp::new(&about);
        if about.is_file()
            && let Some(len) = usize::try_from(opened.len).ok().filter(|&len| len > 0)
        {
            match FileMap::new(&file, len) {
                Ok(Some(map)) => {
                    let contents = Contents::Mapped { map: Arc::new(map), file, opened };
                    return Ok(Self { place, contents });
                }
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    return Err(cannot_map(path, opened.len, error));
                }
                // File systems without mapping, and too many mapped files, leave reading.
                _ => require(&format!("reading `{place}`"), &Need::of("", opened.len), FEWER_ROWS)?,
            }
        }
        let mut bytes = Vec::new();
        // Files of the kernel have no length but content; others are read as far as they reached when they were opened.
        let most = if about.is_file() && opened.len > 0 { opened.len } else { u64::MAX };
        let what = format_args!("reading `{place}`");
        let mut left = file.by_ref().take(most);
        loop {
            // Bit by bit: a device can have no end.
            grow(&mut bytes, BLOCK, &what, FEWER_ROWS)?;
            if left.by_ref().take(BLOCK as u64).read_to_end(&mut bytes).map_err(fail)? == 0 {
                break;
            }
        }
        if about.is_file() {
            opened.compare(Stamp::new(&file.metadata().map_err(fail)?), &place)?;
        }
        Ok(Self { place, contents: Contents::Copied(bytes) })
    }

    /// The file, for messages.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// The mapping, if it is mapped.
    pub(super) fn map(&self) -> Option<&Arc<FileMap>> {
        match &self.contents {
            Contents::Copied(_) => None,
            Contents::Mapped { map, .. } => Some(map),
        }
    }

    /// Refuses a file that was written to since it was opened.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let Contents::Mapped { map, file, opened } = &self.contents else { return Ok(()) };
        let about = file.metadata().map_err(|e| Error::io("read", Path::new(&self.place), e))?;
        opened.compare(Stamp::new(&about), &self.place)?;
        if map.is_lost() {
            return Err(Error::data(&self.place, "a part of the file could not be read from the disk")
                .with_hint("check the disk, or copy the file to another one"));
        }
        Ok(())
    }

    /// What was made of the file, unless it changed meanwhile: a message about strange content would then mislead.
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

/// What `parse` makes of the file at `path`, which must not change meanwhile.
pub(super) fn parse<T>(path: &Path, parse: impl FnOnce(&[u8], &str) -> Result<T>) -> Result<T> {
    let file = InputFile::open(path)?;
    file.unless_changed(parse(&file, file.place()))
}
