//! Random P4Runtime writes between packets: a switch behaves the same with each cache as
//! without.
//!
//! Three devices run one program: without a cache, with traversals, with behaviours. They get
//! the same random packets and requests. The test compares the results after each packet and
//! the verdicts after each write. At intervals it compares everything that a controller can
//! read. `THALWEG_P4_CHECKS` asks for more packets than the default.

#[cfg(feature = "shared-data")]
#[path = "../../../p4/tests/files/mod.rs"]
mod files;
#[allow(dead_code, reason = "packets and updates come from it, and no twins")]
#[path = "../../../p4/tests/cache/lab.rs"]
mod lab;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lab::{Chance, Twins};
use rand::Rng;
use thalweg_binding::{Messages, derive};
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::proto::p4::v1::write_request::Atomicity;
use thalweg_control::{Catalog, Device, DeviceConfig, StreamId, Value};
use thalweg_p4::cache::behavior::BehaviorConfig;
use thalweg_p4::commands;
use thalweg_p4::state::{Mode, Update};
use thalweg_p4::{CacheConfig, Config, Outbox, Program};
use thalweg_packet::Instant;
use thalweg_switch::{P4Forwarder, P4Plane, P4PlaneConfig};
use thalweg_workload::IS_OPTIMISED;

/// Minimum number of packets that a run compares.
const CHECKS: u64 = if IS_OPTIMISED { 20_000 } else { 2_000 };

fn wanted_checks() -> u64 {
    let wanted = std::env::var("THALWEG_P4_CHECKS");
    wanted.map_or(CHECKS, |wanted| {
        wanted.parse().expect("a number of packets")
    })
}

const PRIMARY: StreamId = StreamId(1);
const ELECTION: p4::Uint128 = p4::Uint128 { high: 0, low: 1 };

/// A switch, and its worker's end.
struct One {
    name: &'static str,
    device: Device<P4Plane>,
    forwarder: P4Forwarder,
}

impl One {
    fn new(
        name: &'static str,
        json: &str,
        traversals: Option<CacheConfig>,
        behaviors: Option<BehaviorConfig>,
    ) -> One {
        let program = Program::from_json(json).expect("a program");
        let config = P4PlaneConfig {
            program: Config::default(),
            traversals,
            behaviors,
            cpu_port: None,
            clock: Arc::new(|| Instant::ZERO),
        };
        let (plane, forwarder) = P4Plane::new(config, || {});
        let mut device = Device::new(DeviceConfig::default(), plane);
        let pipeline = p4::ForwardingPipelineConfig {
            p4info: Some(derive(&program)),
            p4_device_config: json.as_bytes().to_vec().into(),
            cookie: None,
        };
        let started = device.start_with(&pipeline, Instant::ZERO);
        started.unwrap_or_else(|problem| panic!("{problem}"));
        let update = p4::MasterArbitrationUpdate {
            device_id: 1,
            role: None,
            election_id: Some(ELECTION),
            status: None,
        };
        let arbitration = p4::stream_message_request::Update::Arbitration(update);
        device.handle_message(
            PRIMARY,
            &p4::StreamMessageRequest {
                update: Some(arbitration),
            },
        );
        One {
            name,
            device,
            forwarder,
        }
    }

    /// Runs a packet. Returns what leaves, and what the controller gets.
    fn receive(&self, packet: &(u32, Vec<u8>), now: Instant) -> Answer {
        let mut outbox = Outbox::new();
        let mut burst = self.forwarder.begin();
        burst.receive(packet.0, &packet.1, now, &mut outbox);
        let sent = outbox.sent().map(|sent| (sent.port, sent.bytes.to_vec()));
        Answer {
            sent: sent.collect(),
            digests: burst.digests(&outbox),
        }
    }

    /// Reads everything that a controller can read.
    fn read(&mut self) -> Vec<Kind> {
        use p4::packet_replication_engine_entry::Type;
        let replication = |kind| {
            Kind::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
                r#type: Some(kind),
            })
        };
        let entry = || Some(p4::TableEntry::default());
        let kinds = [
            Kind::TableEntry(p4::TableEntry::default()),
            Kind::DirectCounterEntry(p4::DirectCounterEntry {
                table_entry: entry(),
                data: None,
            }),
            Kind::DirectMeterEntry(p4::DirectMeterEntry {
                table_entry: entry(),
                ..Default::default()
            }),
            Kind::CounterEntry(p4::CounterEntry::default()),
            Kind::MeterEntry(p4::MeterEntry::default()),
            Kind::RegisterEntry(p4::RegisterEntry::default()),
            Kind::ActionProfileMember(p4::ActionProfileMember::default()),
            Kind::ActionProfileGroup(p4::ActionProfileGroup::default()),
            Kind::ValueSetEntry(p4::ValueSetEntry::default()),
            replication(Type::MulticastGroupEntry(p4::MulticastGroupEntry::default())),
            replication(Type::CloneSessionEntry(p4::CloneSessionEntry::default())),
        ];
        let entity = |kind| p4::Entity { entity: Some(kind) };
        let (messages, end) = self.device.handle_read(&p4::ReadRequest {
            device_id: 1,
            entities: kinds.map(entity).to_vec(),
            ..Default::default()
        });
        end.unwrap_or_else(|failure| panic!("{failure:?}"));
        let entities = messages.into_iter().flat_map(|message| message.entities);
        entities.filter_map(|entity| entity.entity).collect()
    }

    fn hits(&self) -> u64 {
        let traversals = self.forwarder.traversals();
        let behaviors = self.forwarder.behaviors();
        traversals.map_or(0, |one| one.exact_hits + one.masked_hits)
            + behaviors.map_or(0, |(counts, _)| counts.hits)
    }
}

#[derive(PartialEq, Debug)]
struct Answer {
    sent: Vec<(u32, Vec<u8>)>,
    digests: Vec<(u32, Vec<Value>)>,
}

/// Totals over runs, to check that every case occurred.
#[derive(Default, Debug)]
struct Met {
    packets: u64,
    accepted: u64,
    refused: u64,
    /// Hits by traversals, and by behaviours.
    hits: [u64; 2],
}

impl Met {
    fn add(&mut self, other: &Met) {
        self.packets += other.packets;
        self.accepted += other.accepted;
        self.refused += other.refused;
        for (sum, hits) in self.hits.iter_mut().zip(other.hits) {
            *sum += hits;
        }
    }

    fn check(&self) {
        println!("{self:?}");
        assert!(self.accepted > self.packets / 40, "{self:?}");
        let enough = self.packets / 4;
        assert!(self.hits.iter().all(|hits| *hits > enough), "{self:?}");
    }
}

/// The three switches.
struct Trio {
    all: [One; 3],
    now: Instant,
    met: Met,
}

impl Trio {
    fn new(json: &str) -> Trio {
        let traversals = CacheConfig {
            record_one_in: 1,
            rests: false,
            ..CacheConfig::default()
        };
        let behaviors = BehaviorConfig {
            rests: false,
            ..BehaviorConfig::default()
        };
        Trio {
            all: [
                One::new("off", json, None, None),
                One::new("traversals", json, Some(traversals), None),
                One::new("behaviors", json, None, Some(behaviors)),
            ],
            now: Instant::ZERO,
            met: Met::default(),
        }
    }

    fn receive(&mut self, packet: &(u32, Vec<u8>), what: &str) {
        self.now = self.now + Duration::from_micros(1);
        let now = self.now;
        let [plain, cached @ ..] = &self.all;
        let expected = plain.receive(packet, now);
        for one in cached {
            let answer = one.receive(packet, now);
            assert_eq!(answer, expected, "{what}, {}: {packet:x?}", one.name);
        }
        self.met.packets += 1;
    }

    fn write(&mut self, updates: Vec<p4::Update>, atomicity: Atomicity, what: &str) {
        let count = updates.len() as u64;
        let request = p4::WriteRequest {
            device_id: 1,
            election_id: Some(ELECTION),
            updates,
            atomicity: atomicity as i32,
            ..Default::default()
        };
        let now = self.now;
        let written = self.all.each_mut();
        let written = written.map(|one| format!("{:?}", one.device.handle_write(&request, now)));
        let [expected, cached @ ..] = written;
        assert!(
            cached.iter().all(|one| *one == expected),
            "{what}: {request:?}"
        );
        match expected.as_str() {
            "Ok(())" => self.met.accepted += count,
            _ => self.met.refused += count,
        }
    }

    fn compare(&mut self, what: &str) {
        let [plain, cached @ ..] = &mut self.all;
        let expected = plain.read();
        for one in cached {
            assert!(one.read() == expected, "{what}, {}", one.name);
        }
    }
}

/// Plays random writes of a controller, with packets between them.
fn play(json: &str, start: &str, templates: Vec<(u32, Vec<u8>)>, packets: u64, what: &str) -> Met {
    let program = Program::from_json(json).expect("a program");
    let info = derive(&program);
    let catalog = Catalog::new(&info).expect("what is derived is right");
    let mut messages = Messages::new(&catalog, &program).expect("they fit");
    let mut trio = Trio::new(json);
    let commands = commands::parse(start, &program).unwrap_or_else(|error| panic!("{error}"));
    let first = commands.iter().map(|one| messages.message(&one.update));
    let first: Vec<_> = first.collect::<Result<_, _>>().expect("messages");
    trio.write(first, Atomicity::RollbackOnError, what);
    let refused = trio.met.refused;
    assert_eq!(refused, 0, "{what}: the entries that it starts with");

    let mut twins = Twins::new(
        Program::from_json(json).expect("a program"),
        CacheConfig::default(),
    );
    let updates: Vec<_> = commands.into_iter().map(|one| one.update).collect();
    assert!(twins.write(&updates, what));
    let mut chance = Chance::new(&mut twins, templates, packets);
    for update in chance.members_and_groups() {
        let update = messages.message(&inserted(update)).expect("a message");
        trio.write(vec![update], Atomicity::ContinueOnError, what);
    }
    for step in 0..packets {
        let packet = chance.packet();
        trio.receive(&packet, what);
        if chance.random.random_ratio(1, 5) {
            let updates = chance.updates().into_iter().map(|update| {
                let is_new = chance.random.random_ratio(1, 2);
                if is_new { inserted(update) } else { update }
            });
            // Omits updates without a P4Runtime message.
            let updates: Vec<_> = updates.collect();
            let written = updates.iter().filter_map(|one| messages.message(one).ok());
            let atomicity = match chance.random.random_range(0..3) {
                0 => Atomicity::ContinueOnError,
                1 => Atomicity::RollbackOnError,
                _ => Atomicity::DataplaneAtomic,
            };
            trio.write(written.collect(), atomicity, what);
        }
        if chance.random.random_ratio(1, 60) {
            trio.compare(&format!("{what}, step {step}"));
        }
    }
    trio.compare(what);
    for (sum, one) in trio.met.hits.iter_mut().zip(&trio.all[1..]) {
        *sum = one.hits();
    }
    trio.met
}

/// The same for a member or group that does not exist yet.
fn inserted(update: Update) -> Update {
    match update {
        Update::Member(Mode::Set, profile, member, call) => {
            Update::Member(Mode::Insert, profile, member, call)
        }
        Update::Group(Mode::Set, profile, group, members) => {
            Update::Group(Mode::Insert, profile, group, members)
        }
        other => other,
    }
}

fn text(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// An Ethernet packet with IPv4 and UDP or TCP, from machine 1 at port 1.
fn packet(to: [u8; 6], destination: [u8; 4], protocol: u8) -> (u32, Vec<u8>) {
    let mut bytes = to.to_vec();
    bytes.extend([2, 0, 0, 0, 0, 1, 8, 0]);
    let mut ip = [
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 10, 1, 0, 0, 0, 0,
    ];
    ip[16..].copy_from_slice(&destination);
    let checksum = thalweg_packet::checksum::checksum(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(ip);
    bytes.extend([4, 0, 0, 53, 0, 26, 0, 0]);
    bytes.resize(64, 0);
    (1, bytes)
}

#[test]
fn the_four_cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4");
    let templates: Vec<_> = [6, 17]
        .into_iter()
        .flat_map(|protocol| {
            [
                packet([2, 0, 0, 0, 0, 2], [10, 0, 10, 2], protocol),
                packet([2, 0xff, 0, 0, 0, 10], [10, 0, 20, 3], protocol),
                packet([1, 0, 0x5e, 1, 1, 1], [239, 1, 1, 1], protocol),
                packet([2, 0, 0, 0, 0, 77], [10, 0, 10, 77], protocol),
            ]
        })
        .collect();
    let mut met = Met::default();
    for case in 1..=4 {
        let what = format!("switch_{case}");
        let json = text(folder.join(format!("{what}.json")));
        let start = text(folder.join(format!("{what}.cmds")));
        let found = play(&json, &start, templates.clone(), wanted_checks() / 4, &what);
        met.add(&found);
    }
    met.check();
}

#[cfg(feature = "shared-data")]
#[test]
fn every_vector_of_p4c() {
    use thalweg_p4::stf::{Script, Statement};
    let scripts = files::files("stf", ".stf");
    assert!(scripts.len() >= 165, "only {} vectors", scripts.len());
    let share = wanted_checks() / scripts.len() as u64;
    let mut met = Met::default();
    for path in &scripts {
        let what = path.file_stem().expect("a name").to_string_lossy();
        let script = Script::parse(&text(path)).expect("a script");
        let packets = script.statements.iter().filter_map(|(_, one)| match one {
            Statement::Packet { port, bytes } => Some((*port, bytes.clone())),
            _ => None,
        });
        let mut templates: Vec<_> = packets.collect();
        if templates.is_empty() {
            templates.push((1, vec![0; 64]));
        }
        let found = play(
            &text(path.with_extension("json")),
            "",
            templates,
            share,
            &what,
        );
        met.add(&found);
    }
    met.check();
}
