//! Tests action profiles, value sets, varbits, and batches that are undone.

use num_bigint::BigUint;
use serde_json::{Value, json};
use thalweg_p4::program::ids::{ActionId, ProfileId, RegisterId, TableId, ValueSetId};
use thalweg_p4::program::table::Match;
use thalweg_p4::state::{ActionCall, EntryAction, Mode, Replica, TableEntry, Update, WriteError};
use thalweg_p4::{Fault, commands};

use crate::bed::*;

/// A table over `b` whose entries are members and groups; the hash of a group is `a`.
fn profile_program() -> Value {
    let actions = json!([
        {"name": "set", "id": 0, "runtime_data": [{"name": "port", "bitwidth": 9}],
            "primitives": [assign(standard("egress_spec"), argument(0))]},
        {"name": "out", "id": 1, "runtime_data": [], "primitives": []},
    ]);
    let table = json!({"name": "t", "id": 0, "key": [{"match_type": "exact", "name": "b",
        "target": ["h", "b"], "mask": null}], "match_type": "exact", "type": "indirect_ws",
        "action_profile": "profile", "max_size": 8, "with_counters": false,
        "support_timeout": false, "direct_meters": null, "action_ids": [0], "actions": ["set"],
        "base_default_next": null, "next_tables": {"set": null}});
    with_tables(actions, json!([table]), json!([bare("out", 1)]))
}

fn call(port: u32) -> ActionCall {
    ActionCall {
        action: ActionId(0),
        data: vec![BigUint::from(port)],
    }
}

fn entry(b: u32, action: EntryAction) -> TableEntry {
    TableEntry {
        matches: vec![Match::Exact(b.into())],
        priority: 0,
        action,
        idle_timeout_ns: 0,
    }
}

const PROFILE: ProfileId = ProfileId(0);
const TABLE: TableId = TableId(0);

fn member(mode: Mode, id: u32, port: u32) -> Update {
    Update::Member(mode, PROFILE, id, Some(call(port)))
}

#[test]
fn a_group_chooses_by_the_hash_and_follows_its_members() {
    let mut bed = Bed::new(&profile_program());
    let updates = [
        member(Mode::Insert, 1, 11),
        member(Mode::Insert, 2, 12),
        // The second has twice the weight.
        Update::Group(Mode::Insert, PROFILE, 5, vec![(2, 2), (1, 1)]),
        Update::InsertEntry(TABLE, entry(0, EntryAction::Group(5))),
        Update::InsertEntry(TABLE, entry(1, EntryAction::Member(1))),
        Update::InsertEntry(
            TABLE,
            entry(2, EntryAction::OneShot(vec![(call(7), 1), (call(8), 1)])),
        ),
    ];
    bed.target.write(&updates, bed.now).expect("all is well");
    let port = |bed: &mut Bed, a: u8, b: u8| bed.receive(1, &[a, b, 0, 0, 0, 0, 0, 0])[0].0;
    let chosen: Vec<u32> = (0..6).map(|a| port(&mut bed, a, 0)).collect();
    assert_eq!(chosen, [11, 12, 12, 11, 12, 12]);
    assert_eq!(
        [
            port(&mut bed, 9, 1),
            port(&mut bed, 0, 2),
            port(&mut bed, 1, 2)
        ],
        [11, 7, 8]
    );
    bed.target
        .write(&[member(Mode::Modify, 2, 13)], bed.now)
        .expect("a member");
    assert_eq!(port(&mut bed, 1, 0), 13);
    // No entry and no default: the packet is unchanged. A group without members is a fault.
    assert_eq!(port(&mut bed, 1, 9), 0);
    let empty = Update::Group(Mode::Modify, PROFILE, 5, Vec::new());
    bed.target.write(&[empty], bed.now).expect("a group");
    assert_eq!(port(&mut bed, 1, 0), 0);
    assert_eq!(bed.target.counts().faults(Fault::NoMember), 1);
}

/// A selector's hash is a 32-bit number for every algorithm.
#[test]
fn a_group_chooses_by_the_lower_half_of_a_longer_hash() {
    let mut value = profile_program();
    // 72 bits: `identity` gives the lower 64 of them, with `c` in the upper half.
    let input = json!([field("h", "c"), field("h", "d"), field("h", "a")]);
    value["pipelines"][0]["action_profiles"][0]["selector"]["input"] = input;
    let mut bed = Bed::new(&value);
    let updates = [
        member(Mode::Insert, 1, 11),
        member(Mode::Insert, 2, 12),
        member(Mode::Insert, 3, 13),
        Update::Group(Mode::Insert, PROFILE, 5, vec![(1, 1), (2, 1), (3, 1)]),
        Update::InsertEntry(TABLE, entry(0, EntryAction::Group(5))),
    ];
    bed.target.write(&updates, bed.now).expect("all is well");
    for c in 0..20 {
        let seen = bed.receive(1, &[1, 0, 0, c, 0, 0, 0, 0]);
        assert_eq!(seen[0].0, 12, "{c}");
    }
}

/// The same by simple_switch_CLI commands.
#[test]
fn members_groups_and_value_sets_come_by_commands() {
    let mut value = profile_program();
    value["parse_vsets"] = json!([{"name": "set", "id": 0, "compressed_bitwidth": 24,
        "max_size": 2}]);
    let mut bed = Bed::new(&value);
    let said = |bed: &Bed, text: &str| commands::parse(text, bed.target.program());
    let text = "act_prof_create_member profile set 11\nact_prof_create_member profile set 12\n\
        act_prof_create_group profile\nact_prof_add_member_to_group profile 0 0\n\
        act_prof_add_member_to_group profile 1 0\ntable_indirect_add_with_group t 0 => 0\n\
        table_indirect_add t 1 => 1\npvs_add set 7\npvs_add set 9\n";
    let updates = said(&bed, text).expect("commands");
    let updates: Vec<_> = updates.into_iter().map(|command| command.update).collect();
    bed.target.write(&updates, bed.now).expect("all is well");
    let state = bed.target.state();
    assert_eq!(state.groups(PROFILE), [(0, &[(0, 1), (1, 1)][..])]);
    let values = updates.iter().rev().find_map(|update| match update {
        Update::SetValues(_, values) => Some(values.len()),
        _ => None,
    });
    assert_eq!(values, Some(2), "each value is added to those before");
    let port = |bed: &mut Bed, a: u8, b: u8| bed.receive(1, &[a, b, 0, 0, 0, 0, 0, 0])[0].0;
    assert_eq!(
        [
            port(&mut bed, 0, 0),
            port(&mut bed, 1, 0),
            port(&mut bed, 0, 1)
        ],
        [11, 12, 12]
    );
    for (line, says) in [
        ("act_prof_create_member nowhere set 1", "no action profile"),
        ("act_prof_create_member profile fly 1", "has no action"),
        ("act_prof_add_member_to_group profile 0 3", "no group"),
        ("table_indirect_add t 5 =>", "one handle"),
        ("table_indirect_add t 5 6 => 0", "has 1 parts"),
        ("pvs_add nothing 1", "no value set"),
    ] {
        let error = said(&bed, line).expect_err(line);
        assert!(error.what.contains(says), "{line}: {error}");
    }
}

#[test]
fn members_in_use_stay_and_a_batch_that_fails_leaves_no_trace() {
    let mut bed = Bed::new(&profile_program());
    let mut write = |updates: &[Update]| {
        let written = bed.target.write(updates, bed.now);
        written.map_err(|failed| (failed.index, failed.error))
    };
    write(&[
        member(Mode::Insert, 1, 11),
        Update::Group(Mode::Insert, PROFILE, 5, vec![(1, 1)]),
        Update::InsertEntry(TABLE, entry(0, EntryAction::Group(5))),
    ])
    .expect("all is well");
    let delete_member = Update::Member(Mode::Delete, PROFILE, 1, None);
    let delete_group = Update::Group(Mode::Delete, PROFILE, 5, Vec::new());
    let delete_entry = Update::DeleteEntry(TABLE, vec![Match::Exact(BigUint::ZERO)], 0);
    for used in [&delete_member, &delete_group] {
        let (_, error) = write(std::slice::from_ref(used)).expect_err("it is in use");
        assert!(
            matches!(error, WriteError::FailedPrecondition(_)),
            "{error}"
        );
    }
    // The last update fails, so all earlier ones are undone, including use counts.
    let replicas = vec![Replica {
        port: 1,
        instance: 2,
    }];
    let (index, error) = write(&[
        delete_entry.clone(),
        delete_group.clone(),
        delete_member.clone(),
        member(Mode::Insert, 2, 12),
        Update::SetRegister(RegisterId(0), 1, BigUint::from(7_u8)),
        Update::Multicast(Mode::Insert, 3, replicas),
        member(Mode::Insert, 2, 13),
    ])
    .expect_err("there is a member 2");
    assert_eq!(index, 6);
    assert!(matches!(error, WriteError::AlreadyExists(_)), "{error}");
    let (_, error) = write(std::slice::from_ref(&delete_member)).expect_err("it is in use again");
    assert!(
        matches!(error, WriteError::FailedPrecondition(_)),
        "{error}"
    );
    let program = bed.target.program().clone();
    let state = bed.target.state();
    assert_eq!(state.members(PROFILE).len(), 1);
    assert_eq!(state.groups(PROFILE), [(5, &[(1, 1)][..])]);
    assert_eq!(state.entry_count(TABLE), 1);
    assert_eq!(state.multicast(3), None);
    let register = state.register(&program, RegisterId(0), 1);
    assert_eq!(register, Some(BigUint::ZERO));
    assert_eq!(bed.receive(1, &[0; 8])[0].0, 11, "the entry is still met");
    let all = [delete_entry, delete_group, delete_member];
    bed.target
        .write(&all, bed.now)
        .expect("in this order nothing is in use");
    assert_eq!(bed.receive(1, &[0; 8])[0].0, 0);
}

/// The parser looks up `a` in a value set, and extracts `g` if it is a member.
#[test]
fn a_value_set_leads_the_parser() {
    let mut value = program(json!([]), json!([]));
    value["parse_vsets"] = json!([{"name": "set", "id": 0, "compressed_bitwidth": 24,
        "max_size": 2}]);
    value["parsers"][0]["parse_states"] = json!([
        {"name": "start", "id": 0, "parser_ops": [{"op": "extract",
            "parameters": [{"type": "regular", "value": "h"}]}],
            "transition_key": [field("h", "a"), field("h", "c")],
            "transitions": [
                {"type": "parse_vset", "value": "set", "mask": null, "next_state": "more"},
                {"type": "hexstr", "value": "0x770000", "mask": "0xff0000", "next_state": "more"},
                {"type": "default", "value": null, "mask": null, "next_state": null}]},
        {"name": "more", "id": 1, "parser_ops": [{"op": "extract",
            "parameters": [{"type": "regular", "value": "g"}]}], "transition_key": [],
            "transitions": [{"type": "default", "value": null, "mask": null,
                "next_state": null}]}]);
    value["actions"][0]["primitives"] = json!([assign(field("h", "b"), field("g", "$valid$"))]);
    let mut bed = Bed::new(&value);
    let packet = |a: u8, c: u8| {
        let mut packet = vec![0; 16];
        (packet[0], packet[3]) = (a, c);
        packet
    };
    let is_member = |bed: &mut Bed, a, c| bed.receive(1, &packet(a, c))[0].1[1] == 1;
    assert!(!is_member(&mut bed, 5, 6) && is_member(&mut bed, 0x77, 9));
    let values = |values: &[u32]| {
        let values = values.iter().map(|&value| BigUint::from(value));
        Update::SetValues(ValueSetId(0), values.collect())
    };
    bed.target
        .write(&[values(&[0x05_0006, 0x05_0008])], bed.now)
        .expect("two members");
    assert!(is_member(&mut bed, 5, 6) && is_member(&mut bed, 5, 8) && !is_member(&mut bed, 6, 6));
    let full = bed
        .target
        .write(&[values(&[1, 2, 3])], bed.now)
        .expect_err("three members");
    assert!(
        matches!(full.error, WriteError::ResourceExhausted(_)),
        "{full}"
    );
    let wide = bed
        .target
        .write(&[values(&[1 << 24])], bed.now)
        .expect_err("25 bits");
    assert!(matches!(wide.error, WriteError::OutOfRange(_)), "{wide}");
    assert!(
        is_member(&mut bed, 5, 6),
        "what was refused changed nothing"
    );
    bed.target.write(&[values(&[])], bed.now).expect("none");
    assert!(!is_member(&mut bed, 5, 6));
}

#[test]
fn a_varbit_is_as_long_as_the_packet_says_up_to_its_most() {
    let mut value = program(json!([]), json!([]));
    value["parsers"][0]["parse_states"] = json!([
        {"name": "start", "id": 0, "parser_ops": [
            {"op": "extract", "parameters": [{"type": "regular", "value": "h"}]},
            {"op": "extract_VL", "parameters": [{"type": "regular", "value": "v"},
                {"type": "expression", "value": field("h", "a")}]}],
            "transition_key": [], "transitions": [
                {"type": "default", "value": null, "mask": null, "next_state": null}]}]);
    let error = assign(field("h", "b"), standard("parser_error"));
    let count = assign(
        field("v", "n"),
        op("+", field("v", "n"), field("v", "$valid$")),
    );
    value["actions"][0]["primitives"] = json!([error, count]);
    let mut bed = Bed::new(&value);
    let mut parsed = |bits: u8, rest: &[u8]| {
        let packet = [&[bits, 0, 0, 0, 0, 0, 0, 0], rest].concat();
        let sent = bed.receive(1, &packet)[0].1.clone();
        (sent[1], sent[8..].to_vec())
    };
    assert_eq!(parsed(16, &[1, 2, 3, 4, 5, 6]), (0, vec![2, 2, 3, 4, 5, 6]));
    assert_eq!(parsed(0, &[1, 2, 3]), (0, vec![2, 2, 3]));
    assert_eq!(parsed(32, &[1, 2, 3, 4, 5, 6]), (0, vec![2, 2, 3, 4, 5, 6]));
    // One byte more than the header allows; more bytes than there are; no whole number of
    // bytes.
    assert_eq!(parsed(40, &[1, 2, 3, 4, 5, 6]), (4, vec![1, 2, 3, 4, 5, 6]));
    assert_eq!(parsed(32, &[1, 2, 3]), (1, vec![1, 2, 3]));
    assert_eq!(parsed(7, &[1, 2, 3]).0, 6);
}
