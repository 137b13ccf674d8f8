//! Prints attributes of datapath flows like `odp_flow_format` of Open vSwitch.
//!
//! Bits without an attribute in Open vSwitch, or without one for packets of this shape, come
//! last under their catalogue names (`present:tcp(0)`), so that nothing is left out.

use std::fmt::Write as _;

use thalweg_packet::FieldId;
use thalweg_packet::standard as f;

use super::{ethernet, hexadecimal, ipv4, ipv6, tcp_flags};
use crate::matching::{Match, Term};
use crate::text::fields;
use crate::text::shape::{
    ETHER_TYPE_IPV4, Needs, PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_SCTP, PROTOCOL_TCP,
    PROTOCOL_UDP, Shape,
};
use crate::text::value::ones;

/// A member of an attribute: its name, its field, its spelling.
pub(in crate::text) type Member = (&'static str, FieldId, Spelling);

/// How a member of an attribute is spelt.
#[derive(Clone, Copy)]
pub(in crate::text) enum Spelling {
    Decimal,
    Hexadecimal,
    Ethernet,
    Ipv4,
    Ipv6,
}

use Spelling::{Decimal, Ethernet, Hexadecimal, Ipv4, Ipv6};

const TUNNEL: [Member; 3] = [
    ("tun_id", f::TUN_ID, Hexadecimal),
    ("src", f::TUN_SRC, Ipv4),
    ("dst", f::TUN_DST, Ipv4),
];
const ADDRESSES: [Member; 2] = [("src", f::ETH_SRC, Ethernet), ("dst", f::ETH_DST, Ethernet)];
const INTERNET: [Member; 3] = [
    ("src", f::IP_SRC, Ipv4),
    ("dst", f::IP_DST, Ipv4),
    ("proto", f::IP_PROTO, Decimal),
];
const INTERNET_6: [Member; 4] = [
    ("src", f::IPV6_SRC, Ipv6),
    ("dst", f::IPV6_DST, Ipv6),
    ("label", f::IPV6_LABEL, Hexadecimal),
    ("proto", f::IP_PROTO, Decimal),
];
const RESOLUTION: [Member; 5] = [
    ("sip", f::ARP_SPA, Ipv4),
    ("tip", f::ARP_TPA, Ipv4),
    ("op", f::ARP_OP, Decimal),
    ("sha", f::ARP_SHA, Ethernet),
    ("tha", f::ARP_THA, Ethernet),
];
const LABEL: [Member; 4] = [
    ("label", f::MPLS_LABEL, Decimal),
    ("tc", f::MPLS_TC, Decimal),
    ("ttl", f::MPLS_TTL, Decimal),
    ("bos", f::MPLS_BOS, Decimal),
];
const PORTS: [Member; 2] = [("src", f::TP_SRC, Decimal), ("dst", f::TP_DST, Decimal)];
const KINDS: [Member; 2] = [
    ("type", f::ICMP_TYPE, Decimal),
    ("code", f::ICMP_CODE, Decimal),
];
const DISCOVERY: [Member; 3] = [
    ("target", f::ND_TARGET, Ipv6),
    ("sll", f::ND_SLL, Ethernet),
    ("tll", f::ND_TLL, Ethernet),
];

/// The members of the attribute with this name, if it exists.
pub(in crate::text) fn members_of(attribute: &str) -> Option<&'static [Member]> {
    Some(match attribute {
        "tunnel" => &TUNNEL,
        "eth" => &ADDRESSES,
        "ipv4" => &INTERNET,
        "ipv6" => &INTERNET_6,
        "arp" => &RESOLUTION,
        "mpls" => &LABEL,
        "tcp" | "udp" | "sctp" => &PORTS,
        "icmp" | "icmpv6" => &KINDS,
        "nd" => &DISCOVERY,
        _ => return None,
    })
}

/// Bits of fields, and the shape of their packets.
pub(super) struct Attributes<'a> {
    bits: &'a Match,
    shape: Shape,
}

impl<'a> Attributes<'a> {
    pub(super) fn of(bits: &'a Match, shape: Shape) -> Attributes<'a> {
        Attributes { bits, shape }
    }

    /// The whole flow: all attributes, with those behind a tag nested in it.
    pub(super) fn flow(&self) -> String {
        let mut text = String::from("recirc_id(");
        let recirculation = self.bits.term(f::RECIRC_ID).map_or(0, |term| term.value);
        // Writing to a string does not fail, here and below.
        let _ = hexadecimal(&mut text, recirculation);
        text.push(')');
        self.attribute(&mut text, "tunnel", &TUNNEL, "");
        if let Some(term) = self.bits.term(f::IN_PORT) {
            let _ = write!(text, ",in_port({}{})", term.value, mask_of(term.mask, 32));
        }
        self.attribute(&mut text, "eth", &ADDRESSES, "");
        let mut tags = 0;
        for field in [f::VLAN_TCI, f::VLAN_TCI_INNER] {
            if let Some(term) = self.bits.term(field)
                && term.value & u128::from(f::VLAN_PRESENT) != 0
            {
                text.push_str(",eth_type(0x8100)");
                self.tag(&mut text, field);
                text.push_str(",encap(");
                tags += 1;
            }
        }
        if let Some(term) = self.bits.term(f::ETH_TYPE) {
            let separator = if text.ends_with('(') { "" } else { "," };
            let _ = write!(text, "{separator}eth_type({:#06x}", term.value);
            if term.mask != 0xffff {
                let _ = write!(text, "/{:#06x}", term.mask);
            }
            text.push(')');
        }
        self.network(&mut text);
        self.transport(&mut text);
        text.push_str(&")".repeat(tags));
        let is_tagless = |term: &Term| {
            let present = u128::from(f::VLAN_PRESENT);
            let is_tag = matches!(term.field, f::VLAN_TCI | f::VLAN_TCI_INNER);
            is_tag && term.mask & present != 0
        };
        // The EtherType shows the absence of a tag.
        self.others(&mut text, is_tagless);
        text
    }

    /// Each attribute separately, in the order of the headers.
    pub(super) fn each(&self) -> Vec<String> {
        let is_tag = |term: &Term| term.field == f::VLAN_TCI;
        let writers: [&dyn Fn(&mut String); 6] = [
            &|text| self.attribute(text, "tunnel", &TUNNEL, ""),
            &|text| self.attribute(text, "eth", &ADDRESSES, ""),
            &|text| self.tag(text, f::VLAN_TCI),
            &|text| self.network(text),
            &|text| self.transport(text),
            &|text| self.others(text, is_tag),
        ];
        let texts = writers.iter().map(|write| {
            let mut text = String::new();
            write(&mut text);
            text.trim_start_matches(',').to_string()
        });
        texts.filter(|text| !text.is_empty()).collect()
    }

    /// Writes the bits that no attribute shows, except those for which `is_shown` holds.
    fn others(&self, text: &mut String, is_shown: impl Fn(&Term) -> bool) {
        let catalogue = f::fields();
        for term in self.bits.terms() {
            if is_shown(term) || self.has_attribute(term.field) {
                continue;
            }
            let field = catalogue.get(term.field.index());
            let (name, width) =
                field.map_or(("field", 128), |field| (&*field.name, field.width_bits));
            let name = match term.field {
                f::PKT_MARK => "skb_mark",
                _ => name,
            };
            let _ = write!(text, ",{name}(");
            let _ = hexadecimal(text, term.value);
            let _ = write!(text, "{})", mask_of(term.mask, width));
        }
    }

    /// Whether an attribute for packets of this shape has the field.
    fn has_attribute(&self, field: FieldId) -> bool {
        let has = |members: &[Member]| members.iter().any(|member| member.1 == field);
        let service = [f::IP_DSCP, f::IP_ECN, f::IP_TTL, f::IP_FRAG];
        let shape = &self.shape;
        let is_plain = matches!(
            field,
            f::RECIRC_ID | f::IN_PORT | f::ETH_TYPE | f::TCP_FLAGS
        );
        let in_network = match shape.ether_type {
            ETHER_TYPE_IPV4 => has(&INTERNET) || service.contains(&field),
            _ if shape.is_ipv6() => has(&INTERNET_6) || service.contains(&field),
            _ if shape.is_arp() => has(&RESOLUTION),
            _ => shape.has(Needs::Mpls) && has(&LABEL),
        };
        let in_transport = match shape.protocol {
            PROTOCOL_TCP | PROTOCOL_UDP | PROTOCOL_SCTP => has(&PORTS),
            PROTOCOL_ICMP | PROTOCOL_ICMPV6 => has(&KINDS),
            _ => false,
        };
        let in_any_packet = has(&TUNNEL) || has(&ADDRESSES) || has(&DISCOVERY);
        is_plain || in_any_packet || in_network || in_transport
    }

    fn tag(&self, text: &mut String, field: FieldId) {
        let Some(term) = self.bits.term(field) else {
            return;
        };
        let mut members = Vec::new();
        for (name, shift, width) in [("vid", 0, 12), ("pcp", 13, 3)] {
            let bits = |bits: u128| bits >> shift & ones(width);
            let mask = bits(term.mask);
            if mask != 0 {
                members.push(format!(
                    "{name}={}{}",
                    bits(term.value),
                    mask_of(mask, width)
                ));
            }
        }
        let _ = write!(text, ",vlan({})", members.join(","));
    }

    fn network(&self, text: &mut String) {
        let is_ipv4 = self.shape.ether_type == ETHER_TYPE_IPV4;
        if is_ipv4 {
            let service = self.service("tos", "ttl");
            self.attribute(text, "ipv4", &INTERNET, &service);
        } else if self.shape.is_ipv6() {
            let service = self.service("tclass", "hlimit");
            self.attribute(text, "ipv6", &INTERNET_6, &service);
        } else if self.shape.is_arp() {
            self.attribute(text, "arp", &RESOLUTION, "");
        } else if self.shape.has(Needs::Mpls) {
            self.attribute(text, "mpls", &LABEL, "");
        }
    }

    /// Type of service, time to live and kind of fragment, under their IPv4 or IPv6 names.
    fn service(&self, service: &str, ttl: &str) -> String {
        let mut text = String::new();
        let bits = |field| {
            let term = self.bits.term(field);
            term.map_or((0, 0), |term| (term.value, term.mask))
        };
        let ((dscp, dscp_mask), (ecn, ecn_mask)) = (bits(f::IP_DSCP), bits(f::IP_ECN));
        let (value, mask) = (dscp << 2 | ecn, dscp_mask << 2 | ecn_mask);
        if mask != 0 {
            let _ = write!(text, "{service}=");
            let _ = hexadecimal(&mut text, value);
            let _ = write!(text, "{},", mask_of(mask, 8));
        }
        if let Some(term) = self.bits.term(f::IP_TTL) {
            let _ = write!(text, "{ttl}={}{},", term.value, mask_of(term.mask, 8));
        }
        if let Some(term) = self.bits.term(f::IP_FRAG) {
            let word = match (term.value, term.mask) {
                (0, _) => "no",
                (1, 1) => "yes",
                (1, _) => "first",
                _ => "later",
            };
            let _ = write!(text, "frag={word},");
        }
        text
    }

    fn transport(&self, text: &mut String) {
        match self.shape.protocol {
            PROTOCOL_TCP => self.attribute(text, "tcp", &PORTS, ""),
            PROTOCOL_UDP => self.attribute(text, "udp", &PORTS, ""),
            PROTOCOL_SCTP => self.attribute(text, "sctp", &PORTS, ""),
            PROTOCOL_ICMP => self.attribute(text, "icmp", &KINDS, ""),
            PROTOCOL_ICMPV6 => self.attribute(text, "icmpv6", &KINDS, ""),
            _ => {}
        }
        if let Some(term) = self.bits.term(f::TCP_FLAGS) {
            text.push_str(",tcp_flags(");
            let _ = tcp_flags(text, term.value, term.mask);
            text.push(')');
        }
        self.attribute(text, "nd", &DISCOVERY, "");
    }

    /// Writes an attribute if any of its members has bits.
    fn attribute(&self, text: &mut String, name: &str, members: &[Member], rest: &str) {
        let mut inside = String::new();
        for &(member, field, spelling) in members {
            if let Some(term) = self.bits.term(field) {
                let _ = write!(inside, "{member}=");
                write_member(&mut inside, term, spelling);
                inside.push(',');
            }
        }
        inside.push_str(rest);
        let inside = inside.trim_end_matches(',');
        if !inside.is_empty() {
            let _ = write!(text, ",{name}({inside})");
        }
    }
}

/// The mask after a value; empty if the mask is whole.
fn mask_of(mask: u128, width: u16) -> String {
    match mask == ones(width) {
        true => String::new(),
        false => format!("/{mask:#x}"),
    }
}

fn write_member(out: &mut String, term: Term, spelling: Spelling) {
    let Term { field, value, mask } = term;
    let width = fields::name_of(field).map_or(128, |name| name.width_bits);
    let is_whole = mask == ones(width);
    let _ = match spelling {
        Decimal => write!(out, "{value}"),
        Hexadecimal => hexadecimal(out, value),
        Ethernet => ethernet(out, value),
        Ipv4 => ipv4(out, value, ones(32)),
        Ipv6 => ipv6(out, value, u128::MAX),
    };
    if is_whole {
        return;
    }
    out.push('/');
    let _ = match spelling {
        Decimal | Hexadecimal => write!(out, "{mask:#x}"),
        Ethernet => ethernet(out, mask),
        Ipv4 => ipv4(out, mask, ones(32)),
        Ipv6 => ipv6(out, mask, u128::MAX),
    };
}
