//! Measures Figure 9: the cases without a cache, on a miss and on a hit.

use anyhow::Result;
use serde::Serialize;
use thalweg_p4::cache::behavior::BehaviorConfig;
use thalweg_p4::program::ids::TableId;
use thalweg_p4::program::table::Match;
use thalweg_p4::state::Update;
use thalweg_p4::{CacheConfig, Outbox, Target};
use thalweg_packet::Instant;

use super::case::{Case, NETWORK, set_ttl};
use super::control::route;
use super::program::{self, Cached};
use crate::clock::processor_time_ns;
use crate::spread::Spread;
use thalweg_command::failure::bad_input;

/// A row of the first table.
#[derive(Serialize, Clone, Debug)]
pub(super) struct Row {
    pub(super) case: String,
    /// The cache: `off`, `behavior`, `traversal`, or `program` for the form of
    /// `thalweg p4 cache`.
    pub(super) cache: &'static str,
    /// What happens to each packet:
    ///
    /// - `miss`: it is looked up and counted, but nothing is recorded;
    /// - `rest`: the same where the cache may rest, as it does by default;
    /// - `hit`;
    /// - `record`: a miss that is recorded and installed, with room for it;
    /// - `replace`: the same, but another entry must leave.
    pub(super) what: &'static str,
    pub(super) ns_per_packet: Spread,
    pub(super) packets_per_second: f64,
    /// Percentage of walks through ingress and egress that were remembered. For the program
    /// form, only walks through ingress count.
    pub(super) hits_percent: f64,
}

/// Time between two packets.
const STEP_NS: u64 = 1_000;

/// Capacity of the cache if each packet replaces another; twice as many differ.
const FEW: usize = 32;

/// Ingress port of packets that have nothing in common with the measured one.
const OTHER_PORT: u32 = 2;

/// Packets sent before measuring hits; they make the flow heavy.
const WARM: usize = 300;

/// Measures the rows of one case; samples of the rows take turns.
///
/// # Errors
/// If the case has no route for our packets, or an entry is refused.
pub(super) fn measure(case: &Case, packets: u64, samples: usize) -> Result<Vec<Row>> {
    let mut runs = vec![(("off", "miss"), Run::new(case.target(None)?, case))];
    for cache in ["behavior", "traversal"] {
        for what in ["miss", "rest", "hit", "record", "replace"] {
            runs.push(((cache, what), run(case, cache, what)?));
        }
    }
    for what in ["miss", "hit"] {
        runs.push((("program", what), run_program(case, what)?));
    }
    for _ in 0..=samples {
        for (_, run) in &mut runs {
            run.sample(packets)?;
        }
    }
    let rows = runs.into_iter().map(|((cache, what), mut run)| {
        // The first sample warms up.
        run.ns_per_packet.remove(0);
        let spread = Spread::of(&run.ns_per_packet);
        Row {
            case: case.name.clone(),
            cache,
            what,
            ns_per_packet: spread,
            packets_per_second: 1e9 / spread.median,
            hits_percent: run.hits_percent(),
        }
    });
    Ok(rows.collect())
}

/// A target with a cache, and packets for the case `what`.
fn run(case: &Case, cache: &str, what: &str) -> Result<Run> {
    let room = if what == "replace" { FEW } else { 1_024 };
    let mut target = case.target(None)?;
    match cache {
        "behavior" => target.cache_behaviors(Some(BehaviorConfig {
            threshold: 0,
            entries: room,
            rests: what == "rest",
            ..BehaviorConfig::default()
        })),
        _ => target.cache_traversals(Some(CacheConfig {
            segments: room,
            record_one_in: 1,
            rests: what == "rest",
            ..CacheConfig::default()
        })),
    }
    let mut run = Run::new(target, case);
    match what {
        "miss" | "rest" => {
            // The cache has entries of other packets, and accepts no more.
            for packet in others(case) {
                run.receive(OTHER_PORT, &packet);
            }
            run.target.set_behavior_threshold(u16::MAX);
            run.target.record_traversals(0);
            run.forget_counts();
        }
        "hit" => {
            let packet = case.packet.clone();
            (0..WARM).for_each(|_| run.receive(case.port, &packet));
            run.forget_counts();
        }
        _ => {
            let (routes, packets) = routed_apart(case)?;
            run.write(&routes.come)?;
            run.packets = packets;
            run.routes = (what == "record").then_some(routes);
        }
    }
    Ok(run)
}

/// The program form, with other packets or this one in its cache.
fn run_program(case: &Case, what: &str) -> Result<Run> {
    let mut cached = Cached::new(case)?;
    match what {
        "miss" => {
            for packet in others(case) {
                cached.receive(OTHER_PORT, &packet)?;
            }
        }
        _ => {
            for _ in 0..WARM {
                cached.receive(case.port, &case.packet)?;
            }
        }
    }
    cached.set_threshold(u16::MAX)?;
    let table = cached.table();
    let mut run = Run::new(cached.target, case);
    run.cache_table = Some(table);
    Ok(run)
}

/// Packets of the same network that differ from the case's in everything else.
fn others(case: &Case) -> Vec<Vec<u8>> {
    let other = |index: usize| {
        let mut packet = case.packet.clone();
        packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, (index % 8) as u8, 2, 0, 0, 0, 0, 2]);
        set_ttl(&mut packet, 100 + index as u8);
        packet
    };
    (0..2 * FEW).map(other).collect()
}

/// Packets that each have their own route, so that each is remembered separately.
fn routed_apart(case: &Case) -> Result<(Routes, Vec<Vec<u8>>)> {
    let mut target = case.target(None)?;
    let (table, entry, part) = route(&mut target, case)?;
    let (mut routes, mut packets) = (Routes::default(), Vec::new());
    for flow in 0..2 * FEW as u32 {
        let mut route = entry.clone();
        route.matches[part] = Match::Lpm((NETWORK + flow).into(), 32);
        let gone = Update::DeleteEntry(table, route.matches.clone(), route.priority);
        routes.come.push(Update::InsertEntry(table, route));
        routes.gone.push(gone);
        packets.push(case.packet_to(NETWORK + flow));
    }
    Ok((routes, packets))
}

/// Updates that insert routes, and those that delete them.
#[derive(Default)]
struct Routes {
    come: Vec<Update>,
    gone: Vec<Update>,
}

struct Run {
    target: Target,
    packets: Vec<Vec<u8>>,
    /// Entries that are deleted and inserted again after all packets were sent. That removes
    /// what the packets brought into the cache.
    routes: Option<Routes>,
    port: u32,
    now_ns: u64,
    outbox: Outbox,
    ns_per_packet: Vec<f64>,
    counted: (u64, u64),
    /// The cache table of the program form.
    cache_table: Option<TableId>,
}

impl Run {
    /// Sends the case's packet repeatedly.
    fn new(target: Target, case: &Case) -> Run {
        Run {
            target,
            packets: vec![case.packet.clone()],
            routes: None,
            port: case.port,
            now_ns: 0,
            outbox: Outbox::new(),
            ns_per_packet: Vec::new(),
            counted: (0, 0),
            cache_table: None,
        }
    }

    fn receive(&mut self, port: u32, packet: &[u8]) {
        self.now_ns += STEP_NS;
        self.outbox.clear();
        let now = Instant::from_nanos(self.now_ns);
        self.target.receive(port, packet, now, &mut self.outbox);
        self.target.train();
        std::hint::black_box(self.outbox.sent().count());
    }

    fn write(&mut self, updates: &[Update]) -> Result<()> {
        let written = self.target.write(updates, Instant::from_nanos(self.now_ns));
        written.map_err(|failed| bad_input(failed.error.to_string()))
    }

    fn sample(&mut self, count: u64) -> Result<()> {
        let packets = std::mem::take(&mut self.packets);
        let routes = self.routes.take();
        // Without changing routes, the whole sample is measured in one piece.
        let piece = match routes {
            Some(_) => packets.len() as u64,
            None => count,
        };
        let (mut spent, mut sent) = (0, 0);
        let mut next = packets.iter().cycle();
        while sent < count {
            if let Some(routes) = &routes {
                self.write(&routes.gone)?;
                self.write(&routes.come)?;
            }
            let start = processor_time_ns();
            for packet in next.by_ref().take(piece as usize) {
                self.receive(self.port, packet);
            }
            spent += processor_time_ns() - start;
            sent += piece;
        }
        self.ns_per_packet.push(spent as f64 / sent as f64);
        (self.packets, self.routes) = (packets, routes);
        Ok(())
    }

    /// Hits and misses of behaviours, or of segments with the cache of traversals.
    fn counts(&self) -> (u64, u64) {
        let behaviors = self.target.behavior_counts();
        let behaviors = behaviors.map(|counts| (counts.hits, counts.misses));
        let traversals = self.target.cache_statistics();
        let traversals =
            traversals.map(|one| (one.exact_hits + one.masked_hits, one.misses + one.visits));
        behaviors.or(traversals).unwrap_or_default()
    }

    fn forget_counts(&mut self) {
        self.counted = self.counts();
    }

    fn hits_percent(&mut self) -> f64 {
        if let Some(table) = self.cache_table {
            let packet = &self.packets[0];
            let is_hit = program::is_hit(&mut self.target, table, self.port, packet);
            return if is_hit { 100.0 } else { 0.0 };
        }
        let (hits, misses) = self.counts();
        let (hits, misses) = (hits - self.counted.0, misses - self.counted.1);
        hits as f64 * 100.0 / (hits + misses).max(1) as f64
    }
}
