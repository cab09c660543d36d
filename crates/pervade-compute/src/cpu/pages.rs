//! Allocation in large pages.
//!
//! A product reads one cache line of every row of the weights, each on a different page: with pages of 4 KiB,
//! TLB misses cost up to a tenth of a step. Linux provides pages of 2 MiB on request.

/// The smallest buffer that requests large pages: two pages.
const LARGE: usize = 1 << 20;

/// `len` zeros, in large pages if there are many and the system supports it.
pub(super) fn zeros(len: usize) -> Vec<f32> {
    let values = vec![0.0f32; len];
    if len >= LARGE {
        request_large_pages(&values);
    }
    values
}

/// A hint: without it, or if it is refused, everything still works.
#[cfg(target_os = "linux")]
fn request_large_pages(values: &[f32]) {
    const PAGE: usize = 4096;
    let start = values.as_ptr().addr().next_multiple_of(PAGE);
    let end = values.as_ptr_range().end.addr() / PAGE * PAGE;
    let first = values.as_ptr().wrapping_byte_add(start - values.as_ptr().addr());
    // SAFETY: the range is inside a live allocation, and this advice changes no contents.
    unsafe { libc::madvise(first.cast_mut().cast(), end - start, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn request_large_pages(_values: &[f32]) {}
