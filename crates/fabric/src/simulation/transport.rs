//! The traffic of hosts: datagrams from the trace, or TCP connections.
//!
//! A connection holds both ends, because the simulation has a whole flow in one place. A
//! segment travels with a packet and finds its connection by number. When both ends are done
//! the connection's memory is reused under another generation. Late segments of the old one
//! are then recognized and ignored.
//!
//! An end has at most one valid timer event, at or before its deadline; an early one is
//! planned again.

use prefetch_index::prefetch_index;

use super::event::{Event, Generation};
use super::{Flight, Simulation};
use crate::Time;
use crate::capture::{Content, Numbers};
use crate::report::Drop;
use crate::tcp::{Receiver, Segment, Sender, TcpConfig, Towards, numbers_of};

/// The inner IPv4 header.
const INNER_IP_BYTES: u32 = 20;
const NEVER: Time = Time::from_picos(u64::MAX);

/// The TCP content of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) segment: Segment,
    connection: u32,
    generation: Generation,
    /// For captures.
    numbers: Numbers,
    /// Whether it met a queue longer than the mark.
    pub(super) is_marked: bool,
}

#[derive(Clone, Debug)]
struct Connection {
    generation: Generation,
    is_open: bool,
    flow: u32,
    source: u32,
    destination: u32,
    /// The next timer events of sender and receiver.
    planned: [Time; 2],
    sender: Sender,
    receiver: Receiver,
}

/// Counts of connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TcpTally {
    pub(super) retransmitted: u64,
    pub(super) timeouts: u64,
    pub(super) recoveries: u64,
    pub(super) finished: u64,
    pub(super) failed: u64,
}

/// All connections.
#[derive(Clone, Debug)]
pub(super) struct Tcp {
    config: TcpConfig,
    connections: Vec<Connection>,
    free: Vec<u32>,
    /// Indexed by flight.
    loads: Vec<Load>,
    pub(super) tally: TcpTally,
}

impl Tcp {
    pub(super) fn new(config: TcpConfig) -> Tcp {
        Tcp {
            config,
            connections: Vec::new(),
            free: Vec::new(),
            loads: Vec::new(),
            tally: TcpTally::default(),
        }
    }

    /// The counts, including those of open connections.
    pub(super) fn tally_now(&self) -> TcpTally {
        let mut tally = self.tally;
        let open = self.connections.iter().filter(|known| known.is_open);
        open.for_each(|known| tally.take(&known.sender));
        tally
    }

    /// Prefetches the content of a packet.
    #[inline]
    pub(super) fn ask(&self, flight: u32) {
        prefetch_index(&self.loads, flight as usize);
    }

    /// Prefetches the connection of a packet, if it has one.
    #[inline]
    pub(super) fn ask_connection(&self, flight: u32) {
        if let Some(load) = self.loads.get(flight as usize) {
            prefetch_index(&self.connections, load.connection as usize);
        }
    }

    /// The machines at both ends of a packet's connection, if it has one.
    #[inline]
    pub(super) fn machines_of(&self, flight: u32) -> Option<[u32; 2]> {
        let load = self.loads.get(flight as usize)?;
        let known = self.connections.get(load.connection as usize)?;
        Some([known.source, known.destination])
    }

    /// The content of a packet, for a capture.
    pub(super) fn content(&self, flight: u32) -> Content<'_> {
        match self.loads.get(flight as usize) {
            Some(load) => Content::Segment(&load.segment, load.numbers, &self.config),
            None => Content::Datagram,
        }
    }

    pub(super) fn mark(&mut self, flight: u32) {
        self.loads[flight as usize].is_marked = true;
    }

    fn open(&mut self, flow: u32, source: u32, destination: u32, bytes: u64) -> u32 {
        let Some(index) = self.free.pop() else {
            self.connections.push(Connection {
                generation: Generation::default(),
                is_open: true,
                flow,
                source,
                destination,
                planned: [NEVER; 2],
                sender: Sender::new(&self.config, bytes),
                receiver: Receiver::new(&self.config),
            });
            return self.connections.len() as u32 - 1;
        };
        let known = &mut self.connections[index as usize];
        known.sender.reset(&self.config, bytes);
        known.receiver.reset(&self.config);
        (known.is_open, known.planned) = (true, [NEVER; 2]);
        (known.flow, known.source, known.destination) = (flow, source, destination);
        index
    }
}

impl TcpTally {
    fn take(&mut self, sender: &Sender) {
        let counters = sender.counters();
        self.retransmitted += counters.retransmitted;
        self.timeouts += counters.timeouts;
        self.recoveries += counters.recoveries;
    }
}

impl Simulation {
    /// Sends the next packet of the trace, or opens its next connection.
    pub(super) fn send_datagram(&mut self) {
        let datagram = self.datagrams[self.next_datagram];
        self.next_datagram += 1;
        self.now = datagram.at;
        let (source, destination) = (datagram.source, datagram.destination);
        if let Some(tcp) = &mut self.tcp {
            let connection = tcp.open(datagram.flow, source, destination, datagram.payload);
            return self.transmit_segments(connection);
        }
        let bytes = datagram.payload as u32 + self.inner_bytes;
        self.launch((source, destination), datagram.flow, bytes, None);
    }

    /// Sends a packet from one machine to another.
    fn launch(&mut self, pair: (u32, u32), flow_index: u32, bytes: u32, load: Option<Load>) {
        let source = self.machines.all[pair.0 as usize];
        let destination = self.machines.all[pair.1 as usize];
        let sequence = self.flows[flow_index as usize].send(self.now);
        self.tally.sent += 1;
        let Some((packet, delay)) = self.packet_of(source, destination, flow_index) else {
            return self.tally.drops.count(Drop::NoGateway);
        };
        let Some(destination) = self.topology.node_of(packet.outer_destination) else {
            return self.tally.drops.count(Drop::NoGateway);
        };
        let flight = self.flights.insert(Flight {
            packet,
            destination,
            path: self.paths.of(&packet),
            bytes: bytes + self.outer_bytes + self.tag_charge.bytes_of(&packet),
            link_generation: 0,
            flow: flow_index,
            machine: pair.1,
            sequence,
            sent_at: self.now,
            is_data: true,
            ttl: packet.ttl,
        });
        if let (Some(tcp), Some(load)) = (&mut self.tcp, load) {
            if tcp.loads.len() <= flight {
                tcp.loads.resize(flight + 1, Load::default());
            }
            tcp.loads[flight] = load;
        }
        let (flight, node) = (flight as u32, source.node);
        if self.way.is_some() {
            self.way_send(flight, node);
        }
        match delay {
            Time::ZERO => self.leave(flight, node),
            delay => {
                let event = Event::Leave { flight, node };
                self.queue.push(self.now + delay, event.into());
            }
        }
    }

    /// The direction of a delivered packet: 0 from the end that opened the flow, 1 back.
    pub(super) fn direction_of(&self, flight: u32) -> usize {
        let load = self.tcp.as_ref().map(|tcp| &tcp.loads[flight as usize]);
        load.map_or(0, |load| load.segment.towards as usize)
    }

    /// Passes a delivered segment to its end.
    pub(super) fn receive_segment(&mut self, flight: u32) {
        let now = self.now;
        let Some(tcp) = &mut self.tcp else {
            return;
        };
        let load = tcp.loads[flight as usize];
        let known = &mut tcp.connections[load.connection as usize];
        if !known.is_open || known.generation != load.generation {
            return;
        }
        let segment = &load.segment;
        match segment.towards {
            Towards::Receiver => {
                let receiver = &mut known.receiver;
                receiver.handle_segment(&tcp.config, now, segment, load.is_marked);
            }
            Towards::Sender => known.sender.handle_segment(&tcp.config, now, segment),
        }
        self.transmit_segments(load.connection);
    }

    /// Handles a timer of a connection's end.
    pub(super) fn handle_timer(&mut self, connection: u32, generation: Generation, end: Towards) {
        let now = self.now;
        let Some(tcp) = &mut self.tcp else {
            return;
        };
        let known = &mut tcp.connections[connection as usize];
        let is_planned = known.planned[end as usize] == now;
        if !known.is_open || known.generation != generation || !is_planned {
            return;
        }
        known.planned[end as usize] = NEVER;
        match end {
            Towards::Sender => known.sender.handle_timer(now),
            Towards::Receiver => known.receiver.handle_timer(now),
        }
        self.transmit_segments(connection);
    }

    /// Sends the due segments of both ends, plans their timers, and ends a finished
    /// connection.
    fn transmit_segments(&mut self, connection: u32) {
        let index = connection as usize;
        loop {
            let (now, Some(tcp)) = (self.now, &mut self.tcp) else {
                return;
            };
            let known = &mut tcp.connections[index];
            let segment = match known.sender.poll_transmit(&tcp.config, now) {
                Some(segment) => segment,
                None => match known.receiver.poll_transmit(&tcp.config, now) {
                    Some(segment) => segment,
                    None => break,
                },
            };
            let (flow, generation) = (known.flow, known.generation);
            let pair = match segment.towards {
                Towards::Receiver => (known.source, known.destination),
                Towards::Sender => (known.destination, known.source),
            };
            let bytes = segment.payload_bytes + segment.header_bytes() + INNER_IP_BYTES;
            let (sequence, acknowledgment) = numbers_of(&known.sender, &segment);
            let load = Load {
                segment,
                numbers: Numbers {
                    sequence,
                    acknowledgment,
                },
                connection,
                generation,
                is_marked: false,
            };
            self.launch(pair, flow, bytes, Some(load));
        }
        self.plan_timers(connection);
    }

    fn plan_timers(&mut self, connection: u32) {
        let Some(tcp) = &mut self.tcp else {
            return;
        };
        let known = &mut tcp.connections[connection as usize];
        let has_failed = known.sender.has_failed();
        if has_failed || (known.sender.is_over() && known.receiver.is_closed()) {
            tcp.tally.take(&known.sender);
            match has_failed {
                true => tcp.tally.failed += 1,
                false => tcp.tally.finished += 1,
            }
            known.is_open = false;
            known.generation = known.generation.next();
            return tcp.free.push(connection);
        }
        let generation = known.generation;
        for (end, deadline) in [
            (Towards::Sender, known.sender.deadline()),
            (Towards::Receiver, known.receiver.deadline()),
        ] {
            let planned = &mut known.planned[end as usize];
            if let Some(time) = deadline
                && time < *planned
            {
                *planned = time;
                let event = Event::Timer {
                    connection,
                    generation,
                    end,
                };
                self.queue.push(time, event.into());
            }
        }
    }
}
