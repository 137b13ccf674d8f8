//! `normal` between ports with VLANs: as Open vSwitch 3.1 floods, and as a model that handles
//! lists of tags says.
//!
//! `flooded.txt` is what Open vSwitch's own test "VLAN handling" expects: input port, VLAN id,
//! priority, actions. `model` says the same in another way: it writes down the tags inside the
//! bridge as a list, and takes tags off and on at each port.

mod model;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use thalweg_packet::{Instant, Packet, PacketPool, PortId, standard as f};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{
    BridgeId, Change, ChangeError, Config, DropReason, MacMove, Operation, Outbox, Passes,
    Pipeline, PortState, PortVlans, PriorityTags, Station, Translation, VlanMode, VlanSet,
    translate,
};

use model::{Tag, Tags};

const SOURCE: [u8; 6] = [0x50, 0x54, 0, 0, 0, 1];
const BROADCAST: [u8; 6] = [0xff; 6];
const KNOWN: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// The tags of what leaves each port, in the order of sending.
type Sent = Vec<(u32, Tags)>;

const OPEN: PortState = PortState {
    is_up: true,
    floods: true,
    forwards: true,
    peer: None,
};

fn pipeline(rules: &str, ports: &BTreeMap<u32, PortVlans>) -> Pipeline {
    let mut pipeline = Pipeline::new(Config::default());
    let set = ports.iter().flat_map(|(number, vlans)| {
        let port = PortId(*number);
        let vlans = Arc::new(vlans.clone());
        [
            Operation::SetPortVlans(port, vlans),
            Operation::SetPort(port, OPEN),
        ]
    });
    let rules = parse_rules("rules", rules).expect("the test's rules are right");
    let operations = set.chain(rules.into_change().operations).collect();
    let loaded = pipeline.apply(&Change { operations }, Instant::ZERO);
    loaded.expect("they can be loaded");
    pipeline
}

fn frame(to: [u8; 6], from: [u8; 6], tags: &[Tag]) -> Vec<u8> {
    let mut bytes = [to, from].concat();
    for tag in tags {
        bytes.extend(tag.tpid.to_be_bytes());
        bytes.extend((tag.priority << 13 | tag.vlan).to_be_bytes());
    }
    bytes.extend([0xab, 0xcd]);
    bytes.resize(64, 0x5a);
    bytes
}

fn tags_of(frame: &[u8]) -> Tags {
    let pairs = frame[12..].chunks(4);
    let number = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
    let pairs = pairs.take_while(|pair| [0x8100, 0x88a8].contains(&number(pair)));
    let tag = |pair: &[u8]| Tag {
        tpid: number(pair),
        vlan: number(&pair[2..]) & 0x0fff,
        priority: number(&pair[2..]) >> 13,
    };
    pairs.map(tag).collect()
}

struct Seen {
    sent: Sent,
    learned: Vec<(Station, PortId)>,
    first: Translation,
    key: Vec<u64>,
}

fn see(pipeline: &Pipeline, in_port: u32, frame: &[u8]) -> Seen {
    let mut packet = Packet::from_bytes(frame);
    packet.set_received(PortId(in_port), Instant::ZERO);
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let passes = Passes::new(pipeline, pipeline.version(), packet, &mut outbox);
    let passes: Result<Vec<_>, _> = passes.collect();
    let mut passes = passes.expect("a frame");
    let first = passes.remove(0);
    assert_eq!(outbox.copies_refused, 0);
    let sent = outbox.sent.iter();
    let sent = sent.map(|(port, packet)| (port.0, tags_of(packet.bytes())));
    Seen {
        sent: sent.collect(),
        learned: outbox.stations_seen,
        first: first.translation,
        key: first.key,
    }
}

fn access(tag: u16) -> VlanMode {
    VlanMode::Access { tag }
}

fn of(vlans: &[u16]) -> VlanSet {
    VlanSet::of(vlans.iter().copied())
}

/// Ports as Open vSwitch makes them by default.
fn usual(mode: VlanMode) -> PortVlans {
    PortVlans {
        mode,
        priority_tags: PriorityTags::Never,
        is_protected: false,
    }
}

/// The ports of Open vSwitch's test.
fn twelve() -> BTreeMap<u32, PortVlans> {
    let trunk = |trunks| VlanMode::Trunk { trunks };
    let native_tagged = |trunks| VlanMode::NativeTagged { tag: 10, trunks };
    let native_untagged = |trunks| VlanMode::NativeUntagged { tag: 12, trunks };
    let tunnel = |tag, customers| VlanMode::Tunnel {
        tag,
        customers,
        tpid: 0x8100,
    };
    let modes = [
        (1, trunk(of(&[10, 12]))),
        (2, access(10)),
        (3, access(12)),
        (4, access(12)),
        (5, native_tagged(VlanSet::ALL)),
        (6, native_tagged(of(&[10, 12]))),
        (7, native_untagged(VlanSet::ALL)),
        (8, native_untagged(of(&[10, 12]))),
        (9, tunnel(10, VlanSet::ALL)),
        (10, tunnel(10, of(&[10, 12]))),
        (11, tunnel(12, VlanSet::ALL)),
        (12, tunnel(12, VlanSet::ALL)),
        (100, trunk(VlanSet::ALL)),
    ];
    let mut ports: BTreeMap<u32, PortVlans> = modes
        .into_iter()
        .map(|(number, mode)| (number, usual(mode)))
        .collect();
    for number in [3, 8, 12] {
        let port = ports.get_mut(&number).expect("it is there");
        port.priority_tags = PriorityTags::IfNonzero;
    }
    ports
}

/// What a list of datapath actions sends, for a packet with these tags.
fn done_by(actions: &str, tags: &[Tag]) -> BTreeMap<u32, Tags> {
    let mut sent = BTreeMap::new();
    let mut tags = tags.to_vec();
    // Numbers in parentheses are no ports.
    for action in actions.replace(",pcp", ";pcp").split(',') {
        if action == "drop" {
            break;
        } else if action == "pop_vlan" {
            tags.remove(0);
        } else if let Some(pushed) = action.strip_prefix("push_vlan(vid=") {
            let pushed = pushed.trim_end_matches(')');
            let (vlan, priority) = pushed.split_once(";pcp=").expect("both are there");
            let number = |text: &str| text.parse().expect("a number");
            tags.insert(0, Tag::new(0x8100, number(vlan), number(priority)));
        } else {
            let port = action.parse().expect("a port");
            assert!(sent.insert(port, tags.clone()).is_none());
        }
    }
    sent
}

#[test]
fn floods_have_the_tags_that_open_vswitch_gives_them() {
    let pipeline = pipeline("actions=normal", &twelve());
    let rows = include_str!("flooded.txt");
    let mut checked = 0;
    for row in rows.lines() {
        let mut words = row.split_whitespace();
        let mut next = || words.next().expect("four words");
        let (in_port, vlan, priority, actions) = (next(), next(), next(), next());
        let number = |text: &str| text.parse::<u16>().expect("a number");
        let tags = match vlan {
            "none" => vec![],
            vlan => vec![Tag::new(0x8100, number(vlan), number(priority))],
        };
        let bytes = frame(BROADCAST, SOURCE, &tags);
        let seen = see(&pipeline, number(in_port).into(), &bytes);
        let count = seen.sent.len();
        let sent: BTreeMap<u32, Tags> = seen.sent.into_iter().collect();
        assert_eq!(sent.len(), count, "{row}: each port once");
        assert_eq!(sent, done_by(actions, &tags), "{row}");
        checked += 1;
    }
    assert_eq!(checked, 90);
}

#[test]
fn what_a_port_does_not_admit_is_counted_as_that() {
    let pipeline = pipeline("actions=normal", &twelve());
    let reason = |in_port, tags: &[Tag]| {
        let bytes = frame(BROADCAST, SOURCE, tags);
        let seen = see(&pipeline, in_port, &bytes);
        (seen.first.drop_reason, seen.learned.len())
    };
    let vlan = |vlan| [Tag::new(0x8100, vlan, 0)];
    let refused = (Some(DropReason::VlanNotAllowed), 0);
    assert_eq!(reason(2, &vlan(10)), refused);
    assert_eq!(reason(1, &vlan(11)), refused);
    assert_eq!(reason(1, &[]), refused);
    assert_eq!(reason(10, &vlan(11)), refused);
    // It is learned, but no other port carries VLAN 0.
    assert_eq!(reason(100, &[]), (Some(DropReason::NoPortInVlan), 1));
}

#[test]
fn stations_are_learned_in_the_vlan_of_their_port() {
    let mut pipeline = pipeline("actions=normal", &twelve());
    let learned = |pipeline: &Pipeline, in_port, tags: &[Tag]| {
        let bytes = frame(BROADCAST, SOURCE, tags);
        let seen = see(pipeline, in_port, &bytes);
        seen.learned[0].0.vlan
    };
    assert_eq!(learned(&pipeline, 2, &[]), 10);
    assert_eq!(learned(&pipeline, 2, &[Tag::new(0x8100, 0, 5)]), 10);
    assert_eq!(learned(&pipeline, 7, &[]), 12);
    assert_eq!(learned(&pipeline, 7, &[Tag::new(0x8100, 11, 0)]), 11);
    assert_eq!(learned(&pipeline, 9, &[Tag::new(0x88a8, 11, 0)]), 10);
    // A station known in a VLAN is sent to in that VLAN only.
    let station = Station {
        bridge: BridgeId(0),
        vlan: 10,
        mac: 0x0200_0000_0009,
    };
    let moved = MacMove {
        station,
        port: Some(PortId(1)),
    };
    let change = Change::one(Operation::MoveMacs(vec![moved]));
    pipeline.apply(&change, Instant::ZERO).expect("it can move");
    let to_known =
        |pipeline: &Pipeline, in_port| see(pipeline, in_port, &frame(KNOWN, SOURCE, &[])).sent;
    let tagged = |vlan| vec![Tag::new(0x8100, vlan, 0)];
    assert_eq!(to_known(&pipeline, 2), [(1, tagged(10))]);
    assert!(to_known(&pipeline, 3).len() > 1);
    // Its port leaves the VLAN: nothing of the VLAN goes there any more.
    let vlans = Arc::new(usual(access(12)));
    let change = Change::one(Operation::SetPortVlans(PortId(1), vlans));
    let delta = pipeline.apply(&change, Instant::ZERO).expect("it can be");
    assert_eq!(delta.ports, [PortId(1)]);
    let sent = to_known(&pipeline, 2);
    assert!(sent.len() > 1 && sent.iter().all(|(port, _)| *port != 1));
    assert!(to_known(&pipeline, 3).contains(&(1, vec![])));
}

#[test]
fn protected_ports_do_not_reach_each_other_by_any_action() {
    let protected = PortVlans {
        is_protected: true,
        ..PortVlans::default()
    };
    let ports = BTreeMap::from([
        (1, protected.clone()),
        (2, protected),
        (3, PortVlans::default()),
    ]);
    let bytes = frame(BROADCAST, SOURCE, &[]);
    let by = |actions: &str, in_port| {
        let pipeline = pipeline(&format!("actions={actions}"), &ports);
        let seen = see(&pipeline, in_port, &bytes);
        let sent = seen.sent.iter().map(|(port, _)| *port).collect::<Vec<_>>();
        (sent, seen.first.drop_reason)
    };
    let refused = Some(DropReason::ProtectedPort);
    for flood in ["normal", "all", "flood"] {
        assert_eq!(by(flood, 1), (vec![3], None));
        assert_eq!(by(flood, 3), (vec![1, 2], None));
    }
    assert_eq!(by("output:2", 1), (vec![], refused));
    assert_eq!(by("in_port", 1), (vec![], refused));
    assert_eq!(by("output:2,output:3", 1), (vec![3], None));
    assert_eq!(by("output:2", 3), (vec![2], None));
    assert_eq!(by("output:3", 1), (vec![3], None));
}

#[test]
fn reserved_addresses_are_forwarded_to_if_the_bridge_says_so() {
    let mut pipeline = pipeline("actions=normal", &twelve());
    let bytes = frame([1, 0x80, 0xc2, 0, 0, 0], SOURCE, &[]);
    let reserved = Some(DropReason::ReservedAddress);
    assert_eq!(see(&pipeline, 2, &bytes).first.drop_reason, reserved);
    let set = |does| Change::one(Operation::SetForwardsBpdus(BridgeId(0), does));
    let delta = pipeline.apply(&set(true), Instant::ZERO).expect("it can");
    assert_eq!(delta.bpdus, [BridgeId(0)]);
    assert!(pipeline.forwards_bpdus(BridgeId(0), pipeline.version()));
    let seen = see(&pipeline, 2, &bytes);
    assert!(!seen.sent.is_empty() && seen.learned.len() == 1);
    pipeline.apply(&set(false), Instant::ZERO).expect("it can");
    assert_eq!(see(&pipeline, 2, &bytes).first.drop_reason, reserved);
}

#[test]
fn what_is_set_goes_with_the_port_and_bad_settings_are_refused() {
    let mut pipeline = pipeline("actions=normal", &twelve());
    let version = pipeline.version();
    assert_eq!(pipeline.port_vlans(PortId(2), version).mode, access(10));
    let change = Change::one(Operation::DeletePort(PortId(2)));
    pipeline.apply(&change, Instant::ZERO).expect("it can go");
    let set = |mode| Operation::SetPortVlans(PortId(2), Arc::new(usual(mode)));
    let tunnel = VlanMode::Tunnel {
        tag: 7,
        customers: VlanSet::ALL,
        tpid: 0x9100,
    };
    for mode in [access(4096), tunnel] {
        let operations = vec![set(access(9)), set(mode)];
        let refused = pipeline.apply(&Change { operations }, Instant::ZERO);
        assert!(matches!(
            refused,
            Err(ChangeError::BadPort { operation: 1, .. })
        ));
    }
    let version = pipeline.version();
    assert_eq!(
        pipeline.port_vlans(PortId(2), version),
        &PortVlans::default()
    );
    // A change that is undone leaves the settings as they were.
    let operations = vec![
        set(access(9)),
        Operation::SetForwardsBpdus(BridgeId(0), true),
        Operation::Add(parse_flow("actions=group:77")),
    ];
    let refused = pipeline.apply(&Change { operations }, Instant::ZERO);
    assert!(matches!(refused, Err(ChangeError::UnknownGroup { .. })));
    let version = pipeline.version();
    assert_eq!(
        pipeline.port_vlans(PortId(2), version),
        &PortVlans::default()
    );
    assert!(!pipeline.forwards_bpdus(BridgeId(0), version));
    pipeline.reclaim(version);
}

fn parse_flow(text: &str) -> thalweg_pipeline::Flow {
    let read = parse_rules("rules", text).expect("the test's rules are right");
    match read.into_change().operations.remove(0) {
        Operation::Add(flow) => flow,
        other => panic!("{other:?} is no rule"),
    }
}

/// A pop that lets a third tag appear, then a patch: the other bridge matches the type behind.
#[test]
fn a_patch_behind_a_pop_leads_to_another_parse() {
    let mut pipeline = Pipeline::new(Config {
        bridges: true,
        ..Config::default()
    });
    let inner = BridgeId(1);
    let ends = [PortId(9), inner.port(8)];
    let patch = |end: usize| PortState {
        peer: Some(ends[1 - end]),
        ..OPEN
    };
    let rules = |text, bridge| {
        let operation = Operation::Add(parse_flow(text));
        operation.in_bridge(bridge)
    };
    let operations = vec![
        Operation::SetPort(ends[0], patch(0)),
        Operation::SetPort(ends[1], patch(1)),
        Operation::SetPort(inner.port(2), OPEN),
        Operation::SetPort(inner.port(3), OPEN),
        rules("in_port=1,actions=pop_vlan,output:9", BridgeId(0)),
        rules("in_port=8,dl_vlan=6,dl_type=0xabcd,actions=output:2", inner),
        rules("in_port=8,priority=1,actions=output:3", inner),
    ];
    let made = pipeline.apply(&Change { operations }, Instant::ZERO);
    made.expect("it can be made");
    let tags = [5, 6, 7].map(|vlan| Tag::new(0x8100, vlan, 0));
    let to = |tags: &[Tag]| {
        let sent = see(&pipeline, 1, &frame(BROADCAST, SOURCE, tags)).sent;
        sent.into_iter().map(|(port, _)| port).collect::<Vec<_>>()
    };
    assert_eq!(to(&tags[..2]), [inner.port(2).0]);
    // Behind the third tag, which the pop makes the second.
    assert_eq!(to(&tags), [inner.port(2).0]);
}

fn vlan() -> impl Strategy<Value = u16> {
    select(vec![0, 0, 5, 6, 4095])
}

fn vlan_set() -> impl Strategy<Value = VlanSet> {
    prop_oneof![
        Just(VlanSet::ALL),
        prop::collection::vec(vlan(), 0..4).prop_map(VlanSet::of),
    ]
}

fn port_vlans() -> impl Strategy<Value = PortVlans> {
    let mode = prop_oneof![
        vlan().prop_map(access),
        vlan_set().prop_map(|trunks| VlanMode::Trunk { trunks }),
        (vlan(), vlan_set()).prop_map(|(tag, trunks)| VlanMode::NativeTagged { tag, trunks }),
        (vlan(), vlan_set()).prop_map(|(tag, trunks)| VlanMode::NativeUntagged { tag, trunks }),
        (vlan(), vlan_set(), select(vec![0x8100, 0x88a8])).prop_map(|(tag, customers, tpid)| {
            VlanMode::Tunnel {
                tag,
                customers,
                tpid,
            }
        }),
    ];
    let tags = select(vec![
        PriorityTags::Never,
        PriorityTags::IfNonzero,
        PriorityTags::Always,
    ]);
    (mode, tags, prop::bool::weighted(0.3)).prop_map(|(mode, priority_tags, is_protected)| {
        PortVlans {
            mode,
            priority_tags,
            is_protected,
        }
    })
}

fn tag() -> impl Strategy<Value = Tag> {
    let priority = select(vec![0, 0, 3, 7]);
    (select(vec![0x8100, 0x88a8]), vlan(), priority)
        .prop_map(|(tpid, vlan, priority)| Tag::new(tpid, vlan, priority))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(4000)
    })]

    /// Any ports, any tags: the model's packets leave, and no bit outside the mask matters.
    #[test]
    fn normal_sends_what_the_model_sends(
        settings in prop::collection::vec(port_vlans(), 2..7),
        tags in prop::collection::vec(tag(), 0..4),
        known in prop::option::of((vlan(), 1..7_u32)),
    ) {
        let ports: BTreeMap<u32, PortVlans> = (1..).zip(settings).collect();
        let mut pipeline = pipeline("actions=normal", &ports);
        // The second tag's field is in every key, so that its bits can be flipped.
        let reads = Operation::Foresee(Arc::new([thalweg_pipeline::Action::PopVlan]));
        let moved = known.map(|(vlan, port)| MacMove {
            station: Station { bridge: BridgeId(0), vlan, mac: 0x0200_0000_0009 },
            port: Some(PortId(port)),
        });
        let moves = Operation::MoveMacs(moved.into_iter().collect());
        let change = Change { operations: vec![reads, moves] };
        pipeline.apply(&change, Instant::ZERO).expect("both can be");
        for destination in [BROADCAST, KNOWN] {
            let seen = see(&pipeline, 1, &frame(destination, SOURCE, &tags));
            let known = known.filter(|_| destination == KNOWN);
            let expected = model::sent(&ports, 1, &tags, known);
            prop_assert_eq!(&seen.sent, &expected.sent);
            let learned: Vec<u16> = seen.learned.iter().map(|(at, _)| at.vlan).collect();
            prop_assert_eq!(learned, expected.learned);
            unexamined_bits_do_not_matter(&pipeline, &seen)?;
        }
    }
}

fn unexamined_bits_do_not_matter(pipeline: &Pipeline, seen: &Seen) -> Result<(), TestCaseError> {
    let layout = pipeline.layout().clone();
    for &field in layout.used() {
        let slot = layout.slot(field).expect("it is used");
        if !layout.descriptor(field).is_ingress() || field == f::RECIRC_ID {
            continue;
        }
        for bit in 0..slot.width_bits {
            let (word, shift) = slot.position(bit);
            if seen.first.mask[word] >> shift & 1 == 1 {
                continue;
            }
            let mut key = seen.key.clone();
            key[word] ^= 1 << shift;
            let other = translate(pipeline, &key, pipeline.version());
            prop_assert_eq!(&other.effects, &seen.first.effects, "{:?} {}", field, bit);
            prop_assert!(other.trace.kinds().eq(seen.first.trace.kinds()));
        }
    }
    Ok(())
}
