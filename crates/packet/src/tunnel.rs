//! The values of the tunnel that a packet came out of, or that it goes into.
//!
//! They travel with the packet ([`crate::Packet::tunnel`]): a receiver sets them when it takes a
//! packet out of a tunnel, rules read and write them as fields (`tun_id`, `tun_src`, ...), and a
//! tunnel's port builds outer headers from them. The fields and their meaning are Open vSwitch's
//! (`struct flow_tnl`): a packet from no tunnel has zeros.
//!
//! Options of Geneve are values of `tun_metadata0` to `tun_metadata63`; the owner of the option
//! map translates them. An option is present even if its value is zero.

use crate::tunnel_part::{TUNNEL_OPTIONS, TunnelPart};
use crate::{FieldId, standard};

/// The flag of a control packet of Geneve.
const OAM: u16 = 1;

/// The values of a tunnel's outer headers.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct TunnelValues {
    /// The tunnel's key or network identifier.
    pub id: u64,
    /// The outer IPv4 source.
    pub ipv4_source: u32,
    /// The outer IPv4 destination.
    pub ipv4_destination: u32,
    /// The outer IPv6 source.
    pub ipv6_source: u128,
    /// The outer IPv6 destination.
    pub ipv6_destination: u128,
    /// The outer type of service or traffic class.
    pub tos: u8,
    /// The outer time to live or hop limit.
    pub ttl: u8,
    /// Yes-or-no values, numbered as in Open vSwitch (`FLOW_TNL_F_*`).
    pub flags: u16,
    /// The group of VXLAN's policy.
    pub group_policy_id: u16,
    /// The flags of VXLAN's policy.
    pub group_policy_flags: u8,
    /// The version of ERSPAN.
    pub erspan_version: u8,
    /// The index of ERSPAN.
    pub erspan_index: u32,
    /// The direction of ERSPAN.
    pub erspan_direction: u8,
    /// The hardware's number of ERSPAN.
    pub erspan_hardware: u8,
    /// The flags of GTP-U.
    pub gtpu_flags: u8,
    /// The message type of GTP-U.
    pub gtpu_message: u8,
    /// The options that are present, each once, by their numbers.
    options: Vec<(u8, u128)>,
}

impl TunnelValues {
    /// The values that these fields of the standard catalogue have; other fields do not count. An
    /// option of zero is present only if `tun_options` says so.
    pub fn of_fields(fields: impl IntoIterator<Item = (FieldId, u128)>) -> TunnelValues {
        let mut values = TunnelValues::default();
        for (field, value) in fields {
            match standard::tunnel_part(field) {
                Some(TunnelPart::Option(_)) if value == 0 => {}
                Some(part) => values.set(part, value),
                None => {}
            }
        }
        values
    }

    /// Makes everything zero and absent; keeps the memory.
    pub fn clear(&mut self) {
        let mut options = std::mem::take(&mut self.options);
        options.clear();
        *self = TunnelValues {
            options,
            ..TunnelValues::default()
        };
    }

    /// Whether there is an outer destination, so the packet came out of a tunnel or has been told
    /// where to go in one.
    pub fn has_destination(&self) -> bool {
        self.ipv4_destination != 0 || self.ipv6_destination != 0
    }

    /// The options that are present, by their numbers.
    pub fn options(&self) -> &[(u8, u128)] {
        &self.options
    }

    /// One value, cut to the width of its field.
    pub fn get(&self, part: TunnelPart) -> u128 {
        match part {
            TunnelPart::Id => self.id.into(),
            TunnelPart::Ipv4Source => self.ipv4_source.into(),
            TunnelPart::Ipv4Destination => self.ipv4_destination.into(),
            TunnelPart::Ipv6Source => self.ipv6_source,
            TunnelPart::Ipv6Destination => self.ipv6_destination,
            TunnelPart::Tos => self.tos.into(),
            TunnelPart::Ttl => self.ttl.into(),
            TunnelPart::Flags => u128::from(self.flags & OAM),
            TunnelPart::GroupPolicyId => self.group_policy_id.into(),
            TunnelPart::GroupPolicyFlags => self.group_policy_flags.into(),
            TunnelPart::ErspanVersion => u128::from(self.erspan_version & 0xf),
            TunnelPart::ErspanIndex => u128::from(self.erspan_index & 0xf_ffff),
            TunnelPart::ErspanDirection => u128::from(self.erspan_direction & 1),
            TunnelPart::ErspanHardware => u128::from(self.erspan_hardware & 0x3f),
            TunnelPart::GtpuFlags => self.gtpu_flags.into(),
            TunnelPart::GtpuMessage => self.gtpu_message.into(),
            TunnelPart::Option(number) => self
                .place_of(number)
                .map_or(0, |place| self.options[place].1),
            TunnelPart::Options => {
                let bits = self.options.iter().map(|(number, _)| 1 << number);
                bits.fold(0, |all, bit: u128| all | bit)
            }
        }
    }

    /// Sets one value, cut to its width. An option becomes present; of
    /// [`TunnelPart::Options`], bits that are zero make options absent, and bits that are one
    /// make absent options present with the value zero.
    pub fn set(&mut self, part: TunnelPart, value: u128) {
        match part {
            TunnelPart::Id => self.id = value as u64,
            TunnelPart::Ipv4Source => self.ipv4_source = value as u32,
            TunnelPart::Ipv4Destination => self.ipv4_destination = value as u32,
            TunnelPart::Ipv6Source => self.ipv6_source = value,
            TunnelPart::Ipv6Destination => self.ipv6_destination = value,
            TunnelPart::Tos => self.tos = value as u8,
            TunnelPart::Ttl => self.ttl = value as u8,
            TunnelPart::Flags => self.flags = self.flags & !OAM | value as u16 & OAM,
            TunnelPart::GroupPolicyId => self.group_policy_id = value as u16,
            TunnelPart::GroupPolicyFlags => self.group_policy_flags = value as u8,
            TunnelPart::ErspanVersion => self.erspan_version = value as u8,
            TunnelPart::ErspanIndex => self.erspan_index = value as u32,
            TunnelPart::ErspanDirection => self.erspan_direction = value as u8,
            TunnelPart::ErspanHardware => self.erspan_hardware = value as u8,
            TunnelPart::GtpuFlags => self.gtpu_flags = value as u8,
            TunnelPart::GtpuMessage => self.gtpu_message = value as u8,
            TunnelPart::Option(number) => self.set_option(number, value),
            TunnelPart::Options => {
                self.options.retain(|(number, _)| value >> number & 1 == 1);
                for number in (0..TUNNEL_OPTIONS).filter(|number| value >> number & 1 == 1) {
                    if self.place_of(number).is_none() {
                        self.set_option(number, 0);
                    }
                }
            }
        }
    }

    fn set_option(&mut self, number: u8, value: u128) {
        match self.place_of(number) {
            Some(place) => self.options[place].1 = value,
            None => {
                let place = self.options.partition_point(|(other, _)| *other < number);
                self.options.insert(place, (number, value));
            }
        }
    }

    fn place_of(&self, number: u8) -> Option<usize> {
        self.options.iter().position(|(other, _)| *other == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_zero_is_present() {
        let mut values = TunnelValues::default();
        values.set(TunnelPart::Option(63), 0);
        values.set(TunnelPart::Option(2), 7);
        assert_eq!(values.options(), [(2, 7), (63, 0)]);
        assert_eq!(values.get(TunnelPart::Options), 1 << 63 | 1 << 2);
        assert_eq!(values.get(TunnelPart::Option(2)), 7);
        assert_eq!(values.get(TunnelPart::Option(3)), 0);
        values.set(TunnelPart::Options, 1 << 63 | 1 << 5);
        assert_eq!(values.options(), [(5, 0), (63, 0)]);
        values.clear();
        assert_eq!(values, TunnelValues::default());
    }
}
