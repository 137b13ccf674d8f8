//! The names of fields: which bits each covers, how it is spelt, and what it needs.
//!
//! A name is not always a field of the catalogue: `xreg0` covers two registers, `vlan_pcp` a
//! part of the tag, `nw_tos` a field shifted up by two bits. So a name has *pieces*, which map
//! runs of its bits to bits of catalogue fields.
//!
//! Names are Open vSwitch's (`ovs-fields(7)`), with their aliases and the NXM and OXM names.
//! They are found by binary search in a table that is sorted at the first use, by length and
//! then by bytes, so that most comparisons look at one number.
//!
//! Open vSwitch names without a field here are listed too ([`is_missing`]). So the error for a
//! rule that uses one calls it unsupported, not misspelt.

use std::sync::LazyLock;

use thalweg_packet::FieldId;
use thalweg_packet::standard as f;

use super::shape::Needs;

/// How a name's value is spelt, and its special rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    Decimal,
    Hexadecimal,
    Ethernet,
    Ipv4,
    Ipv6,
    /// A port by number or name. A match uses the whole field, an action 16 bits.
    Port,
    /// A port of the action set by number or name, or `unset`.
    SetOutput,
    Fragment,
    TcpFlags,
    /// The bits of a connection's state, by name.
    CtState,
    /// Yes-or-no values of a tunnel, by name.
    TunFlags,
    /// The id of a tag, 0xffff for no tag; writing adds a tag.
    DlVlan,
    /// The priority of a tag; writing adds a tag.
    DlVlanPcp,
    /// The id of a tag; bit 12 says that there is one.
    VlanVid,
    /// The priority of a tag.
    VlanPcp,
    /// A packet's type: `(NAMESPACE,TYPE)`.
    PacketType,
}

/// A run of a name's bits, and the field bits they map to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) field: FieldId,
    /// The run's lowest bit in the field.
    pub(super) field_offset: u16,
    /// The run's lowest bit in the name.
    pub(super) name_offset: u16,
    pub(super) width_bits: u16,
}

/// A name for bits that rules match or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name {
    /// The name that `ovs-ofctl` prints, and its aliases.
    pub(super) names: &'static [&'static str],
    /// NXM and OXM names, the one to print first.
    pub(super) codes: &'static [&'static str],
    pub(super) width_bits: u16,
    pub(super) pieces: &'static [Piece],
    pub(super) format: Format,
    pub(super) needs: Needs,
    pub(super) is_maskable: bool,
    pub(super) is_writable: bool,
}

impl Name {
    /// The name as `ovs-ofctl` prints it.
    pub(super) fn primary(&self) -> &'static str {
        self.names[0]
    }

    /// The name to print for a part of it.
    pub(super) fn code(&self) -> &'static str {
        self.codes.first().copied().unwrap_or(self.names[0])
    }
}

/// Finds a name by its spelling.
pub(super) fn find(text: &str) -> Option<&'static Name> {
    let place = |text: &str| {
        INDEX.binary_search_by(|(spelling, _)| {
            let by_length = spelling.len().cmp(&text.len());
            by_length.then_with(|| spelling.as_bytes().cmp(text.as_bytes()))
        })
    };
    let found = place(text).ok();
    let found = found.or_else(|| place(text.strip_suffix("_W")?).ok())?;
    Some(INDEX[found].1)
}

/// The name to print for a field, if it has one.
pub(super) fn name_of(field: FieldId) -> Option<&'static Name> {
    let place = BY_FIELD
        .binary_search_by_key(&field, |entry| entry.0)
        .ok()?;
    Some(BY_FIELD[place].1)
}

/// The name to print for a hashed field, if it has one.
pub(super) fn hashed_name(field: FieldId, only_with: Option<FieldId>) -> Option<&'static Name> {
    let of_header =
        |name: &&Name| name.pieces[0].field == field && name.needs.header() == only_with;
    match only_with {
        Some(_) => NAMES.iter().find(of_header),
        None => name_of(field),
    }
}

/// The name of 64 or 128 bits that begins with register `first`.
pub(super) fn wide_register(first: FieldId, registers: u16) -> Option<&'static Name> {
    let number = first.0.checked_sub(f::REG0.0)?;
    let (names, is_there) = match registers {
        2 => (&XREGS[..], number % 2 == 0),
        4 => (&XXREGS[..], number % 4 == 0),
        _ => return None,
    };
    let place = usize::from(number / registers);
    is_there.then(|| names.get(place)).flatten()
}

/// Whether Open vSwitch has a field of this name that is missing here.
#[rustfmt::skip]
pub(super) fn is_missing(name: &str) -> bool {
    let name = name.strip_suffix("_W").unwrap_or(name);
    const PREFIXES: [&str; 4] = [
        "NXOXM_ET_", "ERICOXM_OF_ICMPV6_ND_", "OXM_OF_PBB_", "NXM_NX_COOKIE",
    ];
    const NAMES: [&str; 3] = ["skb_priority", "nd_reserved", "nd_options_type"];
    let is_above = |prefix: &str, highest: u32, limit: u32| {
        let number = name.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
        number.is_some_and(|number: u32| number > highest && number < limit)
    };
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || NAMES.contains(&name)
        || is_above("reg", 15, 32)
        || is_above("xreg", 7, 16)
        || is_above("xxreg", 3, 8)
        || is_above("OXM_OF_PKT_REG", 7, 16)
}

static INDEX: LazyLock<Vec<(&'static str, &'static Name)>> = LazyLock::new(|| {
    let names = NAMES.iter().chain(&REGS).chain(&XREGS).chain(&XXREGS);
    let names = names.chain(&TUNNEL_OPTIONS);
    let entries = names.flat_map(|name| {
        let spellings = name.names.iter().chain(name.codes);
        spellings.map(move |spelling| (*spelling, name))
    });
    let mut index: Vec<(&'static str, &'static Name)> = entries.collect();
    index.sort_by_key(|entry| (entry.0.len(), entry.0));
    index
});

/// For each field, the first name with one piece that covers it; sorted by field.
static BY_FIELD: LazyLock<Vec<(FieldId, &'static Name)>> = LazyLock::new(|| {
    let names = NAMES.iter().chain(&REGS).chain(&TUNNEL_OPTIONS);
    let mut by_field: Vec<_> = names.map(|name| (name.pieces[0].field, name)).collect();
    by_field.sort_by_key(|entry| entry.0);
    by_field.dedup_by_key(|entry| entry.0);
    by_field
});

const fn piece(field: FieldId, field_offset: u16, name_offset: u16, width_bits: u16) -> Piece {
    Piece {
        field,
        field_offset,
        name_offset,
        width_bits,
    }
}

/// The pieces of a name that equals a catalogue field, bit for bit.
macro_rules! whole {
    ($field:expr, $width:expr) => {
        const { &[piece($field, 0, 0, $width)] }
    };
}

/// Flags of the table below: writable, maskable.
const READ: (bool, bool) = (false, false);
const READ_MASKED: (bool, bool) = (false, true);
const WRITE: (bool, bool) = (true, false);
const WRITE_MASKED: (bool, bool) = (true, true);

const fn name(
    names: &'static [&'static str],
    codes: &'static [&'static str],
    (width_bits, pieces): (u16, &'static [Piece]),
    format: Format,
    needs: Needs,
    (is_writable, is_maskable): (bool, bool),
) -> Name {
    Name {
        names,
        codes,
        width_bits,
        pieces,
        format,
        needs,
        is_maskable,
        is_writable,
    }
}

use Format::{
    CtState, Decimal, DlVlan, DlVlanPcp, Ethernet, Fragment, Hexadecimal, Ipv4, Ipv6, PacketType,
    Port, SetOutput, TcpFlags, TunFlags, VlanPcp, VlanVid,
};
use Needs::Nothing;

/// The names of fields other than registers. The first name of a field is the one printed.
#[rustfmt::skip]
static NAMES: [Name; 90] = [
    name(&["in_port"], &["NXM_OF_IN_PORT"], (16, whole!(f::IN_PORT, 16)), Port, Nothing, WRITE),
    name(&["in_port_oxm"], &["OXM_OF_IN_PORT"],
        (32, whole!(f::IN_PORT, 32)), Port, Nothing, WRITE),
    name(&["recirc_id"], &["NXM_NX_RECIRC_ID"],
        (32, whole!(f::RECIRC_ID, 32)), Hexadecimal, Nothing, READ),
    name(&["tun_id", "tunnel_id"], &["NXM_NX_TUN_ID", "OXM_OF_TUNNEL_ID"],
        (64, whole!(f::TUN_ID, 64)), Hexadecimal, Nothing, WRITE_MASKED),
    name(&["tun_src"], &["NXM_NX_TUN_IPV4_SRC"],
        (32, whole!(f::TUN_SRC, 32)), Ipv4, Nothing, WRITE_MASKED),
    name(&["tun_dst"], &["NXM_NX_TUN_IPV4_DST"],
        (32, whole!(f::TUN_DST, 32)), Ipv4, Nothing, WRITE_MASKED),
    name(&["tun_ipv6_src"], &["NXM_NX_TUN_IPV6_SRC"],
        (128, whole!(f::TUN_IPV6_SRC, 128)), Ipv6, Nothing, WRITE_MASKED),
    name(&["tun_ipv6_dst"], &["NXM_NX_TUN_IPV6_DST"],
        (128, whole!(f::TUN_IPV6_DST, 128)), Ipv6, Nothing, WRITE_MASKED),
    name(&["tun_tos"], &[], (8, whole!(f::TUN_TOS, 8)), Hexadecimal, Nothing, READ),
    name(&["tun_ttl"], &[], (8, whole!(f::TUN_TTL, 8)), Decimal, Nothing, READ),
    name(&["tun_flags"], &["NXM_NX_TUN_FLAGS"],
        (1, whole!(f::TUN_FLAGS, 1)), TunFlags, Nothing, WRITE_MASKED),
    name(&["tun_gbp_id"], &["NXM_NX_TUN_GBP_ID"],
        (16, whole!(f::TUN_GBP_ID, 16)), Decimal, Nothing, WRITE_MASKED),
    name(&["tun_gbp_flags"], &["NXM_NX_TUN_GBP_FLAGS"],
        (8, whole!(f::TUN_GBP_FLAGS, 8)), Hexadecimal, Nothing, WRITE_MASKED),
    name(&["tun_erspan_idx"], &["NXOXM_ET_ERSPAN_IDX"],
        (20, whole!(f::TUN_ERSPAN_IDX, 20)), Hexadecimal, Nothing, WRITE_MASKED),
    name(&["tun_erspan_ver"], &["NXOXM_ET_ERSPAN_VER"],
        (4, whole!(f::TUN_ERSPAN_VER, 4)), Decimal, Nothing, WRITE_MASKED),
    name(&["tun_erspan_dir"], &["NXOXM_ET_ERSPAN_DIR"],
        (1, whole!(f::TUN_ERSPAN_DIR, 1)), Decimal, Nothing, WRITE_MASKED),
    name(&["tun_erspan_hwid"], &["NXOXM_ET_ERSPAN_HWID"],
        (6, whole!(f::TUN_ERSPAN_HWID, 6)), Hexadecimal, Nothing, WRITE_MASKED),
    name(&["tun_gtpu_flags", "gtpu_flags"], &["NXOXM_ET_GTPU_FLAGS"],
        (8, whole!(f::TUN_GTPU_FLAGS, 8)), Hexadecimal, Nothing, READ_MASKED),
    name(&["tun_gtpu_msgtype", "gtpu_msgtype"], &["NXOXM_ET_GTPU_MSGTYPE"],
        (8, whole!(f::TUN_GTPU_MSGTYPE, 8)), Decimal, Nothing, READ_MASKED),
    name(&["ct_state"], &["NXM_NX_CT_STATE"],
        (32, whole!(f::CT_STATE, 8)), CtState, Nothing, READ_MASKED),
    name(&["ct_zone"], &["NXM_NX_CT_ZONE"],
        (16, whole!(f::CT_ZONE, 16)), Decimal, Nothing, READ_MASKED),
    name(&["ct_mark"], &["NXM_NX_CT_MARK"],
        (32, whole!(f::CT_MARK, 32)), Hexadecimal, Nothing, WRITE_MASKED),
    name(&["ct_label"], &["NXM_NX_CT_LABEL"],
        (128, whole!(f::CT_LABEL, 128)), Hexadecimal, Nothing, WRITE_MASKED),
    name(&["ct_nw_src"], &["NXM_NX_CT_NW_SRC"],
        (32, whole!(f::CT_NW_SRC, 32)), Ipv4, Needs::Ipv4, READ_MASKED),
    name(&["ct_nw_dst"], &["NXM_NX_CT_NW_DST"],
        (32, whole!(f::CT_NW_DST, 32)), Ipv4, Needs::Ipv4, READ_MASKED),
    name(&["ct_ipv6_src"], &["NXM_NX_CT_IPV6_SRC"],
        (128, whole!(f::CT_IPV6_SRC, 128)), Ipv6, Needs::Ipv6, READ_MASKED),
    name(&["ct_ipv6_dst"], &["NXM_NX_CT_IPV6_DST"],
        (128, whole!(f::CT_IPV6_DST, 128)), Ipv6, Needs::Ipv6, READ_MASKED),
    name(&["ct_nw_proto"], &["NXM_NX_CT_NW_PROTO"],
        (8, whole!(f::CT_NW_PROTO, 8)), Decimal, Needs::Ip, READ),
    name(&["ct_tp_src"], &["NXM_NX_CT_TP_SRC"],
        (16, whole!(f::CT_TP_SRC, 16)), Decimal, Needs::Ip, READ_MASKED),
    name(&["ct_tp_dst"], &["NXM_NX_CT_TP_DST"],
        (16, whole!(f::CT_TP_DST, 16)), Decimal, Needs::Ip, READ_MASKED),
    name(&["conj_id"], &["NXM_NX_CONJ_ID"],
        (32, whole!(f::CONJ_ID, 32)), Decimal, Nothing, READ),
    name(&["actset_output"], &["ONFOXM_ET_ACTSET_OUTPUT", "OXM_OF_ACTSET_OUTPUT"],
        (32, whole!(f::ACTSET_OUTPUT, 32)), SetOutput, Nothing, READ),
    name(&["pkt_mark"], &["NXM_NX_PKT_MARK"],
        (32, whole!(f::PKT_MARK, 32)), Hexadecimal, Nothing, WRITE_MASKED),
    name(&["dp_hash"], &["NXM_NX_DP_HASH"],
        (32, whole!(f::DP_HASH, 32)), Hexadecimal, Nothing, READ_MASKED),
    name(&["packet_type"], &["OXM_OF_PACKET_TYPE"],
        (32, whole!(f::PACKET_TYPE, 32)), PacketType, Nothing, READ),
    name(&["metadata"], &["OXM_OF_METADATA"],
        (64, whole!(f::METADATA, 64)), Hexadecimal, Nothing, WRITE_MASKED),
    name(&["eth_dst", "dl_dst"], &["NXM_OF_ETH_DST", "OXM_OF_ETH_DST"],
        (48, whole!(f::ETH_DST, 48)), Ethernet, Nothing, WRITE_MASKED),
    name(&["eth_src", "dl_src"], &["NXM_OF_ETH_SRC", "OXM_OF_ETH_SRC"],
        (48, whole!(f::ETH_SRC, 48)), Ethernet, Nothing, WRITE_MASKED),
    name(&["eth_type", "dl_type"], &["NXM_OF_ETH_TYPE", "OXM_OF_ETH_TYPE"],
        (16, whole!(f::ETH_TYPE, 16)), Hexadecimal, Nothing, READ),
    name(&["vlan_tci"], &["NXM_OF_VLAN_TCI"],
        (16, whole!(f::VLAN_TCI, 16)), Hexadecimal, Nothing, WRITE_MASKED),
    name(&["dl_vlan"], &[], (12, whole!(f::VLAN_TCI, 12)), DlVlan, Nothing, WRITE),
    name(&["vlan_vid"], &["OXM_OF_VLAN_VID"],
        (12, whole!(f::VLAN_TCI, 12)), VlanVid, Nothing, WRITE_MASKED),
    name(&["dl_vlan_pcp"], &[], (3, &[piece(f::VLAN_TCI, 13, 0, 3)]), DlVlanPcp, Nothing, WRITE),
    name(&["vlan_pcp"], &["OXM_OF_VLAN_PCP"],
        (3, &[piece(f::VLAN_TCI, 13, 0, 3)]), VlanPcp, Needs::Vlan, WRITE),
    name(&["mpls_label"], &["OXM_OF_MPLS_LABEL"],
        (20, whole!(f::MPLS_LABEL, 20)), Decimal, Needs::Mpls, WRITE),
    name(&["mpls_tc"], &["OXM_OF_MPLS_TC"],
        (3, whole!(f::MPLS_TC, 3)), Decimal, Needs::Mpls, WRITE),
    name(&["mpls_bos"], &["OXM_OF_MPLS_BOS"],
        (1, whole!(f::MPLS_BOS, 1)), Decimal, Needs::Mpls, READ),
    name(&["mpls_ttl"], &["NXM_NX_MPLS_TTL"],
        (8, whole!(f::MPLS_TTL, 8)), Decimal, Needs::Mpls, WRITE),
    name(&["nsh_flags"], &["NXOXM_NSH_FLAGS"],
        (2, whole!(f::NSH_FLAGS, 2)), Decimal, Needs::Nsh, WRITE_MASKED),
    name(&["nsh_ttl"], &["NXOXM_NSH_TTL"],
        (6, whole!(f::NSH_TTL, 6)), Decimal, Needs::Nsh, WRITE),
    name(&["nsh_mdtype"], &["NXOXM_NSH_MDTYPE"],
        (8, whole!(f::NSH_MDTYPE, 8)), Decimal, Needs::Nsh, READ),
    name(&["nsh_np"], &["NXOXM_NSH_NP"],
        (8, whole!(f::NSH_NP, 8)), Decimal, Needs::Nsh, READ),
    name(&["nsh_spi", "nsp"], &["NXOXM_NSH_SPI"],
        (24, whole!(f::NSH_SPI, 24)), Hexadecimal, Needs::Nsh, WRITE),
    name(&["nsh_si", "nsi"], &["NXOXM_NSH_SI"],
        (8, whole!(f::NSH_SI, 8)), Decimal, Needs::Nsh, WRITE),
    name(&["nsh_c1", "nshc1"], &["NXOXM_NSH_C1"],
        (32, whole!(f::NSH_C1, 32)), Hexadecimal, Needs::Nsh, WRITE_MASKED),
    name(&["nsh_c2", "nshc2"], &["NXOXM_NSH_C2"],
        (32, whole!(f::NSH_C2, 32)), Hexadecimal, Needs::Nsh, WRITE_MASKED),
    name(&["nsh_c3", "nshc3"], &["NXOXM_NSH_C3"],
        (32, whole!(f::NSH_C3, 32)), Hexadecimal, Needs::Nsh, WRITE_MASKED),
    name(&["nsh_c4", "nshc4"], &["NXOXM_NSH_C4"],
        (32, whole!(f::NSH_C4, 32)), Hexadecimal, Needs::Nsh, WRITE_MASKED),
    name(&["ip_src", "nw_src"], &["NXM_OF_IP_SRC", "OXM_OF_IPV4_SRC"],
        (32, whole!(f::IP_SRC, 32)), Ipv4, Needs::Ipv4, WRITE_MASKED),
    name(&["ip_dst", "nw_dst"], &["NXM_OF_IP_DST", "OXM_OF_IPV4_DST"],
        (32, whole!(f::IP_DST, 32)), Ipv4, Needs::Ipv4, WRITE_MASKED),
    name(&["ipv6_src"], &["NXM_NX_IPV6_SRC", "OXM_OF_IPV6_SRC"],
        (128, whole!(f::IPV6_SRC, 128)), Ipv6, Needs::Ipv6, WRITE_MASKED),
    name(&["ipv6_dst"], &["NXM_NX_IPV6_DST", "OXM_OF_IPV6_DST"],
        (128, whole!(f::IPV6_DST, 128)), Ipv6, Needs::Ipv6, WRITE_MASKED),
    name(&["ipv6_label"], &["NXM_NX_IPV6_LABEL", "OXM_OF_IPV6_FLABEL"],
        (20, whole!(f::IPV6_LABEL, 20)), Hexadecimal, Needs::Ipv6, WRITE_MASKED),
    name(&["nw_proto", "ip_proto"], &["NXM_OF_IP_PROTO", "OXM_OF_IP_PROTO"],
        (8, whole!(f::IP_PROTO, 8)), Decimal, Needs::Ip, READ),
    name(&["ip_dscp"], &["OXM_OF_IP_DSCP"],
        (6, whole!(f::IP_DSCP, 6)), Decimal, Needs::Ip, WRITE),
    name(&["nw_tos"], &["NXM_OF_IP_TOS"],
        (8, &[piece(f::IP_DSCP, 0, 2, 6)]), Decimal, Needs::Ip, WRITE),
    name(&["nw_ecn", "ip_ecn"], &["NXM_NX_IP_ECN", "OXM_OF_IP_ECN"],
        (2, whole!(f::IP_ECN, 2)), Decimal, Needs::Ip, WRITE),
    name(&["nw_ttl"], &["NXM_NX_IP_TTL"], (8, whole!(f::IP_TTL, 8)), Decimal, Needs::Ip, WRITE),
    name(&["ip_frag", "nw_frag"], &["NXM_NX_IP_FRAG"],
        (2, whole!(f::IP_FRAG, 2)), Fragment, Needs::Ip, READ_MASKED),
    name(&["arp_op"], &["NXM_OF_ARP_OP", "OXM_OF_ARP_OP"],
        (16, whole!(f::ARP_OP, 16)), Decimal, Needs::Arp, WRITE),
    name(&["arp_spa"], &["NXM_OF_ARP_SPA", "OXM_OF_ARP_SPA"],
        (32, whole!(f::ARP_SPA, 32)), Ipv4, Needs::Arp, WRITE_MASKED),
    name(&["arp_tpa"], &["NXM_OF_ARP_TPA", "OXM_OF_ARP_TPA"],
        (32, whole!(f::ARP_TPA, 32)), Ipv4, Needs::Arp, WRITE_MASKED),
    name(&["arp_sha"], &["NXM_NX_ARP_SHA", "OXM_OF_ARP_SHA"],
        (48, whole!(f::ARP_SHA, 48)), Ethernet, Needs::Arp, WRITE_MASKED),
    name(&["arp_tha"], &["NXM_NX_ARP_THA", "OXM_OF_ARP_THA"],
        (48, whole!(f::ARP_THA, 48)), Ethernet, Needs::Arp, WRITE_MASKED),
    name(&["tp_src"], &[], (16, whole!(f::TP_SRC, 16)), Decimal, Needs::Ports, WRITE_MASKED),
    name(&["tp_dst"], &[], (16, whole!(f::TP_DST, 16)), Decimal, Needs::Ports, WRITE_MASKED),
    name(&["tcp_src"], &["NXM_OF_TCP_SRC", "OXM_OF_TCP_SRC"],
        (16, whole!(f::TP_SRC, 16)), Decimal, Needs::Tcp, WRITE_MASKED),
    name(&["tcp_dst"], &["NXM_OF_TCP_DST", "OXM_OF_TCP_DST"],
        (16, whole!(f::TP_DST, 16)), Decimal, Needs::Tcp, WRITE_MASKED),
    name(&["udp_src"], &["NXM_OF_UDP_SRC", "OXM_OF_UDP_SRC"],
        (16, whole!(f::TP_SRC, 16)), Decimal, Needs::Udp, WRITE_MASKED),
    name(&["udp_dst"], &["NXM_OF_UDP_DST", "OXM_OF_UDP_DST"],
        (16, whole!(f::TP_DST, 16)), Decimal, Needs::Udp, WRITE_MASKED),
    name(&["sctp_src"], &["OXM_OF_SCTP_SRC"],
        (16, whole!(f::TP_SRC, 16)), Decimal, Needs::Sctp, WRITE_MASKED),
    name(&["sctp_dst"], &["OXM_OF_SCTP_DST"],
        (16, whole!(f::TP_DST, 16)), Decimal, Needs::Sctp, WRITE_MASKED),
    name(&["tcp_flags"], &["NXM_NX_TCP_FLAGS", "OXM_OF_TCP_FLAGS", "ONFOXM_ET_TCP_FLAGS"],
        (12, whole!(f::TCP_FLAGS, 12)), TcpFlags, Needs::Tcp, READ_MASKED),
    name(&["icmp_type"], &["NXM_OF_ICMP_TYPE", "OXM_OF_ICMPV4_TYPE"],
        (8, whole!(f::ICMP_TYPE, 8)), Decimal, Needs::Icmp, WRITE),
    name(&["icmp_code"], &["NXM_OF_ICMP_CODE", "OXM_OF_ICMPV4_CODE"],
        (8, whole!(f::ICMP_CODE, 8)), Decimal, Needs::Icmp, WRITE),
    name(&["icmpv6_type"], &["NXM_NX_ICMPV6_TYPE", "OXM_OF_ICMPV6_TYPE"],
        (8, whole!(f::ICMP_TYPE, 8)), Decimal, Needs::Icmpv6, WRITE),
    name(&["icmpv6_code"], &["NXM_NX_ICMPV6_CODE", "OXM_OF_ICMPV6_CODE"],
        (8, whole!(f::ICMP_CODE, 8)), Decimal, Needs::Icmpv6, WRITE),
    name(&["nd_target"], &["NXM_NX_ND_TARGET", "OXM_OF_IPV6_ND_TARGET"],
        (128, whole!(f::ND_TARGET, 128)), Ipv6, Needs::Nd, WRITE_MASKED),
    name(&["nd_sll"], &["NXM_NX_ND_SLL", "OXM_OF_IPV6_ND_SLL"],
        (48, whole!(f::ND_SLL, 48)), Ethernet, Needs::NdSolicitation, WRITE_MASKED),
    name(&["nd_tll"], &["NXM_NX_ND_TLL", "OXM_OF_IPV6_ND_TLL"],
        (48, whole!(f::ND_TLL, 48)), Ethernet, Needs::NdAdvertisement, WRITE_MASKED),
];

const fn register(
    names: &'static [&'static str],
    codes: &'static [&'static str],
    width_bits: u16,
    pieces: &'static [Piece],
) -> Name {
    name(
        names,
        codes,
        (width_bits, pieces),
        Hexadecimal,
        Nothing,
        WRITE_MASKED,
    )
}

macro_rules! registers {
    ($($number:literal)*) => {
        [$(register(
            &[concat!("reg", $number)],
            &[concat!("NXM_NX_REG", $number)],
            32,
            const { &[piece(f::register_field($number), 0, 0, 32)] },
        )),*]
    };
}

/// `xreg0` is `reg0` above `reg1`, and so on.
macro_rules! double_registers {
    ($($number:literal)*) => {
        [$(register(
            &[concat!("xreg", $number)],
            &[concat!("OXM_OF_PKT_REG", $number)],
            64,
            const {
                &[
                    piece(f::register_field(2 * $number + 1), 0, 0, 32),
                    piece(f::register_field(2 * $number), 0, 32, 32),
                ]
            },
        )),*]
    };
}

/// `xxreg0` is `reg0` above `reg1` above `reg2` above `reg3`, and so on.
macro_rules! quadruple_registers {
    ($($number:literal)*) => {
        [$(register(
            &[concat!("xxreg", $number)],
            &[concat!("NXM_NX_XXREG", $number)],
            128,
            const {
                &[
                    piece(f::register_field(4 * $number + 3), 0, 0, 32),
                    piece(f::register_field(4 * $number + 2), 0, 32, 32),
                    piece(f::register_field(4 * $number + 1), 0, 64, 32),
                    piece(f::register_field(4 * $number), 0, 96, 32),
                ]
            },
        )),*]
    };
}

/// Open vSwitch's option fields have 124 bytes, of which the lowest 16 are here.
macro_rules! tunnel_options {
    ($($number:literal)*) => {
        [$(register(
            &[concat!("tun_metadata", $number)],
            &[concat!("NXM_NX_TUN_METADATA", $number)],
            128,
            const { &[piece(f::tunnel_option_field($number), 0, 0, 128)] },
        )),*]
    };
}

static TUNNEL_OPTIONS: [Name; 64] = tunnel_options!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
);
static REGS: [Name; 16] = registers!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
static XREGS: [Name; 8] = double_registers!(0 1 2 3 4 5 6 7);
static XXREGS: [Name; 4] = quadruple_registers!(0 1 2 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_has_two_meanings() {
        for pair in INDEX.windows(2) {
            assert_ne!(pair[0].0, pair[1].0, "two fields of one name");
        }
        assert!(
            INDEX
                .iter()
                .all(|entry| !is_missing(entry.0) || find(entry.0).is_some())
        );
    }

    #[test]
    fn every_catalogue_field_a_rule_can_match_has_a_name() {
        let nameless: Vec<String> = f::fields()
            .iter()
            .enumerate()
            .filter(|(index, _)| name_of(FieldId(*index as u16)).is_none())
            .map(|(_, field)| field.name.to_string())
            .filter(|name| !name.starts_with("present:"))
            .collect();
        let for_caches = [
            "tun_options",
            "vlan_tci_inner",
            "mpls_lse1",
            "mpls_lse2",
            "nw_ttl_above_1",
        ];
        assert_eq!(nameless, for_caches);
    }

    #[test]
    fn pieces_cover_their_names() {
        for (spelling, name) in INDEX.iter() {
            let bits: u16 = name.pieces.iter().map(|piece| piece.width_bits).sum();
            // The other bits are zero in every packet.
            let unused = match name.primary() {
                "nw_tos" => 2,
                "ct_state" => 24,
                _ => 0,
            };
            assert_eq!(bits, name.width_bits - unused, "{spelling}");
        }
        assert_eq!(find("xxreg1").expect("known").pieces[3].field, f::REG4);
        assert_eq!(
            wide_register(f::REG4, 4).expect("aligned").primary(),
            "xxreg1"
        );
        assert_eq!(wide_register(f::REG1, 2), None);
    }
}
