//! The running switch on threads, with ports in memory: the contract under traffic, and exact
//! counts.
//!
//! No test waits for time to pass; slow outcomes are polled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thalweg_datapath::{MaintainerKind, MegaflowClassifier, Mode};
use thalweg_io::{BURST, MemoryHandle, MemoryPort, Port, PortCounters, PortStatus};
use thalweg_packet::{Packet, PacketPool, PortId};
use thalweg_pipeline::{BridgeId, Change, ClassifierKind, Operation, Station, text};
use thalweg_switch::{RemovalReason, Switch, SwitchConfig, SwitchError, SwitchPort};

const ROOM: usize = 1 << 16;

/// A switch with this many ports in memory, numbered from 1.
fn start(config: SwitchConfig, count: u32) -> (Switch, Vec<MemoryHandle>) {
    let mut handles = Vec::new();
    let mut ports = Vec::new();
    for number in (1..=count).map(PortId) {
        let (port, handle) = MemoryPort::new(number, ROOM);
        ports.push(SwitchPort::new(number, Box::new(port)));
        handles.push(handle);
    }
    (Switch::start(config, ports).unwrap(), handles)
}

fn workers(workers: usize) -> SwitchConfig {
    SwitchConfig {
        workers,
        ..SwitchConfig::default()
    }
}

/// Polls until the answer is yes; panics if it takes too long.
fn eventually(what: &str, switch: &mut Switch, mut ask: impl FnMut(&mut Switch) -> bool) {
    let start = Instant::now();
    while !ask(switch) {
        assert!(start.elapsed() < Duration::from_secs(60), "in vain: {what}");
        switch.poll(Duration::from_millis(1));
    }
}

/// An IPv4 UDP packet between stations with these last bytes.
fn frame(source: u8, destination: u8, tp_dst: u16) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, source, 8, 0];
    bytes.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    bytes.extend([10, 0, 0, source, 10, 0, 0, destination]);
    bytes.extend([0x10, source]);
    bytes.extend(tp_dst.to_be_bytes());
    bytes.extend([0, 26, 0, 0]);
    bytes.resize(60, source);
    bytes
}

fn rules(text: &str) -> Change {
    text::parse_rules("test", text).unwrap().into_change()
}

/// Rules that all carry the same number: in a source address, and in the output port.
fn numbered(number: u32) -> Change {
    let (high, low, port) = (number >> 8, number & 0xff, 5 + number % 4);
    // Some need fields that the layout lacks, so that workers must be held.
    let extra = match number {
        20 => "priority=9,tcp,tcp_flags=+syn,actions=drop\n",
        40 => "priority=9,ipv6,ipv6_src=fd00::1,actions=drop\n",
        60 => "priority=9,dl_vlan=7,actions=drop\n",
        _ => "",
    };
    let mut text = String::from(extra);
    for tp_src in [1, 2, 3] {
        text += &format!(
            "priority={tp_src},udp,tp_dst={tp_src},actions=mod_dl_src:02:00:00:00:{high:02x}:{low:02x},output:{port}\n",
        );
    }
    rules(&text)
}

/// The number in every packet at the sinks; the port must agree.
fn collect(sinks: &[MemoryHandle]) -> Vec<u32> {
    let mut numbers = Vec::new();
    for (index, sink) in sinks.iter().enumerate() {
        for packet in sink.collect() {
            let bytes = packet.bytes();
            let number = u32::from(bytes[10]) << 8 | u32::from(bytes[11]);
            assert_eq!(number % 4, index as u32, "one packet, one version");
            numbers.push(number);
        }
    }
    numbers
}

/// Keeps the ports fed until told to stop; returns the number of packets.
fn feed(sources: &[MemoryHandle], stop: &AtomicBool) -> u64 {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        for (index, source) in sources.iter().enumerate() {
            if source.waiting() < 100 {
                for tp_dst in 1..=3 {
                    count += u64::from(source.inject(&frame(index as u8, 9, tp_dst)));
                }
            }
        }
        std::thread::yield_now();
    }
    count
}

fn changes_under_traffic(workers_count: usize, mode: Mode, maintainer: MaintainerKind) {
    let mut config = workers(workers_count);
    (config.datapath.mode, config.datapath.maintainer) = (mode, maintainer);
    let (mut switch, ports) = start(config, 8);
    let (sources, sinks) = ports.split_at(4);
    switch.apply(&numbered(1)).unwrap();
    let stop = AtomicBool::new(false);
    let mut forwarded = 0;
    let injected = std::thread::scope(|scope| {
        let feeder = scope.spawn(|| feed(sources, &stop));
        for number in 2..=80 {
            forwarded += collect(sinks).len();
            switch.apply(&numbered(number)).unwrap();
            // Packets sent while the change was made.
            let during = collect(sinks);
            assert!(
                during
                    .iter()
                    .all(|seen| *seen == number || *seen == number - 1)
            );
            forwarded += during.len();
            let mut after = Vec::new();
            eventually("packets by the new rules", &mut switch, |_| {
                after.extend(collect(sinks));
                after.len() > 100
            });
            assert!(
                after.iter().all(|seen| *seen == number),
                "{number}: {after:?}"
            );
            forwarded += after.len();
        }
        stop.store(true, Ordering::Relaxed);
        feeder.join().unwrap()
    });
    eventually("all is received", &mut switch, |_| {
        sources.iter().all(|source| source.waiting() == 0)
    });
    let totals = switch.stop();
    forwarded += collect(sinks).len();
    assert_eq!(totals.datapath.packets, injected);
    assert_eq!(
        totals.drops().values().sum::<u64>(),
        injected - forwarded as u64
    );
    let refused = totals.workers.exchange_refused;
    assert_eq!(
        totals.drops().values().sum::<u64>(),
        refused,
        "{:?}",
        totals.drops()
    );
    let pipeline = switch.pipeline();
    let rules = pipeline.rules(pipeline.version());
    let last = rules.map(|(_, rule)| rule.counters.packets).sum::<u64>();
    assert!(0 < last && last <= injected);
    let (_, lookups, matches) = pipeline.table_counters().next().unwrap();
    assert_eq!((lookups, matches), (injected, injected));
}

#[test]
fn acknowledged_means_followed_by_one_worker() {
    for maintainer in MaintainerKind::STRICT {
        changes_under_traffic(1, Mode::Megaflows, maintainer);
    }
    changes_under_traffic(1, Mode::ComputationalFlows, MaintainerKind::Incremental);
}

#[test]
fn acknowledged_means_followed_by_all_of_three_workers() {
    for maintainer in MaintainerKind::STRICT {
        changes_under_traffic(3, Mode::Megaflows, maintainer);
    }
    changes_under_traffic(3, Mode::ComputationalFlows, MaintainerKind::Incremental);
}

/// Like [`numbered`], but with a rule for each of some thousand hosts.
fn numbered_hosts(number: u32) -> Change {
    let (high, low, port) = (number >> 8, number & 0xff, 5 + number % 4);
    let rules_of = (0..HOSTS).map(|host| {
        let (net, host, priority) = (host >> 8, host & 0xff, 1 + host % 7);
        format!(
            "priority={priority},ip,nw_dst=10.0.{net}.{host},actions=mod_dl_src:02:00:00:00:{high:02x}:{low:02x},output:{port}\n",
        )
    });
    rules(&rules_of.collect::<String>())
}

const HOSTS: u32 = 3_000;

struct StopsAtEnd<'a>(&'a AtomicBool);

impl Drop for StopsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Trainings of the only table begun and installed, and the share of the rules in its model.
fn learning(switch: &Switch) -> (u64, u64, f64) {
    let choices = switch.pipeline().choices();
    let [(_, choice)] = &choices[..] else {
        panic!("one table learns: {choices:?}");
    };
    (choice.trials, choice.replaced, choice.figures.coverage)
}

/// A thread trains tables again and again while packets pass and all rules change: the
/// contract holds before, during and after. However changes and trainings interleave, once
/// changes stop, the model soon has the rules.
#[test]
fn tables_that_learn_are_right_while_they_are_trained() {
    for mode in Mode::ALL {
        let mut config = workers(2);
        config.pipeline.classifier = ClassifierKind::Learned;
        config.datapath.mode = mode;
        // Most packets are answered by the tables.
        config.datapath.microflow.entries = 64;
        config.datapath.megaflow.entries = 64;
        let (mut switch, ports) = start(config, 8);
        let (sources, sinks) = ports.split_at(4);
        switch.apply(&numbered_hosts(1)).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // However this ends.
            let _stops = StopsAtEnd(&stop);
            scope.spawn(|| feed_hosts(sources, &stop));
            let mut number = 1;
            while learning(&switch).1 < 3 {
                number += 1;
                assert!(
                    number < 100,
                    "rules that change wholly are to be trained anew"
                );
                let (before, ..) = learning(&switch);
                switch.apply(&numbered_hosts(number)).unwrap();
                collect(sinks);
                let mut after = Vec::new();
                eventually("packets by the new rules", &mut switch, |switch| {
                    after.extend(collect(sinks));
                    let (begun, _, coverage) = learning(switch);
                    // Every other change interrupts the training caused by the one before.
                    let is_met = number % 2 == 1 && begun > before;
                    after.len() > 2_000 && (is_met || coverage > 0.9)
                });
                assert!(after.iter().all(|seen| *seen == number), "{number}");
            }
        });
        assert!(switch.totals().training.done >= 3);
    }
}

/// Keeps the ports fed with packets to all hosts in turn until told to stop.
fn feed_hosts(sources: &[MemoryHandle], stop: &AtomicBool) {
    let mut host = 0;
    while !stop.load(Ordering::Relaxed) {
        for source in sources {
            if source.waiting() < 100 {
                host = (host + 1) % HOSTS;
                let mut bytes = frame(1, 2, 3);
                bytes[32..34].copy_from_slice(&(host as u16).to_be_bytes());
                source.inject(&bytes);
            }
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_refused_change_changes_nothing_even_if_it_needs_a_layout() {
    let (mut switch, ports) = start(workers(2), 2);
    switch.apply(&rules("in_port=1,actions=output:2")).unwrap();
    let version = switch.pipeline().version();
    let refused = switch.apply(&rules("tcp,tcp_flags=+syn,actions=group:7"));
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("group 7 does not exist"), "{error}");
    assert_eq!(switch.pipeline().version(), version);
    ports[0].inject(&frame(1, 2, 3));
    eventually("the packet", &mut switch, |_| ports[1].collect().len() == 1);
}

#[test]
fn counts_are_exact_while_the_switch_runs() {
    let (mut switch, ports) = start(workers(2), 3);
    let flows = "priority=3,udp,tp_dst=1,actions=output:2\n\
                 priority=2,udp,tp_dst=2,actions=output:2,output:3\n\
                 priority=1,udp,tp_dst=3,actions=drop";
    switch.apply(&rules(flows)).unwrap();
    for round in 1..=4_u64 {
        for tp_dst in [1, 2, 2, 3, 3, 3, 4, 4, 4, 4] {
            ports[0].inject(&frame(1, 2, tp_dst));
        }
        eventually("all packets", &mut switch, |switch| {
            switch.totals().datapath.packets == 10 * round
        });
        let counts = |switch: &Switch| {
            let pipeline = switch.pipeline();
            let rules = pipeline.rules(pipeline.version());
            let mut counts: Vec<_> = rules
                .map(|(_, rule)| (rule.precedence.priority(), rule.counters.packets))
                .collect();
            counts.sort_unstable();
            counts
        };
        switch.totals();
        assert_eq!(
            counts(&switch),
            [(1, 3 * round), (2, 2 * round), (3, round)]
        );
        let totals = switch.totals();
        let drops: Vec<_> = totals.drops().into_iter().collect();
        assert_eq!(drops, [("action", 3 * round), ("table_miss", 4 * round)]);
        eventually("what is to be sent", &mut switch, |switch| {
            let sent = switch.totals().ports;
            let sent: Vec<_> = sent.iter().map(|port| port.counters.sent_packets).collect();
            sent == [0, 3 * round, 2 * round]
        });
    }
    let flow = "priority=2,udp,tp_dst=2,actions=output:3";
    let selector = text::Parser::new().parse_operation(&format!("modify_strict {flow}"));
    switch.apply(&Change::one(selector.unwrap())).unwrap();
    let pipeline = switch.pipeline();
    let counted = pipeline.rules(pipeline.version());
    let packets: u64 = counted.map(|(_, rule)| rule.counters.packets).sum();
    assert_eq!(packets, 24, "a modified rule keeps its counts");
}

#[test]
fn stations_are_learned_by_all_workers() {
    let (mut switch, ports) = start(workers(2), 3);
    switch.apply(&rules("actions=normal")).unwrap();
    let sent = |ports: &[MemoryHandle]| -> Vec<usize> {
        ports.iter().map(|port| port.collect().len()).collect()
    };
    for _ in 0..50 {
        ports[0].inject(&frame(1, 2, 3));
    }
    let station = Station {
        bridge: BridgeId::default(),
        vlan: 0,
        mac: 0x0200_0000_0001,
    };
    let is_at = |switch: &Switch, port: u32| {
        let pipeline = switch.pipeline();
        pipeline.station(station, pipeline.version()) == Some(PortId(port))
    };
    eventually("it is learned", &mut switch, |switch| is_at(switch, 1));
    eventually("they are flooded", &mut switch, |switch| {
        switch.totals().datapath.packets == 50
    });
    let mut flooded = vec![0; 3];
    eventually("all copies", &mut switch, |_| {
        for (sum, count) in flooded.iter_mut().zip(sent(&ports)) {
            *sum += count;
        }
        flooded == [0, 50, 50]
    });
    ports[1].inject(&frame(2, 1, 3));
    let totals = {
        eventually("the answer", &mut switch, |switch| {
            switch.totals().datapath.packets == 51
        });
        eventually("the way back", &mut switch, |_| {
            ports[0].collect().len() == 1
        });
        switch.totals()
    };
    assert_eq!(sent(&ports), [0, 0, 0], "nobody else gets it");
    assert!(totals.own_changes <= 4, "a flood is no storm: {totals:?}");
    // The station moves, and comes back at once.
    ports[2].inject(&frame(1, 2, 3));
    eventually("it has moved", &mut switch, |switch| is_at(switch, 3));
    ports[0].inject(&frame(1, 2, 3));
    eventually("it is back", &mut switch, |switch| is_at(switch, 1));
}

/// Two workers teach at once: no more rules than the bound allows, and none is lost.
#[test]
fn a_bound_on_learned_rules_is_exact_for_several_workers() {
    let (mut switch, ports) = start(workers(2), 2);
    let flows = "table=0,actions=learn(table=1,limit=40,cookie=0x5,delete_learned,\
                 NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],result_dst=reg0[0]),resubmit(,2)\n\
                 table=2,reg0=1,actions=output:1\ntable=2,reg0=0,actions=output:2";
    switch.apply(&rules(flows)).unwrap();
    for source in 0..100 {
        ports[usize::from(source % 2)].inject(&frame(source, 200, 3));
    }
    eventually("all is learned", &mut switch, |switch| {
        let totals = switch.totals();
        totals.datapath.packets == 100 && totals.learning.learned == 40
    });
    let totals = switch.totals();
    assert_eq!(totals.rules, 3 + 40);
    assert_eq!(totals.workers.rules_over_limit, 60);
    // Those that were learned are refreshed; there is no room for the others.
    let version = totals.version;
    for source in 0..100 {
        ports[usize::from(source % 2)].inject(&frame(source, 200, 3));
    }
    eventually("all came again", &mut switch, |switch| {
        switch.totals().datapath.packets == 200
    });
    let totals = switch.totals();
    assert_eq!((totals.rules, totals.version), (43, version));
    assert_eq!(totals.workers.rules_over_limit, 120);
    // All go with the rule that learned them.
    let operation = text::Parser::new().parse_operation("delete table=0");
    switch.apply(&Change::one(operation.unwrap())).unwrap();
    let totals = switch.totals();
    assert_eq!((totals.rules, totals.learning.forgotten), (2, 1));
}

#[test]
fn timeouts_end_rules_and_say_what_they_have_seen() {
    let (mut switch, ports) = start(workers(2), 2);
    let flows = "hard_timeout=1,send_flow_rem,priority=2,udp,tp_dst=1,actions=output:2\n\
                 idle_timeout=1,send_flow_rem,priority=1,udp,tp_dst=2,actions=output:2";
    switch.apply(&rules(flows)).unwrap();
    for tp_dst in [1, 2, 2] {
        ports[0].inject(&frame(1, 2, tp_dst));
    }
    let mut removals = Vec::new();
    eventually("both rules end", &mut switch, |switch| {
        removals.extend(switch.take_removals());
        removals.len() == 2
    });
    removals.sort_by_key(|removal| removal.flow.priority);
    let seen = removals
        .iter()
        .map(|removal| (removal.reason, removal.counters.packets));
    let expected = [
        (RemovalReason::IdleTimeout, 2),
        (RemovalReason::HardTimeout, 1),
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    assert_eq!(switch.totals().rules, 0);
}

#[test]
fn ports_go_down_and_come_back_and_finish() {
    let (mut switch, ports) = start(workers(2), 2);
    let is_up = |switch: &Switch| {
        let pipeline = switch.pipeline();
        let port = pipeline.port(PortId(2), pipeline.version());
        port.is_some_and(|state| state.is_up)
    };
    assert!(is_up(&switch));
    ports[1].set_up(false);
    eventually("it is down", &mut switch, |switch| !is_up(switch));
    ports[1].set_up(true);
    eventually("it is up", &mut switch, |switch| is_up(switch));
    ports[0].finish();
    ports[1].finish();
    eventually("both have finished", &mut switch, |switch| {
        switch.is_finished()
    });
    assert!(is_up(&switch), "a finished port can send");
}

#[test]
fn packets_for_the_controller_arrive_or_are_counted() {
    let config = SwitchConfig {
        packet_ins: 4,
        ..workers(1)
    };
    let (mut switch, ports) = start(config, 1);
    let to_controller = "actions=controller(max_len=20,userdata=0a.0b.0c)";
    switch.apply(&rules(to_controller)).unwrap();
    for source in 0..10 {
        ports[0].inject(&frame(source, 2, 3));
    }
    eventually("all is received", &mut switch, |switch| {
        switch.totals().datapath.packets == 10
    });
    let totals = switch.totals();
    let packets = switch.take_packet_ins();
    assert_eq!(packets.len() as u64, totals.workers.packet_ins);
    assert_eq!(
        totals.workers.packet_ins + totals.workers.packet_ins_refused,
        10
    );
    assert!(packets.len() >= 4);
    assert_eq!(
        (packets[0].in_port, packets[0].bytes.len()),
        (PortId(1), 20)
    );
    let notice = &packets[0].notice;
    assert_eq!(*notice.userdata, [10, 11, 12]);
    assert_eq!(notice.total_len_bytes, frame(0, 2, 3).len());
}

#[test]
fn what_other_workers_have_no_room_for_is_counted() {
    let config = SwitchConfig {
        exchange_packets: 0,
        ..workers(2)
    };
    let (mut switch, ports) = start(config, 3);
    // Port 3 is at the same worker as port 1, port 2 is not, port 9 does not exist.
    switch
        .apply(&rules("actions=output:3,output:2,output:9"))
        .unwrap();
    let state = thalweg_pipeline::PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    switch
        .apply(&Change::one(Operation::SetPort(PortId(9), state)))
        .unwrap();
    for _ in 0..7 {
        ports[0].inject(&frame(1, 2, 3));
    }
    let mut sent = 0;
    eventually("all is sent", &mut switch, |_| {
        sent += ports[2].collect().len();
        sent == 7
    });
    eventually("all is counted", &mut switch, |switch| {
        switch.totals().drops().get("no_such_port") == Some(&7)
    });
    assert_eq!(switch.totals().drops().get("exchange_full"), Some(&7));
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let refuse = |config: SwitchConfig, numbers: &[u32]| {
        let ports = numbers.iter().map(|number| {
            let (port, _) = MemoryPort::new(PortId(*number), 1);
            SwitchPort::new(PortId(*number), Box::new(port))
        });
        Switch::start(config, ports.collect()).err().unwrap()
    };
    assert!(matches!(refuse(workers(0), &[1]), SwitchError::NoWorkers));
    let error = refuse(workers(1), &[1, 2, 1]).to_string();
    assert_eq!(error, "two ports have number 1; give each its own");
    let config = SwitchConfig {
        packets_per_worker: 100,
        ..workers(1)
    };
    assert!(
        refuse(config, &[1])
            .to_string()
            .contains("128 are the least")
    );
}

/// Both workers' megaflows are trained elsewhere, at least once each, and used before, between
/// and after changes.
#[test]
fn megaflows_of_workers_are_trained_by_the_control_side() {
    const FLOWS: u16 = 2_500;
    let mut config = workers(2);
    // All packets of a round may wait for one worker's port at once.
    (config.exchange_packets, config.packets_per_worker) = (1 << 13, 1 << 13);
    config.datapath.microflow.entries = 0;
    config.datapath.megaflow.classifier = MegaflowClassifier::Learned;
    let (mut switch, ports) = start(config, 5);
    let to = |port: u32| {
        let rule = |flow: u16| format!("udp,tp_dst={flow},actions=output:{port}\n");
        rules(&(1..=FLOWS).map(rule).collect::<String>())
    };
    switch.apply(&to(3)).unwrap();
    let mut sent = 0;
    for round in 0..6_u64 {
        let sink = 3 + round / 2 % 3;
        for flow in 1..=FLOWS {
            for source in &ports[..2] {
                assert!(source.inject(&frame(1, 2, flow)));
                sent += 1;
            }
        }
        eventually("all packets", &mut switch, |switch| {
            switch.totals().datapath.packets == sent
        });
        let before = switch.totals().datapath;
        assert_eq!(before.upcalls, before.megaflow.misses);
        if round == 0 {
            eventually("trainings", &mut switch, |switch| {
                switch.totals().datapath.trainings >= 2
            });
        }
        let mut received = 0;
        eventually("what was sent", &mut switch, |_| {
            received += ports[sink as usize - 1].collect().len();
            received == 2 * usize::from(FLOWS)
        });
        if round % 2 == 1 {
            // The same packets come again after the change.
            switch.apply(&to(3 + (round as u32 / 2 + 1) % 3)).unwrap();
        }
    }
    let totals = switch.stop();
    assert!(totals.datapath.megaflow.hits >= u64::from(FLOWS) * 2);
    assert!(totals.datapath.lookups.learned > 0);
}

/// A port that can be deleted like an interface, and holds packets of the pool.
struct Unplugged {
    inner: MemoryPort,
    is_gone: Arc<AtomicBool>,
    held: Vec<Packet>,
    drops: Arc<AtomicBool>,
}

impl Unplugged {
    fn new(inner: MemoryPort) -> Unplugged {
        Unplugged {
            inner,
            is_gone: Arc::default(),
            held: Vec::new(),
            drops: Arc::default(),
        }
    }
}

impl Port for Unplugged {
    fn receive(
        &mut self,
        pool: &mut PacketPool,
        burst: &mut Vec<Packet>,
        now: thalweg_packet::Instant,
    ) {
        let wanted = BURST - self.held.len();
        pool.take_burst(&mut self.held, wanted);
        self.inner.receive(pool, burst, now);
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        self.inner.send(pool, burst);
    }

    fn status(&mut self) -> PortStatus {
        match self.is_gone.load(Ordering::Relaxed) {
            true => PortStatus::Gone,
            false => PortStatus::Up,
        }
    }

    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }

    fn close(&mut self, pool: &mut PacketPool) {
        pool.put_burst(&mut self.held);
    }
}

impl Drop for Unplugged {
    fn drop(&mut self) {
        self.drops.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_port_that_is_gone_is_closed_and_another_takes_its_number() {
    for workers_count in [1, 2] {
        let config = SwitchConfig {
            packets_per_worker: 8 * BURST,
            ..workers(workers_count)
        };
        let (mut switch, ports) = start(config, 2);
        switch
            .apply(&rules(
                "in_port=1,actions=output:3\nin_port=3,actions=output:1",
            ))
            .unwrap();
        let mut sent = 0;
        // More rounds than the pool has bursts, so that no burst may be lost.
        for round in 0..24_u64 {
            let (inner, handle) = MemoryPort::new(PortId(3), ROOM);
            let port = Unplugged::new(inner);
            let (is_gone, drops) = (port.is_gone.clone(), port.drops.clone());
            assert!(!switch.has_port(PortId(3)));
            switch
                .attach(SwitchPort::new(PortId(3), Box::new(port)))
                .unwrap();
            assert!(switch.has_port(PortId(3)));
            ports[0].inject(&frame(1, 2, 3));
            handle.inject(&frame(2, 1, 3));
            let (mut there, mut back) = (0, 0);
            eventually("both ways", &mut switch, |_| {
                there += handle.collect().len();
                back += ports[0].collect().len();
                (there, back) == (1, 1)
            });
            sent += 1;
            if round % 4 > 0 {
                assert!(switch.detach(PortId(3)) && !switch.detach(PortId(3)));
            } else {
                is_gone.store(true, Ordering::Relaxed);
                eventually("it is gone", &mut switch, |switch| {
                    !switch.has_port(PortId(3))
                });
            }
            assert!(drops.load(Ordering::Relaxed), "it is closed by then");
        }
        // No port has the number now, and the pipeline knows.
        ports[0].inject(&frame(1, 2, 3));
        eventually("the last is received", &mut switch, |switch| {
            switch.totals().datapath.packets == 2 * sent + 1
        });
        let totals = switch.stop();
        let port = |number| {
            let mut ports = totals.ports.iter();
            ports.find(|port| port.number == PortId(number)).unwrap()
        };
        let counts = |number| {
            let PortCounters {
                received_packets,
                sent_packets,
                ..
            } = port(number).counters;
            (received_packets, sent_packets, port(number).status)
        };
        assert_eq!(counts(1), (sent + 1, sent, PortStatus::Up));
        assert_eq!(counts(3), (sent, sent, PortStatus::Gone));
        let plugs = totals.plugs;
        assert_eq!((plugs.attached, plugs.detached, plugs.gone), (24, 24, 6));
        assert_eq!(totals.workers.no_such_port, 0);
        let drops = totals.drops();
        assert_eq!(drops.values().sum::<u64>(), 1, "{drops:?}");
    }
}

#[test]
fn ports_come_whatever_the_packets_and_numbers_are_not_given_twice() {
    let config = |packets_per_worker| SwitchConfig {
        workers: 2,
        packets_per_worker,
        ..SwitchConfig::default()
    };
    let few = Switch::start(config(4 * BURST - 1), Vec::new());
    let error = few.unwrap_err().to_string();
    assert!(
        error.contains("127 packets for each worker are too few; 128 are the least"),
        "{error}"
    );
    let (mut switch, _) = start(config(4 * BURST), 1);
    let mut attach = |number| {
        let (port, _) = MemoryPort::new(PortId(number), 1);
        switch.attach(SwitchPort::new(PortId(number), Box::new(port)))
    };
    assert!(matches!(attach(1), Err(SwitchError::DuplicatePort { .. })));
    for number in 2..=300 {
        attach(number).unwrap();
    }
    assert!(switch.detach(PortId(1)));
    // The place that is free again.
    let (port, wire) = MemoryPort::new(PortId(301), 1);
    switch
        .attach(SwitchPort::new(PortId(301), Box::new(port)))
        .unwrap();
    let sent = "in_port=301,actions=output:300";
    switch.apply(&rules(sent)).unwrap();
    assert!(wire.inject(&[0; 60]));
    let sent = |switch: &mut Switch| {
        let ports = switch.totals().ports;
        let port = ports.iter().find(|port| port.number == PortId(300));
        port.expect("it is there").counters.sent_packets
    };
    while sent(&mut switch) == 0 {
        switch.poll(Duration::from_millis(1));
    }
    let numbers: Vec<u32> = switch
        .stop()
        .ports
        .iter()
        .map(|port| port.number.0)
        .collect();
    assert_eq!(numbers, (1..=301).collect::<Vec<u32>>());
}

#[test]
fn limits_change_while_packets_pass() {
    let (mut switch, _) = start(workers(2), 2);
    switch.set_limits(2, 1, 1);
    switch
        .apply(&rules("tcp,actions=drop\nudp,actions=drop"))
        .unwrap();
    let more = rules("arp,actions=drop");
    assert!(switch.apply(&more).is_err());
    switch.set_limits(3, 1, 1);
    switch.apply(&more).unwrap();
    // Existing rules stay.
    switch.set_limits(1, 0, 0);
    assert_eq!(switch.totals().rules, 3);
    assert!(switch.apply(&rules("icmp,actions=drop")).is_err());
    let group = text::parse_groups("test", "group_id=1,type=all,bucket=output:1").unwrap();
    assert!(
        switch
            .apply(&Change::one(Operation::SetGroup(group[0].clone())))
            .is_err()
    );
}
