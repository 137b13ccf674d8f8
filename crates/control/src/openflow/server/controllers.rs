//! Connections that the switch makes: to each controller, with growing pauses while it cannot be
//! reached.

use std::io::{Error, ErrorKind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivateKeyDer, ServerName};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use thalweg_openflow::message::connection::Role;

use super::{ControllerTarget, Hub, OpenFlowConfig, Purpose, Remote, count};
use crate::openflow::agent::{ConnectionConfig, ConnectionKind};
use crate::openflow::target::Target;
use crate::server::{ServerError, Stream, TlsError, certificates, read_file, unusable};

/// The pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How long a rest is at the least and at the most, before the clock is looked at again.
const SHORTEST_REST: Duration = Duration::from_millis(1);
const LONGEST_REST: Duration = Duration::from_millis(50);
/// How long an attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does handshakes with controllers; `None` if no controller uses TLS.
///
/// # Errors
/// If one does and the files cannot be used.
pub(super) fn connector(config: &OpenFlowConfig) -> Result<Option<TlsConnector>, ServerError> {
    let uses_tls = |target: &ControllerTarget| matches!(target.address, Remote::Tls(..));
    if !config.controllers.iter().any(uses_tls) {
        return Ok(None);
    }
    let files = config.tls.as_ref().ok_or(TlsError::Missing)?;
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(&files.client_authorities)? {
        let added = authorities.add(certificate);
        added.map_err(|error| unusable(&files.client_authorities, error))?;
    }
    let pem = read_file(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| unusable(&files.key, error))?;
    let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&files.certificate, error))?
        .with_root_certificates(authorities)
        .with_client_auth_cert(certificates(&files.certificate)?, key)
        .map_err(|error| unusable(&files.certificate, error))?;
    Ok(Some(TlsConnector::from(Arc::new(client))))
}

impl<T: Target + 'static> Hub<T> {
    /// Keeps a connection to a controller for as long as the server runs.
    pub(super) async fn reach(self: Rc<Self>, index: usize, connector: Option<TlsConnector>) {
        let target = &self.config.controllers[index];
        let (remote, pace) = (target.address.clone(), self.config.pace(target));
        let mut pause = FIRST_PAUSE.min(pace.max_backoff);
        loop {
            self.shown.controllers()[index].is_attempting = true;
            let attempt = tokio::time::timeout(PATIENCE, connect(&remote, connector.as_ref()));
            let attempt = attempt
                .await
                .unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
            if let Err(error) = &attempt {
                let known = &mut self.shown.controllers()[index];
                (known.last_error, known.is_attempting) = (Some(error.to_string()), false);
            }
            if let Ok(stream) = attempt {
                count(&self.counters.connected);
                let config = ConnectionConfig {
                    kind: ConnectionKind::Controller,
                    versions: self.config.versions,
                    probe_interval: pace.probe_interval,
                    packet_rate: pace.packet_rate,
                    change_rate: self.config.change_rate,
                };
                let id = self.open(config, Purpose::Client);
                self.reached.borrow_mut().insert(id, index);
                self.clone().serve(id, remote.to_string(), stream).await;
                self.reached.borrow_mut().remove(&id);
                // One that spoke with the switch is worth an early attempt.
                let status = self.agent.borrow().status(id);
                if status.is_some_and(|status| status.version.is_some()) {
                    pause = FIRST_PAUSE.min(pace.max_backoff);
                }
                self.note_controller(index, None);
                self.shown.controllers()[index].is_attempting = false;
                self.forget(id);
                self.events.notify_one();
            } else {
                count(&self.counters.unreachable);
            }
            self.rest(pause).await;
            pause = (pause * 2).min(pace.max_backoff);
        }
    }
}

impl<T: Target + 'static> Hub<T> {
    /// Waits by the server's clock, which may be moved by hand; even without a pause for long
    /// enough that other connections have their turns.
    async fn rest(&self, pause: Duration) {
        let end = self.now() + pause;
        loop {
            let left = end.saturating_sub(self.now());
            tokio::time::sleep(left.clamp(SHORTEST_REST, LONGEST_REST)).await;
            if self.now() >= end {
                return;
            }
        }
    }

    /// Shows how the connections to controllers are.
    pub(super) fn show_controllers(&self) {
        let reached: Vec<_> = self
            .reached
            .borrow()
            .iter()
            .map(|(id, at)| (*id, *at))
            .collect();
        for (id, index) in reached {
            let status = self.agent.borrow().status(id);
            let role = status.and_then(|status| status.version.map(|_| status.role));
            self.note_controller(index, role);
        }
    }

    /// Notes a controller's role; none if it does not speak with the switch.
    fn note_controller(&self, index: usize, role: Option<Role>) {
        let now = self.now();
        let mut controllers = self.shown.controllers();
        let known = &mut controllers[index];
        match (known.is_connected, role.is_some()) {
            (false, true) => {
                (known.connected_at, known.last_error) = (Some(now), None);
                known.is_attempting = false;
            }
            (true, false) => known.disconnected_at = Some(now),
            _ => {}
        }
        (known.is_connected, known.role) = (role.is_some(), role);
    }
}

async fn connect(
    remote: &Remote,
    connector: Option<&TlsConnector>,
) -> std::io::Result<Box<dyn Stream>> {
    let (host, port) = match remote {
        Remote::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
        Remote::Tcp(host, port) | Remote::Tls(host, port) => (host, *port),
    };
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    // Answers are short; waiting to fill a packet would delay them.
    let _ = stream.set_nodelay(true);
    if matches!(remote, Remote::Tcp(..)) {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(host.clone());
    let name = name.map_err(|error| Error::new(ErrorKind::InvalidInput, error))?;
    let connector = connector.ok_or(ErrorKind::Unsupported)?;
    Ok(Box::new(connector.connect(name, stream).await?))
}
