//! Actions and instructions, for all versions.
//!
//! A value says what an action does, not how a version writes it: `mod_nw_src` of OpenFlow 1.0,
//! `set_field` of 1.2 and Nicira's `reg_load` are all [`Action::SetField`]. Encoding chooses
//! the form that Open vSwitch chooses, so that a controller reads back what it would read from
//! Open vSwitch. Where Open vSwitch remembers the form that an action came in, the action does.

mod bundle;
mod controller;
mod ct;
mod decode;
mod encap;
mod encode;
mod encoder;
mod instructions;
mod learn;
mod nesting;
mod port;
mod sample;
mod set_field;
mod subfield;
mod table;
#[cfg(test)]
mod tests;

pub use decode::decode_actions;
pub use encode::{encode_actions, encode_actions_for};

use bytes::Bytes;

use crate::field::{FieldId, Value};
use crate::port_number::PortNumber;

/// What a flow entry does (OpenFlow 1.5.1, section 5.5). OpenFlow 1.0 has only `apply`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Instructions {
    /// Measures packets by this meter first.
    pub meter: Option<u32>,
    /// Does these actions.
    pub apply: Vec<Action>,
    /// Empties the action set.
    pub clear: bool,
    /// Adds these to the action set; `None` where the instruction is absent.
    pub write: Option<Vec<Action>>,
    /// Writes these bits of the metadata: value and mask.
    pub metadata: Option<(u64, u64)>,
    /// Goes to this table.
    pub goto: Option<u8>,
}

/// Consecutive bits of a field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Subfield {
    /// The field.
    pub field: FieldId,
    /// The lowest bit.
    pub offset: u16,
    /// Number of bits.
    pub width_bits: u16,
    /// Bytes of the whole field on the wire; for fields of variable length as the message says.
    pub bytes: u8,
}

/// The form in which [`Action::SetField`] came.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SetForm {
    /// The standard's `set_field`.
    SetField,
    /// Nicira's `reg_load`, for up to 64 consecutive bits of a field with a 4-byte header.
    Load,
    /// Nicira's `reg_load2`, for any field and mask.
    Load2,
}

/// One action.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Sends the packet; `max_length` counts for the controller only.
    Output {
        /// The port.
        port: PortNumber,
        /// Bytes that a controller gets; 0xffff for all.
        max_length: u16,
    },
    /// Sends to the port whose number these bits hold (`output:FIELD`).
    OutputField {
        /// The bits.
        source: Subfield,
        /// Bytes that a controller gets.
        max_length: u16,
        /// Whether it has the form that can name any field (`NXAST_OUTPUT_REG2`).
        is_extended: bool,
    },
    /// Sends the beginning of the packet.
    OutputTruncated {
        /// The port.
        port: PortNumber,
        /// Bytes that are sent.
        max_length: u32,
    },
    /// Sends to a controller, with options.
    Controller(Controller),
    /// Sends to a queue of a port.
    Enqueue {
        /// The port.
        port: PortNumber,
        /// The queue.
        queue: u32,
    },
    /// Chooses one of several ports by a hash, or writes its number.
    Bundle(Box<Bundle>),
    /// Processes the packet by a group.
    Group(u32),
    /// Sets the VLAN id: adds a tag in OpenFlow 1.0 (`mod_vlan_vid`), else needs one.
    SetVlanVid {
        /// The id.
        id: u16,
        /// Whether the action may add a tag.
        adds_tag: bool,
    },
    /// Sets the VLAN priority; adds a tag in the same way.
    SetVlanPcp {
        /// The priority.
        priority: u8,
        /// Whether the action may add a tag.
        adds_tag: bool,
    },
    /// Removes the outer VLAN tag.
    StripVlan,
    /// Adds an outer VLAN tag.
    PushVlan(u16),
    /// Sets the DSCP (all 8 bits of the byte, the lower two zero; `mod_nw_tos`).
    SetNwTos(u8),
    /// Sets the ECN bits (`mod_nw_ecn`).
    SetNwEcn(u8),
    /// Sets the TTL (`mod_nw_ttl`).
    SetNwTtl(u8),
    /// Sets source address, IPv4 (`mod_nw_src`).
    SetNwSrc([u8; 4]),
    /// Sets destination address, IPv4 (`mod_nw_dst`).
    SetNwDst([u8; 4]),
    /// Sets the Ethernet source (`mod_dl_src`).
    SetDlSrc([u8; 6]),
    /// Sets the Ethernet destination (`mod_dl_dst`).
    SetDlDst([u8; 6]),
    /// Sets the source port of TCP, UDP or SCTP (`mod_tp_src`).
    SetTpSrc(u16),
    /// Sets the destination port (`mod_tp_dst`).
    SetTpDst(u16),
    /// Writes bits of a field.
    SetField {
        /// The field.
        field: FieldId,
        /// The bits; zero outside the mask.
        value: Value,
        /// Which bits are written; `None` for all.
        mask: Option<Value>,
        /// How it is written where a version has several forms.
        form: SetForm,
    },
    /// Copies bits.
    Move {
        /// The bits read.
        source: Subfield,
        /// The bits written.
        destination: Subfield,
        /// Whether OpenFlow 1.3 has it as the ONF's `copy_field`.
        is_onf: bool,
    },
    /// Puts bits on the stack.
    StackPush(Subfield),
    /// Takes bits from the stack.
    StackPop(Subfield),
    /// Decrements the TTL; the ids are those of the controllers that hear of a bad one. `None`
    /// is the standard's form, of which the controllers without an id hear.
    DecTtl(Option<Vec<u16>>),
    /// Sets the MPLS TTL.
    SetMplsTtl(u8),
    /// Decrements the MPLS TTL.
    DecMplsTtl,
    /// Adds an MPLS label.
    PushMpls(u16),
    /// Removes an MPLS label.
    PopMpls(u16),
    /// Sets the MPLS label.
    SetMplsLabel(u32),
    /// Sets the MPLS traffic class.
    SetMplsTc(u8),
    /// Sets the tunnel's number.
    SetTunnel {
        /// The number.
        id: u64,
        /// Whether it is written in 64 bits where both forms could hold it.
        is_wide: bool,
    },
    /// Sets the queue.
    SetQueue(u32),
    /// Sets the queue back.
    PopQueue,
    /// Shortens the timeouts of the flow entry when TCP ends.
    FinTimeout {
        /// New idle timeout; 0 to leave it.
        idle_s: u16,
        /// New hard timeout; 0 to leave it.
        hard_s: u16,
    },
    /// Looks the packet up again.
    Resubmit {
        /// The input port for that lookup; `IN_PORT` for the same.
        port: PortNumber,
        /// The table; 0xff for the current one, as is `None`, the form without a table.
        table: Option<u8>,
        /// Whether source and destination are those of the tracked connection.
        with_ct: bool,
    },
    /// Makes a flow entry from the packet.
    Learn(Box<Learn>),
    /// Is one of several dimensions that must all match.
    Conjunction {
        /// The conjunction's number.
        id: u32,
        /// The dimension, from 0.
        clause: u8,
        /// How many dimensions there are.
        clauses: u8,
    },
    /// Writes one of several values, by a hash.
    Multipath {
        /// The fields to hash.
        fields: u16,
        /// The seed.
        basis: u16,
        /// How the value is chosen.
        algorithm: u16,
        /// The largest value.
        max_link: u16,
        /// An argument of the algorithm.
        argument: u32,
        /// Where the value goes.
        destination: Subfield,
    },
    /// Bytes for human readers.
    Note(Bytes),
    /// Ends all processing.
    Exit,
    /// Samples packets for IPFIX.
    Sample(Sample),
    /// Clears the connection state.
    CtClear,
    /// Hands the packet to the connection tracker.
    Ct(Box<Ct>),
    /// Translates addresses; only inside [`Action::Ct`].
    Nat(Box<Nat>),
    /// Does these actions on a copy.
    Clone(Vec<Action>),
    /// Adds a header of this namespace and type.
    Encap {
        /// Namespace and type of the new packet.
        packet_type: u32,
        /// Size of the header; 0 where none is named.
        header_bytes: u16,
        /// Properties as they came, each padded to a multiple of 8 bytes.
        properties: Bytes,
    },
    /// Removes a header; the new packet has this type.
    Decap {
        /// Namespace and type; 0xffff_fffe lets the switch find out.
        packet_type: u32,
    },
    /// Decrements the TTL of the network service header.
    DecNshTtl,
    /// Writes whether the packet is longer than a size.
    CheckPacketLarger {
        /// The size.
        length: u16,
        /// One bit.
        destination: Subfield,
    },
    /// Removes a field (`tun_metadata`).
    DeleteField {
        /// The field.
        field: FieldId,
        /// Its bytes on the wire.
        bytes: u8,
    },
    /// Measures the packet (OpenFlow 1.5's action).
    Meter(u32),
    /// Recirculates, for tests of Open vSwitch.
    DebugRecirc,
    /// Takes the slow path, for tests of Open vSwitch.
    DebugSlow,
}

/// Options of an output to a controller (`NXAST_CONTROLLER`, `NXAST_CONTROLLER2`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Controller {
    /// Bytes that it gets; 0xffff for all.
    pub max_length: u16,
    /// The controller's own number; 0 for all that have none.
    pub id: u16,
    /// Why (`OFPR_*`).
    pub reason: u8,
    /// Whether the packet's processing pauses until `NXT_RESUME`.
    pub pause: bool,
    /// Bytes that come with the packet; `None` for the form without options.
    pub userdata: Option<Bytes>,
    /// The meter of these packets, if named.
    pub meter: Option<u32>,
}

/// Chooses a port by a hash (`NXAST_BUNDLE`, `NXAST_BUNDLE_LOAD`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Bundle {
    /// How the port is chosen.
    pub algorithm: u16,
    /// The fields to hash.
    pub fields: u16,
    /// The seed.
    pub basis: u16,
    /// The ports.
    pub members: Vec<PortNumber>,
    /// Where the number goes; `None` to send the packet.
    pub destination: Option<Subfield>,
}

/// Makes a flow entry (`NXAST_LEARN`, `NXAST_LEARN2`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Learn {
    /// Its idle timeout.
    pub idle_timeout_s: u16,
    /// Its hard timeout.
    pub hard_timeout_s: u16,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Bits of `NX_LEARN_F_*`: 1 tells of its end, 2 ends with this entry, 4 writes a result.
    pub flags: u16,
    /// Its table.
    pub table: u8,
    /// Idle timeout once TCP ends.
    pub fin_idle_timeout_s: u16,
    /// Hard timeout once TCP ends.
    pub fin_hard_timeout_s: u16,
    /// Most entries that are made; 0 for no limit (`NXAST_LEARN2`).
    pub limit: u32,
    /// The bit that says whether one was made; with the flag 4.
    pub result: Option<Subfield>,
    /// Whether it has the second form even without limit and result.
    pub is_second_form: bool,
    /// What it matches and does.
    pub specs: Vec<LearnSpec>,
}

/// One part of a learned entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LearnSpec {
    /// Where the bits come from.
    pub source: LearnSource,
    /// Where they go.
    pub destination: LearnDestination,
    /// How many bits.
    pub width_bits: u16,
}

/// Where the bits of a [`LearnSpec`] come from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LearnSource {
    /// The packet.
    Field(Subfield),
    /// A constant, big-endian, in as many 16-bit words as the bits need.
    Immediate(Value),
}

/// Where the bits of a [`LearnSpec`] go in the learned entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LearnDestination {
    /// The entry matches them in this field.
    Match(Subfield),
    /// The entry writes them into this field.
    Load(Subfield),
    /// The entry sends to the port that they name.
    Output,
}

/// Samples packets (`NXAST_SAMPLE`, `NXAST_SAMPLE2`, `NXAST_SAMPLE3`, `NXAST_SAMPLE4`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sample {
    /// Of 65,535 packets, how many.
    pub probability: u16,
    /// Who collects.
    pub collector_set: u32,
    /// The domain of observation.
    pub domain: SampleId,
    /// The point of observation.
    pub point: SampleId,
    /// The port that is sampled; `ANY` for none.
    pub port: PortNumber,
    /// 0: neither, 1: ingress, 2: egress.
    pub direction: u8,
    /// Which of Nicira's forms it has at least (1 to 4).
    pub form: u8,
}

/// A number, or the bits that hold it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SampleId {
    /// The number.
    Number(u32),
    /// The bits (`NXAST_SAMPLE4`).
    Field(Subfield),
}

/// Hands a packet to the connection tracker (`NXAST_CT`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ct {
    /// Bits: 1 commits, 2 forces.
    pub flags: u16,
    /// The zone.
    pub zone: CtZone,
    /// The table where the packet goes on; 0xff for none.
    pub recirc_table: u8,
    /// The application layer gateway: 21 for FTP, 69 for TFTP, 0 for none.
    pub alg: u16,
    /// The actions on the connection.
    pub actions: Vec<Action>,
}

/// A zone of the connection tracker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CtZone {
    /// Its number.
    Number(u16),
    /// The 16 bits that hold it.
    Field(Subfield),
}

/// Translates addresses (`NXAST_NAT`).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Nat {
    /// Bits of `NX_NAT_F_*`: 1 source, 2 destination, 4 persistent, 8 hash, 16 random.
    pub flags: u16,
    /// First and last IPv4 address.
    pub ipv4: (Option<[u8; 4]>, Option<[u8; 4]>),
    /// First and last IPv6 address.
    pub ipv6: (Option<[u8; 16]>, Option<[u8; 16]>),
    /// First and last port.
    pub ports: (Option<u16>, Option<u16>),
}
