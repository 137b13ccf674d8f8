//! Matches: turns pairs of name and value into conditions on fields.
//!
//! A name's meaning can depend on the rest of the rule: `nw_src` is `arp_spa` in a rule for
//! ARP, and a port needs a protocol. So conditions are collected first, in the order of the
//! text, and turned into a [`Match`] when the whole match has been read:
//!
//! ```text
//!   collect: tcp | dl_type, nw_proto, ...  -> shape, conditions
//!   finish:  for each condition: is its prerequisite in the shape? then its pieces -> terms
//! ```
//!
//! OpenFlow 1.0 had one set of names for all packets, and its switches printed all of them. So
//! `nw_tos`, `tp_src` and `tp_dst` are ignored in a rule for packets other than IP, and the
//! two ports of a rule for ICMP are type and code. Open vSwitch reads them the same way.

use thalweg_packet::FieldId;
use thalweg_packet::standard as f;

use super::error::Parsed;
use super::fields::{self, Format, Name, Piece};
use super::line::{Line, Pair, excerpt};
use super::shape::{
    ETHER_TYPE_ARP, ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, ETHER_TYPE_MPLS, ETHER_TYPE_MPLS_MULTICAST,
    ETHER_TYPE_RARP, Needs, PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_SCTP, PROTOCOL_TCP,
    PROTOCOL_UDP, Shape,
};
use super::value::{Masked, ones};
use crate::matching::Match;

/// Words for an EtherType, and perhaps a protocol.
const SHORTHANDS: [(&str, u16, u8); 17] = [
    ("ip", ETHER_TYPE_IPV4, 0),
    ("tcp", ETHER_TYPE_IPV4, PROTOCOL_TCP),
    ("udp", ETHER_TYPE_IPV4, PROTOCOL_UDP),
    ("icmp", ETHER_TYPE_IPV4, PROTOCOL_ICMP),
    ("arp", ETHER_TYPE_ARP, 0),
    ("ipv6", ETHER_TYPE_IPV6, 0),
    ("icmp6", ETHER_TYPE_IPV6, PROTOCOL_ICMPV6),
    ("tcp6", ETHER_TYPE_IPV6, PROTOCOL_TCP),
    ("udp6", ETHER_TYPE_IPV6, PROTOCOL_UDP),
    ("sctp", ETHER_TYPE_IPV4, PROTOCOL_SCTP),
    ("sctp6", ETHER_TYPE_IPV6, PROTOCOL_SCTP),
    ("ip4", ETHER_TYPE_IPV4, 0),
    ("ipv4", ETHER_TYPE_IPV4, 0),
    ("ip6", ETHER_TYPE_IPV6, 0),
    ("rarp", ETHER_TYPE_RARP, 0),
    ("mpls", ETHER_TYPE_MPLS, 0),
    ("mplsm", ETHER_TYPE_MPLS_MULTICAST, 0),
];

/// The EtherType and the protocol of a shorthand word.
pub(super) fn shorthand(word: &str) -> Option<(u16, u8)> {
    let found = SHORTHANDS.iter().find(|entry| entry.0 == word)?;
    Some((found.1, found.2))
}

/// A condition as it was written.
struct Condition<'a> {
    name: &'static Name,
    /// The name as written, for error messages.
    key: &'a str,
    bits: Masked,
    /// Written with brackets: plain bits of the name, without its special rules.
    is_subfield: bool,
}

/// A rule's match, partly read.
pub(super) struct Conditions<'a> {
    line: &'a Line<'a>,
    matching: Match,
    shape: Shape,
    conditions: Vec<Condition<'a>>,
}

impl<'a> Conditions<'a> {
    pub(super) fn new(line: &'a Line<'a>) -> Conditions<'a> {
        Conditions {
            line,
            matching: Match::roomy(),
            shape: Shape::default(),
            conditions: Vec::with_capacity(8),
        }
    }

    /// Takes the pair if it is a condition.
    pub(super) fn take(&mut self, pair: Pair<'a>) -> Parsed<bool> {
        if pair.value.is_empty()
            && let Some((ether_type, protocol)) = shorthand(pair.key)
        {
            self.add(f::ETH_TYPE, pair.key, ether_type.into(), 0xffff)?;
            if protocol != 0 {
                self.add(f::IP_PROTO, pair.key, protocol.into(), 0xff)?;
            }
            return Ok(true);
        }
        // Megaflows say `eth` for a packet that begins with Ethernet, as all do here.
        if pair.key == "eth" && pair.value.is_empty() {
            return Ok(true);
        }
        let (word, brackets) = match pair.key.find('[') {
            Some(start) => pair.key.split_at(start),
            None => (pair.key, ""),
        };
        let Some(name) = fields::find(word) else {
            if fields::is_missing(word) {
                return Err(self.line.unsupported(pair.key, excerpt(word)));
            }
            return Ok(false);
        };
        // An option without a value: any that is present.
        if pair.value.is_empty() && f::tunnel_option_of(name.pieces[0].field).is_some() {
            self.conditions.push(Condition {
                name,
                key: pair.key,
                bits: Masked { value: 0, mask: 0 },
                is_subfield: true,
            });
            return Ok(true);
        }
        if pair.value.is_empty() {
            return Err(self.line.syntax(
                pair.key,
                format!(
                    "`{}` has no value; write {}=VALUE",
                    name.primary(),
                    name.primary()
                ),
            ));
        }
        let mut condition = Condition {
            name,
            key: pair.key,
            bits: Masked { value: 0, mask: 0 },
            is_subfield: match name.format {
                // With brackets these are plain bits: no words, no bit 12.
                Format::Fragment | Format::VlanVid => !brackets.is_empty(),
                _ => !matches!(brackets, "" | "[]"),
            },
        };
        // A port is matched as a whole, even if only some of its bits are named.
        if name.format == Format::Port && condition.is_subfield {
            self.part_of(name, brackets, "0")?;
            condition.is_subfield = false;
        }
        condition.bits = match condition.is_subfield {
            true => self.part_of(name, brackets, pair.value)?,
            false => self.line.masked_value(name, pair.value)?,
        };
        self.learn(&condition)?;
        self.conditions.push(condition);
        Ok(true)
    }

    /// Reads the bits of `NAME[a..b]=value`.
    fn part_of(&self, name: &'static Name, brackets: &'a str, value: &'a str) -> Parsed<Masked> {
        let (offset, width) = self.line.bit_range(name, brackets)?;
        let is_whole = offset == 0 && width == name.width_bits;
        if !name.is_maskable && !is_whole {
            let expected = format!("all of `{}`, which is matched whole", name.primary());
            return Err(self.line.value(brackets, expected));
        }
        let value = self.line.number(value, width)? << offset;
        let mask = ones(width) << offset;
        Ok(Masked { value, mask })
    }

    /// Records what a condition implies about the packet's headers.
    fn learn(&mut self, condition: &Condition<'a>) -> Parsed<()> {
        let Masked { value, mask } = condition.bits;
        match condition.name.pieces[0].field {
            f::VLAN_TCI => {
                let (value, mask) = vlan_bits(condition);
                self.add(f::VLAN_TCI, condition.key, value, mask)?;
            }
            field @ (f::ETH_TYPE | f::PACKET_TYPE | f::ICMP_TYPE | f::ICMP_CODE | f::IP_FRAG) => {
                self.shape.learn(field, value & mask);
            }
            f::IP_PROTO if mask != 0 => self.shape.learn(f::IP_PROTO, value),
            _ => {}
        }
        Ok(())
    }

    /// Adds a condition on a field.
    fn add(&mut self, field: FieldId, key: &'a str, value: u128, mask: u128) -> Parsed<()> {
        self.matching
            .add(field, value, mask)
            .map_err(|_| self.line.contradiction(key))?;
        // VLAN conditions can together imply a tag, so the shape learns their union.
        let value = self.matching.term(field).map_or(0, |term| term.value);
        self.shape.learn(field, value);
        Ok(())
    }

    /// Returns the match, and what it implies about the packet's headers.
    pub(super) fn finish(mut self) -> Parsed<(Match, Shape)> {
        let shape = self.shape;
        for condition in std::mem::take(&mut self.conditions) {
            let (mut name, bits) = in_arp(&condition, &shape);
            if is_of_no_meaning(name, &shape) {
                continue;
            }
            if let Some(part) = in_icmp(name, bits, &shape) {
                if bits.value > ones(part.width_bits) {
                    let expected = format!("a number of at most {} bits", part.width_bits);
                    return Err(self.line.value(condition.key, expected));
                }
                name = part;
            }
            if !shape.has(name.needs) {
                return Err(self.line.prerequisite(condition.key, name.needs.advice()));
            }
            let is_default = name.format == Format::PacketType && bits.value == 0;
            if name.pieces[0].field == f::VLAN_TCI || is_default {
                continue;
            }
            if name.format == Format::Port {
                self.add(f::IN_PORT, condition.key, bits.value, bits.mask)?;
                continue;
            }
            for &piece in name.pieces {
                let (value, mask) = piece_bits(piece, bits);
                self.add(piece.field, condition.key, value, mask)?;
            }
        }
        let shape = Shape::of(&self.matching);
        // There may be hundreds of thousands of matches.
        self.matching.compact();
        Ok((self.matching, shape))
    }
}

/// The bits of a name that belong to a piece, shifted into place in the piece's field.
pub(super) fn piece_bits(piece: Piece, bits: Masked) -> (u128, u128) {
    let take =
        |bits: u128| (bits >> piece.name_offset & ones(piece.width_bits)) << piece.field_offset;
    (take(bits.value & bits.mask), take(bits.mask))
}

/// The name and bits that a condition means in a rule for ARP.
fn in_arp(condition: &Condition<'_>, shape: &Shape) -> (&'static Name, Masked) {
    let (name, bits) = (condition.name, condition.bits);
    let (field, mask) = match name.pieces[0].field {
        f::IP_SRC => (f::ARP_SPA, bits.mask),
        f::IP_DST => (f::ARP_TPA, bits.mask),
        // The ARP operation is the wider field, and Open vSwitch compares it whole too.
        f::IP_PROTO if bits.mask != 0 => (f::ARP_OP, ones(16)),
        f::IP_PROTO => (f::ARP_OP, 0),
        _ => return (name, bits),
    };
    match fields::name_of(field).filter(|_| shape.is_arp()) {
        Some(name) => (name, Masked { mask, ..bits }),
        None => (name, bits),
    }
}

/// Whether an OpenFlow 1.0 name is used in a rule for packets that cannot have the field.
fn is_of_no_meaning(name: &Name, shape: &Shape) -> bool {
    let is_other = shape.ether_type != 0 && !shape.has(Needs::Ip);
    is_other && matches!(name.primary(), "nw_tos" | "tp_src" | "tp_dst")
}

/// The ICMP field (type or code) that a port's name means in a rule for ICMP.
fn in_icmp(name: &Name, bits: Masked, shape: &Shape) -> Option<&'static Name> {
    let field = match name.primary() {
        "tp_src" => f::ICMP_TYPE,
        "tp_dst" => f::ICMP_CODE,
        _ => return None,
    };
    // Type and code are matched only whole.
    let is_whole = bits.mask & 0xff == 0xff;
    fields::name_of(field).filter(|_| is_whole && shape.has(Needs::Icmp))
}

/// The bits of the tag that a VLAN name means.
fn vlan_bits(condition: &Condition<'_>) -> (u128, u128) {
    let Masked { value, mask } = condition.bits;
    let present = u128::from(f::VLAN_PRESENT);
    match condition.name.format {
        _ if condition.is_subfield => piece_bits(condition.name.pieces[0], condition.bits),
        Format::VlanVid => (value & mask & 0x1fff, mask & 0x1fff),
        Format::DlVlan | Format::DlVlanPcp | Format::VlanPcp if mask == 0 => (0, 0),
        Format::DlVlan if value == 0xffff => (0, 0xffff),
        Format::DlVlan => (value | present, 0x0fff | present),
        Format::DlVlanPcp | Format::VlanPcp => (value << 13 | present, 0xe000 | present),
        _ => (value & mask, mask),
    }
}

impl Line<'_> {
    /// Reads a name's value, with or without a mask, in the name's own notation.
    pub(super) fn masked_value(&self, name: &'static Name, text: &str) -> Parsed<Masked> {
        if text == "*" {
            return Ok(Masked { value: 0, mask: 0 });
        }
        let width = name.width_bits;
        let bits = match name.format {
            Format::Ethernet => self.masked_ethernet(text)?,
            Format::Ipv4 => self.masked_ipv4(text)?,
            Format::Ipv6 => self.masked_ipv6(text)?,
            Format::Fragment => self.fragment(text)?,
            Format::TcpFlags => self.tcp_flags(text)?,
            Format::CtState => self.ct_state(text)?,
            Format::TunFlags => self.tun_flags(text)?,
            Format::Port => Masked {
                value: self.ingress_port(text)?.0.into(),
                mask: ones(32),
            },
            Format::SetOutput => Masked {
                value: self.set_output(text)?.into(),
                mask: ones(32),
            },
            Format::DlVlan if super::value::number(text) == Some(0xffff) => Masked {
                value: 0xffff,
                mask: ones(width),
            },
            Format::VlanVid => self.vlan_vid(text)?,
            Format::PacketType => match self.packet_type(text)? {
                kind @ (0 | 0x1_0000..=0x1_ffff) => Masked {
                    value: kind.into(),
                    mask: ones(32),
                },
                _ => return Err(self.value(text, "a packet's type: (0,0) or (1,ETHERTYPE)")),
            },
            Format::Decimal | Format::Hexadecimal | Format::DlVlan => {
                self.masked_number(text, width)?
            }
            Format::DlVlanPcp | Format::VlanPcp => self.masked_number(text, width)?,
        };
        let is_masked = bits.mask != ones(width) && name.format != Format::Port;
        if is_masked && !name.is_maskable && name.format != Format::VlanVid {
            let expected = format!("a value for `{}`, which takes no mask", name.primary());
            return Err(self.value(text, expected));
        }
        let is_tos = name.pieces[0].name_offset == 2;
        if is_tos && bits.value & 3 != 0 {
            return Err(self.value(text, "a type of service whose two lowest bits are 0"));
        }
        Ok(bits)
    }

    /// Reads a packet's type: a namespace and a number in it.
    pub(super) fn packet_type(&self, text: &str) -> Parsed<u32> {
        let inside = text
            .strip_prefix('(')
            .and_then(|rest| rest.strip_suffix(')'));
        let Some((namespace, kind)) = inside.and_then(|inside| inside.split_once(',')) else {
            return Err(self.value(text, "a packet's type: (NAMESPACE,TYPE)"));
        };
        let (namespace, kind) = (
            self.integer::<u16>(namespace.trim())?,
            self.integer::<u16>(kind.trim())?,
        );
        Ok(u32::from(namespace) << 16 | u32::from(kind))
    }

    /// Reads an id with bit 12, which says that there is a tag.
    fn vlan_vid(&self, text: &str) -> Parsed<Masked> {
        match text.contains('/') {
            // A mask may have bits outside the id and bit 12, as in `vlan_vid=0/0xffff`.
            true => {
                let bits = self.masked_number(text, 16)?;
                Ok(Masked {
                    value: bits.value & 0x1fff,
                    mask: bits.mask & 0x1fff,
                })
            }
            false => Ok(Masked {
                value: self.number(text, 13)?,
                mask: 0x1fff,
            }),
        }
    }

    /// Reads the lowest bit and the width of `[]`, `[bit]` or `[first..last]`.
    pub(super) fn bit_range(&self, name: &Name, brackets: &str) -> Parsed<(u16, u16)> {
        if brackets.is_empty() || brackets == "[]" {
            return Ok((0, name.width_bits));
        }
        let inside = brackets
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .ok_or_else(|| self.syntax(brackets, "write [], [BIT] or [FIRST..LAST]"))?;
        let (first, last) = inside.split_once("..").unwrap_or((inside, inside));
        let bit = |part: &str| {
            let number = part.trim().parse::<u16>().ok();
            let expected = || format!("a bit of `{}` (0 to {})", name.code(), name.width_bits - 1);
            number
                .filter(|&bit| bit < name.width_bits)
                .ok_or_else(|| self.value(part, expected()))
        };
        let (first_bit, last_bit) = (bit(first)?, bit(last)?);
        if first_bit > last_bit {
            return Err(self.value(inside, "a range whose first bit is the lower one"));
        }
        Ok((first_bit, last_bit - first_bit + 1))
    }
}
