//! The attributes of a datapath flow: their names, their members, how each is spelt.

use thalweg_packet::{FieldId, standard as f};

use super::field_bits::FieldBits;

pub(super) const ETHER_TYPE_IPV4: u16 = 0x0800;
pub(super) const ETHER_TYPE_IPV6: u16 = 0x86dd;
pub(super) const ETHER_TYPE_NSH: u16 = 0x894f;

/// The kind of fragment, in bits of `ip_frag`, and its word.
pub(super) const FRAGMENTS: [(&str, u128); 3] = [("no", 0), ("first", 1), ("later", 3)];

/// The names of the TCP flags, from bit 0.
pub(super) const TCP_FLAGS: [&str; 12] = [
    "fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]",
];

/// The names of the bits of a connection's state, from bit 0.
pub(super) const CT_BITS: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];

/// The lowest `width` bits.
pub(super) const fn ones(width: u16) -> u128 {
    u128::MAX >> (128 - width)
}

/// Whether a type announces a VLAN tag.
pub(super) fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, 0x8100 | 0x88a8)
}

/// Whether a type announces MPLS labels.
pub(super) fn is_mpls(ether_type: u16) -> bool {
    matches!(ether_type, 0x8847 | 0x8848)
}

/// Whether a type announces ARP or RARP.
pub(super) fn is_arp(ether_type: u16) -> bool {
    matches!(ether_type, 0x0806 | 0x8035)
}

/// Whether the ICMPv6 type and code are those of a neighbour solicitation or advertisement.
pub(super) fn is_neighbor_discovery(key: &FieldBits) -> bool {
    matches!(key.get(f::ICMP_TYPE), 135 | 136) && key.get(f::ICMP_CODE) == 0
}

/// How a member is spelt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spelling {
    Decimal,
    /// `0x1f`; zero has no prefix.
    Hexadecimal,
    /// As [`Spelling::Hexadecimal`], and zero is `0x0`.
    Prefixed,
    Ethernet,
    Ipv4,
    Ipv6,
    Fragment,
}

/// The bits of a key that a member shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// A field.
    Field(FieldId, u16),
    /// The code point and the congestion bits of IP, as one byte.
    Service,
}

impl Part {
    pub(super) fn width_bits(self) -> u16 {
        match self {
            Part::Field(_, width) => width,
            Part::Service => 8,
        }
    }

    pub(super) fn get(self, bits: &FieldBits) -> u128 {
        match self {
            Part::Field(field, _) => bits.get(field),
            Part::Service => bits.service(),
        }
    }

    pub(super) fn set(self, bits: &mut FieldBits, value: u128) {
        match self {
            Part::Field(field, _) => bits.set(field, value),
            Part::Service => bits.set_service(value),
        }
    }
}

/// A member of an attribute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) name: &'static str,
    pub(super) part: Part,
    pub(super) spelling: Spelling,
}

/// An attribute with named members, in the order in which they are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute {
    pub(super) name: &'static str,
    pub(super) members: &'static [Member],
}

const fn member(name: &'static str, field: FieldId, width: u16, spelling: Spelling) -> Member {
    Member {
        name,
        part: Part::Field(field, width),
        spelling,
    }
}

const fn service(name: &'static str) -> Member {
    Member {
        name,
        part: Part::Service,
        spelling: Hexadecimal,
    }
}

use Spelling::{Decimal, Ethernet, Fragment, Hexadecimal, Ipv4, Ipv6, Prefixed};

const PORTS: &[Member] = &[
    member("src", f::TP_SRC, 16, Decimal),
    member("dst", f::TP_DST, 16, Decimal),
];
const KINDS: &[Member] = &[
    member("type", f::ICMP_TYPE, 8, Decimal),
    member("code", f::ICMP_CODE, 8, Decimal),
];

/// The tuple of a connection's first packet, with the addresses of one version of IP.
const fn first_tuple(
    [source, destination]: [FieldId; 2],
    width: u16,
    spelling: Spelling,
) -> [Member; 5] {
    [
        member("src", source, width, spelling),
        member("dst", destination, width, spelling),
        member("proto", f::CT_NW_PROTO, 8, Decimal),
        member("tp_src", f::CT_TP_SRC, 16, Decimal),
        member("tp_dst", f::CT_TP_DST, 16, Decimal),
    ]
}

pub(super) const TUNNEL: Attribute = Attribute {
    name: "tunnel",
    members: &[
        member("tun_id", f::TUN_ID, 64, Prefixed),
        member("src", f::TUN_SRC, 32, Ipv4),
        member("dst", f::TUN_DST, 32, Ipv4),
        member("ipv6_src", f::TUN_IPV6_SRC, 128, Ipv6),
        member("ipv6_dst", f::TUN_IPV6_DST, 128, Ipv6),
        member("tos", f::TUN_TOS, 8, Hexadecimal),
        member("ttl", f::TUN_TTL, 8, Decimal),
    ],
};
/// VXLAN's group policy, inside `vxlan(...)`.
pub(super) const GROUP_POLICY: Attribute = Attribute {
    name: "gbp",
    members: &[
        member("id", f::TUN_GBP_ID, 16, Decimal),
        member("flags", f::TUN_GBP_FLAGS, 8, Hexadecimal),
    ],
};
pub(super) const ERSPAN: Attribute = Attribute {
    name: "erspan",
    members: &[
        member("ver", f::TUN_ERSPAN_VER, 4, Decimal),
        member("idx", f::TUN_ERSPAN_IDX, 20, Hexadecimal),
        member("dir", f::TUN_ERSPAN_DIR, 1, Decimal),
        member("hwid", f::TUN_ERSPAN_HWID, 6, Hexadecimal),
    ],
};
pub(super) const GTPU: Attribute = Attribute {
    name: "gtpu",
    members: &[
        member("flags", f::TUN_GTPU_FLAGS, 8, Hexadecimal),
        member("msgtype", f::TUN_GTPU_MSGTYPE, 8, Decimal),
    ],
};
pub(super) const CT_TUPLE4: Attribute = Attribute {
    name: "ct_tuple4",
    members: &first_tuple([f::CT_NW_SRC, f::CT_NW_DST], 32, Ipv4),
};
pub(super) const CT_TUPLE6: Attribute = Attribute {
    name: "ct_tuple6",
    members: &first_tuple([f::CT_IPV6_SRC, f::CT_IPV6_DST], 128, Ipv6),
};
/// The packet's mark, and the hash that a datapath gave it.
pub(super) const MARK: (&str, FieldId, u16) = ("skb_mark", f::PKT_MARK, 32);
pub(super) const HASH: (&str, FieldId, u16) = ("dp_hash", f::DP_HASH, 32);
/// The numbers that a tracker gives, in the order in which they are written.
pub(super) const CONNECTION: [(&str, FieldId, u16); 4] = [
    ("ct_state", f::CT_STATE, 8),
    ("ct_zone", f::CT_ZONE, 16),
    ("ct_mark", f::CT_MARK, 32),
    ("ct_label", f::CT_LABEL, 128),
];
pub(super) const ETHERNET: Attribute = Attribute {
    name: "eth",
    members: &[
        member("src", f::ETH_SRC, 48, Ethernet),
        member("dst", f::ETH_DST, 48, Ethernet),
    ],
};
pub(super) const IPV4: Attribute = Attribute {
    name: "ipv4",
    members: &[
        member("src", f::IP_SRC, 32, Ipv4),
        member("dst", f::IP_DST, 32, Ipv4),
        member("proto", f::IP_PROTO, 8, Decimal),
        service("tos"),
        member("ttl", f::IP_TTL, 8, Decimal),
        member("frag", f::IP_FRAG, 2, Fragment),
    ],
};
pub(super) const IPV6: Attribute = Attribute {
    name: "ipv6",
    members: &[
        member("src", f::IPV6_SRC, 128, Ipv6),
        member("dst", f::IPV6_DST, 128, Ipv6),
        member("label", f::IPV6_LABEL, 20, Hexadecimal),
        member("proto", f::IP_PROTO, 8, Decimal),
        service("tclass"),
        member("hlimit", f::IP_TTL, 8, Decimal),
        member("frag", f::IP_FRAG, 2, Fragment),
    ],
};
pub(super) const TCP: Attribute = Attribute {
    name: "tcp",
    members: PORTS,
};
pub(super) const UDP: Attribute = Attribute {
    name: "udp",
    members: PORTS,
};
pub(super) const SCTP: Attribute = Attribute {
    name: "sctp",
    members: PORTS,
};
pub(super) const ICMP: Attribute = Attribute {
    name: "icmp",
    members: KINDS,
};
pub(super) const ICMPV6: Attribute = Attribute {
    name: "icmpv6",
    members: KINDS,
};
pub(super) const ARP: Attribute = Attribute {
    name: "arp",
    members: &[
        member("sip", f::ARP_SPA, 32, Ipv4),
        member("tip", f::ARP_TPA, 32, Ipv4),
        member("op", f::ARP_OP, 16, Decimal),
        member("sha", f::ARP_SHA, 48, Ethernet),
        member("tha", f::ARP_THA, 48, Ethernet),
    ],
};
pub(super) const NSH: Attribute = Attribute {
    name: "nsh",
    members: &[
        member("flags", f::NSH_FLAGS, 2, Decimal),
        member("ttl", f::NSH_TTL, 6, Decimal),
        member("mdtype", f::NSH_MDTYPE, 8, Decimal),
        member("np", f::NSH_NP, 8, Decimal),
        member("spi", f::NSH_SPI, 24, Prefixed),
        member("si", f::NSH_SI, 8, Decimal),
        member("c1", f::NSH_C1, 32, Prefixed),
        member("c2", f::NSH_C2, 32, Prefixed),
        member("c3", f::NSH_C3, 32, Prefixed),
        member("c4", f::NSH_C4, 32, Prefixed),
    ],
};
pub(super) const DISCOVERY: Attribute = Attribute {
    name: "nd",
    members: &[
        member("target", f::ND_TARGET, 128, Ipv6),
        member("sll", f::ND_SLL, 48, Ethernet),
        member("tll", f::ND_TLL, 48, Ethernet),
    ],
};

/// The attributes with named members, but for tunnels.
pub(super) const ATTRIBUTES: [&Attribute; 11] = [
    &ETHERNET, &IPV4, &IPV6, &TCP, &UDP, &SCTP, &ICMP, &ICMPV6, &ARP, &NSH, &DISCOVERY,
];

/// The fields of packets' headers that are written, and their widths.
pub(crate) fn header_fields() -> impl Iterator<Item = (FieldId, u16)> {
    let of_attributes = ATTRIBUTES.iter().flat_map(|attribute| attribute.members);
    let parts = of_attributes.flat_map(|member| match member.part {
        Part::Field(field, width) => vec![(field, width)],
        Part::Service => vec![(f::IP_DSCP, 6), (f::IP_ECN, 2)],
    });
    let others = [
        (f::ETH_TYPE, 16),
        (f::VLAN_TCI, 16),
        (f::VLAN_TCI_INNER, 16),
        (f::PKT_MARK, 32),
        (f::DP_HASH, 32),
        (f::TCP_FLAGS, 12),
        (f::MPLS_LABEL, 20),
        (f::MPLS_TC, 3),
        (f::MPLS_BOS, 1),
        (f::MPLS_TTL, 8),
        (f::MPLS_LSE1, 32),
        (f::MPLS_LSE2, 32),
    ];
    parts.chain(others)
}

/// Attributes that no key here can hold.
pub(super) const FIELDLESS: [&str; 2] = ["skb_priority", "nd_ext"];

/// Members of `tunnel` that no key here can hold.
pub(super) const FIELDLESS_OF_TUNNEL: [&str; 2] = ["tp_src", "tp_dst"];
