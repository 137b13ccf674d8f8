//! Programs whose compiled P4Info differs from the JSON.
//!
//! Tests which of the program's entries, arrays and keys a controller reads, and what it may
//! write.

#[allow(
    dead_code,
    reason = "the programs are those of the crate p4; this file uses a part"
)]
#[path = "../../p4/tests/own/bed.rs"]
mod bed;

use std::sync::Arc;

use bed::{argument, assign, bare, call, hex, standard, with_tables};
use bytes::Bytes;
use serde_json::{Value, json};
use thalweg_binding::derive;
use thalweg_control::proto::p4::config::v1 as info;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::proto::p4::v1::set_forwarding_pipeline_config_request::Action as SetAction;
use thalweg_control::proto::p4::v1::update::Type;
use thalweg_control::{Code, Device, DeviceConfig, Failure, StreamId};
use thalweg_p4::{Config, Outbox, Program};
use thalweg_packet::Instant;
use thalweg_switch::{P4Forwarder, P4Plane, P4PlaneConfig};

/// A part of a table's key: its field and match kind.
type Part = (&'static str, &'static str);

/// A program with a table `in.t`. Its ingress counts each packet in the first cell of each
/// array. Each entry runs the action `set`, and is given by its key and a port.
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

/// A ternary match of `h.a` and `h.b`: values and masks.
fn ternary(a: (u8, u8), b: (u8, u8)) -> Value {
    let part = |(value, mask): (u8, u8)| {
        json!({"match_type": "ternary", "key": format!("{value:#04x}"),
            "mask": format!("{mask:#04x}")})
    };
    json!([part(a), part(b)])
}

const TERNARY: [Part; 2] = [("a", "ternary"), ("b", "ternary")];

/// Three entries, of which the last two have bits outside their masks.
fn with_entries() -> Value {
    let entries = [
        (ternary((0x12, 0xff), (0, 0)), 1),
        (ternary((0x1f, 0xf0), (0x33, 0xff)), 2),
        (ternary((0xff, 0x00), (0x77, 0x0f)), 3),
    ];
    program(&TERNARY, &entries)
}

/// The compiler's P4Info of a program; `changed` adds what the JSON lacks.
fn info_of(value: &Value, changed: impl FnOnce(&mut info::P4Info)) -> info::P4Info {
    let program = Program::from_json(&value.to_string()).expect("a program");
    let mut info = derive(&program);
    changed(&mut info);
    info
}

/// Marks the entries as `entries`, not `const entries`.
fn preinitialized(info: &mut info::P4Info) {
    info.tables[0].is_const_table = false;
    info.tables[0].has_initial_entries = true;
    info.tables[0].size = 5;
}

struct Bed {
    device: Device<P4Plane>,
    forwarder: P4Forwarder,
    pipeline: p4::ForwardingPipelineConfig,
}

fn device(cpu_port: Option<u32>) -> (Device<P4Plane>, P4Forwarder) {
    let config = P4PlaneConfig {
        program: Config::default(),
        traversals: None,
        behaviors: None,
        cpu_port,
        clock: Arc::new(|| Instant::ZERO),
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

    fn write(&mut self, kind: Type, entity: Kind) -> Result<(), (Code, String)> {
        let update = p4::Update {
            r#type: kind as i32,
            entity: Some(p4::Entity {
                entity: Some(entity),
            }),
        };
        let request = p4::WriteRequest {
            device_id: 1,
            election_id: Some(p4::Uint128 { high: 0, low: 1 }),
            updates: vec![update],
            ..Default::default()
        };
        match self.device.handle_write(&request, Instant::ZERO) {
            Ok(()) => Ok(()),
            Err(Failure::Call(problem)) => Err((problem.code, problem.message)),
            Err(Failure::Parts(mut verdicts)) => {
                let problem = verdicts.remove(0).expect_err("the only update");
                Err((problem.code, problem.message))
            }
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

    /// Reads all entries with their counts and rates.
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

    /// The port of a packet with these first bytes.
    fn port(&mut self, a: u8, b: u8) -> Option<u32> {
        let mut outbox = Outbox::new();
        let packet = [a, b, 0, 0, 0, 0, 0, 0, 9];
        let mut burst = self.forwarder.begin();
        burst.receive(1, &packet, Instant::ZERO, &mut outbox);
        outbox.sent().map(|sent| sent.port).next()
    }
}

/// The port of an entry's `set` action.
fn port_of(entry: &p4::TableEntry) -> u8 {
    match entry.action.as_ref().and_then(|one| one.r#type.as_ref()) {
        Some(p4::table_action::Type::Action(action)) => action.params[0].value[0],
        other => panic!("{other:?}"),
    }
}

fn id_of(bed: &Bed, action: &str) -> u32 {
    let info = bed.pipeline.p4info.as_ref().expect("it is set");
    let preambles = info.actions.iter().map(|one| one.preamble.as_ref());
    let mut preambles = preambles.map(|preamble| preamble.expect("it has one"));
    let found = preambles.find(|preamble| preamble.name == action);
    found.expect("an action").id
}

fn table_id(bed: &Bed) -> u32 {
    let info = bed.pipeline.p4info.as_ref().expect("it is set");
    info.tables[0].preamble.as_ref().expect("it has one").id
}

fn set(bed: &Bed, port: u8) -> Option<p4::TableAction> {
    action(bed, "in.set", &[port])
}

fn action(bed: &Bed, name: &str, data: &[u8]) -> Option<p4::TableAction> {
    let params = (1..).zip(data).map(|(param_id, value)| p4::action::Param {
        param_id,
        value: Bytes::copy_from_slice(&[*value]),
    });
    Some(p4::TableAction {
        r#type: Some(p4::table_action::Type::Action(p4::Action {
            action_id: id_of(bed, name),
            params: params.collect(),
        })),
    })
}

/// An entry that matches one value of `h.a`.
fn exact(bed: &Bed, a: &[u8], action: Option<p4::TableAction>) -> p4::TableEntry {
    let exact = p4::field_match::Exact {
        value: Bytes::copy_from_slice(a),
    };
    p4::TableEntry {
        table_id: table_id(bed),
        r#match: vec![p4::FieldMatch {
            field_id: 1,
            field_match_type: Some(p4::field_match::FieldMatchType::Exact(exact)),
        }],
        action,
        ..Default::default()
    }
}

/// A packet counter reads no bytes, and a byte counter no packets. So everything that is read
/// can be written again, even to the same program.
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
        // A program that counts only the other unit takes over that unit.
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

/// Of three entries the first has priority 3 and the last 1 (P4Runtime 1.4.1, section 9.1.4).
/// Each has one form that identifies it, and the data plane has the same order.
#[test]
fn entries_of_the_program_have_distinct_priorities() {
    let value = with_entries();
    let mut bed = Bed::new(&value, &info_of(&value, |_| {}));
    let entries = bed.entries();
    let read: Vec<_> = entries
        .iter()
        .map(|entry| (entry.priority, port_of(entry)))
        .collect();
    assert_eq!(read, [(3, 1), (2, 2), (1, 3)]);
    assert!(entries.iter().all(|entry| entry.is_const));
    // All three match, then two, then one.
    let ports = [(0x12, 0x37), (0x13, 0x33), (0x13, 0x37), (0x13, 0x30)];
    let ports = ports.map(|(a, b)| bed.port(a, b));
    assert_eq!(ports, [Some(1), Some(2), Some(3), None]);
    for entry in entries {
        // Each is identified by the fields that were read.
        let found = bed.read(Kind::DirectCounterEntry(p4::DirectCounterEntry {
            table_entry: Some(entry.clone()),
            data: None,
        }));
        assert_eq!(found.len(), 1, "{entry:?}");
        let denied = bed.write(
            Type::Delete,
            Kind::TableEntry(p4::TableEntry {
                is_const: false,
                ..entry
            }),
        );
        let (code, _) = denied.expect_err("constant");
        assert_eq!(code, Code::PermissionDenied);
    }
}

/// The JSON's priorities only give an order; among equals the first entry wins.
#[test]
fn entries_are_ordered_by_the_numbers_of_the_json() {
    let mut value = with_entries();
    let entries = &mut value["pipelines"][0]["tables"][0]["entries"];
    for (index, priority) in [(0, 700), (1, 40), (2, 40)] {
        entries[index]["priority"] = json!(priority);
    }
    let mut bed = Bed::new(&value, &info_of(&value, |_| {}));
    let read = bed.entries();
    let read: Vec<_> = read
        .iter()
        .map(|one| (one.priority, port_of(one)))
        .collect();
    assert_eq!(read, [(3, 2), (2, 3), (1, 1)]);
    assert_eq!(bed.port(0x12, 0x37), Some(3));
}

/// `entries` without `const` accept writes, up to P4Info's size.
///
/// They can be added to, changed and deleted (section 9.1.5). The JSON lacks the size.
#[test]
fn preinitialized_tables_are_written_to() {
    let value = with_entries();
    let mut bed = Bed::new(&value, &info_of(&value, preinitialized));
    let entries = bed.entries();
    assert!(entries.iter().all(|entry| !entry.is_const));
    let named = |entry: &p4::TableEntry| p4::TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match.clone(),
        priority: entry.priority,
        ..Default::default()
    };
    // The second, whose value has bits outside its mask in the JSON.
    let change = p4::TableEntry {
        action: set(&bed, 9),
        ..named(&entries[1])
    };
    assert_eq!(bed.write(Type::Modify, Kind::TableEntry(change)), Ok(()));
    assert_eq!(bed.port(0x13, 0x33), Some(9));
    assert_eq!(
        bed.write(Type::Delete, Kind::TableEntry(named(&entries[2]))),
        Ok(())
    );
    assert_eq!(bed.port(0x13, 0x37), None);
    // Above the first, and up to P4Info's size.
    let above = |bed: &Bed, priority: i32, port: u8| p4::TableEntry {
        priority,
        action: set(bed, port),
        ..named(&entries[0])
    };
    for priority in 4..7 {
        let entry = above(&bed, priority, priority as u8);
        assert_eq!(bed.write(Type::Insert, Kind::TableEntry(entry)), Ok(()));
        assert_eq!(bed.port(0x12, 0), Some(priority as u32));
    }
    let entry = above(&bed, 7, 7);
    let full = bed.write(Type::Insert, Kind::TableEntry(entry));
    assert_eq!(full.map_err(|(code, _)| code), Err(Code::ResourceExhausted));
    let twice = above(&bed, 3, 7);
    let twice = bed.write(Type::Insert, Kind::TableEntry(twice));
    assert_eq!(twice.map_err(|(code, _)| code), Err(Code::AlreadyExists));
    // Reconciling keeps everything that was written.
    let before = bed.entries();
    bed.set_pipeline(SetAction::ReconcileAndCommit)
        .expect("the same program");
    assert_eq!(bed.entries(), before);
    assert_eq!(bed.port(0x13, 0x33), Some(9));
    // A new load restores the program's own entries.
    bed.set_pipeline(SetAction::VerifyAndCommit)
        .expect("the same program");
    assert_eq!(bed.entries(), entries);
}

/// P4Info with one more object of each kind, which the compiler has removed from the program.
fn with_removed(info: &mut info::P4Info) {
    let preamble = |number: u32, name: &str| {
        Some(info::Preamble {
            id: number,
            name: format!("in.{name}"),
            alias: name.to_owned(),
            ..Default::default()
        })
    };
    let mut table = info.tables[0].clone();
    table.preamble = preamble(0x0200_0001, "unused");
    table.direct_resource_ids.clear();
    table.implementation_id = 0x1100_0001;
    info.tables.push(table);
    info.action_profiles.push(info::ActionProfile {
        preamble: preamble(0x1100_0001, "unused_profile"),
        table_ids: vec![0x0200_0001],
        ..Default::default()
    });
    let mut counter = info.counters[0].clone();
    counter.preamble = preamble(0x1200_0001, "unused_counter");
    info.counters.push(counter);
    let mut meter = info.meters[0].clone();
    meter.preamble = preamble(0x1400_0001, "unused_meter");
    info.meters.push(meter);
    let mut register = info.registers[0].clone();
    register.preamble = preamble(0x1600_0001, "unused_register");
    info.registers.push(register);
    let mut digest = info.digests[0].clone();
    digest.preamble = preamble(0x1700_0001, "unused_digest");
    info.digests.push(digest);
    info.value_sets.push(info::ValueSet {
        preamble: preamble(0x0300_0001, "unused_set"),
        r#match: info.tables[0].match_fields.clone(),
        size: 4,
    });
}

/// An entity of each of these objects.
fn of_removed(entry: p4::TableEntry) -> [Kind; 7] {
    let cell = Some(p4::Index { index: 1 });
    [
        Kind::TableEntry(p4::TableEntry {
            table_id: 0x0200_0001,
            ..entry
        }),
        Kind::ActionProfileMember(p4::ActionProfileMember {
            action_profile_id: 0x1100_0001,
            member_id: 1,
            ..Default::default()
        }),
        Kind::CounterEntry(p4::CounterEntry {
            counter_id: 0x1200_0001,
            index: cell,
            data: Some(Default::default()),
        }),
        Kind::MeterEntry(p4::MeterEntry {
            meter_id: 0x1400_0001,
            index: cell,
            ..Default::default()
        }),
        Kind::RegisterEntry(p4::RegisterEntry {
            register_id: 0x1600_0001,
            index: cell,
            data: None,
        }),
        Kind::DigestEntry(p4::DigestEntry {
            digest_id: 0x1700_0001,
            ..Default::default()
        }),
        Kind::ValueSetEntry(p4::ValueSetEntry {
            value_set_id: 0x0300_0001,
            members: Vec::new(),
        }),
    ]
}

/// P4Info may have more than the program.
///
/// Removed objects are empty and cannot be written; the rest is unchanged.
#[test]
fn what_the_compiler_removed_is_absent() {
    let value = program(&[("a", "exact")], &[]);
    let mut bed = Bed::new(&value, &info_of(&value, with_removed));
    let entry = exact(&bed, &[3], set(&bed, 5));
    assert_eq!(
        bed.write(Type::Insert, Kind::TableEntry(entry.clone())),
        Ok(())
    );
    assert_eq!(bed.port(3, 0), Some(5));
    for write in of_removed(entry) {
        for kind in [Type::Insert, Type::Modify, Type::Delete] {
            let (code, what) = bed.write(kind, write.clone()).expect_err("it is not there");
            assert_eq!(code, Code::Unimplemented, "{what}");
            assert!(
                what.contains("the compiler removes what no packet meets"),
                "{what}"
            );
        }
        // A read of it, alone or among all, is no error.
        let read = bed.read(write);
        let is_empty = |kind: &Kind| match kind {
            Kind::CounterEntry(entry) => entry.data == Some(Default::default()),
            Kind::MeterEntry(entry) => entry.config.is_none(),
            Kind::RegisterEntry(entry) => entry.data.is_some(),
            Kind::ValueSetEntry(set) => set.members.is_empty(),
            _ => false,
        };
        assert!(read.iter().all(is_empty), "{read:?}");
    }
    assert_eq!(bed.entries().len(), 1);
    assert_eq!(bed.read(Kind::CounterEntry(Default::default())).len(), 12);
    assert_eq!(bed.read(Kind::RegisterEntry(Default::default())).len(), 8);
    bed.set_pipeline(SetAction::ReconcileAndCommit)
        .expect("the same program");
    assert_eq!(bed.port(3, 0), Some(5));
}

/// P4Info that lacks an object of the program belongs to another program.
#[test]
fn the_p4info_of_another_program_is_refused() {
    let value = program(&[("a", "exact")], &[]);
    let renamed = |info: &mut info::P4Info| {
        info.tables[0].preamble.as_mut().expect("it has one").name = "other.t".to_owned();
    };
    let register = |info: &mut info::P4Info| {
        info.registers[0]
            .preamble
            .as_mut()
            .expect("it has one")
            .name = "r".to_owned();
    };
    let changes: [&dyn Fn(&mut info::P4Info); 2] = [&renamed, &register];
    for change in changes {
        let info = info_of(&value, change);
        let (mut device, _) = device(None);
        let started = device.start_with(&pipeline(&value, &info), Instant::ZERO);
        let problem = started.expect_err("it is another's");
        assert!(
            problem.message.contains("that was compiled with it"),
            "{problem}"
        );
    }
    // So does one whose tables all have other names, if the program's tables have entries.
    let value = with_entries();
    let info = info_of(&value, renamed);
    let (mut device, _) = device(None);
    let started = device.start_with(&pipeline(&value, &info), Instant::ZERO);
    assert!(started.is_err());
}

/// A key of type `error` has no width in P4Info; its values are the names of errors.
#[test]
fn errors_are_matched_by_name() {
    let mut value = program(&[("a", "exact")], &[]);
    let table = &mut value["pipelines"][0]["tables"][0];
    table["key"][0]["target"] = json!(["standard_metadata", "parser_error"]);
    table["key"][0]["name"] = json!("standard_metadata.parser_error");
    let info = info_of(&value, |info| {
        info.tables[0].match_fields[0].bitwidth = 0;
    });
    let mut bed = Bed::new(&value, &info);
    for (name, port) in [("NoError", 3), ("PacketTooShort", 4)] {
        let entry = exact(&bed, name.as_bytes(), set(&bed, port));
        assert_eq!(bed.write(Type::Insert, Kind::TableEntry(entry)), Ok(()));
    }
    assert_eq!(bed.port(0, 0), Some(3));
    let mut outbox = Outbox::new();
    let mut burst = bed.forwarder.begin();
    burst.receive(1, &[0, 0], Instant::ZERO, &mut outbox);
    assert_eq!(outbox.sent().map(|sent| sent.port).next(), Some(4));
    drop(burst);
    let mut names: Vec<Bytes> = bed
        .entries()
        .into_iter()
        .map(|entry| match entry.r#match[0].field_match_type.clone() {
            Some(p4::field_match::FieldMatchType::Exact(exact)) => exact.value,
            other => panic!("{other:?}"),
        })
        .collect();
    names.sort();
    assert_eq!(names, ["NoError", "PacketTooShort"]);
    for wrong in [&b"Nothing"[..], &[1]] {
        let entry = exact(&bed, wrong, set(&bed, 1));
        let refused = bed.write(Type::Insert, Kind::TableEntry(entry));
        let (code, what) = refused.expect_err("no error");
        assert_eq!(code, Code::InvalidArgument);
        assert!(what.contains("it has NoError, PacketTooShort"), "{what}");
    }
}

fn group(port: p4::replica::PortKind) -> Kind {
    use p4::packet_replication_engine_entry::Type as Replication;
    let group = p4::MulticastGroupEntry {
        multicast_group_id: 1,
        replicas: vec![p4::Replica {
            port_kind: Some(port),
            instance: 1,
            backup_replicas: Vec::new(),
        }],
        ..Default::default()
    };
    Kind::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
        r#type: Some(Replication::MulticastGroupEntry(group)),
    })
}

fn session(port: p4::replica::PortKind) -> Kind {
    use p4::packet_replication_engine_entry::Type as Replication;
    let session = p4::CloneSessionEntry {
        session_id: 1,
        replicas: vec![p4::Replica {
            port_kind: Some(port),
            instance: 1,
            backup_replicas: Vec::new(),
        }],
        ..Default::default()
    };
    Kind::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
        r#type: Some(Replication::CloneSessionEntry(session)),
    })
}

/// The program's ports have nine bits: 512 would be mistaken for port 0.
///
/// (P4Runtime 1.4.1, section 8.3, "Bytestrings": a number that does not fit is out of range.)
#[test]
fn ports_of_replicas_fit_the_program() {
    use p4::replica::PortKind;
    let value = program(&[("a", "exact")], &[]);
    let info = info_of(&value, |_| {});
    let mut bed = Bed::new(&value, &info);
    let bytes = |port: &[u8]| PortKind::Port(Bytes::copy_from_slice(port));
    #[allow(deprecated)]
    let wide = [
        bytes(&[2, 0]),
        bytes(&[0xff, 0xff, 0xff, 0xfe]),
        PortKind::EgressPort(512),
        PortKind::EgressPort(u32::MAX),
    ];
    for port in wide {
        for entity in [group(port.clone()), session(port.clone())] {
            let (code, what) = bed.write(Type::Insert, entity).expect_err("too wide");
            assert_eq!(code, Code::OutOfRange, "{what}");
            assert!(what.contains("ports are 0 to 511"), "{what}");
        }
    }
    // The highest port, and the controller's port number on all devices.
    for port in [&[1, 0xff][..], &[0xff, 0xff, 0xff, 0xfd]] {
        for entity in [group(bytes(port)), session(bytes(port))] {
            assert_eq!(bed.write(Type::Insert, entity.clone()), Ok(()));
            assert_eq!(bed.write(Type::Delete, entity), Ok(()));
        }
    }
    let (mut device, _) = device(Some(512));
    let started = device.start_with(&pipeline(&value, &info), Instant::ZERO);
    let problem = started.expect_err("the controller's port is too wide");
    assert!(
        problem.message.contains("port 512 does not fit"),
        "{problem}"
    );
}

/// Rates need a meter that the action reads (P4Runtime 1.4.1, section 9.1.7).
#[test]
fn rates_without_a_reader_are_refused() {
    let value = program(&[("a", "exact")], &[]);
    let info = info_of(&value, |_| {});
    let config = Some(p4::MeterConfig {
        cir: 1,
        cburst: 1,
        pir: 2,
        pburst: 2,
        eburst: 0,
    });
    let with_rates = |entry: p4::TableEntry| {
        Kind::TableEntry(p4::TableEntry {
            meter_config: config,
            ..entry
        })
    };
    let mut bed = Bed::new(&value, &info);
    let nothing = exact(&bed, &[1], action(&bed, "NoAction", &[]));
    let sets = exact(&bed, &[2], set(&bed, 5));
    let refused = bed.write(Type::Insert, with_rates(nothing.clone()));
    let (code, what) = refused.expect_err("nothing reads it");
    assert_eq!(code, Code::InvalidArgument, "{what}");
    assert!(what.contains("NoAction, does not read the meter"), "{what}");
    assert_eq!(bed.write(Type::Insert, with_rates(sets.clone())), Ok(()));
    assert_eq!(
        bed.write(Type::Insert, Kind::TableEntry(nothing.clone())),
        Ok(())
    );
    assert!(
        bed.write(Type::Modify, with_rates(nothing.clone()))
            .is_err()
    );
    // The meter can be set directly; the same program accepts the entries that were read.
    let direct = Kind::DirectMeterEntry(p4::DirectMeterEntry {
        table_entry: Some(nothing),
        config,
        counter_data: None,
    });
    assert_eq!(bed.write(Type::Modify, direct.clone()), Ok(()));
    let before = bed.entries();
    assert!(before.iter().all(|entry| entry.meter_config == config));
    bed.set_pipeline(SetAction::ReconcileAndCommit)
        .expect("the same program");
    assert_eq!(bed.entries(), before);
    // A program without the meter, which P4Info has.
    let mut without = value;
    without["pipelines"][0]["tables"][0]["direct_meters"] = Value::Null;
    without["meter_arrays"]
        .as_array_mut()
        .expect("a list")
        .pop();
    let mut bed = Bed::new(&without, &info);
    for refused in [with_rates(sets.clone()), direct] {
        let kind = match &refused {
            Kind::TableEntry(_) => Type::Insert,
            _ => Type::Modify,
        };
        let (code, what) = bed.write(kind, refused).expect_err("there is none");
        assert_eq!(code, Code::InvalidArgument, "{what}");
        assert!(
            what.contains("no action of `in.t` reads its direct meter"),
            "{what}"
        );
    }
    assert_eq!(bed.write(Type::Insert, Kind::TableEntry(sets)), Ok(()));
    assert_eq!(bed.entries().len(), 1);
}
