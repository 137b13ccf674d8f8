//! Two bridges of one switch, joined by a patch, each with an OpenFlow plane of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use thalweg_control::openflow::target::{Change as Asked, Event, Failure, Target, Transaction};
use thalweg_io::{MemoryHandle, MemoryPort};
use thalweg_openflow::action::{Action, Instructions};
use thalweg_openflow::message::flow::{
    ALL_TABLES, FlowCommand, FlowFlags, FlowMod, FlowStats, FlowStatsRequest,
};
use thalweg_openflow::message::group::{
    ALL_BUCKETS, ALL_GROUPS, ANY_GROUP, Bucket, GroupCommand, GroupMod, GroupType, LAST_BUCKET,
};
use thalweg_openflow::message::meter::{
    BAND_DROP, MeterBand, MeterCommand, MeterConfig, MeterMod, flags,
};
use thalweg_openflow::message::monitor::MonitorEvent;
use thalweg_openflow::message::packet::PacketOut;
use thalweg_openflow::message::port::{
    ALL_QUEUES, PortMod, PortNumber, PortReason, PortStats, QueueRequest, config, state,
};
use thalweg_openflow::message::{Reply, Request};
use thalweg_openflow::{Condition, ErrorCode, FieldId, Match, Value, Version};
use thalweg_pipeline::{
    BridgeId, BridgeMirror, Change, Config, FragmentMode, MirrorId, MirrorOutput, MirroredPorts,
    Mirrors, Operation, TableLimit, VlanSet,
};
use thalweg_switch::{
    Interrupter, OpenFlowIdentity, OpenFlowPlane, PortDevice, PortIdentity, Switch, SwitchConfig,
    SwitchPort,
};

const OUTER: BridgeId = BridgeId(0);
const INNER: BridgeId = BridgeId(7);
/// The ends of the patch, by their number in each bridge.
const PATCH: [u16; 2] = [9, 8];
const NORMAL: PortNumber = PortNumber::NORMAL;

type Work = Box<dyn FnOnce(&mut Switch) + Send>;

/// A switch on a thread of its own, with the ports 1 and 2 in each bridge.
struct Bench {
    outer: OpenFlowPlane,
    inner: OpenFlowPlane,
    handles: BTreeMap<(BridgeId, u16), MemoryHandle>,
    work: Option<mpsc::Sender<Work>>,
    interrupter: Interrupter,
    thread: Option<JoinHandle<()>>,
}

impl Bench {
    fn start(workers: usize) -> Bench {
        let config = SwitchConfig {
            pipeline: Config {
                bridges: true,
                ..Config::default()
            },
            workers,
            ..SwitchConfig::default()
        };
        let mut switch = Switch::start(config, Vec::new()).expect("it starts");
        let mut handles = BTreeMap::new();
        for bridge in [OUTER, INNER] {
            for number in [1, 2] {
                let id = bridge.port(number);
                let (port, handle) = MemoryPort::new(id, 64);
                let attached = switch.attach(SwitchPort::new(id, Box::new(port)));
                attached.expect("the number is free");
                handles.insert((bridge, number), handle);
            }
        }
        let outer = switch.open_flow(OUTER, OpenFlowIdentity::new(1, "outer"));
        let inner = switch.open_flow(INNER, OpenFlowIdentity::new(2, "inner"));
        let interrupter = switch.interrupter();
        let (work, waiting) = mpsc::channel::<Work>();
        let thread = std::thread::spawn(move || {
            loop {
                switch.poll(Duration::from_millis(20));
                match waiting.try_recv() {
                    Ok(work) => work(&mut switch),
                    Err(mpsc::TryRecvError::Empty) => {}
                    Err(mpsc::TryRecvError::Disconnected) => break,
                }
            }
            switch.stop();
        });
        Bench {
            outer,
            inner,
            handles,
            work: Some(work),
            interrupter,
            thread: Some(thread),
        }
    }

    /// Has the switch's owner do something.
    fn with<R: Send + 'static>(&self, work: impl FnOnce(&mut Switch) -> R + Send + 'static) -> R {
        let (answer, answers) = mpsc::sync_channel(1);
        let work: Work = Box::new(move |switch| {
            let _ = answer.send(work(switch));
        });
        let sender = self.work.as_ref().expect("it runs");
        sender.send(work).expect("it runs");
        self.interrupter.interrupt();
        answers.recv().expect("it runs")
    }

    /// Returns after another poll has ended.
    fn poll(&self) {
        self.with(|_| ());
        self.with(|_| ());
    }

    /// Joins the bridges, and discards the events about it.
    fn patch(&mut self) {
        let ends = [OUTER.port(PATCH[0]), INNER.port(PATCH[1])];
        self.with(move |switch| {
            switch
                .add_patch(ends[0], Some(ends[1]))
                .expect("it is free");
            switch
                .add_patch(ends[1], Some(ends[0]))
                .expect("it is free");
        });
        self.poll();
        self.outer.events();
        self.inner.events();
    }

    fn send(&self, bridge: BridgeId, port: u16, frame: &[u8]) {
        assert!(self.handles[&(bridge, port)].inject(frame));
    }

    /// Waits for the copies of one packet, at these ports; there are no others.
    fn expect(&self, expected: &[(BridgeId, u16)]) {
        let mut missing = expected.to_vec();
        while !missing.is_empty() {
            missing.retain(|place| self.handles[place].collect().is_empty());
            std::thread::yield_now();
        }
        // Packets for other workers are sent by then.
        self.with(|switch| drop(switch.totals()));
        for (place, handle) in &self.handles {
            assert_eq!(handle.collect().len(), 0, "{place:?} gets too much");
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.work = None;
        self.interrupter.interrupt();
        if let Some(thread) = self.thread.take() {
            // A panic of the switch has been told by its thread.
            let _ = thread.join();
        }
    }
}

/// A packet of IPv4 to a station.
fn frame(from: u8, to: u8) -> Vec<u8> {
    let mut data = vec![0; 60];
    data[..6].copy_from_slice(&[2, 0, 0, 0, 0, to]);
    data[6..12].copy_from_slice(&[2, 0, 0, 0, 0, from]);
    data[12..14].copy_from_slice(&[8, 0]);
    data[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 253]);
    data
}

fn in_port(port: u16) -> Match {
    Match {
        conditions: vec![Condition {
            field: FieldId::IN_PORT_OXM,
            value: Value::from_number(port.into(), 4),
            mask: None,
        }],
    }
}

fn output(port: PortNumber) -> Action {
    Action::Output {
        port,
        max_length: 0xffff,
    }
}

fn flow(command: FlowCommand, table: u8, matching: Match, actions: Vec<Action>) -> Asked {
    Asked::Flow(Box::new(FlowMod {
        is_nicira: false,
        command,
        table,
        new_cookie: 5,
        cookie: 0,
        cookie_mask: 0,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        priority: 10,
        buffer: None,
        out_port: PortNumber::ANY,
        out_group: ANY_GROUP,
        flags: FlowFlags(FlowFlags::SEND_REMOVED),
        importance: 0,
        matching,
        instructions: Instructions {
            apply: actions,
            ..Instructions::default()
        },
    }))
}

fn group(command: GroupCommand, group: u32, watch: u16) -> Asked {
    let bucket = Bucket {
        id: 0,
        weight: None,
        watch_port: PortNumber(watch.into()),
        watch_group: ANY_GROUP,
        actions: vec![output(PortNumber(watch.into()))],
    };
    let is_deletion = command == GroupCommand::Delete;
    Asked::Group(GroupMod {
        command,
        kind: GroupType::FastFailover,
        group,
        command_bucket: ALL_BUCKETS,
        buckets: if is_deletion {
            Vec::new()
        } else {
            vec![bucket]
        },
        selection: None,
    })
}

fn change(plane: &mut OpenFlowPlane, changes: Vec<Asked>) -> Result<(), Failure> {
    let transaction = Transaction {
        version: Version::V15,
        changes,
    };
    let mut done = plane.change(Arc::new([transaction]));
    done.remove(0).map(drop)
}

fn add(plane: &mut OpenFlowPlane, matching: Match, actions: Vec<Action>) {
    let asked = flow(FlowCommand::Add, 0, matching, actions);
    change(plane, vec![asked]).expect("it is right");
}

fn dump(plane: &mut OpenFlowPlane) -> Vec<FlowStats> {
    let mut cursor = plane.flows(&FlowStatsRequest::all()).expect("it is right");
    cursor.next(100)
}

/// Input port, actions and packets of each rule.
fn told(plane: &mut OpenFlowPlane) -> Vec<(Option<PortNumber>, Vec<Action>, u64)> {
    let flows = dump(plane);
    let told = flows.into_iter().map(|flow| {
        let port = flow.matching.in_port();
        (port, flow.instructions.apply, flow.counts.packets)
    });
    told.collect()
}

fn groups(plane: &mut OpenFlowPlane) -> Vec<(u32, PortNumber)> {
    let read = plane.read(Version::V15, &Request::GroupDesc(ALL_GROUPS));
    let Ok(Reply::GroupDesc(groups)) = read else {
        panic!("{read:?}")
    };
    let told = groups.iter();
    told.map(|group| (group.group, group.buckets[0].watch_port))
        .collect()
}

fn statistics(plane: &mut OpenFlowPlane, port: PortNumber) -> Vec<PortStats> {
    match plane.read(Version::V15, &Request::Port(port)) {
        Ok(Reply::Port(rows)) => rows,
        other => panic!("{other:?}"),
    }
}

/// Port events since the last call: reason, number, state.
fn port_events(plane: &mut OpenFlowPlane) -> Vec<(PortReason, u32, u32)> {
    let events = plane.events().into_iter();
    let told = events.filter_map(|event| match event {
        Event::Port(told, _) => Some((told.reason, told.desc.number.0, told.desc.state)),
        _ => None,
    });
    told.collect()
}

/// Waits for an event that is wanted; others are forgotten.
fn wait_for<R>(plane: &mut OpenFlowPlane, wanted: impl Fn(Event) -> Option<R>) -> R {
    loop {
        if let Some(found) = plane.events().into_iter().find_map(&wanted) {
            return found;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_flood_stays_in_its_bridge_and_goes_on_through_a_patch() {
    for workers in [1, 2] {
        let mut bench = Bench::start(workers);
        for plane in [&mut bench.outer, &mut bench.inner] {
            add(plane, Match::default(), vec![output(NORMAL)]);
        }
        bench.send(OUTER, 1, &frame(1, 2));
        bench.expect(&[(OUTER, 2)]);
        bench.patch();
        bench.send(OUTER, 1, &frame(1, 2));
        bench.expect(&[(OUTER, 2), (INNER, 1), (INNER, 2)]);
        assert_eq!(told(&mut bench.outer), [(None, vec![output(NORMAL)], 2)]);
        assert_eq!(told(&mut bench.inner), [(None, vec![output(NORMAL)], 1)]);
        // Both bridges have learned where station 1 is.
        let stations = |switch: &mut Switch| {
            let pipeline = switch.pipeline();
            pipeline.macs().stations(pipeline.version()).count()
        };
        while bench.with(stations) < 2 {
            std::thread::yield_now();
        }
        bench.send(INNER, 2, &frame(3, 1));
        bench.expect(&[(OUTER, 1)]);
    }
}

#[test]
fn each_plane_sees_and_changes_its_own_bridge_in_its_own_numbers() {
    let mut bench = Bench::start(2);
    bench.patch();
    let via = |port: u16| vec![output(PortNumber(port.into()))];
    change(&mut bench.inner, vec![group(GroupCommand::Add, 4, 2)]).expect("it is right");
    change(&mut bench.outer, vec![group(GroupCommand::Add, 4, 1)]).expect("it is right");
    add(&mut bench.outer, in_port(1), via(PATCH[0]));
    add(&mut bench.inner, in_port(PATCH[1]), vec![Action::Group(4)]);
    add(&mut bench.inner, in_port(2), via(1));
    bench.send(OUTER, 1, &frame(1, 2));
    bench.expect(&[(INNER, 2)]);
    let port = |number: u16| Some(PortNumber(number.into()));
    assert_eq!(told(&mut bench.outer), [(port(1), via(9), 1)]);
    let mut inner = told(&mut bench.inner);
    inner.sort_by_key(|row| row.0);
    let expected = [(port(2), via(1), 0), (port(8), vec![Action::Group(4)], 1)];
    assert_eq!(inner, expected);
    assert_eq!(groups(&mut bench.outer), [(4, PortNumber(1))]);
    assert_eq!(groups(&mut bench.inner), [(4, PortNumber(2))]);
    // A filter is in the bridge's numbers.
    let request = FlowStatsRequest {
        out_port: PortNumber(1),
        ..FlowStatsRequest::all()
    };
    let found = |plane: &mut OpenFlowPlane| {
        let mut cursor = plane.flows(&request).expect("it is right");
        cursor.next(10).len()
    };
    assert_eq!((found(&mut bench.outer), found(&mut bench.inner)), (0, 1));
    // What one plane deletes is its own.
    let none = Match::default();
    let all = flow(FlowCommand::Delete, ALL_TABLES, none.clone(), Vec::new());
    let no_groups = group(GroupCommand::Delete, ALL_GROUPS, 1);
    change(&mut bench.outer, vec![all, no_groups]).expect("it is right");
    assert_eq!(dump(&mut bench.outer).len(), 0);
    assert_eq!(groups(&mut bench.outer), []);
    assert_eq!(dump(&mut bench.inner).len(), 2);
    assert_eq!(groups(&mut bench.inner), [(4, PortNumber(2))]);
    let removed = wait_for(&mut bench.outer, |event| match event {
        Event::FlowRemoved(told) => Some(told),
        _ => None,
    });
    assert_eq!(removed.matching.in_port(), port(1));
    assert_eq!(removed.counts.packets, 1);
    bench.poll();
    assert_eq!(bench.inner.events(), []);
}

#[test]
fn patches_and_groups_count_what_they_get_from_ports_and_controllers() {
    let mut bench = Bench::start(2);
    bench.patch();
    change(&mut bench.inner, vec![group(GroupCommand::Add, 4, 2)]).expect("it is right");
    add(
        &mut bench.outer,
        in_port(1),
        vec![output(PortNumber(PATCH[0].into()))],
    );
    add(&mut bench.inner, in_port(PATCH[1]), vec![Action::Group(4)]);
    bench.send(OUTER, 1, &frame(1, 2));
    bench.expect(&[(INNER, 2)]);
    let counts = |plane: &mut OpenFlowPlane, port| {
        let row = statistics(plane, PortNumber(port)).remove(0);
        let received = (row.rx_packets, row.rx_bytes);
        (received, (row.tx_packets, row.tx_bytes))
    };
    assert_eq!(counts(&mut bench.outer, 9), ((0, 0), (1, 60)));
    assert_eq!(counts(&mut bench.inner, 8), ((1, 60), (0, 0)));
    let packet_out = |port: u16, action| {
        Asked::PacketOut(PacketOut {
            buffer: None,
            metadata: in_port(port),
            actions: vec![action],
            data: Bytes::from(frame(1, 2)),
        })
    };
    let to_group = packet_out(1, Action::Group(4));
    change(&mut bench.inner, vec![to_group]).expect("it is right");
    bench.expect(&[(INNER, 2)]);
    let to_patch = packet_out(2, output(PortNumber(9)));
    change(&mut bench.outer, vec![to_patch]).expect("it is right");
    bench.expect(&[(INNER, 2)]);
    assert_eq!(counts(&mut bench.outer, 9), ((0, 0), (2, 120)));
    assert_eq!(counts(&mut bench.inner, 8), ((2, 120), (0, 0)));
    let group_counts = match bench.inner.read(Version::V15, &Request::Group(4)) {
        Ok(Reply::Group(rows)) => (rows[0].counts.packets, rows[0].buckets[0].packets),
        other => panic!("{other:?}"),
    };
    assert_eq!(group_counts, (3, 3));
}

#[test]
fn a_cursor_shows_its_version_whatever_other_planes_do() {
    let mut bench = Bench::start(1);
    let via = |port: u16| vec![output(PortNumber(port.into()))];
    for number in [1, 2] {
        add(&mut bench.inner, in_port(number), via(1));
    }
    let mut cursor = bench
        .inner
        .flows(&FlowStatsRequest::all())
        .expect("it is right");
    assert_eq!(cursor.next(1).len(), 1);
    let delete = || flow(FlowCommand::Delete, 0, Match::default(), Vec::new());
    change(&mut bench.inner, vec![delete()]).expect("it is right");
    for number in 0..20 {
        add(&mut bench.outer, in_port(number), via(1));
        change(&mut bench.outer, vec![delete()]).expect("it is right");
    }
    assert_eq!(cursor.next(10).len(), 1);
    assert_eq!(cursor.next(10).len(), 0);
}

#[test]
fn packets_reach_the_controllers_of_the_bridge_that_sends_them() {
    let mut bench = Bench::start(2);
    bench.patch();
    let via = |port: u16| vec![output(PortNumber(port.into()))];
    add(&mut bench.outer, in_port(1), via(PATCH[0]));
    let asked = vec![output(PortNumber::CONTROLLER)];
    add(&mut bench.inner, in_port(PATCH[1]), asked);
    bench.send(OUTER, 1, &frame(1, 2));
    let told = wait_for(&mut bench.inner, |event| match event {
        Event::Packet(told) => Some(told),
        _ => None,
    });
    assert_eq!(told.packet.metadata.in_port(), Some(PortNumber(8)));
    assert_eq!(told.packet.table, Some(0));
    assert_eq!(bench.outer.events(), []);
    // A packet-out goes through the tables of its bridge.
    add(&mut bench.inner, in_port(1), via(PATCH[1]));
    add(&mut bench.outer, in_port(PATCH[0]), via(2));
    let packet_out = Asked::PacketOut(PacketOut {
        buffer: None,
        metadata: in_port(1),
        actions: vec![output(PortNumber::TABLE)],
        data: Bytes::from(frame(1, 2)),
    });
    change(&mut bench.inner, vec![packet_out]).expect("it is right");
    bench.expect(&[(OUTER, 2)]);
    // Packets without a rule, where a bridge's controllers want them.
    bench.inner.want_misses(true);
    bench.send(OUTER, 2, &frame(1, 2));
    bench.send(INNER, 2, &frame(1, 2));
    let told = wait_for(&mut bench.inner, |event| match event {
        Event::Packet(told) => Some(told),
        _ => None,
    });
    assert_eq!(told.packet.metadata.in_port(), Some(PortNumber(2)));
    assert_eq!(told.max_length, None);
    assert_eq!(bench.outer.events(), []);
}

#[test]
fn ports_are_named_and_told_to_their_bridge() {
    let mut bench = Bench::start(1);
    let expected =
        |bench: &mut Bench| (port_events(&mut bench.outer), port_events(&mut bench.inner));
    let (outer, inner) = (OUTER.port(PATCH[0]), INNER.port(PATCH[1]));
    let add_patch = move |port, peer| {
        move |switch: &mut Switch| switch.add_patch(port, peer).expect("the number is free")
    };
    let added = |port| {
        let modified = (PortReason::Modify, port, state::LIVE);
        vec![(PortReason::Add, port, 0), modified]
    };
    // A patch has a link whether or not it leads anywhere.
    bench.with(add_patch(outer, Some(inner)));
    bench.poll();
    assert_eq!(expected(&mut bench), (added(9), vec![]));
    bench.with(add_patch(inner, Some(OUTER.port(99))));
    bench.poll();
    assert_eq!(expected(&mut bench), (vec![], added(8)));
    bench.with(add_patch(inner, Some(outer)));
    bench.poll();
    assert_eq!(expected(&mut bench), (vec![], vec![]));
    // A port with a device cannot have the number, and the other way.
    bench.with(move |switch| {
        assert!(switch.add_patch(OUTER.port(1), None).is_err());
        let (port, _) = MemoryPort::new(outer, 1);
        assert!(
            switch
                .attach(SwitchPort::new(outer, Box::new(port)))
                .is_err()
        );
    });
    let identity = PortIdentity {
        name: "veth7".to_owned(),
        address: Some([2, 7, 7, 7, 7, 7]),
        ..PortIdentity::default()
    };
    bench.with(move |switch| switch.set_port_identity(INNER.port(1), identity));
    bench.poll();
    let up = vec![(PortReason::Modify, 1, state::LIVE)];
    assert_eq!(expected(&mut bench), (vec![], up));
    let ports = bench.inner.ports();
    let names: Vec<&str> = ports.iter().map(|port| &*port.name).collect();
    assert_eq!(names, ["veth7", "port2", "port8"]);
    assert_eq!(ports[0].address, [2, 7, 7, 7, 7, 7]);
    assert_eq!(ports[2].address, [2, 0, 0, 2, 0, 8]);
    let numbers = |rows: Vec<PortStats>| rows.iter().map(|row| row.port.0).collect::<Vec<_>>();
    assert_eq!(
        numbers(statistics(&mut bench.inner, PortNumber::ANY)),
        [1, 2, 8]
    );
    assert_eq!(numbers(statistics(&mut bench.outer, PortNumber(9))), [9]);
    assert!(statistics(&mut bench.outer, PortNumber(8)).is_empty());
    let drops = statistics(&mut bench.inner, PortNumber::ANY);
    let drops: Vec<u64> = drops.iter().map(|row| row.tx_dropped).collect();
    assert_eq!(drops, [0, 0, u64::MAX]);
    assert!(bench.with(move |switch| switch.remove_patch(outer)));
    bench.poll();
    let gone = vec![(PortReason::Delete, 9, state::LIVE)];
    assert_eq!(expected(&mut bench), (gone, vec![]));
}

#[test]
fn a_patch_forwards_as_its_ends_are_configured() {
    let mut bench = Bench::start(1);
    bench.patch();
    let via = |port: u16| vec![output(PortNumber(port.into()))];
    let both = vec![output(PortNumber(9)), output(PortNumber(2))];
    add(&mut bench.outer, in_port(1), both);
    add(&mut bench.inner, in_port(PATCH[1]), via(1));
    let address = |plane: &OpenFlowPlane, number: u32| {
        let ports = plane.ports();
        let port = ports.iter().find(|port| port.number.0 == number);
        port.expect("it is there").address
    };
    let outer = (address(&bench.outer, 9), PortNumber(9));
    let inner = (address(&bench.inner, 8), PortNumber(8));
    let set = |plane: &mut OpenFlowPlane, (address, port), bits| {
        let asked = Asked::Port(PortMod {
            port,
            address,
            config: bits,
            mask: config::NO_FWD | config::NO_RECV | config::PORT_DOWN,
            advertise: 0,
        });
        change(plane, vec![asked]).expect("it is right");
    };
    let (whole, half) = ([(OUTER, 2), (INNER, 1)], [(OUTER, 2)]);
    for bits in [config::NO_FWD, config::PORT_DOWN, config::NO_RECV, 0] {
        set(&mut bench.outer, outer, bits);
        bench.send(OUTER, 1, &frame(1, 2));
        let passes = bits != config::NO_FWD;
        bench.expect(if passes { &whole } else { &half });
    }
    for bits in [config::NO_FWD, config::PORT_DOWN, config::NO_RECV, 0] {
        set(&mut bench.inner, inner, bits);
        bench.send(OUTER, 1, &frame(1, 2));
        let passes = bits != config::NO_RECV;
        bench.expect(if passes { &whole } else { &half });
    }
}

/// Gives the inner bridge one of each setting.
fn set_all(switch: &mut Switch) {
    let limit = TableLimit {
        rules: Some(7),
        ..TableLimit::default()
    };
    let mirror = BridgeMirror {
        id: MirrorId(0),
        sources: MirroredPorts::All,
        destinations: MirroredPorts::NONE,
        vlans: VlanSet::of([5]),
        output: MirrorOutput::Vlan(5),
        snaplen_bytes: None,
    };
    let operations = vec![
        Operation::SetForwardsBpdus(INNER, true),
        Operation::SetFragments(INNER, FragmentMode::Drop),
        Operation::SetMirrors(INNER, Mirrors::new(vec![mirror]).into()),
        Operation::LimitTable(INNER.table(3), limit.into()),
    ];
    let made = switch.apply(&Change { operations });
    made.expect("both can be set");
}

#[test]
fn nothing_is_left_of_a_bridge_that_is_removed() {
    let mut bench = Bench::start(2);
    bench.patch();
    change(&mut bench.inner, vec![group(GroupCommand::Add, 4, 2)]).expect("it is right");
    for plane in [&mut bench.outer, &mut bench.inner] {
        add(plane, Match::default(), vec![output(NORMAL)]);
    }
    bench.inner.want_misses(true);
    bench.send(OUTER, 1, &frame(1, 2));
    bench.expect(&[(OUTER, 2), (INNER, 1), (INNER, 2)]);
    bench.with(set_all);
    let before = bench.with(|switch| switch.pipeline().version());
    bench.with(|switch| switch.remove_bridge(INNER));
    bench.with(move |switch| {
        let pipeline = switch.pipeline();
        let version = pipeline.version();
        assert_eq!(pipeline.ports_of(INNER, version).count(), 0);
        assert_eq!(pipeline.groups_of(INNER, version).count(), 0);
        let stations = pipeline.macs().stations(version);
        assert_eq!(stations.filter(|known| known.0.bridge == INNER).count(), 0);
        let mut lookups = pipeline.table_counters();
        assert!(lookups.all(|(table, ..)| table.bridge() == OUTER));
        assert_eq!(*pipeline.misses(INNER, version), Default::default());
        assert!(!pipeline.forwards_bpdus(INNER, version));
        assert_eq!(pipeline.fragment_mode(INNER, version), FragmentMode::Normal);
        assert_eq!(pipeline.mirrors(INNER, version), None);
        assert_eq!(pipeline.table_limit(INNER.table(3)), None);
        assert!(version.0 > before.0);
    });
    assert_eq!(bench.inner.ports(), []);
    let refused = bench.inner.flows(&FlowStatsRequest::all());
    assert!(refused.is_err(), "its calls fail");
    assert_eq!(dump(&mut bench.outer).len(), 1);
    bench.handles.remove(&(INNER, 1));
    bench.handles.remove(&(INNER, 2));
    bench.send(OUTER, 1, &frame(1, 2));
    bench.expect(&[(OUTER, 2)]);
    // The number can be used again, and nothing of the former bridge counts.
    bench.inner = bench.with(|switch| {
        let (port, _) = MemoryPort::new(INNER.port(1), 1);
        let attached = switch.attach(SwitchPort::new(INNER.port(1), Box::new(port)));
        attached.expect("the number is free");
        switch.open_flow(INNER, OpenFlowIdentity::new(3, "again"))
    });
    assert_eq!(dump(&mut bench.inner).len(), 0);
    assert_eq!(groups(&mut bench.inner), []);
    let rows = statistics(&mut bench.inner, PortNumber::ANY);
    let counts: Vec<_> = rows
        .iter()
        .map(|row| (row.port.0, row.tx_packets))
        .collect();
    assert_eq!(counts, [(1, 0)]);
}

#[test]
fn many_planes_at_once_keep_apart() {
    let mut bench = Bench::start(1);
    let planes: Vec<OpenFlowPlane> = bench.with(|switch| {
        let bridges = (100..130).map(BridgeId);
        let open = |bridge: BridgeId| {
            let identity = OpenFlowIdentity::new(bridge.0.into(), "one of many");
            switch.open_flow(bridge, identity)
        };
        bridges.map(open).collect()
    });
    std::thread::scope(|scope| {
        for mut plane in planes {
            scope.spawn(move || {
                for port in 0..20 {
                    add(&mut plane, in_port(port), vec![output(PortNumber(1))]);
                }
                assert_eq!(dump(&mut plane).len(), 20);
            });
        }
    });
    assert_eq!(dump(&mut bench.outer).len(), 0);
    let rules = bench.with(|switch| switch.totals().rules);
    assert_eq!(rules, 600);
}

/// Port 1 of the outer bridge is a dummy, 2 is not, and 9 is a patch.
fn with_dummy() -> Bench {
    let mut bench = Bench::start(1);
    bench.patch();
    let identity = PortIdentity {
        device: PortDevice::Dummy,
        ..PortIdentity::default()
    };
    bench.with(move |switch| switch.set_port_identity(OUTER.port(1), identity));
    bench.poll();
    bench
}

#[test]
fn a_dummy_counts_what_open_vswitchs_dummies_count() {
    let mut bench = with_dummy();
    add(&mut bench.outer, in_port(1), vec![output(PortNumber(2))]);
    let packet = frame(1, 2);
    bench.send(OUTER, 1, &packet);
    bench.expect(&[(OUTER, 2)]);
    let rows = statistics(&mut bench.outer, PortNumber::ANY);
    let drops = |row: &PortStats| [row.rx_dropped, row.tx_errors, row.collisions];
    let names: Vec<_> = rows
        .iter()
        .map(|row| (row.port.0, drops(row), row.custom.len()))
        .collect();
    let not_kept = [u64::MAX; 3];
    assert_eq!(names, [(1, not_kept, 6), (2, [0; 3], 0), (9, not_kept, 0)]);
    let custom = rows[0].custom.iter();
    let custom: Vec<(&str, u64)> = custom.map(|count| (&*count.name, count.value)).collect();
    let bytes = packet.len() as u64;
    assert_eq!(
        custom,
        [
            ("rx_custom_packets_1", 1),
            ("rx_custom_packets_2", 1),
            ("rx_q0_bytes", bytes),
            ("rx_q0_packets", 1),
            ("tx_q0_bytes", 0),
            ("tx_q0_packets", 0),
        ]
    );
}

#[test]
fn a_dummy_has_one_queue_and_other_ports_have_none() {
    let mut bench = with_dummy();
    let mut ask = |port: PortNumber, queue: u32| {
        let asked = QueueRequest { port, queue };
        let told = bench.outer.read(Version::V14, &Request::Queue(asked));
        let described = bench.outer.read(Version::V14, &Request::QueueDesc(asked));
        match (told, described) {
            (Ok(Reply::Queue(told)), Ok(Reply::QueueDesc(described))) => {
                let told: Vec<_> = told
                    .iter()
                    .map(|queue| (queue.port.0, queue.queue))
                    .collect();
                let described = described.iter().map(|queue| (queue.port.0, queue.queue));
                assert_eq!(told, described.collect::<Vec<_>>());
                Ok(told)
            }
            (Err(told), Err(described)) => {
                assert_eq!(told.code, described.code);
                Err(told.code)
            }
            other => panic!("{other:?}"),
        }
    };
    let any = PortNumber::ANY;
    assert_eq!(ask(any, ALL_QUEUES), Ok(vec![(1, 0)]));
    assert_eq!(ask(any, 0), Ok(vec![(1, 0)]));
    assert_eq!(ask(any, 5), Err(ErrorCode::OFPQOFC_BAD_QUEUE));
    assert_eq!(ask(PortNumber(1), ALL_QUEUES), Ok(vec![(1, 0)]));
    assert_eq!(ask(PortNumber(1), 0), Ok(vec![(1, 0)]));
    assert_eq!(ask(PortNumber(1), 1), Err(ErrorCode::OFPQOFC_BAD_QUEUE));
    assert_eq!(ask(PortNumber(2), ALL_QUEUES), Ok(vec![]));
    assert_eq!(ask(PortNumber(2), 0), Err(ErrorCode::OFPQOFC_BAD_QUEUE));
    assert_eq!(ask(PortNumber(9), ALL_QUEUES), Ok(vec![]));
    assert_eq!(
        ask(PortNumber(3), ALL_QUEUES),
        Err(ErrorCode::OFPQOFC_BAD_PORT)
    );
    assert_eq!(ask(PortNumber(3), 0), Err(ErrorCode::OFPQOFC_BAD_PORT));
}

#[test]
fn cookies_and_flags_change_as_the_version_of_the_message_says() {
    let mut bench = Bench::start(1);
    let mut after = |version: Version, is_nicira: bool, flags: u16| {
        let mut ask = |command: FlowCommand, cookie: u64| {
            let Asked::Flow(mut asked) = flow(command, 0, in_port(1), Vec::new()) else {
                unreachable!("it is a change of flows")
            };
            asked.is_nicira = is_nicira;
            asked.new_cookie = cookie;
            asked.flags = FlowFlags(flags);
            let changes = vec![Asked::Flow(asked)];
            let transaction = Transaction { version, changes };
            let done = bench.outer.change(Arc::new([transaction]));
            assert!(done[0].is_ok(), "{done:?}");
        };
        ask(FlowCommand::Delete, 0);
        ask(FlowCommand::Add, 1);
        ask(FlowCommand::Modify, 2);
        let flows = dump(&mut bench.outer);
        (flows[0].cookie, flows[0].flags.0)
    };
    let resets = FlowFlags::RESET_COUNTS;
    // Additions of OpenFlow 1.0 and 1.1 count from zero without a word.
    assert_eq!(after(Version::V10, false, 0), (2, resets));
    assert_eq!(after(Version::V10, true, 0), (2, resets));
    assert_eq!(after(Version::V11, false, 0), (1, resets));
    assert_eq!(after(Version::V11, true, 0), (2, resets));
    assert_eq!(after(Version::V13, false, 0), (1, 0));
    assert_eq!(after(Version::V13, false, resets), (1, resets));
}

#[test]
fn a_failover_bucket_that_watches_nothing_is_alive() {
    let mut bench = Bench::start(1);
    let mut asked = vec![group(GroupCommand::Add, 1, 2)];
    let Asked::Group(mut inserted) = group(GroupCommand::InsertBucket, 1, 1) else {
        unreachable!("it is a change of groups")
    };
    inserted.command_bucket = LAST_BUCKET;
    inserted.buckets[0].id = 1;
    inserted.buckets[0].watch_port = PortNumber::ANY;
    asked.push(Asked::Group(inserted));
    change(&mut bench.outer, asked).expect("it is right");
    add(&mut bench.outer, in_port(2), vec![Action::Group(1)]);
    let down = config::PORT_DOWN;
    bench.with(move |switch| switch.set_port_config(OUTER.port(2), down, down));
    // A packet-out does not ask whether its port receives.
    let packet = PacketOut {
        buffer: None,
        metadata: in_port(2),
        actions: vec![output(PortNumber::TABLE)],
        data: Bytes::from(frame(1, 2)),
    };
    change(&mut bench.outer, vec![Asked::PacketOut(packet)]).expect("it is right");
    bench.expect(&[(OUTER, 1)]);
    let unknown = PacketOut {
        buffer: None,
        metadata: in_port(2),
        actions: vec![Action::Group(2)],
        data: Bytes::from(frame(1, 2)),
    };
    let refused = change(&mut bench.outer, vec![Asked::PacketOut(unknown)]);
    let code = refused.map_err(|failure| failure.refusal.code);
    assert_eq!(code, Err(ErrorCode::OFPBAC_BAD_OUT_GROUP));
}

#[test]
fn monitors_are_told_what_a_rule_did_before_and_that_an_addition_replaced_it() {
    let mut bench = Bench::start(1);
    bench.outer.watch_flows(true);
    let mut ask = |command: FlowCommand, port: u32| {
        let actions = vec![output(PortNumber(port))];
        let transaction = Transaction {
            version: Version::V15,
            changes: vec![flow(command, 0, in_port(1), actions)],
        };
        let mut done = bench.outer.change(Arc::new([transaction]));
        let told = done.remove(0).expect("it is right").flows.into_iter();
        let told = told.map(|event| (event.event, event.before.map(|before| before.apply)));
        told.collect::<Vec<_>>()
    };
    let to = |port: u32| Some(vec![output(PortNumber(port))]);
    assert_eq!(ask(FlowCommand::Add, 1), [(MonitorEvent::Added, None)]);
    assert_eq!(ask(FlowCommand::Add, 2), [(MonitorEvent::Added, to(1))]);
    assert_eq!(
        ask(FlowCommand::Modify, 3),
        [(MonitorEvent::Modified, to(2))]
    );
    assert_eq!(ask(FlowCommand::Delete, 0), [(MonitorEvent::Removed, None)]);
}

#[test]
fn another_plane_of_a_bridge_finds_what_the_one_before_it_was_asked_for() {
    let mut bench = Bench::start(1);
    let meter = MeterConfig {
        id: 3,
        flags: flags::PKTPS,
        bands: vec![MeterBand {
            kind: BAND_DROP,
            rate: 5,
            burst: 5,
            precedence: 0,
        }],
    };
    let addition = Asked::Meter(MeterMod {
        command: MeterCommand::Add,
        meter: meter.clone(),
    });
    for plane in [&mut bench.outer, &mut bench.inner] {
        add(plane, in_port(1), vec![output(PortNumber(2))]);
        change(
            plane,
            vec![addition.clone(), group(GroupCommand::Add, 5, 2)],
        )
        .expect("it is new");
    }
    let open = move |switch: &mut Switch| {
        [OUTER, INNER].map(|bridge| {
            switch.close_openflow(bridge);
            switch.open_flow(bridge, OpenFlowIdentity::new(9, "again"))
        })
    };
    let known = |plane: &mut OpenFlowPlane| {
        let meters = match plane.read(Version::V15, &Request::MeterConfig(u32::MAX)) {
            Ok(Reply::MeterConfig(meters)) => meters,
            other => panic!("{other:?}"),
        };
        let groups = match plane.read(Version::V15, &Request::GroupDesc(ALL_GROUPS)) {
            Ok(Reply::GroupDesc(groups)) => groups.len(),
            other => panic!("{other:?}"),
        };
        (dump(plane).len(), groups, meters)
    };
    let [outer, inner] = &mut bench.with(open);
    assert_eq!(known(outer), (1, 1, vec![meter.clone()]));
    assert_eq!(known(inner), (1, 1, vec![meter.clone()]));
    bench.with(|switch| switch.clear_bridge(INNER));
    assert_eq!(known(outer), (1, 1, vec![meter]));
    assert_eq!(known(inner), (0, 0, Vec::new()));
}
