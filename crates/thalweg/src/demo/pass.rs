//! Runs one pass: all packets through one engine, with changes between them.
//!
//! ```text
//!   for window: for burst in window, cut where a change is due:
//!     apply the changes due now                   -- timed: time to update
//!     fill the burst from the flows' packets      -- not timed
//!     forward it                                  -- timed: cost per packet
//!     take what was sent, give the packets back   -- not timed
//! ```
//!
//! 1. A measured pass and an audited pass see the same packets and changes in the same order.
//! 2. Virtual time advances by a microsecond per packet. The processor's clock is used only to
//!    measure.

use std::collections::BTreeMap;
use std::time::Instant as Clock;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use thalweg_datapath::{MaintainerKind, Statistics, TraversalView, Work};
use thalweg_io::BURST;
use thalweg_packet::{Instant, Packet};
use thalweg_switch::{Config, Engine, LongWork, LongWorkStatistics};

use super::scenario::Scenario;
use thalweg_command::follow::{follow, news, wall_ns};

/// Number of windows in the timeline.
const WINDOWS: usize = 50;
/// Virtual nanoseconds between two packets.
const PACKET_GAP_NS: u64 = 1_000;
/// Room for the copies of a burst in which every packet is flooded.
const PACKETS_AT_ONCE: usize = 8_192;

/// The results of a pass.
pub(super) struct Outcome {
    pub(super) statistics: Statistics,
    pub(super) megaflows: usize,
    pub(super) masks: usize,
    pub(super) megaflow_bytes: usize,
    pub(super) microflows: usize,
    /// Time spent forwarding.
    pub(super) forward_ns: u64,
    /// Indexes that were built and trained on a separate thread.
    pub(super) long_work: LongWorkStatistics,
    pub(super) updates: Vec<UpdateSample>,
    pub(super) windows: Vec<Window>,
    /// Packets compared with the interpreter, and those that differed.
    pub(super) audited: Option<(u64, u64)>,
    /// Packets sent, by port.
    pub(super) sent: BTreeMap<u32, u64>,
    /// Copies that were not made for lack of room.
    pub(super) copies_refused: u64,
    /// The traversals of the entries, if the maintainer records them.
    pub(super) traversals: Vec<TraversalView>,
}

/// One change of the rules.
pub(super) struct UpdateSample {
    /// Packets forwarded before it.
    pub(super) position: u64,
    /// Time until no packet could be answered by older rules.
    pub(super) time_ns: u64,
    /// Time until every entry was right.
    pub(super) repair_ns: u64,
    pub(super) work: Work,
}

/// A section of the timeline.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub(super) first_packet: u64,
    pub(super) packets: u64,
    pub(super) microflow_hits: u64,
    pub(super) megaflow_hits: u64,
    pub(super) upcalls: u64,
    pub(super) forward_ns: u64,
    pub(super) update_ns: u64,
}

/// Runs a pass.
///
/// # Errors
/// If the engine refuses the rules or a change.
pub(super) fn run(
    scenario: &Scenario,
    kind: MaintainerKind,
    is_audited: bool,
    progress: &ProgressBar,
) -> Result<Outcome> {
    let mut pass = Pass::new(scenario, kind, is_audited)?;
    let packets = scenario.sequence.len();
    for index in 0..WINDOWS {
        let end = packets * (index + 1) / WINDOWS;
        let before = pass.position;
        pass.run_window(end)?;
        progress.inc((end - before) as u64);
        progress.set_message(pass.news(kind));
    }
    Ok(pass.finish())
}

/// An engine in the middle of a scenario.
struct Pass<'a> {
    scenario: &'a Scenario,
    engine: Engine,
    /// Packets forwarded so far.
    position: usize,
    next_change: usize,
    burst: Vec<Packet>,
    updates: Vec<UpdateSample>,
    windows: Vec<Window>,
    sent: BTreeMap<u32, u64>,
}

impl<'a> Pass<'a> {
    fn new(scenario: &'a Scenario, kind: MaintainerKind, is_audited: bool) -> Result<Self> {
        let mut config = Config {
            packets: PACKETS_AT_ONCE,
            is_audited,
            long_work: LongWork::Thread,
            ..Config::default()
        };
        config.pipeline.seed = scenario.seed;
        config.pipeline.index_seed = scenario.seed;
        config.datapath.seed = scenario.seed;
        config.datapath.maintainer = kind;
        let mut engine = Engine::new(config)?;
        for port in &scenario.ports {
            engine.add_port(*port, Instant::ZERO);
        }
        let loaded = engine.apply(&scenario.rules, Instant::ZERO);
        loaded.context("the generated rules were refused")?;
        Ok(Pass {
            scenario,
            engine,
            position: 0,
            next_change: 0,
            burst: Vec::with_capacity(BURST),
            updates: Vec::new(),
            windows: Vec::with_capacity(WINDOWS),
            sent: BTreeMap::new(),
        })
    }

    /// One line of progress.
    fn news(&self, kind: MaintainerKind) -> String {
        let stale = self.engine.audit().map(|audit| audit.stale);
        let Some(last) = self.updates.last() else {
            let which = stale.map_or("measured", |_| "audited");
            return format!("{}: {which} pass", kind.name());
        };
        let affected = self.updates.iter().map(|one| one.work.affected()).sum();
        let news = news(self.updates.len(), last.time_ns as f64, affected, stale);
        format!("{}: {news}", kind.name())
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.position as u64 * PACKET_GAP_NS)
    }

    fn run_window(&mut self, end: usize) -> Result<()> {
        let before = self.engine.datapath().statistics().clone();
        let first_update = self.updates.len();
        let mut window = Window {
            first_packet: self.position as u64,
            packets: (end - self.position) as u64,
            ..Window::default()
        };
        while self.position < end {
            self.apply_due()?;
            window.forward_ns += self.forward_burst(end);
        }
        let after = self.engine.datapath().statistics();
        window.microflow_hits = after.microflow.hits - before.microflow.hits;
        window.megaflow_hits = after.megaflow.hits - before.megaflow.hits;
        window.upcalls = after.upcalls - before.upcalls;
        let updates = &self.updates[first_update..];
        window.update_ns = updates.iter().map(|update| update.repair_ns).sum();
        self.windows.push(window);
        self.engine.tick(self.now());
        Ok(())
    }

    /// Applies the changes that are due at the current position.
    fn apply_due(&mut self) -> Result<()> {
        let changes = &self.scenario.changes;
        let position = self.position as u64;
        while let Some(due) = changes.get(self.next_change) {
            if due.position > position {
                break;
            }
            let now = self.now();
            let followed = follow(&mut self.engine, &due.change, now, wall_ns, |_, _| ());
            let followed = followed.context("a generated change was refused")?;
            self.updates.push(UpdateSample {
                position,
                time_ns: followed.update_ns,
                repair_ns: followed.repair_ns,
                work: followed.work,
            });
            self.next_change += 1;
        }
        Ok(())
    }

    /// Forwards up to a burst of packets; returns the time in nanoseconds.
    fn forward_burst(&mut self, end: usize) -> u64 {
        let next = self.scenario.changes.get(self.next_change);
        let end = next.map_or(end, |change| end.min(change.position as usize));
        let count = BURST.min(end - self.position);
        let now = self.now();
        let flows = &self.scenario.sequence[self.position..self.position + count];
        let taken = self.engine.outbox().pool.take_burst(&mut self.burst, count);
        assert_eq!(taken, count, "every packet has been given back");
        for (packet, flow) in self.burst.iter_mut().zip(flows) {
            let template = &self.scenario.flows[*flow as usize];
            packet.fill(template.bytes());
            packet.set_received(template.in_port(), now);
        }
        let start = Clock::now();
        self.engine.forward(&mut self.burst, now);
        let time_ns = start.elapsed().as_nanos() as u64;
        self.position += count;
        let outbox = self.engine.outbox();
        for (port, packet) in outbox.sent.drain(..) {
            *self.sent.entry(port.0).or_default() += 1;
            outbox.pool.put(packet);
        }
        for (_, packet) in outbox.to_controller.drain(..) {
            outbox.pool.put(packet);
        }
        time_ns
    }

    fn finish(mut self) -> Outcome {
        self.engine.settle();
        self.engine.finish_long_work();
        let copies_refused = self.engine.outbox().copies_refused;
        let datapath = self.engine.datapath();
        let audit = self.engine.audit();
        Outcome {
            statistics: datapath.statistics().clone(),
            megaflows: datapath.megaflow_count(),
            masks: datapath.mask_count(),
            megaflow_bytes: datapath.megaflow_bytes(),
            microflows: datapath.microflow_count(),
            long_work: self.engine.long_work(),
            forward_ns: self.windows.iter().map(|window| window.forward_ns).sum(),
            updates: self.updates,
            windows: self.windows,
            audited: audit.map(|audit| (audit.checked, audit.stale)),
            sent: self.sent,
            copies_refused,
            traversals: datapath.traversals(),
        }
    }
}
