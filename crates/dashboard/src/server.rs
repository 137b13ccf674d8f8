//! The server: files of the page, and answers of the switch.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thalweg_http::header::{self, HeaderName, HeaderValue};
use thalweg_http::{
    CONNECTIONS, HttpAnswer, HttpRequest, HttpServer, StatusCode, only_read, plain_answer,
    text_answer,
};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::desk::{DashboardAnswer, DashboardDesk, DashboardQuestion, WaitingQuestion};
use crate::{files, guard, query};

/// Most questions that wait for the switch.
const QUESTIONS: usize = CONNECTIONS;
/// How long the switch may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

const JSON: &str = "application/json";

/// What each answer says of itself. A page takes what it needs from this server, is in no other
/// page, and is the newest.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Where a dashboard is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DashboardConfig {
    /// The address that it listens on.
    pub listen: SocketAddr,
    /// Whether that may be an address which other machines reach.
    pub allows_remote: bool,
}

/// Why there is no dashboard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DashboardError {
    /// Other machines reach the address.
    #[error(
        "{0} is not a loopback address, and the dashboard has neither encryption nor a password; \
         listen on 127.0.0.1 or [::1], or allow remote readers"
    )]
    Remote(SocketAddr),
    /// The address cannot be listened on, or no thread can be started.
    #[error("cannot listen on {0} ({1}); choose another address")]
    Listen(SocketAddr, io::Error),
}

/// A running server; dropped, it ends.
#[derive(Debug)]
pub struct DashboardServer {
    server: HttpServer,
}

/// What each connection needs.
struct Asker {
    questions: mpsc::Sender<WaitingQuestion>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl DashboardServer {
    /// Starts a server and returns the desk; `wake` wakes the desk's owner.
    ///
    /// # Errors
    /// If the address is not a loopback address and must be, or cannot be listened on.
    pub fn start(
        config: DashboardConfig,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<(DashboardServer, DashboardDesk), DashboardError> {
        let listen = config.listen;
        if !listen.ip().to_canonical().is_loopback() && !config.allows_remote {
            return Err(DashboardError::Remote(listen));
        }
        let (questions, waiting) = mpsc::channel(QUESTIONS);
        let asker = Arc::new(Asker {
            questions,
            wake: Box::new(wake),
        });
        let server = HttpServer::start(listen, "dashboard", move |request| {
            let asker = asker.clone();
            async move {
                let mut answer = answer(&request, &asker).await;
                let headers = answer.headers_mut();
                for (name, value) in HEADERS {
                    headers.insert(name, HeaderValue::from_static(value));
                }
                answer
            }
        });
        let server = server.map_err(|error| DashboardError::Listen(listen, error))?;
        Ok((DashboardServer { server }, DashboardDesk::new(waiting)))
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

async fn answer(request: &HttpRequest, asker: &Asker) -> HttpAnswer {
    if let Err(refused) = guard::check_name(request) {
        return *refused;
    }
    if let Err(refused) = only_read(request, "pages") {
        return *refused;
    }
    let path = request.uri.path();
    if let Some((_, kind, text)) = files::find(path) {
        return text_answer(StatusCode::OK, kind, *text);
    }
    if let Err(refused) = guard::check_site(request) {
        return *refused;
    }
    let asked = match path {
        "/api/live" => DashboardQuestion::Live,
        "/api/entries" => DashboardQuestion::Entries,
        "/api/explain" => match query::explanation(request.uri.query().unwrap_or_default()) {
            Ok(explanation) => DashboardQuestion::Explain(explanation),
            Err(error) => return plain_answer(StatusCode::BAD_REQUEST, format!("{error}\n")),
        },
        _ => {
            let text = format!("there is no {path} here; the dashboard is at /\n");
            return plain_answer(StatusCode::NOT_FOUND, text);
        }
    };
    let is_text = matches!(asked, DashboardQuestion::Explain(_));
    match asker.ask(asked).await {
        Some(Ok(text)) if is_text => plain_answer(StatusCode::OK, text.to_string()),
        Some(Ok(text)) => text_answer(StatusCode::OK, JSON, text.to_string()),
        Some(Err(error)) => plain_answer(StatusCode::BAD_REQUEST, format!("{error}\n")),
        None => {
            let text = "the switch did not answer in time; ask again\n";
            plain_answer(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

impl Asker {
    async fn ask(&self, question: DashboardQuestion) -> Option<DashboardAnswer> {
        let (waiting, answer) = WaitingQuestion::new(question);
        self.questions.try_send(waiting).ok()?;
        (self.wake)();
        timeout(PATIENCE, answer).await.ok()?.ok()
    }
}
