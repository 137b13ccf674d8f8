//! The protocol of changes under a model check. Control side, workers, dependency records,
//! exchanges and doorbells are the real ones; the checker chooses which thread runs next.
//!
//! A build with `--cfg thalweg_model` takes locks, channels and threads from shuttle
//! (Burckhardt and others, A Randomized Scheduler with Probabilistic Guarantees of Finding
//! Bugs, ASPLOS 2010): all threads are one, and at each lock, channel, atomic and wait the
//! checker chooses the next. `cargo xtask test` makes that build; in any other this file is
//! empty.
//!
//! ```text
//!   RUSTFLAGS="--cfg thalweg_model" cargo test --profile tested \
//!       --target-dir target/model -p thalweg-switch --test model
//! ```
//!
//! Packets carry stamps of the rules that answered them (`lab/stamps.rs`). In every execution:
//!
//! 1. when [`Switch::apply`] has returned, no port sends a packet of an older version;
//! 2. every packet is answered at one version, and versions never decrease on the way from one
//!    port to another;
//! 3. every packet leaves, and is counted once, by the rules whose stamps it carries;
//! 4. no thread waits for ever: the checker knows what each waits for, and time does not pass.
//!
//! The two random kinds of execution differ in how threads are chosen: evenly, or by
//! priorities that change at few places. A third goes through all orders of one change and
//! some packets. A failure prints its schedule, which `shuttle::replay` follows.
//! `THALWEG_CHECKS` changes the default number of executions.
#![cfg(thalweg_model)]

#[path = "lab/stamps.rs"]
mod stamps;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};
use stamps::{FlowKey, Kind, Program, Seen, VALUES};
use thalweg_datapath::{MaintainerKind, MegaflowClassifier, Mode};
use thalweg_io::{Port, PortCounters, PortStatus};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::{Change, ClassifierKind, text};
use thalweg_switch::{Switch, SwitchConfig, SwitchPort};

/// Executions of each kind.
const EXECUTIONS: usize = 3_000;

/// Comparisons in `THALWEG_CHECKS` that one execution stands for.
const CHECKS_EACH: usize = 400;

/// Changes in an execution.
const CHANGES: u16 = 3;

/// State shared by all ports of an execution. The checker does not switch threads at its
/// locks.
#[derive(Default)]
struct World {
    /// The rules by version, from the first.
    programs: Mutex<Vec<Program>>,
    /// Number of versions that are over.
    over: AtomicUsize,
    seen: Mutex<Vec<Seen>>,
    /// Whether no more packets will be injected.
    is_finished: AtomicBool,
}

/// A port of the model: holds waiting packets, and checks each that leaves.
struct ModelPort {
    number: u32,
    waiting: Arc<Mutex<VecDeque<Vec<u8>>>>,
    world: Arc<World>,
    /// The version of the last packet from each source.
    last: [usize; 2],
    counters: PortCounters,
}

impl Port for ModelPort {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let mut waiting = self.waiting.lock().unwrap();
        // Two at a time, so that they arrive at many moments.
        for _ in 0..2.min(waiting.len()) {
            let mut packet = pool.take().expect("there is room");
            packet.fill(&waiting.pop_front().unwrap());
            packet.set_received(PortId(self.number), now);
            burst.push(packet);
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        for packet in burst.iter() {
            let seen = Seen::read(packet.bytes(), self.number);
            let programs = self.world.programs.lock().unwrap();
            let over = self.world.over.load(Ordering::SeqCst);
            // Properties 1 and 2.
            let last = &mut self.last[usize::from(seen.source) - 1];
            let first = over.max(*last);
            let version = (first..programs.len()).find(|version| seen.is_of(&programs[*version]));
            *last = version.unwrap_or_else(|| {
                panic!("{seen:?} is of no version from {first} (over: {over}) on: {programs:?}")
            });
            self.world.seen.lock().unwrap().push(seen);
        }
        pool.put_burst(burst);
    }

    fn status(&mut self) -> PortStatus {
        let is_source = self.number <= 2 && !self.world.is_finished.load(Ordering::SeqCst);
        match is_source || !self.waiting.lock().unwrap().is_empty() {
            true => PortStatus::Up,
            false => PortStatus::Finished,
        }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

/// A switch with its own world.
struct Stage {
    world: Arc<World>,
    switch: Switch,
    sources: Vec<Arc<Mutex<VecDeque<Vec<u8>>>>>,
    injected: u16,
}

/// Small caches, so that entries come and go; the indexes of tables and caches stay.
fn config(maintainer: MaintainerKind) -> SwitchConfig {
    let mut config = SwitchConfig {
        workers: 2,
        packets_per_worker: 192,
        packet_bytes: 64,
        exchange_packets: 64,
        news: 4,
        ..SwitchConfig::default()
    };
    config.pipeline.classifier = ClassifierKind::TupleSpace;
    config.datapath.megaflow.classifier = MegaflowClassifier::TupleSpace;
    config.datapath.maintainer = maintainer;
    config.datapath.slice = thread_rng().gen_range(1..3);
    config.datapath.microflow.entries = 16;
    config.datapath.microflow.admit_one_in = 1;
    config.datapath.megaflow.entries = [4, 32][thread_rng().gen_range(0..2)];
    config
}

/// Tables and caches whose indexes are replaced all the time; the exact-match cache mostly
/// disabled.
fn config_that_trains() -> SwitchConfig {
    let mut config = config(MaintainerKind::Incremental);
    let draw = |end: usize| thread_rng().gen_range(0..end);
    config.pipeline.classifier = [ClassifierKind::Learned, ClassifierKind::Auto][draw(2)];
    config.datapath.megaflow.classifier =
        [MegaflowClassifier::Learned, MegaflowClassifier::TupleSpace][draw(2)];
    config.datapath.mode = Mode::ALL[draw(2)];
    config.datapath.microflow.entries = [0, 16][draw(2)];
    config
}

impl Stage {
    fn new(config: SwitchConfig) -> Stage {
        let program = Program::new(1);
        let world = Arc::new(World::default());
        world.programs.lock().unwrap().push(program.clone());
        let mut ports = Vec::new();
        let mut sources = Vec::new();
        for number in 1..=4 {
            let waiting = Arc::new(Mutex::new(VecDeque::new()));
            sources.push(waiting.clone());
            let port = ModelPort {
                number,
                waiting,
                world: world.clone(),
                last: [0; 2],
                counters: PortCounters::default(),
            };
            ports.push(SwitchPort {
                number: PortId(number),
                port: Box::new(port),
                is_source: number <= 2,
            });
        }
        let switch = Switch::start_with(config, ports, &program.load());
        Stage {
            world,
            switch: switch.expect("it starts"),
            sources,
            injected: 0,
        }
    }

    /// Injects `count` packets of random flows into each source.
    fn inject(&mut self, count: usize) {
        for source in 1..=2_u16 {
            for _ in 0..count {
                let value = || thread_rng().gen_range(0..VALUES);
                let bytes = stamps::frame(FlowKey(value(), value()), source, self.injected);
                self.injected += 1;
                let queue = &self.sources[usize::from(source) - 1];
                queue.lock().unwrap().push_back(bytes);
            }
        }
    }

    /// Applies a change; once this returns, its version is the only valid one.
    fn apply(&mut self, change: &Change, program: Program) {
        let versions = {
            let mut programs = self.world.programs.lock().unwrap();
            programs.push(program);
            programs.len()
        };
        self.switch.apply(change).expect("it is right");
        self.world.over.store(versions - 1, Ordering::SeqCst);
    }

    fn change(&mut self, kind: Kind, stamp: u16) {
        let newest = self.world.programs.lock().unwrap().last().cloned();
        let (program, change) = newest.expect("there is one").changed(kind, stamp);
        self.apply(&change, program);
    }

    fn wait_for_packets(&mut self) {
        while self.world.seen.lock().unwrap().len() < usize::from(self.injected) {
            self.switch.poll(Duration::ZERO);
        }
    }

    /// Stops the switch, and checks property 3.
    fn end(mut self) {
        let totals = self.switch.stop();
        let seen = self.world.seen.lock().unwrap();
        assert_eq!(
            seen.len(),
            usize::from(self.injected),
            "{:?}",
            totals.drops()
        );
        assert_eq!(totals.datapath.packets, u64::from(self.injected));
        let mut numbers: Vec<u16> = seen.iter().map(|seen| seen.number).collect();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(0..self.injected));
        let ended = self.switch.take_removals();
        let mut counted = std::collections::BTreeMap::new();
        for removal in &ended {
            let place = stamps::place_of(removal.flow.cookie as u16);
            *counted
                .entry((removal.flow.table.number(), place))
                .or_insert(0) += removal.counters.packets;
        }
        let pipeline = self.switch.pipeline();
        for (_, rule) in pipeline.rules(pipeline.version()) {
            let place = stamps::place_of(rule.cookie as u16);
            *counted.entry((rule.table.number(), place)).or_insert(0) += rule.counters.packets;
        }
        counted.retain(|_, packets| *packets > 0);
        let mut expected = std::collections::BTreeMap::new();
        for seen in seen.iter() {
            for table in 0..2 {
                let place = stamps::place_of(seen.stamps.0[usize::from(table)]);
                *expected.entry((table, place)).or_insert(0) += 1;
            }
        }
        assert_eq!(counted, expected);
    }
}

/// An execution: packets, with changes among them.
fn execution(maintainer: MaintainerKind) {
    let mut stage = Stage::new(config(maintainer));
    let draw = |end: u32| thread_rng().gen_range(0..end);
    stage.inject(draw(8) as usize);
    if draw(2) == 0 {
        stage.wait_for_packets();
    }
    for stamp in 2..2 + CHANGES {
        stage.inject(draw(6) as usize);
        if draw(8) == 0 {
            stage.switch.settle();
        }
        match draw(12) {
            0 => stage.grow_layout(),
            which => stage.change(Kind::of(which, draw(2), draw(VALUES.into())), stamp),
        }
        if draw(8) == 0 {
            stage.switch.totals();
        }
    }
    stage.inject(2);
    stage.world.is_finished.store(true, Ordering::SeqCst);
    if draw(2) == 0 {
        stage.wait_for_packets();
        // By now workers may sleep until the bell rings.
        stage.change(Kind::Everything, 2 + CHANGES);
    }
    stage.wait_for_packets();
    stage.end();
}

/// Changes and packets, while indexes of tables and caches are copied, built, brought up to
/// date and replaced: each poll is a slice.
fn execution_that_trains() {
    let mut stage = Stage::new(config_that_trains());
    let draw = |end: u32| thread_rng().gen_range(0..end);
    let poll = |stage: &mut Stage, most: u32| {
        (0..draw(most)).for_each(|_| stage.switch.poll(Duration::ZERO));
    };
    stage.inject(draw(6) as usize);
    poll(&mut stage, 20);
    for stamp in 2..2 + CHANGES {
        stage.inject(1 + draw(4) as usize);
        match draw(16) {
            0 => stage.grow_layout(),
            which => stage.change(Kind::of(which, draw(2), draw(VALUES.into())), stamp),
        }
        poll(&mut stage, 40);
    }
    stage.inject(2);
    stage.world.is_finished.store(true, Ordering::SeqCst);
    stage.wait_for_packets();
    REPLACED.fetch_add(stage.replaced(), Ordering::SeqCst);
    stage.end();
}

/// Indexes replaced in all executions.
static REPLACED: AtomicUsize = AtomicUsize::new(0);

impl Stage {
    /// How many indexes of tables were replaced.
    fn replaced(&self) -> usize {
        let choices = self.switch.pipeline().choices();
        choices
            .iter()
            .map(|(_, choice)| choice.replaced as usize)
            .sum()
    }
}

impl Stage {
    /// A change for which workers must be held: the rule's field is in no key yet.
    fn grow_layout(&mut self) {
        let rule = text::parse_flow("priority=9,tcp,tcp_flags=+syn,actions=drop");
        let change = Change::adding([rule.expect("it is right")]);
        let newest = self.world.programs.lock().unwrap().last().cloned();
        self.apply(&change, newest.expect("there is one"));
    }
}

/// The number of executions, scaled down from the comparisons in `THALWEG_CHECKS`.
fn executions() -> usize {
    let asked = std::env::var("THALWEG_CHECKS").ok();
    asked.map_or(EXECUTIONS, |asked| {
        let asked: usize = asked.parse().expect("THALWEG_CHECKS is a number");
        asked.div_ceil(CHECKS_EACH)
    })
}

fn run(scheduler: impl Scheduler + 'static, work: impl Fn() + Send + Sync + 'static) -> usize {
    let mut config = Config::default();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    config
        .ungraceful_shutdown_config
        .immediately_return_on_panic = true;
    // Property 4, for threads that wait in an endless loop.
    config.max_steps = MaxSteps::FailAfter(200_000);
    Runner::new(scheduler, config).run(work)
}

#[test]
fn incremental_under_any_choice_of_threads() {
    let scheduler = RandomScheduler::new_from_seed(1, executions());
    run(scheduler, || execution(MaintainerKind::Incremental));
}

#[test]
fn incremental_under_few_changes_of_priority() {
    for depth in [2, 3, 5] {
        let scheduler = PctScheduler::new_from_seed(depth as u64, depth, executions() / 3);
        run(scheduler, || execution(MaintainerKind::Incremental));
    }
}

#[test]
fn barrier_under_any_choice_of_threads() {
    let scheduler = RandomScheduler::new_from_seed(2, executions() / 3);
    run(scheduler, || execution(MaintainerKind::Barrier));
}

/// Indexes of tables and caches are replaced while rules change and packets are looked up. All
/// four properties hold: no lookup used an index that missed a new rule or kept a removed one.
///
/// This test can fail: without the line in `Auto::remove` that marks a rule stale, a rule
/// replaced during its table's rebuild answers packets again, and the first of the two tests
/// finds that.
#[test]
fn indexes_are_replaced_under_any_choice_of_threads() {
    let before = REPLACED.load(Ordering::SeqCst);
    let scheduler = RandomScheduler::new_from_seed(3, executions() / 2);
    let count = run(scheduler, execution_that_trains);
    let replaced = REPLACED.load(Ordering::SeqCst) - before;
    assert!(
        replaced > count / 4,
        "{replaced} indexes were replaced in {count} executions"
    );
}

#[test]
fn indexes_are_replaced_under_few_changes_of_priority() {
    for depth in [2, 4] {
        let scheduler = PctScheduler::new_from_seed(depth as u64, depth, executions() / 4);
        run(scheduler, execution_that_trains);
    }
}
