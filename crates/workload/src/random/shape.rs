//! Tracks the known properties of a packet along a list of actions.

use crate::field::Field;
use crate::rule::Match;
use Field::{
    ArpOp, ArpSha, ArpSpa, ArpTha, ArpTpa, EthDst, EthSrc, IcmpCode, IcmpType, Icmpv6Code,
    Icmpv6Type, IpDscp, IpDst, IpEcn, IpSrc, IpTtl, Ipv6Dst, Ipv6Label, Ipv6Src, Metadata,
    MplsLabel, MplsTc, MplsTtl, NdSll, NdTarget, NdTll, Register, SctpDst, SctpSrc, TcpDst, TcpSrc,
    UdpDst, UdpSrc,
};

/// The known properties of a packet at some action of a list.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) eth_type: Option<u128>,
    /// The protocol, if the packet certainly has the transport header.
    pub(super) protocol: Option<u128>,
    /// Tags that are certainly present; a switch refuses to push a third.
    pub(super) tags: u8,
    /// Whether there certainly is no tag.
    pub(super) is_untagged: bool,
    /// Number of labels pushed by the list.
    pub(super) labels: u8,
    /// Whether the outermost label is the last, if known.
    pub(super) is_bottom: Option<bool>,
    message: Option<u128>,
}

impl Shape {
    /// The properties that a match implies.
    pub(super) fn of(matches: &Match, protocol: Option<u128>) -> Shape {
        let tag = matches.term(Field::VlanTci);
        let is_code_zero = matches.exact(Icmpv6Code) == Some(0);
        Shape {
            eth_type: matches.exact(Field::EthType),
            protocol,
            tags: tag.is_some_and(|term| term.value & 0x1000 != 0).into(),
            is_untagged: tag.is_some_and(|term| term.mask & !term.value & 0x1000 != 0),
            labels: 0,
            is_bottom: matches.exact(Field::MplsBottom).map(|bottom| bottom == 1),
            message: matches.exact(Icmpv6Type).filter(|_| is_code_zero),
        }
    }

    /// The fields that can be written.
    pub(super) fn writable(&self) -> Vec<Field> {
        let mut fields = vec![
            EthSrc,
            EthDst,
            Register(0),
            Register(1),
            Register(2),
            Metadata,
        ];
        let own: &[Field] = match self.eth_type {
            Some(0x0800) => &[IpSrc, IpDst, IpDscp, IpEcn, IpTtl],
            Some(0x86dd) => &[Ipv6Src, Ipv6Dst, Ipv6Label, IpDscp, IpEcn, IpTtl],
            Some(0x0806 | 0x8035) => &[ArpOp, ArpSpa, ArpTpa, ArpSha, ArpTha],
            Some(0x8847 | 0x8848) => &[MplsLabel, MplsTc, MplsTtl],
            _ => &[],
        };
        let transport: &[Field] = match (self.eth_type, self.protocol) {
            (_, Some(6)) => &[TcpSrc, TcpDst],
            (_, Some(17)) => &[UdpSrc, UdpDst],
            (_, Some(132)) => &[SctpSrc, SctpDst],
            (Some(0x0800), Some(1)) => &[IcmpType, IcmpCode],
            (Some(0x86dd), Some(58)) => match self.message {
                Some(135) => &[NdTarget, NdSll],
                Some(136) => &[NdTarget, NdTll],
                _ => &[Icmpv6Type, Icmpv6Code],
            },
            _ => &[],
        };
        fields.extend(own);
        fields.extend(transport);
        fields
    }

    /// Notes a write to bits of the outer tag; bit 12 says whether there is one.
    ///
    /// A switch that checks a list treats any write as one of the whole tag, so earlier
    /// knowledge about the tag must be dropped.
    pub(super) fn write_tag(&mut self, value: u128, mask: u128) {
        let is_decided = mask & 0x1000 != 0;
        let has_tag = is_decided && value & 0x1000 != 0;
        self.tags = if has_tag { self.tags.max(1) } else { 0 };
        self.is_untagged = (value, mask) == (0, 0xffff);
    }

    pub(super) fn is_mpls(&self) -> bool {
        matches!(self.eth_type, Some(0x8847 | 0x8848))
    }

    pub(super) fn is_ip(&self) -> bool {
        matches!(self.eth_type, Some(0x0800 | 0x86dd))
    }
}
