//! Byte sources: plain and gzip streams, and arrays of numbers that grow only as bytes arrive.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use bytemuck::Pod;
use flate2::read::MultiGzDecoder;

use super::mapped::FileMap;
use crate::memory::{Need, grow, require};
use crate::{Error, Result};

const FEWER: &str = "give fewer rows or columns";

/// Deflate cannot pack more than this many bytes into one, so a larger claim is false.
const MAX_DEFLATE: u64 = 1032;

/// Bytes read, and capacity added, at a time.
const BLOCK: usize = 1 << 20;

/// Far longer than any line of a valid file; a packed file could otherwise hold one that fills the memory.
const MAX_LINE: u64 = 1 << 24;

/// Whether these bytes are a gzip stream.
pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// The bytes of a file, in its map or in memory of their own.
#[derive(Clone)]
pub(super) enum FileBytes {
    /// In the map.
    Mapped(Arc<FileMap>),
    /// Unpacked, or read from a pipe.
    Owned(Arc<Vec<u8>>),
}

#[cfg(any(feature = "parquet", feature = "text"))]
impl FileBytes {
    /// Gives memory back to the system if the file is mapped.
    pub(super) fn release(&self) {
        if let FileBytes::Mapped(map) = self {
            map.release(0..map.bytes().len());
        }
    }
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            FileBytes::Mapped(map) => map.bytes(),
            FileBytes::Owned(bytes) => bytes,
        }
    }
}

/// A stream of bytes, with an upper bound on how many it can yield.
pub(super) struct Source<'a> {
    reader: Box<dyn Read + 'a>,
    left: u64,
    location: String,
}

impl<'a> Source<'a> {
    /// Plain bytes, or gzip bytes unpacked while they are read.
    pub(super) fn of_bytes(bytes: &'a [u8], location: &str) -> Self {
        if is_gzip(bytes) { Self::gzip(bytes, location) } else { Self::plain(bytes, location) }
    }

    /// Gzip bytes, unpacked while they are read.
    pub(super) fn gzip(bytes: &'a [u8], location: &str) -> Self {
        Self::packed(MultiGzDecoder::new(bytes), bytes.len() as u64, location)
    }

    /// Unpacked bytes.
    pub(super) fn plain(bytes: &'a [u8], location: &str) -> Self {
        Self { reader: Box::new(bytes), left: bytes.len() as u64, location: location.to_string() }
    }

    /// A stream unpacked from `packed_bytes` bytes of deflate.
    pub(super) fn packed(reader: impl Read + 'a, packed_bytes: u64, location: &str) -> Self {
        let left = packed_bytes.saturating_mul(MAX_DEFLATE);
        Self { reader: Box::new(reader), left, location: location.to_string() }
    }

    /// The file name for messages.
    pub(super) fn location(&self) -> &str {
        &self.location
    }

    /// Exactly `N` bytes, such as a fixed header.
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        self.reader.read_exact(&mut out).map_err(|e| self.broken(&e, N as u64))?;
        self.left = self.left.saturating_sub(N as u64);
        Ok(out)
    }

    /// Fills `block` as far as the stream reaches; returns the number of bytes read.
    pub(super) fn fill(&mut self, block: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < block.len() {
            match self.reader.read(&mut block[filled..]).map_err(|e| self.broken(&e, 0))? {
                0 => break,
                n => filled += n,
            }
        }
        Ok(filled)
    }

    /// Calls `each` with the number (from 1) and the bytes of every line, without its line end. Only one line is in
    /// memory at a time.
    pub(super) fn each_line(self, mut each: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        let Self { reader, location, .. } = self;
        let mut reader = BufReader::with_capacity(BLOCK, reader);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let mut start = reader.by_ref().take(MAX_LINE);
            let n_bytes = start.read_until(b'\n', &mut line).map_err(|e| cannot_unpack(&location, &e))?;
            if n_bytes == 0 {
                break;
            }
            if n_bytes as u64 == MAX_LINE {
                return Err(Error::data(location, format!("line {number} is longer than {MAX_LINE} bytes"))
                    .with_hint("the file is damaged, or is not text"));
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            each(number, text.strip_suffix(b"\r").unwrap_or(text))?;
        }
        Ok(())
    }

    /// Appends the next `n` numbers of the stream.
    ///
    /// The claim of a header is checked against what can be left before anything is allocated, and memory is touched
    /// only as bytes arrive.
    pub(super) fn append<T: Pod>(&mut self, n: usize, out: &mut Vec<T>) -> Result<()> {
        let claimed = self.check_room::<T>(n)?;
        require(&format!("reading `{}`", self.location), &Need::of("", claimed), FEWER)?;
        out.try_reserve_exact(n)
            .map_err(|_| Error::data(&self.location, format!("no memory for {claimed} bytes of numbers")))?;
        let mut missing = n;
        while missing > 0 {
            let now = missing.min(BLOCK / size_of::<T>());
            let start = out.len();
            out.resize(start + now, T::zeroed());
            let bytes = bytemuck::cast_slice_mut(&mut out[start..]);
            self.reader.read_exact(bytes).map_err(|e| self.broken(&e, claimed))?;
            missing -= now;
        }
        self.left -= claimed;
        Ok(())
    }

    /// The size in bytes of `n` numbers; an error if that is more than can be left.
    pub(super) fn check_room<T>(&self, n: usize) -> Result<u64> {
        let claimed = (n as u64).saturating_mul(size_of::<T>() as u64);
        if claimed <= self.left {
            return Ok(claimed);
        }
        Err(Error::data(
            &self.location,
            format!("the header claims {claimed} bytes of numbers, the file has room for {}", self.left),
        )
        .with_hint("the file is cut short or damaged"))
    }

    /// The first bytes, at most `n`.
    pub(super) fn head(self, n: usize) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let location = self.location;
        self.reader.take(n as u64).read_to_end(&mut out).map_err(|e| cannot_unpack(&location, &e))?;
        Ok(out)
    }

    /// All bytes that are left.
    pub(super) fn rest(mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            grow(&mut out, BLOCK, &format_args!("unpacking `{}`", self.location), FEWER)?;
            let mut block = self.reader.by_ref().take(BLOCK as u64);
            if block.read_to_end(&mut out).map_err(|e| cannot_unpack(&self.location, &e))? < BLOCK {
                return Ok(out);
            }
        }
    }

    /// Returns an error unless the stream is at its end; reaching it also verifies the checksum of packed streams.
    pub(super) fn finish(&mut self) -> Result<()> {
        match self.reader.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Error::data(&self.location, "there are more bytes than the header says")),
            Err(e) => Err(self.broken(&e, 0)),
        }
    }

    fn broken(&self, error: &io::Error, wanted: u64) -> Error {
        if error.kind() != io::ErrorKind::UnexpectedEof || wanted == 0 {
            return cannot_unpack(&self.location, error);
        }
        Error::data(&self.location, format!("the file ends early: {wanted} bytes were expected here"))
            .with_hint("the file is cut short or damaged")
    }
}

pub(super) fn cannot_unpack(location: &str, error: &io::Error) -> Error {
    Error::data(location, format!("the file cannot be unpacked: {error}"))
        .with_hint("the file is cut short or damaged")
}
