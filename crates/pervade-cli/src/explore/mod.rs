//! `pervade explore`: the report's page, and a server on this machine for what needs the model or all rows.
//!
//! Two threads: one accepts connections and refuses what it should not answer ([`server`], [`guard`]), the one of the
//! command answers questions one after another ([`worker`]), so that the model and the rows stay where they are.

mod browser;
mod compare;
mod filter;
mod guard;
mod in_memory;
mod names;
mod row_set;
mod rows;
mod search;
mod server;
mod walk;
mod worker;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pervade::compute::Device;
use pervade::{Error, Result};

pub(crate) use browser::open as open_browser;
pub(crate) use guard::Guard;
pub use in_memory::InMemory;
pub(crate) use names::NamesFile;
pub(crate) use server::Server;
pub(crate) use worker::{Explored, Worker};

use crate::interrupt;

/// How often the command looks for a signal while nobody asks.
const TICK: Duration = Duration::from_millis(100);
/// Answers that take longer than this after a signal are given up.
const PATIENCE: Duration = Duration::from_secs(1);

/// A question that passed the guard.
pub(crate) struct Job {
    endpoint: Endpoint,
    body: Vec<u8>,
    reply: tokio::sync::oneshot::Sender<Reply>,
}

impl Job {
    /// Sends the answer, and renews the page if it has changed.
    fn reply<D: Device>(self, answer: Reply, worker: &Worker<'_, D>, page: &server::Page) {
        if self.endpoint == Endpoint::Names && answer.is_ok() {
            page.set(worker.html());
        }
        // Who asked may be gone.
        let _ = self.reply.send(answer);
    }
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Compare,
    Filter,
    Names,
    Row,
    Search,
    Walk,
}

/// The answer as JSON, or why there is none.
type Reply = std::result::Result<Vec<u8>, Refusal>;

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: u16,
    message: String,
}

impl Refusal {
    /// The question makes no sense.
    fn bad(message: impl Into<String>) -> Self {
        Self { status: 400, message: message.into() }
    }
}

/// An error of the library concerns the data or the model, not the question.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { status: 500, message: error.to_string() }
    }
}

/// Answers questions until a signal asks the command to stop, which is the way to end it. `ready` is called when the page can
/// be opened.
pub(crate) fn serve<D: Device>(
    mut worker: Worker<'_, D>,
    server: Server,
    ready: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let polled = interrupt::poll();
    let is_done = Arc::new(AtomicBool::new(false));
    watch(is_done.clone());
    let (page, jobs) = (server.page(), mpsc::sync_channel(server::MOST_WAITING));
    let (sender, receiver) = jobs;
    page.set(worker.html());
    let running = server.start(sender)?;
    ready()?;
    while !interrupt::asked() {
        let Ok(job) = receiver.recv_timeout(TICK) else { continue };
        let answer = std::panic::catch_unwind(AssertUnwindSafe(|| worker.answer(job.endpoint, &job.body)));
        let answer = answer.unwrap_or_else(|_| {
            Err(Refusal { status: 500, message: "this is a bug in pervade; please report it".into() })
        });
        job.reply(answer, &worker, &page);
    }
    drop(running);
    is_done.store(true, Ordering::SeqCst);
    drop(polled);
    Ok(())
}

/// Ends the process if an answer takes too long after a signal: nothing is lost, files are written completely or not at all.
fn watch(is_done: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        while !interrupt::asked() {
            if is_done.load(Ordering::SeqCst) {
                return;
            }
            std::thread::sleep(TICK / 2);
        }
        std::thread::sleep(PATIENCE);
        if !is_done.load(Ordering::SeqCst) {
            interrupt::end_with(0);
        }
    });
}
