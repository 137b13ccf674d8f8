//! The duty of a worker that forwards by rules: its caches and interpreter, and the control side.
//!
//! ```text
//!   obey: commands
//!   tend: a slice of maintenance, a slice of a report    -- only here does the version change
//!   forward: caches answer; send, each port once
//!   forward_others: send what other workers have left for our ports
//! ```
//!
//! 1. A burst is answered at one version, and sent or left with other workers before the next
//!    command is looked at. So when a worker has acknowledged a change, it neither has nor
//!    makes a packet of an older version; the control side drains those it left with others.
//! 2. While it is held, a worker does not touch the pipeline or its ports.
//! 3. A worker waits for other threads only in a hold: its news are dropped if their channel
//!    is full.
//! 4. Every command but one has an answer. The channel has room for it, and for the report
//!    that caches are repaired.
//! 5. After a stop command, a worker ends when the control side has received everything; one
//!    that ends earlier has panicked.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thalweg_datapath::{Datapath, Gate, Progress, Tending, WatchedUpcalls};
use thalweg_io::{BURST, PortStatus};
use thalweg_packet::{Instant, Packet, PacketPool};
use thalweg_pipeline::{Connections, Delta, LearnedCounts, Outbox, Pipeline};

use crate::clock::Clock;
use crate::doorbell::Doorbell;
use crate::exchange::Exchange;
use crate::idle::IdleSweep;
use crate::message::{Answer, CacheSetting, Command, News, PacketIn, Report, Settled};
use crate::ports::{Ports, Routes};
use crate::recent::{Recent, RecentRules};
use crate::shares::UPCALL_COST;
use crate::sync::{AtomicBool, Mutex, Receiver, Sender};
use crate::v2p::{Node, lock};
use crate::worker::Duty;
use crate::worker_counters::WorkerCounters;

/// Packets of other workers sent in one round. More than come in, so that these packets, which
/// have cost the most already, are not the first to be refused.
const EXCHANGE_BURST: usize = 4 * BURST;

/// If there are several slices, they take one part in this many of a round's time. With only
/// one slice per round, a worker with many ports would be slow to follow a change.
const ROUND_SHARE: u32 = 4;

/// The same for slices of work on the caches' index, which are not urgent.
const TEND_SHARE: u32 = 8;

/// Most time for several slices in a row, however long the round was.
const LONGEST_SLICES: Duration = Duration::from_millis(1);

/// Entries whose counts are gathered between two bursts.
const GATHERED: u32 = 128;

/// Approximate entries in a slice of work on the caches' index.
const TEND_STEPS: usize = if cfg!(thalweg_model) { 1 } else { 16 };

/// What all workers share.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) pipeline: Gate<Pipeline>,
    /// By worker: packets left for it by others.
    pub(crate) exchanges: Vec<Exchange>,
    /// By worker.
    pub(crate) doorbells: Vec<Doorbell>,
    /// Handles packets before the rules do, in a fabric that caches virtual addresses.
    pub(crate) node: Option<Mutex<Node>>,
    /// The connections of all workers.
    pub(crate) connections: Arc<Connections>,
    /// The rules of bounded `learn` actions.
    pub(crate) learned: Arc<LearnedCounts>,
    /// Whether packets that ports receive are dropped, as the switch is not ready.
    pub(crate) holds_packets: AtomicBool,
}

/// The channels of a worker.
pub(crate) struct Channels {
    pub(crate) commands: Receiver<Command>,
    pub(crate) answers: Sender<Answer>,
    pub(crate) news: Sender<News>,
    pub(crate) packet_ins: Sender<PacketIn>,
}

/// What a worker by rules has beside its ports.
pub(crate) struct RuleDuty {
    number: usize,
    shared: Arc<Shared>,
    channels: Channels,
    routes: Arc<Routes>,
    datapath: Datapath,
    outbox: Outbox,
    recent: Recent,
    recent_rules: RecentRules,
    counters: WorkerCounters,
    /// By worker: packets for its ports, each with the port's place.
    leaving: Vec<Vec<(usize, Packet)>>,
    /// The change being followed until it is acknowledged; its stations are needed.
    moving: Option<Arc<Delta>>,
    /// Where gathering for a requested report continues.
    reporting: Option<u32>,
    idle: IdleSweep,
    /// Whether upcalls are reported.
    is_watched: bool,
    /// Upcalls whose reports had no room.
    unreported: u64,
}

impl RuleDuty {
    pub(crate) fn new(
        number: usize,
        shared: Arc<Shared>,
        channels: Channels,
        routes: Arc<Routes>,
        datapath: Datapath,
        outbox: Outbox,
    ) -> RuleDuty {
        let leaving = shared.exchanges.iter().map(|_| Vec::new()).collect();
        let max_idle = datapath.config().megaflow.max_idle;
        RuleDuty {
            idle: IdleSweep::new(max_idle),
            number,
            shared,
            channels,
            routes,
            datapath,
            outbox,
            recent: Recent::new(),
            recent_rules: RecentRules::default(),
            counters: WorkerCounters::default(),
            leaving,
            moving: None,
            reporting: None,
            is_watched: false,
            unreported: 0,
        }
    }

    /// Drops packets that came before the switch was ready.
    fn drop_held(&mut self, burst: &mut Vec<Packet>) {
        for packet in burst.drain(..) {
            self.counters.held += packet.wire_counts().0;
            self.outbox.pool.put(packet);
        }
    }

    fn is_busy(&self) -> bool {
        self.datapath.is_following() && !self.datapath.is_waiting() || self.reporting.is_some()
    }

    /// Does slices of maintenance and of a report: one, or as many as fit into a share of the
    /// last round's time.
    fn take_slices(&mut self, ports: &Ports) {
        let (start, round) = self.round_so_far(ports);
        loop {
            self.maintain();
            self.gather(ports);
            if self.is_share_spent(start, round, ROUND_SHARE) || !self.is_busy() {
                break;
            }
        }
        self.note_pause(start);
    }

    /// Does slices of work on the caches' index; returns whether there were any. They fit into
    /// a share of the last round's time. Long jobs go to the control side.
    fn tend_caches(&mut self, ports: &Ports) -> bool {
        if self.channels.news.is_full() {
            return false;
        }
        let (start, round) = self.round_so_far(ports);
        let mut has_worked = false;
        loop {
            match self.datapath.tend(TEND_STEPS) {
                Tending::Idle => break,
                Tending::More => has_worked = true,
                Tending::Job(job) => {
                    has_worked = true;
                    let news = News::IndexJob(self.number, Box::new(job));
                    if self.channels.news.try_send(news).is_err() {
                        self.datapath.forget_training();
                    }
                    break;
                }
            }
            if self.is_share_spent(start, round, TEND_SHARE) {
                break;
            }
        }
        if has_worked {
            self.note_pause(start);
        }
        has_worked
    }

    /// Looks for entries that no packet uses any more; returns whether it did.
    fn evict_idle(&mut self) -> bool {
        let real = self.shared.clock.real_now();
        let shown = self.shared.clock.shown_at(real);
        let has_worked = self.idle.step(&mut self.datapath, real, shown);
        if has_worked {
            self.note_pause(real);
        }
        has_worked
    }

    /// The current time, and how long ago the last round began.
    fn round_so_far(&self, ports: &Ports) -> (Instant, Duration) {
        let now = self.shared.clock.real_now();
        (now, ports.time_of_round(now))
    }

    /// Whether slices have used their share of a round.
    fn is_share_spent(&self, start: Instant, round: Duration, share: u32) -> bool {
        let spent = self.shared.clock.real_now() - start;
        spent * share >= round || spent >= LONGEST_SLICES
    }

    fn note_pause(&mut self, start: Instant) {
        let pause = self.shared.clock.real_now() - start;
        self.counters.longest_pause = self.counters.longest_pause.max(pause);
    }

    /// Empties the outbox (invariant 1).
    fn empty_outbox(&mut self, ports: &mut Ports, now: Instant) {
        let mut last = None;
        for (number, packet) in self.outbox.sent.drain(..) {
            // Consecutive packets mostly go the same way.
            let route = match last {
                Some((known, route)) if known == number => route,
                _ => self.routes.find(number),
            };
            last = Some((number, route));
            match route {
                Some(route) if route.worker == self.number => {
                    ports.attached[route.place].sending.push(packet);
                }
                Some(route) => self.leaving[route.worker].push((route.place, packet)),
                None => {
                    self.counters.no_such_port += packet.wire_counts().0;
                    self.outbox.pool.put(packet);
                }
            }
        }
        self.flush(ports);
        for (worker, packets) in self.leaving.iter_mut().enumerate() {
            if !packets.is_empty() {
                let exchange = &self.shared.exchanges[worker];
                self.counters.exchange_refused += exchange.leave(packets, &mut self.outbox.pool);
                self.shared.doorbells[worker].ring();
            }
        }
        if !self.outbox.stations_seen.is_empty() {
            self.tell_learned(now);
        }
        if !self.outbox.rules_taught.is_empty() {
            self.tell_taught(now);
        }
        if !self.outbox.fin_timeouts.is_empty() {
            let ended = std::mem::take(&mut self.outbox.fin_timeouts);
            // Without room the rule keeps its timeouts.
            if self
                .channels
                .news
                .try_send(News::FinTimeouts(ended))
                .is_err()
            {
                self.counters.fin_timeouts_refused += 1;
            }
        }
        if !self.outbox.to_controller.is_empty() {
            self.tell_controller();
        }
    }

    fn flush(&mut self, ports: &mut Ports) {
        self.counters.no_such_port += ports.flush(&mut self.outbox.pool);
    }

    /// Sends what other workers have left for our ports.
    fn send_for_others(&mut self, ports: &mut Ports, limit: usize) -> usize {
        let exchange = &self.shared.exchanges[self.number];
        let count = exchange.collect(limit, &mut self.outbox.pool, |place, packet| {
            ports.attached[place].sending.push(packet);
        });
        if count > 0 {
            self.flush(ports);
            self.shared.exchanges[self.number].note_sent();
        }
        count
    }

    /// Sends what others have left so far; what they leave meanwhile can wait.
    ///
    /// Packets that cannot be taken for lack of a buffer are dropped and counted: they may
    /// have been answered at an older version, and must not leave once the change is
    /// acknowledged.
    fn drain(&mut self, ports: &mut Ports) {
        let mut waiting = self.shared.exchanges[self.number].waiting();
        while waiting > 0 {
            match self.send_for_others(ports, waiting.min(EXCHANGE_BURST)) {
                0 => {
                    let dropped = self.shared.exchanges[self.number].discard(waiting);
                    self.counters.exchange_refused += dropped as u64;
                    return;
                }
                count => waiting -= count,
            }
        }
    }

    /// Reports stations, each at most once in a while.
    fn tell_learned(&mut self, now: Instant) {
        let recent = &mut self.recent;
        self.outbox
            .stations_seen
            .retain(|(station, port)| recent.is_news(*station, *port, now));
        if self.outbox.stations_seen.is_empty() {
            return;
        }
        let learned = std::mem::take(&mut self.outbox.stations_seen);
        if let Err(error) = self.channels.news.try_send(News::Learned(learned))
            && let News::Learned(refused) = error.into_inner()
        {
            self.counters.learned_refused += refused.len() as u64;
            for (station, _) in refused {
                self.recent.forget(station);
            }
        }
    }

    /// Reports rules that packets taught, each at most once in a while.
    fn tell_taught(&mut self, now: Instant) {
        let now = self.shared.clock.shown_at(now);
        let recent = &mut self.recent_rules;
        let taught = self.outbox.rules_taught.drain(..);
        let taught = taught.filter(|rule| recent.is_news(rule, now));
        let taught: Vec<_> = taught.collect();
        if taught.is_empty() {
            return;
        }
        if let Err(error) = self.channels.news.try_send(News::Taught(taught))
            && let News::Taught(refused) = error.into_inner()
        {
            self.counters.lessons_refused += refused.len() as u64;
            self.recent_rules.forget_all();
            let pipeline = self.shared.pipeline.read();
            for rule in refused {
                self.shared.learned.withdraw(&pipeline, &rule);
            }
        }
    }

    /// Tells of upcalls; without room they wait, and the datapath counts those beyond its own.
    fn tell_upcalls(&mut self) {
        if self.channels.news.is_full() {
            return;
        }
        let (reports, lost) = self.datapath.take_upcalls();
        let lost = lost + std::mem::take(&mut self.unreported);
        if reports.is_empty() && lost == 0 {
            return;
        }
        if let Err(error) = self.channels.news.try_send(News::Upcalls(reports, lost))
            && let News::Upcalls(reports, lost) = error.into_inner()
        {
            self.unreported = lost + reports.len() as u64;
        }
    }

    fn tell_controller(&mut self) {
        for (notice, packet) in self.outbox.to_controller.drain(..) {
            // A flood must not make us copy packets for nothing.
            let is_sent = !self.channels.packet_ins.is_full()
                && self
                    .channels
                    .packet_ins
                    .try_send(PacketIn {
                        notice,
                        in_port: packet.in_port(),
                        received_at: packet.received_at(),
                        bytes: packet.bytes().to_vec(),
                    })
                    .is_ok();
            if is_sent {
                self.counters.packet_ins += 1;
            } else {
                self.counters.packet_ins_refused += 1;
            }
            self.outbox.pool.put(packet);
        }
        // If this does not fit, the control side has enough to wake up for.
        let _ = self.channels.news.try_send(News::Attention);
    }

    /// Obeys a command and answers it; returns false at the end. One match, an arm for each
    /// command.
    fn follow_command(&mut self, command: Command, ports: &mut Ports) -> bool {
        match command {
            Command::Advance(delta, findings) => {
                self.datapath.begin(delta.clone(), findings);
                self.moving = Some(delta);
                self.maintain();
            }
            Command::Walked(walks) => {
                self.datapath.accept(*walks);
                self.maintain();
            }
            Command::Count(rules) => {
                let ledger = self.datapath.gather_rules(&rules);
                self.answer(Answer::Counted(ledger));
            }
            Command::Uses(rules) => {
                let uses = self.datapath.uses_since(&rules);
                self.answer(Answer::Used(uses));
            }
            Command::Megaflows(limit) => {
                let entries = self.datapath.some_entries(limit);
                self.answer(Answer::Megaflows(self.number, entries));
            }
            Command::EntrySlice(from, count) => {
                let slice = self.datapath.entry_slice(from, count);
                self.answer(Answer::EntrySlice(self.number, slice));
            }
            Command::Hold => return self.hold(ports),
            Command::Release => self.answer(Answer::Done),
            Command::Drain => {
                self.drain(ports);
                self.answer(Answer::Done);
            }
            Command::Flush => {
                let ledger = self.datapath.flush(&self.shared.pipeline.read());
                self.answer(Answer::Counted(ledger));
            }
            Command::PutByHand(flows) => {
                self.datapath.put_by_hand(flows);
                self.answer(Answer::Done);
            }
            Command::Set(setting) => self.set(setting),
            Command::Attach(arrivals) => {
                for (place, port) in arrivals {
                    ports.attach(place, port);
                }
                self.answer(Answer::Done);
            }
            Command::Detach(places) => {
                let pool = &mut self.outbox.pool;
                let leaving = places.into_iter().map(|place| ports.vacate(place, pool));
                let leaving = leaving.collect();
                self.answer(Answer::Detached(leaving));
            }
            Command::Route(routes) => {
                self.routes = routes;
                self.answer(Answer::Done);
            }
            Command::Install(learnt) => {
                // If only this worker was told, the outcome is moved, not shared.
                match Arc::into_inner(learnt) {
                    Some(learnt) => self.datapath.install(learnt),
                    None => self.datapath.forget_training(),
                }
                self.answer(Answer::Done);
            }
            Command::Report => {
                self.reporting = Some(0);
                self.gather(ports);
            }
            Command::Stop => {
                self.stop(ports);
                return false;
            }
        }
        true
    }

    /// Changes how the caches work, and answers that.
    fn set(&mut self, setting: CacheSetting) {
        let mut answer = Answer::Done;
        match setting {
            CacheSetting::Exact(is_exact) => {
                let pipeline = self.shared.pipeline.read();
                answer = Answer::Counted(self.datapath.set_exact(is_exact, &pipeline));
            }
            CacheSetting::Limit(entries) => self.datapath.limit_megaflows(entries),
            CacheSetting::Idle(max_idle) => self.idle.set(max_idle),
            CacheSetting::Watch(watched) => {
                self.datapath.watch_upcalls(watched);
                self.is_watched = watched != WatchedUpcalls::None;
            }
        }
        self.answer(answer);
    }

    /// Waits for the next command, and obeys it; returns false at the end.
    fn hold(&mut self, ports: &mut Ports) -> bool {
        self.answer(Answer::Done);
        // Invariant 2.
        match self.channels.commands.recv() {
            Ok(command) => self.follow_command(command, ports),
            Err(_) => false,
        }
    }

    fn stop(&mut self, ports: &mut Ports) {
        self.drain(ports);
        self.datapath.gather_slice(0, u32::MAX);
        self.report(ports);
        // Invariant 5.
        while self.channels.commands.recv().is_ok() {}
    }

    /// Does a slice of following a change.
    fn maintain(&mut self) {
        if !self.datapath.is_following() || self.datapath.is_waiting() {
            return;
        }
        let start = self.shared.clock.real_now();
        self.follow();
        self.counters.maintenance_time += self.shared.clock.real_now() - start;
    }

    fn follow(&mut self) {
        let progress = self.datapath.step(&self.shared.pipeline);
        let version = self.datapath.version();
        if let Some(delta) = self.moving.take_if(|delta| delta.version <= version) {
            for station in &delta.stations {
                self.recent.forget(*station);
            }
            if !delta.removed.is_empty() {
                self.recent_rules.forget_all();
            }
            let requests = self.datapath.request_walks();
            let requests = requests.map(|requests| (self.number, Box::new(requests)));
            self.answer(Answer::Advanced(requests));
        }
        if let Progress::Settled {
            version,
            work,
            ledger,
        } = progress
        {
            let settled = Settled {
                version,
                work,
                ledger,
            };
            self.answer(Answer::Settled(settled));
            // If this does not fit, the control side has enough to wake up for.
            let _ = self.channels.news.try_send(News::Attention);
        }
    }

    /// Gathers a slice of entries' counts for a report; after the last, sends the report.
    fn gather(&mut self, ports: &Ports) {
        let Some(from) = self.reporting else { return };
        self.reporting = self.datapath.gather_slice(from, GATHERED);
        if self.reporting.is_none() {
            self.report(ports);
        }
    }

    fn report(&mut self, ports: &Ports) {
        self.counters.longest_round = ports.longest_round;
        self.counters.copies_refused = self.outbox.copies_refused;
        self.counters.queued = self.outbox.queued;
        self.counters.rules_over_limit = self.outbox.rules_refused;
        let ports = ports.attached.iter().filter(|port| !port.is_vacant);
        let report = Report {
            ports: ports
                .map(|port| (port.number, port.status, port.port.counters()))
                .collect(),
            ledger: self.datapath.take_ledger(),
            statistics: self.datapath.statistics().clone(),
            counters: self.counters,
            spare_packets: self.outbox.pool.available(),
            microflows: self.datapath.microflow_count(),
            megaflows: self.datapath.megaflow_count(),
            masks: self.datapath.mask_count(),
            choice: self.datapath.choice(),
        };
        self.answer(Answer::Report(Box::new(report)));
    }

    /// If the control side is gone, the next look at the commands ends the worker.
    fn answer(&self, answer: Answer) {
        let _ = self.channels.answers.send(answer);
    }
}

impl Duty for RuleDuty {
    type Left = ();

    fn now(&self) -> Instant {
        self.shared.clock.real_now()
    }

    fn packet_time(&self, now: Instant) -> Instant {
        self.shared.clock.shown_at(now)
    }

    fn pool(&mut self) -> &mut PacketPool {
        &mut self.outbox.pool
    }

    fn doorbell(&self) -> &Doorbell {
        &self.shared.doorbells[self.number]
    }

    fn has_commands(&self) -> bool {
        !self.channels.commands.is_empty()
    }

    fn has_work(&self) -> bool {
        self.has_commands() || self.shared.exchanges[self.number].has_packets()
    }

    /// The worker also ends when the control side is gone.
    fn obey(&mut self, ports: &mut Ports) -> bool {
        match self.channels.commands.try_recv() {
            Ok(command) => {
                let start = self.shared.clock.real_now();
                let goes_on = self.follow_command(command, ports);
                self.note_pause(start);
                goes_on
            }
            Err(error) => !error.is_disconnected(),
        }
    }

    fn tend(&mut self, ports: &mut Ports) -> bool {
        let is_busy = self.is_busy();
        if is_busy {
            self.take_slices(ports);
        }
        let is_tending = self.tend_caches(ports);
        let is_looking = self.evict_idle();
        is_busy || is_tending || is_looking
    }

    fn forward(
        &mut self,
        _: usize,
        burst: &mut Vec<Packet>,
        ports: &mut Ports,
        now: Instant,
    ) -> u64 {
        if self.shared.holds_packets.load(Ordering::Relaxed) {
            let count = burst.len() as u64;
            self.drop_held(burst);
            return count;
        }
        let (packets, upcalls) = (burst.len() as u64, self.datapath.statistics().upcalls);
        if let Some(node) = &self.shared.node {
            lock(node).process(burst, &mut self.outbox, now);
        }
        let pipeline = &self.shared.pipeline;
        self.datapath
            .process(burst, now, pipeline, &mut self.outbox);
        self.empty_outbox(ports, now);
        if self.is_watched {
            self.tell_upcalls();
        }
        packets + (self.datapath.statistics().upcalls - upcalls) * UPCALL_COST
    }

    fn forward_others(&mut self, ports: &mut Ports, _: Instant) -> usize {
        self.send_for_others(ports, EXCHANGE_BURST)
    }

    /// Tells the control side of ports that went up or down.
    fn look_at(&mut self, ports: &mut Ports, places: Range<usize>) {
        for port in &mut ports.attached[places] {
            if port.status == PortStatus::Gone {
                continue;
            }
            let status = port.port.status();
            if status != port.status {
                let news = News::Port(port.number, port.attachment, status);
                // Without room it stays news.
                if self.channels.news.try_send(news).is_ok() {
                    port.status = status;
                }
            }
        }
    }

    fn end(self, _: Ports) {}
}
