//! Actions of generated rules, and their text.

use std::fmt::{self, Write};

use crate::field::Field;

/// Some bits of a field: `count` bits from bit `start` up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FieldSlice {
    /// The field.
    pub field: Field,
    /// The lowest bit, counted from the least significant.
    pub start: u32,
    /// The number of bits.
    pub count: u32,
}

impl FieldSlice {
    /// All of a field.
    pub const fn whole(field: Field) -> Self {
        FieldSlice {
            field,
            start: 0,
            count: field.width_bits(),
        }
    }
}

impl fmt::Display for FieldSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.field.action_name())?;
        if *self == FieldSlice::whole(self.field) {
            return f.write_str("[]");
        }
        write!(f, "[{}..{}]", self.start, self.start + self.count - 1)
    }
}

/// A port without a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReservedPort {
    /// The port that the packet came in by.
    InPort,
    /// All other ports.
    All,
    /// All other ports that flood.
    Flood,
    /// The port that a learning switch would choose.
    Normal,
}

/// The zone in which a rule tracks packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TrackZone {
    /// Its number.
    Number(u16),
    /// The low half of a register holds it.
    Register(u8),
}

/// What a rule asks of the tracker of connections.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TrackAction {
    /// The zone.
    pub zone: TrackZone,
    /// Whether a new connection is remembered.
    pub is_commit: bool,
    /// Whether a connection of the other direction ends first.
    pub is_forced: bool,
    /// The table that a copy of the packet is looked up in afterwards.
    pub table: Option<u8>,
    /// How addresses are translated, as text: `nat` or `nat(src=10.0.0.1)`.
    pub translation: Option<String>,
    /// The protocol that announces further connections: `ftp` or `tftp`.
    pub alg: Option<&'static str>,
    /// What writes the connection's mark and label.
    pub exec: Vec<Action>,
}

impl fmt::Display for TrackAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.zone {
            TrackZone::Number(zone) => write!(f, "ct(zone={zone}")?,
            TrackZone::Register(number) => write!(f, "ct(zone=reg{number}[0..15]")?,
        }
        if self.is_commit {
            f.write_str(",commit")?;
        }
        if self.is_forced {
            f.write_str(",force")?;
        }
        if let Some(table) = self.table {
            write!(f, ",table={table}")?;
        }
        if let Some(translation) = &self.translation {
            write!(f, ",{translation}")?;
        }
        if let Some(alg) = self.alg {
            write!(f, ",alg={alg}")?;
        }
        if !self.exec.is_empty() {
            f.write_str(",exec(")?;
            write_list(f, &self.exec)?;
            f.write_str(")")?;
        }
        f.write_str(")")
    }
}

/// An action of a rule; a rule without actions drops.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Action {
    /// Send to a port.
    Output(u32),
    /// Send to the port whose number is in a register.
    OutputRegister(u8),
    /// Send to a reserved port.
    OutputReserved(ReservedPort),
    /// Send this many bytes of the packet to the controller.
    Controller(u16),
    /// Send the first bytes of the packet to a port.
    OutputCut(u32, u32),
    /// Send to a port in a queue of it.
    Enqueue(u32, u32),
    /// Give the packet a queue.
    SetQueue(u32),
    /// Take the queue away.
    PopQueue,
    /// Send to the first of these ports that is up.
    ActiveBackup(Vec<u32>),
    /// Send to one of these ports that is up, by a hash of these fields.
    HashedPort(&'static str, Vec<u32>),
    /// Write 0, or with more than one link a number that a hash of these fields chooses.
    Multipath(&'static str, u32, FieldSlice),
    /// End the pass; the remaining actions follow in another.
    DebugRecirculation,
    /// Do nothing, by the slow path.
    DebugSlow,
    /// Overwrite a field.
    SetField(Field, u128),
    /// Overwrite the masked bits of a field (`value`, `mask`).
    SetMasked(Field, u128, u128),
    /// Overwrite a field by the OpenFlow 1.0 action named after it.
    Modify(Field, u128),
    /// Write a constant into bits of a field.
    Load(u64, FieldSlice),
    /// Copy bits (`source`, `destination`); both have the same number of bits.
    Move(FieldSlice, FieldSlice),
    /// Push bits onto the stack.
    Push(FieldSlice),
    /// Pop bits from the stack.
    Pop(FieldSlice),
    /// Push a tag with this EtherType and VLAN 0.
    PushVlan(u16),
    /// Remove the outermost tag.
    PopVlan,
    /// Set the tag's identifier; adds a tag if there is none.
    SetVlanId(u16),
    /// Set the tag's priority; adds a tag if there is none.
    SetVlanPriority(u8),
    /// Push a label and set this EtherType.
    PushMpls(u16),
    /// Remove the outermost label and set this EtherType.
    PopMpls(u16),
    /// Decrement the time to live; an expired packet is not forwarded.
    DecTtl,
    /// Decrement the label's time to live; an expired packet is not forwarded.
    DecMplsTtl,
    /// Write the masked bits of the metadata (`value`, `mask`).
    WriteMetadata(u64, u64),
    /// Send the packet to a group.
    Group(u32),
    /// Look up another table, then continue with the next action.
    Resubmit(u8),
    /// Look up another table with this input port, then continue with the next action.
    ResubmitFrom(u32, u8),
    /// Look up another table with the tuple of the connection's first packet in the place of
    /// the packet's own.
    ResubmitTuple(u8),
    /// Give the packet to the tracker of connections.
    Track(Box<TrackAction>),
    /// Forget what the tracker said of the packet.
    Untrack,
    /// Write into a bit whether the packet is longer than this many bytes.
    CheckLarger(u16, FieldSlice),
    /// Make a rule of the packet, with these parts.
    Learn(String),
    /// Be a clause of a conjunctive match: its id, which of its dimensions, and how many there
    /// are. Stands only with others of its kind.
    Conjunction(u32, u8, u8),
    /// Apply actions to a copy.
    Clone(Vec<Action>),
    /// End all processing.
    Exit,
    /// Empty the action set.
    ClearActions,
    /// Add to the action set.
    WriteActions(Vec<Action>),
    /// Continue in a later table; always last.
    Goto(u8),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Output(port) => write!(f, "output:{port}"),
            Action::OutputRegister(number) => write!(f, "output:reg{number}"),
            Action::OutputReserved(port) => f.write_str(match port {
                ReservedPort::InPort => "in_port",
                ReservedPort::All => "all",
                ReservedPort::Flood => "flood",
                ReservedPort::Normal => "normal",
            }),
            Action::Controller(max_len_bytes) => write!(f, "controller:{max_len_bytes}"),
            Action::OutputCut(port, bytes) => write!(f, "output(port={port},max_len={bytes})"),
            Action::Enqueue(port, queue) => write!(f, "enqueue:{port}:{queue}"),
            Action::SetQueue(queue) => write!(f, "set_queue:{queue}"),
            Action::ActiveBackup(ports) => {
                f.write_str("bundle(eth_src,0,active_backup,ofport,members:")?;
                write_ports(f, ports)
            }
            Action::HashedPort(fields, ports) => {
                write!(f, "bundle({fields},0,hrw,ofport,members:")?;
                write_ports(f, ports)
            }
            Action::Multipath(fields, links, bits) => {
                write!(f, "multipath({fields},0,modulo_n,{links},0,{bits})")
            }
            Action::DebugRecirculation => f.write_str("debug_recirc"),
            Action::DebugSlow => f.write_str("debug_slow"),
            Action::PopQueue => f.write_str("pop_queue"),
            Action::Move(source, destination) => write!(f, "move:{source}->{destination}"),
            Action::Push(source) => write!(f, "push:{source}"),
            Action::Pop(destination) => write!(f, "pop:{destination}"),
            Action::PushVlan(eth_type) => write!(f, "push_vlan:{eth_type:#06x}"),
            Action::PopVlan => f.write_str("pop_vlan"),
            Action::SetVlanId(id) => write!(f, "mod_vlan_vid:{id}"),
            Action::SetVlanPriority(priority) => write!(f, "mod_vlan_pcp:{priority}"),
            Action::PushMpls(eth_type) => write!(f, "push_mpls:{eth_type:#06x}"),
            Action::PopMpls(eth_type) => write!(f, "pop_mpls:{eth_type:#06x}"),
            Action::DecTtl => f.write_str("dec_ttl"),
            Action::DecMplsTtl => f.write_str("dec_mpls_ttl"),
            Action::WriteMetadata(value, mask) => write!(f, "write_metadata:{value:#x}/{mask:#x}"),
            Action::Group(number) => write!(f, "group:{number}"),
            Action::Resubmit(table) => write!(f, "resubmit(,{table})"),
            Action::ResubmitFrom(port, table) => write!(f, "resubmit({port},{table})"),
            Action::ResubmitTuple(table) => write!(f, "resubmit(,{table},ct)"),
            Action::Track(asked) => write!(f, "{asked}"),
            Action::Untrack => f.write_str("ct_clear"),
            Action::CheckLarger(bytes, bit) => write!(f, "check_pkt_larger({bytes})->{bit}"),
            Action::Learn(parts) => write!(f, "learn({parts})"),
            Action::Conjunction(id, clause, clauses) => {
                write!(f, "conjunction({id},{clause}/{clauses})")
            }
            Action::Exit => f.write_str("exit"),
            Action::ClearActions => f.write_str("clear_actions"),
            Action::Clone(list) => write_nested(f, "clone", list),
            Action::WriteActions(list) => write_nested(f, "write_actions", list),
            Action::Goto(table) => write!(f, "goto_table:{table}"),
            _ => self.write_assignment(f),
        }
    }
}

impl Action {
    /// Writes the actions that set a field to a constant.
    fn write_assignment(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Action::SetField(field, value) => {
                f.write_str("set_field:")?;
                field.write_value(f, value)?;
                write!(f, "->{}", field.action_name())
            }
            Action::SetMasked(field, value, mask) => {
                f.write_str("set_field:")?;
                field.write_value(f, value & mask)?;
                f.write_char('/')?;
                field.write_value(f, mask)?;
                write!(f, "->{}", field.action_name())
            }
            Action::Modify(field, value) => {
                write!(f, "{}:", field.modify_name())?;
                let shift = if field == Field::IpDscp { 2 } else { 0 };
                field.write_value(f, value << shift)
            }
            Action::Load(value, destination) => write!(f, "load:{value:#x}->{destination}"),
            _ => Ok(()),
        }
    }
}

/// Writes ports separated by commas, and a parenthesis.
fn write_ports(f: &mut fmt::Formatter<'_>, ports: &[u32]) -> fmt::Result {
    for (index, port) in ports.iter().enumerate() {
        let separator = if index > 0 { "," } else { "" };
        write!(f, "{separator}{port}")?;
    }
    f.write_char(')')
}

fn write_nested(f: &mut fmt::Formatter<'_>, name: &str, list: &[Action]) -> fmt::Result {
    write!(f, "{name}(")?;
    write_list(f, list)?;
    f.write_char(')')
}

/// Writes actions separated by commas.
pub(crate) fn write_list(f: &mut impl fmt::Write, list: &[Action]) -> fmt::Result {
    for (index, action) in list.iter().enumerate() {
        if index > 0 {
            f.write_char(',')?;
        }
        write!(f, "{action}")?;
    }
    Ok(())
}
