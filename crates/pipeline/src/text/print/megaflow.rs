//! Cache entries, in the two spellings that Open vSwitch has for them.

use std::fmt::Write as _;

use thalweg_packet::standard as f;
use thalweg_packet::{FieldId, Layout, Source};

use super::{ethernet, ipv4, matches, tcp_flags};
use crate::matching::{Match, Term};
use crate::text::shape::{
    ETHER_TYPE_ARP, ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, PROTOCOL_ICMP, PROTOCOL_ICMPV6,
    PROTOCOL_SCTP, PROTOCOL_TCP, PROTOCOL_UDP, Shape,
};
use crate::text::value::ones;

/// A spelling for cache entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MegaflowStyle {
    /// As `ofproto/trace` prints its `Megaflow:` line: `recirc_id=0,eth,ip,in_port=1,...`.
    OpenFlow,
    /// As `ovs-appctl dpctl/dump-flows` does: `recirc_id(0),in_port(1),eth(src=...),...`.
    Datapath,
}

/// A cache entry's key and mask, in words of `layout`, as text.
///
/// Bits that tell whether a header is there are left out where the EtherType and the protocol in
/// the key say the same: Open vSwitch has no such bits.
pub fn print_megaflow(layout: &Layout, key: &[u64], mask: &[u64], style: MegaflowStyle) -> String {
    let all = Match::from_words(layout, key, mask);
    let shape = Shape::of(&all);
    let mut shown = Match::default();
    for term in all.terms() {
        let source = layout
            .catalogue()
            .get(term.field.index())
            .map(|field| &field.source);
        let is_implied = matches!(source, Some(Source::Presence(_)))
            && expected_presence(term.field, &shape) == Some(term.value != 0);
        if !is_implied {
            // Terms of one match do not contradict each other.
            let _ = shown.add(term.field, term.value, term.mask);
        }
    }
    match style {
        MegaflowStyle::OpenFlow => openflow(&shown),
        MegaflowStyle::Datapath => Datapath::new(&shown).print(),
    }
}

/// Whether packets of this shape have a header, if the shape tells.
fn expected_presence(field: FieldId, shape: &Shape) -> Option<bool> {
    let ether_type = shape.ether_type;
    if ether_type == 0 {
        return None;
    }
    let is_ip = matches!(ether_type, ETHER_TYPE_IPV4 | ETHER_TYPE_IPV6);
    let carries = |protocol: u8| match shape.protocol {
        _ if !is_ip => Some(false),
        0 => None,
        found => Some(found == protocol),
    };
    match field {
        f::PRESENT_ARP => Some(shape.is_arp()),
        f::PRESENT_IPV4 => Some(ether_type == ETHER_TYPE_IPV4),
        f::PRESENT_IPV6 | f::PRESENT_IPV6_CHAIN => Some(shape.is_ipv6()),
        f::PRESENT_MPLS => Some(shape.has(crate::text::shape::Needs::Mpls)),
        f::PRESENT_TCP => carries(PROTOCOL_TCP),
        f::PRESENT_UDP => carries(PROTOCOL_UDP),
        f::PRESENT_SCTP => carries(PROTOCOL_SCTP),
        f::PRESENT_ICMPV4 => carries(PROTOCOL_ICMP),
        f::PRESENT_ICMPV6 => carries(PROTOCOL_ICMPV6),
        _ => None,
    }
}

fn openflow(shown: &Match) -> String {
    let mut text = String::new();
    // Every entry of Open vSwitch's matches the recirculation id.
    if shown.term(f::RECIRC_ID).is_none() {
        text.push_str("recirc_id=0,");
    }
    // Writing to a string does not fail.
    let _ = matches::conditions(&mut text, shown, "eth,");
    text.truncate(text.trim_end_matches(',').len());
    text
}

/// Attributes of a datapath flow, being printed.
struct Datapath<'a> {
    matching: &'a Match,
    text: String,
}

/// A member of an attribute: its name, its field, how it is spelt.
type Member = (&'static str, FieldId, Spelling);

/// How a member of an attribute is spelt.
#[derive(Clone, Copy)]
enum Spelling {
    Decimal,
    Hexadecimal,
    Ethernet,
    Ipv4,
    Ipv6,
}

use Spelling::{Decimal, Ethernet, Hexadecimal, Ipv4, Ipv6};

impl<'a> Datapath<'a> {
    fn new(matching: &'a Match) -> Datapath<'a> {
        Datapath {
            matching,
            text: String::new(),
        }
    }

    fn print(mut self) -> String {
        let shape = Shape::of(self.matching);
        let recirculation = self.value(f::RECIRC_ID);
        let _ = write!(self.text, "recirc_id({recirculation:#x})");
        self.text = self.text.replace("(0x0)", "(0)");
        let tunnel = [
            ("tun_id", f::TUN_ID, Hexadecimal),
            ("src", f::TUN_SRC, Ipv4),
            ("dst", f::TUN_DST, Ipv4),
        ];
        self.attribute("tunnel", &tunnel, "");
        if let Some(term) = self.matching.term(f::IN_PORT) {
            let mask = if term.mask == ones(32) {
                String::new()
            } else {
                format!("/{:#x}", term.mask)
            };
            let _ = write!(self.text, ",in_port({}{mask})", term.value);
        }
        let addresses = [("src", f::ETH_SRC, Ethernet), ("dst", f::ETH_DST, Ethernet)];
        self.attribute("eth", &addresses, "");
        let mut encapsulations = 0;
        for (field, tpid) in [(f::VLAN_TCI, "0x8100"), (f::VLAN_TCI_INNER, "0x8100")] {
            if let Some(term) = self.matching.term(field)
                && term.value & u128::from(f::VLAN_PRESENT) != 0
            {
                let _ = write!(self.text, ",eth_type({tpid}),vlan(");
                self.tag(term);
                self.text.push_str("),encap(");
                encapsulations += 1;
            }
        }
        if let Some(term) = self.matching.term(f::ETH_TYPE) {
            let _ = write!(self.text, ",eth_type({:#06x}", term.value);
            if term.mask != 0xffff {
                let _ = write!(self.text, "/{:#06x}", term.mask);
            }
            self.text.push(')');
        }
        self.network(&shape);
        self.transport(&shape);
        for _ in 0..encapsulations {
            self.text.push(')');
        }
        self.text.replace("encap(,", "encap(")
    }

    fn value(&self, field: FieldId) -> u128 {
        self.matching.term(field).map_or(0, |term| term.value)
    }

    fn tag(&mut self, term: Term) {
        let (value, mask) = (term.value as u16, term.mask as u16);
        let mut members = Vec::new();
        let id_mask = mask & 0x0fff;
        if id_mask != 0 {
            let suffix = if id_mask == 0x0fff {
                String::new()
            } else {
                format!("/{id_mask:#x}")
            };
            members.push(format!("vid={}{suffix}", value & 0x0fff));
        }
        let priority_mask = mask >> 13;
        if priority_mask != 0 {
            let suffix = if priority_mask == 7 {
                String::new()
            } else {
                format!("/{priority_mask:#x}")
            };
            members.push(format!("pcp={}{suffix}", value >> 13));
        }
        self.text.push_str(&members.join(","));
    }

    fn network(&mut self, shape: &Shape) {
        match shape.ether_type {
            ETHER_TYPE_IPV4 => {
                let members = [
                    ("src", f::IP_SRC, Ipv4),
                    ("dst", f::IP_DST, Ipv4),
                    ("proto", f::IP_PROTO, Decimal),
                ];
                let rest = self.service("tos", "ttl");
                self.attribute("ipv4", &members, &rest);
            }
            ETHER_TYPE_IPV6 => {
                let members = [
                    ("src", f::IPV6_SRC, Ipv6),
                    ("dst", f::IPV6_DST, Ipv6),
                    ("label", f::IPV6_LABEL, Hexadecimal),
                    ("proto", f::IP_PROTO, Decimal),
                ];
                let rest = self.service("tclass", "hlimit");
                self.attribute("ipv6", &members, &rest);
            }
            _ if shape.is_arp() || shape.ether_type == ETHER_TYPE_ARP => {
                let members = [
                    ("sip", f::ARP_SPA, Ipv4),
                    ("tip", f::ARP_TPA, Ipv4),
                    ("op", f::ARP_OP, Decimal),
                    ("sha", f::ARP_SHA, Ethernet),
                    ("tha", f::ARP_THA, Ethernet),
                ];
                self.attribute("arp", &members, "");
            }
            _ => {
                let members = [
                    ("label", f::MPLS_LABEL, Decimal),
                    ("tc", f::MPLS_TC, Decimal),
                    ("ttl", f::MPLS_TTL, Decimal),
                    ("bos", f::MPLS_BOS, Decimal),
                ];
                self.attribute("mpls", &members, "");
            }
        }
    }

    /// Type of service, time to live and kind of fragment, which IPv4 and IPv6 name differently.
    fn service(&self, service: &str, ttl: &str) -> String {
        let mut text = String::new();
        let bits = |field| {
            self.matching
                .term(field)
                .map_or((0, 0), |term| (term.value, term.mask))
        };
        let ((dscp, dscp_mask), (ecn, ecn_mask)) = (bits(f::IP_DSCP), bits(f::IP_ECN));
        let (value, mask) = (dscp << 2 | ecn, dscp_mask << 2 | ecn_mask);
        if mask != 0 {
            let value = format!("{value:#x}").replace("0x0", "0");
            let suffix = if mask == 0xff {
                String::new()
            } else {
                format!("/{mask:#x}")
            };
            let _ = write!(text, "{service}={value}{suffix},");
        }
        if let Some(term) = self.matching.term(f::IP_TTL) {
            let suffix = if term.mask == 0xff {
                String::new()
            } else {
                format!("/{:#x}", term.mask)
            };
            let _ = write!(text, "{ttl}={}{suffix},", term.value);
        }
        if let Some(term) = self.matching.term(f::IP_FRAG) {
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

    fn transport(&mut self, shape: &Shape) {
        let ports = [("src", f::TP_SRC, Decimal), ("dst", f::TP_DST, Decimal)];
        let kinds = [
            ("type", f::ICMP_TYPE, Decimal),
            ("code", f::ICMP_CODE, Decimal),
        ];
        match shape.protocol {
            PROTOCOL_TCP => self.attribute("tcp", &ports, ""),
            PROTOCOL_UDP => self.attribute("udp", &ports, ""),
            PROTOCOL_SCTP => self.attribute("sctp", &ports, ""),
            PROTOCOL_ICMP => self.attribute("icmp", &kinds, ""),
            PROTOCOL_ICMPV6 => self.attribute("icmpv6", &kinds, ""),
            _ => {}
        }
        if let Some(term) = self.matching.term(f::TCP_FLAGS) {
            self.text.push_str(",tcp_flags(");
            let _ = tcp_flags(&mut self.text, term.value, term.mask);
            self.text.push(')');
        }
        let discovery = [
            ("target", f::ND_TARGET, Ipv6),
            ("sll", f::ND_SLL, Ethernet),
            ("tll", f::ND_TLL, Ethernet),
        ];
        self.attribute("nd", &discovery, "");
    }

    /// Writes an attribute if any of its members is matched.
    fn attribute(&mut self, name: &str, members: &[Member], rest: &str) {
        let mut inside = String::new();
        for &(member, field, spelling) in members {
            if let Some(term) = self.matching.term(field) {
                let _ = write!(inside, "{member}=");
                write_member(&mut inside, term, spelling);
                inside.push(',');
            }
        }
        inside.push_str(rest);
        let inside = inside.trim_end_matches(',');
        if !inside.is_empty() {
            let _ = write!(self.text, ",{name}({inside})");
        }
    }
}

fn write_member(out: &mut String, term: Term, spelling: Spelling) {
    let Term { field, value, mask } = term;
    let width = crate::text::fields::name_of(field).map_or(128, |name| name.width_bits);
    let is_whole = mask == ones(width);
    let _ = match spelling {
        Decimal => write!(out, "{value}"),
        Hexadecimal => super::hexadecimal(out, value),
        Ethernet => ethernet(out, value),
        Ipv4 => ipv4(out, value, ones(32)),
        Ipv6 => super::ipv6(out, value, u128::MAX),
    };
    if is_whole {
        return;
    }
    out.push('/');
    let _ = match spelling {
        Decimal | Hexadecimal => write!(out, "{mask:#x}"),
        Ethernet => ethernet(out, mask),
        Ipv4 => ipv4(out, mask, ones(32)),
        Ipv6 => super::ipv6(out, mask, u128::MAX),
    };
}
