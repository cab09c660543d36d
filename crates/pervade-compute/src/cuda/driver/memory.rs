//! Memory of the device, kept alive by whoever holds it and by every recording that uses it.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use cudarc::driver::CudaSlice;

/// What a recording holds so that no address in it outlives its memory.
pub(in super::super) type Kept = Vec<Arc<dyn Any + Send + Sync>>;

/// Collects the memory that a step uses while it is recorded.
#[derive(Default)]
pub(super) struct Keeper {
    kept: Mutex<Option<Kept>>,
}

impl Keeper {
    pub(super) fn begin(&self) {
        *self.lock() = Some(Kept::new());
    }

    pub(super) fn end(&self) -> Kept {
        self.lock().take().unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Kept>> {
        self.kept.lock().expect("no thread died while recording")
    }

    fn keep<T: Send + Sync + 'static>(&self, memory: &Arc<CudaSlice<T>>) {
        if let Some(kept) = &mut *self.lock() {
            let memory: Arc<dyn Any + Send + Sync> = memory.clone();
            if kept.iter().all(|other| !Arc::ptr_eq(other, &memory)) {
                kept.push(memory);
            }
        }
    }
}

/// Numbers on the device. Asking for an address while a step is recorded makes the recording an owner, too.
pub struct DeviceMemory<T> {
    slice: Arc<CudaSlice<T>>,
    at: u64,
    len: usize,
    keeper: Arc<Keeper>,
}

impl<T: Send + Sync + 'static> DeviceMemory<T> {
    pub(super) fn new(slice: CudaSlice<T>, at: u64, len: usize, keeper: Arc<Keeper>) -> Self {
        Self { slice: Arc::new(slice), at, len, keeper }
    }

    /// How many numbers there are.
    pub(in super::super) fn len(&self) -> usize {
        self.len
    }

    /// The address of element `i`.
    pub(in super::super) fn address(&self, i: usize) -> u64 {
        assert!(i <= self.len, "an address inside the buffer");
        self.keeper.keep(&self.slice);
        self.at + (size_of::<T>() * i) as u64
    }

    /// The addresses of all elements.
    pub(in super::super) fn addresses(&self) -> Range<u64> {
        self.address(0)..self.address(self.len)
    }
}

impl<T> fmt::Debug for DeviceMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceMemory").field("len", &self.len).finish_non_exhaustive()
    }
}
