//! The values of a tunnel as packets carry them, and as headers have them.
//!
//! Options of Geneve go through the map of the port's bridge. A field of an option has 16 bytes
//! here, so longer options are left out in both directions, and counted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thalweg_packet::{TunnelPart, TunnelValues};
use thalweg_tunnel::{
    EncapsulateError, Endpoints, ErspanValues, GroupPolicy, GtpuValues, OptionMap, OptionRefusal,
    OptionValues, TunnelFlags, TunnelMetadata,
};

/// Bytes of the longest option that a field can have.
const FIELD_BYTES: usize = 16;

/// The addresses that a packet carries: both families, of which one is unset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CarriedAddresses {
    pub(super) source: Option<IpAddr>,
    pub(super) destination: Option<IpAddr>,
}

impl CarriedAddresses {
    /// The addresses among these values.
    pub(super) fn of(values: &TunnelValues) -> Self {
        let address = |four: u32, six: u128| match (four, six) {
            (0, 0) => None,
            (0, six) => Some(IpAddr::V6(Ipv6Addr::from(six))),
            (four, _) => Some(IpAddr::V4(Ipv4Addr::from(four))),
        };
        CarriedAddresses {
            source: address(values.ipv4_source, values.ipv6_source),
            destination: address(values.ipv4_destination, values.ipv6_destination),
        }
    }
}

/// Writes what headers said into a packet's values; returns the number of options left out.
///
/// # Errors
/// If the packet must be dropped for its options.
pub(super) fn write_values(
    metadata: &TunnelMetadata,
    map: &OptionMap,
    values: &mut TunnelValues,
) -> Result<u64, OptionRefusal> {
    values.clear();
    match metadata.endpoints {
        Endpoints::V4 {
            source,
            destination,
        } => {
            values.ipv4_source = source.into();
            values.ipv4_destination = destination.into();
        }
        Endpoints::V6 {
            source,
            destination,
        } => {
            values.ipv6_source = source.into();
            values.ipv6_destination = destination.into();
        }
    }
    values.id = metadata.id;
    values.tos = metadata.tos;
    values.ttl = metadata.ttl;
    values.flags = u16::from(metadata.flags.0 & TunnelFlags::OAM.0);
    values.group_policy_id = metadata.group_policy.id;
    values.group_policy_flags = metadata.group_policy.flags;
    values.erspan_version = metadata.erspan.version;
    values.erspan_index = metadata.erspan.index;
    values.erspan_direction = metadata.erspan.direction;
    values.erspan_hardware = metadata.erspan.hardware_id;
    values.gtpu_flags = metadata.gtpu.flags;
    values.gtpu_message = metadata.gtpu.message;
    if metadata.options.is_empty() {
        return Ok(0);
    }
    let options = map.values_of(&metadata.options)?;
    let mut left_out = 0;
    for mapping in map.mappings() {
        let Some(value) = options.get(mapping.index) else {
            continue;
        };
        if value.len() > FIELD_BYTES {
            left_out += 1;
            continue;
        }
        let number = value
            .iter()
            .fold(0, |all: u128, byte| all << 8 | u128::from(*byte));
        values.set(TunnelPart::Option(mapping.index as u8), number);
    }
    Ok(left_out)
}

/// What a packet's values say, with endpoints of zero; the second part is the number of options
/// left out.
///
/// # Errors
/// If the options do not fit into a header.
pub(super) fn metadata_of(
    values: &TunnelValues,
    map: &OptionMap,
) -> Result<(TunnelMetadata, u64), EncapsulateError> {
    let mut metadata = TunnelMetadata {
        id: values.id,
        tos: values.tos,
        ttl: values.ttl,
        flags: TunnelFlags(values.flags as u8 & TunnelFlags::OAM.0),
        group_policy: GroupPolicy {
            id: values.group_policy_id,
            flags: values.group_policy_flags,
        },
        erspan: ErspanValues {
            version: values.erspan_version,
            index: values.erspan_index,
            direction: values.erspan_direction,
            hardware_id: values.erspan_hardware,
        },
        gtpu: GtpuValues {
            flags: values.gtpu_flags,
            message: values.gtpu_message,
        },
        ..TunnelMetadata::default()
    };
    let mut left_out = 0;
    if !values.options().is_empty() {
        let mut options = OptionValues::default();
        for (number, value) in values.options() {
            let index = u16::from(*number);
            let Some(mapping) = map.mapping(index) else {
                continue;
            };
            if usize::from(mapping.len_bytes) > FIELD_BYTES {
                left_out += 1;
                continue;
            }
            map.set(&mut options, index, &value.to_be_bytes());
        }
        metadata.options = map.options_of(&options)?;
    }
    Ok((metadata, left_out))
}

#[cfg(test)]
mod tests {
    use thalweg_tunnel::OptionMapping;

    use super::*;

    #[test]
    fn values_are_read_as_they_were_written() {
        let mut map = OptionMap::default();
        for (index, len_bytes) in [(0, 4), (5, 16), (9, 20), (63, 0)] {
            let mapping = OptionMapping {
                class: 0x102,
                kind: index as u8,
                len_bytes,
                index,
            };
            map.add(&[mapping]).unwrap();
        }
        let mut values = TunnelValues::default();
        values.id = 0x00ab_cdef;
        values.tos = 0x28;
        values.ttl = 9;
        values.flags = 1;
        values.group_policy_id = 77;
        values.group_policy_flags = 0x48;
        values.erspan_version = 2;
        values.erspan_index = 5;
        values.erspan_direction = 1;
        values.erspan_hardware = 3;
        values.gtpu_flags = 0x32;
        values.gtpu_message = 255;
        values.set(TunnelPart::Option(0), 0xdead_beef);
        values.set(TunnelPart::Option(5), u128::MAX - 1);
        values.set(TunnelPart::Option(63), 0);
        let (metadata, left_out) = metadata_of(&values, &map).unwrap();
        assert_eq!((left_out, metadata.options.iter().count()), (0, 3));
        let mut read = TunnelValues::default();
        read.id = 1;
        assert_eq!(write_values(&metadata, &map, &mut read), Ok(0));
        assert_eq!(read, values);
        let without = OptionMap::default();
        assert_eq!(write_values(&metadata, &without, &mut read), Ok(0));
        assert!(read.options().is_empty());
        values.set(TunnelPart::Option(9), 1);
        let (metadata, left_out) = metadata_of(&values, &map).unwrap();
        assert_eq!((left_out, metadata.options.iter().count()), (1, 3));
    }

    #[test]
    fn addresses_are_of_the_family_that_is_set() {
        let mut values = TunnelValues::default();
        let none = CarriedAddresses::of(&values);
        assert_eq!((none.source, none.destination), (None, None));
        let four = TunnelMetadata {
            endpoints: Endpoints::V4 {
                source: Ipv4Addr::new(1, 2, 3, 4),
                destination: Ipv4Addr::new(5, 6, 7, 8),
            },
            ..TunnelMetadata::default()
        };
        let six = TunnelMetadata {
            endpoints: Endpoints::V6 {
                source: Ipv6Addr::LOCALHOST,
                destination: Ipv6Addr::from(7),
            },
            ..TunnelMetadata::default()
        };
        for metadata in [four, six] {
            write_values(&metadata, &OptionMap::default(), &mut values).unwrap();
            let carried = CarriedAddresses::of(&values);
            assert_eq!(carried.source, Some(metadata.endpoints.source()));
            assert_eq!(carried.destination, Some(metadata.endpoints.destination()));
        }
    }
}
