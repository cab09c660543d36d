//! MPI, opened at run time. Nothing of it is needed to build, and one program works with the three binary interfaces in
//! use: that of the MPI-5 standard, MPICH's and Open MPI's.
//!
//! MPI only moves bytes here; sums are pervade's own, so that they do not depend on the library or on the number of
//! processes.

mod abi;
mod functions;

use std::path::{Path, PathBuf};

use libloading::Library;
use pervade_compute::{Error, Ranks, Result};

use abi::Abi;
use functions::Functions;

/// All processes of an MPI job. It ends with [`Mpi::finish`] or [`Mpi::abort`].
pub struct Mpi {
    functions: Functions,
    rank: usize,
    size: usize,
    path: PathBuf,
    version: String,
    /// Never unloaded: MPI's own threads may still use it.
    _library: &'static Library,
}

/// A library that could not be opened, and why.
#[derive(Debug)]
pub struct NotOpened {
    /// The file.
    pub path: PathBuf,
    /// The reason of the system's loader.
    pub reason: String,
}

impl Mpi {
    /// Opens the first of these libraries that is there and starts MPI.
    pub fn start(candidates: &[PathBuf]) -> std::result::Result<Result<Self>, Vec<NotOpened>> {
        let mut failed = Vec::new();
        for path in candidates {
            match open(path) {
                Ok(library) => return Ok(Self::start_with(library, path)),
                Err(reason) => failed.push(NotOpened { path: path.clone(), reason }),
            }
        }
        Err(failed)
    }

    fn start_with(library: Library, path: &Path) -> Result<Self> {
        let library: &'static Library = Box::leak(Box::new(library));
        let abi = Abi::of(library, path);
        let functions = Functions::find(library, abi).map_err(|missing| {
            failed(&format!("`{}` is not a library of MPI: it has no `{missing}`", path.display()))
        })?;
        functions.start()?;
        let [rank, size] = functions.rank_and_size()?;
        Ok(Self { version: functions.version(), functions, rank, size, path: path.into(), _library: library })
    }

    /// The library's own description: name and version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The library's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until all ranks are here.
    pub fn barrier(&self) -> Result<()> {
        self.functions.barrier()
    }

    /// Ends MPI in an orderly way; all ranks call it.
    pub fn finish(self) -> Result<()> {
        self.functions.finish()
    }

    /// Ends all processes of the job with this exit status; the standard does not promise that this one is gone when the
    /// call returns.
    pub fn abort(&self, status: i32) {
        self.functions.abort(status);
    }
}

impl Ranks for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_to_all(&self, send: &[u8], received: &mut [u8]) -> Result<()> {
        assert!(
            send.len() == received.len() && send.len().is_multiple_of(self.size),
            "slices for every rank"
        );
        self.functions.all_to_all(send, received, self.size)
    }

    fn all_gather(&self, mine: &[u8], all: &mut [u8]) -> Result<()> {
        assert_eq!(all.len(), mine.len() * self.size, "a slice of every rank");
        self.functions.all_gather(mine, all)
    }
}

/// Opens a library such that its plug-ins find its symbols, as Open MPI's must.
fn open(path: &Path) -> std::result::Result<Library, String> {
    #[cfg(unix)]
    {
        use std::error::Error as _;

        use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
        // SAFETY: the initialisers of an MPI library have no requirements on the caller.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
        library
            .map(Into::into)
            .map_err(|e| e.source().map_or_else(|| e.to_string(), |source| source.to_string()))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        Err("MPI is supported on Unix only".to_string())
    }
}

fn failed(problem: &str) -> Error {
    Error::Ranks { problem: problem.to_string() }
}
