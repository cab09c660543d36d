//! Device memory, held alive by its owner and by every recording that uses it.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use cudarc::driver::CudaSlice;

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

    fn hold<T: Send + Sync + 'static>(&self, memory: &Arc<CudaSlice<T>>) {
        if let Some(held) = &mut *self.lock() {
            let memory: Arc<dyn Any + Send + Sync> = memory.clone();
            if held.iter().all(|other| !Arc::ptr_eq(other, &memory)) {
                held.push(memory);
            }
        }
    }
}

/// A buffer on the device. Taking an address while a step is recorded makes the recording a co-owner.
pub struct DeviceMemory<T> {
    slice: Arc<CudaSlice<T>>,
    at: u64,
    len: usize,
    holder: Arc<MemoryHolder>,
}

impl<T: Send + Sync + 'static> DeviceMemory<T> {
    pub(super) fn new(slice: CudaSlice<T>, at: u64, len: usize, holder: Arc<MemoryHolder>) -> Self {
        Self { slice: Arc::new(slice), at, len, holder }
    }

    /// The number of elements.
    pub(in super::super) fn len(&self) -> usize {
        self.len
    }

    /// The address of element `i`.
    pub(in super::super) fn address(&self, i: usize) -> u64 {
        assert!(i <= self.len, "an address inside the buffer");
        self.holder.hold(&self.slice);
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
