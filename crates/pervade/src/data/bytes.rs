//! Bytes in: plain and gzip streams, and arrays of numbers that grow only as bytes arrive.

use std::io::{self, BufRead, BufReader, Read};

use bytemuck::Pod;
use flate2::read::MultiGzDecoder;

use crate::memory::{Need, grow, require};
use crate::{Error, Result};

const FEWER: &str = "give fewer rows or columns";

/// Deflate cannot pack more than this into one byte, so a claim beyond it is a lie.
const MOST_DEFLATE: u64 = 1032;

/// Bytes that are read and grown by at a time.
const BLOCK: usize = 1 << 20;

/// No line of the files that are read line by line comes near this; a packed file could hold one
/// that fills the memory.
const MOST_LINE: u64 = 1 << 24;

/// Whether these bytes are a gzip stream.
pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// A stream of bytes, with the most that can come out of it.
pub(super) struct Source<'a> {
    reader: Box<dyn Read + 'a>,
    left: u64,
    place: String,
}

impl<'a> Source<'a> {
    /// Plain bytes, or gzip bytes unpacked on the way.
    pub(super) fn of_bytes(bytes: &'a [u8], place: &str) -> Self {
        if is_gzip(bytes) { Self::gzip(bytes, place) } else { Self::plain(bytes, place) }
    }

    /// Gzip bytes, unpacked on the way.
    pub(super) fn gzip(bytes: &'a [u8], place: &str) -> Self {
        Self::packed(MultiGzDecoder::new(bytes), bytes.len() as u64, place)
    }

    /// Bytes as they are.
    pub(super) fn plain(bytes: &'a [u8], place: &str) -> Self {
        Self { reader: Box::new(bytes), left: bytes.len() as u64, place: place.to_string() }
    }

    /// A stream unpacked from `packed_bytes` bytes of deflate.
    pub(super) fn packed(reader: impl Read + 'a, packed_bytes: u64, place: &str) -> Self {
        let left = packed_bytes.saturating_mul(MOST_DEFLATE);
        Self { reader: Box::new(reader), left, place: place.to_string() }
    }

    /// The file, for messages.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Exactly `N` bytes, such as a fixed header.
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        self.reader.read_exact(&mut out).map_err(|e| self.broken(&e, N as u64))?;
        self.left = self.left.saturating_sub(N as u64);
        Ok(out)
    }

    /// Fills `block` as far as the stream reaches; how many bytes came.
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

    /// Calls `each` with the number, from 1, and the bytes of every line without its end; one line
    /// at a time is in memory.
    pub(super) fn each_line(self, mut each: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        let Self { reader, place, .. } = self;
        let mut reader = BufReader::with_capacity(BLOCK, reader);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let mut start = reader.by_ref().take(MOST_LINE);
            let n_bytes = start.read_until(b'\n', &mut line).map_err(|e| cannot_unpack(&place, &e))?;
            if n_bytes == 0 {
                break;
            }
            if n_bytes as u64 == MOST_LINE {
                return Err(Error::data(place, format!("line {number} is longer than {MOST_LINE} bytes"))
                    .with_hint("the file is damaged, or is not text"));
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            each(number, text.strip_suffix(b"\r").unwrap_or(text))?;
        }
        Ok(())
    }

    /// Appends `n` numbers as they lie in the stream.
    ///
    /// What a header claims is compared with what can be there before anything is allocated, and
    /// memory is touched only as bytes arrive.
    pub(super) fn append<T: Pod>(&mut self, n: usize, out: &mut Vec<T>) -> Result<()> {
        let claimed = self.check_room::<T>(n)?;
        require(&format!("reading `{}`", self.place), &Need::of("", claimed), FEWER)?;
        out.try_reserve_exact(n)
            .map_err(|_| Error::data(&self.place, format!("no memory for {claimed} bytes of numbers")))?;
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

    /// Refuses a claim of more numbers than can be left; else their bytes.
    pub(super) fn check_room<T>(&self, n: usize) -> Result<u64> {
        let claimed = (n as u64).saturating_mul(size_of::<T>() as u64);
        if claimed <= self.left {
            return Ok(claimed);
        }
        Err(Error::data(
            &self.place,
            format!("the header claims {claimed} bytes of numbers, the file has room for {}", self.left),
        )
        .with_hint("the file is cut short or damaged"))
    }

    /// The first bytes, at most `n`.
    pub(super) fn head(self, n: usize) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let place = self.place;
        self.reader.take(n as u64).read_to_end(&mut out).map_err(|e| cannot_unpack(&place, &e))?;
        Ok(out)
    }

    /// Everything that is left.
    pub(super) fn rest(mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            grow(&mut out, BLOCK, &format_args!("unpacking `{}`", self.place), FEWER)?;
            let mut block = self.reader.by_ref().take(BLOCK as u64);
            if block.read_to_end(&mut out).map_err(|e| cannot_unpack(&self.place, &e))? < BLOCK {
                return Ok(out);
            }
        }
    }

    /// Refuses bytes after the end; reaching it also verifies the checksum of packed streams.
    pub(super) fn finish(&mut self) -> Result<()> {
        match self.reader.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Error::data(&self.place, "there are more bytes than the header says")),
            Err(e) => Err(self.broken(&e, 0)),
        }
    }

    fn broken(&self, error: &io::Error, wanted: u64) -> Error {
        if error.kind() != io::ErrorKind::UnexpectedEof || wanted == 0 {
            return cannot_unpack(&self.place, error);
        }
        Error::data(&self.place, format!("the file ends early: {wanted} bytes were expected here"))
            .with_hint("the file is cut short or damaged")
    }
}

fn cannot_unpack(place: &str, error: &io::Error) -> Error {
    Error::data(place, format!("the file cannot be unpacked: {error}"))
        .with_hint("the file is cut short or damaged")
}
