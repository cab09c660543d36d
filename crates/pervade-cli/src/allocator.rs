//! An allocator that lets a program exit in order when memory runs out.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system allocator with an out-of-memory hook: if it has nothing left, `refused` is called with the number of
/// bytes requested, instead of Rust's abort.
///
/// For the global allocator of a program; a library must not set one. `refused` must not allocate.
#[derive(Debug, Clone, Copy)]
pub struct ReportingAllocator {
    refused: fn(usize) -> !,
}

impl ReportingAllocator {
    /// Calls `refused` when no memory is left.
    pub const fn new(refused: fn(usize) -> !) -> Self {
        Self { refused }
    }

    fn check(&self, memory: *mut u8, bytes: usize) -> *mut u8 {
        if memory.is_null() { (self.refused)(bytes) } else { memory }
    }
}

// SAFETY: every request is forwarded unchanged to the system allocator and its result returned; a null pointer is never
// returned, which is stricter than the contract requires. `refused` does not return, so nothing unwinds.
unsafe impl GlobalAlloc for ReportingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc`, which is that of the system allocator.
        self.check(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.check(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: `memory` came from the system allocator with this layout, because all requests go there.
        self.check(unsafe { System.realloc(memory, layout, new_size) }, new_size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Bounds the address space that the C library reserves for the allocations of threads: 64 MiB at a time for each of up
/// to eight arenas per core, too much for a limited address space.
///
/// A program should call this before it starts threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn limit_arenas() {
    // SAFETY: sets a parameter of the allocator; it is rejected or takes effect, and no memory is touched.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Other systems reserve nothing in advance.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn limit_arenas() {}
