//! Sends the packets of a native tunnel: whole outer frames, to the bridge that carries them.

use std::net::IpAddr;
use std::sync::Arc;

use thalweg_packet::{Packet, PacketPool};
use thalweg_tunnel::{Endpoints, HeaderSettings, PerPacket, TunnelKind};

use super::counts::TunnelCause;
use super::depart::{LastHeader, Prepared, prepare};
use super::device::{TunnelDevice, next_variable};
use super::hub::TunnelView;
use super::queue::PacketQueue;
use super::underlay::{NextStep, Underlay};
use crate::DropReason;

/// The kind of a tunnel's headers, and settings of its port.
type Headers = (TunnelKind, HeaderSettings);

/// Outer frames for one bridge.
#[derive(Debug, Default)]
struct Stage {
    inbox: Option<Arc<PacketQueue>>,
    packets: Vec<Packet>,
}

impl Stage {
    /// Adds a frame; hands over those of another bridge first. Returns how many had no room.
    fn add(&mut self, inbox: &Arc<PacketQueue>, packet: Packet) -> usize {
        let is_same = self
            .inbox
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, inbox));
        let refused = match is_same {
            true => 0,
            false => self.hand_over(),
        };
        self.inbox = Some(inbox.clone());
        self.packets.push(packet);
        refused
    }

    fn hand_over(&mut self) -> usize {
        let packets = self.packets.drain(..);
        self.inbox
            .as_ref()
            .map_or(0, |inbox| inbox.push_all(packets))
    }
}

impl TunnelDevice {
    /// Sends a burst.
    pub(super) fn send_native(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        let hub = self.hub.clone();
        let table = hub.table();
        let view = TunnelView {
            table: &table,
            hub: &hub,
        };
        if !hub.allows_native() {
            for _ in burst.iter() {
                hub.counters().add(TunnelCause::NativeOff);
            }
            self.drop_all(burst.len());
            pool.put_burst(burst);
            return;
        }
        let Some(port) = table.ports.get(self.number) else {
            self.drop_all(burst.len());
            pool.put_burst(burst);
            return;
        };
        let headers = (port.kind(), port.header_settings());
        // Routes and neighbours are one state for the whole burst.
        let mut underlay = hub.underlay();
        let (mut stage, mut asked, mut refused) = (Stage::default(), None, 0);
        for packet in burst.iter_mut() {
            let length = packet.len();
            let variable = next_variable(&mut self.sequence, packet);
            let prepared = prepare(view, (self.number, port), packet);
            let sent = prepared.and_then(|prepared| {
                let headers = (headers, variable);
                self.put_into(&mut underlay, prepared, packet, headers, &mut asked)
            });
            match sent {
                Ok(inbox) => {
                    self.counters.add_sent(length);
                    refused += stage.add(&inbox, outer_copy(packet));
                }
                Err(cause) => self.count(cause),
            }
        }
        refused += stage.hand_over();
        drop(underlay);
        (0..refused).for_each(|_| hub.counters().add(TunnelCause::QueueFull));
        pool.put_burst(burst);
    }

    /// Puts the outer headers in front of a packet; says which bridge receives it.
    fn put_into(
        &mut self,
        underlay: &mut Underlay,
        mut prepared: Prepared,
        packet: &mut Packet,
        (headers, variable): (Headers, PerPacket),
        asked: &mut Option<IpAddr>,
    ) -> Result<Arc<PacketQueue>, TunnelCause> {
        let step = underlay.next_step(&prepared, packet.received_at(), asked)?;
        let NextStep {
            addresses,
            source,
            inbox,
        } = step;
        let destination = prepared.metadata.endpoints.destination();
        let endpoints = Endpoints::new(source, destination);
        prepared.metadata.endpoints = endpoints.ok_or(TunnelCause::MixedFamilies)?;
        let variable = PerPacket {
            source_port: underlay.source_ports.port(prepared.hash),
            ..variable
        };
        let link = (prepared, Some(addresses));
        LastHeader::push(&mut self.last, headers, link, packet, variable)?;
        Ok(inbox)
    }

    pub(super) fn drop_all(&mut self, count: usize) {
        self.counters.drops.add(DropReason::LinkDown, count as u64);
    }
}

/// A copy of an outer frame, which is in no tunnel itself.
fn outer_copy(packet: &Packet) -> Packet {
    let mut copy = Packet::from_bytes(packet.bytes());
    copy.set_received(packet.in_port(), packet.received_at());
    copy
}
