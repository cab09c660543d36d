//! Signals: the first asks training to stop where it can be resumed, the second ends the process. Commands that do not
//! train exit at once, and leave no unfinished file.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Set by the first signal, for work on several threads.
static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// The signal that was received; zero for none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Whether some code polls for a stop several times a second.
static POLLED: AtomicBool = AtomicBool::new(false);
/// Whether that code has seen the signal.
static HEARD: AtomicBool = AtomicBool::new(false);
static RESUMABLE: AtomicBool = AtomicBool::new(false);

/// Work that does not react to a signal within this time is ended.
const PATIENCE: Duration = Duration::from_millis(1800);

/// Ctrl-C.
const SIGINT: i32 = 2;

/// Installs the signal handlers: called once, before anything else. If the system refuses, signals end the process as
/// usual.
pub(crate) fn install() {
    // A library user, such as Python, may run several commands in one process.
    STOP.store(false, Ordering::SeqCst);
    SIGNAL.store(0, Ordering::SeqCst);
    POLLED.store(false, Ordering::SeqCst);
    HEARD.store(false, Ordering::SeqCst);
    RESUMABLE.store(false, Ordering::SeqCst);
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(listen_to_signals);
}

#[cfg(unix)]
fn listen_to_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    // A file that exceeds its size limit then fails to be written, like on a full disk.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    // Signals that `nohup`, or a shell for background jobs, ignores on purpose stay ignored.
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return };
    let thread = std::thread::Builder::new().name("signals".to_string()).stack_size(1 << 18);
    let _ = thread.spawn(move || signals.forever().for_each(received));
}

#[cfg(not(unix))]
fn listen_to_signals() {
    let _ = ctrlc::set_handler(|| received(SIGINT));
}

/// Whether the process was started with this signal ignored.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// Runs in its own thread, not in a signal handler.
fn received(signal: i32) {
    if SIGNAL.swap(signal, Ordering::SeqCst) != 0 || !POLLED.load(Ordering::SeqCst) {
        end(signal);
    }
    STOP.store(true, Ordering::SeqCst);
    // Polling code sees the signal within moments and may then take as long as saving takes. A single step that takes
    // longer than people wait is aborted.
    std::thread::spawn(move || {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if HEARD.load(Ordering::SeqCst) || !POLLED.load(Ordering::SeqCst) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let checkpoint = if resumable() {
            "; the last checkpoint is complete, and the same command with `--resume` continues from it"
        } else {
            ""
        };
        crate::console::Console::always(&format!("error: interrupted in the middle of a step{checkpoint}"));
        end(signal);
    });
}

fn end(signal: i32) -> ! {
    end_with(exit_code(signal))
}

/// Ends the process and leaves no unfinished file.
pub(crate) fn end_with(status: u8) -> ! {
    pervade::files::remove_pending();
    std::process::exit(i32::from(status));
}

/// The exit status that shells report for a process ended by the signal.
fn exit_code(signal: i32) -> u8 {
    128 + signal as u8
}

/// Declares that [`asked`] is called several times a second until the guard is dropped.
pub(crate) fn poll() -> Polled {
    POLLED.store(true, Ordering::SeqCst);
    Polled
}

/// Makes a first signal wait for pending writes until the guard is dropped.
pub(crate) fn wait_for_writing() {
    HEARD.store(true, Ordering::SeqCst);
}

/// While this is alive, a first signal only sets a flag.
pub(crate) struct Polled;

impl Drop for Polled {
    fn drop(&mut self) {
        POLLED.store(false, Ordering::SeqCst);
    }
}

/// Whether a signal asked the command to stop.
pub(crate) fn asked() -> bool {
    let asked = SIGNAL.load(Ordering::SeqCst) != 0;
    if asked {
        HEARD.store(true, Ordering::SeqCst);
    }
    asked
}

/// The flag that is set once a signal asked the command to stop.
pub(crate) fn flag() -> Arc<AtomicBool> {
    STOP.clone()
}

/// The exit code of a command that was asked to stop.
pub(crate) fn status() -> u8 {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => exit_code(SIGINT),
        signal => exit_code(signal),
    }
}

/// An error if a signal asked the command to stop.
pub(crate) fn check(stage: &'static str) -> pervade::Result<()> {
    if asked() { Err(pervade::Error::Interrupted { stage, epoch: 0 }) } else { Ok(()) }
}

/// Records that there is a checkpoint to resume from.
pub(crate) fn set_resumable() {
    RESUMABLE.store(true, Ordering::SeqCst);
}

/// Whether a stopped run can be resumed.
pub(crate) fn resumable() -> bool {
    RESUMABLE.load(Ordering::SeqCst)
}
