//! Tests of `examples/p4/`: the switch of B-Cache's four cases does what its tables say.
//!
//! The network is that of `switch_N.cmds`: machines 1 and 2 at ports 1 and 2 in domain 10,
//! machine 3 at port 4 in domain 20, port 3 with tags of both.

use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thalweg_p4::state::{Mode, Update};
use thalweg_p4::{Config, DropReason, Outbox, Program, Target, commands};
use thalweg_packet::Instant;
use thalweg_packet::checksum::{Sum, checksum};
use thalweg_packet::wire::IpProtocol;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ROUTER: [u8; 6] = [2, 0xff, 0, 0, 0, 10];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4")
}

pub(crate) fn text(name: &str) -> String {
    let path = folder().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The JSON programs were compiled from the sources beside them. After changing a source,
/// compile it again and update the sums.
#[test]
fn sources_and_programs_belong_together() {
    let mut found = String::new();
    for name in [
        "switch.p4",
        "switch_1.json",
        "switch_2.json",
        "switch_3.json",
        "switch_4.json",
        "switchv2p/switchv2p.p4",
        "switchv2p/switchv2p.json",
        "heavy_hitter.p4",
        "heavy_hitter.json",
        "knock.p4",
        "knock.json",
    ] {
        let mut hasher = twox_hash::XxHash64::with_seed(0);
        hasher.write(text(name).as_bytes());
        found += &format!("{:016x} {name}\n", hasher.finish());
    }
    assert_eq!(
        text("sums.txt"),
        found,
        "make the programs anew; see README.md"
    );
}

/// A network with a clock.
struct Network {
    target: Target,
    outbox: Outbox,
    now: Instant,
}

impl Network {
    fn new(case: u32) -> Network {
        let program = Program::from_json(&text(&format!("switch_{case}.json")));
        let program = Arc::new(program.unwrap_or_else(|error| panic!("case {case}: {error}")));
        let entries = commands::parse(&text(&format!("switch_{case}.cmds")), &program);
        let entries = entries.unwrap_or_else(|error| panic!("case {case}: {error}"));
        let updates: Vec<Update> = entries.into_iter().map(|one| one.update).collect();
        let mut target = Target::new(program, Config::default()).expect("own entries");
        let written = target.write(&updates, Instant::ZERO);
        written.unwrap_or_else(|error| panic!("case {case}: {error}"));
        Network {
            target,
            outbox: Outbox::new(),
            now: Instant::ZERO,
        }
    }

    fn all() -> impl Iterator<Item = Network> {
        (1..=4).map(Network::new)
    }

    fn receive(&mut self, port: u32, packet: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.now = self.now + Duration::from_micros(1);
        self.outbox.clear();
        let now = self.now;
        self.target.receive(port, packet, now, &mut self.outbox);
        let sent = self.outbox.sent();
        sent.map(|sent| (sent.port, sent.bytes.to_vec())).collect()
    }

    /// Expects exactly one packet to leave, and returns it with its port.
    fn one(&mut self, port: u32, packet: &[u8]) -> (u32, Vec<u8>) {
        let sent = self.receive(port, packet);
        assert_eq!(sent.len(), 1, "{sent:x?}");
        sent.into_iter().next().expect("it is there")
    }

    fn digests(&self) -> Vec<Vec<u64>> {
        self.outbox
            .digests()
            .map(|one| one.words.to_vec())
            .collect()
    }

    fn write(&mut self, update: Update) {
        self.target.write(&[update], self.now).expect("it is right");
    }
}

/// An IPv4 packet with TCP or UDP and correct checksums.
#[derive(Clone, Copy)]
struct Sent {
    to: [u8; 6],
    from: [u8; 6],
    vid: Option<u16>,
    source: [u8; 4],
    destination: [u8; 4],
    protocol: u8,
    ports: (u16, u16),
    ttl: u8,
}

const fn machine(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

/// From machine 1 through the router to machine 3.
const ROUTED: Sent = Sent {
    to: ROUTER,
    from: machine(1),
    vid: None,
    source: [10, 0, 10, 1],
    destination: [10, 0, 20, 3],
    protocol: TCP,
    ports: (4_000, 80),
    ttl: 64,
};

impl Sent {
    fn segment(&self) -> Vec<u8> {
        let mut segment = Vec::new();
        segment.extend(self.ports.0.to_be_bytes());
        segment.extend(self.ports.1.to_be_bytes());
        match self.protocol {
            TCP => segment.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x18, 9, 9, 0, 0, 0, 0, 7, 7]),
            _ => segment.extend([0, 11, 0, 0, 1, 2, 3]),
        }
        segment
    }

    fn bytes(&self) -> Vec<u8> {
        let mut segment = self.segment();
        let at = if self.protocol == TCP { 16 } else { 6 };
        let sum = self
            .pseudo_header(segment.len())
            .with_bytes(&segment)
            .checksum();
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let mut packet = [self.to, self.from].concat();
        if let Some(vid) = self.vid {
            packet.extend([0x81, 0]);
            packet.extend(vid.to_be_bytes());
        }
        packet.extend([8, 0]);
        let length = (20 + segment.len()) as u8;
        let mut header = vec![
            0x45,
            0,
            0,
            length,
            0,
            0,
            0,
            0,
            self.ttl,
            self.protocol,
            0,
            0,
        ];
        header.extend(self.source);
        header.extend(self.destination);
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(header);
        packet.extend(segment);
        packet
    }

    fn pseudo_header(&self, length: usize) -> Sum {
        let (source, destination) = (self.source.into(), self.destination.into());
        Sum::of_ipv4_pseudo_header(
            source,
            destination,
            IpProtocol(self.protocol),
            length as u16,
        )
    }

    /// The same packet as the router forwards it.
    fn routed_to(self, to: [u8; 6], from: [u8; 6]) -> Sent {
        let ttl = self.ttl - 1;
        Sent {
            to,
            from,
            ttl,
            ..self
        }
    }
}

const BRIDGED: Sent = Sent {
    to: machine(2),
    destination: [10, 0, 10, 2],
    ..ROUTED
};

#[test]
fn machines_of_a_domain_are_bridged() {
    for mut network in Network::all() {
        assert_eq!(network.one(1, &BRIDGED.bytes()), (2, BRIDGED.bytes()));
        assert_eq!(
            network.digests(),
            Vec::<Vec<u64>>::new(),
            "its source is known"
        );
        // Tagged where the domain is tagged, untagged elsewhere.
        let tagged = Sent {
            vid: Some(10),
            from: machine(1),
            ..BRIDGED
        };
        if network
            .target
            .program()
            .find_table("SwitchIngress.ipsg")
            .is_none()
        {
            assert_eq!(network.one(3, &tagged.bytes()), (2, BRIDGED.bytes()));
            // The known machine sends from another port.
            assert_eq!(network.digests(), [[3, 10, 0x0200_0000_0001]]);
        }
        // A packet is never sent back to its own port.
        let own = Sent {
            to: machine(1),
            ..BRIDGED
        };
        assert_eq!(network.receive(1, &own.bytes()), []);
    }
}

#[test]
fn unknown_destinations_go_to_all_and_unknown_sources_to_the_controller() {
    for mut network in Network::all() {
        let mut arp = vec![0xff; 6];
        arp.extend([2, 0, 0, 0, 0, 0x77, 8, 6, 1, 2, 3, 4]);
        let sent = network.receive(2, &arp);
        let mut tagged = arp[..12].to_vec();
        tagged.extend([0x81, 0, 0, 10]);
        tagged.extend(&arp[12..]);
        assert_eq!(sent, [(1, arp.clone()), (3, tagged)]);
        assert_eq!(network.digests(), [[2, 10, 0x0200_0000_0077]]);
        // A port without a domain drops.
        assert_eq!(network.receive(9, &arp), []);
        assert_eq!(network.target.counts().drops(DropReason::Ingress), 1);
    }
}

#[test]
fn the_router_takes_the_longest_prefix_and_a_hop_off_the_time_to_live() {
    for mut network in Network::all() {
        let expected = ROUTED.routed_to(machine(3), [2, 0xff, 0, 0, 0, 20]);
        assert_eq!(network.one(1, &ROUTED.bytes()), (4, expected.bytes()));
        let elsewhere = Sent {
            destination: [10, 0, 20, 9],
            ..ROUTED
        };
        let mut expected = elsewhere.routed_to([2, 0, 0, 0, 0, 0x99], [2, 0xff, 0, 0, 0, 3]);
        expected.vid = Some(20);
        assert_eq!(network.one(1, &elsewhere.bytes()), (3, expected.bytes()));
        let dropped = network.target.counts().drops(DropReason::Ingress);
        let mut damaged = ROUTED.bytes();
        damaged[14 + 8] ^= 0x10;
        let mut with_options = ROUTED.bytes();
        with_options[14] = 0x46;
        let nobodys = Sent {
            destination: [11, 0, 0, 1],
            ..ROUTED
        };
        let spent = Sent { ttl: 1, ..ROUTED };
        for packet in [damaged, with_options, nobodys.bytes(), spent.bytes()] {
            assert_eq!(network.receive(1, &packet), []);
        }
        assert_eq!(
            network.target.counts().drops(DropReason::Ingress),
            dropped + 4
        );
    }
}

#[test]
fn a_group_gets_copies_in_another_domain() {
    for mut network in Network::all() {
        let group = [1, 0, 0x5e, 1, 1, 1];
        let sent = Sent {
            to: group,
            destination: [239, 1, 1, 1],
            protocol: UDP,
            ..ROUTED
        };
        let untagged = sent.routed_to(group, [2, 0xff, 0, 0, 0, 20]);
        let tagged = Sent {
            vid: Some(20),
            ..sent.routed_to(group, [2, 0xff, 0, 0, 0, 3])
        };
        let found = network.receive(1, &sent.bytes());
        assert_eq!(found, [(3, tagged.bytes()), (4, untagged.bytes())]);
        // Without the group's copies nothing leaves.
        network.write(Update::Multicast(Mode::Set, 1001, Vec::new()));
        assert_eq!(network.receive(1, &sent.bytes()), []);
    }
}

#[test]
fn the_access_list_denies_and_permits() {
    for case in 2..=4 {
        let mut network = Network::new(case);
        let telnet = Sent {
            ports: (4_000, 23),
            ..ROUTED
        };
        assert_eq!(network.receive(1, &telnet.bytes()), []);
        assert_eq!(network.target.counts().drops(DropReason::Ingress), 1);
        // The list does not concern UDP, and machine 2 is allowed.
        let other = Sent {
            protocol: UDP,
            ..telnet
        };
        assert_eq!(network.one(1, &other.bytes()).0, 4);
        let trusted = Sent {
            from: machine(2),
            source: [10, 0, 10, 2],
            ..telnet
        };
        assert_eq!(network.one(2, &trusted.bytes()).0, 4);
    }
    // Without a list, all are allowed.
    let telnet = Sent {
        ports: (4_000, 23),
        ..ROUTED
    };
    assert_eq!(Network::new(1).one(1, &telnet.bytes()).0, 4);
}

#[test]
fn translations_rewrite_both_ends_and_keep_checksums_right() {
    type End = ([u8; 4], u16);
    let own: End = ([10, 0, 10, 1], 0);
    let cases: [(u8, End, End, End, End); 4] = [
        (
            TCP,
            (own.0, 2_000),
            ([198, 51, 100, 2], 80),
            ([192, 0, 2, 1], 7_002),
            ([10, 0, 20, 3], 8_080),
        ),
        (
            UDP,
            (own.0, 4_000),
            ([198, 51, 100, 1], 53),
            (own.0, 4_000),
            ([10, 0, 20, 3], 5_353),
        ),
        (
            TCP,
            (own.0, 1_000),
            ([10, 0, 20, 3], 80),
            ([192, 0, 2, 1], 7_001),
            ([10, 0, 20, 3], 80),
        ),
        (
            UDP,
            (own.0, 4_000),
            ([198, 51, 100, 3], 99),
            (own.0, 4_000),
            ([10, 0, 20, 3], 9_000),
        ),
    ];
    for case in 3..=4 {
        let mut network = Network::new(case);
        for (protocol, from, to, source, destination) in cases {
            let sent = Sent {
                source: from.0,
                destination: to.0,
                protocol,
                ports: (from.1, to.1),
                ..ROUTED
            };
            let expected = Sent {
                source: source.0,
                destination: destination.0,
                ports: (source.1, destination.1),
                ..sent.routed_to(machine(3), [2, 0xff, 0, 0, 0, 20])
            };
            assert_eq!(
                network.one(1, &sent.bytes()),
                (4, expected.bytes()),
                "{protocol}"
            );
            // A wrong checksum stays wrong.
            let mut damaged = sent.bytes();
            let last = damaged.len() - 1;
            damaged[last] ^= 0x40;
            let mut wanted = expected.bytes();
            wanted[last] ^= 0x40;
            assert_eq!(network.one(1, &damaged), (4, wanted), "{protocol}");
        }
    }
}

/// RFC 768: no checksum stays none, and a sum of zero is written as 0xffff.
#[test]
fn checksums_of_udp_that_are_zero() {
    for case in 3..=4 {
        let mut network = Network::new(case);
        let sent = Sent {
            destination: [198, 51, 100, 1],
            protocol: UDP,
            ports: (4_000, 53),
            ..ROUTED
        };
        let mut none = sent.bytes();
        none[14 + 20 + 6..][..2].fill(0);
        let (_, found) = network.one(1, &none);
        assert_eq!(found[14 + 20 + 6..][..2], [0, 0]);
        // The payloads whose sum is zero after the translation.
        let mut zeros = 0;
        for filling in 0..=u16::MAX {
            let expected = Sent {
                destination: [10, 0, 20, 3],
                ports: (4_000, 5_353),
                ..sent
            };
            let mut segment = expected.segment();
            segment[8..10].copy_from_slice(&filling.to_be_bytes());
            let sum = expected
                .pseudo_header(segment.len())
                .with_bytes(&segment)
                .checksum();
            if sum != 0 && sum != 0xffff {
                continue;
            }
            let mut packet = sent.bytes();
            packet[14 + 20 + 8..][..2].copy_from_slice(&filling.to_be_bytes());
            let mut segment = packet[34..].to_vec();
            segment[6..8].fill(0);
            let sum = sent
                .pseudo_header(segment.len())
                .with_bytes(&segment)
                .checksum();
            packet[14 + 20 + 6..][..2].copy_from_slice(&sum.to_be_bytes());
            let (_, found) = network.one(1, &packet);
            assert_eq!(found[14 + 20 + 6..][..2], [0xff, 0xff]);
            zeros += 1;
        }
        assert!(zeros > 0);
    }
}

#[test]
fn fragments_are_routed_and_not_translated() {
    for case in 3..=4 {
        let mut network = Network::new(case);
        let sent = Sent {
            ports: (1_000, 80),
            ..ROUTED
        };
        for fragment in [[0x20, 0], [0, 8], [0x20, 8]] {
            let mut packet = sent.bytes();
            packet[14 + 6..14 + 8].copy_from_slice(&fragment);
            packet[14 + 10..14 + 12].fill(0);
            let sum = checksum(&packet[14..34]);
            packet[14 + 10..14 + 12].copy_from_slice(&sum.to_be_bytes());
            let (port, found) = network.one(1, &packet);
            assert_eq!((port, &found[26..30]), (4, &[10, 0, 10, 1][..]));
            assert_eq!(found[34..], packet[34..]);
        }
    }
}

#[test]
fn addresses_of_others_are_guarded() {
    let mut network = Network::new(4);
    let stolen = Sent {
        source: [10, 0, 10, 2],
        ..ROUTED
    };
    assert_eq!(network.receive(1, &stolen.bytes()), []);
    let elsewhere = Sent {
        from: machine(2),
        source: [10, 0, 10, 2],
        ..ROUTED
    };
    assert_eq!(network.receive(1, &elsewhere.bytes()), []);
    assert_eq!(network.target.counts().drops(DropReason::Ingress), 2);
    assert_eq!(network.one(2, &elsewhere.bytes()).0, 4);
    // A machine without an address requests one.
    let asking = Sent {
        to: [0xff; 6],
        source: [0; 4],
        destination: [255; 4],
        protocol: UDP,
        ports: (68, 67),
        ..ROUTED
    };
    let sent = network.receive(2, &asking.bytes());
    let ports: Vec<u32> = sent.iter().map(|(port, _)| *port).collect();
    assert_eq!(ports, [1, 3]);
}

#[test]
fn a_storm_is_dropped_until_the_bucket_has_filled_again() {
    let mut network = Network::new(4);
    let mut arp = vec![0xff; 6];
    arp.extend(machine(1));
    arp.extend([8, 6]);
    arp.resize(60, 1);
    let copies = |network: &mut Network| network.receive(1, &arp).len();
    // 120 bytes: two packets, and no third.
    assert_eq!(
        (
            copies(&mut network),
            copies(&mut network),
            copies(&mut network)
        ),
        (2, 2, 0)
    );
    // A packet to one machine is no storm.
    assert_eq!(network.receive(1, &BRIDGED.bytes()).len(), 1);
    network.now = network.now + Duration::from_millis(61);
    assert_eq!((copies(&mut network), copies(&mut network)), (2, 0));
    let counters = &network.target.program().arrays;
    let id = counters
        .find_counter("SwitchIngress.storm_counter")
        .expect("the counter");
    let counted = network.target.state().counter(id, 7).expect("its cell");
    assert_eq!((counted.packets, counted.bytes), (5, 300));
}

#[test]
fn virtual_routers_have_routes_of_their_own() {
    let mut network = Network::new(4);
    let back = Sent {
        to: [2, 0xff, 0, 0, 0, 20],
        from: machine(3),
        source: [10, 0, 20, 3],
        destination: [10, 0, 10, 1],
        ..ROUTED
    };
    assert_eq!(network.one(4, &back.bytes()).0, 1);
    // Domain 10 has a route to this address; domain 20 has none.
    let elsewhere = Sent {
        destination: [10, 0, 20, 9],
        ..back
    };
    assert_eq!(network.receive(4, &elsewhere.bytes()), []);
    let elsewhere = Sent {
        destination: [10, 0, 20, 9],
        ..ROUTED
    };
    assert_eq!(network.one(1, &elsewhere.bytes()).0, 3);
}
