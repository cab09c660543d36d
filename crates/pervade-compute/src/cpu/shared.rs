//! A buffer that several tasks write concurrently, each its own part.

use std::marker::PhantomData;

/// A mutable slice of which several tasks write disjoint parts.
///
/// It holds the borrow of the slice, so that nothing else can access the buffer while it lives. It gives out slices for
/// contiguous parts, and a raw pointer for a [`tile`](Self::tile): between two rows of a tile there are columns of other
/// tasks, so that no reference may span them.
pub(super) struct Shared<'a, T = f32> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

// SAFETY: all access goes through `slice` and the pointer of `tile`; their callers guarantee that no other task
// accesses the same elements.
unsafe impl<T: Send> Sync for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(super) fn new(values: &'a mut [T]) -> Self {
        Self { start: values.as_mut_ptr(), len: values.len(), borrow: PhantomData }
    }

    /// The address of element `i`, for prefetching; may be beyond the end.
    #[inline(always)]
    pub(super) fn at(self, i: usize) -> *const T {
        self.start.wrapping_add(i)
    }

    /// The `len` contiguous elements from `first` on.
    ///
    /// # Safety
    /// While the slice lives, nothing else reads or writes these elements.
    #[inline(always)]
    pub(super) unsafe fn slice(self, first: usize, len: usize) -> &'a mut [T] {
        assert!(first <= self.len && len <= self.len - first, "a task's part is inside the buffer");
        // SAFETY: inside the buffer by the check; exclusive as the caller guarantees.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(first), len) }
    }

    /// A pointer to the first element of a tile, whose `rows` rows of `columns` elements are `stride` apart. The tile is
    /// inside the buffer. The caller must write through the pointer only if no other task accesses the tile.
    #[inline(always)]
    pub(super) fn tile(self, first: usize, rows: usize, stride: usize, columns: usize) -> *mut T {
        let span = rows.saturating_sub(1) * stride + columns;
        assert!(first <= self.len && span <= self.len - first, "a task's tile is inside the buffer");
        self.start.wrapping_add(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_write_adjacent_tiles() {
        const ROWS: usize = 5;
        let mut values = vec![0.0f32; ROWS * 8];
        let shared = Shared::new(&mut values);
        std::thread::scope(|scope| {
            for half in 0..2 {
                scope.spawn(move || {
                    let tile = shared.tile(half * 4, ROWS, 8, 4);
                    for (row, column) in (0..ROWS).flat_map(|row| (0..4).map(move |column| (row, column))) {
                        // SAFETY: inside the tile, and the other thread has the other four columns.
                        unsafe { tile.add(row * 8 + column).write(half as f32 + 1.0) };
                    }
                });
            }
        });
        assert!(values.iter().enumerate().all(|(i, &x)| x == if i % 8 < 4 { 1.0 } else { 2.0 }));
    }

    #[test]
    #[should_panic(expected = "inside the buffer")]
    fn a_tile_beyond_the_end_is_refused() {
        Shared::new(&mut [0.0; 40]).tile(5, 5, 8, 4);
    }

    #[test]
    #[should_panic(expected = "inside the buffer")]
    fn a_slice_whose_end_wraps_around_is_refused() {
        // SAFETY: nothing else uses the buffer.
        unsafe { Shared::new(&mut [0.0; 40]).slice(8, usize::MAX - 4) };
    }
}
