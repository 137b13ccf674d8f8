//! Select groups: shares, both directions of a connection, and which flows move when buckets
//! change.

use std::collections::BTreeMap;

use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Headers, Instant, PortId, Receipt, standard as f};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{
    Change, Config, Effect, Operation, Pipeline, PortState, Translation, Walker,
};

const FLOWS: u32 = 100_000;

/// Creates a pipeline with one group, whose bucket `n` sends to port `n`.
fn pipeline(group: &str) -> Pipeline {
    loaded(&format!("group_id=1,type=select{group}\nactions=group:1"))
}

fn loaded(rules: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(Config::default());
    let floods = true;
    let port = |number| {
        Operation::SetPort(
            PortId(number),
            PortState {
                is_up: true,
                floods,
                forwards: true,
                peer: None,
            },
        )
    };
    let rules = parse_rules("rules", rules).expect("the test's rules are right");
    let operations = (0..10).map(port).chain(rules.into_change().operations);
    let change = Change {
        operations: operations.collect(),
    };
    pipeline
        .apply(&change, Instant::ZERO)
        .expect("it can be loaded");
    pipeline
}

fn group(weights: &[(u32, u32)]) -> String {
    let bucket = |(id, weight): &(u32, u32)| {
        format!(",bucket=bucket_id:{id},weight:{weight},actions=output:{id}")
    };
    weights.iter().map(bucket).collect()
}

fn key(pipeline: &Pipeline, frame: &[u8]) -> Vec<u64> {
    let headers = Headers::parse(frame).expect("a frame");
    let layout = pipeline.layout();
    let mut key = vec![0; layout.words()];
    layout.extract(frame, &headers, &Receipt::from_port(9), &mut key);
    key
}

fn walk(pipeline: &Pipeline, frame: &[u8]) -> Translation {
    let key = key(pipeline, frame);
    Walker::default().walk(pipeline, &key, None, pipeline.version(), None)
}

fn port_of(pipeline: &Pipeline, frame: &[u8]) -> u32 {
    match walk(pipeline, frame).effects[..] {
        [Effect::Output(PortId(port))] => port,
        ref other => panic!("one bucket is chosen, not {other:?}"),
    }
}

fn ethernet(source: u64, destination: u64) -> PacketBuilder {
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    PacketBuilder::ethernet(address(source), address(destination))
}

/// A packet of a flow; with `is_reply`, one of the other direction, sent by a router.
fn flow(number: u32, is_reply: bool) -> Vec<u8> {
    let client = (
        0x0a00_0000 + number % 1_000,
        1_024 + (number / 1_000) as u16,
    );
    let server = (0x0a80_0001_u32, 80);
    let (source, destination) = if is_reply {
        (server, client)
    } else {
        (client, server)
    };
    let ethernet = if is_reply {
        ethernet(7, 8)
    } else {
        ethernet(1, 2)
    };
    let ipv4 = ethernet.ipv4(source.0.into(), destination.0.into());
    ipv4.tcp(source.1, destination.1).build()
}

/// The bucket that each flow meets.
fn choices(pipeline: &Pipeline) -> Vec<u32> {
    (0..FLOWS)
        .map(|number| port_of(pipeline, &flow(number, false)))
        .collect()
}

fn share(choices: &[u32], port: u32) -> f64 {
    let count = choices.iter().filter(|choice| **choice == port).count();
    count as f64 / choices.len() as f64
}

#[test]
fn buckets_have_the_share_of_their_weight() {
    for weights in [
        &[(1, 6), (2, 4)][..],
        &[(1, 5), (2, 100), (3, 100)],
        &[(1, 1), (2, 1), (3, 1)],
        &[(1, 65_535), (2, 655), (3, 65_535), (4, 6_553)],
    ] {
        let choices = choices(&pipeline(&group(weights)));
        let sum: u32 = weights.iter().map(|(_, weight)| weight).sum();
        for &(port, weight) in weights {
            let (found, expected) = (share(&choices, port), f64::from(weight) / f64::from(sum));
            let what = format!("port {port} of {weights:?}: {found}");
            assert!((found - expected).abs() < 0.01, "{what}");
            // The error for a small weight is bounded too: four standard deviations.
            let deviation = (expected * (1.0 - expected) / f64::from(FLOWS)).sqrt();
            assert!((found - expected).abs() < 4.0 * deviation, "{what}");
        }
    }
}

#[test]
fn both_directions_meet_one_bucket() {
    for group in [
        group(&[(1, 6), (2, 4), (3, 5)]),
        format!(",selection_method=dp_hash{}", group(&[(1, 1), (2, 1)])),
        format!(",selection_method=hash{}", group(&[(1, 1), (2, 1)])),
    ] {
        let pipeline = pipeline(&group);
        for number in 0..2_000 {
            let [there, back] = [false, true].map(|is_reply| flow(number, is_reply));
            assert_eq!(port_of(&pipeline, &there), port_of(&pipeline, &back));
        }
        for number in 0..200 {
            let ipv6 = |from: u128, to: u128| ethernet(1, 2).ipv6(from.into(), to.into());
            let [there, back] = [
                ipv6(number, 9).udp(5, 6).build(),
                ipv6(9, number).udp(6, 5).build(),
            ];
            assert_eq!(port_of(&pipeline, &there), port_of(&pipeline, &back));
            let number = number as u64;
            let [there, back] = [ethernet(number, 9), ethernet(9, number)];
            let [there, back] = [there, back].map(|ethernet| ethernet.vlan(5, 0).build());
            assert_eq!(port_of(&pipeline, &there), port_of(&pipeline, &back));
        }
    }
}

/// How many flows moved, by old and new port.
fn moves(before: &[u32], after: &[u32]) -> BTreeMap<(u32, u32), usize> {
    let mut moves = BTreeMap::new();
    for (from, to) in before.iter().zip(after).filter(|(from, to)| from != to) {
        *moves.entry((*from, *to)).or_default() += 1;
    }
    moves
}

#[test]
fn only_flows_of_the_bucket_that_changes_move() {
    let with = choices(&pipeline(&group(&[(1, 6), (2, 4), (3, 10)])));
    // A bucket is removed, and its place in the list with it.
    let without = choices(&pipeline(&group(&[(3, 10), (2, 4)])));
    assert!(moves(&with, &without).keys().all(|(from, _)| *from == 1));
    assert!((share(&without, 2) - 4.0 / 14.0).abs() < 0.01);
    // A bucket is added.
    let more = choices(&pipeline(&group(&[(4, 20), (1, 6), (2, 4), (3, 10)])));
    let moved = moves(&with, &more);
    assert!(moved.keys().all(|(_, to)| *to == 4));
    let count: usize = moved.values().sum();
    assert!((count as f64 / f64::from(FLOWS) - 0.5).abs() < 0.01);
    // A bucket gets more weight.
    let heavier = choices(&pipeline(&group(&[(1, 12), (2, 4), (3, 10)])));
    assert!(moves(&with, &heavier).keys().all(|(_, to)| *to == 1));
    assert!((share(&heavier, 1) - 12.0 / 26.0).abs() < 0.01);
}

#[test]
fn groups_draw_by_themselves() {
    let second = group(&[(3, 1), (4, 1)]);
    let first = "bucket=bucket_id:3,weight:1,actions=group:2,bucket=bucket_id:4,weight:1,output:5";
    let groups = format!("group_id=2,type=select{second}\ngroup_id=1,type=select,{first}");
    let pipeline = loaded(&format!("{groups}\nactions=group:1"));
    let choices = choices(&pipeline);
    for (port, expected) in [(3, 0.25), (4, 0.25), (5, 0.5)] {
        assert!(
            (share(&choices, port) - expected).abs() < 0.01,
            "port {port}"
        );
    }
}

#[test]
fn a_hash_is_of_its_fields_alone() {
    let hash = |fields: &str| {
        let buckets = group(&[(1, 1), (2, 1), (3, 1), (4, 1)]);
        pipeline(&format!(",selection_method=hash,{fields}{buckets}"))
    };
    let packet = |source: u32, ports: (u16, u16), is_udp: bool| {
        let ipv4 = ethernet(1, 2).ipv4(source.into(), [10, 0, 0, 9].into());
        match is_udp {
            true => ipv4.udp(ports.0, ports.1).build(),
            false => ipv4.tcp(ports.0, ports.1).build(),
        }
    };
    let distinct = |pipeline: &Pipeline, packets: &[Vec<u8>]| {
        let ports = packets.iter().map(|packet| port_of(pipeline, packet));
        ports.collect::<std::collections::BTreeSet<u32>>().len()
    };
    let by_source: Vec<_> = (0..64)
        .map(|source| packet(source, (1, 2), false))
        .collect();
    let by_tcp: Vec<_> = (0..64).map(|port| packet(7, (1, port), false)).collect();
    let by_udp: Vec<_> = (0..64).map(|port| packet(7, (1, port), true)).collect();
    for (fields, expected) in [
        ("fields(ip_src)", [4, 1, 1]),
        ("fields(ip_src=255.255.255.0)", [1, 1, 1]),
        ("fields(tcp_dst)", [1, 4, 1]),
        ("fields(udp_dst)", [1, 1, 4]),
        ("fields(tcp_dst,udp_dst)", [1, 4, 4]),
        ("fields(ip_src,tcp_src,udp_dst=0xff00)", [4, 1, 1]),
        ("", [4, 4, 4]),
    ] {
        let pipeline = hash(fields);
        let found = [&by_source, &by_tcp, &by_udp].map(|packets| distinct(&pipeline, packets));
        assert_eq!(found, expected, "{fields}");
    }
    // Another parameter gives another choice.
    let choices_of = |parameter: u32| {
        let pipeline = hash(&format!(
            "selection_method_param={parameter},fields(ip_src)"
        ));
        let choices = by_source.iter().map(|packet| port_of(&pipeline, packet));
        choices.collect::<Vec<_>>()
    };
    assert_ne!(choices_of(1), choices_of(2));
}

#[test]
fn fragments_of_a_packet_meet_one_bucket() {
    let pipeline = pipeline(&group(&[(1, 1), (2, 1), (3, 1), (4, 1)]));
    for number in 0..100_u32 {
        let ipv4 = ethernet(1, 2).ipv4(number.into(), [10, 0, 0, 9].into());
        let first = ipv4
            .clone()
            .fragment(5, 0, true)
            .udp(1, 2)
            .payload(&[0; 16]);
        let later = ipv4.fragment(5, 24, false).payload(&[7; 24]);
        let later = later.protocol(thalweg_packet::wire::IpProtocol(17));
        let [first, later] = [first, later].map(|packet| port_of(&pipeline, &packet.build()));
        assert_eq!(first, later);
    }
}

/// The mask has the hashed bits, and those that lookups, output and recirculation always read.
#[test]
fn the_mask_is_what_was_hashed() {
    let examined = |pipeline: &Pipeline, frame: &[u8]| {
        let mask = walk(pipeline, frame).mask;
        let layout = pipeline.layout();
        let bits = layout.used().iter().map(|field| {
            let name = layout.descriptor(*field).name.to_string();
            (name, layout.get(&mask, *field).unwrap_or(0).count_ones())
        });
        let is_new = |(name, bits): &(String, u32)| {
            *bits > 0 && !matches!(&name[..], "recirc_id" | "in_port" | "ip_frag")
        };
        bits.filter(is_new).collect::<BTreeMap<_, _>>()
    };
    let expect = |pipeline: &Pipeline, frame: Vec<u8>, expected: &[(&str, u32)]| {
        let expected = expected
            .iter()
            .map(|(name, bits)| (name.to_string(), *bits));
        assert_eq!(examined(pipeline, &frame), expected.collect());
    };
    let by_default = pipeline(&group(&[(1, 1), (2, 1)]));
    let addresses = [
        ("present:ipv4", 1),
        ("nw_src", 32),
        ("nw_dst", 32),
        ("nw_proto", 8),
    ];
    let ports = [("tp_src", 16), ("tp_dst", 16)];
    expect(
        &by_default,
        flow(1, false),
        &[&addresses[..], &ports].concat(),
    );
    let ipv4 = || ethernet(1, 2).ipv4([10, 0, 0, 1].into(), [10, 0, 0, 9].into());
    let icmp = ipv4().protocol(thalweg_packet::wire::IpProtocol(1));
    expect(&by_default, icmp.payload(&[8; 8]).build(), &addresses);
    let link = [
        ("present:ipv4", 1),
        ("present:ipv6", 1),
        ("eth_src", 48),
        ("eth_dst", 48),
        ("eth_type", 16),
        ("vlan_tci", 13),
    ];
    expect(&by_default, ethernet(1, 2).build(), &link);

    let fields = ",selection_method=hash,fields(ip_src=255.255.0.0,tcp_dst=0xff)";
    let by_fields = pipeline(&format!("{fields}{}", group(&[(1, 1), (2, 1)])));
    let tcp = [("nw_src", 16), ("present:tcp", 1), ("tp_dst", 8)];
    expect(&by_fields, flow(1, false), &tcp);
    expect(&by_fields, ipv4().udp(1, 2).build(), &tcp[..2]);
    assert_eq!(by_fields.layout().slot(f::TP_SRC), None);
}
