//! Actions: what a rule does with a packet, as data.
//!
//! [`crate::interpret`] gives an action list its meaning, [`crate::text`] its spelling.
//! OpenFlow's instructions (goto, write-actions, metadata) are actions too, in the order in
//! which OpenFlow executes them (OpenFlow 1.5.1, section 5.5), so that a rule has one list.

use std::sync::Arc;

use thalweg_packet::{FieldId, PortId};

use crate::effect::PacketInReason;
use crate::encap::Encap;
use crate::learning::Learning;
use crate::links::{LinkChoice, MemberChoice};
use crate::meters::MeterId;
use crate::tracking::Tracking;

/// A table: its number, and above it the bridge's ([`crate::BridgeId`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TableId(pub u32);

/// A group: its number, and above it the bridge's ([`crate::BridgeId`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub u64);

/// A list of actions, shared by the rules that have the same one.
pub type Actions = Arc<[Action]>;

/// Consecutive bits of one field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slice {
    /// The field.
    pub field: FieldId,
    /// The lowest bit; 0 is the field's least significant.
    pub offset: u16,
    /// Number of bits.
    pub width_bits: u16,
}

/// Bits of one or more fields, read or written as one number.
///
/// Most have one slice. `xreg0` is `reg1` below `reg0`, `xxreg0` is `reg3` to `reg0`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Subfield {
    /// The slices, the least significant first.
    pub slices: Box<[Slice]>,
}

impl Subfield {
    /// The lowest `width_bits` bits of a field.
    pub fn whole(field: FieldId, width_bits: u16) -> Subfield {
        Subfield {
            slices: Box::new([Slice {
                field,
                offset: 0,
                width_bits,
            }]),
        }
    }

    /// Total number of bits.
    pub fn width_bits(&self) -> u16 {
        self.slices.iter().map(|slice| slice.width_bits).sum()
    }
}

/// Bits to write into a field: `field = field & !mask | value`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Write {
    /// The field.
    pub field: FieldId,
    /// The new bits; zero outside the mask.
    pub value: u128,
    /// Which bits are written.
    pub mask: u128,
}

/// Where a packet is sent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// A port; nothing happens if it is the one the packet came from.
    Port(PortId),
    /// Back out of the port it came from.
    InPort,
    /// Every port except the one it came from.
    All,
    /// Every port that floods, except the one it came from.
    Flood,
    /// Where a learning switch would send it.
    Normal,
    /// To the controller, at most `max_len_bytes` of it.
    Controller {
        /// How much of the packet is sent; 65,535 means all.
        max_len_bytes: u16,
        /// The controllers that get it: those that chose this number; 0 for all that chose
        /// none.
        controller_id: u16,
        /// What they are told as the reason.
        reason: PacketInReason,
        /// Bytes that come back with the packet; empty for most.
        userdata: Box<[u8]>,
        /// Whether the walk stops here. The controller gets the whole packet, and the rest of
        /// the walk in a [`crate::Continuation`] that lets the packet go on.
        pause: bool,
        /// The number of the meter that these packets pass; without it, or if there is no such
        /// meter, they pass that of all packets for controllers.
        meter: Option<u32>,
    },
    /// To the switch's own network stack (`LOCAL`).
    Local,
    /// Back into the first table, like a resubmit to it (`TABLE`).
    Table,
    /// The port whose number these bits hold; may be a reserved port ([`Output::reserved`]).
    Field(Subfield),
    /// A port, in one of its queues. Afterwards the packet has the queue that it had before.
    Enqueue {
        /// The port; `LOCAL` and `IN_PORT` have OpenFlow 1.0's numbers.
        port: PortId,
        /// The queue.
        queue: u32,
    },
    /// A port, which gets the beginning of the packet. A patch gets nothing, and neither does
    /// `IN_PORT`, as in Open vSwitch 3.1.
    Truncated {
        /// The port; `LOCAL` and `IN_PORT` have OpenFlow 1.0's numbers.
        port: PortId,
        /// Most bytes that are sent.
        max_len_bytes: u32,
    },
}

impl Output {
    /// To all controllers without a number of their own.
    pub fn to_controller(max_len_bytes: u16) -> Output {
        Output::Controller {
            max_len_bytes,
            controller_id: 0,
            reason: PacketInReason::Action,
            userdata: Box::default(),
            pause: false,
            meter: None,
        }
    }

    /// Whether this sends in a way that OpenFlow's output cannot say (`controller(...)`,
    /// `enqueue`, `output(port=...,max_len=...)`).
    pub(crate) fn is_extended(&self) -> bool {
        match self {
            Output::Enqueue { .. } | Output::Truncated { .. } => true,
            Output::Controller { max_len_bytes, .. } => {
                *self != Output::to_controller(*max_len_bytes)
            }
            _ => false,
        }
    }

    /// OpenFlow 1.0's number of `IN_PORT`.
    pub(crate) const IN_PORT: PortId = PortId(0xfff8);

    /// The meaning of a reserved port's number; `None` for other numbers.
    ///
    /// Numbers are those of OpenFlow 1.0 (`ofp_port`), which have 16 bits. The wider numbers
    /// of later versions are for messages, not for packet fields.
    pub fn reserved(port: PortId) -> Option<Output> {
        Some(match port.0 {
            0xfff8 => Output::InPort,
            0xfff9 => Output::Table,
            0xfffa => Output::Normal,
            0xfffb => Output::Flood,
            0xfffc => Output::All,
            0xfffd => Output::to_controller(u16::MAX),
            0xfffe => Output::Local,
            _ => return None,
        })
    }
}

/// Asks a collector of samples for some of the packets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sampling {
    /// Of 65,535 packets, how many; not 0.
    pub probability: u16,
    /// The set of collectors.
    pub collector_set: u32,
    /// The domain of observation.
    pub domain: u32,
    /// The point of observation.
    pub point: u32,
    /// The port that is sampled, if one is named; reserved ones have OpenFlow 1.0's numbers.
    pub port: Option<PortId>,
    /// The direction, if one is named.
    pub direction: Option<SampleDirection>,
}

/// Which packets of a port a sample stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SampleDirection {
    /// Those that come in.
    Ingress,
    /// Those that leave.
    Egress,
}

/// Asks whether a packet is longer than a size, and keeps the answer in a bit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LengthCheck {
    /// The size; the packet's link layer counts, padding behind an IP packet does not.
    pub limit_bytes: u16,
    /// The bit: 1 if the packet is longer.
    pub larger: Subfield,
}

/// One action or instruction of a rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Sends the packet in its current form.
    Output(Output),
    /// Processes the packet by a group.
    Group(GroupId),
    /// Writes constants; one element for most, more where a name covers several fields.
    ///
    /// Bit 12 of `vlan_tci` says whether there is a tag: writing it adds one or removes it.
    SetField(Box<[Write]>),
    /// Copies bits; both sides are equally wide.
    Move {
        /// The bits read.
        source: Subfield,
        /// The bits written.
        destination: Subfield,
    },
    /// Puts bits on the stack.
    Push(Subfield),
    /// Takes bits from the stack; if it is empty, the destination does not change.
    Pop(Subfield),
    /// Sets VLAN id or priority of the outer tag.
    SetVlan {
        /// The new VLAN id.
        id: Option<u16>,
        /// The new priority.
        priority: Option<u8>,
        /// Whether a packet without a tag gets one (`mod_vlan_vid`) or stays untagged
        /// (`set_vlan_vid`).
        adds_tag: bool,
    },
    /// Adds an outer VLAN tag with id 0 and this TPID.
    PushVlan(u16),
    /// Removes the outer VLAN tag, if there is one.
    PopVlan,
    /// Adds an MPLS label stack entry; the EtherType becomes this one.
    PushMpls(u16),
    /// Removes the top label; if it was the last, the EtherType becomes this one.
    PopMpls(u16),
    /// Decrements the IP TTL; a packet whose TTL is 0 or 1 is not processed further.
    DecTtl,
    /// Decrements the MPLS TTL, with the same rule.
    DecMplsTtl,
    /// Decrements the TTL of the network service header; a packet whose TTL is 0 or 1, or that has
    /// no such header, is not processed further.
    DecNshTtl,
    /// Adds a header in front of the packet.
    Encap(Encap),
    /// Removes the outermost header; what follows has this type (namespace and EtherType), or the
    /// one that the header says ([`crate::NEXT_PROTOCOL`]).
    Decap(u32),
    /// Looks the packet up again, then continues with this list.
    Resubmit {
        /// The input port for that lookup only, not for the actions it leads to.
        in_port: Option<PortId>,
        /// The table; `None` for the current one.
        table: Option<TableId>,
        /// Whether that lookup sees the tuple of the connection's first packet instead of the
        /// packet's own.
        with_tuple: bool,
    },
    /// Gives the packet a queue of the port that it leaves by; 0 for none.
    SetQueue(u32),
    /// Gives the packet the queue back that it came in with, which is none.
    PopQueue,
    /// Writes a number that a hash of the packet chooses.
    Multipath(Box<LinkChoice>),
    /// Sends to a port that is chosen among those that are up, or writes its number.
    Bundle(Box<MemberChoice>),
    /// Executes a list, then undoes its changes.
    Clone(Actions),
    /// Bytes for human readers; does nothing.
    Note(Box<[u8]>),
    /// Makes the rule a clause of a conjunctive match, which wins no lookup by itself; does
    /// nothing when it is executed.
    Conjunction {
        /// The conjunctive match, within its table and priority.
        id: u32,
        /// Which of its dimensions the rule belongs to, from 1.
        clause: u8,
        /// How many dimensions it has.
        clauses: u8,
    },
    /// Gives the packet to the tracker of connections.
    Track(Box<Tracking>),
    /// Forgets what the tracker said of the packet (`ct_clear`).
    Untrack,
    /// Makes a rule of the packet.
    Learn(Box<Learning>),
    /// Shortens the timeouts of the rule when TCP ends: at a FIN or RST.
    FinTimeout {
        /// The longest idle timeout in seconds; 0 to leave it.
        idle_s: u16,
        /// The longest hard timeout in seconds; 0 to leave it.
        hard_s: u16,
    },
    /// Writes whether the packet is longer than a size, for the rest of this list only.
    CheckLarger(Box<LengthCheck>),
    /// Gives samples of the packets to collectors. There are none, so that nothing happens, as in
    /// Open vSwitch in a bridge without IPFIX.
    Sample(Box<Sampling>),
    /// Measures the packet by a meter, which may drop it.
    Meter(MeterId),
    /// Ends this pass; the rest of all lists follows once the packet was looked up again.
    DebugRecirculation,
    /// Lets Open vSwitch's datapath hand the packets to its control side; does nothing here,
    /// and is told of.
    DebugSlow,
    /// Ends all processing of the packet, including lists that resubmitted to this one.
    Exit,
    /// Adds to the action set, which is executed when no table follows.
    WriteActions(Actions),
    /// Empties the action set.
    ClearActions,
    /// Writes bits of the metadata.
    WriteMetadata {
        /// The new bits; zero outside the mask.
        value: u64,
        /// Which bits are written.
        mask: u64,
    },
    /// Continues with a later table; always the last action of a list.
    Goto(TableId),
}

impl Action {
    /// An instruction's rank among those of a rule (OpenFlow 1.5.1, section 5.5); 0 for
    /// actions.
    pub(crate) fn instruction_rank(&self) -> u8 {
        match self {
            Action::ClearActions => 1,
            Action::WriteActions(_) => 2,
            Action::WriteMetadata { .. } => 3,
            Action::Goto(_) => 4,
            _ => 0,
        }
    }
}
