//! Files mapped into memory.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

#[cfg(unix)]
use super::bus_error::Guard;

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

    /// The numbers.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        bytemuck::cast_slice(&self.file.bytes()[self.first_byte..][..self.n_values * size_of::<T>()])
    }
}
