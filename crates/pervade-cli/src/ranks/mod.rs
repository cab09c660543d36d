//! Training by several processes (ranks) that an MPI launcher has started: opening MPI, one voice for all ranks, and where
//! their time goes.

mod launcher;
mod same_answers;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use pervade::compute::{self, Ranks};
use pervade::train::Observer;
use pervade::{Error, Result};
use pervade_mpi::Mpi;
use serde::Serialize;

use crate::console::Console;
use crate::{COULD_NOT_RUN, Outcome, interrupt, words};
pub(crate) use launcher::{default_threads, may_share_device, own_device};
use same_answers::SameAnswers;

/// How long other ranks wait before they report an error: that of the first rank is usually the same, and ends them.
const PATIENCE: Duration = Duration::from_secs(1);

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

/// How the ranks worked together.
#[derive(Serialize, Clone)]
pub(crate) struct RankReport {
    ranks: usize,
    library: String,
    /// How gradients travel between ranks.
    gradients_by: String,
    /// None if the devices exchange gradients among themselves: the host then runs ahead of them and cannot time a step.
    #[serde(flatten)]
    step: Option<StepTime>,
}

/// Where the time of a training step goes on the first rank.
#[derive(Serialize, Clone)]
struct StepTime {
    steps: u32,
    step_seconds: f64,
    compute_seconds: f64,
    exchange_seconds: f64,
    wait_seconds: f64,
}

impl Job {
    /// Starts MPI if `wanted`; refuses a launcher that started several processes which would not know of each other.
    pub(crate) fn open(wanted: Option<&str>, console: &Console) -> Result<Self> {
        let launched = launcher::n_launched();
        let mpi = match wanted {
            None if launched > 1 => {
                let problem = format!(
                    "a launcher started {launched} of this process, and each would fit the same model"
                );
                launcher::leave_the_message_to_the_first();
                return Err(Error::device(problem)
                    .with_hint("add `--ranks mpi` for them to train together, or start one process"));
            }
            None => None,
            Some(_) => Some(launcher::start()?),
        };
        let job = Self { mpi, spent: Mutex::default() };
        if let Some(mpi) = job.mpi.as_ref().filter(|_| job.is_first()) {
            let version = mpi.version();
            console.say(&format!("{} with {version}", words::counted(job.size(), "rank")));
            if job.size() > 1 && launcher::is_bound_to_one_core() {
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
        SameAnswers::new(inner, self)
    }

    /// Where the time of a step went, in the mean, if there are ranks; `device_exchange` moves gradients from device to
    /// device, if there is such a library.
    pub(crate) fn report(&self, device_exchange: Option<&str>) -> Option<RankReport> {
        let mpi = self.mpi.as_ref()?;
        let spent = self.spent();
        let per_step = |time: Duration| time.as_secs_f64() / f64::from(spent.n_steps.max(1));
        let [exchange, wait] = spent.in_steps.map(per_step);
        let step = StepTime {
            steps: spent.n_steps,
            step_seconds: per_step(spent.steps),
            compute_seconds: per_step(spent.steps) - exchange - wait,
            exchange_seconds: exchange,
            wait_seconds: wait,
        };
        Some(RankReport {
            ranks: mpi.size(),
            library: mpi.version().to_string(),
            step: device_exchange.is_none().then_some(step),
            gradients_by: device_exchange.unwrap_or("host memory").to_string(),
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
}
