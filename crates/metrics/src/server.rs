//! The server: `GET /metrics`.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use thalweg_http::{
    CONNECTIONS, HttpAnswer, HttpRequest, HttpServer, StatusCode, only_read, plain_answer,
    text_answer,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::collect::exposition;
use crate::desk::{MetricsDesk, Question};
use crate::snapshot::Snapshot;

/// Most questions that wait for the switch.
const QUESTIONS: usize = CONNECTIONS;
/// How long the switch may take to count.
const PATIENCE: Duration = Duration::from_secs(5);

/// The type of the text that Prometheus reads.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A running server; dropped, it ends.
#[derive(Debug)]
pub struct MetricsServer {
    server: HttpServer,
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
        let (questions, waiting) = mpsc::channel(QUESTIONS);
        let asker = Arc::new(Asker {
            questions,
            wake: Box::new(wake),
            last: Mutex::default(),
        });
        let server = HttpServer::start(listen, "metrics", move |request| {
            let asker = asker.clone();
            async move { answer(&request, &asker).await }
        })?;
        Ok((MetricsServer { server }, MetricsDesk::new(waiting)))
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

async fn answer(request: &HttpRequest, asker: &Asker) -> HttpAnswer {
    let path = request.uri.path();
    if path != "/metrics" {
        let text = format!("there is no {path} here; metrics are at /metrics\n");
        return plain_answer(StatusCode::NOT_FOUND, text);
    }
    if let Err(refused) = only_read(request, "metrics") {
        return *refused;
    }
    match asker.ask().await {
        Some(snapshot) => text_answer(StatusCode::OK, OPEN_METRICS, asker.text_of(snapshot)),
        None => {
            let text = "the switch did not answer in time; ask again\n";
            plain_answer(StatusCode::SERVICE_UNAVAILABLE, text)
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
