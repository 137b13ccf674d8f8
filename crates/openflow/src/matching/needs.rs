//! Checks conditions of a match: prerequisites, duplicates, values that cannot occur.

use super::{Condition, Match};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::{FieldId, Needs, Value};
use crate::port_number::PortNumber;

const VLAN_PRESENT: u128 = 0x1000;
const FRAGMENT_LATER: u128 = 2;
const ETHERTYPE_NAMESPACE: u128 = 1;
/// Bits of `ct_state` that only a valid connection has: new, established, related, reply,
/// source and destination translated.
const CT_VALID: u128 = 0xcf;
const CT_INVALID: u128 = 0x10;
const CT_TRACKED: u128 = 0x20;
/// All bits of `ct_state`.
const CT_KNOWN: u128 = 0xff;

impl Match {
    fn number(&self, field: FieldId) -> Option<u128> {
        self.get(field).map(|condition| condition.value.number())
    }

    /// The EtherType that the conditions name, on its own or as a packet type.
    pub(crate) fn ether_type(&self) -> Option<u16> {
        match self.number(FieldId::PACKET_TYPE) {
            Some(kind) if kind >> 16 == ETHERTYPE_NAMESPACE => Some(kind as u16),
            Some(kind) if kind != 0 => None,
            _ => self.number(FieldId::ETH_TYPE).map(|kind| kind as u16),
        }
    }

    fn is_ip(&self, version: Option<u16>) -> bool {
        let ether_type = self.ether_type();
        match version {
            Some(version) => ether_type == Some(version),
            None => matches!(ether_type, Some(0x0800 | 0x86dd)),
        }
    }

    /// The IP protocol that the conditions name.
    pub(crate) fn ip_protocol(&self) -> Option<u8> {
        let protocol = self.is_ip(None).then(|| self.number(FieldId::NW_PROTO))?;
        protocol.map(|protocol| protocol as u8)
    }

    fn is_transport(&self, protocol: u8) -> bool {
        let fragment = self.number(FieldId::IP_FRAG).unwrap_or(0);
        self.ip_protocol() == Some(protocol) && fragment & FRAGMENT_LATER == 0
    }

    fn is_discovery(&self, kinds: &[u128]) -> bool {
        let kind = self.number(FieldId::ICMPV6_TYPE);
        self.is_ip(Some(0x86dd))
            && self.ip_protocol() == Some(58)
            && self.number(FieldId::ICMPV6_CODE).unwrap_or(0) == 0
            && kind.is_some_and(|kind| kinds.contains(&kind))
    }

    fn has_vlan(&self) -> bool {
        let fields = [FieldId::VLAN_VID, FieldId::VLAN_TCI];
        let mut numbers = fields.into_iter().filter_map(|field| self.number(field));
        numbers.any(|number| number & VLAN_PRESENT != 0)
    }

    fn has_valid_connection(&self) -> bool {
        let Some(state) = self.get(FieldId::CT_STATE) else {
            return false;
        };
        let value = state.value.number();
        let mask = state.mask.as_ref().map_or(u128::MAX, Value::number);
        value & CT_VALID != 0
            || (value & CT_TRACKED != 0 && mask & CT_INVALID != 0 && value & CT_INVALID == 0)
    }

    /// Whether the conditions so far allow one on `field`.
    pub(crate) fn allows(&self, field: FieldId) -> bool {
        let ethernet = self.number(FieldId::PACKET_TYPE).unwrap_or(0) == 0;
        match field.needs() {
            Needs::Nothing => true,
            Needs::Ethernet => ethernet,
            Needs::Vlan => self.has_vlan(),
            Needs::Mpls => matches!(self.ether_type(), Some(0x8847 | 0x8848)),
            Needs::Ipv4 => self.is_ip(Some(0x0800)),
            Needs::Ipv6 => self.is_ip(Some(0x86dd)),
            Needs::Ip => self.is_ip(None),
            Needs::Arp => matches!(self.ether_type(), Some(0x0806 | 0x8035)),
            Needs::Tcp => self.is_transport(6),
            Needs::Udp => self.is_transport(17),
            Needs::Sctp => self.is_transport(132),
            Needs::Icmpv4 => self.is_ip(Some(0x0800)) && self.ip_protocol() == Some(1),
            Needs::Icmpv6 => self.is_ip(Some(0x86dd)) && self.ip_protocol() == Some(58),
            Needs::Nd => self.is_discovery(&[135, 136]),
            Needs::NdSolicit => self.is_discovery(&[135]),
            Needs::NdAdvert => self.is_discovery(&[136]),
            Needs::Nsh => self.ether_type() == Some(0x894f),
            Needs::Ct => self.has_valid_connection(),
        }
    }

    /// Whether a condition speaks of bits that `field` speaks of too, under this or another
    /// name (`reg0` and `xreg0`, `vlan_tci` and `vlan_vid`).
    pub(crate) fn repeats(&self, field: FieldId) -> bool {
        let (place, bits) = storage(field, None);
        self.conditions.iter().any(|condition| {
            let (other, compared) = storage(condition.field, condition.mask.as_ref());
            other == place && compared & bits != 0
        })
    }
}

/// The place that a field shares with others, and which of the place's bits a mask names.
fn storage(field: FieldId, mask: Option<&Value>) -> (FieldId, u128) {
    let own = mask.map_or(u128::MAX, Value::number);
    let registers = |first: FieldId, count: u16, width: u32| {
        let number = field.distance(first)?;
        let at = u32::from(number) * width;
        let bits = (own & (u128::MAX >> (128 - width))) << (128 - width - at % 128);
        (number < count).then(|| (FieldId::XXREG0.after((at / 128) as u16), bits))
    };
    let tied = match field {
        FieldId::VLAN_VID => Some((FieldId::VLAN_TCI, own & 0x1fff)),
        FieldId::VLAN_PCP => Some((FieldId::VLAN_TCI, 0xe000)),
        FieldId::VLAN_TCI => Some((FieldId::VLAN_TCI, own & 0xffff)),
        FieldId::IN_PORT_OXM => Some((FieldId::IN_PORT, u128::MAX)),
        FieldId::IP_DSCP => Some((FieldId::NW_TOS, u128::MAX)),
        // One condition of many bytes is one place: the value's lowest 128 bits say too little.
        _ if field.is_variable() => Some((field, u128::MAX)),
        _ => None,
    };
    tied.or_else(|| registers(FieldId::REG0, 16, 32))
        .or_else(|| registers(FieldId::XREG0, 8, 64))
        .or_else(|| registers(FieldId::XXREG0, 4, 128))
        .unwrap_or((field, own))
}

/// Refuses a value that no packet can have and no mask can make sense of.
pub(crate) fn check_value(condition: &Condition) -> Result<(), Refusal> {
    let number = condition.value.number();
    let is_possible = match condition.field {
        FieldId::IN_PORT_OXM | FieldId::ACTSET_OUTPUT => is_port(number),
        FieldId::NW_TOS => number & 0x03 == 0,
        FieldId::ARP_OP => number & 0xff00 == 0,
        FieldId::TUN_FLAGS => number & !1 == 0,
        FieldId::CT_STATE => number & !CT_KNOWN == 0,
        FieldId::NSH_TTL => number <= 63,
        FieldId::NSH_MDTYPE => matches!(number, 1 | 2),
        FieldId::IP_DSCP
        | FieldId::NW_ECN
        | FieldId::IP_FRAG
        | FieldId::TCP_FLAGS
        | FieldId::VLAN_VID
        | FieldId::VLAN_PCP
        | FieldId::IPV6_LABEL
        | FieldId::MPLS_LABEL
        | FieldId::MPLS_TC
        | FieldId::MPLS_BOS
        | FieldId::NSH_SPI => number >> condition.field.width_bits() == 0,
        _ => true,
    };
    if is_possible {
        return Ok(());
    }
    let Condition { field, value, .. } = condition;
    let what = format!("{field} cannot be {value:?}");
    Err(refuse(ErrorCode::OFPBMC_BAD_VALUE, what))
}

/// Whether 32 bits are a port's number that 16 bits can hold too, as Open vSwitch requires.
pub(crate) fn is_port(number: u128) -> bool {
    u32::try_from(number).is_ok_and(|number| PortNumber(number).to_u16().is_some())
}
