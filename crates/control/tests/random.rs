//! Random batches: reads return the written entities, and the target has the same.
//!
//! The reference is a plain map from an entity's name to the entity, changed only by each
//! update with a good verdict. After each batch all reads equal the map. A model that got every
//! change from the start equals one that gets all read entities at once.

mod harness;

use std::collections::BTreeMap;

use harness::*;
use prost::Message;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thalweg_control::model::Model;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::proto::p4::v1::update::Type;
use thalweg_control::proto::p4::v1::write_request::Atomicity;
use thalweg_control::{ActionRef, Device, Failure, Side};

/// An entity with one of few names, so that updates interact; one match, an arm for each kind.
fn random_entity(random: &mut StdRng) -> Kind {
    let number = random.random_range(1..=3_u8);
    match random.random_range(0..9) {
        0 => {
            let mut entry = mac(number);
            entry.metadata = vec![random.random_range(0..3)].into();
            if random.random_bool(0.3) {
                entry.meter_config = Some(p4::MeterConfig {
                    cir: 1,
                    cburst: 1,
                    pir: i64::from(number),
                    pburst: 1,
                    eburst: 0,
                });
            }
            Kind::TableEntry(entry)
        }
        1 => {
            let length = random.random_range(0..=9);
            let value = [10, 128 * u8::from(length == 9), 0, 0];
            let mut fields = vec![exact(2, &[number])];
            // A length of 0 and bits outside the prefix are refused; some of the entries have
            // them.
            if random.random_bool(0.8) {
                fields.push(lpm(1, &value, length));
            }
            Kind::TableEntry(entry(ROUTE, fields, does(forward(&[number]))))
        }
        2 => {
            let mut fields = Vec::new();
            if random.random_bool(0.5) {
                fields.push(ternary(1, &[number & 2], &[2]));
            }
            if random.random_bool(0.5) {
                fields.push(range(2, &[number], &[3]));
            }
            let mut entry = entry(ACL, fields, does(forward(&[number])));
            entry.priority = random.random_range(0..3);
            Kind::TableEntry(entry)
        }
        3 => {
            let action = match random.random_range(0..3) {
                0 => member_id(u32::from(number)),
                1 => group_id(u32::from(number)),
                _ => one_shot(&[1, i32::from(number)]),
            };
            let key = random.random_range(1..=3);
            Kind::TableEntry(entry(ECMP, vec![exact(1, &[key])], action))
        }
        4 => member(SELECTOR, u32::from(number), random.random_range(1..=9)),
        5 => {
            let other = random.random_range(1..=3);
            let members = [(u32::from(number), 1), (other, 2)];
            group(SELECTOR, random.random_range(1..=2), &members)
        }
        6 => {
            let mut default = entry(MAC, vec![], does(plain(DROP)));
            default.is_default_action = true;
            default.metadata = vec![number].into();
            Kind::TableEntry(default)
        }
        7 => {
            use p4::packet_replication_engine_entry::Type as Replication;
            let replica = p4::Replica {
                port_kind: Some(p4::replica::PortKind::Port(vec![number].into())),
                instance: 1,
                backup_replicas: Vec::new(),
            };
            let group = p4::MulticastGroupEntry {
                multicast_group_id: u32::from(random.random_range(0..=2_u8)),
                replicas: vec![replica],
                ..Default::default()
            };
            Kind::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
                r#type: Some(Replication::MulticastGroupEntry(group)),
            })
        }
        _ => Kind::RegisterEntry(p4::RegisterEntry {
            register_id: 0x1600_0001,
            index: Some(p4::Index {
                index: random.random_range(0..=4),
            }),
            data: Some(p4::P4Data {
                data: Some(p4::p4_data::Data::Bitstring(vec![number].into())),
            }),
        }),
    }
}

/// The name of an entity, as bytes that can be compared.
fn name_of(kind: &Kind) -> Vec<u8> {
    let name = match kind.clone() {
        Kind::TableEntry(mut entry) => {
            entry.r#match.sort_by_key(|field| field.field_id);
            Kind::TableEntry(p4::TableEntry {
                table_id: entry.table_id,
                r#match: entry.r#match,
                priority: entry.priority,
                is_default_action: entry.is_default_action,
                ..Default::default()
            })
        }
        Kind::ActionProfileMember(member) => Kind::ActionProfileMember(p4::ActionProfileMember {
            action: None,
            ..member
        }),
        Kind::ActionProfileGroup(group) => Kind::ActionProfileGroup(p4::ActionProfileGroup {
            action_profile_id: group.action_profile_id,
            group_id: group.group_id,
            ..Default::default()
        }),
        Kind::RegisterEntry(register) => Kind::RegisterEntry(p4::RegisterEntry {
            data: None,
            ..register
        }),
        Kind::PacketReplicationEngineEntry(entry) => match entry.r#type {
            Some(p4::packet_replication_engine_entry::Type::MulticastGroupEntry(mut group)) => {
                group.replicas.clear();
                let kind = p4::packet_replication_engine_entry::Type::MulticastGroupEntry(group);
                Kind::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
                    r#type: Some(kind),
                })
            }
            _ => panic!("only multicast groups are written"),
        },
        other => panic!("{other:?}"),
    };
    p4::Entity { entity: Some(name) }.encode_to_vec()
}

fn sorted(mut kind: Kind) -> Kind {
    if let Kind::TableEntry(entry) = &mut kind {
        entry.r#match.sort_by_key(|field| field.field_id);
    }
    kind
}

/// Reads the entities that these tests write.
fn snapshot(device: &mut Device<Model>) -> BTreeMap<Vec<u8>, Kind> {
    let meters = p4::TableEntry {
        meter_config: Some(Default::default()),
        ..Default::default()
    };
    let mut found = read(device, Kind::TableEntry(meters));
    let default = p4::TableEntry {
        is_default_action: true,
        ..entry(MAC, vec![], None)
    };
    found.extend(read(device, Kind::TableEntry(default)));
    found.extend(read(device, Kind::ActionProfileMember(Default::default())));
    found.extend(read(device, Kind::ActionProfileGroup(Default::default())));
    found.extend(read(device, Kind::RegisterEntry(Default::default())));
    let group = p4::packet_replication_engine_entry::Type::MulticastGroupEntry(Default::default());
    let group = p4::PacketReplicationEngineEntry {
        r#type: Some(group),
    };
    found.extend(read(device, Kind::PacketReplicationEngineEntry(group)));
    let named = found.into_iter().map(sorted);
    named.map(|kind| (name_of(&kind), kind)).collect()
}

/// Checks that a target holds exactly the entities that were read.
fn check_target(device: &mut Device<Model>, expected: &BTreeMap<Vec<u8>, Kind>) {
    let rows = device.target_mut().rows(Side::Running).clone();
    let count = |wanted: fn(&Kind) -> bool| expected.values().filter(|kind| wanted(kind)).count();
    let entries = count(|kind| matches!(kind, Kind::TableEntry(entry) if !entry.is_default_action));
    assert_eq!(rows.entries.len(), entries);
    let (mut list_members, mut lists) = (0, 0);
    for kind in expected.values() {
        if let Kind::TableEntry(entry) = kind
            && let Some(action) = &entry.action
            && let Some(p4::table_action::Type::ActionProfileActionSet(list)) = &action.r#type
        {
            lists += 1;
            list_members += list.action_profile_actions.len();
        }
    }
    let members = count(|kind| matches!(kind, Kind::ActionProfileMember(_)));
    assert_eq!(rows.members.len(), members + list_members);
    let groups = count(|kind| matches!(kind, Kind::ActionProfileGroup(_)));
    assert_eq!(rows.groups.len(), groups + lists);
    let in_use = rows
        .entries
        .values()
        .filter(|action| matches!(action, ActionRef::Group(_)));
    assert!(in_use.count() >= lists);
    let meters =
        count(|kind| matches!(kind, Kind::TableEntry(entry) if entry.meter_config.is_some()));
    assert_eq!(rows.direct_meters.len(), meters);
}

#[test]
fn what_is_read_is_what_was_written() {
    let seed = 0x5eed_0005;
    let mut random = StdRng::seed_from_u64(seed);
    let mut device = device();
    let mut expected = snapshot(&mut device);
    let (mut done, mut refused, mut rolled_back) = (0, 0, 0);
    for round in 0..3_000 {
        let count = random.random_range(1..=6);
        let updates: Vec<p4::Update> = (0..count)
            .map(|_| {
                let kind = random_entity(&mut random);
                let types = [Type::Insert, Type::Modify, Type::Delete];
                update(types[random.random_range(0..3)], kind)
            })
            .collect();
        let mut request = write_request(updates.clone());
        request.atomicity = random.random_range(0..3);
        // Occasionally the target has its own limit.
        let is_tight = random.random_bool(0.1);
        device.target_mut().max_entries = is_tight.then_some(6);
        let is_whole = request.atomicity() != Atomicity::ContinueOnError;
        let good: Vec<bool> = match device.handle_write(&request, at(round)) {
            Ok(()) => vec![true; updates.len()],
            Err(Failure::Call(problem)) => panic!("seed {seed:#x}, round {round}: {problem}"),
            Err(Failure::Parts(verdicts)) => {
                let good: Vec<bool> = verdicts.iter().map(Result::is_ok).collect();
                assert!(!is_whole || !good.contains(&true), "whole or not at all");
                rolled_back += usize::from(is_whole);
                good
            }
        };
        for (update, is_good) in updates.into_iter().zip(good) {
            if !is_good {
                refused += 1;
                continue;
            }
            done += 1;
            let is_delete = update.r#type() == Type::Delete;
            let kind = sorted(update.entity.unwrap().entity.unwrap());
            let name = name_of(&kind);
            match is_delete {
                true => expected.remove(&name),
                false => expected.insert(name, kind),
            };
        }
        let found = snapshot(&mut device);
        assert_eq!(found, expected, "seed {seed:#x}, round {round}");
        check_target(&mut device, &expected);
    }
    // Every case must have occurred often.
    assert!(
        done > 1_000 && refused > 1_000 && rolled_back > 300,
        "{done} {refused} {rolled_back}"
    );
}
