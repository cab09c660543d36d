//! Files mapped into memory.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

#[cfg(unix)]
use super::bus_error::Guard;

/// A pass reads a few hundred megabytes in this time at most.
const RELEASE_INTERVAL: Duration = Duration::from_millis(50);

/// The bytes of a file, mapped into memory.
///
/// Other programs can change the file while it is mapped. Reads then see the old bytes, the new bytes, or zeros where
/// the file was cut off ([`FileMap::is_lost`]); the process is not killed.
#[derive(Debug)]
pub struct FileMap {
    // Declared first: the guard must be dropped before the memory that it guards.
    #[cfg(unix)]
    guard: Guard,
    map: memmap2::Mmap,
}

impl FileMap {
    /// Maps the first `len` bytes of `file`.
    ///
    /// `None` if a later truncation could not be handled because too many files are mapped: the caller should read a
    /// copy.
    pub fn new(file: &File, len: usize) -> io::Result<Option<Self>> {
        // SAFETY: the map is read-only and only exposed as plain bytes and `Pod` numbers, for which every bit pattern
        // is valid. If another program changes the file, later reads see other bytes; callers compare the file's state
        // afterwards and discard their results. If it shortens the file, the guard below (on Windows the system, which
        // refuses to shorten a mapped file) keeps the process alive.
        let map = unsafe { memmap2::MmapOptions::new().len(len).map(file) }?;
        #[cfg(unix)]
        let Some(guard) = Guard::new(map.as_ptr().addr(), map.len()) else { return Ok(None) };
        Ok(Some(Self {
            #[cfg(unix)]
            guard,
            map,
        }))
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Gives the memory of these bytes back to the system, which reads them from the file again when they are needed. Without
    /// it, a pass over a large file fills the memory with pages that it no longer needs.
    pub fn release(&self, bytes: Range<usize>) {
        #[cfg(unix)]
        {
            let end = bytes.end.min(self.map.len());
            let length = end.saturating_sub(bytes.start);
            if length > 0 {
                // SAFETY: the map is shared and read-only, so that a page that is dropped has the same bytes when it is
                // read again: those of the file.
                let _ = unsafe {
                    self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, bytes.start, length)
                };
            }
        }
        #[cfg(not(unix))]
        let _ = bytes;
    }

    /// [Releases](FileMap::release) all bytes again and again until the map is dropped: passes over the file, in whatever
    /// order they read it, then only have what they read last in memory.
    pub fn keep_small(self: &Arc<Self>) {
        let map = Arc::downgrade(self);
        // Without the thread the system reclaims the pages itself when memory becomes scarce.
        let _ =
            std::thread::Builder::new().name("release".to_string()).stack_size(1 << 16).spawn(move || {
                while let Some(map) = map.upgrade() {
                    map.release(0..map.map.len());
                    drop(map);
                    std::thread::sleep(RELEASE_INTERVAL);
                }
            });
    }

    /// Whether some of the bytes were already gone and read as zeros.
    pub fn is_lost(&self) -> bool {
        #[cfg(unix)]
        return self.guard.is_lost();
        #[cfg(not(unix))]
        false
    }
}

/// Numbers of type `T` inside a mapped file.
#[derive(Debug)]
pub struct Mapped<T> {
    file: Arc<FileMap>,
    first_byte: usize,
    n_values: usize,
    element: PhantomData<T>,
}

impl<T: bytemuck::Pod> Mapped<T> {
    /// The `n_values` numbers of `file` starting at byte `first_byte`.
    ///
    /// `None` if the file has fewer, or they are not aligned for `T`: the caller should read a copy.
    pub fn new(file: Arc<FileMap>, first_byte: usize, n_values: usize) -> Option<Self> {
        let end = n_values.checked_mul(size_of::<T>())?.checked_add(first_byte)?;
        let bytes = file.bytes().get(first_byte..end)?;
        bytemuck::try_cast_slice::<u8, T>(bytes).ok()?;
        Some(Self { file, first_byte, n_values, element: PhantomData })
    }

    /// Some of the numbers, in the same file.
    pub fn slice(&self, values: Range<usize>) -> Self {
        debug_assert!(values.end <= self.n_values);
        Self {
            file: self.file.clone(),
            first_byte: self.first_byte + values.start * size_of::<T>(),
            n_values: values.len(),
            element: PhantomData,
        }
    }

    /// Gives the memory of some of the numbers back to the system; see [`FileMap::release`].
    pub fn release(&self, values: Range<usize>) {
        let byte = |index: usize| self.first_byte + index * size_of::<T>();
        self.file.release(byte(values.start)..byte(values.end));
    }

    /// The numbers.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        bytemuck::cast_slice(&self.file.bytes()[self.first_byte..][..self.n_values * size_of::<T>()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn released_bytes_are_read_again() {
        let mut file = tempfile::tempfile().unwrap();
        let numbers: Vec<u32> = (0..100_000).collect();
        file.write_all(bytemuck::cast_slice(&numbers)).unwrap();
        let map = Arc::new(FileMap::new(&file, 400_000).unwrap().unwrap());
        map.keep_small();
        let mapped: Mapped<u32> = Mapped::new(map, 0, 100_000).unwrap();
        for range in [0..100_000, 5..7, 99_999..100_000, 3..3] {
            assert_eq!(mapped.as_slice(), numbers);
            mapped.release(range);
        }
        assert_eq!(mapped.slice(1_000..1_003).as_slice(), [1_000, 1_001, 1_002]);
    }
}
