//! Chooses translated addresses and ports: the tuples that replies may have.
//!
//! ```text
//!   for an address of the range, beginning at hash or chance:
//!       destination ports of the range, if one was asked for
//!       source ports: of the range, or the packet's own, then others of its class
//!           up to 128 in order, then 64, 32, 16 and 8 from random starts
//! ```
//!
//! The caller tries the tuples in order and takes the first that no connection has. The order
//! is that of `nat_get_unique_tuple` in Open vSwitch's `lib/conntrack.c`. A source port stays
//! in its class (1-511, 600-1023, or 1024 and above), because servers trust low ports.
//!
//! 1. The tuples are a function of the arguments alone, and at most [`CANDIDATES_MAX`].
//! 2. Addresses and ports lie in the asked ranges, except the packet's own port where no range
//!    was given.
//! 3. With `is_persistent`, one source gets one address.
//!
//! Departures from Open vSwitch, which ignores `random`, `hash` and `persistent`: they do what
//! its manual says of the kernel's tracker. When an address has no free tuple, the next 15
//! addresses of the range are tried, unless the choice is persistent.

use std::net::Ipv6Addr;

use crate::hash::{self, Seed, halves};
use crate::{AddressTranslation, NatPorts, Selection, TranslationKind, Tuple};

/// The most tuples that are tried for one connection.
pub(crate) const CANDIDATES_MAX: usize = 512;

/// The most addresses that are tried for one connection.
const ADDRESSES_MAX: u128 = 16;

/// The most ports in order, then from each random start half of the last.
const PORTS_MAX: u32 = 128;
const PORTS_MIN: u32 = 16;

/// The target of a translation: which end, which addresses, which ports.
type Target = (TranslationKind, Option<(Ipv6Addr, Ipv6Addr)>, NatPorts);

/// The tuples that replies may have to a connection that begins with `tuple`.
pub(crate) fn reply_tuples<'a>(
    tuple: &'a Tuple,
    translation: &'a AddressTranslation,
    target: &'a Target,
    seed: Seed,
    random: u64,
) -> impl Iterator<Item = Tuple> + 'a {
    let hash = chance(tuple, translation, target, seed, random);
    let client = match translation.is_persistent {
        true => seed.words(&[range_words(target), halves(tuple.source.address)].concat()),
        false => hash,
    };
    addresses(tuple, translation, target, client)
        .flat_map(move |address| at_address(tuple, target, address, hash, random))
        .take(CANDIDATES_MAX)
}

/// The number that chooses from the ranges.
fn chance(
    tuple: &Tuple,
    translation: &AddressTranslation,
    target: &Target,
    seed: Seed,
    random: u64,
) -> u64 {
    if translation.selection == Selection::Random {
        return random;
    }
    let [a, b] = range_words(target);
    let [c, d] = halves(tuple.source.address);
    let [e, f] = halves(tuple.destination.address);
    let ports = u64::from(tuple.source.port) << 16 | u64::from(tuple.destination.port);
    let rest = u64::from(tuple.zone) << 16 | u64::from(tuple.protocol);
    seed.words(&[a, b, c, d, e, f, ports << 32 | rest])
}

/// The ranges in two words.
fn range_words(target: &Target) -> [u64; 2] {
    let (first, last) = target
        .1
        .unwrap_or((Ipv6Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED));
    let ports = target
        .2
        .map_or(0, |(first, last)| u64::from(first) << 16 | u64::from(last));
    let [a, b] = halves(first);
    let [c, d] = halves(last);
    [a ^ c.rotate_left(1) ^ ports, b ^ d.rotate_left(1)]
}

/// The addresses to try: of the range, or the packet's own.
fn addresses(
    tuple: &Tuple,
    translation: &AddressTranslation,
    target: &Target,
    hash: u64,
) -> impl Iterator<Item = Ipv6Addr> + use<> {
    let (first, last) = match target.1 {
        Some((first, last)) => (first.to_bits(), last.to_bits().max(first.to_bits())),
        None => {
            let own = match target.0 {
                TranslationKind::Source => tuple.source.address.to_bits(),
                TranslationKind::Destination => tuple.destination.address.to_bits(),
            };
            (own, own)
        }
    };
    let size = (last - first).saturating_add(1);
    let count = if translation.is_persistent {
        1
    } else {
        size.min(ADDRESSES_MAX)
    };
    let start = u128::from(hash) % size;
    (0..count).map(move |index| Ipv6Addr::from_bits(first + (start + index) % size))
}

/// The tuples with one address.
fn at_address(
    tuple: &Tuple,
    target: &Target,
    address: Ipv6Addr,
    hash: u64,
    random: u64,
) -> impl Iterator<Item = Tuple> + use<> {
    let kind = target.0;
    let mut first = tuple.reversed();
    match kind {
        TranslationKind::Source => first.destination.address = address,
        TranslationKind::Destination => first.source.address = address,
    }
    let [(current, sources), (port, destinations)] = port_ranges(tuple, target, hash);
    if tuple.has_ports() {
        first.source.port = port;
        first.destination.port = current;
    }
    let has_ports = tuple.has_ports();
    let alone = (!has_ports).then_some(first);
    let by_destination = (has_ports && destinations.0 < destinations.1)
        .then(|| ports(port, destinations, hash::step(random)))
        .into_iter()
        .flatten()
        .map(move |port| {
            let mut reply = first;
            reply.source.port = port;
            reply
        });
    let by_source = has_ports
        .then(|| ports(current, sources, random))
        .into_iter()
        .flatten()
        .map(move |port| {
            let mut reply = first;
            reply.destination.port = port;
            reply
        });
    alone.into_iter().chain(by_destination).chain(by_source)
}

/// The first port and the range, for the source and for the destination.
fn port_ranges(tuple: &Tuple, target: &Target, hash: u64) -> [(u16, (u16, u16)); 2] {
    let (source, destination) = (tuple.source.port, tuple.destination.port);
    let own_source = (source, class_of(source));
    let own_destination = (destination, (destination, destination));
    match (target.0, target.2) {
        (TranslationKind::Source, Some(range)) => [choose(range, hash), own_destination],
        (TranslationKind::Destination, Some(range)) => [own_source, choose(range, hash)],
        (_, None) => [own_source, own_destination],
    }
}

fn choose((first, last): (u16, u16), hash: u64) -> (u16, (u16, u16)) {
    let last = last.max(first);
    let size = u64::from(last - first) + 1;
    (first + (hash % size) as u16, (first, last))
}

/// The ports that are as good as this one.
fn class_of(port: u16) -> (u16, u16) {
    match port {
        0..512 => (1, 511),
        512..1024 => (600, 1023),
        _ => (1024, u16::MAX),
    }
}

/// The ports to try: `current` and those after it, around the range, then random parts of it.
fn ports(current: u16, (first, last): (u16, u16), random: u64) -> impl Iterator<Item = u16> {
    let size = u32::from(last - first) + 1;
    let is_outside = !(first..=last).contains(&current);
    let outside = is_outside.then_some(current);
    let start = if is_outside {
        0
    } else {
        u32::from(current - first)
    };
    let in_order = move |start: u32, count: u32| {
        (0..count).map(move |index| first + ((start + index) % size) as u16)
    };
    let mut state = random;
    let halves = std::iter::successors(Some(PORTS_MAX / 2), |count| Some(count / 2))
        .take_while(move |count| *count >= PORTS_MIN / 2 && size > PORTS_MAX)
        .flat_map(move |count| {
            state = hash::step(state);
            in_order((state % u64::from(size)) as u32, count)
        });
    outside
        .into_iter()
        .chain(in_order(start, size.min(PORTS_MAX)))
        .chain(halves)
}

#[cfg(test)]
mod tests;
