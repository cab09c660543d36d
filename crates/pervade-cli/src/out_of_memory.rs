//! The message for an allocation that fails although its need was estimated: one line, and exit status 2.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pervade::memory;

/// The tightest limit when the command started; querying it later would need memory.
static LIMIT: OnceLock<String> = OnceLock::new();

/// Whether a thread is already ending the process: one line is enough.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether one JSON object is wanted on stdout.
static JSON: AtomicBool = AtomicBool::new(false);

/// Makes the last line a JSON object, too.
pub(crate) fn in_json() {
    JSON.store(true, Ordering::SeqCst);
}

/// Called once, before threads start: stores the limit to name if an allocation fails.
pub fn prepare() {
    if memory::is_address_space_limited() {
        crate::allocator::limit_arenas();
    }
    if let Some(available) = memory::available() {
        let _ = LIMIT.set(available.limit);
    }
}

/// Ends the process with one line on stderr; allocates nothing.
pub fn end(bytes: usize) -> ! {
    if ENDING.swap(true, Ordering::SeqCst) {
        std::thread::sleep(Duration::from_secs(1));
        std::process::exit(i32::from(crate::COULD_NOT_RUN));
    }
    let limit = LIMIT.get().map_or("what is available", String::as_str);
    write(&mut std::io::stderr(), format_args!("error: out of memory: {bytes} bytes more exceed {limit}\n"));
    if JSON.load(Ordering::SeqCst) {
        let object = format_args!(
            "{{\"error\":\"out of memory: {bytes} bytes more exceed {limit}\",\"hint\":null}}\n"
        );
        write(&mut std::io::stdout(), object);
    }
    pervade::files::try_remove_pending();
    std::process::exit(i32::from(crate::COULD_NOT_RUN))
}

/// Writes a line from a buffer on the stack.
fn write(to: &mut impl Write, text: std::fmt::Arguments<'_>) {
    let mut line = [0; 256];
    let mut rest = &mut line[..];
    let _ = rest.write_fmt(text);
    let left = rest.len();
    let _ = to.write_all(&line[..line.len() - left]).and_then(|()| to.flush());
}
