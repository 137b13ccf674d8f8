//! Prints matches like `match_format` of Open vSwitch.

use std::fmt::{self, Write as _};

use thalweg_packet::standard as f;
use thalweg_packet::{FieldId, TUNNEL_OPTIONS};

use super::{
    PortSpelling, ct_state, hexadecimal, ipv4, ipv6, masked_ethernet, port, set_output, tcp_flags,
};
use crate::matching::{Match, Term};
use crate::text::fields::{self, Format, Name};
use crate::text::shape::{
    ETHER_TYPE_ARP, ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, ETHER_TYPE_MPLS, ETHER_TYPE_MPLS_MULTICAST,
    ETHER_TYPE_RARP, PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_SCTP, PROTOCOL_TCP, PROTOCOL_UDP,
};
use crate::text::value::ones;

impl fmt::Display for Match {
    /// Prints the conditions as in a rule, without white space; prints nothing if there are
    /// none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        conditions(&mut text, self, "", PortSpelling::default())?;
        f.write_str(text.trim_end_matches(','))
    }
}

/// Prints conditions as [`Match`] prints itself, with ports spelt in a way of the caller.
pub fn print_match(matching: &Match, ports: PortSpelling<'_>) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = conditions(&mut text, matching, "", ports);
    text.truncate(text.trim_end_matches(',').len());
    text
}

/// The fields in Open vSwitch's print order; the word for EtherType and protocol follows the
/// first.
const ORDER: [FieldId; 76] = [
    f::PKT_MARK,
    f::RECIRC_ID,
    f::DP_HASH,
    f::CONJ_ID,
    f::ACTSET_OUTPUT,
    f::CT_STATE,
    f::CT_ZONE,
    f::CT_MARK,
    f::CT_LABEL,
    f::CT_NW_SRC,
    f::CT_IPV6_SRC,
    f::CT_NW_DST,
    f::CT_IPV6_DST,
    f::CT_NW_PROTO,
    f::CT_TP_SRC,
    f::CT_TP_DST,
    f::TUN_ID,
    f::TUN_SRC,
    f::TUN_DST,
    f::TUN_IPV6_SRC,
    f::TUN_IPV6_DST,
    f::TUN_GBP_ID,
    f::TUN_GBP_FLAGS,
    f::TUN_TOS,
    f::TUN_TTL,
    f::TUN_ERSPAN_VER,
    f::TUN_ERSPAN_IDX,
    f::TUN_ERSPAN_DIR,
    f::TUN_ERSPAN_HWID,
    f::TUN_GTPU_FLAGS,
    f::TUN_GTPU_MSGTYPE,
    f::TUN_FLAGS,
    f::TUN_OPTIONS,
    f::METADATA,
    f::IN_PORT,
    f::VLAN_TCI,
    f::VLAN_TCI_INNER,
    f::ETH_SRC,
    f::ETH_DST,
    f::ETH_TYPE,
    f::NSH_FLAGS,
    f::NSH_TTL,
    f::NSH_MDTYPE,
    f::NSH_NP,
    f::NSH_SPI,
    f::NSH_SI,
    f::NSH_C1,
    f::NSH_C2,
    f::NSH_C3,
    f::NSH_C4,
    f::IPV6_SRC,
    f::IPV6_DST,
    f::IPV6_LABEL,
    f::IP_SRC,
    f::IP_DST,
    f::ARP_SPA,
    f::ARP_TPA,
    f::IP_PROTO,
    f::ARP_OP,
    f::ARP_SHA,
    f::ARP_THA,
    f::IP_DSCP,
    f::IP_ECN,
    f::IP_TTL,
    f::MPLS_LABEL,
    f::MPLS_TC,
    f::MPLS_TTL,
    f::MPLS_BOS,
    f::IP_FRAG,
    f::ICMP_TYPE,
    f::ICMP_CODE,
    f::ND_TARGET,
    f::ND_SLL,
    f::ND_TLL,
    f::TP_SRC,
    f::TP_DST,
];

/// How many fields of [`ORDER`] come before the packet's type.
const BEFORE_TYPE: usize = 16;

/// Writes every condition, followed by a comma; `after_recirculation` stands where Open
/// vSwitch prints the packet's type.
pub(super) fn conditions(
    out: &mut String,
    matching: &Match,
    after_recirculation: &str,
    ports: PortSpelling<'_>,
) -> fmt::Result {
    for field in &ORDER[..BEFORE_TYPE] {
        if let Some(term) = matching.term(*field) {
            condition(out, &term, ports)?;
        }
    }
    match matching.term(f::PACKET_TYPE) {
        Some(term) => condition(out, &term, ports)?,
        None => out.push_str(after_recirculation),
    }
    let (is_type_said, is_protocol_said) = shorthand(out, matching);
    let is_register = |term: &&Term| term.field >= f::REG0 && term.field <= f::register_field(15);
    for term in matching.terms().iter().filter(is_register) {
        condition(out, term, ports)?;
    }
    for field in &ORDER[BEFORE_TYPE..] {
        let is_said =
            *field == f::ETH_TYPE && is_type_said || *field == f::IP_PROTO && is_protocol_said;
        if *field == f::TUN_OPTIONS {
            options(out, matching, ports)?;
        } else if let Some(term) = matching.term(*field).filter(|_| !is_said) {
            condition(out, &term, ports)?;
        }
    }
    for term in matching.terms() {
        let is_option = f::tunnel_option_of(term.field).is_some();
        let is_said = is_option || term.field == f::PACKET_TYPE;
        if !ORDER.contains(&term.field) && !is_register(&term) && !is_said {
            condition(out, term, ports)?;
        }
    }
    Ok(())
}

/// Writes the word for EtherType and protocol; returns whether it covers each of them.
fn shorthand(out: &mut String, matching: &Match) -> (bool, bool) {
    let exact = |field, width: u16| {
        let term = matching.term(field)?;
        (term.mask == ones(width)).then_some(term.value)
    };
    let ether_type = exact(f::ETH_TYPE, 16).unwrap_or_default() as u16;
    let protocol = exact(f::IP_PROTO, 8).map(|protocol| protocol as u8);
    let (word, says_protocol) = match (ether_type, protocol) {
        (ETHER_TYPE_IPV4, Some(PROTOCOL_ICMP)) => ("icmp,", true),
        (ETHER_TYPE_IPV4, Some(PROTOCOL_TCP)) => ("tcp,", true),
        (ETHER_TYPE_IPV4, Some(PROTOCOL_UDP)) => ("udp,", true),
        (ETHER_TYPE_IPV4, Some(PROTOCOL_SCTP)) => ("sctp,", true),
        (ETHER_TYPE_IPV4, _) => ("ip,", false),
        (ETHER_TYPE_IPV6, Some(PROTOCOL_ICMPV6)) => ("icmp6,", true),
        (ETHER_TYPE_IPV6, Some(PROTOCOL_TCP)) => ("tcp6,", true),
        (ETHER_TYPE_IPV6, Some(PROTOCOL_UDP)) => ("udp6,", true),
        (ETHER_TYPE_IPV6, Some(PROTOCOL_SCTP)) => ("sctp6,", true),
        (ETHER_TYPE_IPV6, _) => ("ipv6,", false),
        (ETHER_TYPE_ARP, _) => ("arp,", false),
        (ETHER_TYPE_RARP, _) => ("rarp,", false),
        (ETHER_TYPE_MPLS, _) => ("mpls,", false),
        (ETHER_TYPE_MPLS_MULTICAST, _) => ("mplsm,", false),
        _ => ("", false),
    };
    out.push_str(word);
    (!word.is_empty(), says_protocol)
}

/// Writes the conditions on options of a tunnel (`tun_metadata_match_format`).
fn options(out: &mut String, matching: &Match, ports: PortSpelling<'_>) -> fmt::Result {
    let presence = matching.term(f::TUN_OPTIONS);
    let presence = presence.map_or((0, 0), |term| (term.value, term.mask));
    for number in 0..TUNNEL_OPTIONS {
        let is_asked = presence.1 >> number & 1 == 1;
        match matching.term(f::tunnel_option_field(number)) {
            _ if is_asked && presence.0 >> number & 1 == 0 => {
                write!(out, "tun_metadata{number}=NP,")?;
            }
            Some(term) => condition(out, &term, ports)?,
            None if is_asked => write!(out, "tun_metadata{number},")?,
            None => {}
        }
    }
    Ok(())
}

/// Writes one condition, followed by a comma.
fn condition(out: &mut String, term: &Term, ports: PortSpelling<'_>) -> fmt::Result {
    let Term { field, value, mask } = *term;
    let Some(name) = fields::name_of(field) else {
        return nameless(out, term);
    };
    let is_whole = mask == ones(whole_width(name));
    match field {
        f::VLAN_TCI => return tag(out, term, ""),
        f::IP_FRAG => return fragment(out, term),
        f::IP_DSCP => {
            write!(out, "nw_tos=")?;
            match is_whole {
                true => write!(out, "{}", value << 2)?,
                false => write!(out, "{:#x}/{:#x}", value << 2, mask << 2)?,
            }
            out.push(',');
            return Ok(());
        }
        _ => {}
    }
    let printed = match field {
        f::ETH_SRC => "dl_src",
        f::ETH_DST => "dl_dst",
        f::ETH_TYPE => "dl_type",
        f::IP_SRC => "nw_src",
        f::IP_DST => "nw_dst",
        f::TUN_GTPU_FLAGS => "gtpu_flags",
        f::TUN_GTPU_MSGTYPE => "gtpu_msgtype",
        _ => name.primary(),
    };
    write!(out, "{printed}=")?;
    match name.format {
        Format::Ethernet => masked_ethernet(out, value, mask)?,
        Format::Ipv4 => ipv4(out, value, mask)?,
        Format::Ipv6 => ipv6(out, value, mask)?,
        Format::TcpFlags => tcp_flags(out, value, mask)?,
        Format::CtState => ct_state(out, value, mask)?,
        Format::PacketType if is_whole => {
            write!(out, "({},", value >> 16)?;
            hexadecimal(out, value & 0xffff)?;
            out.push(')');
        }
        Format::TunFlags => out.push_str(if value & 1 == 1 { "+oam" } else { "-oam" }),
        Format::Port if is_whole => port(out, value, ports)?,
        Format::SetOutput if is_whole => set_output(out, value, ports)?,
        _ if field == f::ETH_TYPE => padded(out, value, mask, (4, is_whole))?,
        _ if field == f::IPV6_LABEL => padded(out, value, mask, (5, is_whole))?,
        // Of these, zero has a prefix in Open vSwitch.
        Format::Hexadecimal if is_whole && (f::NSH_SPI..=f::NSH_C4).contains(&field) => {
            write!(out, "{value:#x}")?;
        }
        Format::Hexadecimal => {
            hexadecimal(out, value)?;
            if !is_whole {
                out.push('/');
                hexadecimal(out, mask)?;
            }
        }
        _ if is_whole => write!(out, "{value}")?,
        _ => write!(out, "{value:#x}/{mask:#x}")?,
    }
    out.push(',');
    Ok(())
}

/// The width of the field that a name stands for in a match.
fn whole_width(name: &Name) -> u16 {
    match name.format {
        Format::Port => 32,
        _ => name.width_bits,
    }
}

fn padded(
    out: &mut String,
    value: u128,
    mask: u128,
    (digits, is_whole): (usize, bool),
) -> fmt::Result {
    let width = digits + 2;
    write!(out, "{value:#0width$x}")?;
    match is_whole {
        true => Ok(()),
        false => write!(out, "/{mask:#0width$x}"),
    }
}

/// Writes the conditions on a tag: its id and priority if they are whole, else its bits.
fn tag(out: &mut String, term: &Term, suffix: &str) -> fmt::Result {
    let (value, mask) = (term.value as u16, term.mask as u16);
    let (id_mask, priority_mask) = (mask & 0x0fff, mask >> 13);
    let is_there = value & f::VLAN_PRESENT != 0;
    let is_plain = is_there
        && matches!(id_mask, 0 | 0x0fff)
        && matches!(priority_mask, 0 | 7)
        && mask != f::VLAN_PRESENT;
    if is_plain {
        if id_mask != 0 {
            write!(out, "dl_vlan{suffix}={},", value & 0x0fff)?;
        }
        if priority_mask != 0 {
            write!(out, "dl_vlan_pcp{suffix}={},", value >> 13)?;
        }
        return Ok(());
    }
    write!(out, "vlan_tci{suffix}={value:#06x}")?;
    if mask != 0xffff {
        write!(out, "/{mask:#06x}")?;
    }
    out.push(',');
    Ok(())
}

fn fragment(out: &mut String, term: &Term) -> fmt::Result {
    let word = match (term.value, term.mask) {
        (0, 3) => "no",
        (1, 3) => "first",
        (3, 3) => "later",
        (1, 1) => "yes",
        (0, 2) => "not_later",
        // No word means exactly these bits.
        (value, 3) => return write!(out, "NXM_NX_IP_FRAG[]={value},"),
        (value, 1) => return write!(out, "NXM_NX_IP_FRAG[0]={value},"),
        (value, _) => return write!(out, "NXM_NX_IP_FRAG[1]={},", value >> 1),
    };
    write!(out, "nw_frag={word},")
}

/// Writes a condition on a field that rules cannot name, as in megaflows.
fn nameless(out: &mut String, term: &Term) -> fmt::Result {
    if term.field == f::VLAN_TCI_INNER {
        return tag(out, term, "1");
    }
    let catalogue = f::fields();
    let name = catalogue.get(term.field.index());
    // Open vSwitch prints the label stack entries behind the first in this way.
    if let (f::MPLS_LSE1 | f::MPLS_LSE2, Some(field)) = (term.field, name) {
        return match term.mask == ones(32) {
            true => write!(out, "{}={},", field.name, term.value),
            false => write!(
                out,
                "{}={:#010x}/{:#010x},",
                field.name, term.value, term.mask
            ),
        };
    }
    match name.map(|field| (&field.name, field.width_bits)) {
        Some((name, width)) if term.mask == ones(width) => {
            write!(out, "{name}={:#x},", term.value)
        }
        Some((name, _)) => write!(out, "{name}={:#x}/{:#x},", term.value, term.mask),
        None => write!(
            out,
            "field{}={:#x}/{:#x},",
            term.field.0, term.value, term.mask
        ),
    }
}
