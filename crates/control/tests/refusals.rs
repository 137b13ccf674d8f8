//! Each invalid write gets the standard's code, and has no effect.

mod harness;

use harness::*;
use thalweg_control::model::Rows;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::proto::p4::v1::write_request::Atomicity;
use thalweg_control::{Code, Failure, Side};

/// The state before each invalid write.
fn furnished() -> thalweg_control::Device<thalweg_control::model::Model> {
    let mut device = device();
    let acl = p4::TableEntry {
        priority: 5,
        ..entry(ACL, vec![optional(3, &[7])], does(forward(&[1])))
    };
    write(
        &mut device,
        vec![
            insert(Kind::TableEntry(mac(1))),
            insert(Kind::TableEntry(acl)),
            insert(member(SELECTOR, 1, 1)),
            insert(member(SELECTOR, 2, 2)),
            insert(group(SELECTOR, 1, &[(1, 1)])),
            insert(Kind::TableEntry(entry(
                ECMP,
                vec![exact(1, &[1])],
                group_id(1),
            ))),
            insert(member(PROFILE, 9, 1)),
            insert(Kind::TableEntry(entry(
                INDIRECT,
                vec![exact(1, &[1])],
                member_id(9),
            ))),
            insert(multicast(1, &[(1, 1)])),
            insert(clone_session(1, 0)),
            insert(digest()),
        ],
    )
    .unwrap();
    device
}

fn multicast(id: u32, replicas: &[(u8, u32)]) -> Kind {
    let replicas = replicas
        .iter()
        .map(|(port, instance)| replica(*port, *instance));
    let entry = p4::MulticastGroupEntry {
        multicast_group_id: id,
        replicas: replicas.collect(),
        ..Default::default()
    };
    replication(p4::packet_replication_engine_entry::Type::MulticastGroupEntry(entry))
}

fn clone_session(id: u32, class_of_service: u32) -> Kind {
    let entry = p4::CloneSessionEntry {
        session_id: id,
        replicas: vec![replica(3, 1)],
        class_of_service,
        packet_length_bytes: 0,
    };
    replication(p4::packet_replication_engine_entry::Type::CloneSessionEntry(entry))
}

fn replica(port: u8, instance: u32) -> p4::Replica {
    p4::Replica {
        port_kind: Some(p4::replica::PortKind::Port(vec![port].into())),
        instance,
        backup_replicas: Vec::new(),
    }
}

fn replication(kind: p4::packet_replication_engine_entry::Type) -> Kind {
    Kind::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(kind) })
}

fn digest() -> Kind {
    Kind::DigestEntry(p4::DigestEntry {
        digest_id: DIGEST,
        config: Some(p4::digest_entry::Config::default()),
    })
}

fn table(entry: p4::TableEntry) -> Kind {
    Kind::TableEntry(entry)
}

fn with(base: p4::TableEntry, change: impl FnOnce(&mut p4::TableEntry)) -> Kind {
    let mut entry = base;
    change(&mut entry);
    Kind::TableEntry(entry)
}

fn counter(id: u32, index: Option<i64>, packet_count: i64, byte_count: i64) -> Kind {
    Kind::CounterEntry(p4::CounterEntry {
        counter_id: id,
        index: index.map(|index| p4::Index { index }),
        data: Some(p4::CounterData {
            packet_count,
            byte_count,
        }),
    })
}

fn meter(id: u32, index: Option<i64>, numbers: [i64; 5]) -> Kind {
    let [cir, cburst, pir, pburst, eburst] = numbers;
    Kind::MeterEntry(p4::MeterEntry {
        meter_id: id,
        index: index.map(|index| p4::Index { index }),
        config: Some(p4::MeterConfig {
            cir,
            cburst,
            pir,
            pburst,
            eburst,
        }),
        counter_data: None,
    })
}

fn register(index: Option<i64>, bytes: &'static [u8]) -> Kind {
    Kind::RegisterEntry(p4::RegisterEntry {
        register_id: 0x1600_0001,
        index: index.map(|index| p4::Index { index }),
        data: Some(p4::P4Data {
            data: Some(p4::p4_data::Data::Bitstring(bytes.into())),
        }),
    })
}

fn values(values: &[&[u8]]) -> Kind {
    let members = values.iter().map(|value| p4::ValueSetMember {
        r#match: vec![exact(1, value)],
    });
    Kind::ValueSetEntry(p4::ValueSetEntry {
        value_set_id: 0x0300_0001,
        members: members.collect(),
    })
}

fn acl(priority: i32, fields: Vec<p4::FieldMatch>) -> Kind {
    with(entry(ACL, fields, does(forward(&[1]))), |entry| {
        entry.priority = priority;
    })
}

fn route(fields: Vec<p4::FieldMatch>) -> Kind {
    table(entry(ROUTE, fields, does(forward(&[1]))))
}

fn default_of(id: u32, action: Option<p4::TableAction>) -> p4::TableEntry {
    p4::TableEntry {
        is_default_action: true,
        ..entry(id, Vec::new(), action)
    }
}

/// An invalid update: its name, the update, and the expected code.
type Wrong = (&'static str, p4::Update, Code);

macro_rules! cases {
    ($($name:literal => $update:expr, $code:expr;)*) => {
        vec![$(($name, $update, $code)),*]
    };
}

fn vrf() -> p4::FieldMatch {
    exact(2, &[1])
}

/// A valid route, modified.
fn routed(change: impl FnOnce(&mut p4::TableEntry)) -> Kind {
    with(entry(ROUTE, vec![vrf()], does(forward(&[1]))), change)
}

/// A message that is present and empty.
fn unset<M: Default>() -> Option<M> {
    Some(M::default())
}

fn unmatched(field_id: u32) -> p4::FieldMatch {
    p4::FieldMatch {
        field_id,
        field_match_type: None,
    }
}

fn negative() -> p4::CounterData {
    p4::CounterData {
        byte_count: -1,
        packet_count: 0,
    }
}

/// An action with two parameters that it does not have.
fn loaded(action_id: u32) -> p4::Action {
    p4::Action {
        action_id,
        ..forward(&[1])
    }
}

fn without(count: usize) -> p4::Action {
    let mut action = forward(&[1]);
    action.params.truncate(count);
    action
}

fn two() -> p4::Action {
    let mut action = forward(&[1]);
    action.params[1].param_id = 1;
    action
}

fn without_action(kind: Kind) -> Kind {
    match kind {
        Kind::ActionProfileMember(member) => {
            let action = None;
            Kind::ActionProfileMember(p4::ActionProfileMember { action, ..member })
        }
        other => other,
    }
}

/// A group, modified.
fn grouped(kind: Kind, change: impl FnOnce(&mut p4::ActionProfileGroup)) -> Kind {
    let Kind::ActionProfileGroup(mut group) = kind else {
        panic!("{kind:?} is no group");
    };
    change(&mut group);
    Kind::ActionProfileGroup(group)
}

fn direct(table_entry: Option<p4::TableEntry>) -> Kind {
    Kind::DirectCounterEntry(p4::DirectCounterEntry {
        table_entry,
        data: Some(p4::CounterData::default()),
    })
}

fn backed_up() -> Kind {
    let backed_up = p4::Replica {
        backup_replicas: vec![p4::BackupReplica::default()],
        ..replica(1, 1)
    };
    let entry = p4::MulticastGroupEntry {
        multicast_group_id: 2,
        replicas: vec![backed_up],
        ..Default::default()
    };
    replication(p4::packet_replication_engine_entry::Type::MulticastGroupEntry(entry))
}

fn register_without_data() -> Kind {
    let Kind::RegisterEntry(entry) = register(Some(0), &[0]) else {
        panic!("it is a register");
    };
    Kind::RegisterEntry(p4::RegisterEntry {
        data: None,
        ..entry
    })
}

fn impatient_digest() -> Kind {
    Kind::DigestEntry(p4::DigestEntry {
        digest_id: DIGEST,
        config: Some(p4::digest_entry::Config {
            max_timeout_ns: -1,
            ..Default::default()
        }),
    })
}

const RATES: [i64; 5] = [1, 1, 2, 2, 0];

fn watch(group: &mut p4::ActionProfileGroup) {
    let port = p4::action_profile_group::member::WatchKind::WatchPort(vec![1].into());
    group.members[0].watch_kind = Some(port);
}

/// Entries with invalid names and actions.
fn wrong_actions() -> Vec<Wrong> {
    cases! {
        "no table" => insert(table(entry(0, vec![], None))), Code::InvalidArgument;
        "unknown table" => insert(table(entry(0x0200_00ff, vec![], None))), Code::InvalidArgument;
        "there already" => insert(table(mac(1))), Code::AlreadyExists;
        "the same, longer" =>
            insert(table(entry(MAC, vec![exact(1, &[0, 0xaa, 1])], does(forward(&[1]))))),
            Code::AlreadyExists;
        "modify what is not there" => modify(table(mac(2))), Code::NotFound;
        "delete what is not there" => delete(table(mac(2))), Code::NotFound;
        "no action" => insert(with(mac(2), |entry| entry.action = None)), Code::InvalidArgument;
        "empty action" =>
            insert(with(mac(2), |entry| entry.action = unset())), Code::InvalidArgument;
        "action of another table" =>
            insert(table(entry(ROUTE, vec![vrf()], does(plain(DROP))))), Code::InvalidArgument;
        "unknown action" =>
            insert(table(entry(ROUTE, vec![vrf()], does(plain(7))))), Code::InvalidArgument;
        "default action in an entry" =>
            insert(with(mac(2), |entry| entry.action = does(plain(DROP)))), Code::PermissionDenied;
        "parameter too wide" =>
            insert(table(entry(ROUTE, vec![vrf()], does(forward(&[2, 0]))))), Code::OutOfRange;
        "parameter empty" =>
            insert(table(entry(ROUTE, vec![vrf()], does(forward(&[]))))), Code::OutOfRange;
        "parameter twice" =>
            insert(table(entry(ROUTE, vec![vrf()], does(two())))), Code::InvalidArgument;
        "parameter missing" =>
            insert(table(entry(ROUTE, vec![vrf()], does(without(1))))), Code::InvalidArgument;
        "parameter too many" =>
            insert(table(entry(ROUTE, vec![vrf()], does(loaded(NO_ACTION))))),
            Code::InvalidArgument;
    }
}

/// Entries with invalid matches and priorities.
fn wrong_keys() -> Vec<Wrong> {
    cases! {
        "field missing" => insert(route(vec![lpm(1, &[10, 0, 0, 0], 8)])), Code::InvalidArgument;
        "field twice" => insert(route(vec![vrf(), vrf()])), Code::InvalidArgument;
        "field unknown" => insert(route(vec![vrf(), exact(9, &[1])])), Code::InvalidArgument;
        "field of another kind" =>
            insert(route(vec![vrf(), exact(1, &[1])])), Code::InvalidArgument;
        "field without match" => insert(route(vec![vrf(), unmatched(1)])), Code::InvalidArgument;
        "value too wide" => insert(route(vec![exact(2, &[0x10, 0])])), Code::OutOfRange;
        "value empty" => insert(route(vec![exact(2, &[])])), Code::OutOfRange;
        "prefix of nothing" => insert(route(vec![vrf(), lpm(1, &[0], 0)])), Code::InvalidArgument;
        "prefix below zero" => insert(route(vec![vrf(), lpm(1, &[0], -1)])), Code::InvalidArgument;
        "prefix too long" => insert(route(vec![vrf(), lpm(1, &[0], 33)])), Code::InvalidArgument;
        "bits outside the prefix" =>
            insert(route(vec![vrf(), lpm(1, &[10, 0, 0, 1], 8)])), Code::InvalidArgument;
        "priority without need" =>
            insert(routed(|entry| entry.priority = 1)), Code::InvalidArgument;
        "no priority" => insert(acl(0, vec![optional(3, &[1])])), Code::InvalidArgument;
        "priority below zero" => insert(acl(-1, vec![optional(3, &[1])])), Code::InvalidArgument;
        "mask of zero" => insert(acl(1, vec![ternary(1, &[0], &[0])])), Code::InvalidArgument;
        "bits outside the mask" =>
            insert(acl(1, vec![ternary(1, &[3], &[1])])), Code::InvalidArgument;
        "mask too wide" => insert(acl(1, vec![ternary(1, &[0], &[1; 17])])), Code::OutOfRange;
        "range upside down" => insert(acl(1, vec![range(2, &[9], &[8])])), Code::InvalidArgument;
        "range of everything" =>
            insert(acl(1, vec![range(2, &[0], &[0xff, 0xff])])), Code::InvalidArgument;
        "optional too wide" => insert(acl(1, vec![optional(3, &[2, 0])])), Code::OutOfRange;
    }
}

/// Entries that are invalid in other ways.
fn wrong_entries() -> Vec<Wrong> {
    cases! {
        "entry of a keyless table" =>
            insert(table(entry(KEYLESS, vec![], does(forward(&[1]))))), Code::InvalidArgument;
        "constant flag" =>
            insert(with(mac(2), |entry| entry.is_const = true)), Code::InvalidArgument;
        "time of the last hit" =>
            insert(with(mac(2), |entry| entry.time_since_last_hit = unset())),
            Code::InvalidArgument;
        "time-out below zero" =>
            insert(with(mac(2), |entry| entry.idle_timeout_ns = -1)), Code::InvalidArgument;
        "time-out of a table without" =>
            insert(routed(|entry| entry.idle_timeout_ns = 1)), Code::InvalidArgument;
        "counter of a table without" =>
            insert(routed(|entry| entry.counter_data = unset())), Code::InvalidArgument;
        "counter below zero" =>
            insert(with(mac(2), |entry| entry.counter_data = Some(negative()))),
            Code::InvalidArgument;
        "meter of a table without" =>
            insert(routed(|entry| entry.meter_config = unset())), Code::InvalidArgument;
        "colours" =>
            insert(with(mac(2), |entry| entry.meter_counter_data = unset())), Code::Unimplemented;
        "insert into a constant table" =>
            insert(table(entry(FIXED, vec![exact(1, &[1])], does(forward(&[1]))))),
            Code::PermissionDenied;
        "delete from a constant table" =>
            delete(table(entry(FIXED, vec![exact(1, &[8, 0])], None))), Code::PermissionDenied;
        "action of a constant entry" =>
            modify(table(entry(FIXED, vec![exact(1, &[8, 0])], does(plain(NO_ACTION))))),
            Code::PermissionDenied;
        "insert a default" =>
            insert(table(default_of(MAC, does(plain(DROP))))), Code::InvalidArgument;
        "delete a default" => delete(table(default_of(MAC, None))), Code::InvalidArgument;
        "default with a match" =>
            modify(with(default_of(MAC, does(plain(DROP))), |entry| {
                entry.r#match = mac(1).r#match;
            })),
            Code::InvalidArgument;
        "default with a time-out" =>
            modify(with(default_of(MAC, does(plain(DROP))), |entry| entry.idle_timeout_ns = 1)),
            Code::InvalidArgument;
        "entry's action as a default" =>
            modify(table(default_of(MAC, does(forward(&[1]))))), Code::PermissionDenied;
        "constant default" =>
            modify(table(default_of(FIXED, does(forward(&[1]))))), Code::PermissionDenied;
        "default of a profile's table" =>
            modify(table(default_of(ECMP, does(forward(&[1]))))), Code::PermissionDenied;
        "member in a direct table" =>
            insert(table(entry(ROUTE, vec![vrf()], member_id(1)))), Code::InvalidArgument;
        "action in an indirect table" =>
            insert(table(entry(ECMP, vec![exact(1, &[2])], does(forward(&[1]))))),
            Code::InvalidArgument;
        "member that is not there" =>
            insert(table(entry(ECMP, vec![exact(1, &[2])], member_id(7)))), Code::NotFound;
        "group that is not there" =>
            insert(table(entry(ECMP, vec![exact(1, &[2])], group_id(7)))), Code::NotFound;
        "group without a selector" =>
            insert(table(entry(INDIRECT, vec![exact(1, &[2])], group_id(1)))),
            Code::InvalidArgument;
        "list without a selector" =>
            insert(table(entry(INDIRECT, vec![exact(1, &[2])], one_shot(&[1])))),
            Code::InvalidArgument;
        "list beside members" =>
            insert(table(entry(ECMP, vec![exact(1, &[2])], one_shot(&[1])))), Code::InvalidArgument;
    }
}

/// Invalid members and groups.
fn wrong_profiles() -> Vec<Wrong> {
    cases! {
        "no type" => update(p4::update::Type::Unspecified, digest()), Code::InvalidArgument;
        "no entity" => p4::Update { r#type: 1, entity: None }, Code::InvalidArgument;
        "extern" => insert(Kind::ExternEntry(Default::default())), Code::Unimplemented;
        "unknown profile" => insert(member(7, 1, 1)), Code::InvalidArgument;
        "member zero" => insert(member(SELECTOR, 0, 1)), Code::InvalidArgument;
        "member there already" => insert(member(SELECTOR, 1, 1)), Code::AlreadyExists;
        "modify a member that is not there" => modify(member(SELECTOR, 5, 1)), Code::NotFound;
        "delete a member that is not there" => delete(member(SELECTOR, 5, 1)), Code::NotFound;
        "delete a member of a group" => delete(member(SELECTOR, 1, 1)), Code::FailedPrecondition;
        "delete a member of an entry" => delete(member(PROFILE, 9, 1)), Code::FailedPrecondition;
        "member without action" =>
            insert(without_action(member(SELECTOR, 6, 1))), Code::InvalidArgument;
        "group there already" => insert(group(SELECTOR, 1, &[])), Code::AlreadyExists;
        "modify a group that is not there" => modify(group(SELECTOR, 5, &[])), Code::NotFound;
        "delete a group that is in use" =>
            delete(group(SELECTOR, 1, &[])), Code::FailedPrecondition;
        "group of a member that is not there" =>
            insert(group(SELECTOR, 2, &[(7, 1)])), Code::NotFound;
        "member twice" => insert(group(SELECTOR, 2, &[(1, 1), (1, 1)])), Code::InvalidArgument;
        "weight zero" => insert(group(SELECTOR, 2, &[(1, 0)])), Code::InvalidArgument;
        "weight below zero" => insert(group(SELECTOR, 2, &[(1, -1)])), Code::InvalidArgument;
        "group too large" => insert(group(SELECTOR, 2, &[(1, 3), (2, 2)])), Code::ResourceExhausted;
        "max_size above P4Info's" =>
            insert(grouped(group(SELECTOR, 2, &[(1, 1)]), |group| group.max_size = 5)),
            Code::InvalidArgument;
        "max_size that changes" =>
            modify(grouped(group(SELECTOR, 1, &[(1, 1)]), |group| group.max_size = 3)),
            Code::InvalidArgument;
        "watch port" => insert(grouped(group(SELECTOR, 2, &[(1, 1)]), watch)), Code::Unimplemented;
        "group without selector" => insert(group(PROFILE, 2, &[])), Code::InvalidArgument;
    }
}

/// Invalid counters, meters and registers.
fn wrong_arrays() -> Vec<Wrong> {
    cases! {
        "insert a counter" => insert(counter(0x1200_0001, Some(0), 0, 0)), Code::InvalidArgument;
        "delete a counter" => delete(counter(0x1200_0001, Some(0), 0, 0)), Code::InvalidArgument;
        "unknown counter" => modify(counter(7, Some(0), 0, 0)), Code::InvalidArgument;
        "index below zero" => modify(counter(0x1200_0001, Some(-1), 0, 0)), Code::InvalidArgument;
        "index past the end" => modify(counter(0x1200_0001, Some(8), 0, 0)), Code::OutOfRange;
        "bytes that are not counted" =>
            modify(counter(0x1200_0002, Some(0), 0, 1)), Code::InvalidArgument;
        "direct counter of no entry" => modify(direct(None)), Code::InvalidArgument;
        "direct counter of an entry that is not there" =>
            modify(direct(Some(mac(2)))), Code::NotFound;
        "direct counter of a table without" =>
            modify(direct(Some(entry(KEYLESS, vec![], None)))), Code::InvalidArgument;
        "insert a direct counter" => insert(direct(Some(mac(1)))), Code::InvalidArgument;
        "insert a meter" => insert(meter(0x1400_0001, Some(0), RATES)), Code::InvalidArgument;
        "meter past the end" => modify(meter(0x1400_0001, Some(4), RATES)), Code::OutOfRange;
        "excess burst" =>
            modify(meter(0x1400_0001, Some(0), [1, 1, 2, 2, 1])), Code::InvalidArgument;
        "rate below zero" =>
            modify(meter(0x1400_0001, Some(0), [-1, 1, 2, 2, 0])), Code::InvalidArgument;
        "two rates for two colours" =>
            modify(meter(0x1400_0002, Some(0), RATES)), Code::InvalidArgument;
        "register too wide" => modify(register(Some(0), &[0x10, 0, 0])), Code::OutOfRange;
        "register without data" => modify(register_without_data()), Code::InvalidArgument;
        "register past the end" => modify(register(Some(4), &[1])), Code::OutOfRange;
        "insert a register" => insert(register(Some(0), &[1])), Code::InvalidArgument;
    }
}

/// Invalid copies, value sets and digests.
fn wrong_sets() -> Vec<Wrong> {
    cases! {
        "multicast group zero" => insert(multicast(0, &[])), Code::InvalidArgument;
        "multicast group there already" => insert(multicast(1, &[])), Code::AlreadyExists;
        "modify a multicast group that is not there" => modify(multicast(2, &[])), Code::NotFound;
        "delete a multicast group that is not there" => delete(multicast(2, &[])), Code::NotFound;
        "replica twice" => insert(multicast(2, &[(1, 1), (1, 1)])), Code::InvalidArgument;
        "instance too large" => insert(multicast(2, &[(1, 0x1_0000)])), Code::InvalidArgument;
        "backup replicas" => insert(backed_up()), Code::Unimplemented;
        "clone session zero" => insert(clone_session(0, 0)), Code::InvalidArgument;
        "clone session there already" => insert(clone_session(1, 0)), Code::AlreadyExists;
        "class of service" => modify(clone_session(1, 1)), Code::InvalidArgument;
        "insert a value set" => insert(values(&[])), Code::InvalidArgument;
        "value set too large" => modify(values(&[&[1], &[2], &[3]])), Code::ResourceExhausted;
        "value twice" => modify(values(&[&[1], &[0, 1]])), Code::AlreadyExists;
        "value too wide" => modify(values(&[&[1, 0, 0]])), Code::OutOfRange;
        "digest there already" => insert(digest()), Code::AlreadyExists;
        "unknown digest" => insert(Kind::DigestEntry(Default::default())), Code::InvalidArgument;
        "time-out of a digest below zero" => modify(impatient_digest()), Code::InvalidArgument;
    }
}

fn all_wrong() -> Vec<Wrong> {
    let parts = [
        wrong_actions(),
        wrong_keys(),
        wrong_entries(),
        wrong_profiles(),
        wrong_arrays(),
        wrong_sets(),
    ];
    parts.into_iter().flatten().collect()
}

#[test]
fn each_has_its_code_and_changes_nothing() {
    let mut device = furnished();
    let before = read_all(&mut device);
    let rows = device.target_mut().rows(Side::Running).clone();
    for (name, update, code) in all_wrong() {
        let good = insert(table(mac(3)));
        // Alone, and in a batch whose other updates are done.
        assert_eq!(
            codes(write(&mut device, vec![update.clone()])),
            [code],
            "{name}"
        );
        let both = codes(write(&mut device, vec![update.clone(), good.clone()]));
        assert_eq!(both, [code, Code::Ok], "{name}");
        write(&mut device, vec![delete(table(mac(3)))]).unwrap();
        // In all-or-nothing batches.
        for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
            let mut request = write_request(vec![good.clone(), update.clone(), good.clone()]);
            request.updates[2] = insert(table(entry(
                ROUTE,
                vec![exact(2, &[9])],
                does(forward(&[1])),
            )));
            request.atomicity = atomicity as i32;
            let outcome = codes(device.handle_write(&request, at(0)));
            assert_eq!(outcome, [Code::Aborted, code, Code::Aborted], "{name}");
        }
        assert_eq!(read_all(&mut device), before, "{name}");
        assert_eq!(device.target_mut().rows(Side::Running), &rows, "{name}");
    }
}

#[test]
fn a_full_table_takes_no_more() {
    let mut device = device();
    let updates = (1..=6).map(|last| insert(table(mac(last)))).collect();
    let outcome = codes(write(&mut device, updates));
    let (ok, full) = (Code::Ok, Code::ResourceExhausted);
    assert_eq!(outcome, [ok, ok, ok, ok, full, full]);
    let updates = vec![delete(table(mac(1))), insert(table(mac(9)))];
    write(&mut device, updates).unwrap();
}

#[test]
fn what_the_target_refuses_is_not_there_afterwards() {
    let mut device = device();
    device.target_mut().max_entries = Some(3);
    let updates: Vec<_> = (1..=4).map(|last| insert(table(mac(last)))).collect();
    let mut request = write_request(updates.clone());
    request.atomicity = Atomicity::DataplaneAtomic as i32;
    let (ok, full) = (Code::Ok, Code::ResourceExhausted);
    let gone = Code::Aborted;
    assert_eq!(
        codes(device.handle_write(&request, at(0))),
        [gone, gone, full, gone]
    );
    assert_eq!(device.target_mut().rows(Side::Running).entries.len(), 1);
    assert_eq!(codes(write(&mut device, updates)), [ok, ok, full, full]);
    assert_eq!(device.target_mut().rows(Side::Running).entries.len(), 3);
    let found = read(&mut device, Kind::TableEntry(entry(MAC, vec![], None)));
    assert_eq!(found.len(), 2);
}

#[test]
fn calls_are_checked_in_the_standards_order() {
    let code = |outcome: Result<(), Failure>| match outcome {
        Err(Failure::Call(problem)) => problem.code,
        other => panic!("{other:?}"),
    };
    let mut device = bare_device();
    let mut request = write_request(vec![]);
    request.device_id = 7;
    request.election_id = None;
    request.role = "nobody".to_owned();
    assert_eq!(code(device.handle_write(&request, at(0))), Code::NotFound);
    request.device_id = 1;
    assert_eq!(code(device.handle_write(&request, at(0))), Code::NotFound);
    request.role = String::new();
    assert_eq!(
        code(device.handle_write(&request, at(0))),
        Code::PermissionDenied
    );
    request.election_id = Some(id(2));
    assert_eq!(
        code(device.handle_write(&request, at(0))),
        Code::PermissionDenied
    );
    request.election_id = Some(id(1));
    assert_eq!(
        code(device.handle_write(&request, at(0))),
        Code::FailedPrecondition
    );
    let (messages, end) = device.handle_read(&p4::ReadRequest {
        device_id: 1,
        ..Default::default()
    });
    assert!(messages.is_empty());
    assert_eq!(code(end), Code::FailedPrecondition);
    assert_eq!(device.target_mut().rows(Side::Running), &Rows::default());
}

/// Values of a later protocol version are refused, not mistaken for defaults.
#[test]
fn later_versions_are_not_taken_for_defaults() {
    let mut device = device();
    let listed = |change: &dyn Fn(&mut p4::ActionProfileActionSet)| {
        let mut action = one_shot(&[1, 2]).expect("a list");
        if let Some(p4::table_action::Type::ActionProfileActionSet(set)) = &mut action.r#type {
            change(set);
        }
        let entry = entry(ECMP, vec![exact(1, &[2])], Some(action));
        vec![insert(Kind::TableEntry(entry))]
    };
    let changes: [&dyn Fn(&mut p4::ActionProfileActionSet); 3] = [
        &|set| set.group_action = Some(plain(NO_ACTION)),
        &|set| set.action_selection_mode = 7,
        &|set| set.size_semantics = 7,
    ];
    for change in changes {
        let refused = codes(write(&mut device, listed(change)));
        assert_eq!(refused, [Code::Unimplemented]);
    }
    assert_eq!(write(&mut device, listed(&|_| {})), Ok(()));
    let code = |failure: Failure| match failure {
        Failure::Call(problem) => problem.code,
        other => panic!("{other:?}"),
    };
    let mut request = write_request(vec![insert(table(mac(3)))]);
    request.atomicity = 9;
    let refused = device.handle_write(&request, at(0)).map_err(code);
    assert_eq!(refused, Err(Code::Unimplemented));
    let part = p4::GetForwardingPipelineConfigRequest {
        device_id: 1,
        response_type: 9,
    };
    let refused = device.handle_get_pipeline(&part).map(drop).map_err(code);
    assert_eq!(refused, Err(Code::InvalidArgument));
}

/// No entry may use an action that is for groups only; an unknown scope is no scope.
#[test]
fn actions_of_groups_stand_in_no_entry() {
    let set = p4::set_forwarding_pipeline_config_request::Action::VerifyAndCommit;
    let mut config = config();
    let mut scoped = |scope: i32| {
        let info = config.p4info.as_mut().expect("it has one");
        for table in &mut info.tables {
            for action in table.action_refs.iter_mut().filter(|one| one.id == FORWARD) {
                action.scope = scope;
            }
        }
        pipeline_request(set, Some(config.clone()))
    };
    let mut device = bare_device();
    device
        .handle_set_pipeline(&scoped(3), at(0))
        .expect("it is known");
    let refused = codes(write(&mut device, vec![insert(table(mac(1)))]));
    assert_eq!(refused, [Code::Unimplemented]);
    let unknown = device.handle_set_pipeline(&scoped(4), at(0));
    assert!(matches!(
        unknown,
        Err(Failure::Call(problem)) if problem.message.contains("the scope 4")
    ));
}
