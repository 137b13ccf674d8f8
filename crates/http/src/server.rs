//! The server: connections, and their bounds.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::{HttpAnswer, HttpRequest};

/// Most connections at a time; those beyond are closed at once.
pub const CONNECTIONS: usize = 16;
/// How long a reader may take to send a request's head.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection lives; readers make a new one.
const LIFETIME: Duration = Duration::from_secs(300);
/// Most bytes of a request's head.
const REQUEST_BYTES: usize = 16 * 1024;
/// A pause after a failed accept, such as for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running server; dropped, it ends.
///
/// ```
/// use std::io::{Read, Write};
/// use thalweg_http::{HttpServer, StatusCode, plain_answer};
///
/// let address = ([127, 0, 0, 1], 0).into();
/// let server = HttpServer::start(address, "hello", |request| async move {
///     plain_answer(StatusCode::OK, format!("this is {}\n", request.uri.path()))
/// })?;
/// let mut stream = std::net::TcpStream::connect(server.address())?;
/// stream.write_all(b"GET /here HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n")?;
/// let mut answer = String::new();
/// stream.read_to_string(&mut answer)?;
/// assert!(answer.ends_with("\r\n\r\nthis is /here\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    end: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Starts a server on a thread with this name, which answers requests by `answer`.
    ///
    /// # Errors
    /// If the address cannot be listened on, or no thread can be started.
    pub fn start<A, F>(listen: SocketAddr, name: &str, answer: A) -> io::Result<HttpServer>
    where
        A: Fn(HttpRequest) -> F + Send + Sync + 'static,
        F: Future<Output = HttpAnswer> + Send + 'static,
    {
        let listener = std::net::TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (end, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, Arc::new(answer)) => {}
                        _ = ended => {}
                    }
                });
            })?;
        Ok(HttpServer {
            address,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic is a bug, and was already printed.
            let _ = thread.join();
        }
    }
}

async fn accept<A, F>(listener: TcpListener, answer: Arc<A>)
where
    A: Fn(HttpRequest) -> F + Send + Sync + 'static,
    F: Future<Output = HttpAnswer> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            continue;
        };
        let answer = answer.clone();
        tokio::spawn(async move {
            // A reader that breaks off, or takes too long, has no answer.
            let _ = timeout(LIFETIME, converse(stream, answer)).await;
            drop(place);
        });
    }
}

async fn converse<A, F>(stream: TcpStream, answer: Arc<A>) -> Result<(), hyper::Error>
where
    A: Fn(HttpRequest) -> F + Send + Sync + 'static,
    F: Future<Output = HttpAnswer> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (head, _) = request.into_parts();
        let answer = answer(head);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_buf_size(REQUEST_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
