//! The work of one packet is bounded by its amount, not by the number of steps.

use std::time::Duration;

use serde_json::{Value, json};
use thalweg_p4::run::WORK_MAX;
use thalweg_p4::state::{Mirror, Mode, Replica, Update};
use thalweg_p4::{Config, DropReason};

use crate::bed::{Bed, assign, bare, call, field, hex, op, program, send, standard, with_tables};

const PACKET: [u8; 10] = [1, 2, 0, 3, 0, 0, 0, 4, 0xee, 0xff];

/// A program with metadata `huge` of four fields, `a` to `d`, of 65,536 bits each.
fn with_huge_fields(mut program: Value) -> Value {
    let fields = ["a", "b", "c", "d"].map(|name| json!([name, 65_536, false]));
    let list = |program: &mut Value, key: &str, one: Value| {
        program[key].as_array_mut().expect("a list").push(one);
    };
    list(
        &mut program,
        "header_types",
        json!({"name": "huge_t", "id": 9, "fields": fields}),
    );
    list(
        &mut program,
        "headers",
        json!({"name": "huge", "id": 9, "header_type": "huge_t", "metadata": true}),
    );
    program
}

fn huge(name: &str) -> Value {
    field("huge", name)
}

fn works_too_much(bed: &mut Bed, packet: &[u8]) {
    let before = bed.target.counts().drops(DropReason::TooMuchWork);
    assert_eq!(bed.receive(1, packet), []);
    let counts = bed.target.counts();
    assert_eq!(counts.drops(DropReason::TooMuchWork), before + 1);
}

/// Each of 65,536 steps is a million products of limbs, which would block a worker.
#[test]
fn products_of_wide_fields_in_a_loop_end_the_packet() {
    let turns = |count: u64| {
        json!([
            assign(huge("a"), op("-", hex(0), hex(1))),
            assign(huge("b"), op("*", huge("a"), huge("a"))),
            assign(
                field("scalars", "x"),
                op(
                    "&",
                    op("+", field("scalars", "x"), hex(1)),
                    hex(0xffff_ffff)
                )
            ),
            call(
                "_jump_if_zero",
                json!([op(">=", field("scalars", "x"), hex(count)), hex(1)])
            ),
            send(5),
        ])
    };
    let bed = |count| Bed::new(&with_huge_fields(program(turns(count), json!([]))));
    works_too_much(&mut bed(1 << 15), &PACKET);
    // The next packet has the full budget.
    let mut bed = bed(20);
    for _ in 0..3 {
        assert_eq!(bed.receive(1, &PACKET), [(5, PACKET.to_vec())]);
    }
}

#[test]
fn wide_expressions_count_wherever_they_stand() {
    // Of sixteen fields: 8, 4 and 2 products of 1, 4 and 17 million products of limbs, and one
    // of 67.
    let pair = |one, other| op("*", huge(one), huge(other));
    let four = || op("*", pair("a", "b"), pair("c", "d"));
    let sixteen = || op("*", op("*", four(), four()), op("*", four(), four()));
    let truth = || op("==", sixteen(), hex(0));
    let condition = json!({"name": "if", "id": 7, "expression": truth()["value"],
        "true_next": null, "false_next": null});
    let (mut in_condition, in_jump, mut in_parser, mut in_deparser, mut in_checksum) = (
        program(json!([]), json!([])),
        program(
            json!([call("_jump_if_zero", json!([truth(), hex(1)]))]),
            json!([]),
        ),
        program(json!([]), json!([])),
        program(json!([]), json!([])),
        program(json!([]), json!([])),
    );
    in_condition["pipelines"][0]["conditionals"] = json!([condition]);
    in_condition["pipelines"][0]["init_table"] = json!("if");
    in_parser["parsers"][0]["parse_states"][0]["parser_ops"]
        .as_array_mut()
        .expect("a list")
        .push(json!({"op": "set", "parameters": [huge("a"), sixteen()]}));
    in_deparser["deparsers"][0]["primitives"] = json!([assign(huge("a"), sixteen())]);
    in_checksum["checksums"] = json!([{"name": "sum", "id": 0, "target": ["h", "c"],
        "type": "generic", "calculation": "hash", "verify": false, "update": true,
        "if_cond": truth()["value"]}]);
    for value in [in_condition, in_jump, in_parser, in_deparser, in_checksum] {
        works_too_much(&mut Bed::new(&with_huge_fields(value)), &PACKET);
    }
}

#[test]
fn copies_count_with_their_memory() {
    // A frame of more than 32 KiB, of which 4,000 copies would be 130 MB.
    let ingress = json!([
        call(
            "_jump_if_zero",
            json!([op("==", standard("instance_type"), hex(0)), hex(2)])
        ),
        call("clone_ingress_pkt_to_egress", json!([hex(5), hex(1)])),
        send(5),
    ]);
    let config = Config {
        work_max: WORK_MAX / 4,
        ..Config::default()
    };
    let mut bed = Bed::with(&with_huge_fields(program(ingress, json!([]))), config);
    let replica = |port| Replica { port, instance: 0 };
    let mirror = |count: u32| {
        let replicas = (0..count).map(|port| replica(port % 4)).collect();
        let mirror = Mirror {
            replicas,
            ..Mirror::default()
        };
        [Update::Mirror(Mode::Set, 5, mirror)]
    };
    bed.target.write(&mirror(4_000), bed.now).expect("replicas");
    let sent = bed.receive(1, &PACKET);
    // Copies made before the limit was reached have no work left, and are dropped too.
    assert_eq!(sent, []);
    assert!(bed.target.counts().drops(DropReason::TooMuchWork) > 500);
    assert!(bed.target.counts().drops(DropReason::TooMuchWork) < 4_000);
    bed.target.write(&mirror(100), bed.now).expect("replicas");
    assert_eq!(bed.receive(1, &PACKET).len(), 101);
}

#[test]
fn the_payload_counts_where_it_is_hashed() {
    let hash = || {
        call(
            "modify_field_with_hash_based_offset",
            json!([field("scalars", "x"), hex(0),
                {"type": "calculation", "value": "hash"}, hex(4)]),
        )
    };
    // Without a backward jump, 2,000 times the payload.
    let mut primitives: Vec<Value> = (0..2_000).map(|_| hash()).collect();
    primitives.push(send(5));
    let mut value = program(json!(primitives), json!([]));
    value["calculations"][0]["input"] = json!([{"type": "payload"}]);
    let mut bed = Bed::new(&value);
    assert_eq!(bed.receive(1, &PACKET).len(), 1);
    let mut long = PACKET.to_vec();
    long.resize(60_000, 7);
    works_too_much(&mut bed, &long);
    assert_eq!(bed.receive(1, &PACKET).len(), 1);
}

#[test]
fn passes_share_what_a_packet_may_make() {
    // A thousand steps per pass, forever.
    let action = json!({"name": "again", "id": 0, "runtime_data": [], "primitives": [
        assign(field("scalars", "x"), hex(0)),
        assign(
            field("scalars", "x"),
            op("&", op("+", field("scalars", "x"), hex(1)), hex(0xffff_ffff))
        ),
        call("_jump_if_zero", json!([op(">", field("scalars", "x"), hex(1_000)), hex(1)])),
        call("resubmit", json!([hex(1)])),
    ]});
    let out = json!({"name": "out", "id": 1, "runtime_data": [], "primitives": []});
    let value = with_tables(
        json!([action, out]),
        json!([bare("again", 0)]),
        json!([bare("out", 1)]),
    );
    let mut bed = Bed::new(&value);
    assert_eq!(bed.receive(1, &PACKET), []);
    assert_eq!(bed.target.counts().drops(DropReason::TooManyPasses), 1);
    let config = Config {
        work_max: 100_000,
        ..Config::default()
    };
    works_too_much(&mut Bed::with(&value, config), &PACKET);
    bed.now = bed.now + Duration::from_secs(1);
    assert_eq!(bed.receive(1, &PACKET), []);
    assert_eq!(bed.target.counts().drops(DropReason::TooManyPasses), 2);
}
