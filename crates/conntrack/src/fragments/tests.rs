use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use thalweg_packet::checksum::checksum;

use super::reference::{SlowFragments, Verdict};
use super::*;

const SECOND: u64 = 1_000_000_000;

/// A packet that tests cut: the bytes in front of it, its headers, its data.
#[derive(Clone, Debug)]
struct Original {
    is_ipv6: bool,
    id: u16,
    has_vlan: bool,
    /// Options of IPv4, or a header of destination options in front of the fragment header;
    /// in units of eight bytes.
    extra: usize,
    data: Vec<u8>,
}

impl Original {
    fn ipv4(data: Vec<u8>) -> Original {
        Original {
            is_ipv6: false,
            id: 7,
            has_vlan: false,
            extra: 0,
            data,
        }
    }

    fn ipv6(data: Vec<u8>) -> Original {
        Original {
            is_ipv6: true,
            ..Original::ipv4(data)
        }
    }

    fn link(&self) -> Vec<u8> {
        let mut frame = vec![2; 12];
        if self.has_vlan {
            frame.extend([0x81, 0, 0, 5]);
        }
        frame.extend(if self.is_ipv6 { [0x86, 0xdd] } else { [8, 0] });
        frame
    }

    /// The frame of a fragment; all of the packet is no fragment.
    fn cut(&self, start: usize, data: &[u8], has_more: bool) -> Vec<u8> {
        let mut frame = self.link();
        let field = start as u16 | u16::from(has_more);
        if self.is_ipv6 {
            let is_fragment = field != 0;
            let len = self.extra * 8 + usize::from(is_fragment) * 8 + data.len();
            let protocol = if is_fragment { 44 } else { 253 };
            frame.extend([0x60, 0, 0, 0]);
            frame.extend((len as u16).to_be_bytes());
            frame.extend([if self.extra > 0 { 60 } else { protocol }, 64]);
            frame.extend(source(true));
            frame.extend(destination(true));
            if self.extra > 0 {
                frame.extend([protocol, self.extra as u8 - 1]);
                frame.extend(vec![0; self.extra * 8 - 2]);
            }
            if is_fragment {
                frame.extend([253, 0]);
                frame.extend(field.to_be_bytes());
                frame.extend(u32::from(self.id).to_be_bytes());
            }
        } else {
            let at = frame.len();
            let header_len = 20 + self.extra * 8;
            frame.extend([0x40 | (header_len / 4) as u8, 0]);
            frame.extend(((header_len + data.len()) as u16).to_be_bytes());
            frame.extend(self.id.to_be_bytes());
            frame.extend(((start as u16 / 8) | (u16::from(has_more) << 13)).to_be_bytes());
            frame.extend([64, 253, 0, 0]);
            frame.extend(source(false));
            frame.extend(destination(false));
            frame.extend(vec![1; self.extra * 8]);
            let sum = checksum(&frame[at..]);
            frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
        }
        frame.extend(data);
        frame
    }

    fn part(&self, start: usize, end: usize) -> Vec<u8> {
        self.cut(start, &self.data[start..end], end < self.data.len())
    }

    fn whole(&self) -> Vec<u8> {
        self.part(0, self.data.len())
    }
}

fn source(is_ipv6: bool) -> Vec<u8> {
    match is_ipv6 {
        true => "fd00::1".parse::<Ipv6Addr>().unwrap().octets().to_vec(),
        false => vec![10, 0, 0, 1],
    }
}

fn destination(is_ipv6: bool) -> Vec<u8> {
    match is_ipv6 {
        true => "fd00::2".parse::<Ipv6Addr>().unwrap().octets().to_vec(),
        false => vec![10, 0, 0, 2],
    }
}

fn at_s(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * SECOND)
}

fn hold(fragments: &mut Fragments<u32>, mut frame: Vec<u8>, token: u32, now: Instant) -> Held<u32> {
    frame.shrink_to_fit();
    let headers = Headers::parse(&frame).expect("long enough");
    let fragment = Fragment { frame, token };
    fragments.hold(fragment, &headers, FragmentContext::default(), now)
}

/// Accepts fragments of any size.
fn any_size() -> Fragments<u32> {
    let mut fragments = Fragments::new(FragmentSettings::default());
    fragments.settings.min_ipv4_bytes = 0;
    fragments.settings.min_ipv6_bytes = 0;
    fragments
}

fn data(len: usize) -> Vec<u8> {
    (0..len)
        .map(|index| (index * 7 + index / 256) as u8)
        .collect()
}

fn complete(held: Held<u32>) -> Reassembled<u32> {
    match held {
        Held::Complete(reassembled) => *reassembled,
        other => panic!("not complete: {other:?}"),
    }
}

fn refusal(held: Held<u32>) -> FragmentRefusal {
    match held {
        Held::Refused(reason, _) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

fn assert_balanced(fragments: &Fragments<u32>) {
    let status = fragments.status();
    let gone = |family: FamilyStatus| family.completed + family.expired + family.purged;
    let accepted = status.v4.accepted + status.v6.accepted;
    let held = u64::from(status.held);
    assert_eq!(accepted, gone(status.v4) + gone(status.v6) + held); // Invariant 3
    let parts = fragments.lists.values().flat_map(|list| list.parts());
    let bytes: usize = parts
        .clone()
        .map(|part| part.fragment.frame.capacity())
        .sum();
    assert_eq!((parts.count() as u64, bytes), (held, status.held_bytes));
    assert!(fragments.refused.len() <= REFUSED_LISTS_MAX);
    for (key, serial) in &fragments.index {
        assert_eq!(fragments.lists[serial].key, *key);
    }
    for list in fragments.lists.values() {
        assert_eq!(list.refusal.is_some(), list.parts().is_empty());
    }
}

#[test]
fn a_packet_in_three_parts_is_joined_in_any_order() {
    for original in [Original::ipv4(data(3000)), Original::ipv6(data(3000))] {
        let cuts = [(0, 1480), (1480, 2960), (2960, 3000)];
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let mut fragments = Fragments::new(FragmentSettings::default());
            let frames = cuts.map(|(start, end)| original.part(start, end));
            for part in &order[..2] {
                let held = hold(&mut fragments, frames[*part].clone(), *part as u32, at_s(1));
                assert!(matches!(held, Held::Waiting));
            }
            let last = order[2];
            let held = hold(&mut fragments, frames[last].clone(), last as u32, at_s(2));
            let reassembled = complete(held);
            assert_eq!(reassembled.whole, original.whole());
            assert_eq!(reassembled.tokens().copied().collect::<Vec<_>>(), [0, 1, 2]);
            let parts = reassembled.finish().expect("of the same length");
            let back: Vec<_> = parts.into_iter().map(|part| part.frame).collect();
            assert_eq!(back, frames, "they leave as they came");
            assert_balanced(&fragments);
            assert_eq!(fragments.status().held, 0);
            assert!(fragments.lists.is_empty() && fragments.index.is_empty());
        }
    }
}

#[test]
fn what_the_tracker_changes_reaches_every_fragment() {
    let mut original = Original::ipv4(data(2000));
    original.extra = 1;
    let mut fragments = Fragments::new(FragmentSettings::default());
    hold(&mut fragments, original.part(0, 1480), 0, at_s(0));
    let mut tail = original.part(1480, 2000);
    tail.extend([0xee; 9]);
    let mut reassembled = complete(hold(&mut fragments, tail, 1, at_s(0)));
    let ip = reassembled
        .headers
        .offset(header::IPV4)
        .expect("it is IPv4");
    reassembled.whole[ip + 12..ip + 16].copy_from_slice(&[192, 0, 2, 9]);
    reassembled.whole[ip + 28..ip + 30].copy_from_slice(&[0xab, 0xcd]); // a source port
    reassembled.whole[ip + 28 + 1999] = 0x77;
    let parts = reassembled.finish().expect("of the same length");
    for part in &parts {
        assert_eq!(checksum(&part.frame[14..14 + 28]), 0, "invariant 2");
        assert_eq!(part.frame[26..30], [192, 0, 2, 9]);
        assert_eq!(part.frame[30..34], [10, 0, 0, 2]);
    }
    assert_eq!(parts[0].frame[42..44], [0xab, 0xcd]);
    assert_eq!(parts[1].frame[42 + 519], 0x77);
    assert_eq!(parts[1].frame[42 + 520..], [0xee; 9], "padding stays");
}

#[test]
fn addresses_of_ipv6_reach_every_fragment() {
    let mut original = Original::ipv6(data(2800));
    original.extra = 2;
    let mut fragments = Fragments::new(FragmentSettings::default());
    hold(&mut fragments, original.part(0, 1400), 0, at_s(0));
    let mut reassembled = complete(hold(&mut fragments, original.part(1400, 2800), 1, at_s(0)));
    assert_eq!(reassembled.count(), 2);
    let new = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9).octets();
    reassembled.whole[14 + 24..14 + 40].copy_from_slice(&new);
    for part in reassembled.finish().expect("of the same length") {
        assert_eq!(part.frame[14 + 24..14 + 40], new);
        assert_eq!(part.frame[14 + 8..14 + 24], source(true)[..]);
    }
}

#[test]
fn a_change_of_length_cannot_be_given_to_fragments() {
    let original = Original::ipv4(data(1500));
    let mut fragments = Fragments::new(FragmentSettings::default());
    hold(&mut fragments, original.part(0, 1480), 0, at_s(0));
    let mut reassembled = complete(hold(&mut fragments, original.part(1480, 1500), 1, at_s(0)));
    reassembled.whole.push(0);
    assert_eq!(reassembled.finish(), None);
}

#[test]
fn whole_and_atomic_packets_pass() {
    let mut fragments = Fragments::new(FragmentSettings::default());
    for original in [Original::ipv4(data(50)), Original::ipv6(data(50))] {
        let held = hold(&mut fragments, original.whole(), 0, at_s(0));
        assert!(matches!(held, Held::Passed(fragment) if fragment.frame == original.whole()));
    }
    let mut atomic = Original::ipv6(data(50)).cut(0, &data(50), true);
    atomic[14 + 40 + 3] = 0;
    let held = hold(&mut fragments, atomic.clone(), 0, at_s(0));
    assert!(matches!(held, Held::Passed(fragment) if fragment.frame == atomic));
    let arp = [vec![0; 12], vec![8, 6], vec![0; 46]].concat();
    assert!(matches!(
        hold(&mut fragments, arp, 0, at_s(0)),
        Held::Passed(_)
    ));
    assert_eq!(
        fragments.status().v4.accepted + fragments.status().v6.accepted,
        0
    );
}

#[test]
fn an_overlap_refuses_the_packet_and_those_that_still_come() {
    for original in [Original::ipv4(data(4000)), Original::ipv6(data(4000))] {
        let mut fragments = Fragments::new(FragmentSettings::default());
        hold(&mut fragments, original.part(0, 1480), 0, at_s(0));
        hold(&mut fragments, original.part(1480, 2960), 1, at_s(0));
        let held = hold(&mut fragments, original.part(2952, 4000), 2, at_s(0));
        assert_eq!(refusal(held), FragmentRefusal::Overlap);
        let held = hold(&mut fragments, original.part(2960, 4000), 3, at_s(15));
        assert_eq!(refusal(held), FragmentRefusal::Overlap);
        let status = fragments.status();
        let family = if original.is_ipv6 {
            status.v6
        } else {
            status.v4
        };
        assert_eq!(
            (family.overlapped, family.purged, family.accepted),
            (2, 2, 2)
        );
        assert_eq!((status.held, status.held_bytes), (0, 0));
        assert_balanced(&fragments);
        // After 15 seconds the number is free again.
        let held = hold(&mut fragments, original.part(2960, 4000), 4, at_s(16));
        assert!(matches!(held, Held::Waiting));
    }
}

#[test]
fn a_copy_is_refused_alone() {
    let original = Original::ipv4(data(3000));
    let mut fragments = Fragments::new(FragmentSettings::default());
    hold(&mut fragments, original.part(0, 1480), 0, at_s(0));
    let held = hold(&mut fragments, original.part(0, 1480), 1, at_s(0));
    assert_eq!(refusal(held), FragmentRefusal::Duplicate);
    let mut altered = original.part(0, 1480);
    *altered.last_mut().unwrap() ^= 1;
    let status = fragments.status().v4;
    assert_eq!(
        (status.overlapped, status.duplicates, status.accepted),
        (1, 1, 1)
    );
    complete(hold(&mut fragments, original.part(1480, 3000), 2, at_s(0)));
    // The same range with other bytes is an overlap.
    hold(&mut fragments, original.part(0, 1480), 0, at_s(0));
    let held = hold(&mut fragments, altered, 1, at_s(0));
    assert_eq!(refusal(held), FragmentRefusal::Overlap);
}

#[test]
fn two_ends_refuse_the_packet() {
    let long = Original::ipv4(data(4000));
    let short = Original::ipv4(data(2000));
    let orders = [
        [long.part(1600, 3200), short.cut(1480, &data(112), false)], // ends before a part
        [short.part(1480, 2000), long.part(2000, 3600)],             // behind the end
        [short.part(1480, 2000), long.part(2000, 4000)],             // a second end
    ];
    for [first, second] in orders {
        let mut fragments = any_size();
        let held = hold(&mut fragments, first, 0, at_s(0));
        assert!(matches!(held, Held::Waiting));
        let held = hold(&mut fragments, second, 1, at_s(0));
        assert_eq!(refusal(held), FragmentRefusal::Inconsistent);
        let status = fragments.status().v4;
        assert_eq!((status.inconsistent, status.purged), (1, 1));
        assert_balanced(&fragments);
    }
}

#[test]
fn impossible_fragments_are_refused_and_counted() {
    let v4 = Original::ipv4(data(3000));
    let v6 = Original::ipv6(data(3000));
    let mut bad_checksum = v4.part(0, 1480);
    bad_checksum[14 + 10] ^= 1;
    use FragmentRefusal as R;
    let cases = [
        (v4.part(0, 800), R::TooSmall),
        (v6.part(0, 800), R::TooSmall),
        (bad_checksum, R::Checksum),
        (v4.cut(0, &data(1481), true), R::Malformed),
        (v6.cut(0, &data(1481), true), R::Malformed),
        (v4.cut(1480, &[], false), R::Malformed),
        (v6.cut(1480, &[], false), R::Malformed),
        (v4.cut(65_528, &data(8), false), R::TooLong),
        (v6.cut(65_528, &data(9), false), R::TooLong),
    ];
    for (frame, reason) in cases {
        let mut fragments = Fragments::new(FragmentSettings::default());
        assert_eq!(refusal(hold(&mut fragments, frame, 0, at_s(0))), reason);
        assert!(fragments.lists.is_empty());
        let status = fragments.status();
        let sum = |s: FamilyStatus| s.too_small + s.checksum + s.malformed + s.too_long;
        assert_eq!(sum(status.v4) + sum(status.v6), 1);
    }
}

#[test]
fn the_longest_packets() {
    // A frame of 65,534 bytes is the longest that the parser reads.
    for (is_ipv6, most) in [(false, 65_534 - 34), (true, 65_534 - 54)] {
        for len in [most, most + 1] {
            let original = Original {
                is_ipv6,
                ..Original::ipv4(data(len))
            };
            let mut fragments = Fragments::new(FragmentSettings::default());
            hold(&mut fragments, original.part(0, 32_000), 0, at_s(0));
            let held = hold(&mut fragments, original.part(32_000, len), 1, at_s(0));
            if len == most {
                assert_eq!(complete(held).whole, original.whole());
            } else {
                assert_eq!(refusal(held), FragmentRefusal::TooLong);
                let status = fragments.status();
                assert_eq!(status.v4.purged + status.v6.purged, 1);
            }
            assert_balanced(&fragments);
        }
    }
}

#[test]
fn a_fragment_of_fragments_is_refused() {
    // Behind the outer fragment header comes an inner one.
    let mut inner = vec![253, 0, 0, 1, 0, 0, 0, 9];
    inner.extend(data(1400));
    let mut fragments = any_size();
    let original = Original::ipv6(inner);
    let mut frames = [original.part(0, 704), original.part(704, 1408)];
    for frame in &mut frames {
        frame[14 + 40] = 44; // what follows the outer fragment header
    }
    let [first, second] = frames;
    assert!(matches!(
        hold(&mut fragments, first, 0, at_s(0)),
        Held::Waiting
    ));
    let held = hold(&mut fragments, second, 1, at_s(0));
    assert_eq!(refusal(held), FragmentRefusal::Malformed);
    assert_balanced(&fragments);
}

#[test]
fn packets_of_other_zones_places_and_protocols_are_not_joined() {
    let original = Original::ipv4(data(3000));
    let mut fragments = Fragments::new(FragmentSettings::default());
    hold(&mut fragments, original.part(0, 1480), 0, at_s(0));
    for (zone, place) in [(1, 0), (0, 1)] {
        let frame = original.part(1480, 3000);
        let headers = Headers::parse(&frame).unwrap();
        let context = FragmentContext { zone, place };
        let fragment = Fragment { frame, token: 1 };
        let held = fragments.hold(fragment, &headers, context, at_s(0));
        assert!(matches!(held, Held::Waiting));
    }
    let mut other = original.part(1480, 3000);
    other[14 + 9] = 254;
    other[14 + 10..14 + 12].fill(0);
    let sum = checksum(&other[14..34]);
    other[14 + 10..14 + 12].copy_from_slice(&sum.to_be_bytes());
    assert!(matches!(
        hold(&mut fragments, other, 2, at_s(0)),
        Held::Waiting
    ));
    assert_eq!(fragments.lists(0, 9).0.len(), 4);
}

#[test]
fn settings_are_bounded_and_obeyed() {
    let mut fragments = Fragments::new(FragmentSettings::default());
    let too_small = Err(FragmentSettingError::MinSizeTooSmall);
    assert_eq!(fragments.set_min(IpFamily::V4, 399), too_small);
    assert_eq!(fragments.set_min(IpFamily::V6, 400), Ok(()));
    let too_many = Err(FragmentSettingError::TooManyFragments);
    assert_eq!(fragments.set_max_fragments(5001), too_many);
    assert_eq!(fragments.set_max_fragments(2), Ok(()));
    fragments.set_enabled(IpFamily::V4, false);
    let original = Original::ipv4(data(1500));
    let held = hold(&mut fragments, original.part(0, 1480), 0, at_s(0));
    assert!(matches!(held, Held::Passed(_)));
    let original = Original::ipv6(data(1500));
    for start in [0, 400] {
        let held = hold(
            &mut fragments,
            original.part(start, start + 400),
            0,
            at_s(0),
        );
        assert!(matches!(held, Held::Waiting));
    }
    let held = hold(&mut fragments, original.part(800, 1200), 0, at_s(0));
    assert_eq!(refusal(held), FragmentRefusal::Full);
    let status = fragments.status();
    assert_eq!(
        (status.held, status.max_fragments, status.v6.full),
        (2, 2, 1)
    );
    assert_eq!((status.v6.min_bytes, status.v4.min_bytes), (400, 1200));
    assert_eq!((status.v4.is_enabled, status.v6.is_enabled), (false, true));
}

#[test]
fn bytes_and_parts_are_bounded() {
    let settings = FragmentSettings {
        max_bytes: 3000,
        ..FragmentSettings::default()
    };
    let mut fragments = Fragments::new(settings);
    let original = Original::ipv4(data(5000));
    hold(&mut fragments, original.part(0, 1480), 0, at_s(0));
    hold(&mut fragments, original.part(1480, 2960), 0, at_s(0));
    let held = hold(&mut fragments, original.part(2960, 4440), 0, at_s(0));
    assert_eq!(refusal(held), FragmentRefusal::Full);
    // Parts of at least 40,000 bytes: two hold any packet.
    let mut fragments = Fragments::new(FragmentSettings::default());
    fragments.set_min(IpFamily::V4, 40_000).unwrap();
    let original = Original::ipv4(data(60_000));
    hold(&mut fragments, original.part(0, 40_000), 0, at_s(0));
    for _ in 0..2 {
        hold(
            &mut fragments,
            original.cut(48_000, &[1], false),
            0,
            at_s(0),
        );
    }
    let held = hold(
        &mut fragments,
        original.cut(40_000, &data(8), false),
        0,
        at_s(0),
    );
    assert_eq!(refusal(held), FragmentRefusal::TooMany);
    assert_balanced(&fragments);
}

#[test]
fn refusals_that_are_remembered_are_bounded() {
    let mut fragments = any_size();
    for id in 0..600_u16 {
        let original = Original {
            id,
            ..Original::ipv4(data(100))
        };
        hold(&mut fragments, original.part(0, 56), 0, at_s(0));
        let held = hold(&mut fragments, original.part(48, 100), 0, at_s(0));
        assert_eq!(refusal(held), FragmentRefusal::Overlap);
    }
    assert_eq!(fragments.lists.len(), REFUSED_LISTS_MAX);
    assert_eq!(fragments.index.len(), REFUSED_LISTS_MAX);
    assert_balanced(&fragments);
    assert!(fragments.expire(at_s(16), 1000).is_empty());
    assert!(fragments.lists.is_empty() && fragments.refused.is_empty());
}

#[test]
fn what_stays_incomplete_expires_in_pieces_of_bounded_work() {
    let mut fragments = any_size();
    let original = Original::ipv4(data(4000));
    for part in 0..20 {
        hold(
            &mut fragments,
            original.part(part * 56, part * 56 + 56),
            part as u32,
            at_s(0),
        );
    }
    let second = Original {
        id: 8,
        ..original.clone()
    };
    hold(&mut fragments, second.part(0, 56), 99, at_s(1));
    assert!(fragments.expire(at_s(15), 100).is_empty());
    let first = fragments.expire(at_s(16), 8);
    assert_eq!(first.len(), 8);
    assert_balanced(&fragments);
    // Half given back, the list accepts nothing more: the same number begins a new packet.
    hold(&mut fragments, original.part(0, 56), 50, at_s(16));
    let rest = fragments.expire(at_s(16), 100);
    assert_eq!(rest.iter().map(|part| part.token).max(), Some(19));
    assert_eq!(rest.len(), 12);
    let last = fragments.expire(at_s(17), 100);
    assert_eq!(last.iter().map(|part| part.token).collect::<Vec<_>>(), [99]);
    let status = fragments.status();
    assert_eq!((status.v4.expired, status.held), (21, 1));
    assert_balanced(&fragments);
}

#[test]
fn a_dump_tells_the_state_of_lists() {
    let mut fragments = Fragments::new(FragmentSettings::default());
    let parts = [(1, 0, 1480), (2, 1480, 2960), (3, 2960, 5000)];
    for (id, start, end) in parts {
        let original = Original {
            id,
            ..Original::ipv4(data(5000))
        };
        hold(&mut fragments, original.part(start, end), 0, at_s(0));
    }
    let both = Original {
        id: 4,
        ..Original::ipv6(data(5000))
    };
    hold(&mut fragments, both.part(0, 1480), 0, at_s(0));
    hold(&mut fragments, both.part(2960, 5000), 0, at_s(0));
    let (mut lists, next) = fragments.lists(0, 3);
    let (rest, end) = fragments.lists(next.expect("one is left"), 3);
    lists.extend(rest);
    assert_eq!(end, None);
    use FragmentListState as S;
    let states: Vec<_> = lists
        .iter()
        .map(|list| (list.identification, list.state))
        .collect();
    assert_eq!(
        states,
        [
            (1, S::First),
            (2, S::Other),
            (3, S::Last),
            (4, S::FirstAndLast)
        ]
    );
    assert_eq!(lists[3].fragments, 2);
    assert_eq!(lists[0].source, Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
    assert_eq!((lists[0].protocol, lists[3].protocol), (253, 0));
}

/// A step of the random test.
#[derive(Clone, Debug)]
enum Step {
    /// A part of a packet: its number, the units where it starts, its units, how many bytes
    /// the last unit lacks, whether it is the last, a salt for its bytes.
    Part(u16, usize, usize, usize, bool, u8),
    Wait(u64),
    Expire(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let part = (
        0..3_u16,
        0..12_usize,
        1..6_usize,
        0..8_usize,
        any::<bool>(),
        0..12_u8,
    );
    let step = prop_oneof![
        12 => part.prop_map(|(id, start, len, lack, is_last, salt)| {
            Step::Part(id, start, len, if is_last { lack } else { 0 }, is_last, salt / 11)
        }),
        1 => (0..12_u64).prop_map(Step::Wait),
        1 => (0..6_usize).prop_map(Step::Expire),
    ];
    prop::collection::vec(step, 0..80)
}

/// The bytes that a part has, so that equal ranges are mostly equal.
fn bytes_of(start: usize, len: usize, salt: u8) -> Vec<u8> {
    (start..start + len)
        .map(|index| index as u8 ^ salt)
        .collect()
}

/// Cuts `original` at multiples of eight.
fn cuts(len: usize, at: &[prop::sample::Index]) -> Vec<(usize, usize)> {
    let mut edges: Vec<_> = at.iter().map(|at| at.index(len) / 8 * 8).collect();
    edges.extend([0, len]);
    edges.sort_unstable();
    edges.dedup();
    edges.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

proptest! {
    #[test]
    fn reassembly_agrees_with_its_twin(is_ipv6: bool, steps in steps()) {
        let mut fragments = any_size();
        let mut twin = SlowFragments::default();
        let mut now = at_s(1);
        let mut given_back = 0;
        for step in steps {
            match step {
                Step::Part(id, start, units, lack, is_last, salt) => {
                    let original = Original { is_ipv6, id, ..Original::ipv4(Vec::new()) };
                    let (start, len) = (start * 8, units * 8 - lack);
                    let part = bytes_of(start, len, salt);
                    if start == 0 && is_last {
                        continue; // not a fragment
                    }
                    let frame = original.cut(start, &part, !is_last);
                    let fast = hold(&mut fragments, frame, 0, now);
                    let slow = twin.hold(id.into(), start, &part, is_last, now);
                    match (fast, slow) {
                        (Held::Waiting, Verdict::Waiting) => {}
                        (Held::Refused(fast, _), Verdict::Refused(slow)) => {
                            prop_assert_eq!(fast, slow);
                        }
                        (Held::Complete(fast), Verdict::Complete(data)) => {
                            let whole = Original { data, ..original }.whole();
                            prop_assert_eq!(&fast.whole, &whole);
                        }
                        (fast, slow) => prop_assert!(false, "{fast:?} is not {slow:?}"),
                    }
                }
                Step::Wait(seconds) => now = now + Duration::from_secs(seconds),
                Step::Expire(budget) => {
                    let expired = fragments.expire(now, budget);
                    prop_assert!(expired.len() <= budget);
                    given_back += expired.len() as u64;
                }
            }
            assert_balanced(&fragments);
        }
        given_back += fragments.expire(now, usize::MAX).len() as u64;
        twin.drop_expired(now);
        let status = fragments.status();
        let family = if is_ipv6 { status.v6 } else { status.v4 };
        prop_assert_eq!(
            [family.accepted, family.completed, family.purged, family.expired],
            [twin.accepted, twin.completed, twin.purged, twin.expired]
        );
        prop_assert_eq!(family.expired, given_back);
        prop_assert_eq!(u64::from(status.held), twin.held());
    }

    #[test]
    fn a_packet_cut_and_shuffled_is_whole_again(
        is_ipv6: bool,
        has_vlan: bool,
        extra in 0..4_usize,
        len in 16..4000_usize,
        at in prop::collection::vec(any::<prop::sample::Index>(), 1..30),
        seed in any::<prop::sample::Index>(),
        padding in 0..20_usize,
    ) {
        let base = Original { is_ipv6, has_vlan, extra, ..Original::ipv4(data(len)) };
        let mut parts = cuts(len, &at);
        prop_assume!(parts.len() > 1);
        let (count, step) = (parts.len(), seed.index(1009) + 1);
        for place in 0..count {
            parts.swap(place, place * step % count);
        }
        let mut fragments = any_size();
        let mut frames = Vec::new();
        for (index, (start, end)) in parts.into_iter().enumerate() {
            let mut frame = base.part(start, end);
            frame.extend(vec![0xaa; padding]);
            frames.push((start, frame.clone()));
            let held = hold(&mut fragments, frame.clone(), index as u32, at_s(0));
            if index + 1 < count {
                prop_assert!(matches!(held, Held::Waiting));
                let copy = hold(&mut fragments, frame, 99, at_s(0));
                prop_assert_eq!(refusal(copy), FragmentRefusal::Duplicate);
                continue;
            }
            let reassembled = complete(held);
            prop_assert_eq!(&reassembled.whole, &base.whole());
            let back = reassembled.finish().expect("of the same length");
            frames.sort();
            let back: Vec<_> = back.into_iter().map(|part| part.frame).collect();
            let sent: Vec<_> = frames.drain(..).map(|(_, frame)| frame).collect();
            prop_assert_eq!(back, sent);
        }
    }

    #[test]
    fn no_bytes_panic(
        is_ipv6: bool,
        frames in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..120), any::<[(u8, u8); 3]>(), 0..3_usize),
            1..40,
        ),
    ) {
        let mut fragments = any_size();
        for (bytes, changes, kind) in frames {
            // A frame that is nearly right, with bytes of its headers changed.
            let original = Original { is_ipv6, extra: kind, ..Original::ipv4(Vec::new()) };
            let mut frame = original.cut(kind * 8, &bytes, kind != 2);
            for (at, value) in changes {
                let at = 12 + usize::from(at) % 70;
                if value % 2 == 0 && at < frame.len() {
                    frame[at] = value;
                }
            }
            if let Ok(headers) = Headers::parse(&frame) {
                let fragment = Fragment { frame, token: 0 };
                let held = fragments.hold(fragment, &headers, FragmentContext::default(), at_s(0));
                if let Held::Complete(reassembled) = held {
                    prop_assert!(reassembled.finish().is_some());
                }
            }
            assert_balanced(&fragments);
        }
    }
}
