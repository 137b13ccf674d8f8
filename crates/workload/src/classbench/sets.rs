//! Generates filter sets of a [`Shape`], of a given number of filters or of rules.
//!
//! Classification is hard because of the way fields combine, repeat and nest, not because of
//! single fields. So five properties of a real set are preserved:
//!
//! 1. *lengths*: source and destination lengths come in pairs, with the set's frequencies for
//!    the same classes of ports;
//! 2. *sharing*: the share of distinct prefixes in a set of this size. It depends on the size,
//!    in no regular way: in ClassBench's acl1 with 6,291 filters 43 % of the sources are
//!    distinct, with 61,898 all. So the shape gives it for several sizes, and the generator
//!    interpolates between them by the logarithm of the size;
//! 3. *popularity*: prefixes are shared unevenly: of `n` prefixes of a length, the one at
//!    place `n u^2` is reused, for a uniform `u`, so that a tenth of them have a third of the
//!    uses;
//! 4. *nesting*: a tenth of the new prefixes lie within, or around, an address used before;
//! 5. *services*: protocol and port classes are drawn together, ports by frequency.
//!
//! ClassBench itself grows two address tries with a skew for each level and a correlation
//! between them (Taylor and Turner, INFOCOM 2005, section IV). `tests/classbench_files.rs`
//! compares the result with its sets. Filters are sorted from narrow to wide, so that wide
//! ones do not hide the others; in ClassBench's sets some are hidden.

use std::collections::{BTreeMap, HashSet};

use rand::Rng;

use super::shape::{LengthShare, PortClass, PortShares, Shape, Sharing};
use super::{Extra, Filter, PortRange, Prefix, Profile};
use crate::seed::{Random, index_below, stream};

/// Makes `count` different filters like those of `profile`, narrow ones first.
pub fn generate_filters(profile: Profile, count: usize, seed: u64) -> Vec<Filter> {
    Shape::built_in(profile).filters(count, seed)
}

/// Draws before a repeated filter gets fresh addresses.
const DRAWS: usize = 32;

/// Filters drawn to estimate the number of rules per filter.
const TRIAL: usize = 2_000;

impl Shape {
    /// Makes `count` different filters of this shape, narrow ones first.
    ///
    /// # Panics
    /// If filters cannot be drawn from the shape; a checked shape never panics.
    pub fn filters(&self, count: usize, seed: u64) -> Vec<Filter> {
        let mut source = SetSource::new(self, count, seed);
        let mut filters: Vec<Filter> = (0..count).map(|_| source.next_filter()).collect();
        sort_by_width(&mut filters);
        filters
    }

    /// Makes different filters that become `rules` rules, or slightly fewer; narrow ones
    /// first.
    ///
    /// # Panics
    /// If filters cannot be drawn from the shape; a checked shape never panics.
    pub fn filters_for_rules(&self, rules: usize, seed: u64) -> Vec<Filter> {
        let size = |filter: &Filter| filter.matches(Extra::Ignore).len();
        let trial: usize = self.filters(TRIAL, seed).iter().map(size).sum();
        let mut source = SetSource::new(self, rules * TRIAL / trial, seed);
        let (mut filters, mut left, mut refused) = (Vec::new(), rules, 0);
        // A filter that is too large is skipped, so that smaller ones fill the room.
        while left > 0 && refused < 1_000 {
            let filter = source.next_filter();
            match left.checked_sub(size(&filter)) {
                Some(rest) => {
                    left = rest;
                    filters.push(filter);
                }
                None => refused += 1,
            }
        }
        sort_by_width(&mut filters);
        filters
    }

    /// The sharing in a set of `filters` filters.
    fn sharing_of(&self, filters: usize) -> Sharing {
        let filters = filters.max(1) as u32;
        let above = self.sharing.partition_point(|one| one.filters < filters);
        let (Some(low), Some(high)) = (
            self.sharing.get(above.saturating_sub(1)),
            self.sharing.get(above.min(self.sharing.len() - 1)),
        ) else {
            unreachable!("a checked shape knows a size")
        };
        let place = match low.filters == high.filters {
            true => 0.0,
            false => {
                let log = |filters: u32| f64::from(filters).ln();
                let all = log(high.filters) - log(low.filters);
                ((log(filters) - log(low.filters)) / all).clamp(0.0, 1.0)
            }
        };
        let between = |low: u32, high: u32| {
            (f64::from(low) + (f64::from(high) - f64::from(low)) * place).round() as u32
        };
        Sharing {
            filters,
            sources: between(low.sources, high.sources),
            destinations: between(low.destinations, high.destinations),
        }
    }
}

fn sort_by_width(filters: &mut [Filter]) {
    filters.sort_by_key(|filter| {
        let bits = u16::from(filter.source.length()) + u16::from(filter.destination.length());
        std::cmp::Reverse(bits)
    });
}

/// A source of different filters, for a set of known size.
struct SetSource<'a> {
    shape: &'a Shape,
    random: Random,
    /// The pairs of lengths for each pair of port classes.
    pairs: BTreeMap<(PortClass, PortClass), (Vec<&'a LengthShare>, Weights)>,
    services: Weights,
    flags: Option<Weights>,
    source_ports: PortSource<'a>,
    destination_ports: PortSource<'a>,
    sources: AddressPool,
    destinations: AddressPool,
    seen: HashSet<Filter>,
}

impl<'a> SetSource<'a> {
    fn new(shape: &'a Shape, count: usize, seed: u64) -> Self {
        assert_eq!(shape.check(), Ok(()), "shapes are checked first");
        let sharing = shape.sharing_of(count);
        let mut by_ports: BTreeMap<_, Vec<&LengthShare>> = BTreeMap::new();
        for one in &shape.lengths {
            by_ports.entry(one.ports).or_default().push(one);
        }
        let with_weights = |shares: Vec<&'a LengthShare>| {
            let weights = Weights::new(shares.iter().map(|one| one.weight));
            (shares, weights)
        };
        let pairs = by_ports.into_iter();
        let pairs = pairs.map(|(ports, shares)| (ports, with_weights(shares)));
        let pool = |length: fn(&LengthShare) -> u8, distinct: u32| {
            let mut by_length = vec![0; 129];
            for one in &shape.lengths {
                by_length[usize::from(length(one))] += u64::from(one.weight);
            }
            AddressPool::new(shape.width(), &by_length, count, distinct)
        };
        SetSource {
            shape,
            random: stream(seed, "filter set"),
            pairs: pairs.collect(),
            services: Weights::new(shape.services.iter().map(|service| service.weight)),
            flags: (!shape.tcp_flags.is_empty())
                .then(|| Weights::new(shape.tcp_flags.iter().map(|flags| flags.2))),
            source_ports: PortSource::new(&shape.source_ports),
            destination_ports: PortSource::new(&shape.destination_ports),
            sources: pool(|one| one.source, sharing.sources),
            destinations: pool(|one| one.destination, sharing.destinations),
            seen: HashSet::with_capacity(count),
        }
    }

    fn next_filter(&mut self) -> Filter {
        for _ in 0..DRAWS {
            let filter = self.draw();
            if self.seen.insert(filter) {
                return filter;
            }
        }
        // The common combinations are used up; two fresh hosts are always available.
        loop {
            let width = self.shape.width();
            let mut filter = self.draw();
            let mut host = |pool: &AddressPool| {
                let address = pool.address(&mut self.random);
                Prefix::of_width(address, width, width)
            };
            filter.source = host(&self.sources);
            filter.destination = host(&self.destinations);
            if self.seen.insert(filter) {
                return filter;
            }
        }
    }

    fn draw(&mut self) -> Filter {
        let (shape, random) = (self.shape, &mut self.random);
        let service = &shape.services[self.services.draw(random)];
        let (lengths, weights) = &self.pairs[&(service.source, service.destination)];
        let lengths = lengths[weights.draw(random)];
        let source = self.sources.draw(random, lengths.source);
        let destination = self.destinations.draw(random, lengths.destination);
        let source_ports = self.source_ports.draw(random, service.source);
        let destination_ports = self.destination_ports.draw(random, service.destination);
        let (flags, flags_mask) = match &self.flags {
            Some(weights) if service.protocol == Some(6) => {
                let (flags, mask, _) = shape.tcp_flags[weights.draw(random)];
                (flags, mask)
            }
            _ => (0, 0),
        };
        Filter {
            source,
            destination,
            source_ports,
            destination_ports,
            protocol: service.protocol,
            flags,
            flags_mask,
        }
    }
}

/// Ports of one side.
struct PortSource<'a> {
    ports: &'a PortShares,
    exact: Weights,
    ranges: Weights,
}

impl<'a> PortSource<'a> {
    fn new(ports: &'a PortShares) -> Self {
        PortSource {
            ports,
            exact: Weights::new(ports.exact.iter().map(|(_, weight)| *weight)),
            ranges: Weights::new(ports.ranges.iter().map(|(_, weight)| *weight)),
        }
    }

    fn draw(&self, random: &mut Random, class: PortClass) -> PortRange {
        let range = |low, high| PortRange::new(low, high).expect("not empty");
        match class {
            PortClass::Any => PortRange::ANY,
            PortClass::High => range(1024, u16::MAX),
            PortClass::Low => range(0, 1023),
            PortClass::Range => self.ports.ranges[self.ranges.draw(random)].0,
            PortClass::Exact => PortRange::exactly(self.ports.exact[self.exact.draw(random)].0),
        }
    }
}

/// The prefixes used so far on one side, by length, and the addresses they came from.
struct AddressPool {
    width: u8,
    /// The chance of a new prefix.
    fresh: f64,
    by_length: Vec<Vec<u128>>,
    addresses: Vec<u128>,
}

impl AddressPool {
    /// Creates a pool for `count` draws with lengths weighted by `by_length`, so that
    /// `distinct` of a thousand prefixes are distinct, as far as the lengths allow.
    fn new(width: u8, by_length: &[u64], count: usize, distinct: u32) -> AddressPool {
        let total: u64 = by_length.iter().sum();
        let wanted = count as f64 * f64::from(distinct) / 1_000.0;
        let expected = |fresh: f64| -> f64 {
            let of_length = |(length, weight): (usize, &u64)| {
                let uses = count as f64 * *weight as f64 / total as f64;
                // Short prefixes are limited in number, and any use has at least one prefix.
                (uses * fresh)
                    .max(uses.min(1.0))
                    .min(2_f64.powi(length as i32))
            };
            by_length.iter().enumerate().map(of_length).sum()
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            match expected(middle) < wanted {
                true => low = middle,
                false => high = middle,
            }
        }
        AddressPool {
            width,
            fresh: high,
            by_length: vec![Vec::new(); usize::from(width) + 1],
            addresses: Vec::new(),
        }
    }

    fn draw(&mut self, random: &mut Random, length: u8) -> Prefix {
        let known = &self.by_length[usize::from(length)];
        if !known.is_empty() && !random.random_bool(self.fresh) {
            let place = known.len() as f64 * random.random::<f64>().powi(2);
            return Prefix::of_width(known[place as usize], length, self.width);
        }
        let address = self.address(random);
        let prefix = Prefix::of_width(address, length, self.width);
        self.by_length[usize::from(length)].push(prefix.address());
        self.addresses.push(address);
        prefix
    }

    /// Draws a random address, or one near an earlier one.
    fn address(&self, random: &mut Random) -> u128 {
        let mut address: u128 = random.random();
        // Global IPv6 addresses begin with these three bits (RFC 4291, section 2.4).
        let (fixed, kept) = match self.width {
            32 => (0, random.random_range(8..=24_u32)),
            _ => {
                address = address >> 3 | 1 << 125;
                (3, random.random_range(20..=64_u32))
            }
        };
        if !self.addresses.is_empty() && random.random_ratio(1, 10) {
            // Keep some leading bits of an earlier address: a sibling, a child or a parent.
            let old = self.addresses[index_below(random, self.addresses.len())];
            let mask = u128::MAX << (u32::from(self.width) - kept.max(fixed));
            address = (old & mask) | (address & !mask);
        }
        address
    }
}

/// Draws indexes in proportion to their weights.
struct Weights {
    /// The sums of the weights up to each index.
    sums: Vec<u64>,
}

impl Weights {
    fn new(weights: impl Iterator<Item = u32>) -> Weights {
        let mut sum = 0;
        let sums = weights.map(|weight| {
            sum += u64::from(weight);
            sum
        });
        Weights {
            sums: sums.collect(),
        }
    }

    fn draw(&self, random: &mut Random) -> usize {
        let total = *self.sums.last().expect("a checked shape has weights");
        let place = random.random_range(0..total);
        self.sums.partition_point(|sum| *sum <= place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_exact_and_the_seed_decides() {
        for profile in Profile::ALL {
            let filters = generate_filters(profile, 2000, 1);
            assert_eq!(filters.len(), 2000);
            assert_eq!(filters.iter().collect::<HashSet<_>>().len(), 2000);
            assert_eq!(filters, generate_filters(profile, 2000, 1));
            assert_ne!(filters, generate_filters(profile, 2000, 2));
        }
    }

    #[test]
    fn rules_are_as_many_as_asked_for_or_a_few_less() {
        for profile in Profile::ALL {
            for rules in [1, 50, 3000] {
                let filters = Shape::built_in(profile).filters_for_rules(rules, 1);
                let sizes = filters
                    .iter()
                    .map(|filter| filter.matches(Extra::Ignore).len());
                let made: usize = sizes.sum();
                assert!((rules.saturating_sub(5)..=rules).contains(&made), "{made}");
            }
        }
    }

    #[test]
    fn sharing_is_interpolated_and_met() {
        let shape = Shape::built_in(Profile::Acl1);
        let sources = |filters| shape.sharing_of(filters).sources;
        assert_eq!((sources(1), sources(456)), (39, 39));
        assert_eq!((sources(61_898), sources(1_000_000)), (997, 997));
        assert!((200..300).contains(&sources(1_700)), "{}", sources(1_700));
        for profile in Profile::ALL {
            let shape = Shape::built_in(profile);
            for count in [1_000, 8_000] {
                let (wanted, found) = (
                    shape.sharing_of(count),
                    Shape::of(&shape.filters(count, 3)).sharing[0],
                );
                for (wanted, found) in [
                    (wanted.sources, found.sources),
                    (wanted.destinations, found.destinations),
                ] {
                    let (wanted, found) = (f64::from(wanted), f64::from(found));
                    let is_near = (found - wanted).abs() < 15.0 + wanted / 8.0;
                    assert!(is_near, "{profile:?} {count}: {found}, not {wanted}");
                }
            }
        }
    }

    #[test]
    fn addresses_of_ipv6_are_global() {
        let filters = generate_filters(Profile::Ipc6, 3000, 1);
        assert!(filters.iter().all(Filter::is_ipv6));
        let is_global = |prefix: &Prefix| prefix.length() < 3 || prefix.address() >> 125 == 1;
        assert!(filters.iter().all(|filter| is_global(&filter.source)));
        assert!(filters.iter().any(|filter| filter.source.length() == 48));
    }
}
