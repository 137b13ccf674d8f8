//! Messages that a switch sends unasked: who wants them, and in which form.

use std::time::Duration;

use thalweg_openflow::Version;
use thalweg_openflow::message::Message;
use thalweg_openflow::message::connection::{
    AsyncConfig, AsyncKind, RequestForward, Role, RoleStatus,
};
use thalweg_openflow::message::packet::{PacketIn, PacketInFormat, reason};
use thalweg_openflow::message::port::{PortDesc, state};

use super::link::{DEFAULT_MISS_LENGTH, Link};
use super::{Agent, ConnectionKind, MOST_BYTES, UNASKED_BYTES};
use crate::openflow::target::{Event, PacketEvent, Target};

impl<T: Target> Agent<T> {
    /// Tells connections what the switch did unasked.
    pub fn handle_events(&mut self, now: Duration) {
        for event in self.target.events() {
            match event {
                Event::Packet(event) => self.tell_packet(&event, now),
                Event::FlowRemoved(removed) => {
                    for link in self.links.values_mut() {
                        if link.wants(AsyncKind::FlowRemoved, removed.reason) {
                            let mut told = (*removed).clone();
                            told.is_nicira = link.version() == Version::V10 && link.tells_nicira;
                            link.send_unasked(&Message::FlowRemoved(told));
                        }
                    }
                }
                Event::Flow(event) => self.tell_flows(None, std::slice::from_ref(&event)),
                Event::Port(status, before) => {
                    let before = before.as_deref();
                    for link in self.links.values_mut() {
                        let is_visible =
                            before.is_none_or(|before| link.sees_change(before, &status.desc));
                        if is_visible && link.wants(AsyncKind::PortStatus, status.reason as u8) {
                            link.send_unasked(&Message::PortStatus(status.clone()));
                        }
                    }
                }
                Event::Table(status) => {
                    for link in self.links.values_mut() {
                        if link.wants(AsyncKind::TableStatus, status.reason) {
                            link.send_unasked(&Message::TableStatus(status.clone()));
                        }
                    }
                }
            }
        }
        self.resume_monitors();
    }

    fn tell_packet(&mut self, event: &PacketEvent, now: Duration) {
        for link in self.links.values_mut() {
            let is_addressed = link.controller_id == event.controller_id
                && (event.max_length.is_some() || link.hears_misses());
            let told = reason::told(link.version(), event.packet.reason);
            if is_addressed && link.wants(AsyncKind::PacketIn, told) {
                link.tell_packet(event, now);
            }
        }
    }

    /// Has the switch send packets that no rule matches if some connection is told of them.
    pub(super) fn follow_misses(&mut self) {
        let mut links = self.links.values();
        let wanted = links.any(|link| {
            let is_told = link.wants(AsyncKind::PacketIn, reason::NO_MATCH);
            is_told && link.controller_id == 0 && link.hears_misses()
        });
        if wanted != self.wants_misses {
            self.wants_misses = wanted;
            self.target.want_misses(wanted);
        }
    }

    /// Tells other connections of a change of a group or meter.
    pub(super) fn tell_forward(&mut self, forward: &RequestForward) {
        let reason = match forward {
            RequestForward::Group(..) => 0,
            RequestForward::Meter(..) => 1,
        };
        for link in self.links.values_mut() {
            if link.wants(AsyncKind::RequestForward, reason) {
                link.send_unasked(&Message::RequestForward(forward.clone()));
            }
        }
    }
}

impl Link {
    /// Whether its version tells what changed of a port: that of OpenFlow 1.0 has no bit for
    /// one that is live.
    fn sees_change(&self, before: &PortDesc, after: &PortDesc) -> bool {
        let known = match self.version() {
            Version::V10 => !state::LIVE,
            _ => u32::MAX,
        };
        let told = |port: &PortDesc| PortDesc {
            state: port.state & known,
            ..port.clone()
        };
        told(before) != told(after)
    }

    /// Whether the connection wants a message unasked.
    pub(super) fn wants(&self, kind: AsyncKind, reason: u8) -> bool {
        let is_controller = self.config.kind == ConnectionKind::Controller;
        let is_silent = !is_controller && self.miss_send_length == 0;
        if self.session.version().is_none() || is_silent {
            return false;
        }
        let side = match self.role {
            Role::Secondary => &self.asynchronous.secondary,
            _ => &self.asynchronous.primary,
        };
        let mask = side[kind as usize].unwrap_or(0);
        mask >> reason.min(31) & 1 != 0
    }

    /// Whether the connection's version has packets without a rule sent to controllers. From
    /// OpenFlow 1.3 on, a rule of priority 0 sends them.
    fn hears_misses(&self) -> bool {
        let version = self.session.version();
        version.is_some_and(|version| version < Version::V13)
    }

    /// Takes what the connection wants; what it does not name stays. A service connection is
    /// told what it asked for from now on.
    pub(super) fn set_async(&mut self, asked: &AsyncConfig) {
        if self.config.kind == ConnectionKind::Service && self.miss_send_length == 0 {
            self.miss_send_length = DEFAULT_MISS_LENGTH;
        }
        let sides = [
            (&mut self.asynchronous.primary, &asked.primary),
            (&mut self.asynchronous.secondary, &asked.secondary),
        ];
        for (known, asked) in sides {
            for (known, asked) in known.iter_mut().zip(asked) {
                *known = asked.or(*known);
            }
        }
    }

    /// Whether the connection, unless it is a secondary, is told of packets whose TTL is over.
    pub(super) fn hears_ttl(&self) -> bool {
        let reasons = self.asynchronous.primary[AsyncKind::PacketIn as usize];
        reasons.unwrap_or(0) & 1 << reason::INVALID_TTL != 0
    }

    /// Sets that.
    pub(super) fn set_hears_ttl(&mut self, wanted: bool) {
        let reasons = &mut self.asynchronous.primary[AsyncKind::PacketIn as usize];
        let others = reasons.unwrap_or(0) & !(1 << reason::INVALID_TTL);
        *reasons = Some(others | u32::from(wanted) << reason::INVALID_TTL);
    }

    /// Tells that the role changed, where the version has a message for it.
    pub(super) fn tell_role(&mut self, status: RoleStatus) {
        self.send_unasked(&Message::RoleStatus(status));
    }

    /// Sends a message that the peer did not ask for. A reader that takes nothing is given up,
    /// since its output would grow without end.
    pub(super) fn send_unasked(&mut self, message: &Message) {
        if self.session.output_bytes() > MOST_BYTES {
            return self.session.end("the peer reads too slowly");
        }
        self.session.send(0, message);
    }

    fn tell_packet(&mut self, event: &PacketEvent, now: Duration) {
        if self.session.output_bytes() > UNASKED_BYTES {
            self.packets_dropped += 1;
            return;
        }
        if !self.may_send_packet(now) {
            return;
        }
        let mut packet = PacketIn {
            format: self.packet_in_format,
            ..event.packet.clone()
        };
        let most = event.max_length.unwrap_or(self.miss_send_length);
        packet.data.truncate(most.into());
        let version = self.version();
        match self.packet_in_format {
            PacketInFormat::Nicira2 => {
                let continuation = event.continuation.as_ref();
                packet.continuation = continuation.map(|continuation| continuation.encode(version));
            }
            PacketInFormat::Standard | PacketInFormat::Nicira => {
                packet.userdata = bytes::Bytes::new();
            }
        }
        // A message has at most 65,535 bytes.
        if !self.session.send(0, &Message::PacketIn(packet)) {
            self.packets_dropped += 1;
        }
    }
}
