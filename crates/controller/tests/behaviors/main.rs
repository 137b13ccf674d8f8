//! Tests B-Cache as a program under a controller.
//!
//! A keeper over gRPC fills the cache table from digests, and makes changes within its barrier.

mod keeping;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant as Clock;

use hyper_util::rt::TokioIo;
use num_bigint::BigUint;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use thalweg_control::proto::p4::v1::stream_message_response::Update as Response;
use thalweg_control::{
    Device, DeviceConfig, Notices, Server, ServerConfig, ServerLimits, TlsFiles, Wire, read_text,
    to_text,
};
use thalweg_controller::{CacheTable, report_numbers, with_cache};
use thalweg_p4::Outbox;
use thalweg_p4::behavior::transform::{Keeper, transform};
use thalweg_p4::program::ids::TableId;
use thalweg_p4::program::table::Match;
use thalweg_packet::Instant;
use thalweg_switch::{P4Forwarder, P4Plane, P4PlaneConfig};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

const SMAC: u32 = 0x0200_0001;
const DMAC: u32 = 0x0200_0002;
const NO_ACTION: u32 = 0x0100_0001;
const FORWARD: u32 = 0x0100_0003;
const ELECTION: p4::Uint128 = p4::Uint128 { high: 0, low: 1 };

/// The learning switch without entry counters, time-outs and its register, which no cache can
/// remember.
fn learning() -> (String, String) {
    let program = include_str!("../../../control/testdata/learning.json")
        .replace(r#""with_counters": true"#, r#""with_counters": false"#)
        .replace(r#""support_timeout": true"#, r#""support_timeout": false"#);
    let mut program: serde_json::Value = serde_json::from_str(&program).expect("JSON");
    let arrays = program["counter_arrays"].as_array_mut().expect("counters");
    arrays.retain(|array| array["is_direct"] != true);
    for action in program["actions"].as_array_mut().expect("actions") {
        let primitives = action["primitives"].as_array_mut().expect("primitives");
        primitives.retain(|primitive| primitive["op"] != "register_write");
    }
    let program = program.to_string();
    let p4info = include_str!("../../../control/testdata/learning.p4info.txtpb")
        .replace("idle_timeout_behavior: NOTIFY_CONTROL", "")
        .replace("direct_resource_ids: 0x13000001", "");
    let (before, rest) = p4info.split_once("direct_counters {").expect("a counter");
    let (_, after) = rest.split_once("registers {").expect("a register");
    (program, format!("{before}registers {{{after}"))
}

fn frame(to: u8, from: u8) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 0, to, 0, 0, 0, 0, 0, from, 8, 0];
    bytes.resize(60, 0);
    bytes
}

fn entry(table_id: u32, mac: u8, action_id: u32, port: Option<u8>) -> p4::TableEntry {
    let bytes = |number: u8| bytes::Bytes::copy_from_slice(&[number]);
    let params = port.into_iter().map(|port| p4::action::Param {
        param_id: 1,
        value: bytes(port),
    });
    p4::TableEntry {
        table_id,
        r#match: vec![p4::FieldMatch {
            field_id: 1,
            field_match_type: Some(p4::field_match::FieldMatchType::Exact(
                p4::field_match::Exact { value: bytes(mac) },
            )),
        }],
        action: Some(p4::TableAction {
            r#type: Some(p4::table_action::Type::Action(p4::Action {
                action_id,
                params: params.collect(),
            })),
        }),
        ..Default::default()
    }
}

fn update(kind: p4::update::Type, entry: p4::TableEntry) -> p4::Update {
    p4::Update {
        r#type: kind as i32,
        entity: Some(p4::Entity {
            entity: Some(Kind::TableEntry(entry)),
        }),
    }
}

/// The controller: its connection and the keeper.
struct Controller {
    client: P4RuntimeClient<Channel>,
    outlet: mpsc::Sender<p4::StreamMessageRequest>,
    inlet: tonic::Streaming<p4::StreamMessageResponse>,
    keeper: Keeper,
    cache: CacheTable,
}

impl Controller {
    async fn start(path: &Path) -> Controller {
        let path = path.to_owned();
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://switch");
        let channel = endpoint.connect_with_connector(connector).await.unwrap();
        let mut client = P4RuntimeClient::new(channel);
        let (outlet, receiver) = mpsc::channel(16);
        let primary = p4::MasterArbitrationUpdate {
            device_id: 1,
            election_id: Some(ELECTION),
            ..Default::default()
        };
        let message = p4::StreamMessageRequest {
            update: Some(p4::stream_message_request::Update::Arbitration(primary)),
        };
        outlet.send(message).await.unwrap();
        let stream = client.stream_channel(ReceiverStream::new(receiver)).await;
        let mut inlet = stream.unwrap().into_inner();
        assert!(
            inlet.message().await.unwrap().is_some(),
            "it is the primary"
        );
        let (program, p4info) = learning();
        let made = transform(&program, 100).unwrap_or_else(|error| panic!("{error}"));
        let p4info = with_cache(&read_text(&p4info).unwrap(), &made.plan);
        // Through the text form, as `thalweg p4 cache` writes it.
        let p4info = read_text(&to_text(&p4info).unwrap()).unwrap();
        let cache = CacheTable::find(&p4info, &made.plan).expect("all of it");
        let request = p4::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(ELECTION),
            action: p4::set_forwarding_pipeline_config_request::Action::VerifyAndCommit as i32,
            config: Some(p4::ForwardingPipelineConfig {
                p4info: Some(p4info),
                p4_device_config: made.json.to_string().into(),
                cookie: None,
            }),
            ..Default::default()
        };
        client
            .set_forwarding_pipeline_config(request)
            .await
            .unwrap();
        let mut controller = Controller {
            client,
            outlet,
            inlet,
            keeper: Keeper::new(made.plan),
            cache,
        };
        let one_by_one = p4::digest_entry::Config {
            max_list_size: 1,
            ..Default::default()
        };
        let first = controller.cache.start(0, one_by_one);
        controller.write(first).await;
        controller
    }

    async fn write(&mut self, updates: Vec<p4::Update>) {
        let request = p4::WriteRequest {
            device_id: 1,
            election_id: Some(ELECTION),
            updates,
            ..Default::default()
        };
        self.client.write(request).await.unwrap();
    }

    /// The detector's next report, not handled yet.
    async fn report(&mut self) -> Vec<BigUint> {
        loop {
            let message = self.inlet.message().await.unwrap().unwrap();
            let Some(Response::Digest(list)) = message.update else {
                continue;
            };
            let ack = p4::DigestListAck {
                digest_id: list.digest_id,
                list_id: list.list_id,
            };
            let ack = p4::stream_message_request::Update::DigestAck(ack);
            let message = p4::StreamMessageRequest { update: Some(ack) };
            self.outlet.send(message).await.unwrap();
            if list.digest_id == self.cache.digest {
                return report_numbers(&list.data[0]).expect("numbers");
            }
        }
    }

    async fn handle(&mut self, report: &[BigUint]) {
        let operations = self.keeper.handle_report(report);
        let updates = self.cache.updates(operations);
        self.write(updates).await;
    }

    /// Changes one entry within the barrier; `table` is numbered as in the program.
    async fn change(&mut self, table: TableId, mac: u8, updates: Vec<p4::Update>) {
        let matches = vec![Match::Exact(mac.into())];
        let operations = self.keeper.begin_change(&[(table, Some(matches))]);
        let first = self.cache.updates(operations);
        self.write(first).await;
        self.write(updates).await;
        let epoch = self.cache.epoch(self.keeper.end_change());
        self.write(vec![epoch]).await;
    }
}

/// The data plane's end: runs packets, and sends digests to the server.
struct Plane {
    forwarder: P4Forwarder,
    notices: Notices,
}

impl Plane {
    /// Runs a packet. Returns the ports it leaves by, and the number of digests.
    fn packet(&self, port: u32, packet: &[u8]) -> (Vec<u32>, usize) {
        let mut outbox = Outbox::new();
        let mut program = self.forwarder.begin();
        program.receive(port, packet, Instant::from_nanos(2_000), &mut outbox);
        let digests = program.digests(&outbox);
        drop(program);
        let count = digests.len();
        for (digest, numbers) in digests {
            self.notices.digest(digest, numbers);
        }
        (outbox.sent().map(|sent| sent.port).collect(), count)
    }
}

/// A switch without a program, and its data plane.
fn switch(listen: &str, tls: Option<TlsFiles>) -> (Server, Plane) {
    let wire = Wire::default();
    let notices = wire.notices();
    let config = P4PlaneConfig {
        program: thalweg_p4::Config::default(),
        traversals: None,
        behaviors: None,
        cpu_port: None,
        clock: Arc::new(|| Instant::from_nanos(1_000)),
    };
    let (plane, forwarder) = P4Plane::new(config, || {});
    let device = Device::new(DeviceConfig::default(), plane);
    let config = ServerConfig {
        listen: listen.parse().unwrap(),
        tls,
        start: Clock::now(),
        limits: ServerLimits::default(),
    };
    let server = Server::start(&config, wire, device).unwrap();
    (server, Plane { forwarder, notices })
}

#[test]
fn a_keeper_over_grpc_fills_the_cache_and_its_barrier_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p4rt.sock");
    let (server, plane) = switch(&format!("unix:{}", path.display()), None);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(async {
        let mut controller = Controller::start(&path).await;
        let insert = p4::update::Type::Insert;
        let known = (1..=2).map(|mac| update(insert, entry(SMAC, mac, NO_ACTION, None)));
        controller.write(known.collect()).await;
        let route = update(insert, entry(DMAC, 2, FORWARD, Some(3)));
        controller.change(TableId(1), 2, vec![route]).await;

        let packet = frame(2, 1);
        assert_eq!(plane.packet(1, &packet), (vec![3], 1), "reported");
        let report = controller.report().await;
        controller.handle(&report).await;
        assert_eq!(controller.keeper.len(), 1);
        assert_eq!(plane.packet(1, &packet), (vec![3], 0), "remembered");

        // Another report, which is read only after a change.
        assert_eq!(plane.packet(2, &packet), (vec![3], 1));
        let late = controller.report().await;
        let route = update(p4::update::Type::Modify, entry(DMAC, 2, FORWARD, Some(2)));
        controller.change(TableId(1), 2, vec![route]).await;
        assert!(
            controller.keeper.is_empty(),
            "the change affects what was there"
        );
        controller.handle(&late).await;
        assert_eq!(controller.keeper.counts().stale, 1);
        assert_eq!(plane.packet(1, &packet), (vec![2], 1), "as it is now");
        let report = controller.report().await;
        controller.handle(&report).await;
        assert_eq!(plane.packet(1, &packet), (vec![2], 0));

        // The program's own digest reports an unknown station every time.
        let unknown = frame(2, 9);
        for _ in 0..2 {
            assert_eq!(plane.packet(1, &unknown), (vec![2], 1));
        }
        assert_eq!(controller.keeper.counts().malformed, 0);
    });
    server.stop();
}
