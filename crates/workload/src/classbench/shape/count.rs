//! Counts the shape of existing filters.

use std::collections::{BTreeMap, HashSet};

use super::super::{Filter, PortRange};
use super::{LengthShare, PortClass, PortShares, ServiceShare, Shape, Sharing};

impl Shape {
    /// The shape of a set; it has the sharing for the set's own size only.
    pub fn of(filters: &[Filter]) -> Shape {
        let per_mille = |distinct: usize| (1_000 * distinct).div_ceil(filters.len().max(1)) as u32;
        let sources: HashSet<_> = filters.iter().map(|filter| filter.source).collect();
        let destinations: HashSet<_> = filters.iter().map(|filter| filter.destination).collect();
        let lengths = counts(filters.iter().map(|filter| {
            let ports = (
                PortClass::of(filter.source_ports),
                PortClass::of(filter.destination_ports),
            );
            let (source, destination) = (filter.source.length(), filter.destination.length());
            Some((ports, source, destination))
        }));
        let services = counts(filters.iter().map(|filter| {
            let classes = (
                PortClass::of(filter.source_ports),
                PortClass::of(filter.destination_ports),
            );
            Some((filter.protocol, classes))
        }));
        let flags = counts(filters.iter().map(|filter| {
            let is_tcp = filter.protocol == Some(6);
            is_tcp.then_some((filter.flags, filter.flags_mask))
        }));
        let service = |((protocol, (source, destination)), weight)| ServiceShare {
            protocol,
            source,
            destination,
            weight,
        };
        Shape {
            is_ipv6: filters.first().is_some_and(Filter::is_ipv6),
            sharing: vec![Sharing {
                filters: filters.len() as u32,
                sources: per_mille(sources.len()),
                destinations: per_mille(destinations.len()),
            }],
            lengths: (lengths.into_iter())
                .map(|((ports, source, destination), weight)| LengthShare {
                    ports,
                    source,
                    destination,
                    weight,
                })
                .collect(),
            services: services.into_iter().map(service).collect(),
            source_ports: PortShares::of(filters.iter().map(|filter| filter.source_ports)),
            destination_ports: PortShares::of(
                filters.iter().map(|filter| filter.destination_ports),
            ),
            tcp_flags: (flags.into_iter())
                .map(|((flags, mask), weight)| (flags, mask, weight))
                .collect(),
        }
    }
}

impl PortClass {
    /// The class of a range.
    pub fn of(range: PortRange) -> PortClass {
        match (range.low(), range.high()) {
            (0, u16::MAX) => PortClass::Any,
            (1024, u16::MAX) => PortClass::High,
            (0, 1023) => PortClass::Low,
            (low, high) if low == high => PortClass::Exact,
            _ => PortClass::Range,
        }
    }
}

impl PortShares {
    fn of(ranges: impl Iterator<Item = PortRange> + Clone) -> PortShares {
        let exact = counts(ranges.clone().map(|range| {
            let is_exact = PortClass::of(range) == PortClass::Exact;
            is_exact.then_some(range.low())
        }));
        let ranges = counts(ranges.map(|range| {
            let is_range = PortClass::of(range) == PortClass::Range;
            is_range.then_some((range.low(), range.high()))
        }));
        let range = |(low, high)| PortRange::new(low, high).expect("it was one before");
        PortShares {
            exact: exact.into_iter().collect(),
            ranges: (ranges.into_iter())
                .map(|(ends, weight)| (range(ends), weight))
                .collect(),
        }
    }
}

/// The number of occurrences of each item.
fn counts<T: Ord>(items: impl Iterator<Item = Option<T>>) -> BTreeMap<T, u32> {
    let mut counts = BTreeMap::new();
    for item in items.flatten() {
        *counts.entry(item).or_default() += 1;
    }
    counts
}
