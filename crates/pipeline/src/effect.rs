//! Effects: the result of a walk through the tables, as a program for one packet.
//!
//! The interpreter turns the actions of all the rules it met into one list of effects, with
//! nothing left to look up: groups are resolved to buckets, floods to ports, copies between
//! fields to constants (their sources are in the mask). A cache stores the list and runs it
//! for every packet of the entry's region. The interpreter's own answer is the same list, run
//! once. So a cache can only be wrong about *which* list applies, never about what it does.
//!
//! ```text
//!   run(effects, packet):
//!     for effect: rewrite in place | send a copy | run a nested list on a copy
//! ```
//!
//! 1. A send copies the packet as it is at that moment; later rewrites do not affect the copy.
//!    The last send of a list, or the last nested list, takes the packet itself if nothing
//!    follows it.
//! 2. A packet is dropped, and counted, if its frame has no room for a new header, or if too little
//!    follows a header that is removed.
//! 3. [`Effect::Recirculate`] is the last effect of its list: the packet, as it is then, is
//!    looked up again, with what the tracker of connections said of it.
//! 4. What the tracker says of a packet changes no effect of the list, only the next lookup.
//! 5. What a list does by a packet's length is decided when it runs, so that one list is right
//!    for packets of all lengths.
//! 6. A fragment leaves its run at [`Effect::Track`], and the run of the fragment that makes its
//!    packet whole goes on with all of them (see `assembly.rs`).

mod assembly;

use std::sync::Arc;

use thalweg_classifier::RuleId;
use thalweg_conntrack::{CtState, Previous, TrackRequest, Tracked, protocol};
use thalweg_packet::{
    Connection, FieldDescriptor, FieldId, Headers, Instant, Packet, PacketPool, PortId, Rewriter,
    Scalar, TunnelValues, standard,
};

use self::assembly::Assembled;
pub use self::assembly::HeldFragment;

use crate::action::TableId;
use crate::connections::Connections;
use crate::drops::{DropReason, Drops};
use crate::interpret::Continuation;
use crate::learning::{LearnedCounts, LearnedRule};
use crate::mac::Station;
use crate::meters::{BandKind, MeterPlace, MeterVerdict, Meters};

/// Why a packet goes to the controller (OpenFlow 1.5.1, section 7.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PacketInReason {
    /// No rule matched, and the table sends such packets ([`crate::Miss::Controller`]).
    TableMiss,
    /// An action says that no rule matched.
    NoMatch,
    /// An action asked for it.
    Action,
    /// Its TTL could not be decremented.
    InvalidTtl,
    /// The action set asked for it.
    ActionSet,
    /// A group's bucket asked for it.
    Group,
    /// The action of a packet-out asked for it.
    PacketOut,
    /// An action of a table-miss rule asked for it: one of priority 0 that matches everything.
    /// OpenFlow 1.3 and later call it [`PacketInReason::NoMatch`], earlier versions
    /// [`PacketInReason::Action`].
    MissRule,
}

impl PacketInReason {
    /// OpenFlow's number of the reason (`OFPR_*`); 6, which no message has, for
    /// [`PacketInReason::MissRule`].
    pub fn number(self) -> u8 {
        match self {
            PacketInReason::TableMiss | PacketInReason::NoMatch => 0,
            PacketInReason::Action => 1,
            PacketInReason::InvalidTtl => 2,
            PacketInReason::ActionSet => 3,
            PacketInReason::Group => 4,
            PacketInReason::PacketOut => 5,
            PacketInReason::MissRule => 6,
        }
    }
}

/// What sent a packet to the controller, and the walk's state at that moment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sender {
    /// The table of the rule.
    pub table: TableId,
    /// The rule's cookie; `None` without a rule.
    pub cookie: Option<u64>,
    /// What the packet has besides its bytes and is not zero: registers, metadata, the fields
    /// of a tunnel; the input port only if an action has written it.
    pub fields: Box<[(FieldId, u128)]>,
    /// Whether the packet still has the connection that it had when it was looked up.
    pub has_connection: bool,
    /// What lets the packet go on, if the walk was paused.
    pub continuation: Option<Arc<Continuation>>,
}

/// What the controller is told along with a packet (OpenFlow 1.5.1, section 7.4.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Why the controller gets the packet.
    pub reason: PacketInReason,
    /// The packet's type ([`Packet::packet_type`]).
    pub packet_type: u32,
    /// Length of the packet before it was cut to the requested length.
    pub total_len_bytes: usize,
    /// The controllers that get it: those that chose this number; 0 for all that chose none.
    pub controller_id: u16,
    /// Bytes that the action asked to have sent back; empty for most.
    pub userdata: Box<[u8]>,
    /// What sent it; `None` if not known.
    pub sender: Option<Box<Sender>>,
    /// What a tracker said of it.
    pub connection: Connection,
    /// The values of its tunnel; `None` if it has none.
    pub tunnel: Option<Box<TunnelValues>>,
}

/// One step of processing a packet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// Writes bits of a header field, or of a value of the packet's tunnel.
    Set {
        /// The field.
        field: FieldId,
        /// The new bits; zero outside the mask.
        value: u128,
        /// Which bits are written.
        mask: u128,
    },
    /// Decrements the IP TTL.
    DecTtl,
    /// Decrements the MPLS TTL.
    DecMplsTtl,
    /// Adds an outer VLAN tag.
    PushVlan {
        /// The tag's EtherType.
        tpid: u16,
        /// Priority and id.
        tci: u16,
    },
    /// Removes the outer VLAN tag.
    PopVlan,
    /// Adds an MPLS label.
    PushMpls {
        /// The new EtherType.
        ether_type: u16,
        /// The label stack entry.
        entry: u32,
    },
    /// Removes the top MPLS label.
    PopMpls {
        /// The new EtherType.
        ether_type: u16,
    },
    /// Adds an Ethernet header with addresses of zero to a packet without one.
    PushEthernet,
    /// Removes the Ethernet header of a packet without tags.
    PopEthernet,
    /// Adds a header of layer 3 in front of the whole packet.
    Encapsulate {
        /// The new EtherType.
        ether_type: u16,
        /// The header.
        header: Box<[u8]>,
    },
    /// Removes the outermost header of a packet without Ethernet.
    Decapsulate {
        /// The type of what follows: 0 for Ethernet, else namespace 1 and an EtherType.
        packet_type: u32,
    },
    /// Gives the packet a queue of the ports that it leaves by; 0 for none.
    Queue(u32),
    /// Open vSwitch's datapath would hand the packet to its control side.
    Slow {
        /// The meter of such packets, which may drop it; nothing happens without one.
        meter: Option<MeterPlace>,
    },
    /// Measures the packet; what follows is done unless the meter drops it.
    Meter(MeterPlace),
    /// The same by a meter that may also remark the packet: raise the drop precedence of its DSCP.
    /// The packet is then looked up again.
    Remark(MeterPlace),
    /// Cuts the packet to this length; what follows sends it.
    Cut {
        /// Most bytes that are left.
        len_bytes: u32,
    },
    /// Sends the packet.
    Output(PortId),
    /// Sends the packet to the controller.
    Controller {
        /// The reason.
        reason: PacketInReason,
        /// Most bytes of the packet to send.
        max_len_bytes: u16,
        /// The controllers that get it.
        controller_id: u16,
        /// Bytes that come back with the packet.
        userdata: Box<[u8]>,
        /// What sent it; `None` if not known.
        sender: Option<Box<Sender>>,
        /// The meter that must let it pass.
        meter: Option<MeterPlace>,
    },
    /// Reports that a station is behind a port.
    Learn {
        /// The station.
        station: Station,
        /// The port it was seen at.
        port: PortId,
    },
    /// Teaches a rule, if there is room for it.
    LearnRule {
        /// The rule.
        rule: Arc<LearnedRule>,
        /// If the packet goes on by whether there was room: the continuations with room and
        /// without. Then it is the last effect of its list.
        outcomes: Option<(u32, u32)>,
    },
    /// Reports that a packet of TCP with FIN or RST met a rule whose timeouts it shortens.
    FinTimeout {
        /// The rule.
        rule: RuleId,
        /// The longest idle timeout in seconds; 0 to leave it.
        idle_s: u16,
        /// The longest hard timeout in seconds; 0 to leave it.
        hard_s: u16,
    },
    /// Counts copies that are not sent.
    Drop {
        /// The reason.
        reason: DropReason,
        /// Number of copies; 1 for the packet itself.
        copies: u32,
    },
    /// Runs a list on a copy.
    Clone(Box<[Effect]>),
    /// Runs one of two lists on a copy, chosen by the packet's length.
    ByLength {
        /// The size that decides; the link layer counts, padding behind an IP packet does not.
        limit_bytes: u16,
        /// The list for longer packets.
        longer: Box<[Effect]>,
        /// The list for all others.
        others: Box<[Effect]>,
    },
    /// Gives the packet to the tracker of connections, which may translate its addresses.
    Track(Arc<TrackRequest>),
    /// Forgets what the tracker said of the packet.
    Untrack,
    /// Forgets the values of the packet's tunnel.
    LeaveTunnel,
    /// Looks the packet up again, with the continuation of this number in the translation.
    Recirculate(u32),
}

impl Effect {
    /// The lists that run on copies.
    pub fn lists(&self) -> impl Iterator<Item = &[Effect]> {
        let (one, other): (Option<&[Effect]>, Option<&[Effect]>) = match self {
            Effect::Clone(nested) => (Some(nested), None),
            Effect::ByLength { longer, others, .. } => (Some(longer), Some(others)),
            _ => (None, None),
        };
        one.into_iter().chain(other)
    }

    /// The list that runs on a copy of this packet; empty for an effect without one.
    pub fn chosen_list(&self, packet: &Packet, headers: &Headers) -> &[Effect] {
        match self {
            Effect::Clone(nested) => nested,
            Effect::ByLength {
                limit_bytes,
                longer,
                others,
            } => match length_of(packet, headers) > usize::from(*limit_bytes) {
                true => longer,
                false => others,
            },
            _ => &[],
        }
    }

    /// The same effect with each list that runs on a copy put through `each`.
    pub fn map_lists(self, mut each: impl FnMut(Vec<Effect>) -> Vec<Effect>) -> Effect {
        match self {
            Effect::Clone(nested) => Effect::Clone(each(nested.into_vec()).into()),
            Effect::ByLength {
                limit_bytes,
                longer,
                others,
            } => Effect::ByLength {
                limit_bytes,
                longer: each(longer.into_vec()).into(),
                others: each(others.into_vec()).into(),
            },
            effect => effect,
        }
    }

    /// Whether a packet, or a copy of it, is looked up again.
    pub fn recirculates(&self) -> bool {
        match self {
            Effect::Recirculate(_)
            | Effect::LearnRule {
                outcomes: Some(_), ..
            } => true,
            effect => effect.lists().flatten().any(Effect::recirculates),
        }
    }

    /// Whether the effect measures, cuts or shows single frames, so that it is not for a packet
    /// that stands for several segments.
    #[inline]
    fn needs_segments(&self) -> bool {
        matches!(
            self,
            Effect::Controller { .. }
                | Effect::Meter(_)
                | Effect::Remark(_)
                | Effect::Slow { meter: Some(_) }
                | Effect::Cut { .. }
                | Effect::ByLength { .. }
        )
    }

    /// Bytes of heap memory that the effect owns.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Effect::Clone(_) | Effect::ByLength { .. } => {
                let of_list = |list: &[Effect]| {
                    let deeper: usize = list.iter().map(Effect::heap_bytes).sum();
                    std::mem::size_of_val(list) + deeper
                };
                self.lists().map(of_list).sum()
            }
            Effect::Encapsulate { header, .. } => header.len(),
            Effect::Track(request) => std::mem::size_of_val(&**request),
            Effect::LearnRule { rule, .. } => {
                std::mem::size_of_val(&**rule)
                    + std::mem::size_of_val(rule.flow.matching.terms())
                    + std::mem::size_of_val(&*rule.flow.actions)
            }
            Effect::Controller {
                userdata, sender, ..
            } => {
                let of_sender = sender.as_ref().map_or(0, |sender| {
                    let continuation = sender.continuation.as_ref();
                    std::mem::size_of_val(&**sender)
                        + std::mem::size_of_val(&*sender.fields)
                        + continuation.map_or(0, |continuation| continuation.heap_bytes())
                });
                userdata.len() + of_sender
            }
            _ => 0,
        }
    }
}

/// A packet to look up again.
#[derive(Debug)]
pub struct Recirculation {
    /// The number of a continuation of its translation.
    pub continuation: u32,
    /// What the tracker said of it.
    pub connection: Connection,
    /// How many fragments its run went on with: each has the passes of a packet.
    pub fragments: u32,
    /// The packet.
    pub packet: Packet,
}

/// What a run of effects produced: packets by destination, learned stations and rules.
///
/// The datapath and the reference both collect into one; the owner of the ports empties it.
#[derive(Debug)]
pub struct Outbox {
    /// Packets that leave, in order.
    pub sent: Vec<(PortId, Packet)>,
    /// Packets for the controller, each with its notice.
    pub to_controller: Vec<(Notice, Packet)>,
    /// Stations that were seen, and the port of each.
    pub stations_seen: Vec<(Station, PortId)>,
    /// Rules that packets have taught.
    pub rules_taught: Vec<Arc<LearnedRule>>,
    /// Rules that met the end of a TCP connection: their longest idle and hard timeout from now
    /// on, in seconds; 0 to leave it.
    pub fin_timeouts: Vec<(RuleId, u16, u16)>,
    /// Rules refused since their cookie has as many as it may have.
    pub rules_refused: u64,
    /// The rules of bounded cookies.
    pub learned: Arc<LearnedCounts>,
    /// Packets to look up again.
    pub recirculated: Vec<Recirculation>,
    /// The connections that packets are tracked in.
    pub connections: Arc<Connections>,
    /// The meters that packets are measured by.
    pub meters: Arc<Meters>,
    /// The time by which connections age and meters fill; the owner moves it before each burst.
    pub now: Instant,
    /// What the tracker draws addresses from at random.
    pub chance: u64,
    /// The pool that copies come from and spent packets return to.
    pub pool: PacketPool,
    /// Drops; a datapath moves them into its statistics.
    pub drops: Drops,
    /// Copies that were not made because the pool was empty.
    pub copies_refused: u64,
    /// Packets and copies that were given a queue.
    pub queued: u64,
    /// Whether copies are allocated when the pool is empty: for tests and references.
    pub grows: bool,
}

impl Outbox {
    /// An empty outbox that takes copies from `pool`, with connections of its own.
    pub fn new(pool: PacketPool) -> Outbox {
        Outbox::with_connections(pool, Arc::default())
    }

    /// An empty outbox that takes copies from `pool`.
    pub fn with_connections(pool: PacketPool, connections: Arc<Connections>) -> Outbox {
        Outbox {
            sent: Vec::new(),
            to_controller: Vec::new(),
            stations_seen: Vec::new(),
            rules_taught: Vec::new(),
            fin_timeouts: Vec::new(),
            rules_refused: 0,
            learned: Arc::default(),
            recirculated: Vec::new(),
            connections,
            meters: Arc::default(),
            now: Instant::ZERO,
            chance: 0,
            pool,
            drops: Drops::default(),
            copies_refused: 0,
            queued: 0,
            grows: false,
        }
    }

    /// Measures packets by these meters.
    pub fn with_meters(mut self, meters: Arc<Meters>) -> Outbox {
        self.meters = meters;
        self
    }

    /// Returns all packets to the pool, and forgets learned stations.
    pub fn recycle(&mut self) {
        let sent = self.sent.drain(..).map(|(_, packet)| packet);
        let others = self.to_controller.drain(..).map(|(_, packet)| packet);
        let recirculated = self.recirculated.drain(..);
        let recirculated = recirculated.map(|again| again.packet);
        sent.chain(others)
            .chain(recirculated)
            .for_each(|packet| self.pool.put(packet));
        self.stations_seen.clear();
        self.rules_taught.clear();
        self.fin_timeouts.clear();
    }

    /// Teaches a rule; returns whether there was room for it.
    fn teach(&mut self, rule: &Arc<LearnedRule>) -> bool {
        let is_admitted = self.learned.admit(rule);
        match is_admitted {
            true => self.rules_taught.push(rule.clone()),
            false => self.rules_refused += 1,
        }
        is_admitted
    }

    /// Gives a packet to the tracker, and returns what it says.
    fn track(
        &mut self,
        request: &TrackRequest,
        packet: &mut Packet,
        headers: &Headers,
        before: &Connection,
    ) -> Connection {
        let (now, chance) = (self.now, self.next_chance());
        let tracker = self.connections.tracker();
        let before = previous(before);
        let told = tracker.track_packet(packet, headers, request, before, now, chance);
        connection(&told)
    }

    /// The same for a packet that keeps its length, because fragments carry it.
    fn track_whole(
        &mut self,
        request: &TrackRequest,
        bytes: &mut [u8],
        headers: &Headers,
        before: &Connection,
    ) -> Connection {
        let (now, chance) = (self.now, self.next_chance());
        let tracker = self.connections.tracker();
        let before = previous(before);
        let told = tracker.track(bytes, headers, request, before, now, chance);
        connection(&told)
    }

    fn next_chance(&mut self) -> u64 {
        // Weyl's sequence: the tracker hashes it.
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.chance
    }

    /// By how many levels a meter raises a packet's drop precedence; `None` if it drops the packet,
    /// which is counted.
    fn measure(&mut self, meter: MeterPlace, packet: &Packet) -> Option<u8> {
        let length = packet.len().saturating_sub(packet.front_len());
        match self.meters.measure(meter, length, self.now) {
            MeterVerdict::Pass => Some(0),
            MeterVerdict::Exceeds(BandKind::Remark { levels }) => Some(levels),
            MeterVerdict::Exceeds(BandKind::Drop) => {
                self.drops.count(DropReason::Meter, 1);
                None
            }
        }
    }

    /// Sends a copy to the controller, as [`Effect::Controller`] says.
    fn tell(
        &mut self,
        effect: &Effect,
        packet: &Packet,
        headers: &Headers,
        connection: &Connection,
    ) {
        let Effect::Controller {
            reason,
            max_len_bytes,
            controller_id,
            userdata,
            sender,
            meter,
        } = effect
        else {
            return;
        };
        let levels = match meter.map(|meter| self.measure(meter, packet)) {
            Some(None) => return,
            Some(Some(levels)) => levels,
            None => 0,
        };
        if let Some(mut copy) = self.copy_of(packet) {
            copy.finish();
            if levels > 0 {
                let mut headers = *headers;
                Rewriter::new(&mut copy, &mut headers).raise_drop_precedence(levels);
            }
            let packet_type = copy.strip_front();
            let notice = Notice {
                reason: *reason,
                packet_type,
                total_len_bytes: copy.len(),
                controller_id: *controller_id,
                userdata: userdata.clone(),
                sender: sender.clone(),
                tunnel: copy.tunnel().cloned().map(Box::new),
                connection: match sender {
                    Some(sender) if sender.has_connection => *connection,
                    _ => Connection::NONE,
                },
            };
            copy.truncate(usize::from(*max_len_bytes));
            self.to_controller.push((notice, copy));
        }
    }

    fn copy_of(&mut self, packet: &Packet) -> Option<Packet> {
        match self.pool.take_for(packet.len()) {
            Some(mut copy) => {
                copy.copy_from(packet);
                Some(copy)
            }
            None if self.grows => Some(packet.clone()),
            None => {
                self.copies_refused += packet.wire_counts().0;
                None
            }
        }
    }
}

/// What earlier passes were told, as the tracker asks for it.
fn previous(connection: &Connection) -> Previous {
    Previous {
        state: CtState(connection.state),
        zone: connection.zone,
    }
}

/// What the tracker says, as the fields of a key.
fn connection(told: &Tracked) -> Connection {
    let mut connection = Connection {
        label: told.label,
        mark: told.mark,
        zone: told.zone,
        state: told.state.0,
        ..Connection::default()
    };
    if let Some(tuple) = &told.original {
        let number = |address: std::net::Ipv6Addr| match tuple.is_ipv6 {
            true => u128::from(address),
            false => u128::from(address) & u128::from(u32::MAX),
        };
        connection.source = number(tuple.source.address);
        connection.destination = number(tuple.destination.address);
        connection.protocol = tuple.protocol;
        connection.is_ipv6 = tuple.is_ipv6;
        let is_icmp = matches!(tuple.protocol, protocol::ICMP | protocol::ICMPV6);
        (connection.source_port, connection.destination_port) = match is_icmp {
            true => (tuple.icmp.0.into(), tuple.icmp.1.into()),
            false => (tuple.source.port, tuple.destination.port),
        };
    }
    connection
}

/// Runs `effects` on a packet with the given headers, of which the tracker said `connection`.
#[inline]
pub fn run(
    effects: &[Effect],
    fields: &[FieldDescriptor],
    packet: Packet,
    headers: Headers,
    connection: &Connection,
    outbox: &mut Outbox,
) {
    run_part(effects, fields, packet, headers, connection, 1, outbox);
}

/// The same for one of `fragments` that go on together; one match, an arm for each effect.
fn run_part(
    effects: &[Effect],
    fields: &[FieldDescriptor],
    mut packet: Packet,
    mut headers: Headers,
    connection: &Connection,
    mut fragments: u32,
    outbox: &mut Outbox,
) {
    let mut tracked = None;
    for (index, effect) in effects.iter().enumerate() {
        let is_last = index + 1 == effects.len();
        match effect {
            effect if packet.is_segmented() && effect.needs_segments() => {
                let connection = tracked.as_ref().unwrap_or(connection);
                let rest = &effects[index..];
                return run_segments(rest, fields, (packet, headers), connection, outbox);
            }
            Effect::Output(port) if is_last => return outbox.sent.push((*port, packet)),
            Effect::Output(port) => {
                if let Some(copy) = outbox.copy_of(&packet) {
                    outbox.sent.push((*port, copy));
                }
            }
            Effect::Controller { .. } => outbox.tell(effect, &packet, &headers, connection),
            Effect::Learn { station, port } => outbox.stations_seen.push((*station, *port)),
            Effect::LearnRule { rule, outcomes } => {
                let is_admitted = outbox.teach(rule);
                if let Some((with, without)) = outcomes {
                    return outbox.recirculated.push(Recirculation {
                        continuation: if is_admitted { *with } else { *without },
                        connection: *tracked.as_ref().unwrap_or(connection),
                        fragments,
                        packet,
                    });
                }
            }
            Effect::FinTimeout {
                rule,
                idle_s,
                hard_s,
            } if ends_tcp(&packet, &headers) => {
                outbox.fin_timeouts.push((*rule, *idle_s, *hard_s));
            }
            Effect::Drop { reason, copies } => {
                let frames = packet.wire_counts().0;
                outbox.drops.count(*reason, u64::from(*copies) * frames);
            }
            Effect::Clone(_) | Effect::ByLength { .. } if is_last => {
                let nested = effect.chosen_list(&packet, &headers);
                let connection = tracked.as_ref().unwrap_or(connection);
                return run_part(
                    nested, fields, packet, headers, connection, fragments, outbox,
                );
            }
            Effect::Clone(_) | Effect::ByLength { .. } => {
                let nested = effect.chosen_list(&packet, &headers);
                if let Some(copy) = outbox.copy_of(&packet) {
                    let connection = tracked.as_ref().unwrap_or(connection);
                    run_part(nested, fields, copy, headers, connection, fragments, outbox);
                }
            }
            Effect::Queue(queue) => outbox.queued += u64::from(*queue != 0),
            Effect::Meter(meter) | Effect::Slow { meter: Some(meter) }
                if outbox.measure(*meter, &packet).is_none() =>
            {
                break;
            }
            Effect::Remark(meter) => match outbox.measure(*meter, &packet) {
                Some(levels) => {
                    Rewriter::new(&mut packet, &mut headers).raise_drop_precedence(levels);
                }
                None => break,
            },
            Effect::Meter(_) | Effect::Slow { .. } => {}
            Effect::Cut { len_bytes } => packet.truncate(*len_bytes as usize),
            Effect::Track(request) if headers.scalar(Scalar::IpFragment) != 0 => {
                let before = tracked.as_ref().unwrap_or(connection);
                let assembled = outbox.assemble(request, packet, &headers, before);
                let Some(Assembled { parts, last, told }) = assembled else {
                    return;
                };
                fragments = fragments.max(parts.len() as u32 + 1);
                let rest = &effects[index + 1..];
                for (packet, headers) in parts {
                    run_part(rest, fields, packet, headers, &told, fragments, outbox);
                }
                // The last goes on here, so that the depth of calls stays bounded.
                (packet, headers, tracked) = (last.0, last.1, Some(told));
            }
            Effect::Track(request) => {
                let before = tracked.as_ref().unwrap_or(connection);
                tracked = Some(outbox.track(request, &mut packet, &headers, before));
            }
            Effect::LeaveTunnel => packet.leave_tunnel(),
            Effect::Untrack => tracked = Some(Connection::default()),
            Effect::Recirculate(continuation) => {
                return outbox.recirculated.push(Recirculation {
                    continuation: *continuation,
                    connection: *tracked.as_ref().unwrap_or(connection),
                    fragments,
                    packet,
                });
            }
            _ if !rewrite(effect, fields, &mut packet, &mut headers) => {
                let reason = match effect {
                    Effect::Decapsulate { .. } => DropReason::TooShort,
                    _ => DropReason::TooLong,
                };
                outbox.drops.count(reason, packet.wire_counts().0); // Invariant 2.
                break;
            }
            _ => {}
        }
    }
    outbox.pool.put(packet);
}

/// Runs `effects` on each segment that a packet stands for.
#[cold]
fn run_segments(
    effects: &[Effect],
    fields: &[FieldDescriptor],
    (packet, headers): (Packet, Headers),
    connection: &Connection,
    outbox: &mut Outbox,
) {
    let count = packet.segment_count();
    for index in 0..count {
        let Some(mut segment) = outbox.empty() else {
            continue;
        };
        packet.emit_segment(index, &mut segment);
        // Each may have as many passes as a packet, like fragments.
        let fragments = count as u32;
        run_part(
            effects, fields, segment, headers, connection, fragments, outbox,
        );
    }
    outbox.pool.put(packet);
}

/// The packet's length with Ethernet, if it has it, and without padding behind an IP packet.
fn length_of(packet: &Packet, headers: &Headers) -> usize {
    let padded = packet.len() - padding_len(packet, headers);
    padded.saturating_sub(packet.front_len())
}

/// How many bytes of the packet lie behind the length that its IP header states.
fn padding_len(packet: &Packet, headers: &Headers) -> usize {
    let stated = |header, at: usize, before: usize| {
        let start = headers.offset(header)?;
        let length = packet.bytes().get(start + at..start + at + 2)?;
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        Some(start + before + length)
    };
    let end =
        stated(standard::header::IPV4, 2, 0).or_else(|| stated(standard::header::IPV6, 4, 40));
    end.map_or(0, |end| packet.len().saturating_sub(end))
}

/// Whether a packet of TCP has FIN or RST (RFC 9293, section 3.1).
fn ends_tcp(packet: &Packet, headers: &Headers) -> bool {
    let flags = headers.offset(standard::header::TCP).map(|at| at + 13);
    let flags = flags.and_then(|at| packet.bytes().get(at));
    flags.is_some_and(|flags| flags & 0b101 != 0)
}

/// Changes the packet; returns whether there was room for the added bytes.
fn rewrite(
    effect: &Effect,
    fields: &[FieldDescriptor],
    packet: &mut Packet,
    headers: &mut Headers,
) -> bool {
    let mut rewriter = Rewriter::new(packet, headers);
    match effect {
        Effect::Set { field, value, mask } => {
            let descriptor = &fields[field.index()];
            rewriter.write(&descriptor.source, descriptor.width_bits, *value, *mask);
        }
        Effect::DecTtl => {
            rewriter.decrement_ttl();
        }
        Effect::DecMplsTtl => {
            rewriter.decrement_mpls_ttl();
        }
        Effect::PushVlan { tpid, tci } => return rewriter.push_vlan(*tpid, *tci),
        Effect::PopVlan => {
            rewriter.pop_vlan();
        }
        Effect::PushMpls { ether_type, entry } => return rewriter.push_mpls(*ether_type, *entry),
        Effect::PopMpls { ether_type } => {
            rewriter.pop_mpls(*ether_type);
        }
        Effect::PushEthernet => {
            rewriter.push_ethernet();
        }
        Effect::PopEthernet => {
            rewriter.pop_ethernet();
        }
        Effect::Encapsulate { ether_type, header } => {
            return rewriter.encapsulate(*ether_type, header);
        }
        Effect::Decapsulate { packet_type } => return rewriter.decapsulate(*packet_type),
        Effect::Output(_)
        | Effect::Controller { .. }
        | Effect::Learn { .. }
        | Effect::LearnRule { .. }
        | Effect::FinTimeout { .. }
        | Effect::Drop { .. }
        | Effect::Clone(_)
        | Effect::ByLength { .. }
        | Effect::Queue(_)
        | Effect::Slow { .. }
        | Effect::Meter(_)
        | Effect::Remark(_)
        | Effect::Track(_)
        | Effect::Untrack
        | Effect::LeaveTunnel
        | Effect::Cut { .. }
        | Effect::Recirculate(_) => {}
    }
    true
}
