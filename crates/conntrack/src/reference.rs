//! The slow, obvious twin of the tracker: one list, straight code, everything linear.
//!
//! It shares with the tracker only pure functions that have tests of their own: reading a
//! packet, the state machine of TCP, and the order in which translated tuples are tried. All
//! else is written again: lookups, time-outs, admission, marks, and the bytes of a translated
//! packet.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_packet::checksum::checksum;
use thalweg_packet::{Headers, Instant};

use crate::entry::{ConnectionEntry, OtherState, ProtocolState, Status};
use crate::hash::Seed;
use crate::nat;
use crate::reading::{Places, Reading, pseudo_header, read};
use crate::tcp::{Judgement, Peers};
use crate::timeout::{Timeout, TimeoutPolicy};
use crate::tracker::Config;
use crate::{
    Alg, CtState, Expectation, Previous, TrackRequest, Tracked, TranslationKind, Tuple, protocol,
};

/// A connection in the list.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    original: Tuple,
    reply: Tuple,
    mark: u32,
    label: u128,
    rule: u64,
    bucket: u64,
    deadline: Instant,
    progress: Progress,
    /// Whether the source and the destination are translated.
    ends: [bool; 2],
    has_reply: bool,
    alg: Option<Alg>,
    parent: Option<Tuple>,
}

#[derive(Clone, Debug)]
enum Progress {
    Tcp(Peers),
    Icmp(bool),
    Other(OtherState),
}

/// A packet that begins a connection.
struct Fresh {
    tuple: Tuple,
    expectation: Option<Expectation>,
    now: Instant,
    random: u64,
}

/// What a connection announced.
struct Announced {
    expectation: Expectation,
    deadline: Instant,
    /// Whether a connection has begun by it.
    is_used: bool,
}

/// The twin.
pub(crate) struct Reference {
    /// Connections in the order they were committed.
    known: Vec<Known>,
    /// Announced connections, and until when each announcement counts.
    announced: Vec<Announced>,
    seed: Seed,
    limit: usize,
    evicts: bool,
    checks_sequence: bool,
    pub(crate) zone_limits: BTreeMap<u16, usize>,
}

impl Reference {
    pub(crate) fn new(config: Config) -> Reference {
        Reference {
            known: Vec::new(),
            announced: Vec::new(),
            seed: Seed::new(config.seed),
            limit: config.max_connections as usize,
            evicts: config.evicts_when_full,
            checks_sequence: config.tcp_sequence_checks,
            zone_limits: BTreeMap::new(),
        }
    }

    pub(crate) fn track(
        &mut self,
        frame: &mut [u8],
        request: &TrackRequest,
        previous: Previous,
        now: Instant,
        random: u64,
    ) -> Tracked {
        self.forget(now);
        let headers = Headers::parse(frame).expect("a frame");
        let invalid = Tracked {
            state: CtState::INVALID | CtState::TRACKED,
            zone: request.zone,
            ..Tracked::default()
        };
        let Ok(reading) = read(frame, &headers, request.zone) else {
            return invalid;
        };
        let is_again = previous.zone == request.zone && previous.state.has(CtState::TRACKED);
        let earlier = if is_again {
            previous.state
        } else {
            CtState::default()
        };
        let found = self.find(&reading.tuple, is_translated(earlier));
        let tuple = match found {
            Some((at, true)) => self.known[at].reply,
            Some((at, false)) => self.known[at].original,
            None => reading.tuple,
        };
        let mut tracked = invalid;
        if let Some((at, is_reply)) = found {
            if request.is_forced && is_reply {
                self.known.remove(at);
            } else {
                match self.judge(at, is_reply, &reading, earlier, now) {
                    Some(state) => {
                        tracked.state = state | CtState::TRACKED;
                        self.finish(at, is_reply, frame, &reading, request, &mut tracked);
                        return tracked;
                    }
                    None => drop(self.known.remove(at)),
                }
            }
        }
        let begins = match reading.segment {
            Some(segment) => segment.is_beginning(),
            None => tuple.is_beginning(),
        };
        if reading.places.embedded.is_some() || !begins {
            return tracked;
        }
        self.forget(now);
        let fresh = Fresh {
            tuple,
            expectation: self.expectation(&tuple),
            now,
            random,
        };
        self.begin(&fresh, frame, &reading, request)
    }

    /// Answers a packet that begins a connection.
    fn begin(
        &mut self,
        fresh: &Fresh,
        frame: &mut [u8],
        reading: &Reading,
        request: &TrackRequest,
    ) -> Tracked {
        let mut tracked = Tracked {
            state: CtState::NEW | CtState::TRACKED,
            zone: request.zone,
            original: Some(fresh.tuple),
            ..Tracked::default()
        };
        if let Some(expectation) = &fresh.expectation {
            tracked.state |= CtState::RELATED;
            tracked.mark = expectation.mark;
            tracked.label = expectation.label;
            tracked.original = Some(expectation.parent);
        }
        if request.is_commit {
            self.commit(fresh, frame, reading, request, &mut tracked);
        }
        tracked
    }

    /// Forgets connections and announcements that are over, and announcements of ended parents.
    fn forget(&mut self, now: Instant) {
        self.known.retain(|known| known.deadline > now);
        let known = &self.known;
        self.announced.retain(|announced| {
            let parent = announced.expectation.parent;
            announced.deadline > now && known.iter().any(|known| known.original == parent)
        });
    }

    fn expectation(&self, tuple: &Tuple) -> Option<Expectation> {
        let mut tuple = *tuple;
        tuple.source.port = 0;
        let mut announced = self.announced.iter();
        let found = announced.find(|announced| announced.expectation.tuple == tuple);
        found.map(|announced| announced.expectation)
    }

    /// Notes that a connection has begun by an expectation.
    fn use_up(&mut self, used: Option<Expectation>) {
        for announced in &mut self.announced {
            announced.is_used |= used == Some(announced.expectation);
        }
    }

    /// Expects what a connection announced; false if it is another's. The source port is 0.
    pub(crate) fn announce(&mut self, expectation: Expectation, now: Instant) -> bool {
        self.forget(now);
        let tuple = expectation.tuple;
        let is_anothers = |other: &Announced| {
            let is_same = other.expectation.tuple == tuple;
            is_same && !other.is_used && other.expectation.parent != expectation.parent
        };
        if self.announced.iter().any(is_anothers) {
            return false;
        }
        self.announced
            .retain(|other| other.expectation.tuple != tuple);
        self.announced.push(Announced {
            expectation,
            deadline: now + std::time::Duration::from_secs(300),
            is_used: false,
        });
        true
    }

    /// The connection of a tuple, and whether the packet is of its reply direction.
    fn find(&self, tuple: &Tuple, is_translated: bool) -> Option<(usize, bool)> {
        let find = |tuple: &Tuple| {
            let original = self.known.iter().position(|known| known.original == *tuple);
            let reply = || self.known.iter().position(|known| known.reply == *tuple);
            match original {
                Some(at) => Some((at, false)),
                None => reply().map(|at| (at, true)),
            }
        };
        if is_translated && let Some((at, is_reply)) = find(&tuple.reversed()) {
            return Some((at, !is_reply));
        }
        find(tuple)
    }

    /// The state of a packet, or none if it begins the next connection.
    fn judge(
        &mut self,
        at: usize,
        is_reply: bool,
        reading: &Reading,
        earlier: CtState,
        now: Instant,
    ) -> Option<CtState> {
        let known = &mut self.known[at];
        let reply = if is_reply {
            CtState::REPLY
        } else {
            CtState::default()
        };
        let was_judged = earlier.has(CtState::TRACKED) && !earlier.has(CtState::INVALID);
        if was_judged && earlier.has(CtState::REPLY) == is_reply {
            return Some(earlier);
        }
        let base = CtState(earlier.0 & (CtState::SOURCE_NAT | CtState::DESTINATION_NAT).0);
        if reading.places.embedded.is_some() {
            return Some(base | CtState::RELATED | reply);
        }
        let (is_new, timeout) = match &mut known.progress {
            Progress::Tcp(peers) => {
                let segment = reading.segment.expect("TCP has a segment");
                match peers.update(&segment, is_reply, self.checks_sequence) {
                    Judgement::BadFlags | Judgement::OutOfWindow => {
                        return Some(CtState::INVALID);
                    }
                    Judgement::Reopens => return None,
                    Judgement::Repeats(timeout) => (true, Some(timeout)),
                    Judgement::Fits(timeout) => (false, timeout),
                }
            }
            Progress::Icmp(seen) if is_reply || *seen => {
                *seen = true;
                (false, Some(Timeout::IcmpReply))
            }
            Progress::Icmp(_) => (true, Some(Timeout::IcmpFirst)),
            Progress::Other(state) if is_reply || *state == OtherState::Bidirectional => {
                *state = OtherState::Bidirectional;
                (false, Some(Timeout::UdpMultiple))
            }
            Progress::Other(state) => {
                *state = OtherState::Multiple;
                (true, Some(Timeout::UdpSingle))
            }
        };
        if let Some(timeout) = timeout {
            known.deadline = after(now, timeout);
        }
        known.has_reply |= is_reply;
        let state = match is_new {
            true => CtState::NEW,
            false => CtState::ESTABLISHED | reply,
        };
        let related = match known.parent {
            Some(_) => CtState::RELATED,
            None => CtState::default(),
        };
        Some(base | state | related)
    }

    /// Writes on a connection, shows it, and translates the packet.
    fn finish(
        &mut self,
        at: usize,
        is_reply: bool,
        frame: &mut [u8],
        reading: &Reading,
        request: &TrackRequest,
        tracked: &mut Tracked,
    ) {
        if tracked.state.has(CtState::INVALID) {
            return;
        }
        let known = &mut self.known[at];
        known.write(request);
        let [source, destination] = match is_reply {
            true => [known.ends[1], known.ends[0]],
            false => known.ends,
        };
        let translates = request.translation.is_some() && !is_translated(tracked.state);
        if translates && (source || destination) {
            if source {
                tracked.state |= CtState::SOURCE_NAT;
            }
            if destination {
                tracked.state |= CtState::DESTINATION_NAT;
            }
            let other = match is_reply {
                true => known.original,
                false => known.reply,
            };
            let to = other.reversed();
            rewrite(frame, &reading.places, &reading.tuple, &to);
        }
        tracked.mark = known.mark;
        tracked.label = known.label;
        tracked.original = Some(known.parent.unwrap_or(known.original));
        tracked.alg = known.alg;
    }

    fn commit(
        &mut self,
        fresh: &Fresh,
        frame: &mut [u8],
        reading: &Reading,
        request: &TrackRequest,
        tracked: &mut Tracked,
    ) {
        let Fresh {
            tuple,
            expectation,
            now,
            random,
        } = *fresh;
        let of_zone = |known: &&Known| known.original.zone == request.zone;
        let count = self.known.iter().filter(of_zone).count();
        let limit = self.zone_limits.get(&request.zone).copied().unwrap_or(0);
        if limit > 0 && count >= limit {
            return;
        }
        if self.known.len() >= self.limit {
            let oldest = self.known.iter().position(|known| !known.has_reply);
            match oldest.filter(|_| self.evicts) {
                Some(at) => drop(self.known.remove(at)),
                None => return,
            }
        }
        let (reply, ends) = self.reply_of(&tuple, request, expectation.as_ref(), random);
        let Some(reply) = reply else {
            if ends != [false; 2] {
                *tracked = Tracked {
                    state: CtState::INVALID | CtState::TRACKED,
                    zone: request.zone,
                    ..Tracked::default()
                };
            }
            return;
        };
        self.use_up(expectation);
        let (progress, timeout) = match reading.segment {
            Some(segment) => (Progress::Tcp(Peers::new(&segment)), Timeout::TcpSynSent),
            None if tuple.is_icmp() => (Progress::Icmp(false), Timeout::IcmpFirst),
            None => (Progress::Other(OtherState::First), Timeout::UdpFirst),
        };
        self.known.push(Known {
            original: tuple,
            reply,
            mark: expectation.map_or(0, |expectation| expectation.mark),
            label: expectation.map_or(0, |expectation| expectation.label),
            rule: request.rule,
            bucket: request.bucket,
            deadline: after(now, timeout),
            progress,
            ends,
            has_reply: false,
            alg: match (request.alg, tuple.protocol) {
                (Some(Alg::Ftp), protocol::TCP) | (Some(Alg::Tftp), protocol::UDP) => request.alg,
                _ => None,
            },
            parent: expectation.map(|expectation| expectation.parent),
        });
        self.finish(
            self.known.len() - 1,
            false,
            frame,
            reading,
            request,
            tracked,
        );
    }

    /// The first free tuple for replies, and which ends are translated: source, destination.
    fn reply_of(
        &self,
        tuple: &Tuple,
        request: &TrackRequest,
        expectation: Option<&Expectation>,
        random: u64,
    ) -> (Option<Tuple>, [bool; 2]) {
        let is_free = |reply: &Tuple| {
            let has = |known: &Known| known.original == *reply || known.reply == *reply;
            reply == tuple || !self.known.iter().any(has)
        };
        let mut reply = tuple.reversed();
        let Some(translation) = &request.translation else {
            return (Some(reply).filter(is_free), [false; 2]);
        };
        if let Some(Expectation {
            source,
            destination,
            ..
        }) = expectation
        {
            reply.destination.address = source.unwrap_or(reply.destination.address);
            reply.source = destination.unwrap_or(reply.source);
            let ends = [source.is_some(), destination.is_some()];
            return (Some(reply).filter(is_free), ends);
        }
        let Some(target) = &translation.target else {
            return (Some(reply).filter(is_free), [false; 2]);
        };
        let is_source = target.0 == TranslationKind::Source;
        let mut replies = nat::reply_tuples(tuple, translation, target, self.seed, random);
        (replies.find(is_free), [is_source, !is_source])
    }

    /// The list as a save has it: where the peers of TCP are by now is not known.
    pub(crate) fn saved(&self, now: Instant) -> Vec<Known> {
        let living = self.known.iter().filter(|known| known.deadline > now);
        let mut saved: Vec<Known> = living.cloned().collect();
        for known in &mut saved {
            if let Progress::Tcp(peers) = &mut known.progress {
                peers.set_stale();
            }
        }
        saved
    }

    /// Has a saved list in place of its own, and announcements of none.
    pub(crate) fn resume(&mut self, saved: Vec<Known>) {
        self.known = saved;
        self.announced.clear();
    }

    /// Ends the connections of a zone.
    pub(crate) fn flush_zone(&mut self, zone: u16) {
        self.known.retain(|known| known.original.zone != zone);
    }

    /// Ends the connection with this original tuple, or with this reply tuple if it is not
    /// translated; whether there was one.
    pub(crate) fn flush_tuple(&mut self, tuple: &Tuple, now: Instant) -> bool {
        self.forget(now);
        match self.find(tuple, false) {
            Some((at, is_reply)) if !is_reply || self.known[at].ends == [false; 2] => {
                self.known.remove(at);
                true
            }
            _ => false,
        }
    }

    /// The list as a dump shows it, in the order of the original tuples.
    pub(crate) fn entries(&self, now: Instant) -> Vec<ConnectionEntry> {
        let living = self.known.iter().filter(|known| known.deadline > now);
        let mut entries: Vec<ConnectionEntry> = living.map(|known| known.entry(now)).collect();
        entries.sort_by_key(|entry| entry.original);
        entries
    }
}

impl Known {
    fn write(&mut self, request: &TrackRequest) {
        if self.parent.is_some() {
            return;
        }
        if let Some(mark) = request.mark {
            self.mark = (self.mark & !mark.mask) | mark.value;
        }
        if let Some(label) = request.label {
            self.label = (self.label & !label.mask) | label.value;
        }
    }

    fn entry(&self, now: Instant) -> ConnectionEntry {
        ConnectionEntry {
            original: self.original,
            reply: self.reply,
            parent: self.parent,
            timeout_s: (self.deadline - now).as_secs() as u32,
            mark: self.mark,
            label: self.label,
            protocol: match &self.progress {
                Progress::Tcp(peers) => ProtocolState::Tcp {
                    original: peers.shown()[0],
                    reply: peers.shown()[1],
                },
                Progress::Icmp(has_reply) => ProtocolState::Icmp {
                    has_reply: *has_reply,
                },
                Progress::Other(state) => ProtocolState::Other(*state),
            },
            alg: self.alg,
            status: Status::default(),
            rule: self.rule,
            bucket: self.bucket,
        }
    }
}

fn after(now: Instant, timeout: Timeout) -> Instant {
    let seconds = TimeoutPolicy::default().seconds(timeout);
    now + std::time::Duration::from_secs(u64::from(seconds))
}

fn is_translated(state: CtState) -> bool {
    state.has(CtState::SOURCE_NAT) || state.has(CtState::DESTINATION_NAT)
}

/// Gives a packet with tuple `from` the tuple `to`.
pub(crate) fn rewrite(frame: &mut [u8], places: &Places, from: &Tuple, to: &Tuple) {
    let packet = &mut frame[..places.end];
    let Some((network, transport)) = places.embedded else {
        write_ends(packet, places.network, places.transport, to);
        return;
    };
    write_ends(packet, network, transport, &to.reversed());
    let mut outer = Tuple {
        protocol: if to.is_ipv6 {
            protocol::ICMPV6
        } else {
            protocol::ICMP
        },
        ..*to
    };
    if from.source.address == to.source.address {
        // The error's sender stays: a router, or the peer.
        outer.source.address = address_at(packet, places.network, to.is_ipv6);
    }
    write_ends(packet, places.network, places.transport, &outer);
    let message = &mut packet[places.transport..];
    message[2..4].fill(0);
    let sum = if to.is_ipv6 {
        pseudo_header(&outer, message.len() as u32)
            .with_bytes(message)
            .checksum()
    } else {
        checksum(message)
    };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

fn address_at(packet: &[u8], network: usize, is_ipv6: bool) -> Ipv6Addr {
    if is_ipv6 {
        let bytes: [u8; 16] = packet[network + 8..][..16].try_into().expect("16 bytes");
        bytes.into()
    } else {
        let bytes: [u8; 4] = packet[network + 12..][..4].try_into().expect("4 bytes");
        Ipv4Addr::from(bytes).to_ipv6_mapped()
    }
}

/// Writes addresses and ports, computes the IPv4 checksum again, and corrects that of the
/// transport by the words that changed, one by one: of a cut packet nothing else is known.
fn write_ends(packet: &mut [u8], network: usize, transport: usize, to: &Tuple) {
    let (start, len) = if to.is_ipv6 {
        (network + 8, 32)
    } else {
        (network + 12, 8)
    };
    let ports = if to.has_ports() {
        transport..transport + 4
    } else {
        0..0
    };
    let words = |packet: &[u8]| [&packet[start..][..len], &packet[ports.clone()]].concat();
    let old = words(packet);
    let ends = [to.source, to.destination].map(|end| end.address.octets());
    for (end, place) in ends.iter().zip(packet[start..][..len].chunks_mut(len / 2)) {
        place.copy_from_slice(&end[16 - len / 2..]);
    }
    if to.has_ports() {
        packet[transport..][..2].copy_from_slice(&to.source.port.to_be_bytes());
        packet[transport + 2..][..2].copy_from_slice(&to.destination.port.to_be_bytes());
    }
    if !to.is_ipv6 {
        packet[network + 10..][..2].fill(0);
        let header = usize::from(packet[network] & 15) * 4;
        let sum = checksum(&packet[network..][..header]);
        packet[network + 10..][..2].copy_from_slice(&sum.to_be_bytes());
    }
    let new = words(packet);
    let at = match to.protocol {
        protocol::TCP => transport + 16,
        protocol::UDP => transport + 6,
        protocol::ICMPV6 if to.is_ipv6 => transport + 2,
        _ => return,
    };
    let Some(&[high, low]) = packet.get(at..at + 2) else {
        return;
    };
    let mut sum = u32::from(!u16::from_be_bytes([high, low]));
    if to.protocol == protocol::UDP && sum == 0xffff {
        return; // The sender computed none.
    }
    for (old, new) in old.chunks(2).zip(new.chunks(2)) {
        sum += u32::from(!u16::from_be_bytes([old[0], old[1]]));
        sum += u32::from(u16::from_be_bytes([new[0], new[1]]));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    let sum = match !(sum as u16) {
        0 if to.protocol == protocol::UDP => 0xffff,
        sum => sum,
    };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

mod tests;
