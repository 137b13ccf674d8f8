//! Workers at full rate, with large caches, while changes affect hundreds of their entries at
//! once.
//!
//! Each rule of table 0 is for one destination, each of table 1 for one source. Each writes
//! into the packet the number of the change that last wrote the rule. So there is an entry for
//! each pair, and a change of some rules affects all entries of their rows. The ports never
//! run dry, and check every packet sent:
//!
//! 1. after a change is acknowledged, no packet has a number from before it;
//! 2. a packet's two numbers are those of one version.
//!
//! No test waits for time to pass; durations are only printed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_datapath::MaintainerKind;
use thalweg_io::{Port, PortCounters, PortStatus};
use thalweg_packet::{BURST, Packet, PacketPool, PortId};
use thalweg_pipeline::{Change, Operation, text};
use thalweg_switch::{Switch, SwitchConfig, SwitchPort};

/// Number of rules of table 0 and of table 1; an entry for each pair.
const ROWS: [usize; 2] = [100, 200];

/// Rules of each table that one change writes, and changes in a run.
const WRITTEN: [usize; 2] = [2, 3];
const CHANGES: u16 = 40;

/// Least packets between two changes.
const PACKETS: u64 = 500;

/// The rules at each version, and what the ports have seen.
struct World {
    /// By table and rule: the changes that have written it, in order.
    written: RwLock<[Vec<Vec<u16>>; 2]>,
    /// The last acknowledged change.
    acknowledged: AtomicUsize,
    is_over: AtomicBool,
    received: AtomicU64,
    sent: AtomicU64,
    /// Packets that violated property 1 or 2.
    stale: AtomicU64,
    mixed: AtomicU64,
}

impl World {
    fn new() -> World {
        World {
            written: RwLock::new(ROWS.map(|rows| vec![vec![1]; rows])),
            acknowledged: AtomicUsize::new(1),
            is_over: AtomicBool::new(false),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            mixed: AtomicU64::new(0),
        }
    }

    /// Checks a packet that leaves.
    fn look(&self, written: &[Vec<Vec<u16>>; 2], bytes: &[u8]) {
        let number = |place: usize| u16::from_be_bytes([bytes[place], bytes[place + 1]]);
        let rows = [bytes[33], bytes[29]].map(usize::from);
        let seen = [number(10), number(4)];
        let at = |version: u16| {
            [0, 1].map(|table: usize| {
                let changes = written[table][rows[table]].iter();
                *changes
                    .take_while(|change| **change <= version)
                    .last()
                    .expect("the first")
            })
        };
        // At the newer of the two changes, both rules must have had these numbers.
        let version = seen[0].max(seen[1]);
        if at(version) != seen {
            self.mixed.fetch_add(1, Ordering::Relaxed);
        }
        let acknowledged = self.acknowledged.load(Ordering::SeqCst) as u16;
        if at(version.max(acknowledged)) != seen {
            self.stale.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A port that always has packets if it is a source, and checks each packet sent.
struct BusyPort {
    number: PortId,
    is_source: bool,
    world: Arc<World>,
    random: Pcg64Mcg,
    template: Vec<u8>,
}

impl Port for BusyPort {
    fn receive(
        &mut self,
        pool: &mut PacketPool,
        burst: &mut Vec<Packet>,
        now: thalweg_packet::Instant,
    ) {
        if !self.is_source || self.world.is_over.load(Ordering::SeqCst) {
            return;
        }
        let first = burst.len();
        pool.take_burst(burst, BURST);
        for packet in &mut burst[first..] {
            self.template[29] = self.random.random_range(0..ROWS[1]) as u8;
            self.template[33] = self.random.random_range(0..ROWS[0]) as u8;
            packet.fill(&self.template);
            packet.set_received(self.number, now);
        }
        let count = burst.len() - first;
        self.world
            .received
            .fetch_add(count as u64, Ordering::SeqCst);
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        let written = self.world.written.read().expect("nobody panics");
        for packet in burst.iter() {
            self.world.look(&written, packet.bytes());
        }
        self.world
            .sent
            .fetch_add(burst.len() as u64, Ordering::SeqCst);
        pool.put_burst(burst);
    }

    fn status(&mut self) -> PortStatus {
        PortStatus::Up
    }

    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }
}

/// An IPv4 packet; the last byte of each address names its rule.
fn template() -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 8, 0];
    bytes.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 99, 0, 0]);
    bytes.extend([10, 0, 0, 0, 10, 0, 1, 0]);
    bytes.resize(60, 0);
    bytes
}

/// The rule of a table with the number of a change. Ports 3 and 4 belong to two workers.
fn rule(table: usize, row: usize, change: u16) -> Operation {
    let (high, low) = (change >> 8, change & 0xff);
    let text = match table {
        0 => format!(
            "table=0,ip,nw_dst=10.0.1.{row},actions=mod_dl_src:02:00:00:00:{high:02x}:{low:02x},resubmit(,1)"
        ),
        _ => format!(
            "table=1,ip,nw_src=10.0.0.{row},actions=mod_dl_dst:02:00:00:00:{high:02x}:{low:02x},output:{}",
            3 + row % 2
        ),
    };
    Operation::Add(text::parse_flow(&text).expect("it is right"))
}

struct Run {
    world: Arc<World>,
    switch: Switch,
    random: Pcg64Mcg,
}

impl Run {
    fn new(workers: usize, slice: usize, maintainer: MaintainerKind) -> Run {
        let world = Arc::new(World::new());
        let ports = (1..=4).map(|number| {
            let port = BusyPort {
                number: PortId(number),
                is_source: number as usize <= workers,
                world: world.clone(),
                random: Pcg64Mcg::seed_from_u64(number.into()),
                template: template(),
            };
            SwitchPort::new(PortId(number), Box::new(port))
        });
        let mut config = SwitchConfig {
            workers,
            packet_bytes: 64,
            ..SwitchConfig::default()
        };
        config.datapath.slice = slice;
        config.datapath.maintainer = maintainer;
        let rules = (0..2).flat_map(|table| (0..ROWS[table]).map(move |row| rule(table, row, 1)));
        let rules = Change {
            operations: rules.collect(),
        };
        let switch = Switch::start_with(config, ports.collect(), &rules);
        Run {
            world,
            switch: switch.expect("it starts"),
            random: Pcg64Mcg::seed_from_u64(slice as u64),
        }
    }

    /// A bundle that writes some rules of both tables.
    fn change(&mut self, number: u16) {
        let mut operations = Vec::new();
        {
            let mut written = self.world.written.write().expect("nobody panics");
            for table in 0..2 {
                for _ in 0..WRITTEN[table] {
                    let row = self.random.random_range(0..ROWS[table]);
                    if written[table][row].last() != Some(&number) {
                        written[table][row].push(number);
                        operations.push(rule(table, row, number));
                    }
                }
            }
        }
        let applied = self.switch.apply(&Change { operations });
        applied.expect("it is right");
        let acknowledged = &self.world.acknowledged;
        acknowledged.store(number.into(), Ordering::SeqCst);
    }

    fn wait(&mut self, what: &str, mut is_there: impl FnMut(&mut Run) -> bool) {
        let start = Instant::now();
        while !is_there(self) {
            assert!(start.elapsed() < Duration::from_secs(60), "in vain: {what}");
            self.switch.poll(Duration::from_millis(1));
        }
    }

    fn wait_for_packets(&mut self, count: u64) {
        let until = self.world.sent.load(Ordering::SeqCst) + count;
        self.wait("packets", |run| {
            run.world.sent.load(Ordering::SeqCst) >= until
        });
    }
}

fn changes_at_full_rate(workers: usize, slice: usize, maintainer: MaintainerKind) {
    let mut run = Run::new(workers, slice, maintainer);
    let entries = workers * ROWS[0] * ROWS[1];
    run.wait("full caches", |run| {
        run.switch.totals().megaflows == entries
    });
    for number in 2..2 + CHANGES {
        run.change(number);
        run.wait_for_packets(PACKETS);
    }
    run.world.is_over.store(true, Ordering::SeqCst);
    run.wait("the last packets", |run| {
        let refused = run.switch.totals().workers.exchange_refused;
        let (sent, received) = (&run.world.sent, &run.world.received);
        sent.load(Ordering::SeqCst) + refused == received.load(Ordering::SeqCst)
    });
    let totals = run.switch.stop();
    let (stale, mixed) = (&run.world.stale, &run.world.mixed);
    assert_eq!(stale.load(Ordering::SeqCst), 0, "older than acknowledged");
    assert_eq!(mixed.load(Ordering::SeqCst), 0, "of two versions");
    let received = run.world.received.load(Ordering::SeqCst);
    assert_eq!(totals.datapath.packets, received);
    let pipeline = run.switch.pipeline();
    for table in 0..2 {
        let rules = pipeline.rules(pipeline.version());
        let rules = rules.filter(|(_, rule)| rule.table.number() == table);
        let counted: u64 = rules.map(|(_, rule)| rule.counters.packets).sum();
        assert_eq!(counted, received, "table {table}");
    }
    let affected = totals.maintenance.affected() / u64::from(CHANGES);
    assert!(
        affected >= 300 * workers as u64,
        "a change affected {affected} entries"
    );
    assert!(totals.workers.longest_pause > Duration::ZERO);
    println!(
        "{} with {workers} workers and slices of {slice}: {received} packets, {affected} entries \
         affected by a change, longest pause {:?}",
        maintainer.name(),
        totals.workers.longest_pause
    );
}

#[test]
fn i6_acknowledged_means_followed_by_a_busy_worker_that_repairs() {
    for slice in [1, 3, 8] {
        changes_at_full_rate(1, slice, MaintainerKind::Incremental);
    }
}

#[test]
fn i6_acknowledged_means_followed_by_a_busy_worker_that_evicts() {
    changes_at_full_rate(1, 4, MaintainerKind::Barrier);
}

#[test]
fn i6_acknowledged_means_followed_by_busy_workers_that_pass_packets_to_each_other() {
    changes_at_full_rate(2, 2, MaintainerKind::Incremental);
}
