//! Tests a session on the real data plane: packets see every write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use prost::Message;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::proto::p4::v1::stream_message_response::Update as Response;
use thalweg_control::proto::p4::v1::update::Type;
use thalweg_control::{Code, Device, DeviceConfig, Failure, StreamEvent, StreamId, read_text};
use thalweg_p4::Outbox;
use thalweg_packet::Instant;

use super::{P4Clock, P4Forwarder, P4Plane, P4PlaneConfig};

const PROGRAM: &str = include_str!("../../../control/testdata/learning.json");
const P4INFO: &str = include_str!("../../../control/testdata/learning.p4info.txtpb");
const NO_ACTION: u32 = 0x0100_0001;
const SMAC: u32 = 0x0200_0001;
const DMAC: u32 = 0x0200_0002;
const FORWARD: u32 = 0x0100_0003;
const TO_CONTROLLER: u32 = 0x0100_0005;
const CPU_PORT: u32 = 510;

struct Harness {
    device: Device<P4Plane>,
    forwarder: P4Forwarder,
    /// The time of the plane's clock, in nanoseconds.
    now: Arc<AtomicU64>,
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn pipeline() -> p4::ForwardingPipelineConfig {
    p4::ForwardingPipelineConfig {
        p4info: Some(read_text(P4INFO).unwrap()),
        p4_device_config: Bytes::from_static(PROGRAM.as_bytes()),
        cookie: None,
    }
}

impl Harness {
    fn new() -> Harness {
        Harness::with(&pipeline(), thalweg_p4::Config::default())
    }

    fn with(pipeline: &p4::ForwardingPipelineConfig, program: thalweg_p4::Config) -> Harness {
        let now = Arc::new(AtomicU64::new(1_000));
        let clock: P4Clock = {
            let now = now.clone();
            Arc::new(move || at(now.load(Ordering::Relaxed)))
        };
        let config = P4PlaneConfig {
            program,
            // Everything here is also tested with this cache.
            traversals: Some(thalweg_p4::CacheConfig::default()),
            behaviors: None,
            cpu_port: Some(CPU_PORT),
            clock,
        };
        let (plane, forwarder) = P4Plane::new(config, || {});
        let mut device = Device::new(DeviceConfig::default(), plane);
        let update = p4::MasterArbitrationUpdate {
            device_id: 1,
            election_id: Some(p4::Uint128 { high: 0, low: 1 }),
            ..Default::default()
        };
        let message = p4::StreamMessageRequest {
            update: Some(p4::stream_message_request::Update::Arbitration(update)),
        };
        device.handle_message(StreamId(1), &message);
        device.start_with(pipeline, at(0)).unwrap();
        Harness {
            device,
            forwarder,
            now,
        }
    }

    fn write(&mut self, updates: Vec<(Type, Kind)>) -> Result<(), Failure> {
        let updates = updates.into_iter().map(|(kind, entity)| p4::Update {
            r#type: kind as i32,
            entity: Some(p4::Entity {
                entity: Some(entity),
            }),
        });
        let request = p4::WriteRequest {
            device_id: 1,
            election_id: Some(p4::Uint128 { high: 0, low: 1 }),
            updates: updates.collect(),
            ..Default::default()
        };
        self.device.handle_write(&request, at(1_000))
    }

    fn read(&mut self, entity: Kind) -> Vec<Kind> {
        let (messages, end) = self.device.handle_read(&p4::ReadRequest {
            device_id: 1,
            entities: vec![p4::Entity {
                entity: Some(entity),
            }],
            ..Default::default()
        });
        end.unwrap();
        let entities = messages.into_iter().flat_map(|message| message.entities);
        entities.filter_map(|entity| entity.entity).collect()
    }

    /// Runs a packet. Returns ports and bytes; digests and packets for the controller go to the
    /// device.
    fn packet(&mut self, port: u32, packet: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut outbox = Outbox::new();
        let mut program = self.forwarder.begin();
        program.receive(port, packet, at(2_000), &mut outbox);
        let digests = program.digests(&outbox);
        drop(program);
        for (digest, numbers) in digests {
            self.device.handle_digest(digest, numbers, at(2_000));
        }
        let mut sent = Vec::new();
        for one in outbox.sent() {
            if one.port == CPU_PORT {
                self.device
                    .handle_packet(&Bytes::copy_from_slice(one.bytes));
            } else {
                sent.push((one.port, one.bytes.to_vec()));
            }
        }
        sent
    }

    fn heard(&mut self) -> Vec<Response> {
        let events = std::iter::from_fn(|| self.device.poll_transmit());
        let messages = events.filter_map(|(_, event)| match event {
            StreamEvent::Message(message) => message.update,
            StreamEvent::Close(_) => None,
        });
        messages.collect()
    }
}

fn frame(destination: u8, source: u8) -> Vec<u8> {
    let mut frame = vec![0, 0, 0, 0, 0, destination, 0, 0, 0, 0, 0, source, 8, 0];
    frame.extend([0xab; 46]);
    frame
}

fn entry(table_id: u32, mac: u8, action: p4::Action) -> Kind {
    entry_of(table_id, &[mac], action)
}

fn entry_of(table_id: u32, mac: &[u8], action: p4::Action) -> Kind {
    let exact = p4::field_match::Exact {
        value: Bytes::copy_from_slice(mac),
    };
    Kind::TableEntry(p4::TableEntry {
        table_id,
        r#match: vec![p4::FieldMatch {
            field_id: 1,
            field_match_type: Some(p4::field_match::FieldMatchType::Exact(exact)),
        }],
        action: Some(p4::TableAction {
            r#type: Some(p4::table_action::Type::Action(action)),
        }),
        ..Default::default()
    })
}

fn forward(port: u8) -> p4::Action {
    p4::Action {
        action_id: FORWARD,
        params: vec![p4::action::Param {
            param_id: 1,
            value: Bytes::copy_from_slice(&[port]),
        }],
    }
}

fn plain(action_id: u32) -> p4::Action {
    p4::Action {
        action_id,
        params: Vec::new(),
    }
}

fn flood_group(ports: &[u8]) -> Kind {
    use p4::packet_replication_engine_entry::Type as Replication;
    let replicas = ports.iter().map(|port| p4::Replica {
        port_kind: Some(p4::replica::PortKind::Port(Bytes::copy_from_slice(&[
            *port,
        ]))),
        instance: 1,
        backup_replicas: Vec::new(),
    });
    let group = p4::MulticastGroupEntry {
        multicast_group_id: 1,
        replicas: replicas.collect(),
        ..Default::default()
    };
    Kind::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
        r#type: Some(Replication::MulticastGroupEntry(group)),
    })
}

#[test]
fn packets_meet_what_was_written_and_counters_are_read() {
    let mut switch = Harness::new();
    switch
        .write(vec![(Type::Insert, flood_group(&[1, 2, 3]))])
        .unwrap();
    let ports = |sent: Vec<(u32, Vec<u8>)>| sent.iter().map(|(port, _)| *port).collect::<Vec<_>>();
    assert_eq!(ports(switch.packet(1, &frame(2, 1))), [2, 3]);
    switch
        .write(vec![(Type::Insert, entry(DMAC, 2, forward(3)))])
        .unwrap();
    assert_eq!(switch.packet(1, &frame(2, 1)), [(3, frame(2, 1))]);
    switch
        .write(vec![(Type::Modify, entry(DMAC, 2, forward(2)))])
        .unwrap();
    assert_eq!(ports(switch.packet(1, &frame(2, 1))), [2]);
    let counters = switch.read(Kind::DirectCounterEntry(Default::default()));
    match &counters[..] {
        [Kind::DirectCounterEntry(counter)] => {
            let data = counter.data.unwrap();
            assert_eq!((data.packet_count, data.byte_count), (2, 120));
        }
        other => panic!("{other:?}"),
    }
    let counters = switch.read(Kind::CounterEntry(p4::CounterEntry {
        counter_id: 0x1200_0001,
        index: Some(p4::Index { index: 1 }),
        data: None,
    }));
    assert!(matches!(&counters[..], [Kind::CounterEntry(counter)]
        if counter.data.unwrap().packet_count == 3));
    let registers = switch.read(Kind::RegisterEntry(Default::default()));
    let number = |kind: &Kind| match kind {
        Kind::RegisterEntry(entry) => {
            match entry.data.as_ref().and_then(|data| data.data.clone()) {
                Some(p4::p4_data::Data::Bitstring(bytes)) => bytes.to_vec(),
                other => panic!("{other:?}"),
            }
        }
        other => panic!("{other:?}"),
    };
    let numbers: Vec<_> = registers.iter().map(number).collect();
    assert_eq!(numbers, [[1], [0], [0], [0]]);
    // A refused all-or-nothing batch does nothing.
    let request = p4::WriteRequest {
        device_id: 1,
        election_id: Some(p4::Uint128 { high: 0, low: 1 }),
        atomicity: p4::write_request::Atomicity::DataplaneAtomic as i32,
        updates: vec![
            p4::Update {
                r#type: Type::Modify as i32,
                entity: Some(p4::Entity {
                    entity: Some(entry(DMAC, 2, forward(3))),
                }),
            },
            p4::Update {
                r#type: Type::Modify as i32,
                entity: Some(p4::Entity {
                    entity: Some(entry(DMAC, 9, forward(3))),
                }),
            },
        ],
        ..Default::default()
    };
    assert!(switch.device.handle_write(&request, at(0)).is_err());
    assert_eq!(ports(switch.packet(1, &frame(2, 1))), [2]);
    switch
        .write(vec![(Type::Delete, entry(DMAC, 2, forward(2)))])
        .unwrap();
    assert_eq!(ports(switch.packet(1, &frame(2, 1))), [2, 3]);
}

/// As in a running switch: a job is taken with the program, run without it, and brought back.
#[test]
fn a_better_index_is_made_while_packets_go_on() {
    const STATIONS: u16 = 6_000;
    let large = p4::ForwardingPipelineConfig {
        p4info: Some(read_text(&P4INFO.replace("size: 1024", "size: 8192")).unwrap()),
        p4_device_config: PROGRAM
            .replace("\"max_size\": 1024", "\"max_size\": 8192")
            .into(),
        cookie: None,
    };
    let config = thalweg_p4::Config {
        classifier: thalweg_p4::ClassifierKind::Learned,
        ..thalweg_p4::Config::default()
    };
    let mut harness = Harness::with(&large, config);
    // A controller's numbers have no leading zeros.
    let mac = |station: u16| (0x0200_0000 + u32::from(station) * 256).to_be_bytes();
    let port = |station: u16| (1 + station % 7) as u8;
    let entries = (0..STATIONS).map(|station| {
        let entry = entry_of(DMAC, &mac(station), forward(port(station)));
        (Type::Insert, entry)
    });
    harness.write(entries.collect()).unwrap();
    let (mut trained, mut thread) = (0, None);
    for round in 0..8_000_u32 {
        let station = (round * 7 % u32::from(STATIONS)) as u16;
        let mut packet = frame(0, 2);
        packet[2..6].copy_from_slice(&mac(station));
        let sent = harness.packet(9, &packet);
        let ports: Vec<u32> = sent.iter().map(|(port, _)| *port).collect();
        assert_eq!(ports, [u32::from(port(station))], "{station}");
        if let Some(training) = harness.forwarder.begin().take_training() {
            assert!(training.rule_count() >= STATIONS.into());
            let forwarder = harness.forwarder.clone();
            let work = move || forwarder.install(training.run());
            thread = Some(std::thread::spawn(work));
            trained += 1;
        }
        if round % 1_024 == 1_000
            && let Some(thread) = thread.take()
        {
            thread.join().unwrap();
        }
    }
    assert_eq!(trained, 1);
}

#[test]
fn digests_and_packets_reach_the_controller_and_come_from_it() {
    let mut switch = Harness::new();
    let digest = Kind::DigestEntry(p4::DigestEntry {
        digest_id: 0x1700_0001,
        config: Some(p4::digest_entry::Config {
            max_list_size: 1,
            ack_timeout_ns: i64::MAX,
            ..Default::default()
        }),
    });
    let to_controller = entry(DMAC, 9, plain(TO_CONTROLLER));
    switch
        .write(vec![(Type::Insert, digest), (Type::Insert, to_controller)])
        .unwrap();
    switch.heard();
    assert!(switch.packet(5, &frame(9, 7)).is_empty());
    match &switch.heard()[..] {
        [Response::Digest(list), Response::Packet(packet)] => {
            let Some(p4::p4_data::Data::Struct(learned)) = &list.data[0].data else {
                panic!("{list:?}");
            };
            let bits = |index: usize| learned.members[index].data.clone();
            let bytes = |byte| {
                Some(p4::p4_data::Data::Bitstring(Bytes::copy_from_slice(&[
                    byte,
                ])))
            };
            assert_eq!((bits(0), bits(1)), (bytes(7), bytes(5)));
            assert_eq!(packet.payload, frame(9, 7));
            assert_eq!(packet.metadata[0].value[..], [5]);
        }
        other => panic!("{other:?}"),
    }
    // From now on the source is known.
    switch
        .write(vec![(Type::Insert, entry(SMAC, 7, plain(0x0100_0001)))])
        .unwrap();
    switch.packet(5, &frame(9, 7));
    assert!(matches!(&switch.heard()[..], [Response::Packet(_)]));
    let metadata = |metadata_id, value| p4::PacketMetadata {
        metadata_id,
        value: Bytes::copy_from_slice(&[value]),
    };
    let out = p4::PacketOut {
        payload: frame(1, 2).into(),
        metadata: vec![metadata(1, 3), metadata(2, 0)],
    };
    let message = p4::StreamMessageRequest {
        update: Some(p4::stream_message_request::Update::Packet(out)),
    };
    switch.device.handle_message(StreamId(1), &message);
    assert!(switch.forwarder.has_injected());
    let injected = switch.forwarder.take_injected().unwrap();
    assert_eq!(switch.packet(CPU_PORT, &injected), [(3, frame(1, 2))]);
}

#[test]
fn p4info_of_another_program_is_refused_and_the_running_one_stays() {
    let mut switch = Harness::new();
    switch
        .write(vec![(Type::Insert, entry(DMAC, 2, forward(3)))])
        .unwrap();
    let wrong = [
        P4INFO.replace("ingress.smac", "ingress.other"),
        P4INFO.replace(
            "bitwidth: 9 }\n}\nactions { preamble { id: 0x01000004",
            "bitwidth: 8 }\n}\nactions { preamble { id: 0x01000004",
        ),
        P4INFO.replace("ingress.flood", "ingress.float"),
        P4INFO.replace(
            "hdr.ethernet.dst\" bitwidth: 48",
            "hdr.ethernet.dst\" bitwidth: 40",
        ),
        P4INFO.replace("size: 512", "size: 513"),
        P4INFO.replace(
            "match_type: EXACT }\n  action_refs { id: 0x01000003",
            "match_type: LPM }\n  action_refs { id: 0x01000003",
        ),
        P4INFO.replace("name: \"learned_t\" alias", "name: \"leaned_t\" alias"),
    ];
    let set = |switch: &mut Harness, config| {
        let request = p4::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(p4::Uint128 { high: 0, low: 1 }),
            action: p4::set_forwarding_pipeline_config_request::Action::VerifyAndCommit as i32,
            config: Some(config),
            ..Default::default()
        };
        switch.device.handle_set_pipeline(&request, at(0))
    };
    for text in wrong {
        assert_ne!(text, P4INFO, "something was replaced");
        let mut config = pipeline();
        config.p4info = Some(read_text(&text).unwrap());
        match set(&mut switch, config) {
            Err(Failure::Call(problem)) => assert_eq!(problem.code, Code::InvalidArgument),
            other => panic!("{other:?}"),
        }
        assert_eq!(switch.packet(1, &frame(2, 1)), [(3, frame(2, 1))]);
    }
    let mut config = pipeline();
    config.p4_device_config = Bytes::from(PROGRAM.replace("\"exact\"", "\"exalt\""));
    assert!(set(&mut switch, config).is_err());
    assert_eq!(switch.packet(1, &frame(2, 1)), [(3, frame(2, 1))]);
    // The right program clears everything that was written.
    set(&mut switch, pipeline()).unwrap();
    assert!(switch.packet(1, &frame(2, 1)).is_empty());
    // Both forms of P4Info can be read.
    let info = read_text(P4INFO).unwrap();
    assert_eq!(thalweg_control::read(&info.encode_to_vec()).unwrap(), info);
    assert_eq!(thalweg_control::read(P4INFO.as_bytes()).unwrap(), info);
}

/// An entry that packets hit does not time out. One that they no longer hit is reported each
/// time its time-out has passed.
#[test]
fn a_controller_is_told_of_entries_that_packets_no_longer_meet() {
    let mut harness = Harness::new();
    let Kind::TableEntry(mut idle) = entry(SMAC, 7, plain(NO_ACTION)) else {
        unreachable!("a table entry");
    };
    idle.idle_timeout_ns = 5_000;
    harness
        .write(vec![(Type::Insert, Kind::TableEntry(idle.clone()))])
        .unwrap();
    // Hit at 2,000 ns: due at 6,000 from the write, checked again 5,000 after the packet.
    harness.packet(1, &frame(1, 7));
    harness.heard();
    let mut told = Vec::new();
    while let Some(due) = harness.device.poll_timeout()
        && due <= at(12_000)
    {
        let nanos = (due - at(0)).as_nanos() as u64;
        harness.now.store(nanos, Ordering::Relaxed);
        harness.device.handle_timeout(due);
        for message in harness.heard() {
            match message {
                Response::IdleTimeoutNotification(notification) => {
                    assert_eq!(notification.table_entry[0].r#match, idle.r#match);
                    told.push(nanos);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(told, [7_000, 12_000]);
}
