//! Matches of fixed form: `struct ofp_match` of OpenFlow 1.0 and 1.1.

use super::judgement::Judgement;
use super::needs::is_port;
use super::{Condition, Match};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::{FieldId, Value};
use crate::port_number::PortNumber;
use crate::wire::{Reader, Writer};

/// The type of OpenFlow 1.1's match.
pub(super) const STANDARD: u16 = 0;
const OF11_BYTES: u16 = 88;
const NO_VLAN_10: u16 = 0xffff;
const NO_VLAN_11: u16 = 0xffff;
const ANY_VLAN_11: u16 = 0xfffe;
const VLAN_PRESENT: u16 = 0x1000;

/// Bits of the wildcards; both versions agree on the first eight but the addresses.
mod wild {
    pub(super) const IN_PORT: u32 = 1 << 0;
    pub(super) const VLAN: u32 = 1 << 1;
    pub(super) const ETH_SRC_10: u32 = 1 << 2;
    pub(super) const ETH_DST_10: u32 = 1 << 3;
    pub(super) const ETH_TYPE_10: u32 = 1 << 4;
    pub(super) const PROTOCOL_10: u32 = 1 << 5;
    pub(super) const TP_SRC_10: u32 = 1 << 6;
    pub(super) const TP_DST_10: u32 = 1 << 7;
    pub(super) const SRC_SHIFT_10: u32 = 8;
    pub(super) const DST_SHIFT_10: u32 = 14;
    pub(super) const PCP_10: u32 = 1 << 20;
    pub(super) const TOS_10: u32 = 1 << 21;

    pub(super) const PCP_11: u32 = 1 << 2;
    pub(super) const ETH_TYPE_11: u32 = 1 << 3;
    pub(super) const TOS_11: u32 = 1 << 4;
    pub(super) const PROTOCOL_11: u32 = 1 << 5;
    pub(super) const TP_SRC_11: u32 = 1 << 6;
    pub(super) const TP_DST_11: u32 = 1 << 7;
    pub(super) const MPLS_LABEL_11: u32 = 1 << 8;
    pub(super) const MPLS_TC_11: u32 = 1 << 9;
}

/// The parts of IP that both versions have, before their fields are known.
#[derive(Default)]
struct Network {
    tos: Option<u8>,
    protocol: Option<u8>,
    source: (u32, u32),
    destination: (u32, u32),
    tp_source: Option<u16>,
    tp_destination: Option<u16>,
}

impl Match {
    /// Reads OpenFlow 1.0's match of 40 bytes. What its EtherType and protocol do not have is
    /// dropped.
    ///
    /// # Errors
    /// If it is cut short.
    pub fn decode_of10(reader: &mut Reader<'_>) -> Result<Match, Refusal> {
        let wildcards = reader.u32()?;
        let is_matched = |bit: u32| wildcards & bit == 0;
        let in_port = reader.u16()?;
        let (source, destination) = (reader.array::<6>()?, reader.array::<6>()?);
        let (vlan, pcp) = (reader.u16()?, reader.u8()?);
        reader.skip(1)?;
        let ether_type = reader.u16()?;
        let (tos, protocol) = (reader.u8()?, reader.u8()?);
        reader.skip(2)?;
        let prefix = |shift: u32| {
            let wild = wildcards >> shift & 0x3f;
            u32::MAX.checked_shl(wild).unwrap_or(0)
        };
        let network = Network {
            tos: is_matched(wild::TOS_10).then_some(tos & 0xfc),
            protocol: is_matched(wild::PROTOCOL_10).then_some(protocol),
            source: (reader.u32()?, prefix(wild::SRC_SHIFT_10)),
            destination: (reader.u32()?, prefix(wild::DST_SHIFT_10)),
            tp_source: Some(reader.u16()?).filter(|_| is_matched(wild::TP_SRC_10)),
            tp_destination: Some(reader.u16()?).filter(|_| is_matched(wild::TP_DST_10)),
        };
        let mut list = Match::default();
        if is_matched(wild::IN_PORT) {
            list.push_exact(FieldId::IN_PORT, in_port);
        }
        let mac = |bit: u32| if is_matched(bit) { [0xff; 6] } else { [0; 6] };
        list.push_bytes(FieldId::ETH_SRC, &source, &mac(wild::ETH_SRC_10));
        list.push_bytes(FieldId::ETH_DST, &destination, &mac(wild::ETH_DST_10));
        if is_matched(wild::ETH_TYPE_10) {
            list.push_exact(FieldId::ETH_TYPE, ether_type);
        }
        let vlan = is_matched(wild::VLAN).then_some(vlan);
        let pcp = is_matched(wild::PCP_10).then_some(pcp & 7);
        let (value, mask) = match (vlan, pcp) {
            (Some(NO_VLAN_10), _) => (0, 0xffff),
            (vlan, pcp) => tag(vlan, pcp),
        };
        list.push_masked(FieldId::VLAN_TCI, value, mask);
        list.push_network(network);
        Ok(list)
    }

    /// Writes OpenFlow 1.0's match. What it cannot express is left out, as Open vSwitch leaves
    /// it out.
    pub fn encode_of10(&self, writer: &mut Writer) {
        let fixed = Fixed::of(self);
        let mut wildcards = fixed.wildcards(&[
            (wild::IN_PORT, fixed.in_port.is_none()),
            (wild::ETH_SRC_10, fixed.eth_source.1 == [0; 6]),
            (wild::ETH_DST_10, fixed.eth_destination.1 == [0; 6]),
            (wild::ETH_TYPE_10, fixed.ether_type.is_none()),
            (wild::PROTOCOL_10, fixed.network.protocol.is_none()),
            (wild::TP_SRC_10, fixed.network.tp_source.is_none()),
            (wild::TP_DST_10, fixed.network.tp_destination.is_none()),
            (wild::TOS_10, fixed.network.tos.is_none()),
        ]);
        wildcards |= wild_bits(fixed.network.source.1) << wild::SRC_SHIFT_10;
        wildcards |= wild_bits(fixed.network.destination.1) << wild::DST_SHIFT_10;
        let (vlan, pcp) = match self.vlan() {
            None => {
                wildcards |= wild::VLAN | wild::PCP_10;
                (0, 0)
            }
            Some((value, mask)) if mask & !value & VLAN_PRESENT != 0 => (NO_VLAN_10, 0),
            Some((value, mask)) => {
                wildcards |= fixed.wildcards(&[
                    (wild::VLAN, mask & 0xfff == 0),
                    (wild::PCP_10, mask & 0xe000 == 0),
                ]);
                (value & mask & 0xfff, (value & mask) >> 13)
            }
        };
        writer.u32(wildcards);
        writer.u16(fixed.in_port.and_then(PortNumber::to_u16).unwrap_or(0));
        writer.put(&fixed.eth_source.0);
        writer.put(&fixed.eth_destination.0);
        writer.u16(vlan);
        writer.u8(pcp as u8);
        writer.u8(0);
        writer.u16(fixed.ether_type.unwrap_or(0));
        writer.u8(fixed.network.tos.unwrap_or(0));
        writer.u8(fixed.network.protocol.unwrap_or(0));
        writer.u16(0);
        writer.u32(fixed.network.source.0);
        writer.u32(fixed.network.destination.0);
        writer.u16(fixed.network.tp_source.unwrap_or(0));
        writer.u16(fixed.network.tp_destination.unwrap_or(0));
    }

    /// Reads OpenFlow 1.1's match of 88 bytes.
    ///
    /// # Errors
    /// If its length is wrong, or if a port, a VLAN, a DSCP or an ICMP type cannot be.
    pub fn decode_of11(reader: &mut Reader<'_>) -> Result<Match, Refusal> {
        let mut part = reader.with_code(ErrorCode::OFPBMC_BAD_LEN);
        let (kind, length) = (part.u16()?, part.u16()?);
        if (kind, length) != (STANDARD, OF11_BYTES) {
            return Err(part.bad_length(format!("a match of {length} bytes, not {OF11_BYTES}")));
        }
        let mut part = part.part(usize::from(OF11_BYTES) - 4)?;
        reader.skip(OF11_BYTES.into())?;
        let part = &mut part;
        let in_port = part.u32()?;
        let wildcards = part.u32()?;
        let is_matched = |bit: u32| wildcards & bit == 0;
        let mut list = Match::default();
        if is_matched(wild::IN_PORT) {
            if !is_port(in_port.into()) {
                return Err(bad_value(format!("{in_port:#x} is no port")));
            }
            list.push_exact(FieldId::IN_PORT_OXM, in_port);
        }
        for field in [FieldId::ETH_SRC, FieldId::ETH_DST] {
            let (value, wild) = (part.array::<6>()?, part.array::<6>()?);
            list.push_bytes(field, &value, &wild.map(|byte| !byte));
        }
        let (vlan, pcp) = (part.u16()?, part.u8()?);
        part.skip(1)?;
        let tag = if is_matched(wild::VLAN) {
            let pcp = is_matched(wild::PCP_11).then_some(pcp);
            tag_11(vlan, pcp)?
        } else {
            (0, 0)
        };
        let ether_type = part.u16()?;
        if is_matched(wild::ETH_TYPE_11) {
            list.push_exact(FieldId::ETH_TYPE, ether_type);
        }
        list.push_masked(FieldId::VLAN_TCI, tag.0, tag.1);
        let (tos, protocol) = (part.u8()?, part.u8()?);
        let network = Network {
            tos: is_matched(wild::TOS_11).then_some(tos),
            protocol: is_matched(wild::PROTOCOL_11).then_some(protocol),
            source: (part.u32()?, !part.u32()?),
            destination: (part.u32()?, !part.u32()?),
            tp_source: Some(part.u16()?).filter(|_| is_matched(wild::TP_SRC_11)),
            tp_destination: Some(part.u16()?).filter(|_| is_matched(wild::TP_DST_11)),
        };
        network.check_11(&list)?;
        list.push_network(network);
        let (label, tc) = (part.u32()?, part.u8()?);
        part.skip(3)?;
        if list.allows(FieldId::MPLS_LABEL) {
            if is_matched(wild::MPLS_TC_11) {
                list.push_exact(FieldId::MPLS_TC, tc & 7);
            }
            if is_matched(wild::MPLS_LABEL_11) {
                list.push_exact(FieldId::MPLS_LABEL, label & 0xf_ffff);
            }
        }
        let (metadata, wild) = (part.u64()?, part.u64()?);
        list.push_masked(FieldId::METADATA, metadata, !wild);
        Ok(list)
    }

    /// Writes OpenFlow 1.1's match. What it cannot express is left out.
    pub fn encode_of11(&self, writer: &mut Writer) {
        let fixed = Fixed::of(self);
        let label = fixed.exact(FieldId::MPLS_LABEL);
        let tc = fixed.exact(FieldId::MPLS_TC);
        let mut wildcards = fixed.wildcards(&[
            (wild::IN_PORT, fixed.in_port.is_none()),
            (wild::ETH_TYPE_11, fixed.ether_type.is_none()),
            (wild::TOS_11, fixed.network.tos.is_none()),
            (wild::PROTOCOL_11, fixed.network.protocol.is_none()),
            (wild::TP_SRC_11, fixed.network.tp_source.is_none()),
            (wild::TP_DST_11, fixed.network.tp_destination.is_none()),
            (wild::MPLS_LABEL_11, label.is_none()),
            (wild::MPLS_TC_11, tc.is_none()),
        ]);
        let (vlan, pcp) = match self.vlan() {
            None => {
                wildcards |= wild::VLAN | wild::PCP_11;
                (0, 0)
            }
            Some((value, mask)) if mask & !value & VLAN_PRESENT != 0 => {
                wildcards |= wild::PCP_11;
                (NO_VLAN_11, 0)
            }
            Some((value, mask)) => {
                wildcards |= fixed.wildcards(&[(wild::PCP_11, mask & 0xe000 == 0)]);
                let is_any = mask & 0xfff == 0;
                let vlan = if is_any {
                    ANY_VLAN_11
                } else {
                    value & mask & 0xfff
                };
                (vlan, (value & mask) >> 13)
            }
        };
        writer.u16(STANDARD);
        writer.u16(OF11_BYTES);
        writer.u32(fixed.in_port.map_or(0, |port| port.0));
        writer.u32(wildcards);
        for (value, mask) in [fixed.eth_source, fixed.eth_destination] {
            writer.put(&value);
            writer.put(&mask.map(|byte| !byte));
        }
        writer.u16(vlan);
        writer.u8(pcp as u8);
        writer.u8(0);
        writer.u16(fixed.ether_type.unwrap_or(0));
        writer.u8(fixed.network.tos.unwrap_or(0));
        writer.u8(fixed.network.protocol.unwrap_or(0));
        for (value, mask) in [fixed.network.source, fixed.network.destination] {
            writer.u32(value);
            writer.u32(!mask);
        }
        writer.u16(fixed.network.tp_source.unwrap_or(0));
        writer.u16(fixed.network.tp_destination.unwrap_or(0));
        writer.u32(label.unwrap_or(0) as u32);
        writer.u8(tc.unwrap_or(0) as u8);
        writer.zeros(3);
        let (metadata, mask) = fixed.numbers(FieldId::METADATA);
        writer.u64(metadata as u64);
        writer.u64(!(mask as u64));
    }

    fn push(&mut self, condition: Condition) {
        // Conditions that EtherType and protocol do not allow are dropped; no field is named twice.
        let _dropped = self.add(condition, Judgement::Strict);
    }

    fn push_exact(&mut self, field: FieldId, number: impl Into<u128>) {
        self.push(Condition::exact(field, number.into()));
    }

    fn push_masked(&mut self, field: FieldId, number: impl Into<u128>, mask: impl Into<u128>) {
        self.push(Condition::masked(field, number.into(), mask.into()));
    }

    fn push_bytes(&mut self, field: FieldId, value: &[u8], mask: &[u8]) {
        let (value, mask) = (Value::from_bytes(value), Value::from_bytes(mask));
        self.push_masked(field, value.number(), mask.number());
    }

    /// Adds the conditions on IP, ARP and the layers above, as EtherType and protocol allow.
    fn push_network(&mut self, network: Network) {
        let is_arp = self.allows(FieldId::ARP_SPA);
        let addresses = if is_arp {
            [FieldId::ARP_SPA, FieldId::ARP_TPA]
        } else {
            [FieldId::IP_SRC, FieldId::IP_DST]
        };
        if let Some(protocol) = network.protocol.filter(|_| is_arp) {
            self.push_exact(FieldId::ARP_OP, protocol);
        }
        self.push_masked(addresses[0], network.source.0, network.source.1);
        self.push_masked(addresses[1], network.destination.0, network.destination.1);
        if let Some(tos) = network.tos {
            self.push_exact(FieldId::NW_TOS, tos);
        }
        if let Some(protocol) = network.protocol {
            self.push_exact(FieldId::NW_PROTO, protocol);
        }
        let Some([source, destination]) = self.ports_of_protocol() else {
            return;
        };
        if let Some(number) = network.tp_source {
            self.push_exact(source, number);
        }
        if let Some(number) = network.tp_destination {
            self.push_exact(destination, number);
        }
    }

    /// The fields that `tp_src` and `tp_dst` stand for.
    fn ports_of_protocol(&self) -> Option<[FieldId; 2]> {
        let pairs = [
            [FieldId::TCP_SRC, FieldId::TCP_DST],
            [FieldId::UDP_SRC, FieldId::UDP_DST],
            [FieldId::SCTP_SRC, FieldId::SCTP_DST],
            [FieldId::ICMP_TYPE, FieldId::ICMP_CODE],
            [FieldId::ICMPV6_TYPE, FieldId::ICMPV6_CODE],
        ];
        pairs.into_iter().find(|pair| self.allows(pair[0]))
    }
}

impl Network {
    fn check_11(&self, list: &Match) -> Result<(), Refusal> {
        if list.ether_type() != Some(0x0800) {
            return Ok(());
        }
        if let Some(tos) = self.tos.filter(|tos| tos & 3 != 0) {
            return Err(bad_value(format!("{tos:#x} is no DSCP")));
        }
        let is_icmp = self.protocol == Some(1);
        let mut kinds = [self.tp_source, self.tp_destination].into_iter().flatten();
        match kinds.find(|kind| is_icmp && *kind > 0xff) {
            Some(kind) => {
                let what = format!("{kind} is no type or code of ICMP");
                Err(refuse(ErrorCode::OFPBMC_BAD_FIELD, what))
            }
            None => Ok(()),
        }
    }
}

fn bad_value(what: String) -> Refusal {
    refuse(ErrorCode::OFPBMC_BAD_VALUE, what)
}

/// Value and mask of a VLAN's tag.
fn tag(vlan: Option<u16>, pcp: Option<u8>) -> (u16, u16) {
    let vid = vlan.map_or((0, 0), |vlan| (vlan & 0xfff, 0x0fff));
    let pcp = pcp.map_or((0, 0), |pcp| (u16::from(pcp) << 13, 0xe000));
    match vid.1 | pcp.1 {
        0 => (0, 0),
        mask => (vid.0 | pcp.0 | VLAN_PRESENT, mask | VLAN_PRESENT),
    }
}

fn tag_11(vlan: u16, pcp: Option<u8>) -> Result<(u16, u16), Refusal> {
    if vlan == NO_VLAN_11 {
        return Ok((0, 0xffff));
    }
    if vlan != ANY_VLAN_11 && vlan > 0xfff {
        return Err(bad_value(format!("{vlan} is no VLAN")));
    }
    if let Some(pcp) = pcp.filter(|pcp| *pcp > 7) {
        return Err(bad_value(format!("{pcp} is no VLAN priority")));
    }
    let (value, mask) = tag(Some(vlan).filter(|vlan| *vlan != ANY_VLAN_11), pcp);
    Ok((value | VLAN_PRESENT, mask | VLAN_PRESENT))
}

/// How many bits an IPv4 mask leaves out at the end.
fn wild_bits(mask: u32) -> u32 {
    32 - mask.leading_ones()
}

/// What the fixed forms can say of a match.
struct Fixed<'a> {
    matching: &'a Match,
    in_port: Option<PortNumber>,
    eth_source: ([u8; 6], [u8; 6]),
    eth_destination: ([u8; 6], [u8; 6]),
    ether_type: Option<u16>,
    network: Network,
}

impl Fixed<'_> {
    fn of(matching: &Match) -> Fixed<'_> {
        let mut fixed = Fixed {
            matching,
            in_port: matching.in_port(),
            eth_source: ([0; 6], [0; 6]),
            eth_destination: ([0; 6], [0; 6]),
            ether_type: None,
            network: Network::default(),
        };
        fixed.eth_source = fixed.mac(FieldId::ETH_SRC);
        fixed.eth_destination = fixed.mac(FieldId::ETH_DST);
        fixed.ether_type = fixed.exact(FieldId::ETH_TYPE).map(|number| number as u16);
        let either = |first, second| {
            let (value, mask) = match matching.get(first) {
                Some(_) => fixed.numbers(first),
                None => fixed.numbers(second),
            };
            (value as u32, mask as u32)
        };
        let tos = fixed.exact(FieldId::NW_TOS);
        let dscp = fixed.exact(FieldId::IP_DSCP).map(|dscp| dscp << 2);
        let protocol = fixed.exact(FieldId::NW_PROTO);
        let protocol = protocol.or_else(|| fixed.exact(FieldId::ARP_OP));
        let ports = matching.ports_of_protocol();
        let port = |place: usize| {
            let number = ports.and_then(|ports| fixed.exact(ports[place]));
            number.map(|number| number as u16)
        };
        fixed.network = Network {
            tos: tos.or(dscp).map(|tos| tos as u8),
            protocol: protocol.map(|protocol| protocol as u8),
            source: either(FieldId::IP_SRC, FieldId::ARP_SPA),
            destination: either(FieldId::IP_DST, FieldId::ARP_TPA),
            tp_source: port(0),
            tp_destination: port(1),
        };
        fixed
    }

    fn exact(&self, field: FieldId) -> Option<u128> {
        let condition = self.matching.get(field)?;
        Some(condition.value.number())
    }

    fn numbers(&self, field: FieldId) -> (u128, u128) {
        let Some(condition) = self.matching.get(field) else {
            return (0, 0);
        };
        let mask = condition.mask.as_ref().map_or(u128::MAX, Value::number);
        (condition.value.number(), mask)
    }

    fn mac(&self, field: FieldId) -> ([u8; 6], [u8; 6]) {
        let (value, mask) = self.numbers(field);
        let six = |number: u128| {
            let mut bytes = [0; 6];
            bytes.copy_from_slice(&number.to_be_bytes()[10..]);
            bytes
        };
        (six(value), six(mask))
    }

    fn wildcards(&self, bits: &[(u32, bool)]) -> u32 {
        let set = bits.iter().filter(|(_, is_wild)| *is_wild);
        set.fold(0, |wildcards, (bit, _)| wildcards | bit)
    }
}
