//! Random states, written, read and restored: the same state again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thalweg_conntrack::{
    AddressTranslation, Bits, Cursor, Previous, SavedConnection, Selection, TrackRequest,
    TranslationKind,
};
use thalweg_control::openflow::STANDALONE_COOKIE;
use thalweg_io::MemoryPort;
use thalweg_openflow::message::nicira::TlvMap;
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Headers, Instant, PortId};
use thalweg_pipeline::text::Parser;
use thalweg_pipeline::{
    BridgeId, Change, Counters, Flow, Group, Labels, MeterCounts, Operation, RateMeter, RulePast,
    Station,
};
use thalweg_snapshot::{SnapshotError, SnapshotFile};

use super::*;
use crate::{Switch, SwitchConfig, SwitchPort};

const BRIDGES: [u16; 2] = [0, 3];
const PORTS: u16 = 4;

/// A state in a form that can be compared.
#[derive(Debug, PartialEq)]
struct State {
    /// The rules, the oldest first.
    rules: Vec<(Flow, RulePast)>,
    groups: Vec<(Group, CountsOfGroup, Option<Instant>)>,
    meters: Vec<(RateMeter, MeterCounts)>,
    stations: Vec<(Station, PortId, bool, Instant)>,
    connections: Vec<String>,
    options: BTreeMap<BridgeId, Vec<TlvMap>>,
}

/// Counts of a group and of its buckets.
type CountsOfGroup = (Counters, Vec<Counters>);

/// How many bridges a test's switch has, and the names of its ports.
fn names(is_among: bool, first: u16) -> SwitchNames {
    let bridges = if is_among {
        &BRIDGES[..]
    } else {
        &BRIDGES[..1]
    };
    let ports = bridges.iter().flat_map(|bridge| {
        let numbers = first..first + PORTS;
        numbers.map(move |number| {
            let name = format!("p{bridge}-{}", number - first);
            (BridgeId(*bridge).port(number), name)
        })
    });
    SwitchNames {
        bridges: bridges
            .iter()
            .map(|id| (BridgeId(*id), format!("br{id}")))
            .collect(),
        ports: ports.collect(),
    }
}

fn start(is_among: bool, names: &SwitchNames) -> Switch {
    let mut config = SwitchConfig::default();
    config.pipeline.bridges = is_among;
    let ports = names.ports.iter().map(|(number, _)| {
        let (port, _) = MemoryPort::new(*number, 8);
        SwitchPort::new(*number, Box::new(port))
    });
    Switch::start(config, ports.collect()).expect("it starts")
}

fn state_of(switch: &mut Switch, names: &SwitchNames) -> State {
    drop(switch.totals());
    let now = switch.now();
    let bridges: Vec<BridgeId> = names.bridges.iter().map(|(id, _)| *id).collect();
    let known = bridges.iter().flat_map(|bridge| switch.stations(*bridge));
    let mut stations: Vec<_> = Vec::new();
    for known in known.collect::<Vec<_>>() {
        let at = now.checked_sub(known.silent_for).unwrap_or(Instant::ZERO);
        stations.push((known.station, known.port, known.is_fixed, at));
    }
    stations.sort_by_key(|(station, ..)| *station);
    let made_at = switch.desks.groups_made_at();
    let pipeline = switch.pipeline();
    let version = pipeline.version();
    let mut rules: Vec<_> = pipeline.rules(version).collect();
    rules.sort_by_key(|(_, rule)| rule.precedence.age());
    let rules = rules.into_iter().map(|(id, rule)| {
        let flow = pipeline.flow_of(id).expect("it is there");
        (flow, rule.past())
    });
    let groups = pipeline.groups(version).map(|group| {
        let counters = pipeline.group_counters(group.id).expect("it is there");
        let counters = (counters.group, counters.buckets.clone());
        (
            Group::clone(group),
            counters,
            made_at.get(&group.id).copied(),
        )
    });
    let meters = pipeline
        .all_meters(version)
        .map(|known| (known.meter.clone(), pipeline.meters().counts(known.place)));
    State {
        rules: rules.collect(),
        groups: groups.collect(),
        meters: meters.collect(),
        stations,
        connections: connections_of(switch, now),
        options: {
            let known = switch.tunnel_options.clone().into_iter();
            known.filter(|(_, maps)| !maps.is_empty()).collect()
        },
    }
}

fn connections_of(switch: &Switch, now: Instant) -> Vec<String> {
    let mut known: Vec<SavedConnection> = Vec::new();
    let mut place = Some(Cursor::default());
    while let Some(cursor) = place {
        let (saved, next) = switch.tracker().saved(cursor, 100, now);
        known.extend(saved);
        place = next;
    }
    let mut texts: Vec<String> = known.iter().map(|saved| format!("{saved:?}")).collect();
    texts.sort();
    texts
}

/// A rule of a few kinds; names only what is there.
fn random_rule(chance: &mut StdRng, first: u16) -> String {
    let port = first + chance.random_range(0..PORTS);
    let other = first + chance.random_range(0..PORTS);
    let (a, b): (u8, u8) = (chance.random(), chance.random());
    let table = chance.random_range(0..4);
    let kind = chance.random_range(0..8);
    let is_ipv4 = matches!(kind, 1 | 2 | 4);
    let conditions = match kind {
        0 => format!("in_port={port},dl_vlan={a}"),
        1 => format!("ip,nw_dst=10.{a}.{b}.0/24"),
        2 => format!("tcp,tp_dst={a}"),
        3 => format!("ipv6,ipv6_src=fc00::{a:x}:0/112"),
        4 => format!("ct_state=+trk+est,ip,ct_mark={a}"),
        5 => format!("dl_dst=02:00:00:00:{a:02x}:{b:02x}/ff:ff:ff:ff:ff:00"),
        6 => format!("in_port={port},tun_metadata0={a}"),
        _ => format!("reg{}={a:#x}/0xff,metadata={b}", a % 8),
    };
    let actions = match chance.random_range(0..11) {
        0 => format!("output:{other}"),
        1 => format!("resubmit({port},{})", table + 1),
        2 if is_ipv4 => format!("ct(commit,zone={a},nat(src=1.2.3.4)),output:{other}"),
        3 => format!("group:{}", 1 + a % 3),
        4 => format!("meter:{},normal", 1 + a % 2),
        5 => format!(
            "learn(table=9,cookie={a},idle_timeout={b},NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],\
             output:NXM_OF_IN_PORT[])"
        ),
        6 => format!("load:{a}->NXM_NX_REG1[0..15],move:NXM_OF_ETH_SRC[]->NXM_NX_XXREG0[0..47]"),
        7 => format!(
            "push_vlan:0x8100,set_field:{}->vlan_vid,output:{other}",
            4_096 + u16::from(a)
        ),
        8 => format!("bundle(eth_src,{a},active_backup,ofport,members:{port},{other})"),
        9 => format!("clone(set_queue:{a},output:{other}),controller(max_len={b}),goto_table:9"),
        _ => "drop".to_owned(),
    };
    let priority: u16 = chance.random_range(0..4);
    let cookie: u64 = chance.random();
    let idle = chance.random_range(0..3) * 1_000;
    let hard = chance.random_range(0..2) * 5_000;
    let flags = ["", "send_flow_rem,"][chance.random_range(0..2)];
    format!(
        "table={table},cookie={cookie:#x},{flags}idle_timeout={idle},hard_timeout={hard},\
         priority={priority},{conditions},actions={actions}"
    )
}

/// Fills a bridge.
fn fill(
    switch: &mut Switch,
    chance: &mut StdRng,
    (bridge, is_among, first): (BridgeId, bool, u16),
) {
    let mut parser = Parser::new();
    let group = |id: u32, kind: &str, port: u16| {
        format!(
            "group_id={id},type={kind},bucket=bucket_id:4,watch_port:{port},actions=output:{port},\
             bucket=bucket_id:9,watch_group:3,actions=group:3"
        )
    };
    let mut operations = Vec::new();
    for text in [
        "meter=1,kbps,burst,stats,bands=type=drop,rate=1000,burst_size=10".to_owned(),
        "meter=2,pktps,bands=type=drop,rate=7,type=dscp_remark,rate=5,prec_level=1".to_owned(),
        "group_id=3,type=indirect,bucket=actions=drop".to_owned(),
        group(1, "ff", first),
        group(2, "ff", first + 1),
    ] {
        operations.push(parser.parse_operation(&text).expect("it is right"));
    }
    for _ in 0..chance.random_range(1..60) {
        let text = random_rule(chance, first);
        let mut flow = parser
            .parse_flow(&text)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        flow.labels = Labels {
            importance: chance.random(),
            max_length: chance.random(),
            checks_overlap: chance.random(),
            resets_counts: chance.random(),
            no_packet_counts: chance.random(),
            no_byte_counts: chance.random(),
        };
        operations.push(Operation::Add(flow));
    }
    if is_among {
        operations = operations.iter().map(|one| one.in_bridge(bridge)).collect();
    }
    switch
        .apply(&Change { operations })
        .expect("all of it is right");
    for number in 0..chance.random_range(0..20_u64) {
        let station = Station {
            bridge,
            vlan: chance.random_range(0..3),
            mac: number,
        };
        let port = bridge.port(first + chance.random_range(0..PORTS));
        switch.clock().advance(Duration::from_millis(3));
        match chance.random_range(0..4) {
            0 => drop(switch.fix_station(station, port)),
            _ => {
                let now = switch.now();
                let moves = switch.upkeep.see(station, port, now);
                switch.move_stations(moves);
            }
        }
    }
    let maps = (0..chance.random_range(0..3)).map(|index| TlvMap {
        class: 0xffff,
        kind: index as u8,
        length: 4,
        index,
    });
    switch.map_options(bridge, &maps.collect::<Vec<_>>());
}

/// Lets rules, groups, meters and the tracker count.
fn count(switch: &mut Switch, chance: &mut StdRng) {
    let now = switch.now();
    let mut pipeline = switch.shared.pipeline.write();
    let version = pipeline.version();
    let ids: Vec<_> = pipeline.rules(version).map(|(id, _)| id).collect();
    let some = |chance: &mut StdRng| Counters {
        packets: chance.random_range(0..1_000),
        bytes: chance.random_range(0..1_000_000),
    };
    for id in ids {
        let counters = some(chance);
        pipeline.credit_rule(
            id,
            counters,
            now + Duration::from_millis(chance.random_range(0..9)),
        );
    }
    let groups: Vec<_> = pipeline.groups(version).map(|group| group.id).collect();
    for id in groups {
        pipeline.credit_bucket(id, Some(chance.random_range(0..2)), some(chance));
    }
    let places: Vec<_> = pipeline
        .all_meters(version)
        .map(|known| known.place)
        .collect();
    let meters = pipeline.meters().clone();
    drop(pipeline);
    for place in places {
        for _ in 0..chance.random_range(0..20) {
            meters.measure(place, 1_000, now);
        }
    }
    let translation = AddressTranslation {
        target: Some((TranslationKind::Source, None, Default::default())),
        selection: Selection::Any,
        is_persistent: false,
    };
    for port in 0..chance.random_range(0..40_u16) {
        let request = TrackRequest {
            zone: port % 3,
            is_commit: true,
            mark: Some(Bits {
                value: port.into(),
                mask: u32::MAX,
            }),
            translation: (port % 5 == 0).then(|| translation.clone()),
            ..TrackRequest::default()
        };
        let mut frame = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]))
            .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
            .udp(1_000 + port, 53)
            .build();
        let headers = Headers::parse(&frame).expect("it is whole");
        let (previous, random) = (Previous::default(), chance.random());
        switch
            .tracker()
            .track(&mut frame, &headers, &request, previous, now, random);
    }
}

fn random_switch(seed: u64, is_among: bool, names: &SwitchNames, first: u16) -> Switch {
    let chance = &mut StdRng::seed_from_u64(seed);
    let mut switch = start(is_among, names);
    switch.clock().stop();
    for (bridge, _) in &names.bridges {
        fill(&mut switch, chance, (*bridge, is_among, first));
    }
    count(&mut switch, chance);
    switch
}

fn file_in(folder: &Path) -> SnapshotFile {
    SnapshotFile::new(folder.join("of.snapshot"), SNAPSHOT_FORMAT)
}

/// The state goes into a file and comes out of it the same, with and without bridges.
#[test]
fn what_is_restored_is_what_was_saved() {
    for seed in 0..24 {
        let is_among = seed % 2 == 0;
        let names = names(is_among, 1);
        let mut former = random_switch(seed, is_among, &names, 1);
        let folder = tempfile::tempdir().expect("there is room");
        let file = file_in(folder.path());
        let contents = former
            .capture(&names, 7)
            .write(&file)
            .expect("there is room");
        let expected = state_of(&mut former, &names);
        assert_eq!(contents.rules, expected.rules.len());
        let saved = SavedSwitch::read(&file)
            .expect("it is whole")
            .expect("it is there");
        assert_eq!(saved.sources(), 7);
        let mut next = start(is_among, &names);
        next.clock().stop();
        let restored = next.restore(saved, &names);
        assert_eq!(
            restored.left_out,
            BTreeMap::new(),
            "seed {seed}: {:?}",
            restored.examples
        );
        assert_eq!(restored.contents, contents);
        // The clock went on, by the time that the test took.
        let found = state_of(&mut next, &names);
        assert_eq!(found.rules.len(), expected.rules.len(), "seed {seed}");
        for (found, expected) in found.rules.iter().zip(&expected.rules) {
            assert_eq!(found, expected, "seed {seed}");
        }
        assert_eq!(found.groups, expected.groups, "seed {seed}");
        assert_eq!(found.meters, expected.meters, "seed {seed}");
        assert_eq!(found.stations, expected.stations, "seed {seed}");
        assert_eq!(found.connections, expected.connections, "seed {seed}");
        assert_eq!(found.options, expected.options, "seed {seed}");
    }
}

/// Ports are found by their names, and nothing names a port that took another's number.
#[test]
fn ports_are_found_by_name() {
    for (seed, is_among) in [(1, true), (2, false), (3, true)] {
        let (before, after) = (names(is_among, 1), names(is_among, 3));
        let mut former = random_switch(seed, is_among, &before, 1);
        let mut twin = random_switch(seed, is_among, &after, 3);
        let folder = tempfile::tempdir().expect("there is room");
        let file = file_in(folder.path());
        former
            .capture(&before, 0)
            .write(&file)
            .expect("there is room");
        let saved = SavedSwitch::read(&file)
            .expect("it is whole")
            .expect("it is there");
        let mut next = start(is_among, &after);
        let restored = next.restore(saved, &after);
        assert_eq!(
            restored.left_out,
            BTreeMap::new(),
            "{:?}",
            restored.examples
        );
        let [found, expected] = [&mut next, &mut twin].map(|switch| state_of(switch, &after));
        let flows = |state: &State| -> Vec<Flow> {
            state.rules.iter().map(|(flow, _)| flow.clone()).collect()
        };
        assert_eq!(flows(&found), flows(&expected));
        let groups = |state: &State| -> Vec<Group> {
            state
                .groups
                .iter()
                .map(|(group, ..)| group.clone())
                .collect()
        };
        assert_eq!(groups(&found), groups(&expected));
        let places = |state: &State| -> Vec<(Station, PortId)> {
            state
                .stations
                .iter()
                .map(|(station, port, ..)| (*station, *port))
                .collect()
        };
        assert_eq!(places(&found), places(&expected));
    }
}

/// Invariant 4: each thing that does not fit is counted, and the rest is there.
#[test]
fn what_does_not_fit_is_left_out_and_counted() {
    let before = names(true, 1);
    let mut former = start(true, &before);
    let mut parser = Parser::new();
    let mut add = |bridge: u16, text: &str| {
        let flow = parser.parse_flow(text).expect("it is right");
        let change = Change::adding([flow.in_bridge(BridgeId(bridge))]);
        former.apply(&change).expect("it is right");
    };
    add(0, "in_port=1,actions=output:2");
    add(0, "priority=1,actions=output:3");
    add(0, "priority=2,actions=output:77");
    add(3, "actions=drop");
    let folder = tempfile::tempdir().expect("there is room");
    let file = file_in(folder.path());
    former
        .capture(&before, 0)
        .write(&file)
        .expect("there is room");
    let saved = SavedSwitch::read(&file)
        .expect("it is whole")
        .expect("it is there");
    // One bridge is gone, and port 3 belongs to another interface.
    let mut after = before.clone();
    after.bridges.truncate(1);
    after.ports.truncate(usize::from(PORTS));
    after.ports[2].1 = "another".to_owned();
    let mut next = start(true, &after);
    let restored = next.restore(saved, &after);
    let left_out = BTreeMap::from([("bridge_gone", 1), ("port_gone", 1)]);
    assert_eq!(restored.left_out, left_out);
    assert_eq!((restored.contents.rules, restored.left_out_count()), (2, 2));
    let text = restored.to_string();
    assert!(
        text.ends_with("; left out: 1 bridge_gone, 1 port_gone"),
        "{text}"
    );
}

/// Invariant 5: the rule of a server that stands in for a controller stays away, and its bridge
/// is told apart.
#[test]
fn a_rule_that_stands_in_is_left_out() {
    let names = names(true, 1);
    let mut former = start(true, &names);
    let own = format!("cookie={STANDALONE_COOKIE:#x},priority=0,actions=normal");
    let texts = [
        (3, &*own),
        (3, "priority=7,actions=normal"),
        (0, "priority=0,actions=normal"),
    ];
    for (bridge, text) in texts {
        let flow = thalweg_pipeline::text::parse_flow(text).expect("it is right");
        let change = Change::adding([flow.in_bridge(BridgeId(bridge))]);
        former.apply(&change).expect("it is right");
    }
    let folder = tempfile::tempdir().expect("there is room");
    let file = file_in(folder.path());
    let capture = former.capture(&names, 0);
    capture.write(&file).expect("there is room");
    let saved = SavedSwitch::read(&file)
        .expect("it is whole")
        .expect("it is there");
    let resumed: Vec<String> = saved.resumed_bridges().into_iter().collect();
    assert_eq!(resumed, ["br0"]);
    let mut next = start(true, &names);
    let restored = next.restore(saved, &names);
    assert_eq!(restored.left_out, BTreeMap::from([("stand_in", 1)]));
    let flows = |switch: &mut Switch| -> Vec<Flow> {
        let rules = state_of(switch, &names).rules;
        let rules = rules.into_iter().map(|(flow, _)| flow);
        rules.filter(|flow| flow.cookie == 0).collect()
    };
    assert_eq!(restored.contents.rules, 2);
    assert_eq!(flows(&mut next), flows(&mut former));
}

/// Invariant 3: rules that are there before the restoration are not as old as the former switch.
#[test]
fn what_is_there_before_is_not_old() {
    let names = names(false, 1);
    let mut former = start(false, &names);
    former.clock().stop();
    former.clock().advance(Duration::from_secs(7_200));
    let folder = tempfile::tempdir().expect("there is room");
    let file = file_in(folder.path());
    let capture = former.capture(&names, 0);
    capture.write(&file).expect("there is room");
    let saved = SavedSwitch::read(&file)
        .expect("it is whole")
        .expect("it is there");
    let config = SwitchConfig {
        starts_at: saved.clock(),
        ..SwitchConfig::default()
    };
    let rule = thalweg_pipeline::text::parse_flow("hard_timeout=600,actions=drop");
    let rules = Change::adding([rule.expect("it is right")]);
    let mut next = Switch::start_with(config, Vec::new(), &rules).expect("it starts");
    next.clock().stop();
    next.restore(saved, &names);
    for (seconds, expected) in [(500, 1), (101, 0)] {
        next.clock().advance(Duration::from_secs(seconds));
        next.poll(Duration::ZERO);
        assert_eq!(state_of(&mut next, &names).rules.len(), expected);
    }
}

/// Invariant 3: the time between two runs counts.
#[test]
fn the_time_away_counts() {
    let names = names(false, 1);
    let mut former = random_switch(5, false, &names, 1);
    let mut saved = {
        let folder = tempfile::tempdir().expect("there is room");
        let file = file_in(folder.path());
        former
            .capture(&names, 0)
            .write(&file)
            .expect("there is room");
        SavedSwitch::read(&file)
            .expect("it is whole")
            .expect("it is there")
    };
    let count = saved.connections.len() as u64;
    assert!(count > 0, "the seed makes some");
    saved.about.taken_at_ms -= 3_600_000;
    let mut next = start(false, &names);
    let restored = next.restore(saved, &names);
    assert!(restored.away >= Duration::from_secs(3_600));
    assert_eq!(restored.left_out.get("connection_over"), Some(&count));
    let timed = |switch: &Switch| {
        let pipeline = switch.pipeline();
        let rules = pipeline.rules(pipeline.version());
        rules.filter(|(_, rule)| rule.idle_timeout_s > 0).count()
    };
    assert!(timed(&next) > 0, "the seed makes some");
    next.clock().stop();
    next.clock().advance(Duration::from_secs(2));
    next.poll(Duration::ZERO);
    assert_eq!(timed(&next), 0, "none was used for an hour");
}

/// A snapshot is of one version, although rules change while it is written.
#[test]
fn a_capture_is_of_one_version() {
    let names = names(false, 1);
    let mut switch = random_switch(6, false, &names, 1);
    let expected = state_of(&mut switch, &names);
    let capture = switch.capture(&names, 0);
    switch
        .apply(&Change::one(Operation::DeleteAll))
        .expect("rules can be deleted");
    let rule = thalweg_pipeline::text::parse_flow("actions=drop").expect("it is right");
    switch.apply(&Change::adding([rule])).expect("it is right");
    switch.settle();
    let folder = tempfile::tempdir().expect("there is room");
    let file = file_in(folder.path());
    let contents = capture.write(&file).expect("nothing overtook it");
    assert_eq!(contents.rules, expected.rules.len());
    let saved = SavedSwitch::read(&file)
        .expect("it is whole")
        .expect("it is there");
    let mut next = start(false, &names);
    next.clock().stop();
    next.restore(saved, &names);
    assert_eq!(state_of(&mut next, &names).rules, expected.rules);
}

#[test]
fn packets_are_held_until_the_switch_is_ready() {
    let (one, source) = MemoryPort::new(PortId(1), 8);
    let (two, sink) = MemoryPort::new(PortId(2), 8);
    let ports = vec![
        SwitchPort::new(PortId(1), Box::new(one)),
        SwitchPort::new(PortId(2), Box::new(two)),
    ];
    let config = SwitchConfig {
        holds_packets: true,
        ..SwitchConfig::default()
    };
    let mut switch = Switch::start(config, ports).expect("it starts");
    let rule = thalweg_pipeline::text::parse_flow("actions=output:2").expect("it is right");
    switch.apply(&Change::adding([rule])).expect("it is right");
    assert!(source.inject(&[0; 60]));
    while switch.totals().drops().get("not_ready") != Some(&1) {
        switch.poll(Duration::from_millis(1));
    }
    switch.hold_packets(false);
    assert!(source.inject(&[1; 60]));
    let mut arrived = Vec::new();
    while arrived.is_empty() {
        switch.poll(Duration::from_millis(1));
        arrived = sink.collect();
    }
    assert_eq!(arrived.len(), 1);
    assert_eq!(arrived[0].bytes(), [1; 60]);
}

/// The thread writes in time, and what it could not write is told.
#[test]
fn a_keeper_writes_in_time_and_tells_of_failures() {
    let names = names(false, 1);
    let mut switch = random_switch(8, false, &names, 1);
    let folder = tempfile::tempdir().expect("there is room");
    let settings = SnapshotSettings {
        file: file_in(folder.path()),
        interval: Duration::ZERO,
    };
    let interrupter = switch.interrupter();
    let mut keeper = SnapshotKeeper::start(settings.clone(), 1, interrupter).expect("it starts");
    while !keeper.status().contains("snapshots written: 2\n") {
        assert!(keeper.tend(&mut switch, || names.clone()).is_none());
        switch.poll(Duration::from_millis(1));
    }
    // Invariant 2 of the keeper.
    std::fs::write(settings.file.path(), "of something else").expect("there is room");
    let told = loop {
        if let Some(error) = keeper.tend(&mut switch, || names.clone()) {
            break error;
        }
        std::fs::write(settings.file.path(), "of something else").expect("there is room");
        switch.poll(Duration::from_millis(1));
    };
    assert!(told.is_of_file(), "{told}");
    let contents = keeper
        .finish(&mut switch, &names)
        .expect("a new file is made");
    let saved = SavedSwitch::read(&settings.file)
        .expect("it is whole")
        .expect("it is there");
    assert_eq!(contents.rules, saved.rules.len());
}

/// Records of another form are refused whole.
#[test]
fn records_of_another_form_are_refused() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = file_in(folder.path());
    for (section, record) in [
        (records::section::RULE, &[1, 2, 3][..]),
        (0, &[]),
        (0, &[0; 200]),
    ] {
        let written = file.write::<SnapshotError>(|writer| writer.add(section, record));
        written.expect("there is room");
        let refused = SavedSwitch::read(&file).expect_err("it makes no sense");
        assert!(
            matches!(refused, SnapshotError::Damaged { .. }),
            "{refused}"
        );
    }
}
