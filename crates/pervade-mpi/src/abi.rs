//! What differs between the binary interfaces: the values of handles and constants.

use std::path::Path;

use libloading::Library;

/// A binary interface. Handles are passed as machine words: MPICH's are integers, which occupy the lower half of the same
/// registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abi {
    /// `MPI_COMM_WORLD`.
    pub(crate) world: usize,
    /// `MPI_BYTE`.
    pub(crate) byte: usize,
    /// `MPI_THREAD_SERIALIZED`: any thread may call MPI, one at a time.
    pub(crate) serialized: i32,
}

/// MPICH's `mpi.h`; Intel MPI and MVAPICH share its interface.
const MPICH: Abi = Abi { world: 0x4400_0000, byte: 0x4c00_010d, serialized: 2 };
/// The MPI-5 standard, chapter "Application Binary Interface".
const STANDARD: Abi = Abi { world: 0x101, byte: 0x247, serialized: 2048 };

impl Abi {
    /// The interface of a library: Open MPI is recognised by a symbol, the standard one by its file name.
    pub(crate) fn of(library: &Library, path: &Path) -> Self {
        let address = |name: &str| {
            // SAFETY: only the address of the symbol is used, whatever its type.
            let symbol = unsafe { library.get::<*const u8>(name.as_bytes()) };
            symbol.ok().map(|symbol| *symbol as usize)
        };
        if let (Some(world), Some(byte)) = (address("ompi_mpi_comm_world"), address("ompi_mpi_byte")) {
            return Abi { world, byte, serialized: 2 };
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("libmpi_abi") { STANDARD } else { MPICH }
    }
}
