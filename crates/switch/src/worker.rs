//! A worker: a thread that takes packets from its ports all the way to where they go.
//!
//! ```text
//!   loop:
//!     obey a command; tend what has been put off
//!     for port: receive a burst; forward it; a command ends the round
//!     forward what came in elsewhere
//!     sometimes: look whether ports are up
//!     nothing came for a while: sleep
//! ```
//!
//! There is one loop. A [`Duty`] handles the packets: by rules (`rule_duty.rs`), or by a P4
//! program (`p4/duty.rs`).
//!
//! 1. All results of a burst are sent, or left with others, before the next command is obeyed.
//! 2. A port receives one burst a round at most, and every port has its turn: a round that a
//!    command ended goes on behind the port where it ended. A port whose packets have cost too
//!    much waits while others have packets (`shares.rs`).

use std::ops::Range;

use thalweg_packet::{Instant, Packet, PacketPool};

use crate::doorbell::Doorbell;
use crate::ports::{Attached, Ports};
use crate::shares::Shares;

/// Rounds without a packet after which a worker sleeps; in a model check, soon.
const IDLE_ROUNDS: u32 = if cfg!(thalweg_model) { 1 } else { 64 };

/// What a worker does with packets, and for others.
pub(crate) trait Duty {
    /// What it leaves at its end.
    type Left;

    /// The time by which rounds and sleeps go.
    fn now(&self) -> Instant;

    /// The time that packets of a round get, which began at `now`.
    fn packet_time(&self, now: Instant) -> Instant {
        now
    }

    /// Buffers for packets.
    fn pool(&mut self) -> &mut PacketPool;

    /// What wakes the worker.
    fn doorbell(&self) -> &Doorbell;

    /// Whether a command waits, which ends a round.
    fn has_commands(&self) -> bool;

    /// Whether something waits that does not come from a port, so that the worker must not sleep.
    fn has_work(&self) -> bool;

    /// Obeys a command, if one waits; false if the worker must end.
    fn obey(&mut self, ports: &mut Ports) -> bool;

    /// Does some of the postponed work; returns whether there was any.
    fn tend(&mut self, ports: &mut Ports) -> bool;

    /// Forwards a burst that the port at a place has received, and empties it; says what that has
    /// cost, in packets that a cache answers.
    fn forward(
        &mut self,
        place: usize,
        burst: &mut Vec<Packet>,
        ports: &mut Ports,
        now: Instant,
    ) -> u64;

    /// Forwards packets that no port has received; says how many.
    fn forward_others(&mut self, ports: &mut Ports, now: Instant) -> usize;

    /// Looks whether the ports at some places are up.
    fn look_at(&mut self, ports: &mut Ports, places: Range<usize>);

    /// Ends the worker.
    fn end(self, ports: Ports) -> Self::Left;
}

/// A worker, before and while it runs.
pub(crate) struct Worker<D> {
    duty: D,
    ports: Ports,
    burst: Vec<Packet>,
    shares: Shares,
    idle_rounds: u32,
    /// The place with which the next round begins.
    first: usize,
}

impl<D: Duty> Worker<D> {
    pub(crate) fn new(duty: D, ports: Vec<Attached>) -> Worker<D> {
        Worker {
            duty,
            ports: Ports::new(ports),
            burst: Vec::new(),
            shares: Shares::default(),
            idle_rounds: 0,
            first: 0,
        }
    }

    /// Works until its duty ends.
    pub(crate) fn run(mut self) -> D::Left {
        while self.duty.obey(&mut self.ports) {
            if self.ports.take_change() {
                self.idle_rounds = 0;
            }
            let has_tended = self.duty.tend(&mut self.ports);
            if self.round() > 0 || has_tended {
                self.idle_rounds = 0;
                self.ports.shorten_naps();
            } else if self.idle_rounds < IDLE_ROUNDS {
                self.idle_rounds += 1;
                std::hint::spin_loop();
            } else {
                self.sleep();
            }
        }
        self.duty.end(self.ports)
    }

    /// One burst from each port, or from some if a command comes: otherwise a worker with many
    /// ports obeys late. Says how many packets were forwarded.
    fn round(&mut self) -> usize {
        let now = self.duty.now();
        let time = self.duty.packet_time(now);
        let all = 0..self.ports.attached.len();
        if self.ports.begin_round(now) {
            self.duty.look_at(&mut self.ports, all.clone());
        }
        let mut count = 0;
        let first = self.first.min(all.end);
        for place in (first..all.end).chain(0..first) {
            if !self.shares.may_receive(place) {
                continue;
            }
            let received = self.receive(place, now, time);
            if received == 0 {
                continue;
            }
            let burst = &mut self.burst;
            let cost = self.duty.forward(place, burst, &mut self.ports, time);
            self.shares.note(place, cost);
            count += received;
            if self.duty.has_commands() {
                self.first = (place + 1) % all.end;
                break;
            }
        }
        self.shares.end_round();
        count += self.duty.forward_others(&mut self.ports, time);
        self.ports.end_round(now, count);
        count
    }

    /// Receives a burst from the port at a place.
    fn receive(&mut self, place: usize, now: Instant, time: Instant) -> usize {
        let pool = self.duty.pool();
        let count = self
            .ports
            .receive(place, pool, &mut self.burst, (now, time));
        if count.is_none() {
            self.duty.look_at(&mut self.ports, place..place + 1);
        }
        count.unwrap_or(0)
    }

    /// Sleeps until something comes, the doorbell rings, or the ports need a look.
    fn sleep(&mut self) {
        let now = self.duty.now();
        let duty = &self.duty;
        self.ports.sleep(now, duty.doorbell(), || duty.has_work());
    }
}
