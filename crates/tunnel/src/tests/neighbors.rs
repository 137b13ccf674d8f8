//! The cache of neighbours against a slow twin, and the facts of Open vSwitch's tests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use thalweg_packet::Instant;
use thalweg_packet::wire::{ArpOperation, ArpRepr, MacAddress, NeighborMessage, NeighborRepr};

use super::bytes_of;
use crate::{NeighborCache, NeighborError, NeighborSighting, arp_request, neighbor_solicitation};

const MAC: MacAddress = MacAddress([0xaa, 0x55, 0xaa, 0x55, 0, 0]);
const OTHER_MAC: MacAddress = MacAddress([0xf8, 0xbc, 0x12, 0x44, 0x34, 0xb6]);

fn seconds(count: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(count)
}

fn v4(text: &str) -> Ipv4Addr {
    text.parse().expect("an IPv4 address")
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().expect("an IPv6 address")
}

/// The frames of Open vSwitch's tests "tunnel_push_pop - action" and "tunnel_push_pop_ipv6 -
/// action".
#[test]
fn requests_are_those_of_open_vswitch() {
    assert_eq!(
        arp_request(MAC, v4("1.1.2.88"), v4("1.1.2.92")),
        bytes_of(
            "ffffffffffffaa55aa55000008060001080006040001aa55aa55000001010258000000000000
             0101025c"
        )
    );
    assert_eq!(
        neighbor_solicitation(MAC, v6("2001:cafe::88"), v6("2001:cafe::93")),
        bytes_of(
            "3333ff000093aa55aa55000086dd6000000000203aff2001cafe000000000000000000000088
             ff0200000000000000000001ff00009387004d46000000002001cafe000000000000000000000093
             0101aa55aa550000"
        )
    );
}

/// The ARP messages of Open vSwitch's test "tunnel_push_pop - action".
#[test]
fn arp_that_is_for_the_bridge_is_learned() {
    let own = [IpAddr::V4(v4("1.1.2.88")), IpAddr::V6(v6("2001:cafe::88"))];
    let arp = |operation, sender: &str, target: &str, mac| ArpRepr {
        operation,
        sender_hardware: mac,
        sender_protocol: v4(sender),
        target_hardware: MacAddress::ZERO,
        target_protocol: v4(target),
    };
    let (request, reply) = (ArpOperation::REQUEST, ArpOperation::REPLY);
    let neighbor = "1.1.2.92";
    for (arp, is_learned) in [
        (arp(reply, neighbor, "1.1.2.88", OTHER_MAC), true),
        (arp(reply, neighbor, "1.1.2.90", OTHER_MAC), false),
        (arp(request, neighbor, "1.1.2.88", OTHER_MAC), false),
        (arp(request, neighbor, neighbor, OTHER_MAC), true),
        (arp(reply, neighbor, neighbor, OTHER_MAC), true),
        (arp(reply, neighbor, "1.1.2.88", MacAddress::ZERO), false),
    ] {
        let expected = is_learned.then_some(NeighborSighting {
            address: v4(neighbor).into(),
            mac: OTHER_MAC,
        });
        assert_eq!(NeighborSighting::of_arp(&arp, &own), expected, "{arp:?}");
    }
}

/// The advertisements of Open vSwitch's test "tunnel_push_pop_ipv6 - action".
#[test]
fn advertisements_that_are_for_the_bridge_are_learned() {
    let own = [IpAddr::V4(v4("1.1.2.88")), IpAddr::V6(v6("2001:cafe::88"))];
    let said = NeighborRepr {
        message: NeighborMessage::Advertisement {
            router: false,
            solicited: true,
            overrides: true,
        },
        target: v6("2001:cafe::92"),
        source_link_layer: None,
        target_link_layer: Some(OTHER_MAC),
    };
    let sighting = Some(NeighborSighting {
        address: said.target.into(),
        mac: OTHER_MAC,
    });
    let of = |neighbor: &NeighborRepr, destination: &str| {
        NeighborSighting::of_advertisement(neighbor, v6(destination), &own)
    };
    assert_eq!(of(&said, "2001:cafe::88"), sighting);
    assert_eq!(of(&said, "ff02::1:ff00:88"), sighting);
    assert_eq!(of(&said, "ff02::1:ff00:89"), None);
    assert_eq!(of(&said, "2001:cafe::99"), None);
    let solicitation = NeighborRepr {
        message: NeighborMessage::Solicitation,
        ..said
    };
    assert_eq!(of(&solicitation, "2001:cafe::88"), None);
    let without = |target_link_layer| NeighborRepr {
        target_link_layer,
        ..said
    };
    assert_eq!(of(&without(None), "2001:cafe::88"), None);
    assert_eq!(of(&without(Some(MacAddress::ZERO)), "2001:cafe::88"), None);
}

/// The commands of Open vSwitch's test "tunnel_push_pop - action".
#[test]
fn commands_answer_as_open_vswitchs() {
    let mut cache = NeighborCache::default();
    let aging = |cache: &mut NeighborCache, text| cache.aging_command(text, seconds(0));
    assert_eq!(aging(&mut cache, None), Ok("900".to_owned()));
    for bad in ["0", "3601", "-1", "x", ""] {
        assert_eq!(aging(&mut cache, Some(bad)), Err(NeighborError::BadAging));
    }
    assert_eq!(aging(&mut cache, Some("3600")), Ok("OK".to_owned()));
    assert_eq!(aging(&mut cache, Some("5")), Ok("OK".to_owned()));
    assert_eq!(aging(&mut cache, None), Ok("5".to_owned()));
    let set = ["br0", "1.1.2.92", "aa:bb:cc:00:00:01"];
    assert_eq!(cache.set_command(set, seconds(1)), Ok(true));
    assert_eq!(cache.set_command(set, seconds(1)), Ok(false));
    let set = ["br0", "2001:cafe::92", "aa:bb:cc:0:0:2"];
    assert_eq!(cache.set_command(set, seconds(3)), Ok(true));
    let bad = ["br0", "1.1.2", "aa:bb:cc:00:00:01"];
    assert_eq!(
        cache.set_command(bad, seconds(3)),
        Err(NeighborError::BadAddress)
    );
    let bad = ["br0", "1.1.2.92", "aa:bb:cc:00:00"];
    assert_eq!(
        cache.set_command(bad, seconds(3)),
        Err(NeighborError::BadMac)
    );
    let head = "IP                                            MAC                 Bridge\n\
         ==========================================================================\n";
    let first = "1.1.2.92                                      aa:bb:cc:00:00:01   br0";
    let second = "2001:cafe::92                                 aa:bb:cc:00:00:02   br0";
    let shown = |cache: &NeighborCache, now| cache.show_command(seconds(now));
    assert_eq!(shown(&cache, 5), format!("{head}{first}\n{second}\n"));
    assert_eq!(shown(&cache, 6), format!("{head}{first} STALE\n{second}\n"));
    assert!(cache.expire(seconds(6)));
    assert_eq!(shown(&cache, 6), format!("{head}{second}\n"));
    assert!(!cache.flush_bridge("br1") && cache.flush_bridge("br0"));
    assert_eq!(shown(&cache, 6), head);
    assert_eq!(cache.next_expiry(), None);
}

/// The slow twin: a list of bridge, address, MAC address, and the end in seconds.
#[derive(Default)]
struct SlowCache {
    entries: Vec<(String, IpAddr, MacAddress, u64)>,
    aging: u64,
}

impl SlowCache {
    fn lookup(&mut self, bridge: &str, address: IpAddr, now: u64) -> Option<MacAddress> {
        let mut entries = self.entries.iter_mut();
        let entry = entries.find(|entry| (entry.0.as_str(), entry.1) == (bridge, address))?;
        if entry.3 <= now {
            return None;
        }
        entry.3 = now + self.aging;
        Some(entry.2)
    }

    fn set(&mut self, bridge: &str, address: IpAddr, mac: MacAddress, now: u64, room: usize) {
        if self.lookup(bridge, address, now) == Some(mac) {
            return;
        }
        let before = self.entries.len();
        self.entries
            .retain(|entry| (entry.0.as_str(), entry.1) != (bridge, address));
        if self.entries.len() == before && before == room {
            let ends = self.entries.iter().map(|entry| entry.3);
            let first = ends.min().expect("a full cache has an entry");
            let gone = self.entries.iter().position(|entry| entry.3 == first);
            self.entries.remove(gone.expect("the entry is there"));
        }
        self.entries
            .push((bridge.to_owned(), address, mac, now + self.aging));
    }
}

/// An operation on both caches.
#[derive(Clone, Debug)]
enum Step {
    Set(u8, u8, u8),
    Lookup(u8, u8),
    Peek(u8, u8),
    Wait(u64),
    Expire,
    FlushBridge(u8),
    Flush,
    Aging(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (bridge, address, mac) = (0..2_u8, 0..5_u8, 0..2_u8);
    prop_oneof![
        8 => (bridge.clone(), address.clone(), mac)
            .prop_map(|(bridge, address, mac)| Step::Set(bridge, address, mac)),
        4 => (bridge.clone(), address.clone())
            .prop_map(|(bridge, address)| Step::Lookup(bridge, address)),
        2 => (bridge.clone(), address)
            .prop_map(|(bridge, address)| Step::Peek(bridge, address)),
        6 => (1..4_u64).prop_map(Step::Wait),
        2 => Just(Step::Expire),
        1 => bridge.prop_map(Step::FlushBridge),
        1 => Just(Step::Flush),
        1 => (1..8_u64).prop_map(Step::Aging),
    ]
}

fn address(number: u8) -> IpAddr {
    match number % 2 {
        0 => IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)),
        _ => IpAddr::V6(Ipv6Addr::from_bits(number.into())),
    }
}

proptest! {
    /// Both caches give the same answers at every time. No two entries end at once, so that it is
    /// clear which one a full cache drops.
    #[test]
    fn neighbors_are_found_as_by_the_twin(steps in vec(step(), 1..80)) {
        const CAPACITY: usize = 6;
        let mut cache = NeighborCache::new(CAPACITY);
        cache.set_aging(Duration::from_secs(5), seconds(0));
        let mut twin = SlowCache { aging: 5, ..SlowCache::default() };
        let mut now = 0;
        for step in steps {
            match step {
                Step::Set(bridge, number, mac) => {
                    now += 1;
                    let (bridge, address) = (format!("br{bridge}"), address(number));
                    let mac = MacAddress([mac; 6]);
                    let was = cache.peek(&bridge, address, seconds(now));
                    let is_new = cache.set(&bridge, address, mac, seconds(now));
                    prop_assert_eq!(is_new, was != Some(mac));
                    twin.set(&bridge, address, mac, now, CAPACITY);
                }
                Step::Lookup(bridge, number) => {
                    now += 1;
                    let (bridge, address) = (format!("br{bridge}"), address(number));
                    let found = cache.lookup(&bridge, address, seconds(now));
                    prop_assert_eq!(found, twin.lookup(&bridge, address, now));
                }
                Step::Peek(bridge, number) => {
                    let (bridge, address) = (format!("br{bridge}"), address(number));
                    let entry = twin.entries.iter().find(|entry| {
                        (entry.0.as_str(), entry.1) == (bridge.as_str(), address) && entry.3 > now
                    });
                    let found = cache.peek(&bridge, address, seconds(now));
                    prop_assert_eq!(found, entry.map(|entry| entry.2));
                }
                Step::Wait(more) => now += more,
                Step::Expire => {
                    let before = twin.entries.len();
                    twin.entries.retain(|entry| entry.3 > now);
                    let is_changed = twin.entries.len() != before;
                    prop_assert_eq!(cache.expire(seconds(now)), is_changed);
                }
                Step::FlushBridge(bridge) => {
                    let bridge = format!("br{bridge}");
                    let before = twin.entries.len();
                    twin.entries.retain(|entry| entry.0 != bridge);
                    let is_changed = twin.entries.len() != before;
                    prop_assert_eq!(cache.flush_bridge(&bridge), is_changed);
                }
                Step::Flush => {
                    prop_assert_eq!(cache.flush(), !twin.entries.is_empty());
                    twin.entries.clear();
                }
                Step::Aging(aging) => {
                    // Entries that are cut short would end at once.
                    cache.expire(seconds(now));
                    twin.entries.retain(|entry| entry.3 > now);
                    if cache.is_empty() {
                        cache.set_aging(Duration::from_secs(aging), seconds(now));
                        twin.aging = aging;
                    }
                }
            }
            prop_assert_eq!(cache.len(), twin.entries.len());
            let ends = twin.entries.iter().map(|entry| seconds(entry.3));
            prop_assert_eq!(cache.next_expiry(), ends.min());
        }
    }
}

#[test]
fn a_shorter_aging_cuts_what_is_there() {
    let mut cache = NeighborCache::default();
    for (number, start) in [(0, 0), (1, 890), (2, 895)] {
        assert!(cache.set("br0", address(number), MAC, seconds(start)));
    }
    cache.set_aging(Duration::from_secs(10), seconds(895));
    // The first entry would have ended at 900 anyway.
    assert!(cache.expire(seconds(900)));
    assert_eq!(cache.len(), 2);
    assert!(!cache.expire(seconds(904)));
    assert!(cache.expire(seconds(905)) && cache.is_empty());
}

#[test]
fn a_full_cache_drops_what_ends_first() {
    let mut cache = NeighborCache::new(2);
    assert!(cache.set("br0", address(0), MAC, seconds(0)));
    assert!(cache.set("br0", address(1), MAC, seconds(1)));
    assert_eq!(cache.lookup("br0", address(0), seconds(2)), Some(MAC));
    assert!(cache.set("br0", address(2), MAC, seconds(3)));
    assert_eq!((cache.len(), cache.evicted()), (2, 1));
    assert_eq!(cache.peek("br0", address(1), seconds(3)), None);
    assert_eq!(cache.peek("br0", address(0), seconds(3)), Some(MAC));
}
