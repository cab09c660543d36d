//! Progress of work on rows: a bar on a terminal, a line now and then elsewhere.

use std::cell::Cell;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressFinish};

use crate::console::Console;
use crate::progress::{LINE_INTERVAL, new_bar};
use crate::words;

/// Shorter work needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many rows were worked on, and how fast.
pub(crate) struct RowProgress<'a> {
    title: &'static str,
    console: &'a Console,
    started: Instant,
    last_line: Cell<Instant>,
    rows: Cell<usize>,
    expected: Cell<usize>,
    bar: std::cell::OnceCell<ProgressBar>,
}

impl<'a> RowProgress<'a> {
    pub(crate) fn new(title: &'static str, console: &'a Console) -> Self {
        let (started, rows, expected) = (Instant::now(), Cell::new(0), Cell::new(0));
        Self {
            title,
            console,
            started,
            last_line: Cell::new(started),
            rows,
            expected,
            bar: std::cell::OnceCell::new(),
        }
    }

    /// More rows are to come, if their number is known; zero otherwise.
    pub(crate) fn expect(&self, rows: usize) {
        self.expected.set(self.rows.get() + rows);
        if let Some(bar) = self.bar.get() {
            bar.set_length(self.expected.get() as u64);
        }
    }

    /// Rows that are done.
    pub(crate) fn rows(&self) -> usize {
        self.rows.get()
    }

    /// Counts rows that are done.
    pub(crate) fn add(&self, rows: usize) {
        let done = self.rows.get() + rows;
        self.rows.set(done);
        if self.console.quiet || self.started.elapsed() < PATIENCE {
            return;
        }
        if Console::is_terminal() {
            let bar = self.bar.get_or_init(|| {
                new_bar(self.title, self.expected.get() as u64, 0).with_finish(ProgressFinish::AndClear)
            });
            bar.set_position(done as u64);
            bar.set_message(format!("{} rows, {} rows/s", words::count(done), words::count(self.rate())));
        } else if self.last_line.get().elapsed() >= LINE_INTERVAL {
            self.last_line.set(Instant::now());
            let of = match self.expected.get() {
                n if n > done => format!(" of {}", words::count(n)),
                _ => String::new(),
            };
            let (title, n, rate) = (self.title, words::count(done), words::count(self.rate()));
            self.console.say(&format!("{title}: {n}{of} rows, {rate} rows/s"));
        }
    }

    /// Rows per second.
    fn rate(&self) -> usize {
        (self.rows.get() as f64 / self.started.elapsed().as_secs_f64()) as usize
    }
}
