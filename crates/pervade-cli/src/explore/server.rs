//! Accepts connections on this machine, with limits on everything that a request can claim.

use std::convert::Infallible;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, RwLock, mpsc};
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::rt;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use pervade::{Error, Result};
use tokio::sync::{Semaphore, oneshot};

use super::{Endpoint, Guard, Job, Refusal};

/// Connections at a time; more wait.
const MOST_CONNECTIONS: usize = 256;
/// Questions that wait for an answer; more are refused.
pub(super) const MOST_WAITING: usize = 1024;
/// Time to send the head of a request, and the rest of it.
const HEAD_TIME: Duration = Duration::from_secs(5);
const BODY_TIME: Duration = Duration::from_secs(10);
/// Bytes of the head of a request, and headers in it.
const HEAD_BYTES: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
/// Bytes of a question, beside the rows that it names.
const BODY_BYTES: usize = 256 << 10;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// A server that listens but does not answer yet.
pub(crate) struct Server {
    listener: TcpListener,
    state: Arc<State>,
}

/// The page as it is now.
#[derive(Clone, Default)]
pub(crate) struct Page(Arc<RwLock<Bytes>>);

impl Page {
    pub(super) fn set(&self, html: String) {
        if let Ok(mut page) = self.0.write() {
            *page = html.into();
        }
    }

    fn get(&self) -> Bytes {
        self.0.read().map(|page| page.clone()).unwrap_or_default()
    }
}

/// What all connections share.
pub(super) struct State {
    guard: Guard,
    page: Page,
    largest_body: usize,
}

impl State {
    pub(super) fn new(guard: Guard, page: Page, n_rows: usize) -> Arc<Self> {
        // Two groups of rows, four rows per digit.
        Arc::new(Self { guard, page, largest_body: BODY_BYTES + n_rows / 2 })
    }
}

impl Server {
    /// Listens on a port of this machine; 0 takes any that is free.
    pub(crate) fn listen(port: u16, n_rows: usize) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|e| {
            Error::setting("port", port, format!("but it cannot be used: {e}"))
                .with_hint("another program may use it: choose another port, or leave `--port` out to use any that is free")
        })?;
        let fail = |e: std::io::Error| Error::device(format!("the server could not be started: {e}"));
        listener.set_nonblocking(true).map_err(fail)?;
        let port = listener.local_addr().map_err(fail)?.port();
        Ok(Self { listener, state: State::new(Guard::new(port)?, Page::default(), n_rows) })
    }

    pub(crate) fn guard(&self) -> &Guard {
        &self.state.guard
    }

    pub(super) fn page(&self) -> Page {
        self.state.page.clone()
    }

    /// Answers requests in a thread of its own until the result is dropped; questions go to `jobs`.
    pub(super) fn start(self, jobs: mpsc::SyncSender<Job>) -> Result<Running> {
        let fail = |e: std::io::Error| Error::device(format!("the server could not be started: {e}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(fail)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("server".to_string());
        let work = move || {
            runtime.block_on(async move {
                let Ok(listener) = tokio::net::TcpListener::from_std(self.listener) else { return };
                tokio::spawn(accept(listener, self.state, jobs));
                // An error means that the other end was dropped, which is the signal to stop.
                let _ = stopped.await;
            });
        };
        thread.spawn(work).map_err(fail)?;
        Ok(Running { _stop: stop })
    }
}

/// The server answers while this is alive.
pub(super) struct Running {
    _stop: oneshot::Sender<()>,
}

async fn accept(listener: tokio::net::TcpListener, state: Arc<State>, jobs: mpsc::SyncSender<Job>) {
    let free = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(permit) = free.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (state, jobs) = (state.clone(), jobs.clone());
                tokio::spawn(async move {
                    connection(TokioIo::new(stream), state, jobs).await;
                    drop(permit);
                });
            }
            // No more open files, or a client that is gone already: waiting helps, giving up does not.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Answers the requests of one client until it closes its end, or until one of them is no HTTP.
pub(super) async fn connection<S>(stream: S, state: Arc<State>, jobs: mpsc::SyncSender<Job>)
where
    S: rt::Read + rt::Write + Unpin,
{
    let service = service_fn(move |request| {
        let (state, jobs) = (state.clone(), jobs.clone());
        async move { Ok::<_, Infallible>(respond(request, &state, &jobs).await) }
    });
    // Errors are those of clients: time-outs, requests that are no HTTP, closed connections.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .max_headers(MOST_HEADERS)
        .serve_connection(stream, service)
        .await;
}

async fn respond(
    request: Request<Incoming>,
    state: &State,
    jobs: &mpsc::SyncSender<Job>,
) -> Response<Full<Bytes>> {
    let (guard, uri, headers) = (&state.guard, request.uri(), request.headers());
    if let Err(status) = guard.check_host(uri, headers) {
        return refused(status, "this server answers only to 127.0.0.1 and localhost");
    }
    let is_get = request.method() == Method::GET;
    if uri.path() == "/" && is_get {
        if let Some(page) = guard.redeem(uri) {
            let mut response = answer(StatusCode::SEE_OTHER, TEXT, Bytes::new());
            response.headers_mut().extend(HeaderValue::try_from(page).map(|page| (header::LOCATION, page)));
            return response;
        }
        if guard.knows_uri(uri) {
            return answer(StatusCode::OK, HTML, state.page.get());
        }
        let message = "Open the address that `pervade explore` printed: it ends with a token.";
        return answer(StatusCode::FORBIDDEN, TEXT, message.into());
    }
    if !guard.knows_header(headers) {
        return refused(
            StatusCode::FORBIDDEN,
            "the token is missing or wrong: open the address that `pervade explore` printed",
        );
    }
    if uri.path() == "/api/alive" && is_get {
        return answer(StatusCode::OK, JSON, "{\"alive\":true}".into());
    }
    let Some(endpoint) = endpoint(uri.path()) else {
        return refused(StatusCode::NOT_FOUND, "there is nothing here");
    };
    if request.method() != Method::POST {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "questions are sent with POST");
    }
    match read(request.into_body(), state.largest_body).await {
        Ok(body) => ask(endpoint, body, jobs).await,
        Err((status, message)) => refused(status, message),
    }
}

pub(super) fn endpoint(path: &str) -> Option<Endpoint> {
    match path {
        "/api/compare" => Some(Endpoint::Compare),
        "/api/filter" => Some(Endpoint::Filter),
        "/api/names" => Some(Endpoint::Names),
        "/api/row" => Some(Endpoint::Row),
        "/api/search" => Some(Endpoint::Search),
        "/api/walk" => Some(Endpoint::Walk),
        _ => None,
    }
}

/// The body of a request, which is only read as far as it may be long.
async fn read(body: Incoming, largest: usize) -> std::result::Result<Vec<u8>, (StatusCode, &'static str)> {
    let too_large = (StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
    if body.size_hint().lower() > largest as u64 {
        return Err(too_large);
    }
    match tokio::time::timeout(BODY_TIME, Limited::new(body, largest).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large),
        Ok(Err(_)) => Err((StatusCode::BAD_REQUEST, "the request ended early")),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the request took too long")),
    }
}

/// Passes a question on and waits for its answer.
async fn ask(endpoint: Endpoint, body: Vec<u8>, jobs: &mpsc::SyncSender<Job>) -> Response<Full<Bytes>> {
    let (reply, answered) = oneshot::channel();
    if jobs.try_send(Job { endpoint, body, reply }).is_err() {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "too many questions are waiting; try again");
    }
    match answered.await {
        Ok(Ok(json)) => answer(StatusCode::OK, JSON, json.into()),
        Ok(Err(Refusal { status, message })) => {
            refused(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &message)
        }
        Err(_) => refused(StatusCode::SERVICE_UNAVAILABLE, "the server is ending"),
    }
}

fn refused(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    answer(status, JSON, serde_json::json!({ "error": message }).to_string().into())
}

fn answer(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let fixed = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    let headers = response.headers_mut();
    headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}
