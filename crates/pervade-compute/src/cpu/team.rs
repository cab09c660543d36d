//! Threads that stay awake between the operations of a training step.
//!
//! A step has some forty parallel operations of 10 to 500 microseconds. Waking a sleeping thread for each takes
//! 10 to 50 of them. So [`together`] keeps the threads of the caller's rayon pool in a loop while it runs `steps`: they
//! wait for the next operation actively for a short time, and only then sleep. Tasks are handed out by a counter, and
//! a thread that comes late finds none left: the leader never waits for a thread that has not begun. Which thread runs
//! a task does not affect the result.

use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use rayon::iter::plumbing::{Producer, ProducerCallback};
use rayon::prelude::*;

/// How often a thread checks for the next operation before it sleeps: for 0.1 to 0.2 ms.
const CHECKS_AWAKE: usize = 4000;
/// After so many checks, a thread offers its core to others.
const CHECKS_ALONE: usize = 200;
/// The pieces that an iterator is split into at most.
const MAX_PIECES: usize = 64;

thread_local! {
    /// The team that this thread leads.
    static LED: Cell<Option<*const Team>> = const { Cell::new(None) };
}

/// Runs `steps` with the pool's other threads ready for its parallel operations.
pub(super) fn together<T>(steps: impl FnOnce() -> T) -> T {
    let n_threads = rayon::current_num_threads();
    if n_threads == 1 || LED.get().is_some() {
        return steps();
    }
    let team = Team::new(n_threads);
    rayon::in_place_scope(|scope| {
        for helper in 1..n_threads {
            let team = &team;
            scope.spawn(move |_| team.help(helper));
        }
        // Ends the team also if the steps panic: the scope waits for its threads.
        let _lead = Lead::begin(&team);
        steps()
    })
}

/// Calls `work` for each task of `0..n_tasks` in parallel.
pub(super) fn for_each_task(n_tasks: usize, work: impl Fn(usize) + Sync + Send) {
    match LED.get() {
        _ if n_tasks <= 1 => (0..n_tasks).for_each(work),
        // SAFETY: the pointer is set while `Lead` lives, which borrows the team.
        Some(team) => unsafe { &*team }.run(n_tasks, &work),
        None => for_each_without_team(n_tasks, &work),
    }
}

/// Compiled once for all work: there is more code of rayon's in a parallel loop than in most loops' bodies.
fn for_each_without_team(n_tasks: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..n_tasks).into_par_iter().with_max_len(1).for_each(work);
}

/// The same, each thread's part from its end on: what it prepared last for this operation, or used last in the one before, is still in
/// its cache.
pub(super) fn for_each_task_backwards(n_tasks: usize, work: impl Fn(usize) + Sync + Send) {
    let n_threads = rayon::current_num_threads();
    for_each_task(n_tasks, |task| {
        let part = ((task + 1) * n_threads).div_ceil(n_tasks) - 1;
        let [start, end] = [part, part + 1].map(|part| n_tasks * part / n_threads);
        work(start + end - 1 - task);
    });
}

/// `for_each` of rayon's iterators as tasks of [`for_each_task`].
pub(super) trait TeamForEach: IndexedParallelIterator {
    /// Calls `work` for each item in parallel.
    fn team_for_each(self, work: impl Fn(Self::Item) + Sync + Send) {
        let n_items = self.len();
        self.with_producer(Pieces { n_items, work: &work });
    }
}

impl<I: IndexedParallelIterator> TeamForEach for I {}

/// Splits a producer into pieces and runs them as tasks.
struct Pieces<'a, F> {
    n_items: usize,
    work: &'a F,
}

impl<T, F: Fn(T) + Sync> ProducerCallback<T> for Pieces<'_, F> {
    type Output = ();

    fn callback<P: Producer<Item = T>>(self, producer: P) {
        let at_most = (4 * rayon::current_num_threads()).min(MAX_PIECES);
        let n_pieces = (self.n_items / producer.min_len().max(1)).clamp(1, at_most);
        let pieces: [Mutex<Option<P>>; MAX_PIECES] = std::array::from_fn(|_| Mutex::new(None));
        let put =
            |i: usize, piece: P| *pieces[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(piece);
        let mut rest = producer;
        for i in 0..n_pieces - 1 {
            let len = self.n_items * (i + 1) / n_pieces - self.n_items * i / n_pieces;
            let (piece, others) = rest.split_at(len);
            put(i, piece);
            rest = others;
        }
        put(n_pieces - 1, rest);
        for_each_task(n_pieces, |i| {
            let piece = pieces[i].lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(piece) = piece {
                piece.into_iter().for_each(self.work);
            }
        });
    }
}

/// An operation: `run(work, task)` for each task.
#[derive(Clone, Copy)]
struct Operation {
    work: *const (),
    run: unsafe fn(*const (), usize),
    n_tasks: usize,
}

/// On a cache line of its own (two, since processors fetch them in pairs), so that writing it does not take its neighbours
/// from other threads.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// What the leader and its helpers share.
struct Team {
    /// Even: none; odd: an operation that may be joined. Counts up.
    turn: Apart<AtomicUsize>,
    /// The next task of each thread's part.
    next: Vec<Apart<AtomicUsize>>,
    /// Helpers that may be using `operation`.
    active: Apart<AtomicUsize>,
    /// Written by the leader while `turn` is even and no helper is active.
    operation: UnsafeCell<Option<Operation>>,
    ended: AtomicBool,
    panicked: AtomicBool,
    n_asleep: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

// SAFETY: `operation` is written by the leader alone, while nobody reads it (see `run` and `join`); it points to work that
// is `Sync`.
unsafe impl Sync for Team {}

impl Team {
    fn new(n_threads: usize) -> Self {
        Self {
            turn: Apart::default(),
            next: std::iter::repeat_with(Apart::default).take(n_threads).collect(),
            active: Apart::default(),
            operation: UnsafeCell::new(None),
            ended: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            n_asleep: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// The leader's side of an operation.
    fn run<F: Fn(usize) + Sync>(&self, n_tasks: usize, work: &F) {
        /// # Safety
        /// `work` points to an `F`.
        unsafe fn call<F: Fn(usize)>(work: *const (), task: usize) {
            // SAFETY: as the caller guarantees.
            unsafe { (*work.cast::<F>())(task) }
        }
        let operation = Operation { work: (&raw const *work).cast(), run: call::<F>, n_tasks };
        // SAFETY: `turn` is even and no helper is active: only `join` reads it, between entering `active` and leaving it.
        unsafe { *self.operation.get() = Some(operation) };
        let n_parts = self.next.len();
        for (part, next) in self.next.iter().enumerate() {
            next.0.store(n_tasks * part / n_parts, Ordering::Relaxed);
        }
        self.turn.0.fetch_add(1, Ordering::SeqCst);
        if self.n_asleep.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock());
            self.wake.notify_all();
        }
        // An operation within a task of this one has no team.
        let led = LED.replace(None);
        let done = catch_unwind(AssertUnwindSafe(|| self.take_tasks(operation, 0)));
        LED.set(led);
        // From here on nobody can join; `work` is in use until those who did have left.
        self.turn.0.fetch_add(1, Ordering::SeqCst);
        let mut checks = 0;
        while self.active.0.load(Ordering::Acquire) > 0 {
            checks += 1;
            pause(checks);
        }
        if let Err(panic) = done {
            resume_unwind(panic);
        }
        assert!(!self.panicked.load(Ordering::Relaxed), "a task of a training step panicked");
    }

    /// Runs the tasks of this thread's part, then what is left of the others'.
    fn take_tasks(&self, operation: Operation, thread: usize) {
        let n_parts = self.next.len();
        for part in (thread..n_parts).chain(0..thread) {
            let end = operation.n_tasks * (part + 1) / n_parts;
            loop {
                let task = self.next[part].0.fetch_add(1, Ordering::Relaxed);
                if task >= end {
                    break;
                }
                // SAFETY: the leader waits in `run` until nobody is active, so that `work` is alive.
                unsafe { (operation.run)(operation.work, task) };
            }
        }
    }

    /// A helper's side: joins operations until the team ends.
    fn help(&self, thread: usize) {
        let mut seen = 0;
        while let Some(turn) = self.wait(seen) {
            seen = turn;
            self.join(turn, thread);
        }
    }

    fn join(&self, turn: usize, thread: usize) {
        self.active.0.fetch_add(1, Ordering::SeqCst);
        // Either the leader sees that this thread is active, or this thread sees that the turn is over.
        if self.turn.0.load(Ordering::SeqCst) == turn {
            // SAFETY: the leader does not write it before this thread has left.
            if let Some(operation) = unsafe { *self.operation.get() }
                && catch_unwind(AssertUnwindSafe(|| self.take_tasks(operation, thread))).is_err()
            {
                self.panicked.store(true, Ordering::Relaxed);
            }
        }
        self.active.0.fetch_sub(1, Ordering::Release);
    }

    /// The next operation after `seen`, or `None` at the end.
    fn wait(&self, seen: usize) -> Option<usize> {
        let mut checks = 0;
        loop {
            if self.ended.load(Ordering::Relaxed) {
                return None;
            }
            let turn = self.turn.0.load(Ordering::SeqCst);
            if !turn.is_multiple_of(2) && turn != seen {
                return Some(turn);
            }
            checks += 1;
            pause(checks);
            if checks == CHECKS_AWAKE {
                self.sleep(seen);
                checks = 0;
            }
        }
    }

    /// Sleeps until there is an operation, or the end.
    fn sleep(&self, seen: usize) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.n_asleep.fetch_add(1, Ordering::SeqCst);
        let is_idle = |(): &mut ()| {
            let turn = self.turn.0.load(Ordering::SeqCst);
            (turn.is_multiple_of(2) || turn == seen) && !self.ended.load(Ordering::SeqCst)
        };
        drop(self.wake.wait_while(guard, is_idle));
        self.n_asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits for some nanoseconds; now and then another thread may use the core.
fn pause(checks: usize) {
    if checks.is_multiple_of(CHECKS_ALONE) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// While it lives, this thread leads the team.
struct Lead<'a>(&'a Team);

impl<'a> Lead<'a> {
    fn begin(team: &'a Team) -> Self {
        LED.set(Some(team));
        Self(team)
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        LED.set(None);
        self.0.ended.store(true, Ordering::SeqCst);
        drop(self.0.lock.lock());
        self.0.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(n_threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap()
    }

    fn add(to: &AtomicUsize, n: usize) {
        to.fetch_add(n, Ordering::Relaxed);
    }

    #[test]
    fn every_task_runs_once_in_either_direction() {
        for n_threads in [1, 2, 5] {
            pool(n_threads).install(|| {
                together(|| {
                    for n_tasks in (0..200).chain([5000]) {
                        let counts: Vec<AtomicUsize> = (0..n_tasks).map(|_| AtomicUsize::new(0)).collect();
                        for_each_task(n_tasks, |task| add(&counts[task], 1));
                        for_each_task_backwards(n_tasks, |task| add(&counts[task], 1));
                        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 2), "{n_tasks}");
                    }
                });
            });
        }
    }

    #[test]
    fn backwards_is_from_the_end_of_each_part() {
        let order = Mutex::new(Vec::new());
        pool(1).install(|| for_each_task_backwards(5, |task| order.lock().unwrap().push(task)));
        assert_eq!(order.into_inner().unwrap(), [4, 3, 2, 1, 0]);
    }

    #[test]
    fn an_iterator_is_split_without_a_loss() {
        pool(3).install(|| {
            for n in [0, 1, 7, 63, 64, 65, 1000] {
                let mut plain = vec![0usize; 3 * n];
                let mut team = plain.clone();
                let fill = |(i, chunk): (usize, &mut [usize])| chunk.iter_mut().for_each(|x| *x += i + 1);
                plain.chunks_mut(3).enumerate().for_each(fill);
                together(|| team.par_chunks_mut(3).with_min_len(4).enumerate().team_for_each(fill));
                assert_eq!(plain, team);
            }
        });
    }

    #[test]
    fn sleeping_helpers_are_woken() {
        const LONG: std::time::Duration = std::time::Duration::from_millis(5);
        let used = Mutex::new(std::collections::HashSet::new());
        pool(2).install(|| {
            together(|| {
                for _ in 0..20 {
                    std::thread::sleep(LONG);
                    for_each_task(2, |_| {
                        used.lock().unwrap().insert(std::thread::current().id());
                        std::thread::sleep(LONG);
                    });
                }
            });
        });
        assert_eq!(used.lock().unwrap().len(), 2);
    }

    #[test]
    fn an_operation_within_an_operation_runs() {
        let sum = AtomicUsize::new(0);
        pool(2).install(|| {
            together(|| {
                for_each_task(8, |_| for_each_task(8, |i| add(&sum, i)));
            });
        });
        assert_eq!(sum.into_inner(), 8 * 28);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_ends_the_team() {
        for panicking in [0, 50, 99] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool(2).install(|| together(|| for_each_task(100, |i| assert!(i != panicking, "task {i}"))));
            }));
            assert!(caught.is_err());
        }
    }
}
