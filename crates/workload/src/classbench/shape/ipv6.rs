//! Derives IPv6 shapes from IPv4 shapes.
//!
//! No public set of real IPv6 filters is large enough to count. So the services, the sharing
//! and the mixture of wide and narrow prefixes are those of IPv4, and only lengths are
//! replaced, by the meaning of a prefix:
//!
//! | IPv4 | meaning | IPv6 |
//! | --- | --- | --- |
//! | 30 to 32 bits | a host, or a few | 126 to 128 |
//! | 25 to 29 | a subnet | 64 |
//! | 16 to 24 | a network with a route | as the routes of the Internet, below |
//! | 1 to 15 | a large part of all addresses | 3 (all global ones) and 20 |
//! | 0 | everything | 0 |
//!
//! Routes: nearly half of the prefixes in the IPv6 routing table have 48 bits, 32 and 44 come
//! next, and the mean was 43.2 bits in October 2024 (Huston, *AS6447 IPv6 BGP Table Data*,
//! bgp.potaroo.net). The weights below are rounded to that mean; they are not the count of one
//! day.

use std::collections::BTreeMap;

use super::{LengthShare, Shape};

/// Lengths of networks with a route, and their shares in a thousand.
pub(super) const ROUTES: [(u8, u32); 12] = [
    (28, 12),
    (29, 25),
    (32, 124),
    (36, 45),
    (40, 95),
    (42, 23),
    (44, 140),
    (45, 20),
    (46, 40),
    (47, 30),
    (48, 436),
    (56, 10),
];

impl Shape {
    /// Replaces IPv4 lengths by IPv6 lengths.
    pub(super) fn to_ipv6(&self) -> Shape {
        let mut lengths: BTreeMap<_, u64> = BTreeMap::new();
        for one in &self.lengths {
            for (source, source_share) in counterparts(one.source) {
                for (destination, share) in counterparts(one.destination) {
                    let weight = u64::from(one.weight) * u64::from(source_share * share);
                    *lengths.entry((one.ports, source, destination)).or_default() += weight;
                }
            }
        }
        // Both shares are in a thousand, so weights are in a million.
        let lengths = lengths.into_iter();
        let lengths = lengths.map(|((ports, source, destination), weight)| LengthShare {
            ports,
            source,
            destination,
            weight: weight.div_ceil(1_000_000) as u32,
        });
        let mut shape = Shape {
            is_ipv6: true,
            lengths: lengths.collect(),
            ..self.clone()
        };
        for service in &mut shape.services {
            if service.protocol == Some(1) {
                service.protocol = Some(58);
            }
        }
        shape
    }
}

fn counterparts(length: u8) -> Vec<(u8, u32)> {
    match length {
        0 => vec![(0, 1_000)],
        1 => vec![(3, 1_000)],
        2..=15 => vec![(20, 1_000)],
        16..=24 => ROUTES.to_vec(),
        25..=29 => vec![(64, 1_000)],
        _ => vec![(length + 96, 1_000)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_have_the_mean_length_of_the_table() {
        let total: u32 = ROUTES.iter().map(|(_, share)| share).sum();
        let bits: u32 = (ROUTES.iter())
            .map(|(length, share)| u32::from(*length) * share)
            .sum();
        assert_eq!(total, 1_000);
        assert_eq!((bits + 50) / 100, 432, "43.2 bits");
    }
}
