//! Watched ports: the packets that they accept are kept for the caller.

use std::collections::VecDeque;

use super::Simulation;
use crate::Time;
use crate::capture::{Captured, Content, SNAP_BYTES, frame_of};
use crate::id::PortId;

/// The most records that wait to be collected.
const CAPACITY: usize = 1 << 16;

#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    /// A bit for each port.
    ports: Vec<bool>,
    records: VecDeque<Captured>,
    missed: u64,
}

impl Simulation {
    /// From now on keeps the packets that a port accepts, for [`Simulation::poll_captured`].
    ///
    /// # Panics
    /// If there is no such port.
    pub fn watch(&mut self, port: PortId) {
        let count = self.topology.port_count();
        let watch = self.watch.get_or_insert_default();
        watch.ports.resize(count, false);
        watch.ports[port.0 as usize] = true;
    }

    /// The next packet that a watched port accepted.
    pub fn poll_captured(&mut self) -> Option<Captured> {
        self.watch.as_mut()?.records.pop_front()
    }

    /// Packets of watched ports that were lost because 65,536 were waiting.
    pub fn captures_missed(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.missed)
    }

    /// Records a packet that a port has accepted and that will arrive at `arrival`.
    pub(super) fn record(&mut self, flight: u32, port: PortId, arrival: Time) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        if !watch.ports[port.0 as usize] {
            return;
        }
        if watch.records.len() >= CAPACITY {
            watch.missed += 1;
            return;
        }
        let under_way = &self.flights[flight as usize];
        let mut packet = under_way.packet;
        packet.ttl = under_way.ttl;
        let link = self.ports[port.0 as usize].link();
        let content = match &self.tcp {
            Some(tcp) => tcp.content(flight),
            None => Content::Datagram,
        };
        let mut frame = frame_of(&packet, content, under_way.bytes, self.outer_bytes);
        let wire_bytes = frame.len() as u32;
        frame.truncate(SNAP_BYTES);
        watch.records.push_back(Captured {
            at: arrival - link.delay - link.serialization(under_way.bytes),
            port,
            frame,
            wire_bytes,
        });
    }
}
