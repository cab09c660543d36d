//! A buffer that tasks write side by side, each its own part.

/// A mutable slice shared by tasks that promise to touch disjoint parts.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    start: *mut f32,
    len: usize,
}

// SAFETY: `slice` is unsafe and its callers promise that no two tasks hold the same part.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    pub(super) fn new(values: &mut [f32]) -> Self {
        Self { start: values.as_mut_ptr(), len: values.len() }
    }

    /// Where number `i` lies, to be fetched ahead; may lie beyond the end.
    #[inline(always)]
    pub(super) fn at(self, i: usize) -> *const f32 {
        self.start.wrapping_add(i)
    }

    /// The part of `len` numbers from `first` on.
    ///
    /// # Safety
    /// The buffer outlives the use, and nobody else touches this part meanwhile.
    #[inline(always)]
    pub(super) unsafe fn slice<'a>(self, first: usize, len: usize) -> &'a mut [f32] {
        assert!(first + len <= self.len, "a task's part lies inside the buffer");
        // SAFETY: inside the buffer by the check, exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(first), len) }
    }
}
