//! Connections of OpenFlow: the server's sockets, and the patience of an agent.
//!
//! Clients are sessions of crate `openflow` on blocking sockets. The switch behind the server
//! has no rules; crate `switch` tests what changes do.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use thalweg_control::TlsFiles;
use thalweg_control::openflow::target::{
    Change, Event, Failure, FlowCursor, Outcome, Target, Transaction, Waker,
};
use thalweg_control::openflow::{
    Agent, AgentLimits, ConnectionConfig, ConnectionKind, ControllerPace, ControllerTarget,
    FailMode, OpenFlowClock, OpenFlowConfig, OpenFlowServer, Remote, Version, Versions,
};
use thalweg_openflow::message::continuation::PacketContinuation;
use thalweg_openflow::message::flow::{FlowStats, FlowStatsRequest};
use thalweg_openflow::message::nicira::{CtFlush, TlvMap, TlvTable};
use thalweg_openflow::message::packet::PacketIn;
use thalweg_openflow::message::port::PortDesc;
use thalweg_openflow::message::switch::{Description, Features, SwitchConfig};
use thalweg_openflow::message::{Message, Reply, Request};
use thalweg_openflow::{Context, ErrorCode, Refusal, Session, SessionConfig, decode, refuse};
use tokio_rustls::rustls;

/// A switch without ports and rules; it counts transactions.
#[derive(Default)]
struct Empty(Arc<AtomicUsize>);

struct NoFlows;

impl FlowCursor for NoFlows {
    fn next(&mut self, _count: usize) -> Vec<FlowStats> {
        Vec::new()
    }
}

impl Target for Empty {
    fn features(&self) -> Features {
        Features {
            datapath_id: 0xab,
            ..Features::default()
        }
    }

    fn description(&self) -> Description {
        Description::default()
    }

    fn ports(&self) -> Vec<PortDesc> {
        Vec::new()
    }

    fn set_fragments(&mut self, _mode: u16) -> Result<(), Refusal> {
        Ok(())
    }

    fn check(&self, _version: Version, _change: &Change) -> Result<(), Refusal> {
        Ok(())
    }

    fn change(&mut self, transactions: Arc<[Transaction]>) -> Vec<Result<Outcome, Failure>> {
        self.0.fetch_add(transactions.len(), Ordering::SeqCst);
        transactions
            .iter()
            .map(|_| Ok(Outcome::default()))
            .collect()
    }

    fn flows(&mut self, _request: &FlowStatsRequest) -> Result<Box<dyn FlowCursor>, Refusal> {
        Ok(Box::new(NoFlows))
    }

    fn read(&mut self, _version: Version, _request: &Request) -> Result<Reply, Refusal> {
        Err(refuse(ErrorCode::OFPBRC_BAD_STAT, "it has nothing to tell"))
    }

    fn resume(&mut self, _packet: PacketIn, _: PacketContinuation) -> Result<(), Refusal> {
        Ok(())
    }

    fn watch_flows(&mut self, _wanted: bool) {}

    fn want_misses(&mut self, _wanted: bool) {}

    fn flush_connections(&mut self, _asked: &CtFlush) -> Result<(), Refusal> {
        Ok(())
    }

    fn mapped_options(&mut self) -> Vec<TlvMap> {
        Vec::new()
    }

    fn map_options(&mut self, _options: &TlvTable) {}

    fn uses_option(&mut self, _number: u16) -> bool {
        false
    }

    fn events(&mut self) -> Vec<Event> {
        Vec::new()
    }

    fn wake_by(&mut self, _waker: Waker) {}
}

fn listening(addresses: &[&str]) -> OpenFlowConfig {
    OpenFlowConfig {
        listen: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        ..OpenFlowConfig::default()
    }
}

fn start(config: OpenFlowConfig) -> OpenFlowServer {
    OpenFlowServer::start(Empty::default(), config).unwrap()
}

/// The address that the system chose, behind its kind.
fn chosen(server: &OpenFlowServer, kind: &str) -> String {
    let address = &server.addresses()[0];
    address.strip_prefix(kind).unwrap().to_owned()
}

/// The far end of a connection.
struct Peer<S> {
    session: Session,
    stream: S,
}

impl<S: Read + Write> Peer<S> {
    fn new(stream: S) -> Peer<S> {
        let session = Session::new(SessionConfig::default(), Duration::ZERO);
        Peer { session, stream }
    }

    /// The next message; `None` if the other side has ended the connection.
    fn next(&mut self) -> Option<Message> {
        loop {
            while let Some(bytes) = self.session.take_output() {
                self.stream.write_all(&bytes).ok()?;
            }
            if let Some(incoming) = self.session.next() {
                return Some(incoming.frame.unwrap().message);
            }
            let mut buffer = [0; 4_096];
            match self.stream.read(&mut buffer) {
                Ok(length @ 1..) => self.session.receive(&buffer[..length], Duration::ZERO),
                Ok(0) | Err(_) => return None,
            }
        }
    }

    /// Waits for the other side's hello.
    fn greet(&mut self) -> bool {
        let mut buffer = [0; 4_096];
        while let Some(bytes) = self.session.take_output() {
            if self.stream.write_all(&bytes).is_err() {
                return false;
            }
        }
        while self.session.version().is_none() {
            match self.stream.read(&mut buffer) {
                Ok(length @ 1..) => self.session.receive(&buffer[..length], Duration::ZERO),
                Ok(0) | Err(_) => return false,
            }
            // A hello is no message for others.
            assert_eq!(self.session.next(), None);
        }
        true
    }

    /// Greets, asks for the features, and returns whether they were told.
    fn asks(&mut self) -> bool {
        if !self.greet() {
            return false;
        }
        self.session.send(7, &Message::FeaturesRequest);
        match self.next() {
            Some(Message::FeaturesReply(features)) => features.datapath_id == 0xab,
            None => false,
            Some(other) => panic!("{other:?}"),
        }
    }
}

/// Waits for what another thread does.
fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

#[test]
fn a_unix_socket_is_its_owners_and_goes_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("br0.mgmt");
    let mut server = start(listening(&[&format!("punix:{}", path.display())]));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut peer = Peer::new(UnixStream::connect(&path).unwrap());
    assert!(peer.asks());
    assert_eq!(server.counters().accepted, 1);
    server.stop();
    assert_eq!(peer.next(), None);
    assert!(!path.exists());
}

#[test]
fn a_connection_too_many_is_closed_and_counted() {
    let server = start(OpenFlowConfig {
        connections: 1,
        ..listening(&["ptcp:0"])
    });
    let address = chosen(&server, "tcp:");
    assert!(address.starts_with("127.0.0.1:"));
    let connect = || Peer::new(TcpStream::connect(&address).unwrap());
    let mut first = connect();
    assert!(first.asks());
    assert!(!connect().asks());
    assert_eq!(
        (server.counters().accepted, server.counters().refused),
        (1, 1)
    );
    assert!(first.asks(), "it lost nothing");
    drop(first);
    // The place is free as soon as the server notices.
    until(|| connect().asks());
}

#[test]
fn plain_tcp_beyond_loopback_must_be_allowed() {
    let config = listening(&["ptcp:0:0.0.0.0"]);
    let refused = OpenFlowServer::start(Empty::default(), config.clone()).unwrap_err();
    let text = std::error::Error::source(&refused).unwrap().to_string();
    assert!(text.contains("lets anyone control the switch"), "{text}");
    let allowed = start(OpenFlowConfig {
        allows_remote: true,
        ..config
    });
    let (_, port) = allowed.addresses()[0].rsplit_once(':').unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port.parse::<u16>().unwrap()));
    assert!(Peer::new(stream.unwrap()).asks());
}

/// An authority, with files of what it has signed.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// The files of a switch.
    fn files(&self, folder: &Path) -> TlsFiles {
        let write = |name: &str, text: &str| -> PathBuf {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (certificate, key) = self.sign();
        TlsFiles {
            certificate: write("switch.pem", &certificate),
            key: write("switch.key", &key),
            client_authorities: write("authority.pem", &self.0.pem()),
        }
    }

    fn roots(&self) -> Arc<rustls::RootCertStore> {
        let mut roots = rustls::RootCertStore::empty();
        let pem = self.0.pem();
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        roots.add(certificate).unwrap();
        Arc::new(roots)
    }
}

fn own(signed: &(String, String)) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_slice(signed.0.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(signed.1.as_bytes()).unwrap();
    (vec![certificate], key)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[test]
fn tls_wants_a_certificate_of_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new(), Authority::new());
    let server = start(OpenFlowConfig {
        tls: Some(ours.files(folder.path())),
        ..listening(&["pssl:0"])
    });
    let address = chosen(&server, "tls:");
    let asks = |signed: Option<(String, String)>| {
        let config = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(ours.roots());
        let config = match signed.as_ref().map(own) {
            None => config.with_no_client_auth(),
            Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
        };
        let name = ServerName::try_from("localhost").unwrap();
        let session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(&address).unwrap();
        Peer::new(rustls::StreamOwned::new(session, stream)).asks()
    };
    assert!(asks(Some(ours.sign())));
    assert!(!asks(None), "no certificate");
    assert!(!asks(Some(others.sign())), "another authority");
    until(|| server.counters().failed_handshakes == 2);
    assert!(asks(Some(ours.sign())));

    let without = OpenFlowServer::start(Empty::default(), listening(&["pssl:0"])).unwrap_err();
    assert!(without.to_string().contains("give all three"), "{without}");
}

/// A configuration with a controller, which is tried for again and again at once.
fn reaching(controller: &str) -> OpenFlowConfig {
    OpenFlowConfig {
        controllers: vec![controller.parse::<Remote>().unwrap().into()],
        max_backoff: Duration::from_millis(1),
        ..OpenFlowConfig::default()
    }
}

#[test]
fn a_controller_that_comes_later_is_found_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("controller");
    let mut server = start(reaching(&format!("unix:{}", path.display())));
    until(|| server.counters().unreachable > 0);
    assert!(!server.has_controller());
    let listener = UnixListener::bind(&path).unwrap();
    for _ in 0..3 {
        let (stream, _) = listener.accept().unwrap();
        assert!(Peer::new(stream).asks());
    }
    let (stream, _) = listener.accept().unwrap();
    let mut peer = Peer::new(stream);
    assert!(peer.asks());
    until(|| server.has_controller());
    assert!(server.counters().connected >= 4);
    server.stop();
    assert_eq!(peer.next(), None);
}

/// A standalone server whose clock shows seconds; returns also what counts its changes.
fn standing_alone(
    config: OpenFlowConfig,
    seconds: &Arc<AtomicU64>,
) -> (OpenFlowServer, Arc<AtomicUsize>) {
    let config = OpenFlowConfig {
        fail_mode: FailMode::Standalone,
        ..config
    };
    let (switch, shown) = (Empty::default(), seconds.clone());
    let changes = switch.0.clone();
    let clock: OpenFlowClock = Arc::new(move || Duration::from_secs(shown.load(Ordering::SeqCst)));
    let server = OpenFlowServer::start_by(switch, config, clock, None).unwrap();
    (server, changes)
}

/// Lets a server look at the clock.
fn meet(server: &OpenFlowServer) {
    let before = server.turns();
    until(|| {
        server.nudge();
        // One turn may have begun before.
        server.turns() >= before + 2
    });
}

#[test]
fn a_standalone_switch_waits_from_its_start_whatever_the_clock_shows() {
    let seconds = Arc::new(AtomicU64::new(7_200));
    let folder = tempfile::tempdir().unwrap();
    let absent = format!("unix:{}", folder.path().join("controller").display());
    let (mut server, changes) = standing_alone(reaching(&absent), &seconds);
    for (shown, expected) in [(7_200, 0), (7_214, 0), (7_215, 1), (9_000, 1)] {
        seconds.store(shown, Ordering::SeqCst);
        meet(&server);
        assert_eq!(changes.load(Ordering::SeqCst), expected, "at {shown} s");
    }
    server.stop();
}

#[test]
fn a_standalone_switch_adds_no_rule_to_those_of_a_former_server() {
    for (is_resumed, expected) in [(false, 1), (true, 0)] {
        let config = OpenFlowConfig {
            is_resumed,
            ..listening(&["ptcp:0"])
        };
        let (mut server, changes) = standing_alone(config, &Arc::default());
        meet(&server);
        assert!(server.has_begun());
        assert_eq!(changes.load(Ordering::SeqCst), expected);
        server.stop();
    }
}

#[test]
fn each_controller_has_a_pace_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["quick", "slow"].map(|name| folder.path().join(name));
    let listeners = paths
        .each_ref()
        .map(|path| UnixListener::bind(path).unwrap());
    let pace = |path: &std::path::Path, max_backoff| ControllerTarget {
        address: format!("unix:{}", path.display()).parse().unwrap(),
        pace: Some(ControllerPace {
            probe_interval: None,
            max_backoff,
            packet_rate: None,
        }),
    };
    let config = OpenFlowConfig {
        controllers: vec![
            pace(&paths[0], Duration::ZERO),
            pace(&paths[1], Duration::from_secs(8)),
        ],
        ..OpenFlowConfig::default()
    };
    // The time stands still, so that no other pause ends.
    let clock: OpenFlowClock = Arc::new(|| Duration::ZERO);
    let mut server = OpenFlowServer::start_by(Empty::default(), config, clock, None).unwrap();
    drop(listeners[1].accept().unwrap());
    for _ in 0..20 {
        drop(listeners[0].accept().unwrap());
    }
    assert!(server.counters().connected >= 20);
    server.stop();
    listeners[1].set_nonblocking(true).unwrap();
    let again = listeners[1].accept().unwrap_err();
    assert_eq!(again.kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_controller_must_show_a_certificate_of_the_authority() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new(), Authority::new());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _server = start(OpenFlowConfig {
        tls: Some(ours.files(folder.path())),
        ..reaching(&format!("ssl:localhost:{port}"))
    });
    let answer = |signed: (String, String)| {
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(ours.roots(), provider());
        let (chain, key) = own(&signed);
        let config = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(chain, key)
            .unwrap();
        let session = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        let (stream, _) = listener.accept().unwrap();
        Peer::new(rustls::StreamOwned::new(session, stream)).asks()
    };
    assert!(!answer(others.sign()), "another authority");
    assert!(answer(ours.sign()));
}

#[test]
fn a_snooper_reads_along_and_may_ask_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (snoop, controller) = (folder.path().join("br0.snoop"), folder.path().join("ctl"));
    let listener = UnixListener::bind(&controller).unwrap();
    let _server = start(OpenFlowConfig {
        snoop: vec![format!("unix:{}", snoop.display()).parse().unwrap()],
        ..reaching(&format!("unix:{}", controller.display()))
    });
    let mut controller = Peer::new(listener.accept().unwrap().0);
    assert!(controller.asks());
    let mut snooper = Peer::new(UnixStream::connect(&snoop).unwrap());
    assert!(snooper.greet());
    snooper.session.send(1, &Message::BarrierRequest);
    let Some(Message::Error(error)) = snooper.next() else {
        panic!("a snooper was answered");
    };
    assert_eq!(error.code(Version::V15), Some(ErrorCode::OFPBRC_EPERM));
    controller.session.send(8, &Message::GetConfigRequest);
    assert!(matches!(
        controller.next(),
        Some(Message::GetConfigReply(_))
    ));
    assert_eq!(snooper.next(), Some(Message::GetConfigRequest));
    assert!(matches!(snooper.next(), Some(Message::GetConfigReply(_))));
}

#[test]
fn bytes_that_are_no_messages_end_their_connection_only() {
    let server = start(listening(&["ptcp:0"]));
    let address = chosen(&server, "tcp:");
    let mut good = Peer::new(TcpStream::connect(&address).unwrap());
    assert!(good.asks());
    let mut bad = TcpStream::connect(&address).unwrap();
    bad.write_all(b"GET / HTTP/1.1\r\n\r\n".repeat(2_000).as_slice())
        .unwrap();
    let mut told = Vec::new();
    // Bytes that the server did not read may be answered by a reset.
    match bad.read_to_end(&mut told) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert!(good.asks());
}

/// An agent with one connection, and what that was told.
fn agent(
    probe_interval: Option<Duration>,
    change_rate: Option<u32>,
) -> (Agent<Empty>, thalweg_control::openflow::ConnectionId) {
    let mut agent = Agent::new(Empty::default(), AgentLimits::default());
    let config = ConnectionConfig {
        kind: ConnectionKind::Controller,
        versions: Versions::ALL,
        probe_interval,
        packet_rate: None,
        change_rate,
    };
    let id = agent.open(config, Duration::ZERO);
    (agent, id)
}

#[test]
fn a_peer_that_says_no_hello_is_given_up() {
    let (mut agent, id) = agent(None, None);
    let due = agent.tick(Duration::ZERO).unwrap();
    // Half a hello is none.
    agent.receive(id, &[4, 0, 0, 8], Duration::ZERO);
    agent.tick(due - Duration::from_nanos(1));
    assert!(!agent.is_over(id));
    agent.tick(due);
    assert!(agent.is_over(id));
    assert_eq!(agent.end_reason(id), Some("the peer says no hello"));
}

#[test]
fn a_silent_peer_is_asked_and_then_given_up() {
    let second = Duration::from_secs(1);
    let (mut agent, id) = agent(Some(5 * second), None);
    agent.receive(id, &[4, 0, 0, 8, 0, 0, 0, 0], Duration::ZERO);
    let said = |agent: &mut Agent<Empty>| {
        let bytes = agent.take_output(id)?;
        Some(decode(&bytes, Context::default()).unwrap().message)
    };
    assert!(matches!(said(&mut agent), Some(Message::Hello(_))));
    assert_eq!(agent.tick(4 * second), Some(5 * second));
    assert_eq!(said(&mut agent), None);
    agent.tick(5 * second);
    assert!(matches!(said(&mut agent), Some(Message::EchoRequest(_))));
    // Any message is an answer.
    agent.receive(id, &[4, 20, 0, 8, 0, 0, 0, 1], 9 * second);
    assert_eq!(said(&mut agent), Some(Message::BarrierReply));
    agent.tick(14 * second);
    assert!(matches!(said(&mut agent), Some(Message::EchoRequest(_))));
    agent.tick(19 * second - Duration::from_nanos(1));
    assert!(!agent.is_over(id));
    agent.tick(19 * second);
    assert_eq!(agent.end_reason(id), Some("the peer is silent"));
}

#[test]
fn a_connection_that_asks_for_too_many_changes_waits() {
    let (mut agent, id) = agent(None, Some(2));
    let hello = [4, 0, 0, 8, 0, 0, 0, 0];
    let group_mod = [4, 15, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7];
    let barrier = [4, 20, 0, 8, 0, 0, 0, 2];
    let mut input = hello.to_vec();
    for _ in 0..4 {
        input.extend_from_slice(&group_mod);
        input.extend_from_slice(&barrier);
    }
    let replies = |agent: &mut Agent<Empty>| {
        let messages = std::iter::from_fn(|| agent.take_output(id));
        let messages = messages.map(|bytes| decode(&bytes, Context::default()).unwrap().message);
        messages
            .filter(|message| *message == Message::BarrierReply)
            .count()
    };
    agent.receive(id, &input, Duration::ZERO);
    // The barrier behind the second change waits with all that follows.
    assert_eq!(replies(&mut agent), 1);
    assert!(agent.is_limited(id) && !agent.has_work(id) && !agent.wants_input(id));
    let half = Duration::from_millis(500);
    assert_eq!(agent.tick(Duration::ZERO), Some(half));
    for step in 1..=3 {
        agent.tick(half * step);
        assert!(agent.has_work(id));
        agent.work(id, half * step);
        assert_eq!(replies(&mut agent), 1, "after {step} halves of a second");
    }
    assert_eq!(agent.counters().changes_done, 4);
}

/// What a connection was told since the last call.
fn told(agent: &mut Agent<Empty>, id: thalweg_control::openflow::ConnectionId) -> Vec<Message> {
    let messages = std::iter::from_fn(|| agent.take_output(id));
    let messages = messages.map(|bytes| decode(&bytes, Context::default()).unwrap().message);
    messages.collect()
}

#[test]
fn a_service_connection_is_told_what_it_asks_for_and_nothing_before() {
    let (mut agent, changing) = agent(None, None);
    let config = ConnectionConfig {
        kind: ConnectionKind::Service,
        versions: Versions::ALL,
        probe_interval: None,
        packet_rate: None,
        change_rate: None,
    };
    let service = agent.open(config, Duration::ZERO);
    let hello = [5, 0, 0, 8, 0, 0, 0, 0];
    for id in [changing, service] {
        agent.receive(id, &hello, Duration::ZERO);
        told(&mut agent, id);
    }
    let add_group = [5, 15, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7];
    agent.receive(changing, &add_group, Duration::ZERO);
    assert_eq!(told(&mut agent, service), []);
    // Changes of groups and meters by others, while it is no secondary.
    let set_async = [5, 28, 0, 16, 0, 0, 0, 2, 0, 11, 0, 8, 0, 0, 0, 3];
    agent.receive(service, &set_async, Duration::ZERO);
    agent.receive(changing, &add_group, Duration::ZERO);
    let forwarded = told(&mut agent, service);
    assert!(
        matches!(forwarded[..], [Message::RequestForward(_)]),
        "{forwarded:?}"
    );
    assert_eq!(told(&mut agent, changing), [], "it knows");
}

#[test]
fn the_configuration_says_whether_packets_with_an_expired_ttl_are_told() {
    let (mut agent, id) = agent(None, None);
    agent.receive(id, &[1, 0, 0, 8, 0, 0, 0, 0], Duration::ZERO);
    told(&mut agent, id);
    for flags in [0, 4, 0] {
        let mut input = vec![1, 9, 0, 12, 0, 0, 0, 1, 0, flags, 0, 128];
        input.extend([1, 7, 0, 8, 0, 0, 0, 2]);
        agent.receive(id, &input, Duration::ZERO);
        let expected = SwitchConfig {
            flags: flags.into(),
            miss_send_length: 128,
        };
        assert_eq!(
            told(&mut agent, id),
            [Message::GetConfigReply(expected)],
            "{flags}"
        );
    }
}
