//! Fragments that meet `ct` go on together, as the whole packet would.

mod frames;

#[path = "../loaded/mod.rs"]
mod loaded;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use thalweg_conntrack::{FamilyStatus, IpFamily};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::{Connections, Outbox, Pipeline, forward};

use self::frames::{datagram, segment, split};

/// A packet that left: its port, the port it came from, its bytes.
type Sent = (u32, u32, Vec<u8>);

/// A pipeline with ports 1 to 4, and its connections.
struct Rig {
    pipeline: Pipeline,
    outbox: Outbox,
}

impl Rig {
    fn new(rules: &str) -> Rig {
        let pipeline = loaded::pipeline(rules);
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        outbox.grows = true;
        for family in [IpFamily::V4, IpFamily::V6] {
            let mut fragments = outbox.connections.fragments();
            fragments.set_min(family, 400).expect("not too small");
        }
        Rig { pipeline, outbox }
    }

    /// What leaves once a packet has come in.
    fn send(&mut self, port: u32, frame: &[u8]) -> Vec<Sent> {
        let mut packet = Packet::from_bytes(frame);
        packet.set_received(PortId(port), self.outbox.now);
        forward(
            &self.pipeline,
            self.pipeline.version(),
            packet,
            &mut self.outbox,
        )
        .expect("a frame");
        let sent = self.outbox.sent.drain(..);
        sent.map(|(port, packet)| (port.0, packet.in_port().0, packet.bytes().to_vec()))
            .collect()
    }

    /// What leaves once all have come in by port 1.
    fn send_all<'a>(&mut self, frames: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<Sent> {
        let sent = frames.into_iter().map(|frame| self.send(1, frame));
        sent.collect::<Vec<_>>().concat()
    }

    fn ipv4(&self) -> FamilyStatus {
        self.outbox.connections.fragments().status().v4
    }

    fn held(&self) -> u32 {
        self.outbox.connections.fragments().status().held
    }

    fn connection_count(&self) -> u32 {
        self.outbox.connections.tracker().connection_count()
    }

    fn expire(&mut self, now_s: u64) {
        self.outbox.now = Instant::ZERO + Duration::from_secs(now_s);
        self.outbox.connections.expire(self.outbox.now, 100);
    }
}

/// These frames, from port 1.
fn leaving(port: u32, frames: &[Vec<u8>]) -> Vec<Sent> {
    let frames = frames.iter();
    frames.map(|frame| (port, 1, frame.clone())).collect()
}

const RULES: &str = "\
table=0,ip,ct_state=-trk,actions=ct(table=1,zone=5)
table=0,ipv6,ct_state=-trk,actions=ct(table=1,zone=5)
table=1,priority=2,ct_state=+new+trk,udp,actions=ct(commit,zone=5),output:2
table=1,priority=2,ct_state=+new+trk,ipv6,actions=ct(commit,zone=5),output:2
table=1,priority=2,ct_state=+inv+trk,actions=output:3
table=1,priority=1,ct_state=+trk,actions=output:4";

#[test]
fn fragments_in_order_leave_with_the_last() {
    for is_ipv6 in [false, true] {
        let mut rig = Rig::new(RULES);
        let parts = split(&datagram(is_ipv6, 1000, 2500), 7, &[800, 1600]);
        assert_eq!(rig.send(1, &parts[0]), []);
        assert_eq!(rig.send(1, &parts[1]), []);
        assert_eq!((rig.held(), rig.connection_count()), (2, 0));
        assert_eq!(rig.send(1, &parts[2]), leaving(2, &parts));
        assert_eq!((rig.held(), rig.connection_count()), (0, 1));
        let status = rig.outbox.connections.fragments().status();
        let status = if is_ipv6 { status.v6 } else { status.v4 };
        // Each waits for the others twice.
        assert_eq!((status.accepted, status.completed), (6, 6));
        assert_eq!(rig.outbox.drops.iter().count(), 0);
    }
}

#[test]
fn fragments_in_any_order_leave_in_theirs_each_from_its_port() {
    let mut rig = Rig::new(RULES);
    let parts = split(&datagram(false, 1000, 2500), 7, &[800, 1600]);
    assert_eq!(rig.send(3, &parts[2]), []);
    assert_eq!(rig.send(4, &parts[0]), []);
    let mut expected = leaving(2, &parts);
    (expected[0].1, expected[2].1) = (4, 3);
    assert_eq!(rig.send(1, &parts[1]), expected);
}

#[test]
fn fragments_of_an_incomplete_packet_are_dropped() {
    let mut rig = Rig::new(RULES);
    let parts = split(&datagram(false, 1000, 2500), 7, &[800, 1600]);
    assert_eq!(rig.send_all([&parts[0], &parts[2]]), []);
    rig.expire(15);
    assert_eq!((rig.held(), rig.ipv4().expired), (2, 0));
    rig.expire(16);
    assert_eq!((rig.held(), rig.ipv4().expired), (0, 2));
    // The last is now the only one that is known.
    assert_eq!(rig.send(1, &parts[1]), []);
    assert_eq!((rig.held(), rig.connection_count()), (1, 0));
}

#[test]
fn a_whole_packet_is_translated_as_one() {
    let rules = "\
table=0,ip,ct_state=-trk,actions=ct(commit,table=1,zone=5,\
nat(src=192.168.0.7:7000-7000))
table=1,ct_state=+new+trk,ip,actions=output:2";
    let whole = datagram(false, 1000, 2500);
    let mut plain = Rig::new(rules);
    let [(2, 1, translated)] = &plain.send(1, &whole)[..] else {
        panic!("it leaves whole")
    };
    assert_eq!(translated[26..30], [192, 168, 0, 7]);
    assert_eq!(translated[34..36], 7000_u16.to_be_bytes());
    let mut rig = Rig::new(rules);
    let sent = rig.send_all(&split(&whole, 7, &[1208, 2016]));
    assert_eq!(sent, leaving(2, &split(translated, 7, &[1208, 2016])));
}

#[test]
fn zones_hold_fragments_one_after_the_other() {
    let rules = "ip,actions=ct(commit,zone=1),ct(commit,zone=2),output:2";
    let mut rig = Rig::new(rules);
    let parts = split(&datagram(false, 1000, 2500), 7, &[800, 1600]);
    assert_eq!(rig.send_all(&parts), leaving(2, &parts));
    assert_eq!((rig.held(), rig.connection_count()), (0, 2));
    assert_eq!((rig.ipv4().accepted, rig.ipv4().completed), (6, 6));
}

#[test]
fn fragments_do_not_wait_for_those_of_another_zone_or_place() {
    for second in [
        "ct(table=1,zone=2)",
        "ct(table=2,zone=1)",
        "ct(table=1,zone=1),output:4",
        "ct(table=1,zone=1,commit)",
    ] {
        let rules = format!(
            "in_port=1,ip,actions=ct(table=1,zone=1)\n\
             in_port=2,ip,actions={second}\n\
             table=1,actions=output:3\n\
             table=2,actions=output:3"
        );
        let mut rig = Rig::new(&rules);
        let parts = split(&datagram(false, 1000, 1500), 7, &[800]);
        assert_eq!(rig.send(1, &parts[0]), []);
        assert_eq!(rig.send(2, &parts[1]), []);
        assert_eq!(rig.held(), 2, "{second}");
        assert_eq!(rig.send(1, &parts[1]), leaving(3, &parts));
    }
}

#[test]
fn a_fragment_that_cannot_be_held_goes_on_as_invalid() {
    let mut rig = Rig::new(RULES);
    let whole = datagram(false, 1000, 2500);
    let parts = split(&whole, 7, &[800, 1600]);
    let overlapping = split(&whole, 7, &[808, 1608]);
    assert_eq!(rig.send(1, &parts[0]), []);
    assert_eq!(rig.send(1, &parts[0]), leaving(3, &parts[..1]));
    assert_eq!(rig.send(1, &overlapping[0]), leaving(3, &overlapping[..1]));
    // The packet is refused from now on.
    assert_eq!(rig.send(1, &parts[1]), leaving(3, &parts[1..2]));
    let status = rig.ipv4();
    assert_eq!((status.purged, status.duplicates), (1, 1));
    let small = split(&whole, 8, &[304]);
    assert_eq!(rig.send(1, &small[0]), leaving(3, &small[..1]));
    assert_eq!((rig.ipv4().too_small, rig.connection_count()), (1, 0));
}

#[test]
fn fragments_are_invalid_if_none_are_held() {
    let mut rig = Rig::new(RULES);
    let parts = split(&datagram(false, 1000, 1500), 7, &[800]);
    let connections = Arc::clone(&rig.outbox.connections);
    connections.fragments().set_enabled(IpFamily::V4, false);
    assert_eq!(rig.send_all(&parts), leaving(3, &parts));
    assert_eq!(rig.ipv4().accepted, 0);
}

#[test]
fn a_translation_of_a_whole_that_was_invalid_is_none() {
    let mut rig = Rig::new(RULES);
    let mut whole = datagram(false, 1000, 1500);
    // A wrong checksum of UDP, which no fragment shows.
    whole[40] ^= 1;
    let parts = split(&whole, 7, &[800]);
    assert_eq!(rig.send_all(&parts), leaving(3, &parts));
    assert_eq!((rig.held(), rig.connection_count()), (0, 0));
}

#[test]
fn each_fragment_has_the_passes_of_a_packet() {
    let mut rig = Rig::new(RULES);
    let cuts: Vec<usize> = (1..40).map(|part| part * 800).collect();
    let parts = split(&datagram(false, 1000, 31_900), 7, &cuts);
    assert_eq!(parts.len(), 40);
    assert_eq!(rig.send_all(&parts), leaving(2, &parts));
}

#[test]
fn fragments_that_circle_are_dropped_in_the_end() {
    let mut rig = Rig::new("ip,actions=output:2,ct(table=0)");
    let parts = split(&datagram(false, 1000, 2500), 7, &[800, 1600]);
    // One pass of each that waits, and 16 for each of the three, of which one has none left to
    // come in by.
    let sent = rig.send_all(&parts).len();
    assert!((3 * 15..=3 * 16 + 2).contains(&sent), "{sent}");
    assert!(rig.outbox.recirculated.is_empty());
}

#[test]
fn a_fragment_without_a_buffer_is_lost_and_counted() {
    let mut rig = Rig::new("ip,actions=ct(commit),output:2");
    rig.outbox.grows = false;
    rig.outbox.pool = PacketPool::with_capacity(2, 100);
    let parts = split(&datagram(false, 1000, 2500), 7, &[800, 1600]);
    assert_eq!(rig.send_all(&parts), leaving(2, &parts[..2]));
    assert_eq!((rig.outbox.copies_refused, rig.held()), (1, 0));
}

#[test]
fn workers_complete_each_others_packets() {
    let shared = Arc::<Connections>::default();
    let [mut first, mut second] = [(); 2].map(|()| {
        let mut rig = Rig::new(RULES);
        rig.outbox.connections = Arc::clone(&shared);
        rig
    });
    let parts = split(&datagram(false, 1000, 2600), 7, &[1304]);
    assert_eq!(first.send(1, &parts[0]), []);
    assert_eq!(second.send(1, &parts[1]), leaving(2, &parts));
}

proptest! {
    /// The fragments leave as those of the frame that the whole packet leaves as.
    #[test]
    fn fragments_leave_as_their_packet_does(
        packets in prop::collection::vec(
            (
                any::<bool>(),
                1000..1003_u16,
                1000..9000_usize,
                prop::collection::vec(0..9000_usize, 0..8),
            ),
            1..5,
        ),
        order in any::<u64>(),
    ) {
        let rules = "\
table=0,ip,ct_state=-trk,actions=ct(table=1,zone=5,nat)
table=0,ipv6,ct_state=-trk,actions=ct(table=1,zone=5,nat)
table=1,ct_state=+new+trk,ip,actions=ct(commit,zone=5,table=2,nat(src=10.9.0.1-10.9.0.9))
table=1,ct_state=+new+trk,ipv6,actions=ct(commit,zone=5,table=2,nat(src=fc00::1-fc00::9))
table=1,priority=2,ct_state=+est+trk,ip,actions=dec_ttl,output:3
table=1,priority=2,ct_state=+est+trk,ipv6,actions=dec_ttl,output:3
table=2,ip,actions=output:2,ct(zone=6,commit,table=3)
table=2,ipv6,actions=output:2,ct(zone=6,commit,table=3)
table=3,actions=output:4";
        let [mut whole, mut parted] = [Rig::new(rules), Rig::new(rules)];
        for (number, (is_ipv6, port, len, mut cuts)) in packets.into_iter().enumerate() {
            let frame = datagram(is_ipv6, port, len);
            let id = number as u16;
            cuts.retain_mut(|cut| {
                *cut = *cut / 8 * 8;
                *cut >= 400 && *cut < len
            });
            cuts.sort_unstable();
            cuts.dedup_by(|next, cut| *next - *cut < 400);
            if cuts.is_empty() {
                cuts.push(400);
            }
            let mut expected: Vec<Sent> = whole
                .send(1, &frame)
                .iter()
                .flat_map(|(port, _, frame)| leaving(*port, &split(frame, id, &cuts)))
                .collect();
            prop_assert!(!expected.is_empty());
            let mut parts = split(&frame, id, &cuts);
            let turn = order as usize % parts.len();
            parts.rotate_left(turn);
            let mut sent = parted.send_all(&parts);
            // Fragments leave port by port in each pass, wholes port by port.
            sent.sort_by_key(|(port, ..)| *port);
            expected.sort_by_key(|(port, ..)| *port);
            prop_assert_eq!(sent, expected);
        }
        prop_assert_eq!(parted.held(), 0);
        prop_assert_eq!(whole.connection_count(), parted.connection_count());
    }
}

/// Fragments carry a rewritten command only if it keeps its length.
#[test]
fn a_command_in_fragments_keeps_its_length_or_is_invalid() {
    let command = b"PORT 10,0,0,1,15,160\r\n".iter().copied();
    let whole = segment(&command.chain([b'.'; 900]).collect::<Vec<u8>>());
    for (public, is_taken) in [("10.0.0.9", true), ("192.168.0.7", false)] {
        let rules = format!(
            "table=0,tcp,ct_state=-trk,actions=ct(commit,alg=ftp,table=1,nat(src={public}))\n\
             table=1,ct_state=-inv,ip,actions=output:2\n\
             table=1,ct_state=+inv,ip,actions=output:3"
        );
        let [(2, 1, rewritten)] = &Rig::new(&rules).send(1, &whole)[..] else {
            panic!("it leaves whole")
        };
        let mut rig = Rig::new(&rules);
        let sent = rig.send_all(&split(&whole, 7, &[488]));
        if is_taken {
            assert_eq!(rewritten[54..76], *b"PORT 10,0,0,9,15,160\r\n");
            assert_eq!(sent, leaving(2, &split(rewritten, 7, &[488])));
        } else {
            assert_eq!(rewritten.len(), whole.len() + 3);
            assert_eq!(sent, leaving(3, &split(&whole, 7, &[488])));
        }
        let counters = rig.outbox.connections.tracker().counters();
        assert_eq!(counters.announcements_too_long, u64::from(!is_taken));
    }
}
