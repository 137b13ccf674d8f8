//! The duty of a worker that forwards by a P4 program.
//!
//! ```text
//!   forward: take the program; run it on each packet of a burst; send; let it go
//!   forward_others: the same with packets that the controller sent
//!   digests, and packets that go to the controller's port: to the server
//! ```
//!
//! 1. Everything a burst leads to is sent, or with the server, before the program is released.
//!    So every packet sent after a change is acknowledged follows that change.
//! 2. The worker waits only for a session that writes. The server counts what it has no room
//!    for ([`Notices::dropped`]).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_control::Notices;
use thalweg_io::{BURST, PortStatus};
use thalweg_p4::{IndexJob, Outbox, TargetOwner};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};

use super::plane::{P4Burst, P4Forwarder};
use super::worker_state::{Flags, P4Totals};
use crate::doorbell::Doorbell;
use crate::ports::{Attached, Ports, Routes};
use crate::sync::{JoinHandle, Receiver, Sender, spawn};
use crate::worker::Duty;

/// A request to the worker about its ports; an answer follows each.
pub(super) enum Plugging {
    Attach(Box<Attached>),
    Detach(PortId),
}

/// What a worker by a program has beside its ports.
pub(super) struct P4Duty {
    pub(super) flags: Arc<Flags>,
    pub(super) routes: Routes,
    pub(super) commands: Receiver<Plugging>,
    pub(super) answers: Sender<Option<Box<Attached>>>,
    pub(super) pool: PacketPool,
    pub(super) outbox: Outbox,
    pub(super) forwarder: P4Forwarder,
    pub(super) notices: Notices,
    pub(super) start: std::time::Instant,
    pub(super) totals: P4Totals,
    pub(super) no_such_port: u64,
    pub(super) no_buffer: u64,
    /// The thread that makes a better index for the program, if one does.
    pub(super) training: Option<JoinHandle<()>>,
}

impl P4Duty {
    fn is_stopping(&self) -> bool {
        self.flags.is_stopping.load(Ordering::SeqCst)
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
    fn run_injected(&mut self, ports: &mut Ports, now: Instant) -> usize {
        let forwarder = self.forwarder.clone();
        let Some(port) = forwarder.cpu_port() else {
            return 0;
        };
        let mut count = 0;
        while count < BURST
            && let Some(packet) = forwarder.take_injected()
        {
            let mut program = forwarder.begin();
            program.receive(port, &packet, now, &mut self.outbox);
            self.deliver(&program, ports);
            self.flush(ports);
            count += 1;
        }
        self.totals.from_controller += count as u64;
        count
    }

    /// Delivers the results of one packet.
    fn deliver(&mut self, program: &P4Burst<'_>, ports: &mut Ports) {
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
                self.flush(ports);
            }
            let Some(mut packet) = self.pool.take() else {
                self.no_buffer += 1;
                continue;
            };
            packet.fill(sent.bytes);
            let sending = &mut ports.attached[route.place].sending;
            sending.push(packet);
            if sending.len() >= BURST {
                self.flush(ports);
            }
        }
        for (digest, numbers) in program.digests(&outbox) {
            self.notices.digest(digest, numbers);
        }
        outbox.clear();
        self.outbox = outbox;
    }

    fn flush(&mut self, ports: &mut Ports) {
        self.no_such_port += ports.flush(&mut self.pool);
    }

    /// Adds or removes a port, and answers.
    fn plug(&mut self, command: Plugging, ports: &mut Ports) {
        let answer = match command {
            Plugging::Attach(port) => {
                ports.attach(ports.attached.len(), *port);
                None
            }
            Plugging::Detach(number) => {
                let mut attached = ports.attached.iter();
                let place = attached.position(|port| port.number == number);
                place.map(|place| {
                    let mut port = ports.attached.remove(place);
                    port.port.close(&mut self.pool);
                    Box::new(port)
                })
            }
        };
        let numbers: Vec<PortId> = ports.attached.iter().map(|port| port.number).collect();
        self.routes = Routes::new(&numbers, 1);
        self.look_at(ports, 0..numbers.len());
        let _ = self.answers.send(answer);
    }
}

impl Duty for P4Duty {
    type Left = P4Totals;

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    fn pool(&mut self) -> &mut PacketPool {
        &mut self.pool
    }

    fn doorbell(&self) -> &Doorbell {
        &self.flags.doorbell
    }

    fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    fn has_work(&self) -> bool {
        self.forwarder.has_injected() || self.has_commands() || self.is_stopping()
    }

    fn obey(&mut self, ports: &mut Ports) -> bool {
        if self.is_stopping() {
            return false;
        }
        if let Ok(command) = self.commands.try_recv() {
            self.plug(command, ports);
        }
        true
    }

    /// Looks whether a better index is done; its thread does the work.
    fn tend(&mut self, _: &mut Ports) -> bool {
        self.look_at_training();
        false
    }

    fn forward(
        &mut self,
        place: usize,
        burst: &mut Vec<Packet>,
        ports: &mut Ports,
        now: Instant,
    ) -> u64 {
        let number = ports.attached[place].number.0;
        let count = burst.len() as u64;
        self.totals.packets += count;
        let forwarder = self.forwarder.clone();
        let mut program = forwarder.begin();
        for packet in burst.drain(..) {
            program.receive(number, packet.bytes(), now, &mut self.outbox);
            self.pool.put(packet);
            self.deliver(&program, ports);
        }
        self.flush(ports);
        let training = match self.training {
            None => program.take_training(),
            Some(_) => None,
        };
        // Invariant 1: the program is released here.
        drop(program);
        if let Some(training) = training {
            self.train(training);
        }
        count
    }

    fn forward_others(&mut self, ports: &mut Ports, now: Instant) -> usize {
        let count = self.run_injected(ports, now);
        self.totals.packets += count as u64;
        count
    }

    /// Notes ports that are gone, and whether every source has given all it had.
    fn look_at(&mut self, ports: &mut Ports, places: Range<usize>) {
        for port in &mut ports.attached[places] {
            let was_gone = port.status == PortStatus::Gone;
            port.status = port.port.status();
            if port.status == PortStatus::Gone
                && !was_gone
                && let Ok(mut gone) = self.flags.gone.lock()
            {
                gone.push(port.number);
            }
        }
        let mut sources = ports.attached.iter().filter(|port| port.is_source);
        let has_sources = sources.clone().next().is_some();
        let is_finished = has_sources && sources.all(|port| !port.may_receive());
        self.flags.is_finished.store(is_finished, Ordering::SeqCst);
    }

    fn end(mut self, mut ports: Ports) -> P4Totals {
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
        let ports = ports.attached.iter_mut().map(|port| {
            let counters = port.port.counters();
            (port.number, port.port.status(), counters)
        });
        self.totals.ports = ports.collect();
        self.totals
    }
}
