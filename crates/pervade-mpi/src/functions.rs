//! The functions of MPI that are used, found by name.

use std::ffi::{c_char, c_int, c_void};

use libloading::Library;
use pervade_compute::Result;

use crate::abi::Abi;
use crate::failed;

type Handle = usize;
type Exchange =
    unsafe extern "C" fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle) -> c_int;

/// The longest description of a library in any interface.
const MAX_VERSION: usize = 8192;

macro_rules! functions {
    ($($field:ident = $name:literal: $signature:ty),* $(,)?) => {
        /// Functions of an opened library, which is never closed.
        pub(crate) struct Functions {
            abi: Abi,
            $($field: $signature),*
        }

        impl Functions {
            /// All functions, or the name of the first that is missing.
            pub(crate) fn find(library: &'static Library, abi: Abi) -> std::result::Result<Self, &'static str> {
                Ok(Self {
                    abi,
                    $($field: {
                        // SAFETY: the signature is that of the MPI standard.
                        let found = unsafe { library.get::<$signature>($name.as_bytes()) };
                        *found.map_err(|_| $name)?
                    }),*
                })
            }
        }
    };
}

functions! {
    init = "MPI_Init_thread": unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int,
    comm_rank = "MPI_Comm_rank": unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    comm_size = "MPI_Comm_size": unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    alltoall = "MPI_Alltoall": Exchange,
    allgather = "MPI_Allgather": Exchange,
    wait_for_all = "MPI_Barrier": unsafe extern "C" fn(Handle) -> c_int,
    finalize = "MPI_Finalize": unsafe extern "C" fn() -> c_int,
    end_all = "MPI_Abort": unsafe extern "C" fn(Handle, c_int) -> c_int,
    library_version = "MPI_Get_library_version": unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int,
}

/// The number of bytes as MPI takes it.
fn count(bytes: usize) -> Result<c_int> {
    c_int::try_from(bytes).map_err(|_| {
        failed(&format!("{bytes} bytes are more than MPI sends at once: use a smaller network or more ranks"))
    })
}

fn check(what: &str, status: c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(failed(&format!("MPI: {what} failed with status {status}"))) }
}

impl Functions {
    pub(crate) fn start(&self) -> Result<()> {
        let mut provided = 0;
        // SAFETY: null arguments are allowed since MPI-2; `provided` is written before the call returns.
        let status = unsafe {
            (self.init)(std::ptr::null_mut(), std::ptr::null_mut(), self.abi.serialized, &raw mut provided)
        };
        check("starting", status)?;
        if provided < self.abi.serialized {
            return Err(failed("this MPI cannot be called from a program with threads"));
        }
        Ok(())
    }

    pub(crate) fn rank_and_size(&self) -> Result<[usize; 2]> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: MPI was started; both integers outlive the calls.
        let status = unsafe {
            [(self.comm_rank)(self.abi.world, &raw mut rank), (self.comm_size)(self.abi.world, &raw mut size)]
        };
        status.into_iter().try_for_each(|status| check("asking for the ranks", status))?;
        Ok([rank as usize, size as usize])
    }

    pub(crate) fn version(&self) -> String {
        let mut text = vec![0u8; MAX_VERSION];
        let mut len = 0;
        // SAFETY: the buffer has the length that the standard asks for.
        let status = unsafe { (self.library_version)(text.as_mut_ptr().cast(), &raw mut len) };
        if status != 0 {
            return "an unknown MPI".to_string();
        }
        text.truncate(usize::try_from(len).unwrap_or(0).min(MAX_VERSION));
        // As "MPICH Version:      5.0.2" and "Open MPI v5.0.11, package: ..".
        let text = String::from_utf8_lossy(&text).replace(['\0', '\t'], " ").replace("Version:", " ");
        let first = text.split([',', '\n']).next().unwrap_or_default();
        first.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn all_to_all(&self, send: &[u8], received: &mut [u8], size: usize) -> Result<()> {
        let (n, byte) = (count(send.len() / size)?, self.abi.byte);
        // SAFETY: both buffers have `size` slices of `n` bytes, as the caller checked.
        let status = unsafe {
            (self.alltoall)(
                send.as_ptr().cast(),
                n,
                byte,
                received.as_mut_ptr().cast(),
                n,
                byte,
                self.abi.world,
            )
        };
        check("exchanging slices", status)
    }

    pub(crate) fn all_gather(&self, mine: &[u8], all: &mut [u8]) -> Result<()> {
        let (n, byte) = (count(mine.len())?, self.abi.byte);
        // SAFETY: `all` has a slice of `n` bytes for every rank, as the caller checked.
        let status = unsafe {
            (self.allgather)(mine.as_ptr().cast(), n, byte, all.as_mut_ptr().cast(), n, byte, self.abi.world)
        };
        check("gathering", status)
    }

    pub(crate) fn barrier(&self) -> Result<()> {
        // SAFETY: MPI was started.
        check("waiting", unsafe { (self.wait_for_all)(self.abi.world) })
    }

    pub(crate) fn finish(&self) -> Result<()> {
        // SAFETY: MPI was started, and `Mpi::finish` consumes the only value that could call it again.
        check("ending", unsafe { (self.finalize)() })
    }

    pub(crate) fn abort(&self, status: c_int) {
        // SAFETY: MPI was started.
        unsafe { (self.end_all)(self.abi.world, status) };
    }
}
