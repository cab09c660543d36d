//! Files read in place. Here because mapping a file is unsafe and unsafe code lives behind this door.

use std::fs::File;
use std::marker::PhantomData;
use std::path::Path;

use crate::memory::cannot_map;
use crate::{Error, Result};

/// Numbers of type `T` inside a mapped file.
#[derive(Debug)]
pub struct Mapped<T> {
    map: memmap2::Mmap,
    first_byte: usize,
    n_values: usize,
    element: PhantomData<T>,
}

impl<T: bytemuck::Pod> Mapped<T> {
    /// Maps `n_values` numbers of the file at `path` from byte `first_byte` on.
    ///
    /// `None` when the place is not aligned for `T`: the caller then reads a copy.
    pub fn open(path: &Path, first_byte: usize, n_values: usize) -> Result<Option<Self>> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        // SAFETY: the map is read-only and private to this value. If another program shortens the
        // file while it is mapped, reading past its new end stops the process (as with any mapped
        // file); it cannot corrupt memory, and every bit pattern is a valid `Pod` number.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| cannot_map(path, &file, e))?;
        let end = n_values.checked_mul(size_of::<T>()).and_then(|n| n.checked_add(first_byte));
        if end.is_none_or(|end| end > map.len()) {
            return Err(Error::data(
                path.display(),
                format!("the file is shorter than its header says ({} bytes)", map.len()),
            ));
        }
        let mapped = Self { map, first_byte, n_values, element: PhantomData };
        Ok(bytemuck::try_cast_slice::<u8, T>(mapped.bytes()).is_ok().then_some(mapped))
    }

    /// The numbers.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        bytemuck::cast_slice(self.bytes())
    }

    fn bytes(&self) -> &[u8] {
        &self.map[self.first_byte..self.first_byte + self.n_values * size_of::<T>()]
    }
}
