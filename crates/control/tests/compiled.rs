//! Programs and the P4Info that was compiled with them, where the two do not say the same: what of
//! the program's entries, arrays and keys a controller reads, and what it may write.

#[allow(
    dead_code,
    reason = "the programs are the engine's; this file uses a part"
)]
#[path = "../../p4/tests/own/bed.rs"]
mod bed;

use std::sync::Arc;

use bed::{argument, assign, bare, call, hex, standard, with_tables};
use serde_json::{Value, json};
use thalweg_control::proto::p4::config::v1 as info;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::proto::p4::v1::set_forwarding_pipeline_config_request::Action as SetAction;
use thalweg_control::{
    Device, DeviceConfig, Engine, EngineConfig, Failure, Forwarder, StreamId, derive,
};
use thalweg_p4::{Config, Outbox, Program};
use thalweg_packet::Instant;

/// What a part of a table's key is.
type Part = (&'static str, &'static str);

/// A table `in.t` of an ingress that counts each packet in the first cell of each array, with entries
/// of the action `set`: for each its key and a port.
fn program(key: &[Part], entries: &[(Value, u64)]) -> Value {
    let count = |name: &str| json!([{"type": "counter_array", "value": name}, hex(0)]);
    let actions = json!([
        {"name": "in.set", "id": 0, "runtime_data": [{"name": "port", "bitwidth": 9}],
            "primitives": [assign(standard("egress_spec"), argument(0)),
                call("count", count("counter")), call("count", count("octets"))]},
        {"name": "NoAction", "id": 1, "runtime_data": [], "primitives": []},
        {"name": "out", "id": 2, "runtime_data": [], "primitives": []},
    ]);
    let parts: Vec<Value> = key
        .iter()
        .map(|(name, kind)| {
            json!({"match_type": kind, "name": name, "target": ["h", name], "mask": null})
        })
        .collect();
    let listed: Vec<Value> = (1..)
        .zip(entries)
        .map(|(priority, (key, port))| {
            json!({"match_key": key, "priority": priority, "action_entry": {"action_id": 0,
                "action_data": [format!("{port:#x}")]}})
        })
        .collect();
    let mut table = json!({"name": "in.t", "id": 0, "key": parts, "match_type": "ternary",
        "type": "simple", "max_size": if entries.is_empty() { 16 } else { entries.len() }, "with_counters": true,
        "support_timeout": false, "direct_meters": "in.meters", "action_ids": [0, 1],
        "actions": ["in.set", "NoAction"], "base_default_next": null,
        "next_tables": {"in.set": null, "NoAction": null},
        "default_entry": {"action_id": 0, "action_const": false, "action_data": ["0x1ff"],
            "action_entry_const": false}});
    if !entries.is_empty() {
        table["entries"] = json!(listed);
    }
    let mut value = with_tables(actions, json!([table]), json!([bare("out", 2)]));
    let push = |array: &mut Value, one| array.as_array_mut().expect("a list").push(one);
    push(
        &mut value["counter_arrays"],
        json!({"name": "octets", "id": 1, "size": 4, "is_direct": false}),
    );
    push(
        &mut value["counter_arrays"],
        json!({"name": "in.hits", "id": 2, "is_direct": true, "binding": "in.t"}),
    );
    push(
        &mut value["meter_arrays"],
        json!({"name": "in.meters", "id": 1, "is_direct": true, "rate_count": 2,
            "type": "packets", "binding": "in.t", "result_target": ["scalars", "color"]}),
    );
    value
}

/// What `h.a` and `h.b` are matched with: values and masks.
fn ternary(a: (u8, u8), b: (u8, u8)) -> Value {
    let part = |(value, mask): (u8, u8)| {
        json!({"match_type": "ternary", "key": format!("{value:#04x}"),
            "mask": format!("{mask:#04x}")})
    };
    json!([part(a), part(b)])
}

const TERNARY: [Part; 2] = [("a", "ternary"), ("b", "ternary")];

/// Three entries, of which the last two have bits outside of their masks.
fn with_entries() -> Value {
    let entries = [
        (ternary((0x12, 0xff), (0, 0)), 1),
        (ternary((0x1f, 0xf0), (0x33, 0xff)), 2),
        (ternary((0xff, 0x00), (0x77, 0x0f)), 3),
    ];
    program(&TERNARY, &entries)
}

/// The P4Info of a program, as a compiler has it: what the program does not say is `changed`.
fn info_of(value: &Value, changed: impl FnOnce(&mut info::P4Info)) -> info::P4Info {
    let program = Program::from_json(&value.to_string()).expect("a program");
    let mut info = derive(&program);
    changed(&mut info);
    info
}

struct Bed {
    device: Device<Engine>,
    forwarder: Forwarder,
    pipeline: p4::ForwardingPipelineConfig,
}

fn device(cpu_port: Option<u32>) -> (Device<Engine>, Forwarder) {
    let config = EngineConfig {
        program: Config::default(),
        traversals: None,
        behaviors: None,
        cpu_port,
        clock: Arc::new(|| Instant::ZERO),
    };
    let (engine, forwarder) = Engine::new(config, || {});
    let mut device = Device::new(DeviceConfig::default(), engine);
    let update = p4::MasterArbitrationUpdate {
        device_id: 1,
        election_id: Some(p4::Uint128 { high: 0, low: 1 }),
        ..Default::default()
    };
    let message = p4::StreamMessageRequest {
        update: Some(p4::stream_message_request::Update::Arbitration(update)),
    };
    device.handle_message(StreamId(1), &message);
    (device, forwarder)
}

fn pipeline(value: &Value, info: &info::P4Info) -> p4::ForwardingPipelineConfig {
    p4::ForwardingPipelineConfig {
        p4info: Some(info.clone()),
        p4_device_config: value.to_string().into_bytes().into(),
        cookie: None,
    }
}

impl Bed {
    fn new(value: &Value, info: &info::P4Info) -> Bed {
        let (mut device, forwarder) = device(Some(510));
        let pipeline = pipeline(value, info);
        let started = device.start_with(&pipeline, Instant::ZERO);
        started.unwrap_or_else(|problem| panic!("{problem}"));
        Bed {
            device,
            forwarder,
            pipeline,
        }
    }

    fn read(&mut self, entity: Kind) -> Vec<Kind> {
        let (messages, end) = self.device.handle_read(&p4::ReadRequest {
            device_id: 1,
            entities: vec![p4::Entity {
                entity: Some(entity),
            }],
            ..Default::default()
        });
        end.unwrap_or_else(|failure| panic!("{failure:?}"));
        let entities = messages.into_iter().flat_map(|message| message.entities);
        entities.filter_map(|entity| entity.entity).collect()
    }

    /// All entries with their counts and rates.
    fn entries(&mut self) -> Vec<p4::TableEntry> {
        let filter = p4::TableEntry {
            counter_data: Some(Default::default()),
            meter_config: Some(Default::default()),
            ..Default::default()
        };
        let found = self.read(Kind::TableEntry(filter)).into_iter();
        let mut entries: Vec<p4::TableEntry> = found
            .map(|kind| match kind {
                Kind::TableEntry(entry) => entry,
                other => panic!("{other:?}"),
            })
            .collect();
        entries.sort_by_key(|entry| -entry.priority);
        entries
    }

    fn set_pipeline(&mut self, action: SetAction) -> Result<(), Failure> {
        let request = p4::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(p4::Uint128 { high: 0, low: 1 }),
            action: action as i32,
            config: Some(self.pipeline.clone()),
            ..Default::default()
        };
        self.device.handle_set_pipeline(&request, Instant::ZERO)
    }

    /// Where a packet with these first bytes goes.
    fn port(&mut self, a: u8, b: u8) -> Option<u32> {
        let mut outbox = Outbox::new();
        let packet = [a, b, 0, 0, 0, 0, 0, 0, 9];
        let mut burst = self.forwarder.begin();
        burst.receive(1, &packet, Instant::ZERO, &mut outbox);
        outbox.sent().map(|sent| sent.port).next()
    }
}

/// What counts packets has no bytes, and what counts bytes no packets; so all that is read can be
/// written again, to the same program too.
#[test]
fn a_counter_is_read_as_p4info_says_that_it_counts() {
    use info::counter_spec::Unit;
    let value = with_entries();
    let spec = |unit: Unit| Some(info::CounterSpec { unit: unit as i32 });
    for (unit, expected) in [
        (Unit::Packets, (2, 0)),
        (Unit::Bytes, (0, 18)),
        (Unit::Both, (2, 18)),
    ] {
        let info = info_of(&value, |info| {
            info.direct_counters[0].spec = spec(unit);
            for counter in &mut info.counters {
                counter.spec = spec(unit);
            }
        });
        let mut bed = Bed::new(&value, &info);
        assert_eq!((bed.port(0x12, 0), bed.port(0x12, 1)), (Some(1), Some(1)));
        let pair = |data: &p4::CounterData| (data.packet_count, data.byte_count);
        let check = |bed: &mut Bed| {
            let counts: Vec<_> = bed
                .read(Kind::CounterEntry(Default::default()))
                .into_iter()
                .chain(bed.read(Kind::DirectCounterEntry(Default::default())))
                .filter_map(|kind| match kind {
                    Kind::CounterEntry(entry) => entry.data,
                    Kind::DirectCounterEntry(entry) => entry.data,
                    other => panic!("{other:?}"),
                })
                .chain(bed.entries().into_iter().filter_map(|one| one.counter_data))
                .filter(|data| *data != p4::CounterData::default())
                .map(|data| pair(&data))
                .collect();
            // Two arrays, and the first entry twice.
            assert_eq!(counts, [expected; 4], "{unit:?}");
        };
        check(&mut bed);
        let again = bed.set_pipeline(SetAction::ReconcileAndCommit);
        again.unwrap_or_else(|failure| panic!("{unit:?}: {failure:?}"));
        check(&mut bed);
        // To a program that counts the other only, what it counts goes along.
        let other = info_of(&value, |info| {
            for counter in &mut info.counters {
                counter.spec = spec(Unit::Packets);
            }
            info.counters[1].size = 2;
        });
        bed.pipeline = pipeline(&value, &other);
        let again = bed.set_pipeline(SetAction::ReconcileAndCommit);
        again.unwrap_or_else(|failure| panic!("{unit:?}: {failure:?}"));
        let counts = bed.read(Kind::CounterEntry(Default::default()));
        let counts = counts.iter().filter_map(|kind| match kind {
            Kind::CounterEntry(entry) => entry.data.as_ref().map(pair),
            other => panic!("{other:?}"),
        });
        let counts: Vec<_> = counts.filter(|pair| *pair != (0, 0)).collect();
        let expected = if expected.0 == 0 {
            vec![]
        } else {
            vec![(2, 0); 2]
        };
        assert_eq!(counts, expected, "{unit:?}");
    }
}
