//! Runs work in Rust threads while the calling Python thread, without the interpreter's lock, waits for events and for
//! Ctrl-C.

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

/// The interval between checks for Ctrl-C, and the minimum interval between progress events.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The device, the precision of matrix products, and the number of threads.
#[derive(FromPyObject)]
pub(crate) struct ComputeOptions {
    device: String,
    precision: String,
    threads: usize,
}

/// An event as JSON.
type JsonEvent = String;

/// An observer that forwards events to the calling thread and can be asked to stop the work.
pub(crate) struct Listener {
    /// `None` if there is no callback.
    events: Option<Sender<JsonEvent>>,
    stop: Arc<AtomicBool>,
    last_progress: Instant,
}

impl Listener {
    /// Passes an event on that is not the library's.
    pub(crate) fn send(&self, event: serde_json::Value) {
        if let Some(events) = &self.events {
            // The receiver is gone if the run was stopped.
            let _ = events.send(event.to_string());
        }
    }

    /// Passes an event about progress on, unless the last one was a moment ago.
    pub(crate) fn progress(&mut self, event: impl FnOnce() -> serde_json::Value) {
        if self.events.is_some() && self.last_progress.elapsed() >= POLL_INTERVAL {
            self.last_progress = Instant::now();
            self.send(event());
        }
    }
}

impl Observer for Listener {
    fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    fn event(&mut self, event: &Event<'_>) -> Control {
        let is_progress = matches!(event, Event::Steps { .. } | Event::Working);
        if self.events.is_some() && (!is_progress || self.last_progress.elapsed() >= POLL_INTERVAL) {
            self.last_progress = Instant::now();
            self.send(event.to_json());
        }
        if self.stop.load(Ordering::Relaxed) { Control::Stop } else { Control::Continue }
    }
}

/// Runs `work` on the device, in a pool with the requested number of threads. `on_event` is called with each event in
/// the calling thread; an exception from it, or Ctrl-C, stops the work and is then raised.
pub(crate) fn compute<T: Send>(
    py: Python<'_>,
    options: &ComputeOptions,
    on_event: Option<&Bound<'_, PyAny>>,
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
    let worker_stop = stop.clone();
    let (sender, receiver) = channel();
    let (events, has_ended) = (on_event.map(|_| sender.clone()), sender);
    let mut result = None;
    let waited = pool.in_place_scope(|scope| {
        scope.spawn(|_| {
            // Dropped when the work ends, even by a panic: that wakes the calling thread.
            let _has_ended = has_ended;
            let mut listener = Listener { events, stop: worker_stop, last_progress: Instant::now() };
            let kernels = pervade_cli::cache_folder().map(KernelFolder::new);
            let kernels = kernels.as_ref().map(|folder| folder as &dyn KernelCache);
            let opened = AnyDevice::open(&options.device, precision, kernels).map_err(Error::from);
            result = Some(opened.and_then(|(device, fallback_reason)| {
                let note = fallback_reason.map(|reason| format!("using the CPU, because {reason}"));
                Ok((work(&device, &mut listener)?, note))
            }));
        });
        wait(py, receiver, on_event, &stop)
    });
    waited?;
    result.expect("the work has ended").map_err(raised)
}

/// Handles events and checks for signals until the work has ended.
fn wait(
    py: Python<'_>,
    mut receiver: Receiver<JsonEvent>,
    on_event: Option<&Bound<'_, PyAny>>,
    stop: &AtomicBool,
) -> PyResult<()> {
    let mut raised = Ok(());
    loop {
        let next;
        (receiver, next) = py.detach(move || {
            let next = receiver.recv_timeout(POLL_INTERVAL);
            (receiver, next)
        });
        let handled = match (next, on_event) {
            (Err(RecvTimeoutError::Disconnected), _) => return raised,
            (Ok(event), Some(on_event)) if raised.is_ok() => on_event.call1((event,)).map(drop),
            _ => Ok(()),
        };
        if raised.is_ok() {
            raised = handled.and_then(|()| py.check_signals());
        }
        if raised.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    }
}
