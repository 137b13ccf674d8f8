//! Which tuples are tried, in which order.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::protocol;
use crate::tests::{address, echo_tuple, tuple};

const SOURCE: TranslationKind = TranslationKind::Source;
const DESTINATION: TranslationKind = TranslationKind::Destination;

fn translation(
    kind: TranslationKind,
    range: Option<(&str, &str)>,
    ports: NatPorts,
) -> AddressTranslation {
    let range = range.map(|(first, last)| (address(first), address(last)));
    AddressTranslation {
        target: Some((kind, range, ports)),
        selection: Selection::Any,
        is_persistent: false,
    }
}

fn tries(tuple: &Tuple, translation: &AddressTranslation, random: u64) -> Vec<Tuple> {
    let target = translation.target.as_ref().expect("a target");
    reply_tuples(tuple, translation, target, Seed::new(1), random).collect()
}

#[test]
fn a_source_keeps_its_port_first_and_its_class_after() {
    let one = Some(("192.0.2.1", "192.0.2.1"));
    for (port, first, last) in [
        (5_000, 1_024, u16::MAX),
        (80, 1, 511),
        (700, 600, 1_023),
        (550, 600, 1_023),
    ] {
        let ends = tuple("10.0.0.1", port, "10.0.0.2", 53);
        let tries = tries(&ends, &translation(SOURCE, one, None), 9);
        assert_eq!(tries[0].destination.port, port);
        assert_eq!(
            tries[1].destination.port,
            if port == 550 { 600 } else { port + 1 }
        );
        assert!(tries[1..].iter().all(|reply| {
            reply.destination.address == address("192.0.2.1")
                && (first..=last).contains(&reply.destination.port)
                && reply.source == ends.destination
        }));
        let in_order = usize::from(port == 550) + 128;
        assert_eq!(tries.len(), in_order + 64 + 32 + 16 + 8);
    }
}

#[test]
fn a_small_range_of_ports_is_tried_whole() {
    let ends = tuple("10.0.0.1", 5_000, "10.0.0.2", 53);
    let tries = tries(&ends, &translation(SOURCE, None, Some((100, 109))), 9);
    let ports: BTreeSet<u16> = tries.iter().map(|reply| reply.destination.port).collect();
    assert_eq!((tries.len(), ports), (10, (100..=109).collect()));
    assert!(
        tries
            .iter()
            .all(|reply| reply.destination.address == address("10.0.0.1"))
    );
}

#[test]
fn a_destination_changes_its_port_and_then_the_source_port() {
    let ends = tuple("10.0.0.1", 5_000, "192.0.2.1", 53);
    let to = Some(("10.0.0.2", "10.0.0.2"));
    let tries = tries(&ends, &translation(DESTINATION, to, Some((80, 82))), 9);
    let by_port: BTreeSet<u16> = tries[..3].iter().map(|reply| reply.source.port).collect();
    assert_eq!(by_port, (80..=82).collect());
    assert!(
        tries[..3]
            .iter()
            .all(|reply| reply.destination.port == 5_000)
    );
    assert!(
        tries[3..]
            .iter()
            .all(|reply| reply.source.port == tries[0].source.port)
    );
    assert_eq!(tries[3].destination.port, 5_000);
    assert_eq!(tries[4].destination.port, 5_001);
    assert!(
        tries
            .iter()
            .all(|reply| reply.source.address == address("10.0.0.2"))
    );
}

#[test]
fn without_ports_only_addresses_are_tried() {
    let range = Some(("192.0.2.0", "192.0.2.3"));
    let echo = echo_tuple("10.0.0.1", "10.0.0.2", 7);
    let other = Tuple {
        protocol: 47,
        ..tuple("10.0.0.1", 0, "10.0.0.2", 0)
    };
    for ends in [echo, other] {
        let tries = tries(&ends, &translation(SOURCE, range, Some((1, 9))), 9);
        let addresses: BTreeSet<Ipv6Addr> = tries
            .iter()
            .map(|reply| reply.destination.address)
            .collect();
        assert_eq!((tries.len(), addresses.len()), (4, 4));
        assert!(
            tries
                .iter()
                .all(|reply| reply.destination.port == ends.source.port)
        );
    }
    let wide = Some(("192.0.2.0", "192.0.2.255"));
    assert_eq!(tries(&echo, &translation(SOURCE, wide, None), 9).len(), 16);
}

#[test]
fn a_persistent_client_has_one_address() {
    let range = Some(("2001:db8::", "2001:db8:ffff::"));
    let mut translation = translation(SOURCE, range, None);
    let addresses = |translation: &AddressTranslation| -> BTreeSet<Ipv6Addr> {
        let clients = (0..20).map(|port| tuple("fc00::1", 2_000 + port, "fc00::2", 53));
        clients
            .flat_map(|ends| tries(&ends, translation, u64::from(ends.source.port)))
            .map(|reply| reply.destination.address)
            .collect()
    };
    assert!(addresses(&translation).len() >= 20);
    translation.is_persistent = true;
    assert_eq!(addresses(&translation).len(), 1, "invariant 3");
    translation.selection = Selection::Random;
    assert_eq!(addresses(&translation).len(), 1, "invariant 3");
}

#[test]
fn chance_decides_only_if_asked() {
    let range = Some(("192.0.2.0", "192.0.2.255"));
    let ends = tuple("10.0.0.1", 5_000, "10.0.0.2", 53);
    let mut translation = translation(SOURCE, range, Some((100, 20_000)));
    let first = |translation: &AddressTranslation, random| tries(&ends, translation, random)[0];
    assert_eq!(first(&translation, 1), first(&translation, 2));
    translation.selection = Selection::Hash;
    assert_eq!(first(&translation, 1), first(&translation, 2));
    translation.selection = Selection::Random;
    assert_ne!(first(&translation, 1), first(&translation, 2));
}

proptest! {
    /// Invariants 1 and 2.
    #[test]
    fn all_tries_lie_in_the_ranges(
        is_source in any::<bool>(),
        own in (any::<u16>(), any::<u16>()),
        addresses in prop::option::of((any::<u32>(), any::<u32>())),
        ports in prop::option::of((any::<u16>(), any::<u16>())),
        number in prop_oneof![Just(protocol::TCP), Just(protocol::UDP), Just(47_u8)],
        random in any::<u64>(),
    ) {
        let ends = Tuple { protocol: number, ..tuple("10.0.0.1", own.0, "10.0.0.2", own.1) };
        let kind = if is_source { SOURCE } else { DESTINATION };
        let mapped = |bits: u32| std::net::Ipv4Addr::from(bits).to_ipv6_mapped();
        let range = addresses.map(|(a, b)| (mapped(a.min(b)), mapped(a.max(b))));
        let ports = ports.map(|(a, b)| (a.min(b), a.max(b)));
        let translation = AddressTranslation {
            target: Some((kind, range, ports)),
            selection: Selection::Random,
            is_persistent: false,
        };
        let tries = tries(&ends, &translation, random);
        prop_assert!(!tries.is_empty() && tries.len() <= CANDIDATES_MAX);
        for reply in tries {
            let (moved, kept) = match kind {
                SOURCE => (reply.destination, reply.source),
                DESTINATION => (reply.source, reply.destination),
            };
            let (before, other) = match kind {
                SOURCE => (ends.source, ends.destination),
                DESTINATION => (ends.destination, ends.source),
            };
            let (first, last) = range.unwrap_or((before.address, before.address));
            prop_assert!((first..=last).contains(&moved.address));
            prop_assert_eq!(kept.address, other.address);
            if number == 47 {
                prop_assert_eq!((moved.port, kept.port), (before.port, other.port));
            } else if let Some((first, last)) = ports {
                prop_assert!((first..=last).contains(&moved.port));
            } else if kind == DESTINATION {
                prop_assert_eq!(moved.port, before.port);
            } else {
                prop_assert_eq!(kept.port, other.port);
            }
        }
    }
}
