//! `multipath` and `bundle`: shares, both directions of a connection, which flows move when a
//! link comes or goes, and what an answer depends on.

use std::collections::BTreeMap;

use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Headers, Instant, PortId, Receipt, standard as f};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{
    Change, Config, DropReason, Effect, Input, Operation, Pipeline, PortState, Translation,
    translate,
};

const FLOWS: u32 = 20_000;
const HASHES: [&str; 7] = [
    "eth_src",
    "nw_src",
    "nw_dst",
    "symmetric_l3",
    "symmetric_l4",
    "symmetric_l3l4",
    "symmetric_l3l4+udp",
];

fn up(is_up: bool) -> PortState {
    PortState {
        is_up,
        floods: true,
        forwards: true,
        peer: None,
    }
}

/// A pipeline with the ports 1 to 9, of which those in `down` are down.
fn pipeline(actions: &str, down: &[u32]) -> Pipeline {
    let mut pipeline = Pipeline::new(Config::default());
    let ports = (1..10).map(|port| Operation::SetPort(PortId(port), up(!down.contains(&port))));
    let rules = parse_rules("rules", &format!("actions={actions}")).expect("a rule");
    let change = Change {
        operations: ports.chain(rules.into_change().operations).collect(),
    };
    let applied = pipeline.apply(&change, Instant::ZERO);
    applied.expect("it can be loaded");
    pipeline
}

/// A TCP packet of a flow, in either direction.
fn frame(flow: u32, is_back: bool) -> Vec<u8> {
    let mac = |end: u32| MacAddress::from_u64(0x0200_0000_0000 | u64::from(end));
    let address = |end: u32| std::net::Ipv4Addr::from(0x0a00_0000 | end);
    let (mut source, mut destination) = (2 * flow, 2 * flow + 1);
    let (mut from, mut to) = (1000, 80);
    if is_back {
        (source, destination) = (destination, source);
        (from, to) = (to, from);
    }
    PacketBuilder::ethernet(mac(source), mac(destination))
        .ipv4(address(source), address(destination))
        .tcp(from, to)
        .build()
}

fn walk(pipeline: &Pipeline, frame: &[u8]) -> Translation {
    let headers = Headers::parse(frame).expect("a frame");
    let layout = pipeline.layout();
    let mut key = vec![0; layout.ingress_words()];
    layout.extract(frame, &headers, &Receipt::from_port(9), &mut key);
    translate(pipeline, &key, pipeline.version())
}

/// The port that a packet leaves by; 0 for none.
fn port(pipeline: &Pipeline, frame: &[u8]) -> u32 {
    let sent = walk(pipeline, frame).effects.into_iter();
    let sent = sent.filter_map(|effect| match effect {
        Effect::Output(port) => Some(port.0),
        _ => None,
    });
    sent.last().unwrap_or(0)
}

fn choices(pipeline: &Pipeline) -> Vec<u32> {
    let choose = |flow| port(pipeline, &frame(flow, false));
    (0..FLOWS).map(choose).collect()
}

fn assert_even(choices: &[u32], links: impl IntoIterator<Item = u32>, what: &str) {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    choices
        .iter()
        .for_each(|port| *counts.entry(*port).or_default() += 1);
    let links: Vec<u32> = links.into_iter().collect();
    assert!(counts.keys().eq(&links), "{what}: {counts:?}");
    let share = choices.len() / links.len();
    for count in counts.values() {
        // Five standard deviations.
        let off = count.abs_diff(share);
        assert!(off * off < 25 * share, "{what}: {counts:?}");
    }
}

fn moved(one: &[u32], other: &[u32]) -> usize {
    one.iter()
        .zip(other)
        .filter(|(one, other)| one != other)
        .count()
}

/// The rule that sends to port 1 + the number that `multipath` chose.
fn multipath(hash: &str, algorithm: &str, links: u32) -> Pipeline {
    let argument = links.next_power_of_two();
    let ports = (0..links).map(|link| format!("table=1,reg0={link},actions=output:{}\n", link + 1));
    let ports: String = ports.collect();
    let rules = format!(
        "resubmit(,1)\n{ports}table=0,priority=60000,actions=\
         multipath({hash},7,{algorithm},{links},{argument},NXM_NX_REG0[0..15]),resubmit(,1)"
    );
    pipeline(&rules, &[])
}

#[test]
fn links_have_equal_shares() {
    for hash in HASHES {
        for algorithm in ["modulo_n", "hash_threshold", "hrw", "iter_hash"] {
            for links in [1, 3, 8] {
                let choices = choices(&multipath(hash, algorithm, links));
                let what = format!("{hash},{algorithm},{links}");
                assert_even(&choices, 1..=links, &what);
            }
        }
    }
}

/// Of `n + 1` links, the new one takes 1/(n+1) of the flows, and no other flow moves.
#[test]
fn the_highest_weight_moves_few_flows() {
    let (before, after) = (multipath("nw_src", "hrw", 4), multipath("nw_src", "hrw", 5));
    let (before, after) = (choices(&before), choices(&after));
    let changed = moved(&before, &after);
    let new = after.iter().filter(|port| **port == 5).count();
    assert_eq!(changed, new);
    let modulo = |links| choices(&multipath("nw_src", "modulo_n", links));
    assert!(moved(&modulo(4), &modulo(5)) > 3 * changed);
}

#[test]
fn members_share_flows_and_give_theirs_up() {
    for hash in HASHES {
        let rule = format!("bundle({hash},60,hrw,ofport,members:1,2,3,4,5)");
        let all = choices(&pipeline(&rule, &[]));
        assert_even(&all, 1..=5, hash);
        let fewer = choices(&pipeline(&rule, &[2]));
        assert_even(&fewer, [1, 3, 4, 5], hash);
        let lost = all.iter().filter(|port| **port == 2).count();
        assert_eq!(moved(&all, &fewer), lost, "{hash}");
        assert_even(&choices(&pipeline(&rule, &[1, 3, 4, 5])), [2], hash);
        assert_even(&choices(&pipeline(&rule, &[1, 2, 3, 4, 5])), [0], hash);
    }
}

#[test]
fn both_directions_have_one_link() {
    for hash in HASHES {
        let pipeline = pipeline(
            &format!("bundle({hash},1,hrw,ofport,members:1,2,3,4,5)"),
            &[],
        );
        let differs = |flow: &u32| {
            port(&pipeline, &frame(*flow, false)) != port(&pipeline, &frame(*flow, true))
        };
        let count = (0..500).filter(differs).count();
        match hash.starts_with("symmetric") {
            true => assert_eq!(count, 0, "{hash}"),
            false => assert!(count > 300, "{hash}"),
        }
    }
}

/// Another basis gives another choice.
#[test]
fn the_basis_counts() {
    let with = |basis| {
        let rule = format!("bundle(nw_src,{basis},hrw,ofport,members:1,2,3,4)");
        choices(&pipeline(&rule, &[]))
    };
    assert!(moved(&with(1), &with(2)) > FLOWS as usize / 2);
}

#[test]
fn the_first_live_member_is_active() {
    let rule = "bundle(eth_src,0,active_backup,ofport,members:1,2,local)";
    let choose = |down: &[u32]| port(&pipeline(rule, down), &frame(0, false));
    assert_eq!(choose(&[]), 1);
    assert_eq!(choose(&[1]), 2);
    assert_eq!(choose(&[1, 2]), 0, "there is no local port");
    let walk = walk(&pipeline(rule, &[1, 2]), &frame(0, false));
    assert_eq!(walk.drop_reason, Some(DropReason::NoLiveMember));
    let reserved = "bundle(eth_src,0,active_backup,ofport,members:1,in_port,2)";
    assert_eq!(port(&pipeline(reserved, &[1]), &frame(0, false)), 9);
}

#[test]
fn a_number_is_written() {
    let rule = "bundle_load(eth_src,50,hrw,ofport,NXM_NX_REG1[4..19],members:1,2),output:NXM_NX_REG1[4..19]";
    assert_even(&choices(&pipeline(rule, &[])), [1, 2], "bundle_load");
    assert_even(&choices(&pipeline(rule, &[1])), [2], "bundle_load");
    // No member: the number of no port.
    assert_even(&choices(&pipeline(rule, &[1, 2])), [0], "bundle_load");
    let into_packet =
        "bundle_load(eth_src,50,hrw,ofport,OXM_OF_ETH_SRC[0..15],members:1,2),output:3";
    let effects = walk(&pipeline(into_packet, &[1, 2]), &frame(0, false)).effects;
    let written = Effect::Set {
        field: f::ETH_SRC,
        value: 0xffff,
        mask: 0xffff,
    };
    assert!(effects.contains(&written), "{effects:?}");
}

/// An answer depends on every member that was asked for, and on the hashed bits only where
/// there is a choice.
#[test]
fn answers_depend_on_what_was_read() {
    let inputs = |rule: &str, down: &[u32]| -> Vec<Input> {
        let walk = walk(&pipeline(rule, down), &frame(0, false));
        walk.trace.inputs().to_vec()
    };
    let hrw = "bundle(nw_src,0,hrw,ofport,members:1,2,3),output:4";
    let active = "bundle(nw_src,0,active_backup,ofport,members:1,2,3),output:4";
    for port in [1, 2, 3] {
        assert!(
            inputs(hrw, &[]).contains(&Input::Port(PortId(port))),
            "{port}"
        );
    }
    assert!(!inputs(active, &[]).contains(&Input::Port(PortId(2))));
    assert!(inputs(active, &[1]).contains(&Input::Port(PortId(2))));
    let reads = |rule: &str, down: &[u32]| {
        let pipeline = pipeline(rule, down);
        let walk = walk(&pipeline, &frame(0, false));
        pipeline.layout().get(&walk.mask, f::IP_SRC).unwrap_or(0) != 0
    };
    assert!(reads(hrw, &[]));
    assert!(!reads(hrw, &[1, 2]));
    assert!(!reads(active, &[]));
}
