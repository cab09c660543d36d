//! Memory that the device reads and writes, held alive by its owner and by every recording that uses it.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Shared ownership of the memory that a recording uses, so that no address in it dangles.
pub(in super::super) type HeldMemory = Vec<Arc<dyn Any + Send + Sync>>;

/// Collects the memory that a step uses while it is recorded.
#[derive(Default)]
pub(super) struct MemoryHolder {
    held: Mutex<Option<HeldMemory>>,
}

impl MemoryHolder {
    pub(super) fn begin(&self) {
        *self.lock() = Some(HeldMemory::new());
    }

    pub(super) fn end(&self) -> HeldMemory {
        self.lock().take().unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<HeldMemory>> {
        self.held.lock().expect("no thread died while recording")
    }

    fn hold(&self, memory: &Arc<dyn Any + Send + Sync>) {
        if let Some(held) = &mut *self.lock()
            && held.iter().all(|other| !Arc::ptr_eq(other, memory))
        {
            held.push(memory.clone());
        }
    }
}

/// A buffer on the device, or in host memory that the device can address. Taking an address while a step is recorded makes the recording a co-owner.
pub struct DeviceMemory<T> {
    /// The allocation.
    owner: Arc<dyn Any + Send + Sync>,
    at: u64,
    len: usize,
    holder: Arc<MemoryHolder>,
    elements: PhantomData<T>,
}

impl<T: Send + Sync + 'static> DeviceMemory<T> {
    /// `owner` is an allocation with `len` elements at the address `at`.
    pub(super) fn new(owner: impl Any + Send + Sync, at: u64, len: usize, holder: Arc<MemoryHolder>) -> Self {
        Self { owner: Arc::new(owner), at, len, holder, elements: PhantomData }
    }

    /// The number of elements.
    pub(in super::super) fn len(&self) -> usize {
        self.len
    }

    /// The address of element `i`.
    pub(in super::super) fn address(&self, i: usize) -> u64 {
        assert!(i <= self.len, "an address inside the buffer");
        self.holder.hold(&self.owner);
        self.at + (size_of::<T>() * i) as u64
    }

    /// The address range of the buffer.
    pub(in super::super) fn addresses(&self) -> Range<u64> {
        self.address(0)..self.address(self.len)
    }
}

impl<T> fmt::Debug for DeviceMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceMemory").field("len", &self.len).finish_non_exhaustive()
    }
}
