//! A worker: a thread that carries packets from its ports all the way to their destination.
//!
//! ```text
//!   loop:
//!     obey commands
//!     a slice of maintenance, a slice of a report    -- only here does the version change
//!     for port: receive a burst; caches answer; send, each port once; a command ends the round
//!     send what other workers have left for our ports
//!     sometimes: look whether ports are up
//!     nothing came for a while: sleep
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

use std::sync::Arc;
use std::time::Duration;

use thalweg_datapath::{Datapath, Gate, Progress, Tending};
use thalweg_io::{BURST, PortStatus};
use thalweg_packet::{Instant, Packet};
use thalweg_pipeline::{Delta, Outbox, Pipeline};

use crate::clock::Clock;
use crate::doorbell::Doorbell;
use crate::exchange::Exchange;
use crate::message::{Answer, Command, News, PacketIn, Report, Settled};
use crate::ports::{Attached, Routes};
use crate::recent::Recent;
use crate::sync::{Mutex, Receiver, Sender};
use crate::totals::WorkerCounters;
use crate::v2p::{Node, lock};

/// Rounds without a packet after which a worker sleeps; few in a model check.
const IDLE_ROUNDS: u32 = if cfg!(thalweg_model) { 1 } else { 64 };

/// Packets of other workers sent in one round. More than come in, so that these packets, which
/// have cost the most already, are not the first to be refused.
const EXCHANGE_BURST: usize = 4 * BURST;

/// How often port status is checked, which takes a system call.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);

/// How long a descriptor is ignored that was ready when no packet came.
const QUIET_TIME: Duration = Duration::from_millis(10);

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

/// Sleep between checks of ports that cannot be polled: at first, and at most when nothing
/// comes.
const SHORTEST_NAP: Duration = Duration::from_micros(100);
const LONGEST_NAP: Duration = Duration::from_millis(2);

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
}

/// The channels of a worker.
pub(crate) struct Channels {
    pub(crate) commands: Receiver<Command>,
    pub(crate) answers: Sender<Answer>,
    pub(crate) news: Sender<News>,
    pub(crate) packet_ins: Sender<PacketIn>,
}

/// A worker, before and while it runs.
pub(crate) struct Worker {
    number: usize,
    shared: Arc<Shared>,
    channels: Channels,
    ports: Vec<Attached>,
    routes: Arc<Routes>,
    datapath: Datapath,
    outbox: Outbox,
    recent: Recent,
    counters: WorkerCounters,
    /// By worker: packets for its ports, each with the port's place.
    leaving: Vec<Vec<(usize, Packet)>>,
    burst: Vec<Packet>,
    /// The port at which the next round begins.
    first_port: usize,
    ready: Vec<usize>,
    idle_rounds: u32,
    nap: Duration,
    next_status_check: Instant,
    /// The change being followed until it is acknowledged; its stations are needed.
    moving: Option<Arc<Delta>>,
    /// Where gathering for a requested report continues.
    reporting: Option<u32>,
    /// When the ports were last looked at, if there was work.
    last_look: Option<Instant>,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        shared: Arc<Shared>,
        channels: Channels,
        ports: Vec<Attached>,
        routes: Arc<Routes>,
        datapath: Datapath,
        outbox: Outbox,
    ) -> Worker {
        let leaving = shared.exchanges.iter().map(|_| Vec::new()).collect();
        Worker {
            number,
            shared,
            channels,
            ports,
            routes,
            datapath,
            outbox,
            recent: Recent::new(),
            counters: WorkerCounters::default(),
            leaving,
            burst: Vec::new(),
            first_port: 0,
            ready: Vec::new(),
            idle_rounds: 0,
            nap: SHORTEST_NAP,
            next_status_check: Instant::ZERO,
            moving: None,
            reporting: None,
            last_look: None,
        }
    }

    /// Works until told to stop, or until the control side is gone.
    pub(crate) fn run(mut self) {
        loop {
            match self.channels.commands.try_recv() {
                Ok(command) => {
                    let start = self.shared.clock.now();
                    if !self.obey(command) {
                        return;
                    }
                    self.note_pause(start);
                }
                Err(error) if error.is_disconnected() => return,
                Err(_) => {}
            }
            let is_busy = self.is_busy();
            if is_busy {
                self.take_slices();
            }
            let is_tending = self.tend_caches();
            if self.round() > 0 || is_busy || is_tending {
                self.idle_rounds = 0;
                self.nap = SHORTEST_NAP;
            } else if self.idle_rounds < IDLE_ROUNDS {
                self.idle_rounds += 1;
                std::hint::spin_loop();
            } else {
                self.sleep();
            }
        }
    }

    fn is_busy(&self) -> bool {
        self.datapath.is_following() && !self.datapath.is_waiting() || self.reporting.is_some()
    }

    /// Does slices of maintenance and of a report: one, or as many as fit into a share of the
    /// last round's time.
    fn take_slices(&mut self) {
        let (start, round) = self.round_so_far();
        loop {
            self.maintain();
            self.gather();
            if self.is_share_spent(start, round, ROUND_SHARE) || !self.is_busy() {
                break;
            }
        }
        self.note_pause(start);
    }

    /// Does slices of work on the caches' index; returns whether there were any. They fit into
    /// a share of the last round's time. Long jobs go to the control side.
    fn tend_caches(&mut self) -> bool {
        if self.channels.news.is_full() {
            return false;
        }
        let (start, round) = self.round_so_far();
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

    /// The current time, and how long ago the last round began.
    fn round_so_far(&self) -> (Instant, Duration) {
        let now = self.shared.clock.now();
        (
            now,
            self.last_look.map_or(Duration::ZERO, |look| now - look),
        )
    }

    /// Whether slices have used their share of a round.
    fn is_share_spent(&self, start: Instant, round: Duration, share: u32) -> bool {
        let spent = self.shared.clock.now() - start;
        spent * share >= round || spent >= LONGEST_SLICES
    }

    /// Handles one burst from each port; stops early if a command comes, so that a worker with
    /// many ports responds soon. Returns the number of packets handled.
    fn round(&mut self) -> usize {
        let now = self.shared.clock.now();
        if let Some(last) = self.last_look {
            self.counters.longest_round = self.counters.longest_round.max(now - last);
        }
        if now >= self.next_status_check {
            self.next_status_check = now + STATUS_INTERVAL;
            (0..self.ports.len()).for_each(|place| self.look_at(place));
        }
        let mut count = 0;
        let first = self.first_port;
        let places = (first..self.ports.len()).chain(0..first);
        for place in places {
            let port = &mut self.ports[place];
            port.port
                .receive(&mut self.outbox.pool, &mut self.burst, now);
            let received = self.burst.len();
            if std::mem::take(&mut port.was_ready) && received == 0 {
                port.quiet_until = now + QUIET_TIME;
                self.look_at(place);
            }
            if received > 0 {
                if let Some(node) = &self.shared.node {
                    lock(node).process(&mut self.burst, &mut self.outbox, now);
                }
                let pipeline = &self.shared.pipeline;
                self.datapath
                    .process(&mut self.burst, now, pipeline, &mut self.outbox);
                self.empty_outbox(now);
            }
            count += received;
            if received > 0 && !self.channels.commands.is_empty() {
                self.first_port = (place + 1) % self.ports.len();
                break;
            }
        }
        count += self.send_for_others(EXCHANGE_BURST);
        self.last_look = (count > 0).then_some(now);
        count
    }

    fn note_pause(&mut self, start: Instant) {
        let pause = self.shared.clock.now() - start;
        self.counters.longest_pause = self.counters.longest_pause.max(pause);
    }

    /// Empties the outbox (invariant 1).
    fn empty_outbox(&mut self, now: Instant) {
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
                    self.ports[route.place].sending.push(packet);
                }
                Some(route) => self.leaving[route.worker].push((route.place, packet)),
                None => {
                    self.counters.no_such_port += 1;
                    self.outbox.pool.put(packet);
                }
            }
        }
        self.flush_ports();
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
        if !self.outbox.to_controller.is_empty() {
            self.tell_controller();
        }
    }

    fn flush_ports(&mut self) {
        for port in &mut self.ports {
            if port.sending.is_empty() {
                continue;
            }
            if port.is_vacant {
                self.counters.no_such_port += port.sending.len() as u64;
                self.outbox.pool.put_burst(&mut port.sending);
                continue;
            }
            port.port.send(&mut self.outbox.pool, &mut port.sending);
        }
    }

    /// Sends what other workers have left for our ports.
    fn send_for_others(&mut self, limit: usize) -> usize {
        let (ports, pool) = (&mut self.ports, &mut self.outbox.pool);
        let exchange = &self.shared.exchanges[self.number];
        let count = exchange.collect(limit, pool, |place, packet| {
            ports[place].sending.push(packet);
        });
        if count > 0 {
            self.flush_ports();
            self.shared.exchanges[self.number].note_sent();
        }
        count
    }

    /// Sends what others have left so far; what they leave meanwhile can wait.
    ///
    /// Packets that cannot be taken for lack of a buffer are dropped and counted: they may
    /// have been answered at an older version, and must not leave once the change is
    /// acknowledged.
    fn drain(&mut self) {
        let mut waiting = self.shared.exchanges[self.number].waiting();
        while waiting > 0 {
            match self.send_for_others(waiting.min(EXCHANGE_BURST)) {
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

    /// Checks a port's status, and reports changes.
    fn look_at(&mut self, place: usize) {
        let port = &mut self.ports[place];
        if port.status == PortStatus::Gone {
            return;
        }
        let status = port.port.status();
        if status != port.status {
            let news = News::Port(port.number, port.attachment, status);
            // If this does not fit, it is reported later.
            if self.channels.news.try_send(news).is_ok() {
                port.status = status;
            }
        }
    }

    /// Sleeps until a packet comes, the bell rings, or ports must be checked.
    fn sleep(&mut self) {
        let now = self.shared.clock.now();
        let mut limit = self.next_status_check - now;
        let mut descriptors = Vec::new();
        let mut places = Vec::new();
        for (place, port) in self.ports.iter().enumerate() {
            match port.port.descriptor() {
                _ if !port.may_receive() => {}
                Some(_) if port.quiet_until > now => limit = limit.min(port.quiet_until - now),
                Some(descriptor) => {
                    descriptors.push(descriptor);
                    places.push(place);
                }
                None => limit = limit.min(self.nap),
            }
        }
        let (commands, exchange) = (&self.channels.commands, &self.shared.exchanges[self.number]);
        let has_work = || !commands.is_empty() || exchange.has_packets();
        let doorbell = &self.shared.doorbells[self.number];
        doorbell.sleep(&descriptors, limit, has_work, &mut self.ready);
        for index in self.ready.drain(..) {
            self.ports[places[index]].was_ready = true;
        }
        self.nap = (self.nap * 2).min(LONGEST_NAP);
    }

    /// Obeys a command and answers it; returns false at the end.
    fn obey(&mut self, command: Command) -> bool {
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
            Command::Hold => {
                self.answer(Answer::Done);
                // Invariant 2.
                return match self.channels.commands.recv() {
                    Ok(command) => self.obey(command),
                    Err(_) => false,
                };
            }
            Command::Release => self.answer(Answer::Done),
            Command::Drain => {
                self.drain();
                self.answer(Answer::Done);
            }
            Command::Attach(place, port) => {
                self.attach(place, *port);
                self.answer(Answer::Done);
            }
            Command::Detach(place) => {
                let port = self.detach(place);
                self.answer(Answer::Detached(Box::new(port)));
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
                self.gather();
            }
            Command::Stop => {
                self.drain();
                self.datapath.gather_slice(0, u32::MAX);
                self.report();
                // Invariant 5.
                while self.channels.commands.recv().is_ok() {}
                return false;
            }
        }
        true
    }

    fn attach(&mut self, place: usize, port: Attached) {
        if place == self.ports.len() {
            self.ports.push(Attached::vacant());
        }
        self.ports[place] = port;
        self.idle_rounds = 0;
    }

    fn detach(&mut self, place: usize) -> Attached {
        let mut port = std::mem::replace(&mut self.ports[place], Attached::vacant());
        port.port.close(&mut self.outbox.pool);
        port
    }

    /// Does a slice of following a change.
    fn maintain(&mut self) {
        if !self.datapath.is_following() || self.datapath.is_waiting() {
            return;
        }
        let start = self.shared.clock.now();
        self.follow();
        self.counters.maintenance_time += self.shared.clock.now() - start;
    }

    fn follow(&mut self) {
        let progress = self.datapath.step(&self.shared.pipeline);
        let version = self.datapath.version();
        if let Some(delta) = self.moving.take_if(|delta| delta.version <= version) {
            for station in &delta.stations {
                self.recent.forget(*station);
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
    fn gather(&mut self) {
        let Some(from) = self.reporting else { return };
        self.reporting = self.datapath.gather_slice(from, GATHERED);
        if self.reporting.is_none() {
            self.report();
        }
    }

    fn report(&mut self) {
        self.counters.copies_refused = self.outbox.copies_refused;
        let ports = self.ports.iter().filter(|port| !port.is_vacant);
        let report = Report {
            ports: ports
                .map(|port| (port.number, port.status, port.port.counters()))
                .collect(),
            ledger: self.datapath.take_ledger(),
            statistics: self.datapath.statistics().clone(),
            counters: self.counters,
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
