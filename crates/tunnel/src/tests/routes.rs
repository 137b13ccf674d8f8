//! Routes: what Open vSwitch's commands say, and a slow twin.
//!
//! `open_vswitch_routes.txt` has 402 commands that Open vSwitch 3.1 was given, one after the other,
//! and what it answered, with the rows of `ovs/route/show` in the order of their text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{
    InterfaceAddress, RouteError, RouteOrigin, RoutePrefix, TunnelRoute, TunnelRoutes,
    source_address,
};

fn interface(address: &str, prefix_len: u8) -> InterfaceAddress {
    InterfaceAddress {
        address: address.parse().expect("an address"),
        prefix_len,
    }
}

/// The addresses of the bridges in `open_vswitch_routes.txt`.
fn addresses_of(device: &str) -> Vec<InterfaceAddress> {
    match device {
        "br0" => vec![
            interface("192.0.2.1", 24),
            interface("2001:db8:cafe::1", 64),
        ],
        "br1" => vec![interface("10.0.0.1", 8), interface("fd00::1", 16)],
        _ => Vec::new(),
    }
}

/// The lines of an answer, those of a table behind its head sorted.
fn lines(text: &str, is_table: bool) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if is_table {
        lines[1..].sort();
    }
    lines
}

#[test]
fn commands_answer_as_open_vswitchs() {
    let mut routes = TunnelRoutes::default();
    let text = include_str!("open_vswitch_routes.txt");
    let mut known = text.lines().peekable();
    let mut count = 0;
    while let Some(command) = known.next() {
        let (name, arguments) = command.split_once(' ').unwrap_or((command, ""));
        let arguments: Vec<&str> = arguments.split_terminator(' ').collect();
        let answer = match name {
            "ovs/route/add" => {
                let added = routes.add_command(&arguments, addresses_of);
                added.map(str::to_owned)
            }
            "ovs/route/del" => routes.delete_command(&arguments).map(str::to_owned),
            "ovs/route/lookup" => routes.lookup_command(&arguments),
            _ => Ok(routes.show_command()),
        };
        let answer = answer.unwrap_or_else(|error| format!("error {error}"));
        let mut expected = Vec::new();
        while let Some(line) = known.next_if(|line| line.starts_with("  ")) {
            expected.push(line[2..].to_owned());
        }
        let is_table = name == "ovs/route/show";
        assert_eq!(
            lines(&answer, is_table),
            expected,
            "{command}, number {count}"
        );
        count += 1;
    }
    assert_eq!(count, 402);
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[bool; 4]>().prop_map(|[a, b, c, d]| {
            IpAddr::V4(Ipv4Addr::new(
                10,
                a.into(),
                (b as u8) << 7,
                (c as u8) * 128 + d as u8,
            ))
        }),
        any::<[bool; 3]>().prop_map(|[a, b, c]| {
            IpAddr::V6(Ipv6Addr::new(
                0xfd00,
                a.into(),
                0,
                0,
                0,
                b.into(),
                0,
                c.into(),
            ))
        }),
        any::<bool>().prop_map(|a| IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, a.into()))),
    ]
}

fn prefix() -> impl Strategy<Value = RoutePrefix> {
    let lengths = vec![0_u8, 8, 16, 17, 24, 31, 32, 64, 96, 127, 128];
    (address(), prop::sample::select(lengths)).prop_map(|(address, len)| {
        let len = if address.is_ipv4() { len.min(32) } else { len };
        RoutePrefix::new(address, len).expect("a length that fits")
    })
}

fn origin() -> impl Strategy<Value = RouteOrigin> {
    prop::sample::select(vec![
        RouteOrigin::System,
        RouteOrigin::User,
        RouteOrigin::Local,
    ])
}

/// All bits of an address as one of IPv6.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The twin's form of a row: mark, prefix as a range of addresses, priority, length, and device.
#[derive(Clone)]
struct SlowRow {
    mark: u32,
    first: u128,
    last: u128,
    len: u8,
    origin: RouteOrigin,
    device: String,
}

impl SlowRow {
    fn rank(&self) -> (u8, u8) {
        let more = match self.origin {
            RouteOrigin::System => 0,
            RouteOrigin::User => 32,
            RouteOrigin::Local => 64,
        };
        (self.len + more, self.len)
    }
}

fn find_slowly(rows: &[SlowRow], destination: IpAddr, mark: u32) -> Option<&SlowRow> {
    let destination = bits(destination);
    let matching = rows
        .iter()
        .filter(|row| row.mark == mark && row.first <= destination && destination <= row.last);
    matching.max_by_key(|row| row.rank())
}

proptest! {
    #[test]
    fn routes_are_found_as_by_the_twin(
        steps in vec((prefix(), 0..2_u32, origin(), prop::option::weighted(0.85, 0..20_u8)), 1..40),
        lookups in vec((address(), 0..2_u32, prop::option::weighted(0.3, address())), 30),
    ) {
        let mut routes = TunnelRoutes::default();
        let mut twin: Vec<SlowRow> = Vec::new();
        let everywhere = [interface("10.0.0.1", 0), interface("fd00::1", 0)];
        for (prefix, mark, origin, device) in steps {
            let text = prefix.to_string();
            let (network, len) = text.split_once('/').expect("a length");
            let network: IpAddr = network.parse().expect("an address");
            let len: u8 = len.parse().expect("a length");
            let len = if network.is_ipv4() { len + 96 } else { len };
            let first = bits(network);
            let size = 1_u128.checked_shl(128 - u32::from(len));
            let last = size.map_or(u128::MAX, |size| first + (size - 1));
            let is_same = |row: &SlowRow| {
                (row.mark, row.first, row.len, row.origin) == (mark, first, len, origin)
            };
            let was_there = twin.iter().any(is_same);
            twin.retain(|row| !is_same(row));
            let Some(device) = device.map(|number| format!("dev{number}")) else {
                let removed = routes.remove(mark, prefix, origin);
                prop_assert_eq!(removed.is_ok(), was_there);
                continue;
            };
            twin.push(SlowRow { mark, first, last, len, origin, device: device.clone() });
            let row = TunnelRoute { prefix, mark, origin, device, gateway: None };
            prop_assert_eq!(routes.insert(row, &everywhere), Ok(()));
        }
        for is_flushed in [false, true] {
            if is_flushed {
                routes.remove_system();
                twin.retain(|row| row.origin == RouteOrigin::User);
            }
            prop_assert_eq!(routes.rows().count(), twin.len());
            for (destination, mark, source) in &lookups {
                let source = source.filter(|source| !source.is_unspecified());
                let found = routes.lookup(*destination, *mark, source);
                let may_send = source.is_none_or(|source| {
                    let row = find_slowly(&twin, source, *mark);
                    row.is_some_and(|row| row.origin == RouteOrigin::Local)
                });
                let expected = find_slowly(&twin, *destination, *mark).filter(|_| may_send);
                let device = expected.map(|row| row.device.as_str());
                prop_assert_eq!(found.map(|found| found.device), device);
                if let (Some(found), Some(source)) = (found, source) {
                    prop_assert_eq!(found.source, source);
                }
            }
        }
    }

    #[test]
    fn a_prefix_is_read_as_it_is_printed(prefix in prefix()) {
        let text = prefix.to_string();
        let read = RoutePrefix::parse(&text).expect("a printed prefix");
        prop_assert_eq!(read.to_string(), text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-f:./]{0,20}") {
        if let Some(prefix) = RoutePrefix::parse(&text) {
            prop_assert!(RoutePrefix::parse(&prefix.to_string()).is_some());
        }
    }
}

#[test]
fn the_source_is_the_address_in_the_smallest_network() {
    let addresses = [
        interface("10.0.0.1", 8),
        interface("10.1.0.1", 16),
        interface("10.1.0.2", 16),
        interface("fd00::1", 16),
        interface("::1", 0),
    ];
    let source = |destination: &str| {
        let destination = destination.parse().expect("an address");
        source_address(destination, &addresses).map(|source| source.to_string())
    };
    assert_eq!(source("10.2.0.9").as_deref(), Some("10.0.0.1"));
    assert_eq!(source("10.1.0.9").as_deref(), Some("10.1.0.1"));
    assert_eq!(source("11.0.0.9"), None);
    assert_eq!(source("fd00::9").as_deref(), Some("fd00::1"));
    assert_eq!(source("fe80::9").as_deref(), Some("::1"));
}

/// A user's route wins over the system's with a prefix that is not 32 bits longer, and loses to
/// this machine's addresses.
#[test]
fn origins_have_their_priorities() {
    let addresses = [interface("10.0.0.1", 0)];
    let mut routes = TunnelRoutes::default();
    for (prefix, origin, device) in [
        ("10.0.0.0/8", RouteOrigin::User, "user"),
        ("10.1.0.0/16", RouteOrigin::System, "system"),
        ("10.1.0.1/32", RouteOrigin::Local, "local"),
    ] {
        let row = TunnelRoute {
            prefix: RoutePrefix::parse(prefix).expect("a prefix"),
            mark: 0,
            origin,
            device: device.to_owned(),
            gateway: None,
        };
        assert_eq!(routes.insert(row, &addresses), Ok(()));
    }
    let to = |destination: [u8; 4]| {
        let found = routes.lookup(destination.into(), 0, None);
        found.map(|found| found.device)
    };
    assert_eq!(to([10, 1, 0, 1]), Some("local"));
    assert_eq!(to([10, 1, 0, 2]), Some("user"));
    assert_eq!(to([11, 1, 0, 2]), None);
    assert_eq!(
        routes.show_command(),
        "Route Table:\n\
         User: 10.0.0.0/8 dev user SRC 10.0.0.1\n\
         Cached: 10.1.0.0/16 dev system SRC 10.0.0.1\n\
         Cached: 10.1.0.1/32 dev local SRC 10.0.0.1 local\n"
    );
    assert!(routes.has_device("system"));
    routes.remove_system();
    assert!(!routes.has_device("system") && routes.has_device("user"));
    assert_eq!(
        routes.add_command(&["10.0.0.0/8"], addresses_of),
        Err(RouteError::BadParameters)
    );
}
