//! The explorer without a socket: the bytes of a connection in, the bytes of its answers out. Fuzzing and tests use it.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};

use hyper::rt;
use pervade::compute::Cpu;
use pervade::data::Table;
use pervade::model::Vade;
use pervade::names::ClusterNames;
use pervade::{Error, Result};
use tokio::runtime::Runtime;

use super::server::{Page, State, connection, endpoint};
use super::{Explored, Guard, NamesFile, Worker};
use crate::console::Console;

/// The port in the names under which it answers.
const PORT: u16 = 4000;

/// An explorer that anyone in this process can ask.
pub struct InMemory<'a> {
    worker: Worker<'a, Cpu>,
    unnamed: ClusterNames,
    page: Page,
    token: String,
    runtime: Runtime,
}

impl<'a> InMemory<'a> {
    /// An explorer of a table; names of clusters are written to `names`. Requests need the header `Host: 127.0.0.1:4000`.
    pub fn new(
        model: &'a Vade,
        table: &'a Table,
        device: &'a Cpu,
        names: &Path,
        token: &str,
    ) -> Result<Self> {
        let name = || "fuzzed".to_string();
        let explored =
            Explored { model, table, model_name: name(), data: name(), title: name(), points: 100 };
        let (unnamed, names_file) = (ClusterNames::none(model), NamesFile::new(Some(names), names));
        let console = Console { json: false, quiet: true };
        let worker = Worker::new(explored, device, unnamed.clone(), names_file, &console)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|e| Error::device(format!("no timer could be started: {e}")))?;
        let page = Page::default();
        page.set(worker.html());
        Ok(Self { worker, unnamed, page, token: token.to_string(), runtime })
    }

    /// What the server sends to a client that sends these bytes, waits for all answers and then closes its end. A panic of an
    /// answer is not caught. The next client finds no names.
    pub fn connect(&mut self, sent: &[u8]) -> Result<Vec<u8>> {
        let guard = Guard::with_token(PORT, &self.token);
        let state = State::new(guard, self.page.clone(), self.worker.n_rows());
        let (sender, jobs) = mpsc::sync_channel(super::server::MOST_WAITING);
        let is_closed = Arc::new(AtomicBool::new(false));
        let mut stream = Stream { sent, received: Vec::new(), is_closed: is_closed.clone() };
        let entered = self.runtime.enter();
        let mut served = Box::pin(connection(&mut stream, state, sender));
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        loop {
            if served.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                break;
            }
            let mut is_asked = false;
            while let Ok(job) = jobs.try_recv() {
                is_asked = true;
                let answer = self.worker.answer(job.endpoint, &job.body);
                job.reply(answer, &self.worker, &self.page);
            }
            // All bytes are there from the beginning: if nothing happens now, nothing will until the client closes its end.
            let is_idle = !woken.0.swap(false, Ordering::SeqCst) && !is_asked;
            if is_idle && is_closed.swap(true, Ordering::SeqCst) {
                break;
            }
        }
        drop(served);
        drop(entered);
        self.forget_names()?;
        Ok(stream.received)
    }

    /// Answers a question without HTTP: its path, as `/api/row`, and its body. An error has the status and the message;
    /// `None` if there is no such path.
    pub fn ask(
        &mut self,
        path: &str,
        body: &[u8],
    ) -> Result<Option<std::result::Result<Vec<u8>, (u16, String)>>> {
        let Some(endpoint) = endpoint(path) else { return Ok(None) };
        let answer = self.worker.answer(endpoint, body);
        self.forget_names()?;
        Ok(Some(answer.map_err(|refusal| (refusal.status, refusal.message))))
    }

    fn forget_names(&mut self) -> Result<()> {
        if self.worker.names != self.unnamed {
            self.worker.rename(self.unnamed.clone())?;
            self.page.set(self.worker.html());
        }
        Ok(())
    }
}

/// Whether somebody has work for the connection.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A connection in memory.
struct Stream<'s> {
    sent: &'s [u8],
    received: Vec<u8>,
    /// Whether the client has closed its end.
    is_closed: Arc<AtomicBool>,
}

impl rt::Read for Stream<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.sent.is_empty() && !self.is_closed.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        let (now, later) = self.sent.split_at(self.sent.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.sent = later;
        Poll::Ready(Ok(()))
    }
}

impl rt::Write for Stream<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.received.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
