//! Meters as controllers ask for them, on a switch with two workers.

mod memory_ports;

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_control::openflow::target::{Change as Asked, Event, Target, Transaction};
use thalweg_io::MemoryHandle;
use thalweg_openflow::action::{Action, Instructions};
use thalweg_openflow::message::flow::{FlowCommand, FlowFlags, FlowMod, FlowStatsRequest, removed};
use thalweg_openflow::message::group::ANY_GROUP;
use thalweg_openflow::message::meter::{
    ALL_METERS, BAND_DROP, BAND_DSCP_REMARK, CONTROLLER_METER, MeterBand, MeterCommand,
    MeterConfig, MeterMod, MeterStats, SLOWPATH_METER, flags,
};
use thalweg_openflow::message::packet::PacketOut;
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::message::{Reply, Request};
use thalweg_openflow::{ErrorCode, Match, Version};
use thalweg_pipeline::BridgeId;
use thalweg_switch::{OpenFlowIdentity, OpenFlowPlane, SwitchConfig};

const V13: Version = Version::V13;

/// A switch with ports 1 to 3, whose clock stands still.
struct Bench {
    plane: OpenFlowPlane,
    handles: Vec<MemoryHandle>,
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Bench {
    fn start() -> Bench {
        let config = SwitchConfig {
            workers: 2,
            ..SwitchConfig::default()
        };
        let (mut switch, handles) = memory_ports::start(config);
        switch.clock().stop();
        let plane = switch.open_flow(BridgeId(0), OpenFlowIdentity::new(1, "one"));
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                switch.poll(Duration::from_millis(5));
            }
            switch.stop();
        });
        Bench {
            plane,
            handles,
            stop,
            thread: Some(thread),
        }
    }

    fn change(&mut self, asked: Vec<Asked>) -> Result<(), ErrorCode> {
        let transaction = Transaction {
            version: V13,
            changes: asked,
        };
        let mut done = self.plane.change(Arc::new([transaction]));
        let done = done.remove(0);
        done.map(drop).map_err(|failure| failure.refusal.code)
    }

    /// Packets from a port; returns when all have been answered.
    fn send(&mut self, port: usize, packets: u64) {
        let before = self.packets();
        for _ in 0..packets {
            assert!(self.handles[port - 1].inject(&[0; 60]));
        }
        while self.packets() < before + packets {
            std::thread::yield_now();
        }
    }

    /// Packets that rules have counted.
    fn packets(&mut self) -> u64 {
        let flows = self.plane.flows(&FlowStatsRequest::all());
        let flows = flows.expect("it is right").next(100);
        flows.iter().map(|flow| flow.counts.packets).sum()
    }

    fn instructions(&mut self) -> Vec<Instructions> {
        let flows = self.plane.flows(&FlowStatsRequest::all());
        let flows = flows.expect("it is right").next(100);
        flows.into_iter().map(|flow| flow.instructions).collect()
    }

    fn statistics(&mut self, meter: u32) -> Result<Vec<MeterStats>, ErrorCode> {
        match self.plane.read(V13, &Request::Meter(meter)) {
            Ok(Reply::Meter(rows)) => Ok(rows),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.code),
        }
    }

    /// Number, users, packets and dropped packets of each meter.
    fn rows(&mut self) -> Vec<(u32, u32, u64, u64)> {
        let rows = self.statistics(ALL_METERS).expect("it is right");
        let rows = rows.iter();
        rows.map(|row| (row.id, row.flows, row.counts.packets, row.bands[0].packets))
            .collect()
    }

    /// Waits until meter 1 has measured this many packets; returns how many it dropped.
    fn dropped(&mut self, packets: u64) -> u64 {
        loop {
            let row = self.statistics(1).expect("it is there").remove(0);
            if row.counts.packets == packets {
                return row.bands[0].packets;
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn band(rate: u32, burst: u32) -> MeterBand {
    MeterBand {
        kind: BAND_DROP,
        rate,
        burst,
        precedence: 0,
    }
}

fn meter(command: MeterCommand, id: u32, flags: u16, bands: &[MeterBand]) -> Asked {
    Asked::Meter(MeterMod {
        command,
        meter: MeterConfig {
            id,
            flags,
            bands: bands.to_vec(),
        },
    })
}

fn add(id: u32, packets: u32) -> Asked {
    let bands = [band(packets, packets)];
    meter(MeterCommand::Add, id, flags::PKTPS | flags::STATS, &bands)
}

fn delete(id: u32) -> Asked {
    meter(MeterCommand::Delete, id, 0, &[])
}

fn output(port: u32) -> Action {
    Action::Output {
        port: PortNumber(port),
        max_length: 0,
    }
}

/// A rule that measures and sends.
fn rule(priority: u16, meter: u32, port: u32) -> Asked {
    Asked::Flow(Box::new(FlowMod {
        is_nicira: false,
        command: FlowCommand::Add,
        table: 0,
        new_cookie: 0,
        cookie: 0,
        cookie_mask: 0,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        priority,
        buffer: None,
        out_port: PortNumber::ANY,
        out_group: ANY_GROUP,
        flags: FlowFlags(FlowFlags::SEND_REMOVED),
        importance: 0,
        matching: Match::default(),
        instructions: Instructions {
            meter: Some(meter),
            apply: vec![output(port)],
            ..Instructions::default()
        },
    }))
}

#[test]
fn a_meter_counts_and_drops_for_all_workers() {
    let mut bench = Bench::start();
    bench
        .change(vec![add(1, 40), rule(1, 1, 3)])
        .expect("they are right");
    assert_eq!(bench.rows(), [(1, 1, 0, 0)]);
    // Ports 1 and 2 have different workers.
    for port in [1, 2, 1] {
        bench.send(port, 30);
    }
    assert_eq!(bench.dropped(90), 50);
    let row = bench.statistics(1).expect("it is there").remove(0);
    assert_eq!((row.counts.bytes, row.bands[0].bytes), (90 * 60, 50 * 60));
    // A modification fills it, and lets it count from zero.
    let bands = [band(9, 25), band(3, 0)];
    let modified = meter(MeterCommand::Modify, 1, flags::PKTPS | flags::BURST, &bands);
    bench.change(vec![modified]).expect("it is right");
    bench.send(2, 10);
    // The second band lets 3 pass.
    assert_eq!(bench.dropped(10), 0);
    let row = bench.statistics(1).expect("it is there").remove(0);
    assert_eq!(row.bands[1].packets, 7);
    let told = bench.plane.read(V13, &Request::MeterConfig(1));
    let told = told.expect("it is there");
    let expected = MeterConfig {
        id: 1,
        flags: flags::PKTPS | flags::BURST,
        bands: vec![band(9, 25), band(3, 3)],
    };
    assert_eq!(told, Reply::MeterConfig(vec![expected]));
    // As OpenFlow 1.5 has it, the meter is the first action.
    let apply = bench.instructions().remove(0).apply;
    assert_eq!(apply, [Action::Meter(1), output(3)]);
}

/// Changes refused beside a meter 1, with their errors.
fn refused() -> Vec<(Asked, ErrorCode)> {
    use MeterCommand::{Add, Modify};
    let one = [band(1, 1)];
    let remark = MeterBand {
        kind: BAND_DSCP_REMARK,
        precedence: 1,
        ..band(1, 1)
    };
    let pktps = flags::PKTPS;
    vec![
        (meter(Add, 0, pktps, &one), ErrorCode::OFPMMFC_INVALID_METER),
        (
            meter(Add, 0xffff_0001, pktps, &one),
            ErrorCode::OFPMMFC_INVALID_METER,
        ),
        (
            meter(Add, ALL_METERS, pktps, &one),
            ErrorCode::OFPMMFC_INVALID_METER,
        ),
        (
            meter(Modify, ALL_METERS, pktps, &one),
            ErrorCode::OFPMMFC_INVALID_METER,
        ),
        (meter(Add, 1, pktps, &one), ErrorCode::OFPMMFC_METER_EXISTS),
        (
            meter(Modify, 2, pktps, &one),
            ErrorCode::OFPMMFC_UNKNOWN_METER,
        ),
        (meter(Add, 2, 0, &one), ErrorCode::OFPMMFC_BAD_FLAGS),
        (
            meter(Add, 2, pktps | flags::KBPS, &one),
            ErrorCode::OFPMMFC_BAD_FLAGS,
        ),
        (meter(Add, 2, pktps, &[]), ErrorCode::OFPMMFC_OUT_OF_BANDS),
        (
            meter(Add, 2, pktps, &[band(1, 1); 9]),
            ErrorCode::OFPMMFC_OUT_OF_BANDS,
        ),
        (
            meter(Add, 2, pktps, &[band(0, 1)]),
            ErrorCode::OFPMMFC_BAD_RATE,
        ),
        (
            meter(Add, SLOWPATH_METER, pktps, &[band(1, 1), remark]),
            ErrorCode::OFPMMFC_BAD_BAND,
        ),
        (rule(1, 2, 3), ErrorCode::OFPMMFC_INVALID_METER),
        (
            rule(1, CONTROLLER_METER, 3),
            ErrorCode::OFPMMFC_INVALID_METER,
        ),
        (rule(1, 0, 3), ErrorCode::OFPMMFC_INVALID_METER),
    ]
}

#[test]
fn what_is_wrong_has_open_vswitchs_error() {
    let mut bench = Bench::start();
    bench.change(vec![add(1, 1)]).expect("it is right");
    for (asked, expected) in refused() {
        assert_eq!(
            bench.change(vec![asked.clone()]),
            Err(expected),
            "{asked:?}"
        );
    }
    let out = Asked::PacketOut(PacketOut {
        actions: vec![Action::Meter(2), output(3)],
        ..packet_out()
    });
    assert_eq!(
        bench.change(vec![out]),
        Err(ErrorCode::OFPMMFC_INVALID_METER)
    );
    assert_eq!(bench.statistics(2), Err(ErrorCode::OFPMMFC_UNKNOWN_METER));
    // A transaction is done whole or not at all, and its earlier changes count.
    assert_eq!(
        bench.change(vec![add(2, 1), rule(1, 2, 3), delete(2), rule(2, 2, 3)]),
        Err(ErrorCode::OFPMMFC_INVALID_METER)
    );
    assert_eq!(
        bench.change(vec![delete(1), add(1, 1), add(1, 1)]),
        Err(ErrorCode::OFPMMFC_METER_EXISTS)
    );
    assert_eq!(bench.rows(), [(1, 0, 0, 0)]);
    // Removing meters that do not exist is no error.
    bench
        .change(vec![delete(7), delete(0)])
        .expect("it is no error");
}

fn packet_out() -> PacketOut {
    PacketOut {
        buffer: None,
        metadata: thalweg_openflow::Match {
            conditions: vec![thalweg_openflow::Condition {
                field: thalweg_openflow::FieldId::IN_PORT_OXM,
                value: thalweg_openflow::Value::from_number(1, 4),
                mask: None,
            }],
        },
        actions: Vec::new(),
        data: vec![0; 60].into(),
    }
}

#[test]
fn rules_end_with_their_meters() {
    let mut bench = Bench::start();
    let asked = vec![
        add(1, 5),
        add(2, 5),
        add(SLOWPATH_METER, 5),
        add(CONTROLLER_METER, 5),
        rule(1, 1, 3),
        rule(2, 2, 3),
        rule(3, 2, 2),
    ];
    bench.change(asked).expect("they are right");
    let rows = bench.rows();
    let users: Vec<(u32, u32)> = rows.iter().map(|row| (row.0, row.1)).collect();
    let reserved = [(SLOWPATH_METER, 0), (CONTROLLER_METER, 0)];
    assert_eq!(users, [&[(1, 1), (2, 2)], &reserved[..]].concat());
    bench.change(vec![delete(2)]).expect("it is there");
    let mut reasons = Vec::new();
    while reasons.len() < 2 {
        let events = bench.plane.events().into_iter();
        reasons.extend(events.filter_map(|event| match event {
            Event::FlowRemoved(told) => Some(told.reason),
            _ => None,
        }));
    }
    assert_eq!(reasons, [removed::METER_DELETE; 2]);
    assert_eq!(bench.instructions().len(), 1);
    bench
        .change(vec![delete(ALL_METERS)])
        .expect("they are there");
    assert_eq!((bench.rows().len(), bench.instructions().len()), (0, 0));
}
