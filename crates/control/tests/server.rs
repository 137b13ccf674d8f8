//! Tests the server with gRPC clients, over a Unix socket, TCP and TLS.

mod harness;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant as Clock;

use harness::*;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use thalweg_control::model::Model;
use thalweg_control::proto::google::rpc;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use thalweg_control::proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use thalweg_control::proto::p4::v1::stream_message_response::Update as Response;
use thalweg_control::{
    Code, Device, DeviceConfig, Server, ServerConfig, ServerError, ServerLimits, TlsFiles, Value,
    Wire,
};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

type Client = P4RuntimeClient<Channel>;

fn start(listen: &str, tls: Option<TlsFiles>) -> Result<Server, ServerError> {
    let config = ServerConfig {
        listen: listen.parse().unwrap(),
        tls,
        start: Clock::now(),
        limits: ServerLimits::default(),
    };
    let device = Device::new(DeviceConfig::default(), Model::default());
    Server::start(&config, Wire::default(), device)
}

/// Runs a client.
fn block_on<R>(client: impl Future<Output = R>) -> R {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(client)
}

async fn unix_client(path: &Path) -> Client {
    let path = path.to_owned();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://switch");
    P4RuntimeClient::new(endpoint.connect_with_connector(connector).await.unwrap())
}

/// A stream of a controller.
struct Stream {
    outlet: mpsc::Sender<p4::StreamMessageRequest>,
    inlet: tonic::Streaming<p4::StreamMessageResponse>,
}

impl Stream {
    async fn open(client: &mut Client, election: u64) -> Stream {
        let (outlet, receiver) = mpsc::channel(16);
        outlet
            .send(arbitration(1, "", Some(election)))
            .await
            .unwrap();
        let response = client.stream_channel(ReceiverStream::new(receiver)).await;
        Stream {
            outlet,
            inlet: response.unwrap().into_inner(),
        }
    }

    async fn next(&mut self) -> Response {
        let message = self.inlet.message().await.unwrap().unwrap();
        message.update.unwrap()
    }

    async fn arbitration_code(&mut self) -> Code {
        match self.next().await {
            Response::Arbitration(update) => Code::from_i32(update.status.unwrap().code),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_controller_does_its_work_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p4rt.sock");
    let wire = Wire::default();
    let notices = wire.notices();
    let config = ServerConfig {
        listen: format!("unix:{}", path.display()).parse().unwrap(),
        tls: None,
        start: Clock::now(),
        limits: ServerLimits::default(),
    };
    let device = Device::new(DeviceConfig::default(), Model::default());
    let server = Server::start(&config, wire, device).unwrap();
    block_on(async {
        let mut client = unix_client(&path).await;
        let mut stream = Stream::open(&mut client, 1).await;
        assert_eq!(stream.arbitration_code().await, Code::Ok);
        let request = pipeline_request(Action::VerifyAndCommit, Some(harness::config()));
        client
            .set_forwarding_pipeline_config(request)
            .await
            .unwrap();
        let digest = insert(Kind::DigestEntry(p4::DigestEntry {
            digest_id: DIGEST,
            config: Some(p4::digest_entry::Config {
                max_list_size: 1,
                ..Default::default()
            }),
        }));
        let updates = vec![insert(Kind::TableEntry(mac(1))), digest];
        client.write(write_request(updates)).await.unwrap();
        // The details of a failure reach the client.
        let updates = vec![
            insert(Kind::TableEntry(mac(2))),
            insert(Kind::TableEntry(mac(1))),
        ];
        let status = client.write(write_request(updates)).await.unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        let details: rpc::Status = prost::Message::decode(status.details()).unwrap();
        let detail = |index: usize| -> p4::Error {
            prost::Message::decode(details.details[index].value.as_slice()).unwrap()
        };
        assert_eq!(detail(0).canonical_code, Code::Ok as i32);
        assert_eq!(detail(1).canonical_code, Code::AlreadyExists as i32);
        let read = p4::ReadRequest {
            device_id: 1,
            entities: vec![p4::Entity {
                entity: Some(Kind::TableEntry(entry(MAC, vec![], None))),
            }],
            ..Default::default()
        };
        let mut answer = client.read(read).await.unwrap().into_inner();
        let entities = answer.message().await.unwrap().unwrap().entities;
        assert_eq!(entities.len(), 2);
        assert_eq!(answer.message().await.unwrap(), None);
        notices.digest(DIGEST, vec![Value::from(7), Value::from(3)]);
        assert!(matches!(stream.next().await, Response::Digest(list) if list.data.len() == 1));
        notices.packet(bytes::Bytes::from_static(b"\x02\x80world"));
        assert!(
            matches!(stream.next().await, Response::Packet(packet) if &packet.payload[..] == b"world")
        );
    });
    assert_eq!(notices.dropped(), 0);
    let counters = server.stop();
    assert_eq!((counters.updates, counters.refused_updates), (3, 1));
    assert_eq!((counters.packets_in, counters.digest_lists), (1, 1));
    assert!(!path.exists(), "the socket is gone");
}

#[test]
fn a_backup_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p4rt.sock");
    let server = start(&format!("unix:{}", path.display()), None).unwrap();
    block_on(async {
        let mut client = unix_client(&path).await;
        let mut stream = Stream::open(&mut client, 1).await;
        assert_eq!(stream.arbitration_code().await, Code::Ok);
        let request = pipeline_request(Action::VerifyAndCommit, Some(harness::config()));
        client
            .set_forwarding_pipeline_config(request)
            .await
            .unwrap();
        client
            .write(write_request(vec![insert(Kind::TableEntry(mac(1)))]))
            .await
            .unwrap();
        let mut other = unix_client(&path).await;
        let mut backup = Stream::open(&mut other, 0).await;
        assert_eq!(backup.arbitration_code().await, Code::AlreadyExists);
        drop(stream);
        drop(client);
        assert_eq!(backup.arbitration_code().await, Code::NotFound);
        backup
            .outlet
            .send(arbitration(1, "", Some(2)))
            .await
            .unwrap();
        assert_eq!(backup.arbitration_code().await, Code::Ok);
        let mut request = write_request(vec![delete(Kind::TableEntry(mac(1)))]);
        let status = other.write(request.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "the old election id");
        request.election_id = Some(id(2));
        other.write(request).await.unwrap();
        // A refused arbitration ends the stream with the code.
        let mut third = Stream::open(&mut other, 2).await;
        let status = third.inlet.message().await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    });
    server.stop();
}

#[test]
fn a_socket_that_nobody_listens_on_is_replaced_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p4rt.sock");
    let listen = format!("unix:{}", path.display());
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = start(&listen, None).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(matches!(
        start(&listen, None),
        Err(ServerError::Bind { .. })
    ));
    drop(server);
    std::fs::write(&path, "a file of somebody's").unwrap();
    assert!(matches!(
        start(&listen, None),
        Err(ServerError::Bind { .. })
    ));
    assert!(path.exists());
}

#[test]
fn tcp_in_the_open_works_where_it_is_asked_for() {
    let server = start("tcp:127.0.0.1:0", None).unwrap();
    let address = server.address().strip_prefix("tcp:").unwrap().to_owned();
    block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let mut client = P4RuntimeClient::new(endpoint.connect().await.unwrap());
        let answer = client
            .capabilities(p4::CapabilitiesRequest::default())
            .await;
        let version = answer.unwrap().into_inner().p4runtime_api_version;
        assert_eq!(version, thalweg_control::API_VERSION);
    });
    server.stop();
}

/// An authority, with files of what it has signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority {
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
        }
    }

    fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["switch.test".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn client_config(
    authority: &Authority,
    own: Option<&(String, String)>,
    version: &'static rustls::SupportedProtocolVersion,
) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    let pem = authority.issuer.pem();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            config
                .with_client_auth_cert(vec![certificate], key)
                .unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// Requests the capabilities, and returns whether that succeeded.
fn asks(address: &str, config: rustls::ClientConfig) -> bool {
    let (address, config) = (address.to_owned(), Arc::new(config));
    block_on(async {
        let connector = tower::service_fn(move |_| {
            let (address, config) = (address.clone(), config.clone());
            async move {
                let stream = TcpStream::connect(address).await?;
                let name = ServerName::try_from("switch.test").unwrap();
                let stream = TlsConnector::from(config).connect(name, stream).await?;
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        let endpoint = Endpoint::from_static("http://switch.test");
        let Ok(channel) = endpoint.connect_with_connector(connector).await else {
            return false;
        };
        let mut client = P4RuntimeClient::new(channel);
        client
            .capabilities(p4::CapabilitiesRequest::default())
            .await
            .is_ok()
    })
}

#[test]
fn tls_wants_certificates_of_both() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (ours, others) = (Authority::new(), Authority::new());
    let (certificate, key) = ours.sign();
    let files = TlsFiles {
        certificate: write("server.pem", &certificate),
        key: write("server.key", &key),
        client_authorities: write("clients.pem", &ours.issuer.pem()),
    };
    let server = start("tls:127.0.0.1:0", Some(files.clone())).unwrap();
    let address = server.address().strip_prefix("tls:").unwrap().to_owned();
    let version = &rustls::version::TLS13;
    assert!(asks(
        &address,
        client_config(&ours, Some(&ours.sign()), version)
    ));
    assert!(
        !asks(&address, client_config(&ours, None, version)),
        "no certificate"
    );
    let stranger = others.sign();
    assert!(
        !asks(&address, client_config(&ours, Some(&stranger), version)),
        "another authority"
    );
    assert!(
        !asks(
            &address,
            client_config(&others, Some(&ours.sign()), version)
        ),
        "another server"
    );
    // Bytes that are no handshake affect no other client.
    let mut noise = std::net::TcpStream::connect(&address).unwrap();
    std::io::Write::write_all(&mut noise, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(asks(
        &address,
        client_config(&ours, Some(&ours.sign()), version)
    ));
    server.stop();

    let refused =
        |files: Option<TlsFiles>| start("tls:127.0.0.1:0", files).err().unwrap().to_string();
    assert!(refused(None).contains("give all three"));
    let missing = TlsFiles {
        key: folder.path().join("none.key"),
        ..files.clone()
    };
    assert!(refused(Some(missing)).contains("none.key"));
    let wrong = TlsFiles {
        key: files.certificate.clone(),
        ..files.clone()
    };
    assert!(refused(Some(wrong)).contains("server.pem"));
    let empty = TlsFiles {
        client_authorities: write("empty.pem", ""),
        ..files
    };
    assert!(refused(Some(empty)).contains("there is no certificate in it"));
}

/// A server with these limits.
fn start_with(listen: &str, tls: Option<TlsFiles>, limits: ServerLimits) -> Server {
    let config = ServerConfig {
        listen: listen.parse().unwrap(),
        tls,
        start: Clock::now(),
        limits,
    };
    let device = Device::new(DeviceConfig::default(), Model::default());
    Server::start(&config, Wire::default(), device).unwrap()
}

/// A read of all counters, `count` times.
fn counters(count: usize) -> p4::ReadRequest {
    let all = p4::Entity {
        entity: Some(Kind::CounterEntry(p4::CounterEntry::default())),
    };
    p4::ReadRequest {
        device_id: 1,
        entities: vec![all; count],
        ..Default::default()
    }
}

#[test]
fn a_reader_that_takes_nothing_delays_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p4rt.sock");
    let limits = ServerLimits {
        max_reads: 3,
        message_bytes: 1 << 30,
        message_bytes_per_peer: 1 << 30,
        ..ServerLimits::default()
    };
    let server = start_with(&format!("unix:{}", path.display()), None, limits);
    block_on(async {
        let mut client = unix_client(&path).await;
        let mut stream = Stream::open(&mut client, 1).await;
        assert_eq!(stream.arbitration_code().await, Code::Ok);
        let request = pipeline_request(Action::VerifyAndCommit, Some(harness::config()));
        client
            .set_forwarding_pipeline_config(request)
            .await
            .unwrap();
        // Answers larger than a connection buffers, of which nothing is read.
        let mut silent = Vec::new();
        for _ in 0..3 {
            let mut other = unix_client(&path).await;
            let answer = other.read(counters(200_000)).await.unwrap().into_inner();
            silent.push((other, answer));
        }
        let updates = vec![insert(Kind::TableEntry(mac(1)))];
        client.write(write_request(updates)).await.unwrap();
        let mut answer = client.read(counters(1)).await.unwrap().into_inner();
        while answer.message().await.unwrap().is_some() {}
        // Four reads for three places: the oldest has lost its place.
        let (_, first) = &mut silent[0];
        let status = loop {
            match first.message().await {
                Ok(message) => assert!(message.is_some(), "it has not ended well"),
                Err(status) => break status,
            }
        };
        assert_eq!(status.code(), Code::Aborted);
    });
    assert_eq!(server.counters().evicted_reads, 1);
    server.stop();
}

#[test]
fn the_details_of_a_large_batch_cross_the_wire() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p4rt.sock");
    let server = start(&format!("unix:{}", path.display()), None).unwrap();
    block_on(async {
        let mut client = unix_client(&path).await;
        let mut stream = Stream::open(&mut client, 1).await;
        assert_eq!(stream.arbitration_code().await, Code::Ok);
        let request = pipeline_request(Action::VerifyAndCommit, Some(harness::config()));
        client
            .set_forwarding_pipeline_config(request)
            .await
            .unwrap();
        let updates = vec![delete(Kind::TableEntry(mac(1))); 2_000];
        let status = client.write(write_request(updates)).await.unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        assert!(status.message().contains("2000 of 2000"), "{status}");
        let details: rpc::Status = prost::Message::decode(status.details()).unwrap();
        let sent = details.details.len() as u64;
        assert!(sent > 20, "{sent}");
        assert_eq!(server.counters().unsent_details, 2_000 - sent);
    });
    server.stop();
}

#[test]
fn silent_connections_lock_nobody_out_of_the_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ours = Authority::new();
    let (certificate, key) = ours.sign();
    let files = TlsFiles {
        certificate: write("server.pem", &certificate),
        key: write("server.key", &key),
        client_authorities: write("clients.pem", &ours.issuer.pem()),
    };
    let limits = ServerLimits {
        max_handshakes: 8,
        max_handshakes_per_peer: 4,
        // Longer than any test: only eviction lets a controller in.
        handshake_timeout: std::time::Duration::from_secs(3_600),
        ..ServerLimits::default()
    };
    let server = start_with("tls:127.0.0.1:0", Some(files), limits);
    let address = server.address().strip_prefix("tls:").unwrap().to_owned();
    let connect = |_| std::net::TcpStream::connect(&address).unwrap();
    let silent: Vec<_> = (0..20).map(connect).collect();
    let version = &rustls::version::TLS13;
    let config = client_config(&ours, Some(&ours.sign()), version);
    assert!(asks(&address, config));
    // The controller's was the 21st handshake, and four may be in progress.
    assert_eq!(server.counters().evicted_handshakes, 17);
    drop(silent);
    server.stop();
}
