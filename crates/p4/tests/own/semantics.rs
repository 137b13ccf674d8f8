//! Tests that programs behave as on simple_switch: replication, metadata, state.

use crate::bed::*;
use serde_json::json;
use thalweg_p4::DropReason;
use thalweg_p4::Fault;
use thalweg_p4::program::ids::{CounterId, MeterId, RegisterId};
use thalweg_p4::state::{Counter, MeterRates, Mirror, Mode, Rate, Replica, Update};

const PACKET: [u8; 10] = [1, 2, 0, 3, 0, 0, 0, 4, 0xee, 0xff];

#[test]
fn unwritten_egress_spec_is_port_0_and_511_is_the_end() {
    let mut bed = Bed::new(&program(json!([]), json!([])));
    assert_eq!(bed.receive(1, &PACKET), [(0, PACKET.to_vec())]);
    let drop = call(
        "mark_to_drop",
        json!([{"type": "header", "value": "standard_metadata"}]),
    );
    let mut bed = Bed::new(&program(json!([drop]), json!([])));
    assert_eq!(bed.receive(1, &PACKET), []);
    assert_eq!(bed.target.counts().drops(DropReason::Ingress), 1);
    // A later assignment revives the packet; egress may drop it but not redirect it.
    let revived = json!([drop, send(2)]);
    let mut bed = Bed::new(&program(revived.clone(), json!([send(7)])));
    assert_eq!(bed.receive(1, &PACKET), [(2, PACKET.to_vec())]);
    let mut bed = Bed::new(&program(revived, json!([drop])));
    assert_eq!(bed.receive(1, &PACKET), []);
    assert_eq!(bed.target.counts().drops(DropReason::Egress), 1);
}

#[test]
fn multicast_beats_unicast_and_numbers_its_copies() {
    let ingress = json!([send(511), assign(standard("mcast_grp"), hex(5))]);
    let egress = json!([
        assign(field("h", "a"), standard("egress_rid")),
        assign(field("h", "b"), standard("instance_type")),
    ]);
    let mut bed = Bed::new(&program(ingress, egress));
    assert_eq!(bed.receive(1, &PACKET), []);
    assert_eq!(bed.target.counts().drops(DropReason::NoReplicas), 1);
    let replicas = [(3, 9), (1, 8), (3, 7)];
    let replicas = replicas.map(|(port, instance)| Replica { port, instance });
    let update = Update::Multicast(Mode::Insert, 5, replicas.to_vec());
    bed.target.write(&[update], bed.now).expect("a group");
    let seen = bed.receive(1, &PACKET);
    let seen: Vec<_> = seen
        .iter()
        .map(|(port, bytes)| (*port, bytes[0], bytes[1]))
        .collect();
    assert_eq!(seen, [(3, 9, 5), (1, 8, 5), (3, 7, 5)]);
}

fn mirror_to(port: u32) -> Mirror {
    Mirror {
        replicas: vec![Replica { port, instance: 0 }],
        ..Mirror::default()
    }
}

#[test]
fn a_clone_of_ingress_is_the_packet_as_it_came_with_the_last_values_of_its_list() {
    let ingress = json!([
        assign(field("h", "a"), hex(0x77)),
        assign(field("scalars", "x"), hex(5)),
        assign(field("scalars", "y"), hex(6)),
        call("clone_ingress_pkt_to_egress", json!([hex(0), hex(1)])),
        assign(field("scalars", "x"), hex(9)),
        send(511),
    ]);
    let egress = json!([
        assign(field("h", "b"), standard("instance_type")),
        assign(
            field("h", "c"),
            op("+", field("scalars", "x"), field("scalars", "y"))
        ),
        assign(field("h", "d"), standard("ingress_port")),
    ]);
    let mut bed = Bed::new(&program(ingress, egress));
    assert_eq!(bed.receive(4, &PACKET), []);
    assert_eq!(bed.target.counts().faults(Fault::NoSession), 1);
    let update = Update::Mirror(Mode::Insert, 0, mirror_to(6));
    bed.target.write(&[update], bed.now).expect("a session");
    // The header is as it came in, x is 9, y is lost; so is the port it came in by.
    let expected = vec![1, 1, 0, 9, 0, 0, 0, 0, 0xee, 0xff];
    assert_eq!(bed.receive(4, &PACKET), [(6, expected)]);
}

#[test]
fn a_clone_of_egress_has_the_headers_that_egress_left() {
    let ingress = json!([send(3), assign(field("scalars", "x"), hex(5))]);
    let egress = json!([
        call(
            "_jump_if_zero",
            json!([op("==", standard("instance_type"), hex(0)), hex(4)])
        ),
        assign(field("h", "a"), hex(0x42)),
        call("clone_egress_pkt_to_egress", json!([hex(2), hex(1)])),
        call("_jump", json!([hex(5)])),
        assign(field("h", "b"), field("scalars", "x")),
        assign(field("h", "c"), standard("instance_type")),
    ]);
    let mut bed = Bed::new(&program(ingress, egress));
    let update = Update::Mirror(Mode::Insert, 2, mirror_to(6));
    bed.target.write(&[update], bed.now).expect("a session");
    let seen = bed.receive(1, &PACKET);
    let heads: Vec<_> = seen
        .iter()
        .map(|(port, bytes)| (*port, &bytes[..4]))
        .collect();
    assert_eq!(
        heads,
        [(3, &[0x42, 2, 0, 0][..]), (6, &[0x42, 5, 0, 2][..])]
    );
}

#[test]
fn resubmission_undoes_headers_and_forgets_what_is_not_listed() {
    let ingress = json!([
        send(2),
        call(
            "_jump_if_zero",
            json!([op("==", standard("instance_type"), hex(0)), hex(6)])
        ),
        assign(field("h", "a"), hex(0x77)),
        assign(field("scalars", "x"), hex(5)),
        assign(field("scalars", "y"), hex(6)),
        call("resubmit", json!([hex(1)])),
        assign(field("h", "b"), standard("instance_type")),
        assign(
            field("h", "c"),
            op("+", field("scalars", "x"), field("scalars", "y"))
        ),
        assign(
            field("h", "d"),
            op("+", standard("ingress_port"), standard("packet_length"))
        ),
    ]);
    let egress = json!([assign(
        field("h", "a"),
        op("+", field("h", "a"), standard("instance_type"))
    )]);
    let mut bed = Bed::new(&program(ingress, egress));
    // In the second pass ingress_port is 0 and instance_type 6; egress sees an ordinary packet.
    let expected = vec![1, 6, 0, 5, 0, 0, 0, 10, 0xee, 0xff];
    assert_eq!(bed.receive(4, &PACKET), [(2, expected)]);
}

#[test]
fn recirculation_parses_what_would_leave_and_has_an_end() {
    let ingress = json!([send(2), assign(field("h", "b"), standard("instance_type"))]);
    let again = call("recirculate", json!([hex(1)]));
    let few = op("<", field("h", "a"), hex(4));
    let egress = json!([
        call("_jump_if_zero", json!([few, hex(3)])),
        again,
        assign(field("h", "a"), op("+", field("h", "a"), hex(1))),
    ]);
    let mut bed = Bed::new(&program(ingress.clone(), egress));
    let seen = bed.receive(4, &PACKET);
    assert_eq!(seen.len(), 1);
    assert_eq!(
        seen[0].1[..2],
        [4, 4],
        "four passes, each of what the one before made"
    );
    let mut bed = Bed::new(&program(
        ingress,
        json!([call("recirculate", json!([hex(1)]))]),
    ));
    assert_eq!(bed.receive(4, &PACKET), []);
    assert_eq!(bed.target.counts().drops(DropReason::TooManyPasses), 1);
}

#[test]
fn a_digest_has_the_values_of_the_end_of_ingress() {
    let ingress = json!([
        call("generate_digest", json!([hex(1), hex(1)])),
        assign(field("scalars", "x"), hex(0x1234)),
        send(511),
    ]);
    let mut bed = Bed::new(&program(ingress, json!([])));
    bed.receive(1, &PACKET);
    let digests: Vec<_> = bed
        .outbox
        .digests()
        .map(|digest| digest.words.to_vec())
        .collect();
    assert_eq!(digests, [vec![1, 0x1234]]);
    assert_eq!(bed.target.counts().digests, 1);
}

#[test]
fn registers_of_any_width_and_what_lies_past_the_end() {
    let ingress = json!([
        // Shifted left past 128 bits, written, read back, and shifted right again.
        assign(
            field("scalars", "wide"),
            op("<<", field("h", "d"), hex(160))
        ),
        call(
            "register_write",
            json!([{"type": "register_array", "value": "register"}, hex(3),
            field("scalars", "wide")])
        ),
        assign(field("scalars", "wide"), hex(0)),
        call(
            "register_read",
            json!([field("scalars", "wide"),
            {"type": "register_array", "value": "register"}, field("h", "c")])
        ),
        assign(
            field("h", "d"),
            op(">>", field("scalars", "wide"), hex(161))
        ),
        call(
            "count",
            json!([{"type": "counter_array", "value": "counter"}, field("h", "c")])
        ),
    ]);
    let mut bed = Bed::new(&program(ingress, json!([])));
    let seen = bed.receive(1, &[1, 2, 0, 3, 0x80, 0, 0, 4]);
    assert_eq!(seen[0].1, [1, 2, 0, 3, 0x40, 0, 0, 2]);
    let program = bed.target.program().clone();
    let cell = bed.target.state().register(&program, RegisterId(0), 3);
    assert_eq!(cell.expect("a cell").bits(), 192);
    let counted = bed.target.state().counter(CounterId(0), 3);
    assert_eq!(
        counted,
        Some(Counter {
            packets: 1,
            bytes: 8
        })
    );
    // Past the end nothing happens except two counted faults: the read and the count.
    let seen = bed.receive(1, &[1, 2, 0, 4, 0x80, 0, 0, 4]);
    assert_eq!(seen[0].1, [1, 2, 0, 4, 0, 0, 0, 0]);
    assert_eq!(bed.target.counts().faults(Fault::IndexPastEnd), 2);
}

#[test]
fn a_meter_gives_colors_by_time() {
    let ingress = json!([call(
        "execute_meter",
        json!([
        {"type": "meter_array", "value": "meter"}, hex(1), field("h", "a")])
    )]);
    let mut bed = Bed::new(&program(ingress, json!([])));
    assert_eq!(
        bed.receive(1, &PACKET)[0].1[0],
        0,
        "green as long as no rates are set"
    );
    let committed = Rate {
        per_second: 500_000,
        burst: 1,
    };
    let peak = Rate {
        per_second: 500_000,
        burst: 2,
    };
    let rates = Some(MeterRates { committed, peak });
    bed.target
        .write(&[Update::SetMeter(MeterId(0), 1, rates)], bed.now)
        .expect("rates");
    // One packet per microsecond, while half of one is allowed.
    let colors: Vec<u8> = (0..6).map(|_| bed.receive(1, &PACKET)[0].1[0]).collect();
    assert_eq!(colors, [0, 1, 0, 2, 0, 2]);
}

#[test]
fn headers_are_added_and_removed_and_length_follows() {
    let ingress = json!([
        call("add_header", json!([{"type": "header", "value": "g"}])),
        assign(field("g", "a"), hex(7)),
        call(
            "assign_header",
            json!([{"type": "header", "value": "h"},
            {"type": "header", "value": "g"}])
        ),
        call("remove_header", json!([{"type": "header", "value": "g"}])),
        call("add_header", json!([{"type": "header", "value": "g"}])),
    ]);
    let egress = json!([assign(field("g", "d"), standard("packet_length"))]);
    let mut bed = Bed::new(&program(ingress, egress));
    let expected = vec![7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 18, 0xee, 0xff];
    assert_eq!(bed.receive(1, &PACKET), [(0, expected)]);
}

#[test]
fn loops_end_and_asserts_drop() {
    let mut bed = Bed::new(&program(json!([call("_jump", json!([hex(0)]))]), json!([])));
    assert_eq!(bed.receive(1, &PACKET), []);
    assert_eq!(bed.target.counts().drops(DropReason::ActionTooLong), 1);
    let never = op("==", field("h", "a"), hex(2));
    let mut bed = Bed::new(&program(json!([call("assert", json!([never]))]), json!([])));
    assert_eq!(bed.receive(1, &PACKET), []);
    assert_eq!(bed.target.counts().drops(DropReason::Assert), 1);
}

#[test]
fn chance_is_within_its_bounds_and_the_same_for_a_seed() {
    let random = |least, most| {
        let parameters = json!([field("h", "a"), hex(least), hex(most)]);
        json!([call("modify_field_rng_uniform", parameters)])
    };
    let draw = || {
        let mut bed = Bed::new(&program(random(10, 13), json!([])));
        let drawn: Vec<u8> = (0..100).map(|_| bed.receive(1, &PACKET)[0].1[0]).collect();
        drawn
    };
    let drawn = draw();
    assert_eq!(drawn, draw());
    assert!((10..=13).all(|number| drawn.contains(&number)), "{drawn:?}");
    assert!(drawn.iter().all(|number| (10..=13).contains(number)));
    let mut bed = Bed::new(&program(random(3, 2), json!([])));
    assert_eq!(bed.receive(1, &PACKET)[0].1[0], 1, "unchanged");
    assert_eq!(bed.target.counts().faults(Fault::EmptyRange), 1);
}

#[test]
fn a_short_packet_goes_on_with_its_error() {
    let ingress = json!([
        call("add_header", json!([{"type": "header", "value": "h"}])),
        assign(field("h", "d"), standard("parser_error")),
    ]);
    let mut bed = Bed::new(&program(ingress, json!([])));
    let expected = vec![0, 0, 0, 0, 0, 0, 0, 1, 9, 9, 9];
    assert_eq!(bed.receive(1, &[9, 9, 9]), [(0, expected)]);
}

#[test]
fn truncation_and_hashes() {
    let ingress = json!([
        call(
            "modify_field_with_hash_based_offset",
            json!([field("h", "c"), hex(0x100),
            {"type": "calculation", "value": "hash"}, hex(0x10)])
        ),
        call("truncate", json!([hex(5)])),
    ]);
    let mut bed = Bed::new(&program(ingress, json!([])));
    let seen = bed.receive(1, &PACKET)[0].1.clone();
    assert_eq!(seen.len(), 5);
    assert_eq!(seen[2], 1);
    let other = bed.receive(1, &[1, 2, 0, 3, 0, 0, 0, 5])[0].1.clone();
    assert_ne!(seen[3], other[3], "another input, another hash");
    assert!(seen[3] < 16 && other[3] < 16);
}

#[test]
fn of_several_truncations_the_shortest_counts() {
    let cut = |bytes: u64| call("truncate", json!([hex(bytes)]));
    let lengths = |ingress, egress| {
        let mut bed = Bed::new(&program(ingress, egress));
        bed.receive(1, &PACKET)[0].1.len()
    };
    assert_eq!(lengths(json!([cut(3), cut(7)]), json!([])), 3);
    assert_eq!(lengths(json!([cut(7), cut(3)]), json!([])), 3);
    assert_eq!(lengths(json!([cut(3)]), json!([cut(7)])), 3);
    assert_eq!(lengths(json!([cut(7)]), json!([cut(3)])), 3);
}
