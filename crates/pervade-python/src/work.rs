//! Computing beside Python: the work runs in threads of its own while the caller, without the
//! interpreter's lock, waits for events and for Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use pervade::compute::{AnyDevice, KernelCache, Precision};
use pervade::files::KernelFolder;
use pervade::train::{Control, Event, Observer};
use pervade::{Error, Result};
use pyo3::prelude::*;

use crate::errors::raised;

/// Ctrl-C is looked for this often, and at most this often steps are told.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Where and how wide to compute.
#[derive(FromPyObject)]
pub(crate) struct ComputeOptions {
    device: String,
    precision: String,
    threads: usize,
}

/// What the work says: an event as JSON.
type Said = String;

/// The library's listener: passes events on and carries the wish to stop.
pub(crate) struct Listener {
    /// None where nobody listens.
    events: Option<Sender<Said>>,
    stop: Arc<AtomicBool>,
    last_sign: Instant,
}

impl Observer for Listener {
    fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    fn event(&mut self, event: &Event<'_>) -> Control {
        let is_sign = matches!(event, Event::Steps { .. } | Event::Working);
        if let Some(events) = &self.events
            && (!is_sign || self.last_sign.elapsed() >= BETWEEN_LOOKS)
        {
            self.last_sign = Instant::now();
            // Nobody hears the last words of a run that was stopped.
            let _ = events.send(event.described().to_string());
        }
        if self.stop.load(Ordering::Relaxed) { Control::Stop } else { Control::Continue }
    }
}

/// Runs `work` on the device, in a pool of the wanted number of threads. `hear` is called with each event
/// in the caller's thread; what it raises, and Ctrl-C, asks the work to stop and is raised when it has.
pub(crate) fn compute<T: Send>(
    py: Python<'_>,
    options: &ComputeOptions,
    hear: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&AnyDevice, &mut Listener) -> Result<T> + Send,
) -> PyResult<(T, Option<String>)> {
    let threads = options.threads;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|e| {
        raised(Error::setting("n_jobs", threads, format!("but the threads could not be started: {e}")))
    })?;
    let precision = match options.precision.as_str() {
        "fp32" => Precision::Fp32,
        "tf32" => Precision::Tf32,
        other => return Err(raised(Error::setting("precision", other, "must be `fp32` or `tf32`"))),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stop_of_work = stop.clone();
    let (says, said) = channel();
    let (events, has_ended) = (hear.map(|_| says.clone()), says);
    let mut result = None;
    let waited = pool.in_place_scope(|scope| {
        scope.spawn(|_| {
            // Dropped when the work has ended, however it did: that wakes the caller.
            let _has_ended = has_ended;
            let mut listener = Listener { events, stop: stop_of_work, last_sign: Instant::now() };
            let kernels = pervade_cli::cache_folder().map(KernelFolder::new);
            let kernels = kernels.as_ref().map(|folder| folder as &dyn KernelCache);
            let opened = AnyDevice::open(&options.device, precision, kernels).map_err(Error::from);
            result = Some(opened.and_then(|(device, why_not_cuda)| {
                let note = why_not_cuda.map(|reason| format!("using the CPU, because {reason}"));
                Ok((work(&device, &mut listener)?, note))
            }));
        });
        wait(py, said, hear, &stop)
    });
    waited?;
    result.expect("the work has ended").map_err(raised)
}

/// Hears events and looks for signals until the work has ended.
fn wait(
    py: Python<'_>,
    mut said: Receiver<Said>,
    hear: Option<&Bound<'_, PyAny>>,
    stop: &AtomicBool,
) -> PyResult<()> {
    let mut raised = Ok(());
    loop {
        let next;
        (said, next) = py.detach(move || {
            let next = said.recv_timeout(BETWEEN_LOOKS);
            (said, next)
        });
        let heard = match (next, hear) {
            (Err(RecvTimeoutError::Disconnected), _) => return raised,
            (Ok(event), Some(hear)) if raised.is_ok() => hear.call1((event,)).map(drop),
            _ => Ok(()),
        };
        if raised.is_ok() {
            raised = heard.and_then(|()| py.check_signals());
        }
        if raised.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    }
}
