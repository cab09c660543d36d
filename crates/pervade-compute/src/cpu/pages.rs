//! Zeros in large pages.
//!
//! A product walks the weights a line in every row, each on a page of its own: with pages of 4 KiB the
//! look-up of addresses costs as much as a tenth of a step. Linux gives pages of 2 MiB to those who ask.

/// Numbers from which large pages are asked for: two of them.
const LARGE: usize = 1 << 20;

/// `len` zeros; many of them in large pages where the system has them.
pub(super) fn zeros(len: usize) -> Vec<f32> {
    let numbers = vec![0.0f32; len];
    if len >= LARGE {
        ask_for_large_pages(&numbers);
    }
    numbers
}

/// Advice only: without it, or where it is refused, everything works as before.
#[cfg(target_os = "linux")]
fn ask_for_large_pages(numbers: &[f32]) {
    const PAGE: usize = 4096;
    let start = numbers.as_ptr().addr().next_multiple_of(PAGE);
    let end = numbers.as_ptr_range().end.addr() / PAGE * PAGE;
    let first = numbers.as_ptr().wrapping_byte_add(start - numbers.as_ptr().addr());
    // SAFETY: the range lies inside a live allocation, and this advice changes no contents.
    unsafe { libc::madvise(first.cast_mut().cast(), end - start, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_numbers: &[f32]) {}
