//! Reads a bridge's flow: the exact packet that `ofproto/trace BRIDGE FLOW` asks about
//! (`parse_ofp_exact_flow` of Open vSwitch).
//!
//! Unlike in a rule, a field stands for its value in the packet, and the order counts: what a
//! field needs must be said before it. `tp_dst` is TCP's, also for a packet of UDP.

use thalweg_packet::{FieldId, PortId, standard as f};
use thalweg_pipeline::Match;
use thalweg_pipeline::text::{LOCAL_PORT, NO_PORT, Parser, TextError};

use super::flow::TracedFlow;
use super::mask::is_service_field;
use crate::datapath_text::FieldBits;

/// Words for an EtherType, and perhaps a protocol.
const PROTOCOLS: [(&str, u16, u8); 17] = [
    ("ip", 0x0800, 0),
    ("ipv4", 0x0800, 0),
    ("ip4", 0x0800, 0),
    ("icmp", 0x0800, 1),
    ("tcp", 0x0800, 6),
    ("udp", 0x0800, 17),
    ("sctp", 0x0800, 132),
    ("ipv6", 0x86dd, 0),
    ("ip6", 0x86dd, 0),
    ("icmp6", 0x86dd, 58),
    ("tcp6", 0x86dd, 6),
    ("udp6", 0x86dd, 17),
    ("sctp6", 0x86dd, 132),
    ("arp", 0x0806, 0),
    ("rarp", 0x8035, 0),
    ("mpls", 0x8847, 0),
    ("mplsm", 0x8848, 0),
];

/// Reads a flow; `ports` finds a port by its name. The error is in Open vSwitch's words.
pub(super) fn read(
    text: &str,
    ports: &dyn Fn(&str) -> Option<PortId>,
) -> Result<TracedFlow, String> {
    let mut flow = TracedFlow::default();
    let mut parser = Parser::new().with_ports(ports);
    let mut rest = text;
    while let Some((key, value)) = next_pair(&mut rest) {
        let said = match PROTOCOLS.iter().find(|known| known.0 == key) {
            Some(&(_, ether_type, protocol)) => set_protocol(&mut flow.key, ether_type, protocol),
            None => set_field(&mut flow, &mut parser, key, value),
        };
        said.map_err(|what| format!("{text}: {what}"))?;
    }
    if flow.key.get(f::IN_PORT) == 0 {
        flow.key.set(f::IN_PORT, NO_PORT.0.into());
    }
    flow.tag_types = [f::VLAN_TCI, f::VLAN_TCI_INNER].map(|tag| match flow.key.get(tag) {
        0 => 0,
        _ => 0x8100,
    });
    flow.key.derive();
    Ok(flow)
}

/// Cuts the next pair off a text (`ofputil_parse_key_value`).
fn next_pair<'a>(rest: &mut &'a str) -> Option<(&'a str, &'a str)> {
    const GAPS: [char; 5] = [',', ' ', '\t', '\r', '\n'];
    let text = rest.trim_start_matches(GAPS);
    if text.is_empty() {
        return None;
    }
    let end = text.find([':', '=', '(', ',', ' ', '\t', '\r', '\n']);
    let Some(end) = end else {
        *rest = "";
        return Some((text, ""));
    };
    let (key, behind) = (&text[..end], &text[end + 1..]);
    let is_end: &dyn Fn(char) -> bool = match text.as_bytes()[end] {
        b':' | b'=' => &|mark| GAPS.contains(&mark),
        b'(' => &|mark| mark == ')',
        _ => {
            *rest = behind;
            return Some((key, ""));
        }
    };
    let mut depth = 0_usize;
    for (place, mark) in behind.char_indices() {
        match mark {
            _ if depth == 0 && is_end(mark) => {
                *rest = &behind[place + mark.len_utf8()..];
                return Some((key, &behind[..place]));
            }
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    *rest = "";
    Some((key, behind))
}

fn set_protocol(key: &mut FieldBits, ether_type: u16, protocol: u8) -> Result<(), String> {
    if key.get(f::ETH_TYPE) != 0 {
        return Err("Ethernet type set multiple times".to_owned());
    }
    key.set(f::ETH_TYPE, ether_type.into());
    if protocol != 0 {
        if key.get(f::IP_PROTO) != 0 {
            return Err("network protocol set multiple times".to_owned());
        }
        key.set(f::IP_PROTO, protocol.into());
    }
    Ok(())
}

fn set_field(
    flow: &mut TracedFlow,
    parser: &mut Parser<'_>,
    name: &str,
    value: &str,
) -> Result<(), String> {
    if let Some(place) = flow.given_mut(name) {
        let number = number(value);
        let number = number.ok_or_else(|| bad_value(name, value, "bad syntax for its value"))?;
        *place = number;
        return Ok(());
    }
    let read = read_value(parser, name, value)?;
    let prerequisite = Prerequisite::of(name, &read);
    if !prerequisite.is_met(&flow.key) {
        return Err(format!("prerequisites not met for setting {name}"));
    }
    let is_set = |term: &&thalweg_pipeline::Term| flow.key.get(term.field) & term.mask != 0;
    if read.terms().iter().any(|term| is_set(&term)) {
        return Err(format!("field {name} set multiple times"));
    }
    for term in read.terms() {
        if term.field == f::PACKET_TYPE {
            flow.key.set(f::ETH_TYPE, term.value & 0xffff);
        }
        let kept = flow.key.get(term.field) & !term.mask;
        flow.key.set(term.field, kept | term.value);
    }
    Ok(())
}

/// Reads a field's value as bits of fields.
fn read_value(parser: &mut Parser<'_>, name: &str, value: &str) -> Result<Match, String> {
    let is_port = name == "in_port" || name == "in_port_oxm";
    if value.contains('/') {
        return Err(bad_value(name, value, "wildcards not allowed here"));
    }
    // No tag at all.
    let value = match name {
        "dl_vlan" if matches!(number(value), Some(0xffff)) => return Ok(Match::default()),
        _ if is_port && value.eq_ignore_ascii_case("local") => &*LOCAL_PORT.0.to_string(),
        _ => value,
    };
    if name == "vlan_vid" {
        // Id and presence, of which both are given.
        let bits = number(value).filter(|bits| *bits <= 0x1fff);
        let bits =
            bits.ok_or_else(|| bad_value(name, value, &format!("bad syntax for {name} value")))?;
        let mut tag = Match::default();
        let added = tag.add(f::VLAN_TCI, bits.into(), 0x1fff);
        return added.map(|()| tag).map_err(|error| error.to_string());
    }
    let read = parser.parse_megaflow(&format!("{name}={value}"));
    read.map_err(|error| match error {
        TextError::Unknown { kind: "field", .. } => format!("unknown field {name}"),
        _ if is_port => {
            let what = format!("invalid or unknown port for {name}");
            bad_value(name, value, &what)
        }
        _ => bad_value(name, value, &format!("bad syntax for {name} value")),
    })
}

fn bad_value(name: &str, value: &str, what: &str) -> String {
    format!("bad value for {name} ({value}: {what})")
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// What a packet must have for a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prerequisite {
    None,
    Tag,
    Label,
    Service,
    Arp,
    Ipv4,
    Ipv6,
    Ip,
    /// The protocol, over IPv4, IPv6 or any of both.
    Protocol(u8, Option<u16>),
    Discovery,
}

impl Prerequisite {
    /// What the field of this name needs, of which these are the bits.
    fn of(name: &str, bits: &Match) -> Prerequisite {
        let over_ip = |protocol| Prerequisite::Protocol(protocol, None);
        let field = bits
            .terms()
            .first()
            .map_or(FieldId(u16::MAX), |term| term.field);
        match field {
            f::VLAN_TCI if name == "vlan_pcp" => Prerequisite::Tag,
            f::MPLS_LABEL | f::MPLS_TC | f::MPLS_BOS | f::MPLS_TTL => Prerequisite::Label,
            field if is_service_field(field) => Prerequisite::Service,
            f::ARP_OP | f::ARP_SPA | f::ARP_TPA | f::ARP_SHA | f::ARP_THA => Prerequisite::Arp,
            f::IP_SRC | f::IP_DST => Prerequisite::Ipv4,
            f::IPV6_SRC | f::IPV6_DST | f::IPV6_LABEL => Prerequisite::Ipv6,
            f::IP_PROTO | f::IP_DSCP | f::IP_ECN | f::IP_TTL | f::IP_FRAG => Prerequisite::Ip,
            f::TP_SRC | f::TP_DST => match name {
                "udp_src" | "udp_dst" => over_ip(17),
                "sctp_src" | "sctp_dst" => over_ip(132),
                _ => over_ip(6),
            },
            f::TCP_FLAGS => over_ip(6),
            f::ICMP_TYPE | f::ICMP_CODE => match name {
                "icmpv6_type" | "icmpv6_code" => Prerequisite::Protocol(58, Some(0x86dd)),
                _ => Prerequisite::Protocol(1, Some(0x0800)),
            },
            f::ND_TARGET | f::ND_SLL | f::ND_TLL => Prerequisite::Discovery,
            _ => Prerequisite::None,
        }
    }

    fn is_met(self, key: &FieldBits) -> bool {
        let ether_type = key.get(f::ETH_TYPE) as u16;
        let is_ip = matches!(ether_type, 0x0800 | 0x86dd);
        match self {
            Prerequisite::None => true,
            Prerequisite::Tag => key.get(f::VLAN_TCI) & u128::from(f::VLAN_PRESENT) != 0,
            Prerequisite::Label => matches!(ether_type, 0x8847 | 0x8848),
            Prerequisite::Service => ether_type == 0x894f,
            Prerequisite::Arp => matches!(ether_type, 0x0806 | 0x8035),
            Prerequisite::Ipv4 => ether_type == 0x0800,
            Prerequisite::Ipv6 => ether_type == 0x86dd,
            Prerequisite::Ip => is_ip,
            Prerequisite::Protocol(protocol, over) => {
                is_ip
                    && over.is_none_or(|over| over == ether_type)
                    && key.get(f::IP_PROTO) == protocol.into()
                    && key.get(f::IP_FRAG) & 2 == 0
            }
            Prerequisite::Discovery => {
                let kind = key.get(f::ICMP_TYPE);
                Prerequisite::Protocol(58, Some(0x86dd)).is_met(key)
                    && matches!(kind, 135 | 136)
                    && key.get(f::ICMP_CODE) == 0
            }
        }
    }
}
