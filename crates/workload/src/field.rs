//! The fields that generated rules match and write, with their names in `ovs-ofctl` syntax.
//!
//! This is a vocabulary for *text*: it knows how a value is written (a MAC address, a prefix,
//! a number), not its position in a packet. The switch has its own field descriptors.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A field of a packet or of its metadata.
///
/// The order is the order of the terms in a rule's text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Field {
    /// The input port, 32 bits; never masked.
    InPort,
    /// The OpenFlow metadata, 64 bits.
    Metadata,
    /// Register 0 to 15, 32 bits.
    Register(u8),
    /// The VLAN tag with the presence bit 0x1000, 16 bits; 0 when there is no tag.
    VlanTci,
    /// The VLAN identifier with the presence bit 0x1000; only written, never matched.
    VlanVid,
    /// Ethernet source.
    EthSrc,
    /// Ethernet destination.
    EthDst,
    /// EtherType; never masked.
    EthType,
    /// IPv4 source.
    IpSrc,
    /// IPv4 destination.
    IpDst,
    /// IPv6 source.
    Ipv6Src,
    /// IPv6 destination.
    Ipv6Dst,
    /// IPv4 or IPv6 protocol; never masked.
    IpProtocol,
    /// Differentiated services code point, 6 bits; never masked.
    IpDscp,
    /// Time to live, or hop limit.
    IpTtl,
    /// Bit 0: a fragment; bit 1: a fragment that is not the first.
    IpFragment,
    /// TCP source port.
    TcpSrc,
    /// TCP destination port.
    TcpDst,
    /// TCP flags, 12 bits.
    TcpFlags,
    /// UDP source port.
    UdpSrc,
    /// UDP destination port.
    UdpDst,
    /// ICMP type.
    IcmpType,
    /// ICMP code.
    IcmpCode,
    /// ICMPv6 type.
    Icmpv6Type,
    /// ICMPv6 code.
    Icmpv6Code,
    /// Target of an ICMPv6 neighbour message.
    NdTarget,
    /// Source link-layer address option of a neighbour solicitation.
    NdSll,
    /// Target link-layer address option of a neighbour advertisement.
    NdTll,
    /// ARP operation, low 8 bits.
    ArpOp,
    /// ARP sender protocol address.
    ArpSpa,
    /// ARP target protocol address.
    ArpTpa,
    /// ARP sender hardware address.
    ArpSha,
    /// MPLS label of the outermost entry, 20 bits.
    MplsLabel,
    /// MPLS traffic class of the outermost entry.
    MplsTc,
    /// Whether the outermost MPLS entry is the last.
    MplsBottom,
    /// Time to live of the outermost MPLS entry.
    MplsTtl,
    /// Explicit congestion notification, 2 bits.
    IpEcn,
    /// IPv6 flow label, 20 bits.
    Ipv6Label,
    /// ARP target hardware address.
    ArpTha,
    /// SCTP source port.
    SctpSrc,
    /// SCTP destination port.
    SctpDst,
    /// What a tracker says of the packet's connection: eight flags.
    CtState,
    /// The zone in which the packet was tracked; never masked.
    CtZone,
    /// The connection's mark.
    CtMark,
    /// The connection's label.
    CtLabel,
    /// IPv4 source of the connection's first packet.
    CtIpSrc,
    /// IPv4 destination of the connection's first packet.
    CtIpDst,
    /// IPv6 source of the connection's first packet.
    CtIpv6Src,
    /// IPv6 destination of the connection's first packet.
    CtIpv6Dst,
    /// Protocol of the connection; never masked.
    CtIpProtocol,
    /// Source port of the connection's first packet.
    CtPortSrc,
    /// Destination port of the connection's first packet.
    CtPortDst,
    /// The conjunctive match of which a packet has all clauses; never masked, never written.
    ConjId,
    /// The packet's mark.
    PacketMark,
    /// The other end of the tunnel; only written, never matched.
    TunnelDst,
    /// The port of an output in the action set; never masked, never written.
    SetOutput,
}

impl Field {
    /// The width in bits.
    pub const fn width_bits(self) -> u32 {
        match self {
            Field::Metadata => 64,
            Field::InPort | Field::Register(_) | Field::IpSrc | Field::IpDst => 32,
            Field::ArpSpa | Field::ArpTpa => 32,
            Field::CtMark | Field::CtIpSrc | Field::CtIpDst | Field::ConjId => 32,
            Field::PacketMark | Field::SetOutput | Field::TunnelDst => 32,
            Field::EthSrc | Field::EthDst | Field::NdSll | Field::NdTll => 48,
            Field::ArpSha | Field::ArpTha => 48,
            Field::Ipv6Src | Field::Ipv6Dst | Field::NdTarget => 128,
            Field::CtLabel | Field::CtIpv6Src | Field::CtIpv6Dst => 128,
            Field::VlanTci | Field::EthType | Field::ArpOp => 16,
            Field::TcpSrc | Field::TcpDst | Field::UdpSrc | Field::UdpDst => 16,
            Field::SctpSrc | Field::SctpDst => 16,
            Field::CtZone | Field::CtPortSrc | Field::CtPortDst => 16,
            Field::VlanVid => 13,
            Field::TcpFlags => 12,
            Field::MplsLabel | Field::Ipv6Label => 20,
            Field::MplsTc => 3,
            Field::MplsBottom => 1,
            Field::IpDscp => 6,
            Field::IpFragment | Field::IpEcn => 2,
            Field::IpProtocol | Field::IpTtl | Field::MplsTtl => 8,
            Field::IcmpType | Field::IcmpCode | Field::Icmpv6Type | Field::Icmpv6Code => 8,
            Field::CtState | Field::CtIpProtocol => 8,
        }
    }

    /// A mask of all the field's bits.
    pub const fn full_mask(self) -> u128 {
        u128::MAX >> (128 - self.width_bits())
    }

    /// The field's name in a match.
    pub const fn match_name(self) -> &'static str {
        match self {
            Field::EthSrc => "dl_src",
            Field::EthDst => "dl_dst",
            Field::EthType => "dl_type",
            Field::IpSrc => "nw_src",
            Field::IpDst => "nw_dst",
            Field::IpProtocol => "nw_proto",
            Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => "tp_src",
            Field::TcpDst | Field::UdpDst | Field::SctpDst => "tp_dst",
            other => other.action_name(),
        }
    }

    /// The field's name in an action (`set_field`, `move`).
    pub const fn action_name(self) -> &'static str {
        const REGISTERS: [&str; 16] = [
            "reg0", "reg1", "reg2", "reg3", "reg4", "reg5", "reg6", "reg7", "reg8", "reg9",
            "reg10", "reg11", "reg12", "reg13", "reg14", "reg15",
        ];
        match self {
            Field::InPort => "in_port",
            Field::Metadata => "metadata",
            Field::Register(number) => REGISTERS[number as usize],
            Field::VlanTci => "vlan_tci",
            Field::VlanVid => "vlan_vid",
            Field::EthSrc => "eth_src",
            Field::EthDst => "eth_dst",
            Field::EthType => "eth_type",
            Field::IpSrc => "ip_src",
            Field::IpDst => "ip_dst",
            Field::Ipv6Src => "ipv6_src",
            Field::Ipv6Dst => "ipv6_dst",
            Field::IpProtocol => "ip_proto",
            Field::IpDscp => "ip_dscp",
            Field::IpTtl => "nw_ttl",
            Field::IpFragment => "ip_frag",
            Field::TcpSrc => "tcp_src",
            Field::TcpDst => "tcp_dst",
            Field::TcpFlags => "tcp_flags",
            Field::UdpSrc => "udp_src",
            Field::UdpDst => "udp_dst",
            Field::IcmpType => "icmp_type",
            Field::IcmpCode => "icmp_code",
            Field::Icmpv6Type => "icmpv6_type",
            Field::Icmpv6Code => "icmpv6_code",
            Field::NdTarget => "nd_target",
            Field::NdSll => "nd_sll",
            Field::NdTll => "nd_tll",
            Field::ArpOp => "arp_op",
            Field::ArpSpa => "arp_spa",
            Field::ArpTpa => "arp_tpa",
            Field::ArpSha => "arp_sha",
            Field::MplsLabel => "mpls_label",
            Field::MplsTc => "mpls_tc",
            Field::MplsBottom => "mpls_bos",
            Field::MplsTtl => "mpls_ttl",
            Field::IpEcn => "nw_ecn",
            Field::Ipv6Label => "ipv6_label",
            Field::ArpTha => "arp_tha",
            Field::SctpSrc => "sctp_src",
            Field::SctpDst => "sctp_dst",
            Field::CtState => "ct_state",
            Field::CtZone => "ct_zone",
            Field::CtMark => "ct_mark",
            Field::CtLabel => "ct_label",
            Field::CtIpSrc => "ct_nw_src",
            Field::CtIpDst => "ct_nw_dst",
            Field::CtIpv6Src => "ct_ipv6_src",
            Field::CtIpv6Dst => "ct_ipv6_dst",
            Field::CtIpProtocol => "ct_nw_proto",
            Field::CtPortSrc => "ct_tp_src",
            Field::CtPortDst => "ct_tp_dst",
            Field::ConjId => "conj_id",
            Field::PacketMark => "pkt_mark",
            Field::TunnelDst => "tun_dst",
            Field::SetOutput => "actset_output",
        }
    }

    /// The action of OpenFlow 1.0 that writes the field.
    ///
    /// # Panics
    /// If there is no such action.
    pub(crate) const fn modify_name(self) -> &'static str {
        match self {
            Field::EthSrc => "mod_dl_src",
            Field::EthDst => "mod_dl_dst",
            Field::IpSrc => "mod_nw_src",
            Field::IpDst => "mod_nw_dst",
            Field::IpDscp => "mod_nw_tos",
            Field::IpEcn => "mod_nw_ecn",
            Field::IpTtl => "mod_nw_ttl",
            Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => "mod_tp_src",
            Field::TcpDst | Field::UdpDst | Field::SctpDst => "mod_tp_dst",
            Field::MplsLabel => "set_mpls_label",
            Field::MplsTc => "set_mpls_tc",
            Field::MplsTtl => "set_mpls_ttl",
            _ => panic!("no action is named after the field"),
        }
    }

    /// Whether values are written as Ethernet addresses.
    const fn is_ethernet_address(self) -> bool {
        matches!(self.width_bits(), 48)
    }

    /// Whether values are written as IPv4 addresses.
    const fn is_ipv4_address(self) -> bool {
        matches!(
            self,
            Field::IpSrc
                | Field::IpDst
                | Field::ArpSpa
                | Field::ArpTpa
                | Field::CtIpSrc
                | Field::CtIpDst
                | Field::TunnelDst
        )
    }

    /// Whether values are written as IPv6 addresses.
    const fn is_ipv6_address(self) -> bool {
        matches!(self.width_bits(), 128) && !matches!(self, Field::CtLabel)
    }

    /// Writes `value` as in an action or an exact match.
    pub(crate) fn write_value(self, f: &mut impl fmt::Write, value: u128) -> fmt::Result {
        if self == Field::SetOutput && value == 0 {
            return f.write_str("unset");
        }
        if self.is_ethernet_address() {
            let bytes = (value as u64).to_be_bytes();
            write!(f, "{:02x}:{:02x}:{:02x}", bytes[2], bytes[3], bytes[4])?;
            write!(f, ":{:02x}:{:02x}:{:02x}", bytes[5], bytes[6], bytes[7])
        } else if self.is_ipv4_address() {
            write!(f, "{}", Ipv4Addr::from(value as u32))
        } else if self.is_ipv6_address() {
            write!(f, "{}", Ipv6Addr::from(value))
        } else if matches!(
            self,
            Field::EthType
                | Field::VlanTci
                | Field::Metadata
                | Field::TcpFlags
                | Field::Ipv6Label
                | Field::CtMark
                | Field::CtLabel
                | Field::PacketMark
        ) {
            write!(f, "{value:#x}")
        } else {
            write!(f, "{value}")
        }
    }

    /// Writes `value/mask` as in a match, with a prefix length if possible.
    pub(crate) fn write_masked(
        self,
        f: &mut impl fmt::Write,
        value: u128,
        mask: u128,
    ) -> fmt::Result {
        if self == Field::IpFragment {
            return f.write_str(fragment_name(value, mask));
        }
        if self == Field::CtState {
            return write_state(f, value, mask);
        }
        if mask == self.full_mask() && self != Field::TcpFlags {
            return self.write_value(f, value);
        }
        if self.is_ipv4_address() || self.is_ipv6_address() {
            self.write_value(f, value)?;
            return match prefix_length(mask, self.width_bits()) {
                Some(length) => write!(f, "/{length}"),
                None => {
                    f.write_char('/')?;
                    self.write_value(f, mask)
                }
            };
        }
        if self.is_ethernet_address() {
            self.write_value(f, value)?;
            f.write_char('/')?;
            return self.write_value(f, mask);
        }
        write!(f, "{value:#x}/{mask:#x}")
    }
}

/// The name of each of the five ways to match `ip_frag`.
fn fragment_name(value: u128, mask: u128) -> &'static str {
    match (value, mask) {
        (0, 3) => "no",
        (1, 1) => "yes",
        (1, 3) => "first",
        (3, 3) => "later",
        (0, 2) => "not_later",
        other => unreachable!("no name for the fragment match {other:?}"),
    }
}

/// Writes the flags of `ct_state` that must be set or unset.
fn write_state(f: &mut impl fmt::Write, value: u128, mask: u128) -> fmt::Result {
    const FLAGS: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
    for (bit, flag) in FLAGS.iter().enumerate() {
        if mask >> bit & 1 == 1 {
            let sign = if value >> bit & 1 == 1 { '+' } else { '-' };
            write!(f, "{sign}{flag}")?;
        }
    }
    Ok(())
}

/// The mask of the `length` leading bits of a field of `width` bits.
pub(crate) const fn prefix_mask(length: u32, width: u32) -> u128 {
    if length == 0 {
        return 0;
    }
    (u128::MAX >> (128 - width)) & !((1_u128 << (width - length)) - 1)
}

/// The length of a mask that is a prefix of `width` bits.
pub(crate) const fn prefix_length(mask: u128, width: u32) -> Option<u32> {
    let length = mask.count_ones();
    if prefix_mask(length, width) == mask {
        Some(length)
    } else {
        None
    }
}
