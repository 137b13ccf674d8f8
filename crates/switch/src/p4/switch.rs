//! A switch that runs a P4 program: ports, one worker, and the program of a session.
//!
//! ```text
//!   loop:
//!     for port: receive a burst; take the program; run it on each packet; send; let it go
//!     the same with packets that the controller sent
//!     digests, and packets that go to the controller's port: to the server
//!     nothing came for a while: sleep
//! ```
//!
//! 1. Everything a burst leads to is sent, or with the server, before the program is released.
//!    So every packet sent after a change is acknowledged follows that change.
//! 2. The worker waits only for a session that writes. The server counts what it has no room
//!    for ([`Notices::dropped`]).
//! 3. Ports are added and removed between two rounds. A removed port sends and receives
//!    nothing, its counts stay in the totals, and the thread that removed it closes it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thalweg_control::Notices;
use thalweg_io::{BURST, PortCounters, PortStatus};
use thalweg_p4::behavior::cache::BehaviorCounts;
use thalweg_p4::{CacheStatistics, IndexJob, Outbox, TargetOwner};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};

use super::plane::{P4Burst, P4Forwarder};
use crate::doorbell::Doorbell;
use crate::plugging::{packets_needed, status_at_first};
use crate::ports::{Attached, Routes, SwitchPort};
use crate::switch::SwitchError;
use crate::sync::{AtomicBool, JoinHandle, Mutex, Receiver, Sender, bounded, spawn};
use crate::totals::PlugCounters;

/// A request to the worker about its ports; an answer follows each.
enum Plugging {
    Attach(Box<Attached>),
    Detach(PortId),
}

/// Rounds without a packet after which the worker sleeps.
const IDLE_ROUNDS: u32 = 64;
/// How often port status is checked.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);
/// How long a descriptor is ignored that was ready when no packet came.
const QUIET_TIME: Duration = Duration::from_millis(10);
/// Sleep between checks of ports that cannot be polled: at first, and at most when nothing
/// comes.
const SHORTEST_NAP: Duration = Duration::from_micros(100);
const LONGEST_NAP: Duration = Duration::from_millis(2);

/// Limits of a P4 switch.
#[derive(Clone, Copy, Debug)]
pub struct P4Config {
    /// Buffers for packets, including those that ports keep ready.
    pub packets: usize,
    /// Their initial size in bytes; they can grow.
    pub packet_bytes: usize,
}

/// Wakes the worker; created before it, as the program's other end needs it.
#[derive(Clone, Debug)]
pub struct P4Waker(Arc<Flags>);

#[derive(Debug)]
struct Flags {
    doorbell: Doorbell,
    is_stopping: AtomicBool,
    is_finished: AtomicBool,
    /// Ports whose interface was deleted, for the thread that attached them.
    gone: Mutex<Vec<PortId>>,
}

impl P4Waker {
    /// Creates the waker of a worker that is not started yet.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub fn new() -> io::Result<P4Waker> {
        Ok(P4Waker(Arc::new(Flags {
            doorbell: Doorbell::new()?,
            is_stopping: AtomicBool::new(false),
            is_finished: AtomicBool::new(false),
            gone: Mutex::new(Vec::new()),
        })))
    }

    /// Wakes the worker if it sleeps.
    pub fn wake(&self) {
        self.0.doorbell.ring();
    }
}

/// Counters of a P4 switch.
#[derive(Clone, Debug, Default)]
pub struct P4Totals {
    /// Packets that the program processed, including those from the controller.
    pub packets: u64,
    /// Packets from the controller.
    pub from_controller: u64,
    /// Packets for the controller.
    pub to_controller: u64,
    /// Dropped packets, by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Counters of the cache of the program's traversals, if there is one.
    pub traversals: Option<CacheStatistics>,
    /// Counters of its behaviours, and how many are remembered, if they are.
    pub behaviors: Option<(BehaviorCounts, usize)>,
    /// Ports, in the order given; removed ones too, as gone.
    pub ports: Vec<(PortId, PortStatus, PortCounters)>,
    /// Ports added and removed.
    pub plugs: PlugCounters,
}

/// A running P4 switch.
pub struct P4Switch {
    waker: P4Waker,
    worker: Option<JoinHandle<P4Totals>>,
    commands: Sender<Plugging>,
    /// The port handed back, if the request was for one and it exists.
    answers: Receiver<Option<Box<Attached>>>,
    /// Numbers of the current ports.
    present: Vec<PortId>,
    packets: usize,
    former: BTreeMap<PortId, PortCounters>,
    plugs: PlugCounters,
}

impl P4Switch {
    /// Starts the worker; `start` is the time of [`Instant::ZERO`].
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        config: P4Config,
        ports: Vec<SwitchPort>,
        waker: P4Waker,
        forwarder: P4Forwarder,
        notices: Notices,
        start: std::time::Instant,
    ) -> io::Result<P4Switch> {
        let numbers: Vec<PortId> = ports.iter().map(|port| port.number).collect();
        let attached = ports.into_iter().map(attached);
        let (commands, commands_out) = bounded(1);
        let (answers_in, answers) = bounded(1);
        let worker = P4Worker {
            flags: waker.0.clone(),
            routes: Routes::new(&numbers, 1),
            ports: attached.collect(),
            commands: commands_out,
            answers: answers_in,
            pool: PacketPool::with_capacity(config.packets, config.packet_bytes),
            burst: Vec::new(),
            outbox: Outbox::new(),
            forwarder,
            notices,
            start,
            totals: P4Totals::default(),
            no_such_port: 0,
            no_buffer: 0,
            ready: Vec::new(),
            next_status_check: Instant::ZERO,
            nap: SHORTEST_NAP,
            training: None,
        };
        let worker = spawn("p4-worker".to_owned(), move || worker.run())?;
        Ok(P4Switch {
            waker,
            worker: Some(worker),
            commands,
            answers,
            present: numbers,
            packets: config.packets,
            former: BTreeMap::new(),
            plugs: PlugCounters::default(),
        })
    }

    /// Whether the switch has a port with this number. False for a deleted interface, once
    /// [`P4Switch::look_after_ports`] has seen it.
    pub fn has_port(&self, number: PortId) -> bool {
        self.present.contains(&number)
    }

    /// Removes the ports whose interfaces were deleted.
    pub fn look_after_ports(&mut self) {
        let gone = match self.waker.0.gone.lock() {
            Ok(mut gone) => std::mem::take(&mut *gone),
            Err(_) => return, // The worker has panicked, which is reported elsewhere.
        };
        for number in gone {
            self.plugs.gone += u64::from(self.detach(number));
        }
    }

    /// Adds a port.
    ///
    /// # Errors
    /// If a port with this number exists, or the worker has too few packets for one more.
    pub fn attach(&mut self, port: SwitchPort) -> Result<(), SwitchError> {
        let number = port.number;
        if self.has_port(number) {
            return Err(SwitchError::DuplicatePort { number });
        }
        let ports = self.present.len() + 1;
        let needed = packets_needed(ports);
        if self.packets < needed {
            let packets = self.packets;
            return Err(SwitchError::FewPackets {
                packets,
                ports,
                needed,
            });
        }
        self.ask(Plugging::Attach(Box::new(attached(port))));
        self.present.push(number);
        self.plugs.attached += 1;
        Ok(())
    }

    /// Removes a port; returns whether it existed. It is closed when this returns.
    pub fn detach(&mut self, number: PortId) -> bool {
        if !self.has_port(number) {
            return false;
        }
        self.present.retain(|present| *present != number);
        if let Some(port) = self.ask(Plugging::Detach(number)) {
            let counters = port.port.counters();
            self.former.entry(number).or_default().add(&counters);
        }
        self.plugs.detached += 1;
        true
    }

    /// Sends a request to the worker and waits for the answer; `None` if the worker has ended.
    fn ask(&self, command: Plugging) -> Option<Box<Attached>> {
        self.commands.send(command).ok()?;
        self.waker.wake();
        self.answers.recv().ok()?
    }

    /// Whether every source has delivered all its packets.
    pub fn is_finished(&self) -> bool {
        self.waker.0.is_finished.load(Ordering::SeqCst)
    }

    /// Whether the worker has ended before it was told to, because it panicked.
    pub fn has_failed(&self) -> bool {
        self.worker.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Stops the worker and returns its totals.
    ///
    /// # Panics
    /// If the worker has panicked.
    pub fn stop(mut self) -> P4Totals {
        self.waker.0.is_stopping.store(true, Ordering::SeqCst);
        self.waker.wake();
        let worker = self.worker.take().expect("it is taken once");
        match worker.join() {
            Ok(mut totals) => {
                totals.plugs = self.plugs;
                for (number, counters) in &self.former {
                    let mut ports = totals.ports.iter_mut();
                    match ports.find(|(present, ..)| present == number) {
                        Some((_, _, sum)) => sum.add(counters),
                        None => totals.ports.push((*number, PortStatus::Gone, *counters)),
                    }
                }
                totals
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for P4Switch {
    fn drop(&mut self) {
        self.waker.0.is_stopping.store(true, Ordering::SeqCst);
        self.waker.wake();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn attached(port: SwitchPort) -> Attached {
    let SwitchPort {
        number,
        mut port,
        is_source,
    } = port;
    let status = status_at_first(&mut *port);
    Attached {
        is_source,
        ..Attached::new(number, port, status)
    }
}

struct P4Worker {
    flags: Arc<Flags>,
    routes: Routes,
    ports: Vec<Attached>,
    commands: Receiver<Plugging>,
    answers: Sender<Option<Box<Attached>>>,
    pool: PacketPool,
    burst: Vec<Packet>,
    outbox: Outbox,
    forwarder: P4Forwarder,
    notices: Notices,
    start: std::time::Instant,
    totals: P4Totals,
    no_such_port: u64,
    no_buffer: u64,
    ready: Vec<usize>,
    next_status_check: Instant,
    nap: Duration,
    /// The thread that improves the program's index, if there is work.
    training: Option<JoinHandle<()>>,
}

impl P4Worker {
    fn run(mut self) -> P4Totals {
        let mut idle_rounds = 0;
        while !self.flags.is_stopping.load(Ordering::SeqCst) {
            if let Ok(command) = self.commands.try_recv() {
                self.plug(command);
            }
            if self.round() > 0 {
                idle_rounds = 0;
                self.nap = SHORTEST_NAP;
            } else if idle_rounds < IDLE_ROUNDS {
                idle_rounds += 1;
                std::hint::spin_loop();
            } else {
                self.sleep();
            }
        }
        self.report()
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    /// Handles one burst from each port and from the controller; returns the number of
    /// packets.
    fn round(&mut self) -> usize {
        let now = self.now();
        if now >= self.next_status_check {
            self.next_status_check = now + STATUS_INTERVAL;
            self.look_at_ports();
        }
        let mut count = 0;
        let forwarder = self.forwarder.clone();
        for place in 0..self.ports.len() {
            let port = &mut self.ports[place];
            port.port.receive(&mut self.pool, &mut self.burst, now);
            if std::mem::take(&mut port.was_ready) && self.burst.is_empty() {
                port.quiet_until = now + QUIET_TIME;
            }
            if self.burst.is_empty() {
                continue;
            }
            count += self.burst.len();
            let number = port.number.0;
            let mut program = forwarder.begin();
            let mut burst = std::mem::take(&mut self.burst);
            for packet in burst.drain(..) {
                program.receive(number, packet.bytes(), now, &mut self.outbox);
                self.pool.put(packet);
                self.deliver(&program);
            }
            self.burst = burst;
            self.flush();
            let training = match self.training {
                None => program.take_training(),
                Some(_) => None,
            };
            // Invariant 1: the program is released here.
            drop(program);
            if let Some(training) = training {
                self.train(training);
            }
        }
        self.look_at_training();
        count += self.run_injected(&forwarder, now);
        self.totals.packets += count as u64;
        count
    }

    /// Improves the program's index on a thread, which also installs it.
    fn train(&mut self, job: IndexJob<TargetOwner>) {
        let forwarder = self.forwarder.clone();
        let work = move || forwarder.install(job.run());
        match spawn("p4-training".to_owned(), work) {
            Ok(thread) => self.training = Some(thread),
            Err(_) => self.forwarder.forget_training(),
        }
    }

    fn look_at_training(&mut self) {
        let done = self.training.take_if(|thread| thread.is_finished());
        if done.is_some_and(|thread| thread.join().is_err()) {
            self.forwarder.forget_training();
        }
    }

    /// Processes packets from the controller.
    fn run_injected(&mut self, forwarder: &P4Forwarder, now: Instant) -> usize {
        let Some(port) = forwarder.cpu_port() else {
            return 0;
        };
        let mut count = 0;
        while count < BURST
            && let Some(packet) = forwarder.take_injected()
        {
            let mut program = forwarder.begin();
            program.receive(port, &packet, now, &mut self.outbox);
            self.deliver(&program);
            self.flush();
            count += 1;
        }
        self.totals.from_controller += count as u64;
        count
    }

    /// Delivers the results of one packet.
    fn deliver(&mut self, program: &P4Burst<'_>) {
        let cpu_port = self.forwarder.cpu_port();
        let mut outbox = std::mem::take(&mut self.outbox);
        for sent in outbox.sent() {
            if Some(sent.port) == cpu_port {
                self.totals.to_controller += 1;
                self.notices.packet(sent.bytes.to_vec().into());
                continue;
            }
            let Some(route) = self.routes.find(PortId(sent.port)) else {
                self.no_such_port += 1;
                continue;
            };
            if self.pool.available() == 0 {
                self.flush();
            }
            let Some(mut packet) = self.pool.take() else {
                self.no_buffer += 1;
                continue;
            };
            packet.fill(sent.bytes);
            self.ports[route.place].sending.push(packet);
            if self.ports[route.place].sending.len() >= BURST {
                self.flush();
            }
        }
        for (digest, numbers) in program.digests(&outbox) {
            self.notices.digest(digest, numbers);
        }
        outbox.clear();
        self.outbox = outbox;
    }

    fn flush(&mut self) {
        for port in &mut self.ports {
            if !port.sending.is_empty() {
                port.port.send(&mut self.pool, &mut port.sending);
            }
        }
    }

    fn look_at_ports(&mut self) {
        for port in &mut self.ports {
            let was_gone = port.status == PortStatus::Gone;
            port.status = port.port.status();
            if port.status == PortStatus::Gone
                && !was_gone
                && let Ok(mut gone) = self.flags.gone.lock()
            {
                gone.push(port.number);
            }
        }
        let mut sources = self.ports.iter().filter(|port| port.is_source);
        let has_sources = sources.clone().next().is_some();
        let is_finished = has_sources && sources.all(|port| !port.may_receive());
        self.flags.is_finished.store(is_finished, Ordering::SeqCst);
    }

    /// Adds or removes a port (invariant 3).
    fn plug(&mut self, command: Plugging) {
        let answer = match command {
            Plugging::Attach(port) => {
                self.ports.push(*port);
                None
            }
            Plugging::Detach(number) => {
                let mut ports = self.ports.iter();
                let place = ports.position(|port| port.number == number);
                place.map(|place| {
                    let mut port = self.ports.remove(place);
                    port.port.close(&mut self.pool);
                    Box::new(port)
                })
            }
        };
        let numbers: Vec<PortId> = self.ports.iter().map(|port| port.number).collect();
        self.routes = Routes::new(&numbers, 1);
        self.ready.clear();
        self.look_at_ports();
        let _ = self.answers.send(answer);
    }

    /// Sleeps until a packet comes, the bell rings, or ports must be checked.
    fn sleep(&mut self) {
        let now = self.now();
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
        let commands = &self.commands;
        let is_stopping = || self.flags.is_stopping.load(Ordering::SeqCst);
        let has_work = || self.forwarder.has_injected() || !commands.is_empty() || is_stopping();
        let doorbell = &self.flags.doorbell;
        doorbell.sleep(&descriptors, limit, has_work, &mut self.ready);
        for index in self.ready.drain(..) {
            self.ports[places[index]].was_ready = true;
        }
        self.nap = (self.nap * 2).min(LONGEST_NAP);
    }

    fn report(mut self) -> P4Totals {
        self.totals.drops = self.forwarder.drops();
        self.totals.traversals = self.forwarder.traversals();
        self.totals.behaviors = self.forwarder.behaviors();
        let own = [
            ("no_such_port", self.no_such_port),
            ("no_buffer", self.no_buffer),
            ("no_room_at_server", self.notices.dropped()),
        ];
        for (reason, count) in own.into_iter().filter(|(_, count)| *count > 0) {
            self.totals.drops.insert(reason, count);
        }
        let ports = self.ports.iter_mut().map(|port| {
            let counters = port.port.counters();
            (port.number, port.port.status(), counters)
        });
        self.totals.ports = ports.collect();
        self.totals
    }
}
