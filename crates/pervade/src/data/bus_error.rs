//! A handler for SIGBUS in mapped files: lost pages become zeros and a flag instead of killing the process.
//!
//! A file that is shortened while it is mapped has no bytes behind the pages beyond its new end, and the system sends
//! SIGBUS to the thread that reads them. The handler looks the address up in a table of our own mappings, replaces
//! the lost pages with zeros and marks the mapping; the owner of the mapping checks the mark and reports it. Any other
//! SIGBUS goes to the handler that was installed before.
//!
//! The handler can run between any two instructions of any thread, so it takes no lock, allocates nothing and shares
//! only atomics with the rest of the program.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mappings that can be guarded at the same time; further files are read into memory instead.
const MAX_MAPPINGS: usize = 1024;

/// `start` of an entry that is not in use, and of one that is being filled in. No mapping lies at these addresses.
const FREE: usize = 0;
const CLAIMED: usize = 1;

/// The address range of one mapping, and whether a part of it was lost.
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicBool,
}

static ENTRIES: [Entry; MAX_MAPPINGS] = [const {
    Entry { start: AtomicUsize::new(FREE), end: AtomicUsize::new(0), lost: AtomicBool::new(false) }
}; MAX_MAPPINGS];

/// What the handler needs; set before the handler is installed.
struct Before {
    page_bytes: usize,
    /// The action for SIGBUS before ours.
    action: libc::sigaction,
}

static BEFORE: OnceLock<Option<Before>> = OnceLock::new();
static IS_INSTALLED: OnceLock<bool> = OnceLock::new();

/// The guard of one mapping. It must be dropped before the memory is unmapped.
#[derive(Debug)]
pub(super) struct Guard {
    index: usize,
}

impl Guard {
    /// Guards the `len` bytes at address `start`, which must be a read-only mapping of a file. `None` when the table
    /// is full or the handler cannot be installed.
    pub(super) fn new(start: usize, len: usize) -> Option<Self> {
        if !IS_INSTALLED.get_or_init(install) {
            return None;
        }
        let claim = |entry: &Entry| {
            entry.start.compare_exchange(FREE, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let index = ENTRIES.iter().position(claim)?;
        let entry = &ENTRIES[index];
        entry.lost.store(false, Ordering::Relaxed);
        entry.end.store(start + len, Ordering::Release);
        entry.start.store(start, Ordering::Release);
        Some(Self { index })
    }

    /// Whether part of the mapping had to be replaced with zeros.
    pub(super) fn is_lost(&self) -> bool {
        ENTRIES[self.index].lost.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        ENTRIES[self.index].start.store(FREE, Ordering::Release);
    }
}

/// Installs the handler; returns whether that worked.
fn install() -> bool {
    let Some(before) = BEFORE.get_or_init(before) else { return false };
    // The signal mask, and the alternate stack if a thread has one, stay as they were; the handler needs little.
    let mut action = before.action;
    action.sa_sigaction = on_bus_error as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is a valid action whose handler has the signature that SA_SIGINFO asks for.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) == 0 }
}

fn before() -> Option<Before> {
    // SAFETY: an all-zero `sigaction` is a valid value of this plain C struct, to be overwritten below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a query that changes nothing; `action` is valid memory for the result.
    let queried = unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut action) };
    // SAFETY: a query without arguments in memory.
    let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    (queried == 0 && page_bytes.is_power_of_two()).then_some(Before { page_bytes, action })
}

/// The handler.
extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the system passes a valid `siginfo_t`.
    let code = unsafe { (*info).si_code };
    // Codes of faults; a signal that another process sent has no address.
    let is_fault = (1..=5).contains(&code);
    // SAFETY: as above, and for a fault the address is the part of the union that is set.
    if is_fault && replace_by_zeros(unsafe { (*info).si_addr() }.addr()) {
        return;
    }
    pass_on(signal, info, context, is_fault);
}

/// Maps zeros from the page of `address` to the end of its mapping and marks that as lost; returns whether
/// `address` lies in one of ours.
///
/// All pages to the end are replaced at once: a shortened file has lost them all, and replacing them one by one in
/// random order would split the mapping into more pieces than the system allows.
fn replace_by_zeros(address: usize) -> bool {
    let Some(Some(before)) = BEFORE.get() else { return false };
    for entry in &ENTRIES {
        let start = entry.start.load(Ordering::Acquire);
        let end = entry.end.load(Ordering::Acquire);
        // The second look at `start` rules out an entry that was released and claimed again in between.
        let holds = start > CLAIMED && (start..end).contains(&address);
        if !holds || entry.start.load(Ordering::Acquire) != start {
            continue;
        }
        entry.lost.store(true, Ordering::Release);
        let page = address & !(before.page_bytes - 1);
        // SAFETY: the pages belong to a live mapping of ours, because a thread was reading it when it faulted. They
        // are read-only and hold plain bytes, so replacing them invalidates nothing. `mmap` is a system call that
        // changes `errno` only if it fails.
        let zeros = unsafe {
            libc::mmap(
                page as *mut c_void,
                end - page,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        return zeros != libc::MAP_FAILED;
    }
    false
}

/// Handles the signal as it would have been handled without us.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, is_fault: bool) {
    let previous = BEFORE.get().and_then(Option::as_ref).map(|before| before.action);
    let handler = previous.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    match (handler, previous) {
        (libc::SIG_IGN, _) if !is_fault => {}
        (libc::SIG_DFL | libc::SIG_IGN, _) | (_, None) => {
            // SAFETY: both are system calls that may be made in a handler. A fault repeats when the handler returns and
            // then has the default action; a signal that was sent has to be sent again.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if !is_fault {
                    libc::raise(signal);
                }
            }
        }
        (_, Some(action)) if action.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the system itself would call this address with these arguments.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        _ => {
            // SAFETY: the system itself would call this address with this argument.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_refuses_and_released_entries_are_used_again() {
        // Addresses of the kernel, where no fault of ours can lie.
        let start = |i: usize| usize::MAX / 2 + 0x1000 * i;
        let mut guards: Vec<Guard> = (0..MAX_MAPPINGS).map_while(|i| Guard::new(start(i), 0x1000)).collect();
        assert!(guards.len() > MAX_MAPPINGS / 2, "{}", guards.len());
        assert!(Guard::new(start(0), 0x1000).is_none() && !guards[0].is_lost());
        guards.pop();
        assert!(Guard::new(start(0), 0x1000).is_some());
    }
}
