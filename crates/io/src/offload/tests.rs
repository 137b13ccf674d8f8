//! Super-frames and partial checksums as the kernel makes them, checked by plain arithmetic.

use proptest::prelude::*;

use thalweg_packet::{Headers, MOST_SEGMENTS, PacketPool, PortId};

use super::*;
use crate::{MemoryPort, send_burst};

/// The parts of a test frame.
#[derive(Clone, Debug)]
struct Shape {
    tags: usize,
    is_ipv6: bool,
    is_tcp: bool,
    /// Bytes of IPv4 options or IPv6 extension headers.
    extra: usize,
    tcp_options: usize,
    payload: usize,
}

impl Shape {
    fn network(&self) -> usize {
        14 + 4 * self.tags
    }

    fn transport(&self) -> usize {
        self.network() + if self.is_ipv6 { 40 } else { 20 } + self.extra
    }

    fn header(&self) -> usize {
        self.transport()
            + if self.is_tcp {
                20 + self.tcp_options
            } else {
                8
            }
    }

    fn protocol(&self) -> u8 {
        if self.is_tcp { 6 } else { 17 }
    }

    fn addresses(&self) -> std::ops::Range<usize> {
        let network = self.network();
        if self.is_ipv6 {
            network + 8..network + 40
        } else {
            network + 12..network + 20
        }
    }

    fn offload(&self, segment_bytes: u16) -> Offload {
        Offload {
            flags: NEEDS_CHECKSUM,
            header_bytes: 0,
            segmentation: match (segment_bytes, self.is_tcp, self.is_ipv6) {
                (0, ..) => 0,
                (_, false, _) => SEGMENTATION_UDP,
                (_, true, false) => SEGMENTATION_TCP4 | SEGMENTATION_ECN,
                (_, true, true) => SEGMENTATION_TCP6,
            },
            segment_bytes,
            checksum_start: self.transport() as u16,
            checksum_offset: if self.is_tcp { 16 } else { 6 },
        }
    }

    /// Builds a frame with a partial checksum: the sum of the pseudo-header.
    fn build(&self) -> Vec<u8> {
        let (network, transport) = (self.network(), self.transport());
        let mut frame: Vec<u8> = (0..self.header() + self.payload)
            .map(|n| (n * 31) as u8)
            .collect();
        for tag in 0..self.tags {
            put(
                &mut frame,
                12 + 4 * tag,
                if tag == 0 { 0x88a8 } else { 0x8100 },
            );
        }
        put(
            &mut frame,
            network - 2,
            if self.is_ipv6 { 0x86dd } else { 0x0800 },
        );
        let length = (frame.len() - network) as u16;
        if self.is_ipv6 {
            frame[network] = 0x60;
            put(&mut frame, network + 4, length - 40);
        } else {
            frame[network] = 0x45 + (self.extra / 4) as u8;
            put(&mut frame, network + 2, length);
            put(&mut frame, network + 4, 0xfffe);
        }
        if self.is_tcp {
            frame[transport + 4..transport + 8].copy_from_slice(&0xffff_ff00_u32.to_be_bytes());
            frame[transport + 12] = ((20 + self.tcp_options) / 4 * 16) as u8;
            frame[transport + 13] = 0x99; // CWR, ACK, PSH, FIN
        }
        let pseudo = self.pseudo(&frame);
        let field = usize::from(self.offload(0).checksum_offset);
        put(&mut frame, transport + field, pseudo);
        frame
    }

    fn pseudo(&self, frame: &[u8]) -> u16 {
        let mut header = frame[self.addresses()].to_vec();
        header.extend(((frame.len() - self.transport()) as u32).to_be_bytes());
        header.extend([0, self.protocol()]);
        plain_sum(&header)
    }

    /// Whether the transport part and its pseudo-header sum to all ones (RFC 1071, 1).
    fn is_right(&self, frame: &[u8]) -> bool {
        let total =
            u32::from(self.pseudo(frame)) + u32::from(plain_sum(&frame[self.transport()..]));
        total == 0xffff || total == 2 * 0xffff
    }
}

impl Shape {
    /// The same frame in the plain form that may stay whole.
    fn build_plain(&self) -> Vec<u8> {
        let plain = Shape {
            extra: 0,
            ..self.clone()
        };
        let mut frame = plain.build();
        let network = plain.network();
        if plain.is_ipv6 {
            frame[network + 6] = plain.protocol();
        } else {
            put(&mut frame, network + 6, 0x4000);
            frame[network + 9] = plain.protocol();
        }
        // The bytes that the sum of the pseudo-header has.
        let at = plain.transport() + usize::from(plain.offload(0).checksum_offset);
        let pseudo = plain.pseudo(&frame);
        put(&mut frame, at, pseudo);
        frame
    }
}

fn plain_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) * 256 + u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum % 65_536) + sum / 65_536;
    }
    sum as u16
}

fn shapes() -> impl Strategy<Value = Shape> {
    let flags = (0..3_usize, any::<bool>(), any::<bool>());
    (flags, 0..3_usize, 0..4_usize, 1..9000_usize).prop_map(|(flags, extra, options, payload)| {
        let (tags, is_ipv6, is_tcp) = flags;
        Shape {
            tags,
            is_ipv6,
            is_tcp,
            extra: if is_ipv6 { extra * 8 } else { extra * 4 },
            tcp_options: options * 4,
            payload,
        }
    })
}

proptest! {
    #[test]
    fn a_partial_checksum_is_completed_behind_any_headers(shape in shapes()) {
        let mut frame = shape.build();
        complete_checksum(&mut frame, &shape.offload(0)).unwrap();
        prop_assert!(shape.is_right(&frame));
    }

    #[test]
    fn segments_are_what_the_sender_meant(
        shape in shapes(),
        segment_bytes in LEAST_SEGMENT_BYTES..3000,
        split in any::<prop::sample::Index>(),
    ) {
        let frame = shape.build();
        let (network, transport, header) = (shape.network(), shape.transport(), shape.header());
        // Splits the frame in two parts, with the headers in the first.
        let split = header + split.index(frame.len() - header + 1);
        let (front, rest) = frame.split_at(split);
        let offload = shape.offload(segment_bytes);
        prop_assert!(SuperFrame::is_asked_for(&offload));
        let (parsed, count) =
            (SuperFrame::parse(front, rest, offload), shape.payload.div_ceil(segment_bytes.into()));
        if !shape.is_tcp && count > MOST_UDP_SEGMENTS {
            prop_assert!(parsed.is_err());
            return Ok(());
        }
        let parsed = parsed.unwrap();
        prop_assert_eq!(parsed.segments(), count);

        let (mut packet, mut payload) = (Packet::default(), Vec::<u8>::new());
        for index in 0..parsed.segments() {
            parsed.emit_segment(index, &mut packet);
            let segment = packet.bytes();
            let is_last = index + 1 == parsed.segments();
            prop_assert!(is_last || segment.len() == header + usize::from(segment_bytes));
            prop_assert!(shape.is_right(segment));
            let length = segment.len() - network;
            if shape.is_ipv6 {
                prop_assert_eq!(usize::from(get(segment, network + 4)), length - 40);
            } else {
                prop_assert_eq!(usize::from(get(segment, network + 2)), length);
                prop_assert_eq!(get(segment, network + 4), 0xfffe_u16.wrapping_add(index as u16));
                prop_assert_eq!(plain_sum(&segment[network..transport]), 0xffff);
            }
            if shape.is_tcp {
                let sequence = segment[transport + 4..][..4].try_into().unwrap();
                let sequence = u32::from_be_bytes(sequence);
                prop_assert_eq!(sequence, 0xffff_ff00_u32.wrapping_add(payload.len() as u32));
                let first = if index == 0 { 0x80 } else { 0 };
                let last = if is_last { 0x09 } else { 0 };
                prop_assert_eq!(segment[transport + 13], 0x10 | first | last);
            } else {
                let length = usize::from(get(segment, transport + 4));
                prop_assert_eq!(length, segment.len() - transport);
            }
            payload.extend(&segment[header..]);
        }
        prop_assert_eq!(&payload[..], &frame[header..]);
    }

    /// A frame that stays whole is cut into the same segments where it leaves: here, or by a card
    /// that is asked for it.
    #[test]
    fn whole_frames_are_cut_as_on_arrival(shape in shapes(), segment_bytes in 60..3000_u16) {
        let shape = Shape { extra: 0, ..shape };
        let frame = shape.build_plain();
        let is_segmented = shape.payload > segment_bytes.into();
        let offload = shape.offload(if is_segmented { segment_bytes } else { 0 });
        let mut expected = Vec::new();
        if is_segmented {
            let parsed = SuperFrame::parse(&frame, &[], offload).unwrap();
            for index in 0..parsed.segments() {
                let mut packet = Packet::default();
                parsed.emit_segment(index, &mut packet);
                expected.push(packet.bytes().to_vec());
            }
        } else {
            let mut frame = frame.clone();
            complete_checksum(&mut frame, &offload).unwrap();
            expected.push(frame);
        }
        let mut packet = Packet::from_bytes(&frame);
        prop_assert!(leave_undone(&mut packet, &offload) || expected.len() > MOST_SEGMENTS);
        if !packet.is_unfinished() {
            return Ok(());
        }
        let bytes: usize = expected.iter().map(Vec::len).sum();
        prop_assert_eq!(packet.wire_counts(), (expected.len() as u64, bytes as u64));

        // Whatever stands in the checksum's field on the way.
        let at = shape.transport() + usize::from(offload.checksum_offset);
        put(packet.bytes_mut(), at, 0x1234);
        let asked = ask_for(&mut packet);
        prop_assert_eq!(packet.bytes(), &frame[..]);
        prop_assert_eq!(Offload { header_bytes: 0, ..asked }, offload);
        prop_assert_eq!(usize::from(asked.header_bytes), shape.header());
        prop_assert_eq!(Offload::from_bytes(&asked.to_bytes()), asked);

        prop_assert!(is_for_kernel(&packet));
        let mut labelled = packet.clone();
        let mut headers = Headers::parse(packet.bytes()).unwrap();
        prop_assert!(Rewriter::new(&mut labelled, &mut headers).push_mpls(0x8847, 0x100));
        prop_assert!(!is_for_kernel(&labelled) && labelled.is_unfinished());

        put(packet.bytes_mut(), at, 0x4321);
        let (mut port, handle) = MemoryPort::new(PortId(1), 1_000);
        let mut pool = PacketPool::with_capacity(4, 64);
        send_burst(&mut port, &mut pool, &mut vec![packet]);
        let sent: Vec<_> = handle.collect().iter().map(|sent| sent.bytes().to_vec()).collect();
        prop_assert_eq!(sent, expected);
        prop_assert_eq!(pool.available(), 4);
    }

    /// Any header gives an answer or a refusal.
    #[test]
    fn partial_checksums_are_found_in_the_frame_alone(
        shape in shapes(),
        damage in prop::option::of((any::<prop::sample::Index>(), 1..255_u8)),
    ) {
        let shape = Shape { extra: 0, ..shape };
        let mut frame = shape.build_plain();
        let transport = shape.transport();
        let field = usize::from(shape.offload(0).checksum_offset);
        let mut completed = frame.clone();
        complete_checksum(&mut completed, &shape.offload(0)).unwrap();
        let partial = find_partial_checksum(&frame);
        let expected = Offload { segmentation: 0, ..shape.offload(0) };
        prop_assert_eq!(partial, expected);
        // What is finished stays as it is, also if its field equals the other sum.
        let found = find_partial_checksum(&completed);
        let mut again = completed.clone();
        complete_checksum(&mut again, &found).unwrap();
        prop_assert_eq!(&again, &completed);
        // A byte that the sum covers makes another sum: the frame is left alone.
        if let Some((place, change)) = damage {
            let addresses = shape.addresses();
            let at = addresses.start + place.index(addresses.len());
            frame[at] ^= change;
            let is_same_sum = plain_sum(&frame[addresses.clone()])
                == plain_sum(&shape.build_plain()[addresses]);
            prop_assert_eq!(find_partial_checksum(&frame).flags == 0, !is_same_sum);
        }
        // Padding is not covered, so the kernel did not make such a frame.
        let mut padded = shape.build_plain();
        padded.push(0);
        prop_assert_eq!(find_partial_checksum(&padded), Offload::default());
        prop_assert!(transport + field + 2 <= completed.len());
    }

    #[test]
    fn arbitrary_requests_never_panic(
        mut frame in prop::collection::vec(any::<u8>(), 0..200),
        kind in any::<u8>(),
        numbers in any::<[u8; 3]>(),
        looks_like_ip in 0..3_usize,
    ) {
        if let (Some(ethertype), Some(value)) =
            (frame.get_mut(12..14), [[8, 0], [0x86, 0xdd]].get(looks_like_ip))
        {
            ethertype.copy_from_slice(value);
        }
        let offload = Offload {
            flags: NEEDS_CHECKSUM,
            segmentation: kind % 6,
            header_bytes: 0,
            segment_bytes: numbers[0].into(),
            checksum_start: numbers[1].into(),
            checksum_offset: numbers[2].into(),
        };
        leave_undone(&mut Packet::from_bytes(&frame), &offload);
        let (front, rest) = frame.split_at(frame.len() / 2);
        if let Ok(parsed) = SuperFrame::parse(front, rest, offload) {
            for index in 0..parsed.segments() {
                parsed.emit_segment(index, &mut Packet::default());
            }
        }
        let _ = complete_checksum(&mut frame, &offload);
        let found = find_partial_checksum(&frame);
        prop_assert!(complete_checksum(&mut frame, &found).is_ok());
    }
}

#[test]
fn segments_that_are_too_small_or_too_many_are_refused() {
    let shape = |is_tcp, payload| Shape {
        tags: 0,
        is_ipv6: false,
        is_tcp,
        extra: 0,
        tcp_options: 0,
        payload,
    };
    let segments = |shape: Shape, segment_bytes: u16| {
        let frame = shape.build();
        let parsed = SuperFrame::parse(&frame, &[], shape.offload(segment_bytes));
        parsed.map(|parsed| parsed.segments()).ok()
    };
    for is_tcp in [true, false] {
        assert_eq!(segments(shape(is_tcp, 64), 7), None);
        assert_eq!(segments(shape(is_tcp, 64), 8), Some(8));
    }
    assert_eq!(segments(shape(true, 129 * 8), 8), Some(129));
    assert_eq!(segments(shape(false, 128 * 8), 8), Some(128));
    assert_eq!(segments(shape(false, 128 * 8 + 1), 8), None);
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones() {
    let shape = Shape {
        tags: 0,
        is_ipv6: false,
        is_tcp: false,
        extra: 0,
        tcp_options: 0,
        payload: 2,
    };
    let mut frame = shape.build();
    // Makes the sum all ones, so that the checksum would be zero.
    let end = frame.len() - 2;
    put(&mut frame, end, 0);
    let rest = !plain_sum(&frame[shape.transport()..]);
    put(&mut frame, end, rest);
    complete_checksum(&mut frame, &shape.offload(0)).unwrap();
    assert_eq!(get(&frame, shape.transport() + 6), 0xffff);
    assert!(shape.is_right(&frame));
}

#[test]
fn an_sctp_checksum_is_another_one() {
    let mut frame: Vec<u8> = (0..60).collect();
    let offload = Offload {
        flags: NEEDS_CHECKSUM,
        checksum_start: 34,
        checksum_offset: 8,
        ..Offload::default()
    };
    complete_checksum(&mut frame, &offload).unwrap();
    let expected = sctp_checksum(&frame[34..]).to_le_bytes();
    assert_eq!(frame[42..46], expected);
    assert_eq!(
        complete_checksum(&mut frame[..45], &offload),
        Err(BadOffload)
    );
}

#[test]
fn a_tag_goes_back_behind_the_addresses() {
    let mut packet = Packet::from_bytes(b"ddddddssssss\x08\x00payload");
    let tag = VlanTag {
        protocol: 0x8100,
        control: 0xa064,
    };
    insert_vlan_tag(&mut packet, tag);
    assert_eq!(
        packet.bytes(),
        b"ddddddssssss\x81\x00\xa0\x64\x08\x00payload"
    );
}
