//! NCCL, opened at run time: it moves buffers from device to device. It only transports; sums are pervade's own.

use std::ffi::{CStr, c_char, c_int, c_void};

use cudarc::driver::sys::CUstream;
use libloading::Library;

use crate::{Error, Ranks, Result};

/// The library's names: the PyPI package has only the first.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// From this version on, two ranks can use one device, if `NCCL_MULTI_RANK_GPU_ENABLE` is 1.
const SHARED_DEVICE_VERSION: i32 = 23_000;

/// `ncclFloat32` of `ncclDataType_t`.
const FLOAT: c_int = 7;

/// `ncclUniqueId`: how the first rank can be reached.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; 128]);

type Handle = *mut c_void;
type Status = c_int;
type Transfer<P> = unsafe extern "C" fn(P, usize, c_int, c_int, Handle, CUstream) -> Status;

/// The functions of `nccl.h` that are used here.
struct Functions {
    version: unsafe extern "C" fn(*mut c_int) -> Status,
    unique_id: unsafe extern "C" fn(*mut UniqueId) -> Status,
    connect: unsafe extern "C" fn(*mut Handle, c_int, UniqueId, c_int) -> Status,
    abort: unsafe extern "C" fn(Handle) -> Status,
    group_start: unsafe extern "C" fn() -> Status,
    group_end: unsafe extern "C" fn() -> Status,
    send: Transfer<*const c_void>,
    receive: Transfer<*mut c_void>,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
}

impl Functions {
    /// The functions of the first library that can be opened; it is never unloaded, since its threads may outlive us.
    fn open() -> Option<Self> {
        // SAFETY: the initialisers of NCCL have no requirements on the caller.
        let library = NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the signatures are those of NCCL 2, whose interface is kept stable within the major version.
        unsafe {
            Some(Self {
                version: *library.get(b"ncclGetVersion").ok()?,
                unique_id: *library.get(b"ncclGetUniqueId").ok()?,
                connect: *library.get(b"ncclCommInitRank").ok()?,
                abort: *library.get(b"ncclCommAbort").ok()?,
                group_start: *library.get(b"ncclGroupStart").ok()?,
                group_end: *library.get(b"ncclGroupEnd").ok()?,
                send: *library.get(b"ncclSend").ok()?,
                receive: *library.get(b"ncclRecv").ok()?,
                error_string: *library.get(b"ncclGetErrorString").ok()?,
            })
        }
    }

    fn check(&self, status: Status) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: returns a static text for every status.
        let text = unsafe { CStr::from_ptr((self.error_string)(status)) };
        Err(Error::Ranks { problem: format!("NCCL failed: {}", text.to_string_lossy()) })
    }

    fn version(&self) -> Result<i32> {
        let mut version = 0;
        // SAFETY: writes one integer.
        self.check(unsafe { (self.version)(&raw mut version) })?;
        Ok(version)
    }

    /// How the first rank can be reached; the other ranks get it from there.
    fn shared_id(&self, ranks: &dyn Ranks) -> Result<UniqueId> {
        let mut id = UniqueId([0; 128]);
        if ranks.rank() == 0 {
            // SAFETY: writes the 128 bytes of the id.
            self.check(unsafe { (self.unique_id)(&raw mut id) })?;
        }
        let mut all = vec![0; 128 * ranks.size()];
        ranks.all_gather(&id.0, &mut all)?;
        id.0.copy_from_slice(&all[..128]);
        Ok(id)
    }
}

/// The elements that go to and come from one rank, as addresses on the device.
#[derive(Clone, Copy)]
pub(super) struct Slice {
    pub(super) address: u64,
    pub(super) len: usize,
}

/// The devices of all ranks, connected.
pub(super) struct Communicator {
    functions: Functions,
    handle: Handle,
    name: String,
}

// SAFETY: NCCL's functions may be called from any thread, if not from two at once; all calls come from the thread that
// trains.
unsafe impl Send for Communicator {}
// SAFETY: as above.
unsafe impl Sync for Communicator {}

impl Communicator {
    /// Connects the devices of all ranks, of which this rank has the one with `uuid`. None, on all ranks alike, if NCCL is
    /// missing on one, if their versions differ, if two share a device and not all `can_share`, or if NCCL fails to.
    pub(super) fn connect(ranks: &dyn Ranks, uuid: [u8; 16], can_share: bool) -> Result<Option<Self>> {
        let functions = Functions::open();
        let version = functions.as_ref().map_or(Ok(0), Functions::version)?;
        let own = Capability { version, can_share, uuid };
        if !can_connect(&own.of_all(ranks)?) {
            return Ok(None);
        }
        let Some(functions) = functions else { return Ok(None) };
        let id = functions.shared_id(ranks)?;
        let mut handle = std::ptr::null_mut();
        let (size, rank) = (ranks.size() as c_int, ranks.rank() as c_int);
        // SAFETY: writes the handle; the device's context is current.
        let connected = functions.check(unsafe { (functions.connect)(&raw mut handle, size, id, rank) });
        let mut all_connected = vec![0u8; ranks.size()];
        ranks.all_gather(&[u8::from(connected.is_ok())], &mut all_connected)?;
        let name = format!("NCCL {}.{}.{}", version / 10_000, version / 100 % 100, version % 100);
        let communicator = connected.is_ok().then_some(Self { functions, handle, name });
        Ok(communicator.filter(|_| all_connected.iter().all(|&connected| connected == 1)))
    }

    /// The library and its version.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Sends slice r of `sent` to rank r and receives slice r of `received` from it, for all ranks at once.
    ///
    /// # Safety
    /// The slices are live memory of this device, and nothing else uses `received` on another stream.
    pub(super) unsafe fn exchange(
        &self,
        sent: impl Iterator<Item = Slice>,
        received: impl Iterator<Item = Slice>,
        stream: CUstream,
    ) -> Result<()> {
        let Functions { group_start, group_end, send, receive, .. } = self.functions;
        // SAFETY: has no arguments.
        self.functions.check(unsafe { group_start() })?;
        let mut status = 0;
        let mut first_error = |next: Status| status = if status == 0 { next } else { status };
        for (rank, (sent, received)) in sent.zip(received).enumerate() {
            let peer = rank as c_int;
            if sent.len > 0 {
                // SAFETY: the caller's promise.
                first_error(unsafe { send(sent.address as _, sent.len, FLOAT, peer, self.handle, stream) });
            }
            if received.len > 0 {
                let Slice { address, len } = received;
                // SAFETY: the caller's promise.
                first_error(unsafe { receive(address as _, len, FLOAT, peer, self.handle, stream) });
            }
        }
        // Even after an error: a group that is open would hold back all later calls.
        // SAFETY: has no arguments.
        first_error(unsafe { group_end() });
        self.functions.check(status)
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // Unlike an orderly end, this does not wait for ranks that may have failed.
        // SAFETY: the handle is not used again.
        unsafe { (self.functions.abort)(self.handle) };
    }
}

/// What decides whether the devices can be connected.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Capability {
    /// Zero without NCCL.
    version: i32,
    /// Whether this rank may share its device.
    can_share: bool,
    /// The device's identity.
    uuid: [u8; 16],
}

impl Capability {
    const BYTES: usize = 21;

    fn of_all(&self, ranks: &dyn Ranks) -> Result<Vec<Self>> {
        let own = [&self.version.to_le_bytes()[..], &[u8::from(self.can_share)], &self.uuid].concat();
        let mut all = vec![0; Self::BYTES * ranks.size()];
        ranks.all_gather(&own, &mut all)?;
        let (all, _) = all.as_chunks::<{ Self::BYTES }>();
        let of = |bytes: &[u8; Self::BYTES]| {
            let (mut version, mut uuid) = ([0; 4], [0; 16]);
            version.copy_from_slice(&bytes[..4]);
            uuid.copy_from_slice(&bytes[5..]);
            Self { version: i32::from_le_bytes(version), can_share: bytes[4] == 1, uuid }
        };
        Ok(all.iter().map(of).collect())
    }
}

/// Whether NCCL can connect these devices.
fn can_connect(all: &[Capability]) -> bool {
    let first = all[0].version;
    let has_nccl = first > 0 && all.iter().all(|one| one.version == first);
    let is_shared =
        all.iter().enumerate().any(|(i, one)| all[..i].iter().any(|other| other.uuid == one.uuid));
    let can_share = first >= SHARED_DEVICE_VERSION && all.iter().all(|one| one.can_share);
    has_nccl && (!is_shared || can_share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_connected_if_all_have_the_same_nccl_and_their_own_device() {
        let device = |version, can_share, number| Capability { version, can_share, uuid: [number; 16] };
        assert!(can_connect(&[device(22_706, false, 1), device(22_706, false, 2)]));
        assert!(!can_connect(&[device(22_706, false, 1), device(0, false, 2)]));
        assert!(!can_connect(&[device(0, false, 1), device(0, false, 2)]));
        assert!(!can_connect(&[device(22_706, false, 1), device(23_001, false, 2)]));
        assert!(!can_connect(&[device(22_706, true, 1), device(22_706, true, 1)]));
        assert!(!can_connect(&[device(23_001, true, 1), device(23_001, false, 1)]));
        assert!(can_connect(&[device(23_001, true, 1), device(23_001, true, 1)]));
    }

    #[test]
    fn a_capability_survives_the_exchange() -> Result<()> {
        let own = Capability { version: 23_001, can_share: true, uuid: std::array::from_fn(|i| i as u8) };
        assert_eq!(own.of_all(&crate::Alone)?, [own]);
        Ok(())
    }
}
