//! Whole frames against their segments: headers change before or after the cut.

use proptest::prelude::*;

use super::*;
use crate::standard::{
    ETH_SRC, IP_DSCP, IP_DST, IP_SRC, IPV6_DST, IPV6_SRC, TP_DST, TP_SRC, fields,
};
use crate::wire::{MacAddress, PacketBuilder, TcpView, UdpView};
use crate::{FieldId, HEADROOM_BYTES, Headers, Instant, PortId, Rewriter};

/// A frame as a host's stack may hand it over.
#[derive(Clone, Debug)]
struct Shape {
    tags: usize,
    is_ipv6: bool,
    is_udp: bool,
    payload: usize,
    segment_bytes: u16,
}

impl Shape {
    /// The frame with its right checksum.
    fn build(&self) -> Vec<u8> {
        let mut builder = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]));
        for tag in 0..self.tags {
            builder = builder.vlan(10 + tag as u16, 0);
        }
        let builder = match self.is_ipv6 {
            false => builder.ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            true => builder.ipv6("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()),
        };
        let builder = match self.is_udp {
            false => builder.tcp(1_000, 2_000),
            true => builder.udp(1_000, 2_000),
        };
        let payload: Vec<u8> = (0..self.payload).map(|n| (n * 31 % 251) as u8).collect();
        let mut frame = builder.payload(&payload).build();
        if !self.is_udp {
            let at = frame.len() - self.payload - 20;
            // CWR, ACK, PSH, FIN: the sum changes, and nothing reads it.
            frame[at + 13] = 0x99;
        }
        frame
    }

    fn work(&self) -> Unfinished {
        Unfinished {
            is_ipv6: self.is_ipv6,
            is_udp: self.is_udp,
            has_ecn: false,
            segment_bytes: self.segment_bytes,
            covered_bytes: (self.payload + if self.is_udp { 8 } else { 20 }) as u16,
        }
    }

    fn mark(&self) -> Packet {
        let mut packet = Packet::from_bytes(&self.build());
        assert!(packet.mark_unfinished(self.work()));
        packet.set_received(PortId(3), Instant::from_nanos(9));
        packet
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let bits = (0..3_usize, any::<bool>(), any::<bool>());
    (bits, 1..6_000_usize, 50..3_000_u16).prop_map(|((tags, is_ipv6, is_udp), payload, each)| {
        Shape {
            tags,
            is_ipv6,
            is_udp,
            payload,
            segment_bytes: each,
        }
    })
}

/// A change of headers.
#[derive(Clone, Debug)]
enum Change {
    Write(FieldId, u128),
    DecrementTtl,
    PushVlan(u16),
    PopVlan,
    PushMpls(u32),
    PopMpls,
    PopEthernet,
    PushEthernet,
    Encapsulate,
    Decapsulate,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let fields = [
        ETH_SRC, IP_DSCP, IP_SRC, IP_DST, IPV6_SRC, IPV6_DST, TP_SRC, TP_DST,
    ];
    let write = (prop::sample::select(fields.to_vec()), any::<u128>());
    let change = prop_oneof![
        8 => write.prop_map(|(field, value)| Change::Write(field, value)),
        1 => Just(Change::DecrementTtl),
        2 => any::<u16>().prop_map(Change::PushVlan),
        2 => Just(Change::PopVlan),
        1 => any::<u32>().prop_map(|entry| Change::PushMpls(entry | 0x100)),
        1 => Just(Change::PopMpls),
        1 => Just(Change::PopEthernet),
        1 => Just(Change::PushEthernet),
        1 => Just(Change::Encapsulate),
        1 => Just(Change::Decapsulate),
    ];
    prop::collection::vec(change, 0..10)
}

/// Applies `changes`, except those that read a packet as what it is not: Ethernet is only behind a
/// label that [`Change::Encapsulate`] put in front of Ethernet.
fn apply(changes: &[Change], packet: &mut Packet) {
    // Per label, innermost first: whether it has Ethernet behind it.
    let mut labels = Vec::new();
    for change in changes {
        let mut headers = Headers::parse(packet.bytes()).expect("a frame");
        let ether_type = match headers.has(crate::standard::header::IPV6) {
            true => 0x86dd,
            false => 0x0800,
        };
        let is_layer3 = packet.is_layer3();
        let mut rewriter = Rewriter::new(packet, &mut headers);
        match change {
            Change::Write(field, value) => {
                let field = &fields()[field.index()];
                rewriter.write(&field.source, field.width_bits, *value, u128::MAX);
            }
            Change::DecrementTtl => {
                rewriter.decrement_ttl();
            }
            Change::PushVlan(tci) => {
                rewriter.push_vlan(0x8100, *tci);
            }
            Change::PopVlan => {
                rewriter.pop_vlan();
            }
            Change::PushMpls(entry) => {
                if rewriter.push_mpls(0x8847, *entry) {
                    labels.push(false);
                }
            }
            Change::PopMpls => {
                if labels.last() == Some(&false) && rewriter.pop_mpls(ether_type) {
                    labels.pop();
                }
            }
            Change::PopEthernet => {
                rewriter.pop_ethernet();
            }
            Change::PushEthernet => {
                rewriter.push_ethernet();
            }
            Change::Encapsulate => {
                if rewriter.encapsulate(0x8847, &[0, 0, 0x11, 0x40]) {
                    labels.push(!is_layer3);
                }
            }
            Change::Decapsulate => {
                if labels.last() == Some(&true) && rewriter.decapsulate(0) {
                    labels.pop();
                }
            }
        }
    }
}

fn cut(packet: &Packet) -> Vec<Packet> {
    let segment = |index| {
        let mut segment = Packet::default();
        packet.emit_segment(index, &mut segment);
        segment
    };
    (0..packet.segment_count()).map(segment).collect()
}

fn is_checksum_right(shape: &Shape, frame: &[u8], at: usize) -> bool {
    let network_bytes = if shape.is_ipv6 { 40 } else { 20 };
    let ip = &frame[at - network_bytes..at];
    let addresses = if shape.is_ipv6 {
        &ip[8..40]
    } else {
        &ip[12..20]
    };
    let protocol = if shape.is_udp { 17 } else { 6 };
    Sum::default()
        .with_bytes(addresses)
        .with_bytes(&((frame.len() - at) as u32).to_be_bytes())
        .with_bytes(&[0, 0, 0, protocol])
        .with_bytes(&frame[at..])
        .is_valid()
}

proptest! {
    /// The order of cutting and changing does not matter.
    #[test]
    fn a_whole_frame_is_changed_like_its_segments(shape in shapes(), changes in changes()) {
        let whole = shape.mark();
        let mut first = cut(&whole);
        first.iter_mut().for_each(|segment| apply(&changes, segment));
        let mut whole = whole;
        apply(&changes, &mut whole);
        let last = cut(&whole);
        prop_assert_eq!(&first, &last);
        let bytes: usize = last.iter().map(Packet::own_len).sum();
        prop_assert_eq!(whole.wire_counts(), (last.len() as u64, bytes as u64));
        prop_assert!(last.iter().all(|segment| !segment.is_unfinished()));

        // A card that is given the sum of the pseudo-header finds the same checksum.
        if let [only] = &last[..] {
            let (work, transport, _) = whole.prepare_for_card().unwrap();
            let sum = checksum(&whole.bytes()[transport..]);
            let sum = if shape.is_udp { udp_checksum_for_wire(sum) } else { sum };
            put(whole.bytes_mut(), transport + work.checksum_offset(), sum);
            prop_assert_eq!(whole.bytes(), only.bytes());
        }
    }

    /// What was cut is joined again, up to where a segment was changed, lost or swapped.
    #[test]
    fn segments_are_joined_and_cut_again(
        shape in shapes(),
        first_flags in prop::sample::select(vec![0x10_u8, 0x18, 0x19, 0x11, 0x90]),
        damage in prop::option::of((0..40_usize, 0..80_usize, 1..=255_u8)),
        swap in prop::option::of(0..40_usize),
    ) {
        let mut frame = shape.build();
        if !shape.is_udp {
            let at = frame.len() - shape.payload - 20 + 13;
            frame[at] = first_flags;
        }
        let mut packet = Packet::from_bytes(&frame);
        prop_assume!(packet.mark_unfinished(shape.work()));
        let mut frames = cut(&packet);
        if let Some((index, place, bits)) = damage
            && let Some(frame) = frames.get_mut(index)
            && let Some(byte) = frame.bytes_mut().get_mut(place)
        {
            *byte ^= bits;
        }
        if let Some(index) = swap
            && index + 1 < frames.len()
        {
            frames.swap(index, index + 1);
        }
        let mut joined: Vec<Packet> = Vec::new();
        for frame in &frames {
            let is_joined = joined.last_mut().is_some_and(|last| {
                let before = last.clone();
                let is_joined = last.join(frame);
                assert!(is_joined || *last == before);
                is_joined
            });
            if !is_joined {
                joined.push(frame.clone());
            }
        }
        let again: Vec<Packet> = joined.iter().flat_map(cut).collect();
        prop_assert_eq!(&again, &frames);
        let is_plain = damage.is_none() && swap.is_none() && first_flags & 0x80 == 0;
        if is_plain && !shape.is_udp && shape.segment_bytes >= 8 {
            prop_assert_eq!(joined.len(), 1);
        }
    }

    #[test]
    fn segments_and_finished_frames_have_right_checksums(shape in shapes()) {
        let mut whole = shape.mark();
        let header = whole.len() - shape.payload;
        let transport = header - if shape.is_udp { 8 } else { 20 };
        let mut payload = Vec::new();
        for segment in cut(&whole) {
            prop_assert!(is_checksum_right(&shape, segment.bytes(), transport));
            prop_assert_eq!(segment.in_port(), PortId(3));
            payload.extend_from_slice(&segment.bytes()[header..]);
        }
        prop_assert_eq!(&payload[..], &whole.bytes()[header..]);
        let mut copy = Packet::default();
        copy.copy_from(&whole);
        prop_assert_eq!(&copy, &whole);
        whole.finish();
        prop_assert!(is_checksum_right(&shape, whole.bytes(), transport));
        prop_assert_eq!(whole.wire_counts(), (1, whole.len() as u64));
        // A packet is finished before it is cut.
        copy.truncate(header);
        prop_assert_eq!(copy.bytes(), &whole.bytes()[..header]);
        prop_assert!(!copy.is_unfinished());
    }

    /// Any request gives an answer or a refusal, and so does whatever becomes of the bytes.
    #[test]
    fn arbitrary_requests_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        frame in shapes(),
        is_frame in any::<bool>(),
        work in any::<(bool, bool, u16, u16)>(),
        removed in 0..300_usize,
    ) {
        let mut packet = match is_frame {
            true => frame.mark(),
            false => Packet::from_bytes(&bytes),
        };
        let (is_ipv6, is_udp, segment_bytes, covered_bytes) = work;
        if !is_frame {
            packet.mark_unfinished(Unfinished {
                is_ipv6, is_udp, has_ecn: true, segment_bytes, covered_bytes,
            });
        }
        packet.remove_front(removed.min(packet.len()));
        for byte in packet.bytes_mut().iter_mut().step_by(3) {
            *byte ^= 0xf5;
        }
        for index in 0..packet.segment_count() {
            packet.emit_segment(index, &mut Packet::default());
        }
        packet.prepare_for_card();
        packet.finish();
    }
}

#[test]
fn other_forms_are_refused_and_change_nothing() {
    let shape = Shape {
        tags: 0,
        is_ipv6: false,
        is_udp: false,
        payload: 1_024,
        segment_bytes: 8,
    };
    let refused = |change: &dyn Fn(&mut Packet, &mut Unfinished)| {
        let (mut packet, mut work) = (Packet::from_bytes(&shape.build()), shape.work());
        change(&mut packet, &mut work);
        let before = packet.clone();
        !packet.mark_unfinished(work) && packet == before
    };
    assert!(!refused(&|_, _| {}));
    assert!(refused(&|_, work| work.segment_bytes = 7)); // Too many, and too short.
    assert!(refused(&|_, work| work.covered_bytes -= 1));
    assert!(refused(&|_, work| work.is_udp = true));
    assert!(refused(&|_, work| work.is_ipv6 = true));
    assert!(refused(&|packet, _| packet.append(&[0; 4]))); // Padding.
    assert!(refused(&|packet, _| packet.bytes_mut()[20] = 0x20)); // A fragment.
    assert!(refused(&|packet, _| packet.bytes_mut()[14] = 0x46)); // Options.
    assert!(refused(&|packet, _| packet.set_cut_bytes(1)));
    // TCP's header is longer than the packet.
    assert!(refused(&|packet, work| {
        *packet = Packet::from_bytes(
            &Shape {
                payload: 4,
                ..shape.clone()
            }
            .build(),
        );
        packet.bytes_mut()[46] = 0xf0;
        work.covered_bytes = 24;
    }));
}

#[test]
fn one_segment_is_a_frame_and_work_ends_with_the_bytes() {
    let shape = Shape {
        tags: 1,
        is_ipv6: true,
        is_udp: true,
        payload: 100,
        segment_bytes: 100,
    };
    let packet = shape.mark();
    assert!(packet.is_unfinished() && !packet.is_segmented());
    let cut = cut(&packet);
    assert_eq!(cut[0].bytes(), shape.build());
    assert!(UdpView::new_checked(&cut[0].bytes()[58..]).is_ok());
    assert!(TcpView::new_checked(&cut[0].bytes()[58..]).is_ok());
    for forget in [
        |packet: &mut Packet| packet.fill(b"other"),
        |packet: &mut Packet| {
            packet.receive_area();
        },
        |packet: &mut Packet| packet.finish(),
    ] {
        let mut other = packet.clone();
        forget(&mut other);
        assert!(!other.is_unfinished());
    }
    let mut longer = packet.clone();
    longer.append(&[0; HEADROOM_BYTES]);
    assert!(longer.bytes().starts_with(&shape.build()) && !longer.is_unfinished());
}
