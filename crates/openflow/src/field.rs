//! The fields that matches and actions name, by their OXM and NXM numbers.
//!
//! One list serves all versions. A field can have several numbers: Nicira's (NXM), which are
//! legal in every version, and standard ones (OXM), each from a version on. The newest number
//! that a version has is the one that is written ([`FieldId::header`]); any is read.

mod header;
mod table;
mod value;

pub use header::{Class, Header};
pub use value::Value;

use std::fmt;

use crate::version::Version;
use table::ROWS;

/// What must be known of a packet before it has a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// An Ethernet header (`packet_type=(0,0)`, the default).
    Ethernet,
    /// A VLAN tag.
    Vlan,
    /// An MPLS EtherType.
    Mpls,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// IPv4 or IPv6.
    Ip,
    /// ARP or RARP.
    Arp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// ICMP.
    Icmpv4,
    /// ICMPv6.
    Icmpv6,
    /// Neighbour discovery.
    Nd,
    /// A neighbour solicitation.
    NdSolicit,
    /// A neighbour advertisement.
    NdAdvert,
    /// The network service header.
    Nsh,
    /// A tracked connection: `ct_state` names the original direction, and the EtherType agrees.
    Ct,
}

/// One number of a field: class, number, first version.
type Number = (Class, u8, Version);

struct Row {
    name: &'static str,
    width_bits: u16,
    bytes: u8,
    is_maskable: bool,
    is_writable: bool,
    needs: Needs,
    numbers: &'static [Number],
}

/// A field of the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(u16);

impl FieldId {
    fn row(self) -> &'static Row {
        &ROWS[usize::from(self.0)]
    }

    /// Its name, as `ovs-ofctl` prints it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// How many bits count; the field's bytes may have more, which are zero.
    pub fn width_bits(self) -> u16 {
        self.row().width_bits
    }

    /// Its size on the wire.
    pub fn bytes(self) -> usize {
        self.row().bytes.into()
    }

    /// Whether a match may name some of its bits only.
    pub fn is_maskable(self) -> bool {
        self.row().is_maskable
    }

    /// Whether actions may write it.
    pub fn is_writable(self) -> bool {
        self.row().is_writable
    }

    /// What a match on it requires of the rest of the match.
    pub fn needs(self) -> Needs {
        self.row().needs
    }

    /// Whether its size on the wire varies (`tun_metadata0` to `tun_metadata63`).
    pub fn is_variable(self) -> bool {
        FieldId::TUN_METADATA0 <= self && self <= FieldId::TUN_METADATA63
    }

    /// Whether a value of `length` bytes can be its value.
    pub fn fits(self, length: u8) -> bool {
        match self.is_variable() {
            true => usize::from(length) <= self.bytes(),
            false => usize::from(length) == self.bytes(),
        }
    }

    /// How many places of the list it stands behind `first`; `None` if in front of it.
    pub(crate) fn distance(self, first: FieldId) -> Option<u16> {
        self.0.checked_sub(first.0)
    }

    /// The field `places` behind this one; registers and options of tunnels stand in a row.
    pub fn after(self, places: u16) -> FieldId {
        FieldId(self.0 + places)
    }

    /// The number that stands for it in `version`; with `None` for Nicira's matches and
    /// actions, which prefer NXM numbers.
    pub fn header(self, version: Option<Version>) -> Header {
        let numbers = self.row().numbers;
        // Nicira's experimenter numbers are written where a field has no other.
        let is_spare =
            |number: &Number| number.0 == Class::Experimenter(crate::NICIRA) && numbers.len() > 1;
        let fits = |number: &&Number| {
            version.is_some_and(|version| number.2 <= version) && !is_spare(number)
        };
        let number = numbers.iter().rev().find(fits).unwrap_or(&numbers[0]);
        Header {
            class: number.0,
            number: number.1,
            has_mask: false,
            length: self.row().bytes,
        }
    }

    /// The field that a header names.
    pub fn of(header: Header) -> Option<FieldId> {
        table::find(header.class, header.number)
    }

    /// All fields, each after those that it needs.
    pub fn all() -> impl Iterator<Item = FieldId> {
        (0..ROWS.len() as u16).map(FieldId)
    }

    /// The field with this name.
    pub fn named(name: &str) -> Option<FieldId> {
        FieldId::all().find(|field| field.name() == name)
    }
}

impl fmt::Debug for FieldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for FieldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
