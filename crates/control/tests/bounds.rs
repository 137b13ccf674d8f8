//! Tests clients that take all they can: message memory, connections, streams, answers.

mod harness;

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant as Clock;

use bytes::{BufMut, Bytes, BytesMut};
use harness::*;
use http_body::{Body as HttpBody, Frame};
use prost::Message;
use thalweg_control::model::Model;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use thalweg_control::proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use thalweg_control::{Code, Device, DeviceConfig, Server, ServerConfig, ServerLimits, Wire};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

fn start(limits: ServerLimits) -> Server {
    let config = ServerConfig {
        listen: "tcp:127.0.0.1:0".parse().unwrap(),
        tls: None,
        start: Clock::now(),
        limits,
    };
    let device = Device::new(DeviceConfig::default(), Model::default());
    Server::start(&config, Wire::default(), device).unwrap()
}

/// Runs clients.
fn block_on<R>(client: impl Future<Output = R>) -> R {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(client)
}

async fn channel(server: &Server) -> Channel {
    let address = server.address().strip_prefix("tcp:").unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    // Small windows, so that an answer that is not read stays in the server.
    let endpoint = endpoint.initial_stream_window_size(65_535);
    endpoint.connect().await.unwrap()
}

type Stream = (
    mpsc::Sender<p4::StreamMessageRequest>,
    Streaming<p4::StreamMessageResponse>,
);

async fn open(client: &mut P4RuntimeClient<Channel>, election: u64) -> Result<Stream, Status> {
    let (outlet, receiver) = mpsc::channel(1);
    let message = arbitration(1, "", Some(election));
    outlet.send(message).await.unwrap();
    let response = client.stream_channel(ReceiverStream::new(receiver)).await?;
    Ok((outlet, response.into_inner()))
}

/// A primary controller, with the harness's program and `bytes` blanks.
async fn controller(server: &Server, bytes: usize) -> (P4RuntimeClient<Channel>, Stream) {
    let mut client = P4RuntimeClient::new(channel(server).await);
    let mut stream = open(&mut client, 1).await.unwrap();
    stream.1.message().await.unwrap().unwrap();
    let mut config = config();
    config.p4_device_config = padded(&config.p4_device_config, bytes);
    let request = pipeline_request(Action::VerifyAndCommit, Some(config));
    let done = client.set_forwarding_pipeline_config(request).await;
    done.unwrap();
    (client, stream)
}

/// A program followed by `bytes` blanks.
fn padded(program: &[u8], bytes: usize) -> Bytes {
    [program, &vec![b' '; bytes]].concat().into()
}

/// A body whose bytes come from a channel.
struct Raw(mpsc::Receiver<Bytes>);

impl HttpBody for Raw {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let bytes = ready!(self.0.poll_recv(context));
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn post(method: &str, body: Body) -> http::Request<Body> {
    let path = format!("/p4.v1.P4Runtime/{method}");
    let request = http::Request::post(path).header("content-type", "application/grpc");
    request.body(body).unwrap()
}

/// A gRPC message that announces `length` bytes.
fn announced(length: u32, bytes: &[u8]) -> Bytes {
    let mut message = BytesMut::new();
    message.put_u8(0);
    message.put_u32(length);
    message.put_slice(bytes);
    message.freeze()
}

/// The status in the header of an answer.
fn code_of(response: &http::Response<Body>) -> Option<&str> {
    let status = response.headers().get("grpc-status");
    status.map(|status| status.to_str().unwrap())
}

const RESOURCE_EXHAUSTED: &str = "8";

#[test]
fn writes_that_never_end_make_room_for_others() {
    let limits = ServerLimits {
        message_bytes: 1 << 20,
        message_bytes_per_peer: 1 << 20,
        ..ServerLimits::default()
    };
    let server = start(limits);
    block_on(async {
        let (mut client, _stream) = controller(&server, 0).await;
        let hostile = channel(&server).await;
        let (report, mut reports) = mpsc::channel(64);
        let mut outlets = Vec::new();
        for _ in 0..30 {
            let (outlet, receiver) = mpsc::channel(1);
            let message = announced(100_000, &[0x08, 1]);
            outlet.send(message).await.unwrap();
            outlets.push(outlet);
            let (mut hostile, report) = (hostile.clone(), report.clone());
            tokio::spawn(async move {
                std::future::poll_fn(|context| hostile.poll_ready(context))
                    .await
                    .unwrap();
                let request = post("Write", Body::new(Raw(receiver)));
                let response = hostile.call(request).await.unwrap();
                report.send(response).await.unwrap();
            });
        }
        // Each holds 101,024 bytes of 1,048,576: 10 have room.
        for _ in 0..20 {
            let response = reports.recv().await.unwrap();
            assert_eq!(code_of(&response), Some(RESOURCE_EXHAUSTED));
        }
        assert_eq!(server.counters().evicted_messages, 20);
        // A controller's update is done nevertheless.
        let updates = vec![insert(Kind::TableEntry(mac(1))); 1];
        client.write(write_request(updates)).await.unwrap();
        drop(outlets);
    });
    assert_eq!(server.counters().refused_messages, 0);
    server.stop();
}

#[test]
fn an_update_of_two_bytes_is_counted_as_what_it_becomes() {
    let limits = ServerLimits {
        message_bytes: 16 << 20,
        message_bytes_per_peer: 8 << 20,
        ..ServerLimits::default()
    };
    let server = start(limits);
    block_on(async {
        let (mut client, _stream) = controller(&server, 0).await;
        let request = write_request(vec![p4::Update::default(); 100_000]);
        assert!(request.encoded_len() < 300_000);
        let status = client.write(request).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert_eq!(server.counters().refused_messages, 1);
        // A valid write has room; a read that is small only on the wire is refused, too.
        let request = write_request(vec![insert(Kind::TableEntry(mac(1)))]);
        client.write(request).await.unwrap();
        let message = p4::ReadRequest {
            device_id: 1,
            entities: vec![p4::Entity::default(); 100_000],
            ..Default::default()
        };
        let status = client.read(message).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
    });
    assert_eq!(server.counters().refused_messages, 2);
    server.stop();
}

#[test]
fn what_messages_held_is_given_back() {
    let limits = ServerLimits {
        message_bytes: 1 << 20,
        message_bytes_per_peer: 1 << 20,
        ..ServerLimits::default()
    };
    let server = start(limits);
    block_on(async {
        let (mut client, stream) = controller(&server, 0).await;
        for _ in 0..20 {
            // About 200,000 bytes each.
            let updates = vec![delete(Kind::TableEntry(mac(1))); 100];
            let status = client.write(write_request(updates)).await.unwrap_err();
            assert_eq!(status.code(), Code::Unknown, "{status}");
        }
        let (outlet, mut inlet) = stream;
        let payload = Bytes::from(vec![0; 100_000]);
        for _ in 0..20 {
            let update = p4::stream_message_request::Update::Packet(p4::PacketOut {
                payload: payload.clone(),
                ..Default::default()
            });
            let message = p4::StreamMessageRequest {
                update: Some(update),
            };
            outlet.send(message).await.unwrap();
            // Its answer comes after the packet was handled.
            let update = arbitration(1, "", Some(1));
            outlet.send(update).await.unwrap();
            loop {
                use p4::stream_message_response::Update;
                let message = inlet.message().await.unwrap().unwrap();
                if matches!(message.update, Some(Update::Arbitration(_))) {
                    break;
                }
            }
        }
    });
    let counters = server.counters();
    assert_eq!(
        (counters.refused_messages, counters.evicted_messages),
        (0, 0)
    );
    server.stop();
}

#[test]
fn a_peer_has_its_streams_and_no_more() {
    let limits = ServerLimits {
        max_streams_per_peer: 2,
        ..ServerLimits::default()
    };
    let server = start(limits);
    block_on(async {
        let mut client = P4RuntimeClient::new(channel(&server).await);
        let mut streams = Vec::new();
        for election in 1..3 {
            let mut stream = open(&mut client, election).await.unwrap();
            stream.1.message().await.unwrap().unwrap();
            streams.push(stream);
        }
        // Over another connection: a peer is a host.
        let mut other = P4RuntimeClient::new(channel(&server).await);
        let status = open(&mut other, 3).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(server.counters().refused_streams, 1);
        let (outlet, mut inlet) = streams.pop().unwrap();
        drop(outlet);
        while let Ok(Some(_)) = inlet.message().await {}
        open(&mut other, 3).await.unwrap();
    });
    assert_eq!(server.counters().refused_streams, 1);
    server.stop();
}

#[test]
fn a_peer_has_its_connections_and_no_more() {
    let limits = ServerLimits {
        max_connections_per_peer: 2,
        ..ServerLimits::default()
    };
    let server = start(limits);
    block_on(async {
        let mut clients = Vec::new();
        for _ in 0..2 {
            let mut client = P4RuntimeClient::new(channel(&server).await);
            let request = p4::CapabilitiesRequest::default();
            client.capabilities(request).await.unwrap();
            clients.push(client);
        }
        let address = server.address().strip_prefix("tcp:").unwrap();
        let mut further = tokio::net::TcpStream::connect(address).await.unwrap();
        let read = tokio::io::AsyncReadExt::read(&mut further, &mut [0; 1]).await;
        assert!(matches!(read, Ok(0) | Err(_)), "it is closed");
        assert_eq!(server.counters().refused_connections, 1);
        let request = p4::CapabilitiesRequest::default();
        clients[0].capabilities(request).await.unwrap();
    });
    server.stop();
}

#[test]
fn configurations_that_are_not_taken_hold_what_they_may() {
    let limits = ServerLimits {
        answer_bytes: 5 << 20,
        answer_bytes_per_peer: 3 << 20,
        ..ServerLimits::default()
    };
    let server = start(limits);
    block_on(async {
        let (mut client, _stream) = controller(&server, 2 << 20).await;
        let request = p4::GetForwardingPipelineConfigRequest {
            device_id: 1,
            ..Default::default()
        };
        let bytes = request.encode_to_vec();
        let message = announced(bytes.len() as u32, &bytes);
        let mut slow = channel(&server).await;
        let (outlet, receiver) = mpsc::channel(1);
        outlet.send(message).await.unwrap();
        drop(outlet);
        std::future::poll_fn(|context| slow.poll_ready(context))
            .await
            .unwrap();
        let request_of = post("GetForwardingPipelineConfig", Body::new(Raw(receiver)));
        let mut answer = slow.call(request_of).await.unwrap();
        assert_eq!(code_of(&answer), None, "it is being sent");
        let get = client.get_forwarding_pipeline_config(request);
        let status = get.await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(server.counters().refused_answers, 1);
        // Once the answer is taken, there is room again.
        let body = answer.body_mut();
        let mut taken = 0;
        while let Some(frame) =
            std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
        {
            taken += frame.unwrap().data_ref().map_or(0, Bytes::len);
        }
        assert!(taken > 2 << 20);
        client
            .get_forwarding_pipeline_config(request)
            .await
            .unwrap();
    });
    server.stop();
}

#[test]
fn what_is_stored_keeps_no_request_alive() {
    let mut device = Device::new(DeviceConfig::default(), Model::default());
    let mut config = config();
    let buffer = padded(&config.p4_device_config, 10_000);
    let part = || buffer.slice(buffer.len() - 4..);
    config.p4_device_config = buffer.slice(..buffer.len() - 5_000);
    let started = device.start_with(&config, thalweg_packet::Instant::ZERO);
    started.unwrap();
    config.p4_device_config = Bytes::new();
    let mut table_entry = mac(1);
    table_entry.metadata = part();
    let group = p4::PacketReplicationEngineEntry {
        r#type: Some(
            p4::packet_replication_engine_entry::Type::MulticastGroupEntry(
                p4::MulticastGroupEntry {
                    multicast_group_id: 1,
                    metadata: part(),
                    ..Default::default()
                },
            ),
        ),
    };
    let updates = vec![
        insert(Kind::TableEntry(table_entry)),
        insert(Kind::PacketReplicationEngineEntry(group)),
    ];
    let written = device.write_at_start(&updates, thalweg_packet::Instant::ZERO);
    written.unwrap();
    drop(updates);
    assert!(buffer.is_unique(), "parts of it are kept");
}
