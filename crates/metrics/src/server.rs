//! The HTTP server: `GET /metrics`, on a thread of its own.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use crate::collect::exposition;
use crate::desk::{MetricsDesk, Question};
use crate::snapshot::Snapshot;

/// Most connections at a time; those beyond are closed at once.
const CONNECTIONS: usize = 16;
/// Most questions that wait for the switch.
const QUESTIONS: usize = CONNECTIONS;
/// How long a reader may take to send a request's headers.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection lives; Prometheus makes a new one.
const LIFETIME: Duration = Duration::from_secs(300);
/// How long the switch may take to count.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of a request's headers.
const REQUEST_BYTES: usize = 16 * 1024;
/// A pause after a failed accept, such as for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The type of the text that Prometheus reads.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// A running server; dropped, it ends.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    end: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

/// What each connection needs.
struct Asker {
    questions: mpsc::Sender<Question>,
    wake: Box<dyn Fn() + Send + Sync>,
    /// The last text, and what it was made of.
    last: Mutex<Option<(Arc<Snapshot>, Bytes)>>,
}

impl MetricsServer {
    /// Starts a server and returns the desk; `wake` wakes the desk's owner.
    ///
    /// # Errors
    /// If the address cannot be listened on, or no thread can be started.
    pub fn start(
        listen: SocketAddr,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<(MetricsServer, MetricsDesk)> {
        let listener = std::net::TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (questions, waiting) = mpsc::channel(QUESTIONS);
        let (end, ended) = oneshot::channel();
        let asker = Asker {
            questions,
            wake: Box::new(wake),
            last: Mutex::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, Arc::new(asker)) => {}
                        _ = ended => {}
                    }
                });
            })?;
        let server = MetricsServer {
            address,
            end: Some(end),
            thread: Some(thread),
        };
        Ok((server, MetricsDesk::new(waiting)))
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic is a bug, and was already printed.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, asker: Arc<Asker>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            continue;
        };
        let asker = asker.clone();
        tokio::spawn(async move {
            // A reader that breaks off, or takes too long, has no answer.
            let _ = timeout(LIFETIME, converse(stream, asker)).await;
            drop(place);
        });
    }
}

async fn converse(stream: TcpStream, asker: Arc<Asker>) -> Result<(), hyper::Error> {
    let service = service_fn(move |request| {
        let asker = asker.clone();
        async move { Ok::<_, Infallible>(answer(&request, &asker).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_buf_size(REQUEST_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn answer(request: &Request<Incoming>, asker: &Asker) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if path != "/metrics" {
        let text = format!("there is no {path} here; metrics are at /metrics\n");
        return response(StatusCode::NOT_FOUND, PLAIN, text);
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let text = "metrics are read by GET\n".to_owned();
        let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, PLAIN, text);
        let methods = hyper::header::HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(ALLOW, methods);
        return refused;
    }
    match asker.ask().await {
        Some(snapshot) => response(StatusCode::OK, OPEN_METRICS, asker.text_of(snapshot)),
        None => {
            let text = "the switch did not answer in time; ask again\n".to_owned();
            response(StatusCode::SERVICE_UNAVAILABLE, PLAIN, text)
        }
    }
}

impl Asker {
    async fn ask(&self) -> Option<Arc<Snapshot>> {
        let (question, answer) = oneshot::channel();
        self.questions.try_send(question).ok()?;
        (self.wake)();
        timeout(PATIENCE, answer).await.ok()?.ok()
    }

    /// The text of a snapshot, which is made once.
    fn text_of(&self, snapshot: Arc<Snapshot>) -> Bytes {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, text)) = last.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &snapshot)) {
            return text.clone();
        }
        let text = Bytes::from(exposition(snapshot.clone()));
        *last = Some((snapshot, text.clone()));
        text
    }
}

fn response(
    status: StatusCode,
    kind: &'static str,
    text: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
