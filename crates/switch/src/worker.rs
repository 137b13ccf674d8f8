//! A worker: a thread that takes packets from its ports all the way to where they go.
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
//!    command is looked at. So when a worker has acknowledged a change, it neither has nor makes a
//!    packet of an older version; those it left with others are drained by the control side.
//! 2. While it is held, a worker does not touch the pipeline or its ports.
//! 3. A worker waits for nobody but in a hold: its news are refused if nobody takes them.
//! 4. An answer follows every command but one, and the channel has room for it, and for the one
//!    that says that caches are repaired.
//! 5. A worker that was told to stop ends when the control side has heard all: one that ends
//!    before has panicked.

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

/// Rounds without a packet after which a worker sleeps; in a model check, soon.
const IDLE_ROUNDS: u32 = if cfg!(thalweg_model) { 1 } else { 64 };

/// Packets of other workers that are sent in one round: more than come in, so that these, which
/// have cost the most already, are not the first to be refused.
const EXCHANGE_BURST: usize = 4 * BURST;

/// How often ports are asked whether they are up; this asks the operating system.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);

/// For how long a descriptor is not believed that was ready when nothing came.
const QUIET_TIME: Duration = Duration::from_millis(10);

/// Slices take one part in so many of the time of a round, if there are more than one: a worker
/// with many ports would else be long in following a change.
const ROUND_SHARE: u32 = 4;

/// The same of slices of work for the caches' index, which nobody waits for.
const TEND_SHARE: u32 = 8;

/// However long a round was, no more slices follow each other after this time.
const LONGEST_SLICES: Duration = Duration::from_millis(1);

/// Entries whose counts are gathered between two bursts.
const GATHERED: u32 = 128;

/// Entries of a slice of work for the caches' index, or so.
const TEND_STEPS: usize = if cfg!(thalweg_model) { 1 } else { 16 };

/// Sleep between asking ports that cannot be polled: at first, and at last when nothing comes.
const SHORTEST_NAP: Duration = Duration::from_micros(100);
const LONGEST_NAP: Duration = Duration::from_millis(2);

/// What all workers share.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) pipeline: Gate<Pipeline>,
    /// By worker: what others have left for it.
    pub(crate) exchanges: Vec<Exchange>,
    /// By worker.
    pub(crate) doorbells: Vec<Doorbell>,
    /// What sees packets before the rules do, in a fabric that caches virtual addresses.
    pub(crate) node: Option<Mutex<Node>>,
}

/// Where a worker hears and speaks.
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
    /// By worker: packets for its ports, each with the place of the port.
    leaving: Vec<Vec<(usize, Packet)>>,
    burst: Vec<Packet>,
    /// The port with which the next round begins.
    first_port: usize,
    ready: Vec<usize>,
    idle_rounds: u32,
    nap: Duration,
    next_status_check: Instant,
    /// The change that is being followed and not yet acknowledged: its stations.
    moving: Option<Arc<Delta>>,
    /// Where a report that is asked for goes on gathering.
    reporting: Option<u32>,
    /// When the ports were last looked at, if there was something to look after.
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

    /// Works until it is told to stop, or the control side is gone.
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

    /// Slices of maintenance and of a report: one, or as many as fit into a share of the time that
    /// the last round took.
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

    /// Slices of work for the caches' index, as many as fit into a share of the time that the last
    /// round took; says whether there were any. Long work is handed to the control side.
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
                Tending::Job(training) => {
                    has_worked = true;
                    let news = News::Training(self.number, Box::new(training));
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

    /// Now, and how long ago the last round began.
    fn round_so_far(&self) -> (Instant, Duration) {
        let now = self.shared.clock.now();
        (
            now,
            self.last_look.map_or(Duration::ZERO, |look| now - look),
        )
    }

    /// Whether slices have had their share of a round.
    fn is_share_spent(&self, start: Instant, round: Duration, share: u32) -> bool {
        let spent = self.shared.clock.now() - start;
        spent * share >= round || spent >= LONGEST_SLICES
    }

    /// One burst from each port, or from some if a command comes: else who has many ports would be
    /// long in hearing it. Says how many packets there were to do something with.
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

    /// Takes everything out of the outbox; invariant 1.
    fn empty_outbox(&mut self, now: Instant) {
        let mut last = None;
        for (number, packet) in self.outbox.sent.drain(..) {
            // Neighbours mostly go the same way.
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
        if !self.outbox.learned.is_empty() {
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

    /// Sends what others have left until now; what they leave meanwhile can wait.
    ///
    /// What cannot be taken for want of a buffer is dropped and counted: it may have been answered
    /// at an older version, and must not leave once the change is acknowledged.
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

    /// Reports stations, each once in a while.
    fn tell_learned(&mut self, now: Instant) {
        let recent = &mut self.recent;
        self.outbox
            .learned
            .retain(|(station, port)| recent.is_news(*station, *port, now));
        if self.outbox.learned.is_empty() {
            return;
        }
        let learned = std::mem::take(&mut self.outbox.learned);
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
            // Copying for nothing is what a flood would make us do.
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
        // If there is no room for this, the control side has enough to wake up for.
        let _ = self.channels.news.try_send(News::Attention);
    }

    /// Looks whether a port is up, and tells if that is news.
    fn look_at(&mut self, place: usize) {
        let port = &mut self.ports[place];
        if port.status == PortStatus::Gone {
            return;
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

    /// Sleeps until something comes, somebody rings, or ports are to be looked at.
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

    /// Does what it is told and answers; false when it is to end.
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
                // Only this worker was told.
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

    /// A slice of following a change.
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
            // If there is no room for this, the control side has enough to wake up for.
            let _ = self.channels.news.try_send(News::Attention);
        }
    }

    /// A slice of gathering what entries have counted, for a report; with the last, the report.
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

    /// If nobody listens any more, the next look at the commands ends the worker.
    fn answer(&self, answer: Answer) {
        let _ = self.channels.answers.send(answer);
    }
}
