//! Effects: what a walk through the tables comes to, as a program for one packet.
//!
//! The interpreter turns the actions of all the rules it met into one list of effects, in which
//! nothing is left to look up: groups are resolved to buckets, floods to ports, copies between
//! fields to constants (their sources are in the mask). A cache stores the list and runs it for
//! every packet of the entry's region; the interpreter's own answer is the same list, run once. So
//! a cache can only be wrong about *which* list applies, never about what it does.
//!
//! ```text
//!   run(effects, packet):
//!     for effect: rewrite in place | send a copy | run a nested list on a copy
//! ```
//!
//! 1. A send copies the packet as it is at that moment; later rewrites do not reach it. The last
//!    send of a list that nothing follows takes the packet itself.
//! 2. A packet for whose new header there is no room in a frame is dropped, and counted.
//! 3. [`Effect::Recirculate`] is the last of its list: the packet, as it is then, gets another
//!    lookup.

use thalweg_packet::{FieldDescriptor, FieldId, Headers, Packet, PacketPool, PortId, Rewriter};

use crate::drops::{DropReason, Drops};
use crate::mac::Station;

/// Why a packet goes to the controller (OpenFlow 1.5.1, section 7.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PacketInReason {
    /// An action said so.
    Action,
    /// Its TTL could not be decremented.
    InvalidTtl,
}

/// What the controller is told beside a packet (OpenFlow 1.5.1, section 7.4.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Why it gets the packet.
    pub reason: PacketInReason,
    /// How long the packet was before it was cut to what was asked for.
    pub total_len_bytes: usize,
    /// The bytes that the action asked to have sent back; empty for most.
    pub userdata: Box<[u8]>,
}

/// One step of what is done with a packet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// Writes bits of a header field.
    Set {
        /// The field.
        field: FieldId,
        /// The new bits; zero outside the mask.
        value: u128,
        /// Which bits are written.
        mask: u128,
    },
    /// Takes one from the IP TTL.
    DecTtl,
    /// Takes one from the MPLS TTL.
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
        /// The EtherType from now on.
        ether_type: u16,
    },
    /// Sends the packet.
    Output(PortId),
    /// Sends the packet to the controller.
    Controller {
        /// Why.
        reason: PacketInReason,
        /// At most this many bytes of it.
        max_len_bytes: u16,
        /// Bytes that come back with the packet.
        userdata: Box<[u8]>,
    },
    /// Tells that a station is behind a port.
    Learn {
        /// Which station.
        station: Station,
        /// The port it was seen at.
        port: PortId,
    },
    /// Counts what was to be sent and is not.
    Drop {
        /// Why.
        reason: DropReason,
        /// How many copies; 1 for the packet itself.
        copies: u32,
    },
    /// Runs a list on a copy.
    Clone(Box<[Effect]>),
    /// Looks the packet up again, by the continuation of this number in the translation.
    Recirculate(u32),
}

impl Effect {
    /// Whether a packet, or a copy of it, is looked up again.
    pub fn recirculates(&self) -> bool {
        match self {
            Effect::Recirculate(_) => true,
            Effect::Clone(nested) => nested.iter().any(Effect::recirculates),
            _ => false,
        }
    }

    /// Bytes of memory behind the effect itself.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Effect::Clone(nested) => {
                let deeper: usize = nested.iter().map(Effect::heap_bytes).sum();
                std::mem::size_of_val(&**nested) + deeper
            }
            Effect::Controller { userdata, .. } => userdata.len(),
            _ => 0,
        }
    }
}

/// What a run of effects put out: packets by where they go, and what they taught.
///
/// The datapath and the reference both collect into one; whoever owns the ports empties it.
#[derive(Debug)]
pub struct Outbox {
    /// Packets that leave, in order.
    pub sent: Vec<(PortId, Packet)>,
    /// Packets for the controller, and what it is told beside them.
    pub to_controller: Vec<(Notice, Packet)>,
    /// Stations that were seen, and where.
    pub learned: Vec<(Station, PortId)>,
    /// Packets to be looked up again, each by a continuation of its translation.
    pub recirculated: Vec<(u32, Packet)>,
    /// Where copies come from and spent packets go.
    pub pool: PacketPool,
    /// What was to be sent and is not; a datapath takes it over into its statistics.
    pub drops: Drops,
    /// Copies that were not made because the pool was empty.
    pub copies_refused: u64,
    /// Whether copies are allocated where the pool is empty: for tests and references.
    pub grows: bool,
}

impl Outbox {
    /// An empty outbox that takes copies from `pool`.
    pub fn new(pool: PacketPool) -> Outbox {
        Outbox {
            sent: Vec::new(),
            to_controller: Vec::new(),
            learned: Vec::new(),
            recirculated: Vec::new(),
            pool,
            drops: Drops::default(),
            copies_refused: 0,
            grows: false,
        }
    }

    /// Puts all packets back into the pool, and forgets what was learned.
    pub fn recycle(&mut self) {
        let sent = self.sent.drain(..).map(|(_, packet)| packet);
        let others = self.to_controller.drain(..).map(|(_, packet)| packet);
        let recirculated = self.recirculated.drain(..).map(|(_, packet)| packet);
        sent.chain(others)
            .chain(recirculated)
            .for_each(|packet| self.pool.put(packet));
        self.learned.clear();
    }

    fn copy_of(&mut self, packet: &Packet) -> Option<Packet> {
        match self.pool.take() {
            Some(mut copy) => {
                copy.copy_from(packet);
                Some(copy)
            }
            None if self.grows => Some(packet.clone()),
            None => {
                self.copies_refused += 1;
                None
            }
        }
    }
}

/// Runs `effects` on a packet whose headers these are.
pub fn run(
    effects: &[Effect],
    fields: &[FieldDescriptor],
    mut packet: Packet,
    mut headers: Headers,
    outbox: &mut Outbox,
) {
    for (index, effect) in effects.iter().enumerate() {
        let is_last = index + 1 == effects.len();
        match effect {
            Effect::Output(port) if is_last => return outbox.sent.push((*port, packet)),
            Effect::Output(port) => {
                if let Some(copy) = outbox.copy_of(&packet) {
                    outbox.sent.push((*port, copy));
                }
            }
            Effect::Controller {
                reason,
                max_len_bytes,
                userdata,
            } => {
                if let Some(mut copy) = outbox.copy_of(&packet) {
                    let notice = Notice {
                        reason: *reason,
                        total_len_bytes: copy.len(),
                        userdata: userdata.clone(),
                    };
                    copy.truncate(usize::from(*max_len_bytes));
                    outbox.to_controller.push((notice, copy));
                }
            }
            Effect::Learn { station, port } => outbox.learned.push((*station, *port)),
            Effect::Drop { reason, copies } => outbox.drops.count(*reason, u64::from(*copies)),
            Effect::Clone(nested) => {
                if let Some(copy) = outbox.copy_of(&packet) {
                    run(nested, fields, copy, headers, outbox);
                }
            }
            Effect::Recirculate(continuation) => {
                return outbox.recirculated.push((*continuation, packet));
            }
            _ if !rewrite(effect, fields, &mut packet, &mut headers) => {
                outbox.drops.count(DropReason::TooLong, 1); // Invariant 2.
                break;
            }
            _ => {}
        }
    }
    outbox.pool.put(packet);
}

/// Changes the packet; says whether there was room for what was added.
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
        Effect::Output(_)
        | Effect::Controller { .. }
        | Effect::Learn { .. }
        | Effect::Drop { .. }
        | Effect::Clone(_)
        | Effect::Recirculate(_) => {}
    }
    true
}
