//! An endless source of filters, for tables of generated pipelines.
//!
//! Its callers do not know how many filters they need, and want some of them to match
//! destinations in their other tables. So it preserves less of a real set than
//! [`Shape::filters`](super::Shape::filters): source and destination lengths are drawn
//! independently, and the sharing of prefixes is one number, that of a set of 10,000.
//!
//! 1. *lengths*: source and destination prefix lengths follow the set's distribution;
//! 2. *sharing*: a prefix occurs in many filters, with the set's share of distinct ones;
//! 3. *nesting*: half of the new prefixes lie within, or around, an address used before;
//! 4. *services*: protocol and port classes are drawn together, ports with a Zipf-like skew.

use std::collections::HashSet;

use rand::Rng;

use super::profile::Recipe;
use super::shape::PortClass;
use super::{Filter, PortRange, Prefix, Profile};
use crate::seed::{Random, index_below, pick, stream, weighted_index};

/// Draws before a repeated filter gets fresh host addresses.
const DRAWS: usize = 16;

/// An endless source of filters; repeats are possible but rare.
pub(crate) struct FilterSource {
    recipe: &'static Recipe,
    random: Random,
    sources: AddressPool,
    destinations: AddressPool,
    seen: HashSet<Filter>,
}

impl FilterSource {
    pub(crate) fn new(profile: Profile, seed: u64) -> Self {
        FilterSource {
            recipe: profile.recipe(),
            random: stream(seed, "classbench"),
            sources: AddressPool::new(),
            destinations: AddressPool::new(),
            seen: HashSet::new(),
        }
    }

    /// Makes most destinations fall on or within these prefixes.
    pub(crate) fn with_destinations(mut self, prefixes: impl Iterator<Item = Prefix>) -> Self {
        for prefix in prefixes {
            self.destinations.remember(prefix);
        }
        self
    }

    pub(crate) fn next_filter(&mut self) -> Filter {
        for _ in 0..DRAWS {
            let filter = self.draw();
            if self.seen.insert(filter) {
                return filter;
            }
        }
        // The common combinations are used up; two fresh hosts are always available.
        let mut filter = self.draw();
        filter.source = Prefix::new(self.random.random(), 32);
        filter.destination = Prefix::new(self.random.random(), 32);
        self.seen.insert(filter);
        filter
    }

    fn draw(&mut self) -> Filter {
        let (recipe, random) = (self.recipe, &mut self.random);
        let source = self
            .sources
            .draw(random, recipe.source_lengths, recipe.source_reuse);
        let destination =
            self.destinations
                .draw(random, recipe.destination_lengths, recipe.destination_reuse);
        let weights = recipe.services.iter().map(|service| service.weight);
        let service = &recipe.services[weighted_index(random, weights)];
        let source_ports = draw_ports(random, recipe, service.source);
        let destination_ports = draw_ports(random, recipe, service.destination);
        let (flags, flags_mask) = if service.protocol == Some(6) {
            let weights = recipe.tcp_flags.iter().map(|(_, _, weight)| *weight);
            let (flags, mask, _) = recipe.tcp_flags[weighted_index(random, weights)];
            (flags, mask)
        } else {
            (0, 0)
        };
        let protocol = service.protocol;
        Filter {
            source,
            destination,
            source_ports,
            destination_ports,
            protocol,
            flags,
            flags_mask,
        }
    }
}

fn draw_ports(random: &mut Random, recipe: &Recipe, class: PortClass) -> PortRange {
    let range = |low, high| PortRange::new(low, high).expect("profiles have no empty range");
    match class {
        PortClass::Any => PortRange::ANY,
        PortClass::High => range(1024, 65535),
        PortClass::Low => range(0, 1023),
        PortClass::Range => {
            let (low, high) = *pick(random, recipe.ranges);
            range(low, high)
        }
        // One port in five is uniform; otherwise the rank is log-uniform, like Zipf's.
        PortClass::Exact if random.random_ratio(1, 5) => PortRange::exactly(random.random()),
        PortClass::Exact => {
            let rank = (recipe.ports.len() as f64).powf(random.random::<f64>()) as usize - 1;
            PortRange::exactly(recipe.ports[rank.min(recipe.ports.len() - 1)])
        }
    }
}

/// The prefixes used so far on one side, by length, and the addresses they came from.
struct AddressPool {
    by_length: Vec<Vec<u32>>,
    addresses: Vec<u32>,
}

impl AddressPool {
    fn new() -> Self {
        AddressPool {
            by_length: vec![Vec::new(); 33],
            addresses: Vec::new(),
        }
    }

    fn remember(&mut self, prefix: Prefix) {
        self.by_length[usize::from(prefix.length())].push(prefix.address() as u32);
        self.addresses.push(prefix.address() as u32);
    }

    fn draw(&mut self, random: &mut Random, lengths: &[(u8, u32)], reuse: u32) -> Prefix {
        let length = lengths[weighted_index(random, lengths.iter().map(|(_, weight)| *weight))].0;
        let known = &self.by_length[usize::from(length)];
        if !known.is_empty() && random.random_ratio(reuse, 1000) {
            return Prefix::new(*pick(random, known), length);
        }
        let mut address: u32 = random.random();
        if !self.addresses.is_empty() && random.random_ratio(1, 2) {
            // Keep some leading bits of an earlier address: a sibling, a child or a parent.
            let kept = random.random_range(8..=24_u32);
            let old = self.addresses[index_below(random, self.addresses.len())];
            let mask = u32::MAX << (32 - kept);
            address = (old & mask) | (address & !mask);
        }
        let prefix = Prefix::new(address, length);
        self.remember(prefix);
        prefix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_the_profile_s() {
        let share = |filters: &[Filter], test: fn(&Filter) -> bool| {
            filters.iter().filter(|filter| test(filter)).count() as f64 / filters.len() as f64
        };
        let filters = |profile| -> Vec<Filter> {
            let mut source = FilterSource::new(profile, 7);
            (0..5000).map(|_| source.next_filter()).collect()
        };
        let acl = filters(Profile::Acl1);
        assert!((0.75..0.95).contains(&share(&acl, |filter| filter.protocol == Some(6))));
        assert!((0.4..0.65).contains(&share(&acl, |filter| filter.source.length() == 32)));
        assert_eq!(
            share(&acl, |filter| filter.source_ports == PortRange::ANY),
            1.0
        );
        let firewall = filters(Profile::Fw1);
        assert!((0.5..0.75).contains(&share(&firewall, |filter| filter.source.length() < 2)));
        let distinct: HashSet<_> = acl.iter().map(|filter| filter.destination).collect();
        assert!((300..1500).contains(&distinct.len()), "{}", distinct.len());
    }
}
