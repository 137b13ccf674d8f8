//! A switch that starts with a program and entries but no controller.
//!
//! A controller later reads what a file of commands has written.

use std::sync::Arc;

use thalweg_binding::{derive, messages_for};
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::{Catalog, Device, DeviceConfig};
use thalweg_p4::commands::{self, Command};
use thalweg_p4::{Config, Outbox, Program, Target};
use thalweg_packet::Instant;
use thalweg_switch::{P4Forwarder, P4Plane, P4PlaneConfig};

const PROGRAM: &str = include_str!("../../p4/testdata/router.json");
const COMMANDS: &str = include_str!("../../p4/testdata/router.cmds");
const MORE: &str = "
mc_mgrp_create 7
mc_node_create 3 1 2
mc_node_associate 7 0
mirroring_add 5 4
mirroring_add 5 6
";

fn program() -> Program {
    Program::from_json(PROGRAM).expect("a program")
}

fn parsed(text: &str) -> Vec<Command> {
    commands::parse(text, &program()).unwrap_or_else(|error| panic!("{error}"))
}

fn catalog() -> Catalog {
    Catalog::new(&derive(&program())).expect("what is derived is right")
}

fn device(text: &str) -> (Device<P4Plane>, P4Forwarder) {
    device_of(PROGRAM, text)
}

fn device_of(json: &str, text: &str) -> (Device<P4Plane>, P4Forwarder) {
    let program = Program::from_json(json).expect("a program");
    let info = derive(&program);
    let config = P4PlaneConfig {
        program: Config::default(),
        traversals: None,
        behaviors: None,
        cpu_port: None,
        clock: Arc::new(|| Instant::ZERO),
    };
    let (plane, forwarder) = P4Plane::new(config, || {});
    let mut device = Device::new(DeviceConfig::default(), plane);
    let pipeline = p4::ForwardingPipelineConfig {
        p4info: Some(info.clone()),
        p4_device_config: json.as_bytes().to_vec().into(),
        cookie: None,
    };
    let started = device.start_with(&pipeline, Instant::ZERO);
    started.unwrap_or_else(|problem| panic!("{problem}"));
    let catalog = Catalog::new(&info).expect("what is derived is right");
    let commands = commands::parse(text, &program).unwrap_or_else(|error| panic!("{error}"));
    let messages = messages_for(&catalog, &program, &commands).expect("messages");
    let written = device.write_at_start(&messages, Instant::ZERO);
    written.unwrap_or_else(|failure| panic!("{failure:?}"));
    (device, forwarder)
}

/// Reads all entries and sessions as a controller.
fn read(device: &mut Device<P4Plane>) -> Vec<Kind> {
    use p4::packet_replication_engine_entry::Type;
    let session = p4::PacketReplicationEngineEntry {
        r#type: Some(Type::CloneSessionEntry(p4::CloneSessionEntry::default())),
    };
    let entry = Kind::TableEntry(p4::TableEntry::default());
    read_kinds(device, [entry, Kind::PacketReplicationEngineEntry(session)])
}

/// Reads everything of some kinds.
fn read_kinds(device: &mut Device<P4Plane>, kinds: impl IntoIterator<Item = Kind>) -> Vec<Kind> {
    let entity = |kind| p4::Entity { entity: Some(kind) };
    let (messages, end) = device.handle_read(&p4::ReadRequest {
        device_id: 1,
        entities: kinds.into_iter().map(entity).collect(),
        ..Default::default()
    });
    end.unwrap_or_else(|failure| panic!("{failure:?}"));
    let entities = messages.into_iter().flat_map(|message| message.entities);
    entities.filter_map(|entity| entity.entity).collect()
}

/// Reads all members, groups and value sets.
fn read_profiles(device: &mut Device<P4Plane>) -> Vec<Kind> {
    let kinds = [
        Kind::ActionProfileMember(p4::ActionProfileMember::default()),
        Kind::ActionProfileGroup(p4::ActionProfileGroup::default()),
        Kind::ValueSetEntry(p4::ValueSetEntry::default()),
    ];
    read_kinds(device, kinds)
}

/// Packets with arbitrary bytes after headers that the program knows.
fn packets() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for number in 0..512_u32 {
        let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x99, 8, 0, 0x45, 0, 0, 20];
        packet.extend([
            0,
            0,
            0,
            0,
            64,
            [6, 17][number as usize & 1],
            0,
            0,
            192,
            0,
            2,
        ]);
        packet.push((number >> 3) as u8);
        packet.extend([10, (number >> 1) as u8 & 3, 3, 4]);
        packets.push(packet);
    }
    packets
}

#[test]
fn entries_are_met_by_packets_as_if_they_were_written_directly() {
    assert!(compare(PROGRAM, COMMANDS) > 100);
}

/// The router with next hops in an action profile and Ethernet types in a value set.
fn indirect() -> String {
    let mut value: serde_json::Value = serde_json::from_str(PROGRAM).expect("JSON");
    let pipeline = &mut value["pipelines"][0];
    pipeline["action_profiles"] = serde_json::json!([{"name": "choice", "id": 0, "max_size": 16,
        "selector": {"algo": "crc16", "input": [
            {"type": "field", "value": ["ipv4", "source"]}]}}]);
    let tables = pipeline["tables"].as_array_mut().expect("tables");
    let hops = tables.iter_mut().find(|one| one["name"] == "Ingress.hops");
    let hops = hops.expect("the table").as_object_mut().expect("a table");
    hops["type"] = "indirect_ws".into();
    hops.insert("action_profile".to_owned(), "choice".into());
    hops.remove("default_entry");
    value["parse_vsets"] = serde_json::json!([{"name": "types", "id": 0,
        "compressed_bitwidth": 16, "max_size": 4}]);
    let states = &mut value["parsers"][0]["parse_states"];
    let transitions = states[0]["transitions"].as_array_mut().expect("a list");
    let known = transitions.iter_mut().find(|one| one["type"] == "hexstr");
    let known = known
        .expect("the type of IPv4")
        .as_object_mut()
        .expect("an object");
    known["type"] = "parse_vset".into();
    known["value"] = "types".into();
    value.to_string()
}

#[test]
fn members_groups_and_value_sets_come_by_commands() {
    let hops = "pvs_add types 0x1234\npvs_add types 0x0800\n\
        act_prof_create_member choice Ingress.send 02:00:00:00:00:07 2\n\
        act_prof_create_member choice Ingress.send 02:00:00:00:00:08 3\n\
        act_prof_create_group choice\n\
        act_prof_add_member_to_group choice 0 0\nact_prof_add_member_to_group choice 1 0\n\
        table_indirect_add_with_group hops 7 => 0\ntable_indirect_add hops 8 => 1\n";
    let others = COMMANDS.lines().filter(|line| !line.contains("hops"));
    let others: Vec<&str> = others.collect();
    let json = indirect();
    let text = format!("{hops}{}\n", others.join("\n"));
    assert!(compare(&json, &text) > 100);
    let without = text.replace("pvs_add types 0x0800\n", "");
    assert_eq!(compare(&json, &without), 0, "nothing is an IPv4 packet");
    // A controller reads them; the first handle is the number 1.
    let (mut device, _) = device_of(&json, &text);
    let (mut members, mut groups, mut values) = (Vec::new(), Vec::new(), 0);
    for kind in read_profiles(&mut device) {
        match kind {
            Kind::ActionProfileMember(member) => members.push(member.member_id),
            Kind::ActionProfileGroup(group) => {
                groups.extend(
                    group
                        .members
                        .iter()
                        .map(|one| (group.group_id, one.member_id)),
                );
            }
            Kind::ValueSetEntry(set) => values += set.members.len(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((members, values), (vec![1, 2], 2));
    assert_eq!(groups, [(1, 1), (1, 2)]);
}

/// Returns how many packets leave, after comparing both ways.
fn compare(json: &str, text: &str) -> usize {
    let (_, forwarder) = device_of(json, text);
    let program = Arc::new(Program::from_json(json).expect("a program"));
    let commands = commands::parse(text, &program).expect("commands");
    let mut direct = Target::new(program, Config::default()).expect("own entries");
    let updates: Vec<_> = commands.into_iter().map(|command| command.update).collect();
    direct.write(&updates, Instant::ZERO).expect("right");
    let mut leaving = 0;
    for packet in packets() {
        let (mut one, mut other) = (Outbox::new(), Outbox::new());
        let mut burst = forwarder.begin();
        burst.receive(1, &packet, Instant::ZERO, &mut one);
        direct.receive(1, &packet, Instant::ZERO, &mut other);
        let sent: Vec<_> = one.sent().collect();
        assert_eq!(sent, other.sent().collect::<Vec<_>>());
        leaving += sent.len();
    }
    leaving
}

#[test]
fn a_controller_reads_what_the_commands_say() {
    let (mut device, _) = device(&format!("{COMMANDS}{MORE}"));
    let info = derive(&program());
    let id = |name: &str| {
        let mut tables = info.tables.iter();
        let found =
            tables.find(|table| table.preamble.as_ref().is_some_and(|one| one.name == name));
        found
            .and_then(|table| table.preamble.as_ref())
            .expect("a table")
            .id
    };
    let found = read(&mut device);
    let entries = |name: &str| {
        let table_id = id(name);
        let found = found.iter().filter_map(|one| match one {
            Kind::TableEntry(entry) if entry.table_id == table_id && !entry.is_default_action => {
                Some(entry.clone())
            }
            _ => None,
        });
        found.collect::<Vec<_>>()
    };
    assert_eq!(entries("Ingress.routes").len(), 2);
    let mut priorities: Vec<i32> = entries("Ingress.acl")
        .iter()
        .map(|entry| entry.priority)
        .collect();
    priorities.sort_unstable();
    // The smaller number wins in commands, the larger for a controller.
    assert_eq!(priorities.len(), 2);
    assert!(
        priorities
            .iter()
            .all(|priority| *priority > i32::MAX - 1_000)
    );
    let sessions: Vec<_> = found
        .iter()
        .filter(|one| matches!(one, Kind::PacketReplicationEngineEntry(_)))
        .collect();
    assert_eq!(
        sessions.len(),
        1,
        "the second command changed the first's session"
    );
}

/// A switch after commands that undo each other equals one that got only the remaining ones.
#[test]
fn what_commands_take_back_is_gone_for_a_controller() {
    let undone = "mc_mgrp_create 9\nmc_node_create 1 5\nmc_node_associate 9 1\n\
        mirroring_add 8 1\nmirroring_delete 8\nmc_mgrp_destroy 9\n\
        table_set_default hops Ingress.send => 02:00:00:00:00:09 4\ntable_reset_default hops\n\
        counter_write sent 3 5 600\ncounter_write denied 0 7 800\n\
        counter_reset sent\ncounter_write sent 4 2 0\n";
    let (mut told, _) = device(&format!("{COMMANDS}{MORE}{undone}"));
    let (mut plain, _) = device(&format!("{COMMANDS}{MORE}"));
    assert_eq!(read(&mut told), read(&mut plain));
    let table_entry = Some(p4::TableEntry::default());
    let direct = p4::DirectCounterEntry {
        table_entry,
        data: None,
    };
    let counters = Kind::CounterEntry(p4::CounterEntry::default());
    let found = read_kinds(&mut told, [counters, Kind::DirectCounterEntry(direct)]);
    let counts = found.iter().filter_map(|kind| match kind {
        Kind::CounterEntry(entry) => entry.data,
        Kind::DirectCounterEntry(entry) => entry.data,
        _ => None,
    });
    let counts: Vec<_> = counts
        .map(|data| (data.packet_count, data.byte_count))
        .collect();
    let sum = counts
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(sum, (7 + 2, 800), "{counts:?}");

    let profile = "act_prof_create_member choice Ingress.send 02:00:00:00:00:07 2\n\
        act_prof_create_group choice\nact_prof_add_member_to_group choice 0 0\n";
    let undone = "act_prof_create_member choice Ingress.send 02:00:00:00:00:08 2\n\
        act_prof_create_group choice\nact_prof_add_member_to_group choice 1 1\n\
        act_prof_remove_member_from_group choice 1 1\nact_prof_delete_group choice 1\n\
        act_prof_delete_member choice 1\npvs_add types 7\npvs_clear types\n";
    let mut devices = [format!("{profile}{undone}"), profile.to_owned()]
        .map(|text| device_of(&indirect(), &text).0);
    let [told, plain] = devices.each_mut().map(read_profiles);
    assert_eq!(told, plain);
    assert_eq!(
        plain.len(),
        3,
        "a member, a group, and a set without values"
    );
}

#[test]
fn what_p4runtime_cannot_say_is_refused_with_its_line() {
    for (text, line, says) in [
        ("mirroring_add_mc 1 2\n", 1, "no multicast group"),
        (
            "\ntable_add acl drop 1&&&1 1&&&1 => 2147483647\n",
            2,
            "a priority of 2147483647",
        ),
    ] {
        let refused = messages_for(&catalog(), &program(), &parsed(text)).expect_err(text);
        assert_eq!(refused.0, Some(line), "{text}");
        assert!(refused.1.message.contains(says), "{}", refused.1);
    }
}
