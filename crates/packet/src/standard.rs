//! The catalogue of protocol fields, and of the headers they lie in.
//!
//! These are the fields of the OpenFlow 1.5 match (sections 7.2.3.7 and 7.2.3.8) up to L4,
//! plus Open vSwitch's registers, under the names that `ovs-ofctl` prints. Where OpenFlow
//! leaves room, the reading is Open vSwitch's: a field whose header is absent is zero. TCP,
//! UDP and SCTP ports are one field, and so are the types of ICMP and ICMPv6, because a match
//! on them always names the protocol too.
//!
//! The catalogue also has fields that only actions read, and that no rule can name:
//!
//! - the *presence bits* (`present:ipv4`), so that a cached write never hits a packet without
//!   that header;
//! - `nw_ttl_above_1`, the guard of `dec_ttl`, so that one cache entry serves every TTL that
//!   can be decremented.

use std::borrow::Cow;

use crate::field::{
    FieldDescriptor, FieldId, HeaderId, Intrinsic, Location, Scalar, Source, Stage,
};
use crate::tunnel_part::{TUNNEL_OPTIONS, TunnelPart};

/// The headers that the standard parser looks for.
pub mod header {
    use crate::field::HeaderId;

    macro_rules! headers {
        ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Position { $($name),*, COUNT }
            $($(#[$doc])* pub const $name: HeaderId = HeaderId(Position::$name as u8);)*
            /// The number of headers that the standard parser knows.
            pub const COUNT: usize = Position::COUNT as usize;
        };
    }

    headers! {
        /// Ethernet addresses (IEEE 802.3 clause 3.2).
        ETHERNET,
        /// The outer VLAN tag: TPID and TCI (IEEE 802.1Q clause 9).
        VLAN_OUTER,
        /// The second VLAN tag.
        VLAN_INNER,
        /// The two bytes of the EtherType behind all parsed tags.
        ETHER_TYPE,
        /// The top MPLS label stack entry (RFC 3032, section 2.1).
        MPLS_0,
        /// The second entry.
        MPLS_1,
        /// The third entry.
        MPLS_2,
        /// The network service header (RFC 8300, section 2).
        NSH,
        /// The network service header again, but present only with four context headers (MD
        /// type 1).
        NSH_CONTEXT,
        /// ARP for IPv4 over Ethernet (RFC 826).
        ARP,
        /// IPv4 (RFC 791, section 3.1).
        IPV4,
        /// IPv6's fixed header (RFC 8200, section 3).
        IPV6,
        /// IPv6's fixed header again, but present only if the chain of extension headers is
        /// whole.
        IPV6_CHAIN,
        /// TCP (RFC 9293, section 3.1).
        TCP,
        /// UDP (RFC 768).
        UDP,
        /// SCTP's common header (RFC 9260, section 3.1).
        SCTP,
        /// ICMP (RFC 792).
        ICMPV4,
        /// ICMPv6 (RFC 4443, section 2.1).
        ICMPV6,
        /// The target of a neighbour solicitation or advertisement (RFC 4861, section 4.3).
        ND_TARGET,
        /// The address in a source link-layer address option (RFC 4861, section 4.6.1).
        ND_SLL,
        /// The address in a target link-layer address option.
        ND_TLL,
    }
}

const fn at(header: HeaderId, bit_offset: u16) -> Location {
    Location { header, bit_offset }
}

const fn wire(name: &'static str, width: u16, stage: Stage, at: &'static [Location]) -> Row {
    (name, width, stage, Source::Wire(Cow::Borrowed(at)))
}

const fn scalar(name: &'static str, width: u16, stage: Stage, scalar: Scalar) -> Row {
    (name, width, stage, Source::Scalar(scalar))
}

const fn given(name: &'static str, width: u16, what: Intrinsic) -> Row {
    (name, width, Stage::Metadata, Source::Intrinsic(what))
}

const fn option(name: &'static str, number: u8) -> Row {
    given(name, 128, Intrinsic::Tunnel(TunnelPart::Option(number)))
}

const fn register(name: &'static str, width: u16) -> Row {
    (name, width, Stage::Metadata, Source::Register)
}

const fn presence(name: &'static str, stage: Stage, header: HeaderId) -> Row {
    (name, 1, stage, Source::Presence(header))
}

type Row = (&'static str, u16, Stage, Source);

macro_rules! catalogue {
    ($($name:ident: $row:expr;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Position { $($name),* }
        $(
            #[doc = concat!("The catalogue's `", stringify!($name), "`.")]
            pub const $name: FieldId = FieldId(Position::$name as u16);
        )*
        static ROWS: &[Row] = &[$($row),*];
    };
}

use Stage::{Link, Network, Transport};
use TunnelPart as T;
use header as h;

const PORT_HEADERS_SOURCE: &[Location] = &[at(h::TCP, 0), at(h::UDP, 0), at(h::SCTP, 0)];
const PORT_HEADERS_DESTINATION: &[Location] = &[at(h::TCP, 16), at(h::UDP, 16), at(h::SCTP, 16)];

catalogue! {
    IN_PORT: given("in_port", 32, Intrinsic::InPort);
    RECIRC_ID: given("recirc_id", 32, Intrinsic::RecirculationId);
    TUN_ID: given("tun_id", 64, Intrinsic::Tunnel(T::Id));
    TUN_SRC: given("tun_src", 32, Intrinsic::Tunnel(T::Ipv4Source));
    TUN_DST: given("tun_dst", 32, Intrinsic::Tunnel(T::Ipv4Destination));
    TUN_IPV6_SRC: given("tun_ipv6_src", 128, Intrinsic::Tunnel(T::Ipv6Source));
    TUN_IPV6_DST: given("tun_ipv6_dst", 128, Intrinsic::Tunnel(T::Ipv6Destination));
    TUN_TOS: given("tun_tos", 8, Intrinsic::Tunnel(T::Tos));
    TUN_TTL: given("tun_ttl", 8, Intrinsic::Tunnel(T::Ttl));
    TUN_FLAGS: given("tun_flags", 1, Intrinsic::Tunnel(T::Flags));
    TUN_GBP_ID: given("tun_gbp_id", 16, Intrinsic::Tunnel(T::GroupPolicyId));
    TUN_GBP_FLAGS: given("tun_gbp_flags", 8, Intrinsic::Tunnel(T::GroupPolicyFlags));
    TUN_ERSPAN_VER: given("tun_erspan_ver", 4, Intrinsic::Tunnel(T::ErspanVersion));
    TUN_ERSPAN_IDX: given("tun_erspan_idx", 20, Intrinsic::Tunnel(T::ErspanIndex));
    TUN_ERSPAN_DIR: given("tun_erspan_dir", 1, Intrinsic::Tunnel(T::ErspanDirection));
    TUN_ERSPAN_HWID: given("tun_erspan_hwid", 6, Intrinsic::Tunnel(T::ErspanHardware));
    TUN_GTPU_FLAGS: given("tun_gtpu_flags", 8, Intrinsic::Tunnel(T::GtpuFlags));
    TUN_GTPU_MSGTYPE: given("tun_gtpu_msgtype", 8, Intrinsic::Tunnel(T::GtpuMessage));
    TUN_OPTIONS: given("tun_options", 64, Intrinsic::Tunnel(T::Options));
    TUN_METADATA0: option("tun_metadata0", 0);
    TUN_METADATA1: option("tun_metadata1", 1);
    TUN_METADATA2: option("tun_metadata2", 2);
    TUN_METADATA3: option("tun_metadata3", 3);
    TUN_METADATA4: option("tun_metadata4", 4);
    TUN_METADATA5: option("tun_metadata5", 5);
    TUN_METADATA6: option("tun_metadata6", 6);
    TUN_METADATA7: option("tun_metadata7", 7);
    TUN_METADATA8: option("tun_metadata8", 8);
    TUN_METADATA9: option("tun_metadata9", 9);
    TUN_METADATA10: option("tun_metadata10", 10);
    TUN_METADATA11: option("tun_metadata11", 11);
    TUN_METADATA12: option("tun_metadata12", 12);
    TUN_METADATA13: option("tun_metadata13", 13);
    TUN_METADATA14: option("tun_metadata14", 14);
    TUN_METADATA15: option("tun_metadata15", 15);
    TUN_METADATA16: option("tun_metadata16", 16);
    TUN_METADATA17: option("tun_metadata17", 17);
    TUN_METADATA18: option("tun_metadata18", 18);
    TUN_METADATA19: option("tun_metadata19", 19);
    TUN_METADATA20: option("tun_metadata20", 20);
    TUN_METADATA21: option("tun_metadata21", 21);
    TUN_METADATA22: option("tun_metadata22", 22);
    TUN_METADATA23: option("tun_metadata23", 23);
    TUN_METADATA24: option("tun_metadata24", 24);
    TUN_METADATA25: option("tun_metadata25", 25);
    TUN_METADATA26: option("tun_metadata26", 26);
    TUN_METADATA27: option("tun_metadata27", 27);
    TUN_METADATA28: option("tun_metadata28", 28);
    TUN_METADATA29: option("tun_metadata29", 29);
    TUN_METADATA30: option("tun_metadata30", 30);
    TUN_METADATA31: option("tun_metadata31", 31);
    TUN_METADATA32: option("tun_metadata32", 32);
    TUN_METADATA33: option("tun_metadata33", 33);
    TUN_METADATA34: option("tun_metadata34", 34);
    TUN_METADATA35: option("tun_metadata35", 35);
    TUN_METADATA36: option("tun_metadata36", 36);
    TUN_METADATA37: option("tun_metadata37", 37);
    TUN_METADATA38: option("tun_metadata38", 38);
    TUN_METADATA39: option("tun_metadata39", 39);
    TUN_METADATA40: option("tun_metadata40", 40);
    TUN_METADATA41: option("tun_metadata41", 41);
    TUN_METADATA42: option("tun_metadata42", 42);
    TUN_METADATA43: option("tun_metadata43", 43);
    TUN_METADATA44: option("tun_metadata44", 44);
    TUN_METADATA45: option("tun_metadata45", 45);
    TUN_METADATA46: option("tun_metadata46", 46);
    TUN_METADATA47: option("tun_metadata47", 47);
    TUN_METADATA48: option("tun_metadata48", 48);
    TUN_METADATA49: option("tun_metadata49", 49);
    TUN_METADATA50: option("tun_metadata50", 50);
    TUN_METADATA51: option("tun_metadata51", 51);
    TUN_METADATA52: option("tun_metadata52", 52);
    TUN_METADATA53: option("tun_metadata53", 53);
    TUN_METADATA54: option("tun_metadata54", 54);
    TUN_METADATA55: option("tun_metadata55", 55);
    TUN_METADATA56: option("tun_metadata56", 56);
    TUN_METADATA57: option("tun_metadata57", 57);
    TUN_METADATA58: option("tun_metadata58", 58);
    TUN_METADATA59: option("tun_metadata59", 59);
    TUN_METADATA60: option("tun_metadata60", 60);
    TUN_METADATA61: option("tun_metadata61", 61);
    TUN_METADATA62: option("tun_metadata62", 62);
    TUN_METADATA63: option("tun_metadata63", 63);
    CT_STATE: given("ct_state", 8, Intrinsic::ConnectionState);
    CT_ZONE: given("ct_zone", 16, Intrinsic::ConnectionZone);
    CT_MARK: given("ct_mark", 32, Intrinsic::ConnectionMark);
    CT_LABEL: given("ct_label", 128, Intrinsic::ConnectionLabel);
    CT_NW_SRC: given("ct_nw_src", 32, Intrinsic::ConnectionIpv4Source);
    CT_NW_DST: given("ct_nw_dst", 32, Intrinsic::ConnectionIpv4Destination);
    CT_IPV6_SRC: given("ct_ipv6_src", 128, Intrinsic::ConnectionIpv6Source);
    CT_IPV6_DST: given("ct_ipv6_dst", 128, Intrinsic::ConnectionIpv6Destination);
    CT_NW_PROTO: given("ct_nw_proto", 8, Intrinsic::ConnectionProtocol);
    CT_TP_SRC: given("ct_tp_src", 16, Intrinsic::ConnectionSourcePort);
    CT_TP_DST: given("ct_tp_dst", 16, Intrinsic::ConnectionDestinationPort);
    PKT_MARK: given("pkt_mark", 32, Intrinsic::PacketMark);
    DP_HASH: given("dp_hash", 32, Intrinsic::DatapathHash);
    PACKET_TYPE: given("packet_type", 32, Intrinsic::PacketType);
    METADATA: register("metadata", 64);
    REG0: register("reg0", 32);
    REG1: register("reg1", 32);
    REG2: register("reg2", 32);
    REG3: register("reg3", 32);
    REG4: register("reg4", 32);
    REG5: register("reg5", 32);
    REG6: register("reg6", 32);
    REG7: register("reg7", 32);
    REG8: register("reg8", 32);
    REG9: register("reg9", 32);
    REG10: register("reg10", 32);
    REG11: register("reg11", 32);
    REG12: register("reg12", 32);
    REG13: register("reg13", 32);
    REG14: register("reg14", 32);
    REG15: register("reg15", 32);
    CONJ_ID: register("conj_id", 32);
    ACTSET_OUTPUT: register("actset_output", 32);
    ETH_DST: wire("eth_dst", 48, Link, &[at(h::ETHERNET, 0)]);
    ETH_SRC: wire("eth_src", 48, Link, &[at(h::ETHERNET, 48)]);
    ETH_TYPE: scalar("eth_type", 16, Link, Scalar::EtherType);
    VLAN_TCI: scalar("vlan_tci", 16, Link, Scalar::VlanTci);
    VLAN_TCI_INNER: scalar("vlan_tci_inner", 16, Link, Scalar::VlanTciInner);
    MPLS_LABEL: wire("mpls_label", 20, Link, &[at(h::MPLS_0, 0)]);
    MPLS_TC: wire("mpls_tc", 3, Link, &[at(h::MPLS_0, 20)]);
    MPLS_BOS: wire("mpls_bos", 1, Link, &[at(h::MPLS_0, 23)]);
    MPLS_TTL: wire("mpls_ttl", 8, Link, &[at(h::MPLS_0, 24)]);
    MPLS_LSE1: wire("mpls_lse1", 32, Link, &[at(h::MPLS_1, 0)]);
    MPLS_LSE2: wire("mpls_lse2", 32, Link, &[at(h::MPLS_2, 0)]);
    NSH_FLAGS: wire("nsh_flags", 2, Network, &[at(h::NSH, 2)]);
    NSH_TTL: wire("nsh_ttl", 6, Network, &[at(h::NSH, 4)]);
    NSH_MDTYPE: wire("nsh_mdtype", 8, Network, &[at(h::NSH, 16)]);
    NSH_NP: wire("nsh_np", 8, Network, &[at(h::NSH, 24)]);
    NSH_SPI: wire("nsh_spi", 24, Network, &[at(h::NSH, 32)]);
    NSH_SI: wire("nsh_si", 8, Network, &[at(h::NSH, 56)]);
    NSH_C1: wire("nsh_c1", 32, Network, &[at(h::NSH_CONTEXT, 64)]);
    NSH_C2: wire("nsh_c2", 32, Network, &[at(h::NSH_CONTEXT, 96)]);
    NSH_C3: wire("nsh_c3", 32, Network, &[at(h::NSH_CONTEXT, 128)]);
    NSH_C4: wire("nsh_c4", 32, Network, &[at(h::NSH_CONTEXT, 160)]);
    IP_SRC: wire("nw_src", 32, Network, &[at(h::IPV4, 96)]);
    IP_DST: wire("nw_dst", 32, Network, &[at(h::IPV4, 128)]);
    IPV6_SRC: wire("ipv6_src", 128, Network, &[at(h::IPV6, 64)]);
    IPV6_DST: wire("ipv6_dst", 128, Network, &[at(h::IPV6, 192)]);
    IPV6_LABEL: wire("ipv6_label", 20, Network, &[at(h::IPV6_CHAIN, 12)]);
    IP_PROTO: scalar("nw_proto", 8, Network, Scalar::IpProtocol);
    IP_DSCP: wire("ip_dscp", 6, Network, &[at(h::IPV4, 8), at(h::IPV6_CHAIN, 4)]);
    IP_ECN: wire("nw_ecn", 2, Network, &[at(h::IPV4, 14), at(h::IPV6_CHAIN, 10)]);
    IP_TTL: wire("nw_ttl", 8, Network, &[at(h::IPV4, 64), at(h::IPV6_CHAIN, 56)]);
    IP_TTL_ABOVE_1: scalar("nw_ttl_above_1", 1, Network, Scalar::IpTtlAboveOne);
    IP_FRAG: scalar("ip_frag", 2, Network, Scalar::IpFragment);
    ARP_OP: scalar("arp_op", 16, Network, Scalar::ArpOperation);
    ARP_SPA: wire("arp_spa", 32, Network, &[at(h::ARP, 112)]);
    ARP_TPA: wire("arp_tpa", 32, Network, &[at(h::ARP, 192)]);
    ARP_SHA: wire("arp_sha", 48, Network, &[at(h::ARP, 64)]);
    ARP_THA: wire("arp_tha", 48, Network, &[at(h::ARP, 144)]);
    TP_SRC: wire("tp_src", 16, Transport, PORT_HEADERS_SOURCE);
    TP_DST: wire("tp_dst", 16, Transport, PORT_HEADERS_DESTINATION);
    TCP_FLAGS: wire("tcp_flags", 12, Transport, &[at(h::TCP, 100)]);
    ICMP_TYPE: wire("icmp_type", 8, Transport, &[at(h::ICMPV4, 0), at(h::ICMPV6, 0)]);
    ICMP_CODE: wire("icmp_code", 8, Transport, &[at(h::ICMPV4, 8), at(h::ICMPV6, 8)]);
    ND_TARGET: wire("nd_target", 128, Transport, &[at(h::ND_TARGET, 0)]);
    ND_SLL: wire("nd_sll", 48, Transport, &[at(h::ND_SLL, 0)]);
    ND_TLL: wire("nd_tll", 48, Transport, &[at(h::ND_TLL, 0)]);
    PRESENT_MPLS: presence("present:mpls", Link, h::MPLS_0);
    PRESENT_NSH: presence("present:nsh", Network, h::NSH);
    PRESENT_NSH_CONTEXT: presence("present:nsh_context", Network, h::NSH_CONTEXT);
    PRESENT_ARP: presence("present:arp", Network, h::ARP);
    PRESENT_IPV4: presence("present:ipv4", Network, h::IPV4);
    PRESENT_IPV6: presence("present:ipv6", Network, h::IPV6);
    PRESENT_IPV6_CHAIN: presence("present:ipv6_chain", Network, h::IPV6_CHAIN);
    PRESENT_TCP: presence("present:tcp", Transport, h::TCP);
    PRESENT_UDP: presence("present:udp", Transport, h::UDP);
    PRESENT_SCTP: presence("present:sctp", Transport, h::SCTP);
    PRESENT_ICMPV4: presence("present:icmp", Transport, h::ICMPV4);
    PRESENT_ICMPV6: presence("present:icmp6", Transport, h::ICMPV6);
    PRESENT_ND: presence("present:nd", Transport, h::ND_TARGET);
    PRESENT_ND_SLL: presence("present:nd_sll", Transport, h::ND_SLL);
    PRESENT_ND_TLL: presence("present:nd_tll", Transport, h::ND_TLL);
}

/// The register `reg0` to `reg15` with this number.
///
/// # Panics
/// If `number` is above 15.
pub const fn register_field(number: u16) -> FieldId {
    assert!(number < 16, "there are registers 0 to 15");
    FieldId(REG0.0 + number)
}

/// All fields but the options of tunnels, which are too many for one key.
pub fn all_but_options() -> impl Iterator<Item = FieldId> {
    let all = (0..ROWS.len() as u16).map(FieldId);
    all.filter(|field| tunnel_option_of(*field).is_none())
}

/// The value of a tunnel that a field is, if it is one.
pub fn tunnel_part(field: FieldId) -> Option<TunnelPart> {
    match ROWS.get(field.index())?.3 {
        Source::Intrinsic(Intrinsic::Tunnel(part)) => Some(part),
        _ => None,
    }
}

/// The field of a tunnel's option, `tun_metadata0` to `tun_metadata63`.
///
/// # Panics
/// If `number` is above 63.
pub const fn tunnel_option_field(number: u8) -> FieldId {
    assert!(number < TUNNEL_OPTIONS, "there are options 0 to 63");
    FieldId(TUN_METADATA0.0 + number as u16)
}

/// The option's number, if the field is one's.
pub const fn tunnel_option_of(field: FieldId) -> Option<u8> {
    match field.0.checked_sub(TUN_METADATA0.0) {
        Some(number) if number < TUNNEL_OPTIONS as u16 => Some(number as u8),
        _ => None,
    }
}

/// Stands for "no EtherType" in a frame (Open vSwitch's `FLOW_DL_TYPE_NONE`).
pub const ETHER_TYPE_NONE: u16 = 0x05ff;

/// Bit 12 of a VLAN field: the tag is present.
pub const VLAN_PRESENT: u16 = 0x1000;

/// The catalogue, in the order of the constants of this module.
pub fn fields() -> Vec<FieldDescriptor> {
    ROWS.iter()
        .map(|(name, width_bits, stage, source)| FieldDescriptor {
            name: Cow::Borrowed(name),
            width_bits: *width_bits,
            stage: *stage,
            source: source.clone(),
        })
        .collect()
}

/// The presence bit of `header`, if the catalogue has one.
///
/// VLAN tags have none: bit 12 of `vlan_tci` marks presence.
pub fn presence_of(header: HeaderId) -> Option<FieldId> {
    let is_it = |row: &Row| row.3 == Source::Presence(header);
    ROWS.iter()
        .position(is_it)
        .map(|index| FieldId(index as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_and_rows_agree() {
        let fields = fields();
        assert_eq!(fields[IN_PORT.index()].name, "in_port");
        assert_eq!(fields[register_field(15).index()].name, "reg15");
        assert_eq!(fields[ND_TLL.index()].name, "nd_tll");
        assert_eq!(fields[PRESENT_ND_TLL.index()].name, "present:nd_tll");
        assert_eq!(
            fields[tunnel_option_field(63).index()].name,
            "tun_metadata63"
        );
        assert_eq!(tunnel_option_of(TUN_METADATA63), Some(63));
        assert_eq!(tunnel_option_of(TUN_OPTIONS), None);
        assert_eq!(presence_of(header::ARP), Some(PRESENT_ARP));
        assert_eq!(presence_of(header::VLAN_OUTER), None);
    }
}
