//! The list of fields.
//!
//! A row has name, bits, bytes on the wire, whether a match may mask it, whether actions may
//! write it, what it needs of the rest of the match, and its numbers: class, number, first
//! version, from the oldest to the newest. Fields stand after those that they need.
//!
//! Names, numbers and properties: OpenFlow 1.5.1, table 12, and Open vSwitch, `ovs-fields(7)`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::Class::{self, Ericsson, Nxm0, Nxm1, Oxm, PacketRegisters};
use super::Needs::*;
use super::{FieldId, Row};
use crate::version::Version::{V10, V12, V13, V15};

const ONF_CLASS: Class = Class::Experimenter(crate::ONF);
const NICIRA_CLASS: Class = Class::Experimenter(crate::NICIRA);
const NSH_CLASS: Class = Class::Experimenter(0x005a_d650);

macro_rules! fields {
    ($($constant:ident: $name:literal, $bits:literal, $bytes:literal, $maskable:literal,
        $writable:literal, $needs:ident, [$($number:expr),+];)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Position { $($constant),* }
        impl FieldId {
            $(
                #[doc = concat!("`", $name, "`.")]
                pub const $constant: FieldId = FieldId(Position::$constant as u16);
            )*
        }
        /// The rows, in the order of the constants.
        pub(super) static ROWS: &[Row] = &[$(Row {
            name: $name,
            width_bits: $bits,
            bytes: $bytes,
            is_maskable: $maskable,
            is_writable: $writable,
            needs: $needs,
            numbers: &[$($number),+],
        }),*];
    };
}

/// The place of each number's field in the list.
static PLACES: LazyLock<HashMap<(Class, u8), FieldId>> = LazyLock::new(|| {
    let numbers = |(place, row): (usize, &'static Row)| {
        let numbers = row.numbers.iter();
        numbers.map(move |number| ((number.0, number.1), FieldId(place as u16)))
    };
    ROWS.iter().enumerate().flat_map(numbers).collect()
});

/// The field with a number.
pub(super) fn find(class: Class, number: u8) -> Option<FieldId> {
    PLACES.get(&(class, number)).copied()
}

fields! {
    DP_HASH: "dp_hash", 32, 4, true, false, Nothing, [(Nxm1, 35, V10), (NICIRA_CLASS, 0, V10)];
    RECIRC_ID: "recirc_id", 32, 4, false, false, Nothing, [(Nxm1, 36, V10)];
    PACKET_TYPE: "packet_type", 32, 4, false, false, Nothing, [(Oxm, 44, V15)];
    CONJ_ID: "conj_id", 32, 4, false, false, Nothing, [(Nxm1, 37, V10)];
    TUN_ID: "tun_id", 64, 8, true, true, Nothing, [(Nxm1, 16, V10), (Oxm, 38, V13)];
    TUN_SRC: "tun_src", 32, 4, true, true, Nothing, [(Nxm1, 31, V10)];
    TUN_DST: "tun_dst", 32, 4, true, true, Nothing, [(Nxm1, 32, V10)];
    TUN_IPV6_SRC: "tun_ipv6_src", 128, 16, true, true, Nothing, [(Nxm1, 109, V10)];
    TUN_IPV6_DST: "tun_ipv6_dst", 128, 16, true, true, Nothing, [(Nxm1, 110, V10)];
    TUN_FLAGS: "tun_flags", 1, 2, true, true, Nothing, [(Nxm1, 104, V10)];
    TUN_GBP_ID: "tun_gbp_id", 16, 2, true, true, Nothing, [(Nxm1, 38, V10)];
    TUN_GBP_FLAGS: "tun_gbp_flags", 8, 1, true, true, Nothing, [(Nxm1, 39, V10)];
    TUN_ERSPAN_IDX: "tun_erspan_idx", 20, 4, true, true, Nothing, [(NICIRA_CLASS, 11, V10)];
    TUN_ERSPAN_VER: "tun_erspan_ver", 4, 1, true, true, Nothing, [(NICIRA_CLASS, 12, V10)];
    TUN_ERSPAN_DIR: "tun_erspan_dir", 1, 1, true, true, Nothing, [(NICIRA_CLASS, 13, V10)];
    TUN_ERSPAN_HWID: "tun_erspan_hwid", 6, 1, true, true, Nothing, [(NICIRA_CLASS, 14, V10)];
    TUN_GTPU_FLAGS: "tun_gtpu_flags", 8, 1, true, false, Nothing, [(NICIRA_CLASS, 15, V10)];
    TUN_GTPU_MSGTYPE: "tun_gtpu_msgtype", 8, 1, true, false, Nothing, [(NICIRA_CLASS, 16, V10)];
    TUN_METADATA0: "tun_metadata0", 992, 124, true, true, Nothing, [(Nxm1, 40, V10)];
    TUN_METADATA1: "tun_metadata1", 992, 124, true, true, Nothing, [(Nxm1, 41, V10)];
    TUN_METADATA2: "tun_metadata2", 992, 124, true, true, Nothing, [(Nxm1, 42, V10)];
    TUN_METADATA3: "tun_metadata3", 992, 124, true, true, Nothing, [(Nxm1, 43, V10)];
    TUN_METADATA4: "tun_metadata4", 992, 124, true, true, Nothing, [(Nxm1, 44, V10)];
    TUN_METADATA5: "tun_metadata5", 992, 124, true, true, Nothing, [(Nxm1, 45, V10)];
    TUN_METADATA6: "tun_metadata6", 992, 124, true, true, Nothing, [(Nxm1, 46, V10)];
    TUN_METADATA7: "tun_metadata7", 992, 124, true, true, Nothing, [(Nxm1, 47, V10)];
    TUN_METADATA8: "tun_metadata8", 992, 124, true, true, Nothing, [(Nxm1, 48, V10)];
    TUN_METADATA9: "tun_metadata9", 992, 124, true, true, Nothing, [(Nxm1, 49, V10)];
    TUN_METADATA10: "tun_metadata10", 992, 124, true, true, Nothing, [(Nxm1, 50, V10)];
    TUN_METADATA11: "tun_metadata11", 992, 124, true, true, Nothing, [(Nxm1, 51, V10)];
    TUN_METADATA12: "tun_metadata12", 992, 124, true, true, Nothing, [(Nxm1, 52, V10)];
    TUN_METADATA13: "tun_metadata13", 992, 124, true, true, Nothing, [(Nxm1, 53, V10)];
    TUN_METADATA14: "tun_metadata14", 992, 124, true, true, Nothing, [(Nxm1, 54, V10)];
    TUN_METADATA15: "tun_metadata15", 992, 124, true, true, Nothing, [(Nxm1, 55, V10)];
    TUN_METADATA16: "tun_metadata16", 992, 124, true, true, Nothing, [(Nxm1, 56, V10)];
    TUN_METADATA17: "tun_metadata17", 992, 124, true, true, Nothing, [(Nxm1, 57, V10)];
    TUN_METADATA18: "tun_metadata18", 992, 124, true, true, Nothing, [(Nxm1, 58, V10)];
    TUN_METADATA19: "tun_metadata19", 992, 124, true, true, Nothing, [(Nxm1, 59, V10)];
    TUN_METADATA20: "tun_metadata20", 992, 124, true, true, Nothing, [(Nxm1, 60, V10)];
    TUN_METADATA21: "tun_metadata21", 992, 124, true, true, Nothing, [(Nxm1, 61, V10)];
    TUN_METADATA22: "tun_metadata22", 992, 124, true, true, Nothing, [(Nxm1, 62, V10)];
    TUN_METADATA23: "tun_metadata23", 992, 124, true, true, Nothing, [(Nxm1, 63, V10)];
    TUN_METADATA24: "tun_metadata24", 992, 124, true, true, Nothing, [(Nxm1, 64, V10)];
    TUN_METADATA25: "tun_metadata25", 992, 124, true, true, Nothing, [(Nxm1, 65, V10)];
    TUN_METADATA26: "tun_metadata26", 992, 124, true, true, Nothing, [(Nxm1, 66, V10)];
    TUN_METADATA27: "tun_metadata27", 992, 124, true, true, Nothing, [(Nxm1, 67, V10)];
    TUN_METADATA28: "tun_metadata28", 992, 124, true, true, Nothing, [(Nxm1, 68, V10)];
    TUN_METADATA29: "tun_metadata29", 992, 124, true, true, Nothing, [(Nxm1, 69, V10)];
    TUN_METADATA30: "tun_metadata30", 992, 124, true, true, Nothing, [(Nxm1, 70, V10)];
    TUN_METADATA31: "tun_metadata31", 992, 124, true, true, Nothing, [(Nxm1, 71, V10)];
    TUN_METADATA32: "tun_metadata32", 992, 124, true, true, Nothing, [(Nxm1, 72, V10)];
    TUN_METADATA33: "tun_metadata33", 992, 124, true, true, Nothing, [(Nxm1, 73, V10)];
    TUN_METADATA34: "tun_metadata34", 992, 124, true, true, Nothing, [(Nxm1, 74, V10)];
    TUN_METADATA35: "tun_metadata35", 992, 124, true, true, Nothing, [(Nxm1, 75, V10)];
    TUN_METADATA36: "tun_metadata36", 992, 124, true, true, Nothing, [(Nxm1, 76, V10)];
    TUN_METADATA37: "tun_metadata37", 992, 124, true, true, Nothing, [(Nxm1, 77, V10)];
    TUN_METADATA38: "tun_metadata38", 992, 124, true, true, Nothing, [(Nxm1, 78, V10)];
    TUN_METADATA39: "tun_metadata39", 992, 124, true, true, Nothing, [(Nxm1, 79, V10)];
    TUN_METADATA40: "tun_metadata40", 992, 124, true, true, Nothing, [(Nxm1, 80, V10)];
    TUN_METADATA41: "tun_metadata41", 992, 124, true, true, Nothing, [(Nxm1, 81, V10)];
    TUN_METADATA42: "tun_metadata42", 992, 124, true, true, Nothing, [(Nxm1, 82, V10)];
    TUN_METADATA43: "tun_metadata43", 992, 124, true, true, Nothing, [(Nxm1, 83, V10)];
    TUN_METADATA44: "tun_metadata44", 992, 124, true, true, Nothing, [(Nxm1, 84, V10)];
    TUN_METADATA45: "tun_metadata45", 992, 124, true, true, Nothing, [(Nxm1, 85, V10)];
    TUN_METADATA46: "tun_metadata46", 992, 124, true, true, Nothing, [(Nxm1, 86, V10)];
    TUN_METADATA47: "tun_metadata47", 992, 124, true, true, Nothing, [(Nxm1, 87, V10)];
    TUN_METADATA48: "tun_metadata48", 992, 124, true, true, Nothing, [(Nxm1, 88, V10)];
    TUN_METADATA49: "tun_metadata49", 992, 124, true, true, Nothing, [(Nxm1, 89, V10)];
    TUN_METADATA50: "tun_metadata50", 992, 124, true, true, Nothing, [(Nxm1, 90, V10)];
    TUN_METADATA51: "tun_metadata51", 992, 124, true, true, Nothing, [(Nxm1, 91, V10)];
    TUN_METADATA52: "tun_metadata52", 992, 124, true, true, Nothing, [(Nxm1, 92, V10)];
    TUN_METADATA53: "tun_metadata53", 992, 124, true, true, Nothing, [(Nxm1, 93, V10)];
    TUN_METADATA54: "tun_metadata54", 992, 124, true, true, Nothing, [(Nxm1, 94, V10)];
    TUN_METADATA55: "tun_metadata55", 992, 124, true, true, Nothing, [(Nxm1, 95, V10)];
    TUN_METADATA56: "tun_metadata56", 992, 124, true, true, Nothing, [(Nxm1, 96, V10)];
    TUN_METADATA57: "tun_metadata57", 992, 124, true, true, Nothing, [(Nxm1, 97, V10)];
    TUN_METADATA58: "tun_metadata58", 992, 124, true, true, Nothing, [(Nxm1, 98, V10)];
    TUN_METADATA59: "tun_metadata59", 992, 124, true, true, Nothing, [(Nxm1, 99, V10)];
    TUN_METADATA60: "tun_metadata60", 992, 124, true, true, Nothing, [(Nxm1, 100, V10)];
    TUN_METADATA61: "tun_metadata61", 992, 124, true, true, Nothing, [(Nxm1, 101, V10)];
    TUN_METADATA62: "tun_metadata62", 992, 124, true, true, Nothing, [(Nxm1, 102, V10)];
    TUN_METADATA63: "tun_metadata63", 992, 124, true, true, Nothing, [(Nxm1, 103, V10)];
    METADATA: "metadata", 64, 8, true, true, Nothing, [(Oxm, 2, V12)];
    IN_PORT: "in_port", 16, 2, false, true, Nothing, [(Nxm0, 0, V10)];
    IN_PORT_OXM: "in_port_oxm", 32, 4, false, true, Nothing, [(Oxm, 0, V12)];
    ACTSET_OUTPUT: "actset_output", 32, 4, false, false, Nothing,
        [(ONF_CLASS, 43, V13), (Oxm, 43, V15)];
    PKT_MARK: "pkt_mark", 32, 4, true, true, Nothing, [(Nxm1, 33, V10)];
    CT_STATE: "ct_state", 32, 4, true, false, Nothing, [(Nxm1, 105, V10)];
    CT_ZONE: "ct_zone", 16, 2, false, false, Nothing, [(Nxm1, 106, V10)];
    CT_MARK: "ct_mark", 32, 4, true, true, Nothing, [(Nxm1, 107, V10)];
    CT_LABEL: "ct_label", 128, 16, true, true, Nothing, [(Nxm1, 108, V10)];
    CT_NW_PROTO: "ct_nw_proto", 8, 1, false, false, Ct, [(Nxm1, 119, V10)];
    CT_NW_SRC: "ct_nw_src", 32, 4, true, false, Ct, [(Nxm1, 120, V10)];
    CT_NW_DST: "ct_nw_dst", 32, 4, true, false, Ct, [(Nxm1, 121, V10)];
    CT_IPV6_SRC: "ct_ipv6_src", 128, 16, true, false, Ct, [(Nxm1, 122, V10)];
    CT_IPV6_DST: "ct_ipv6_dst", 128, 16, true, false, Ct, [(Nxm1, 123, V10)];
    CT_TP_SRC: "ct_tp_src", 16, 2, true, false, Ct, [(Nxm1, 124, V10)];
    CT_TP_DST: "ct_tp_dst", 16, 2, true, false, Ct, [(Nxm1, 125, V10)];
    REG0: "reg0", 32, 4, true, true, Nothing, [(Nxm1, 0, V10)];
    REG1: "reg1", 32, 4, true, true, Nothing, [(Nxm1, 1, V10)];
    REG2: "reg2", 32, 4, true, true, Nothing, [(Nxm1, 2, V10)];
    REG3: "reg3", 32, 4, true, true, Nothing, [(Nxm1, 3, V10)];
    REG4: "reg4", 32, 4, true, true, Nothing, [(Nxm1, 4, V10)];
    REG5: "reg5", 32, 4, true, true, Nothing, [(Nxm1, 5, V10)];
    REG6: "reg6", 32, 4, true, true, Nothing, [(Nxm1, 6, V10)];
    REG7: "reg7", 32, 4, true, true, Nothing, [(Nxm1, 7, V10)];
    REG8: "reg8", 32, 4, true, true, Nothing, [(Nxm1, 8, V10)];
    REG9: "reg9", 32, 4, true, true, Nothing, [(Nxm1, 9, V10)];
    REG10: "reg10", 32, 4, true, true, Nothing, [(Nxm1, 10, V10)];
    REG11: "reg11", 32, 4, true, true, Nothing, [(Nxm1, 11, V10)];
    REG12: "reg12", 32, 4, true, true, Nothing, [(Nxm1, 12, V10)];
    REG13: "reg13", 32, 4, true, true, Nothing, [(Nxm1, 13, V10)];
    REG14: "reg14", 32, 4, true, true, Nothing, [(Nxm1, 14, V10)];
    REG15: "reg15", 32, 4, true, true, Nothing, [(Nxm1, 15, V10)];
    XREG0: "xreg0", 64, 8, true, true, Nothing, [(PacketRegisters, 0, V13)];
    XREG1: "xreg1", 64, 8, true, true, Nothing, [(PacketRegisters, 1, V13)];
    XREG2: "xreg2", 64, 8, true, true, Nothing, [(PacketRegisters, 2, V13)];
    XREG3: "xreg3", 64, 8, true, true, Nothing, [(PacketRegisters, 3, V13)];
    XREG4: "xreg4", 64, 8, true, true, Nothing, [(PacketRegisters, 4, V13)];
    XREG5: "xreg5", 64, 8, true, true, Nothing, [(PacketRegisters, 5, V13)];
    XREG6: "xreg6", 64, 8, true, true, Nothing, [(PacketRegisters, 6, V13)];
    XREG7: "xreg7", 64, 8, true, true, Nothing, [(PacketRegisters, 7, V13)];
    XXREG0: "xxreg0", 128, 16, true, true, Nothing, [(Nxm1, 111, V10)];
    XXREG1: "xxreg1", 128, 16, true, true, Nothing, [(Nxm1, 112, V10)];
    XXREG2: "xxreg2", 128, 16, true, true, Nothing, [(Nxm1, 113, V10)];
    XXREG3: "xxreg3", 128, 16, true, true, Nothing, [(Nxm1, 114, V10)];
    ETH_SRC: "eth_src", 48, 6, true, true, Ethernet, [(Nxm0, 2, V10), (Oxm, 4, V12)];
    ETH_DST: "eth_dst", 48, 6, true, true, Ethernet, [(Nxm0, 1, V10), (Oxm, 3, V12)];
    ETH_TYPE: "eth_type", 16, 2, false, false, Ethernet, [(Nxm0, 3, V10), (Oxm, 5, V12)];
    VLAN_TCI: "vlan_tci", 16, 2, true, true, Ethernet, [(Nxm0, 4, V10)];
    VLAN_VID: "vlan_vid", 13, 2, true, true, Ethernet, [(Oxm, 6, V12)];
    VLAN_PCP: "vlan_pcp", 3, 1, false, true, Vlan, [(Oxm, 7, V12)];
    MPLS_LABEL: "mpls_label", 20, 4, false, true, Mpls, [(Oxm, 34, V12)];
    MPLS_TC: "mpls_tc", 3, 1, false, true, Mpls, [(Oxm, 35, V12)];
    MPLS_BOS: "mpls_bos", 1, 1, false, false, Mpls, [(Oxm, 36, V13)];
    MPLS_TTL: "mpls_ttl", 8, 1, false, true, Mpls, [(Nxm1, 30, V10)];
    IP_SRC: "ip_src", 32, 4, true, true, Ipv4, [(Nxm0, 7, V10), (Oxm, 11, V12)];
    IP_DST: "ip_dst", 32, 4, true, true, Ipv4, [(Nxm0, 8, V10), (Oxm, 12, V12)];
    IPV6_SRC: "ipv6_src", 128, 16, true, true, Ipv6, [(Nxm1, 19, V10), (Oxm, 26, V12)];
    IPV6_DST: "ipv6_dst", 128, 16, true, true, Ipv6, [(Nxm1, 20, V10), (Oxm, 27, V12)];
    IPV6_LABEL: "ipv6_label", 20, 4, true, true, Ipv6, [(Nxm1, 27, V10), (Oxm, 28, V12)];
    NW_PROTO: "nw_proto", 8, 1, false, false, Ip, [(Nxm0, 6, V10), (Oxm, 10, V12)];
    NW_TOS: "nw_tos", 8, 1, false, true, Ip, [(Nxm0, 5, V10)];
    IP_DSCP: "ip_dscp", 6, 1, false, true, Ip, [(Oxm, 8, V12)];
    NW_ECN: "nw_ecn", 2, 1, false, true, Ip, [(Nxm1, 28, V10), (Oxm, 9, V12)];
    NW_TTL: "nw_ttl", 8, 1, false, true, Ip, [(Nxm1, 29, V10)];
    IP_FRAG: "ip_frag", 2, 1, true, false, Ip, [(Nxm1, 26, V10)];
    ARP_OP: "arp_op", 16, 2, false, true, Arp, [(Nxm0, 15, V10), (Oxm, 21, V12)];
    ARP_SPA: "arp_spa", 32, 4, true, true, Arp, [(Nxm0, 16, V10), (Oxm, 22, V12)];
    ARP_TPA: "arp_tpa", 32, 4, true, true, Arp, [(Nxm0, 17, V10), (Oxm, 23, V12)];
    ARP_SHA: "arp_sha", 48, 6, true, true, Arp, [(Nxm1, 17, V10), (Oxm, 24, V12)];
    ARP_THA: "arp_tha", 48, 6, true, true, Arp, [(Nxm1, 18, V10), (Oxm, 25, V12)];
    TCP_SRC: "tcp_src", 16, 2, true, true, Tcp, [(Nxm0, 9, V10), (Oxm, 13, V12)];
    TCP_DST: "tcp_dst", 16, 2, true, true, Tcp, [(Nxm0, 10, V10), (Oxm, 14, V12)];
    TCP_FLAGS: "tcp_flags", 12, 2, true, false, Tcp,
        [(Nxm1, 34, V10), (ONF_CLASS, 42, V13), (Oxm, 42, V15)];
    UDP_SRC: "udp_src", 16, 2, true, true, Udp, [(Nxm0, 11, V10), (Oxm, 15, V12)];
    UDP_DST: "udp_dst", 16, 2, true, true, Udp, [(Nxm0, 12, V10), (Oxm, 16, V12)];
    SCTP_SRC: "sctp_src", 16, 2, true, true, Sctp, [(Oxm, 17, V12)];
    SCTP_DST: "sctp_dst", 16, 2, true, true, Sctp, [(Oxm, 18, V12)];
    ICMP_TYPE: "icmp_type", 8, 1, false, true, Icmpv4, [(Nxm0, 13, V10), (Oxm, 19, V12)];
    ICMP_CODE: "icmp_code", 8, 1, false, true, Icmpv4, [(Nxm0, 14, V10), (Oxm, 20, V12)];
    ICMPV6_TYPE: "icmpv6_type", 8, 1, false, true, Icmpv6, [(Nxm1, 21, V10), (Oxm, 29, V12)];
    ICMPV6_CODE: "icmpv6_code", 8, 1, false, true, Icmpv6, [(Nxm1, 22, V10), (Oxm, 30, V12)];
    ND_TARGET: "nd_target", 128, 16, true, true, Nd, [(Nxm1, 23, V10), (Oxm, 31, V12)];
    ND_SLL: "nd_sll", 48, 6, true, true, NdSolicit, [(Nxm1, 24, V10), (Oxm, 32, V12)];
    ND_TLL: "nd_tll", 48, 6, true, true, NdAdvert, [(Nxm1, 25, V10), (Oxm, 33, V12)];
    ND_RESERVED: "nd_reserved", 32, 4, false, true, Nd, [(Ericsson, 1, V10)];
    ND_OPTIONS_TYPE: "nd_options_type", 8, 1, false, true, Nd, [(Ericsson, 2, V10)];
    NSH_FLAGS: "nsh_flags", 8, 1, true, true, Nsh, [(NSH_CLASS, 1, V10)];
    NSH_MDTYPE: "nsh_mdtype", 8, 1, false, false, Nsh, [(NSH_CLASS, 2, V10)];
    NSH_NP: "nsh_np", 8, 1, false, false, Nsh, [(NSH_CLASS, 3, V10)];
    NSH_SPI: "nsh_spi", 24, 4, false, true, Nsh, [(NSH_CLASS, 4, V10)];
    NSH_SI: "nsh_si", 8, 1, false, true, Nsh, [(NSH_CLASS, 5, V10)];
    NSH_C1: "nsh_c1", 32, 4, true, true, Nsh, [(NSH_CLASS, 6, V10)];
    NSH_C2: "nsh_c2", 32, 4, true, true, Nsh, [(NSH_CLASS, 7, V10)];
    NSH_C3: "nsh_c3", 32, 4, true, true, Nsh, [(NSH_CLASS, 8, V10)];
    NSH_C4: "nsh_c4", 32, 4, true, true, Nsh, [(NSH_CLASS, 9, V10)];
    NSH_TTL: "nsh_ttl", 8, 1, false, true, Nsh, [(NSH_CLASS, 10, V10)];
}
