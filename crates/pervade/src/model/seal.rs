//! The checksum of a model or checkpoint file: over all of its bytes, with the checksum's own digits read as zeros.
//!
//! The entry `checksum` is part of the JSON metadata in the safetensors header, so that any safetensors reader can open
//! the file.

use std::ops::Range;
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

/// The value of the entry before the digits are known.
pub(crate) const UNSET: &str = "xxh3-128:00000000000000000000000000000000";
/// The bytes before the digits in the file: the metadata are JSON inside a JSON string.
const ENTRY: &[u8] = br#"\"checksum\":\"xxh3-128:"#;
const DIGITS: usize = 32;
/// Bytes before the safetensors header, which give its length.
const PREFIX: usize = 8;

/// The result of verifying a file's checksum.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// There is no checksum: the file was written by an earlier version.
    Absent,
    /// The checksum matches; the value of its entry.
    Intact(String),
    /// The checksum does not match.
    Broken,
}

impl Seal {
    /// Verifies the checksum of a file's bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let Some(digits) = find_digits(bytes) else { return Seal::Absent };
        let expected = digest(bytes, &digits);
        if bytes[digits] == *expected.as_bytes() {
            Seal::Intact(format!("xxh3-128:{expected}"))
        } else {
            Seal::Broken
        }
    }
}

/// The remark about a file without a checksum.
pub(crate) fn unverified(path: &Path, what: &str) -> String {
    format!(
        "{} has no checksum (written by an earlier version of pervade); its {what} could not be verified",
        path.display()
    )
}

/// Writes the checksum of a file into its entry; a file without the entry is not changed. Public for tests and fuzzing,
/// which need invalid files with a correct checksum.
#[doc(hidden)]
pub fn reseal(bytes: &mut [u8]) {
    if let Some(digits) = find_digits(bytes) {
        let digest = digest(bytes, &digits);
        bytes[digits].copy_from_slice(digest.as_bytes());
    }
}

/// The range of the digits: after the last such entry in the header.
fn find_digits(bytes: &[u8]) -> Option<Range<usize>> {
    let length = u64::from_le_bytes(bytes.get(..PREFIX)?.try_into().ok()?);
    let end = usize::try_from(length).ok()?.checked_add(PREFIX)?;
    let header = bytes.get(PREFIX..end)?;
    let start = PREFIX + header.windows(ENTRY.len()).rposition(|window| window == ENTRY)? + ENTRY.len();
    (start + DIGITS <= end).then_some(start..start + DIGITS)
}

fn digest(bytes: &[u8], digits: &Range<usize>) -> String {
    let mut hash = Xxh3::new();
    hash.update(&bytes[..digits.start]);
    hash.update(&[b'0'; DIGITS]);
    hash.update(&bytes[digits.end..]);
    format!("{:032x}", hash.digest128())
}
