//! Tests with hand-made captures in every format and byte order: whole, truncated and damaged.

use proptest::prelude::*;
use thalweg_packet::{Instant, Packet, PacketPool, PortId};

use super::*;
use crate::{DropReason, Error, Port, PortStatus};

/// Builds captures, independently of the library under test.
#[derive(Clone, Copy, Debug)]
struct Builder {
    big_endian: bool,
    nanos: bool,
}

impl Builder {
    fn all() -> impl Iterator<Item = Builder> {
        (0..4).map(|bits| Builder {
            big_endian: bits & 1 != 0,
            nanos: bits & 2 != 0,
        })
    }

    fn u16(self, value: u16) -> [u8; 2] {
        match self.big_endian {
            true => value.to_be_bytes(),
            false => value.to_le_bytes(),
        }
    }

    fn u32(self, value: u32) -> [u8; 4] {
        match self.big_endian {
            true => value.to_be_bytes(),
            false => value.to_le_bytes(),
        }
    }

    fn pcap(self, link_type: u32, packets: &[Vec<u8>]) -> Vec<u8> {
        let magic = if self.nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let mut file = Vec::new();
        file.extend(self.u32(magic));
        file.extend(self.u16(2));
        file.extend(self.u16(4));
        for word in [0, 0, 65_535, link_type] {
            file.extend(self.u32(word));
        }
        for (index, packet) in packets.iter().enumerate() {
            let length = packet.len() as u32;
            for word in [1000 + index as u32, 5, length, length + 1] {
                file.extend(self.u32(word));
            }
            file.extend(packet);
        }
        file
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padding = body.len().next_multiple_of(4) - body.len();
        let length = (12 + body.len() + padding) as u32;
        let mut block = Vec::new();
        block.extend(self.u32(kind));
        block.extend(self.u32(length));
        block.extend(body);
        block.extend(vec![0; padding]);
        block.extend(self.u32(length));
        block
    }

    fn pcapng(self, link_type: u16, packets: &[Vec<u8>]) -> Vec<u8> {
        let mut section = Vec::new();
        section.extend(self.u32(0x1a2b_3c4d));
        section.extend(self.u16(1));
        section.extend(self.u16(0));
        section.extend([0xff; 8]);
        let mut interface = Vec::new();
        interface.extend(self.u16(link_type));
        interface.extend(self.u16(0));
        interface.extend(self.u32(0));
        if self.nanos {
            interface.extend(self.u16(9)); // if_tsresol
            interface.extend(self.u16(1));
            interface.extend([9, 0, 0, 0]);
            interface.extend([0; 4]);
        }
        let mut file = self.block(0x0a0d_0d0a, &section);
        file.extend(self.block(1, &interface));
        file.extend(self.block(0x5555, b"of no known kind"));
        for (index, packet) in packets.iter().enumerate() {
            let unit = if self.nanos { 1_000_000_000 } else { 1_000_000 };
            let time = (1000 + index as u64) * unit + 5;
            let length = packet.len() as u32;
            let mut body = Vec::new();
            for word in [0, (time >> 32) as u32, time as u32, length, length + 1] {
                body.extend(self.u32(word));
            }
            body.extend(packet);
            file.extend(self.block(6, &body));
        }
        file
    }

    fn time(self, index: usize) -> u64 {
        let fraction = if self.nanos { 5 } else { 5000 };
        (1000 + index as u64) * 1_000_000_000 + fraction
    }
}

fn sample_packets() -> Vec<Vec<u8>> {
    (0..7_usize)
        .map(|n| (0..n * 37).map(|b| (b + n) as u8).collect())
        .collect()
}

fn read_all(bytes: &[u8]) -> (Vec<Packet>, Option<Error>) {
    let mut packets = Vec::new();
    let reader = match CaptureReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (packets, Some(error)),
    };
    for packet in reader {
        match packet {
            Ok(packet) => packets.push(packet),
            Err(error) => return (packets, Some(error)),
        }
    }
    (packets, None)
}

#[test]
fn every_format_and_byte_order_is_read() {
    let expected = sample_packets();
    for builder in Builder::all() {
        for file in [builder.pcap(1, &expected), builder.pcapng(1, &expected)] {
            let (packets, error) = read_all(&file);
            assert!(error.is_none(), "{builder:?}: {error:?}");
            assert_eq!(packets.len(), expected.len());
            for (index, (packet, bytes)) in packets.iter().zip(&expected).enumerate() {
                assert_eq!(packet.bytes(), bytes, "{builder:?} packet {index}");
                let nanos = packet.received_at().as_nanos();
                assert_eq!(nanos, builder.time(index), "{builder:?} packet {index}");
            }
            let mut reader = CaptureReader::new(&file[..]).unwrap();
            while reader.read_into(&mut Packet::default()).unwrap() {}
            assert_eq!((reader.packets(), reader.shortened_packets()), (7, 7));
        }
    }
}

#[test]
fn what_is_written_is_read_back() {
    let mut writer = CaptureWriter::new(Vec::new()).unwrap();
    for (index, bytes) in sample_packets().iter().enumerate() {
        let at = Instant::from_nanos(1_700_000_000_123_456_789 + index as u64);
        writer.write(bytes, at).unwrap();
    }
    assert_eq!(writer.packets(), 7);
    let file = writer.into_inner().unwrap();
    let (packets, error) = read_all(&file);
    assert!(error.is_none());
    for (index, (packet, bytes)) in packets.iter().zip(sample_packets()).enumerate() {
        assert_eq!(packet.bytes(), bytes);
        let nanos = 1_700_000_000_123_456_789 + index as u64;
        assert_eq!(packet.received_at().as_nanos(), nanos);
    }
}

/// Cuts each format at each byte: the whole packets come out, then the end or one clear error.
#[test]
fn a_cut_capture_gives_its_whole_packets_and_says_where_it_ends() {
    let expected = sample_packets();
    for builder in Builder::all() {
        for (file, overhead) in [
            (builder.pcap(1, &expected), 16),
            (builder.pcapng(1, &expected), 32),
        ] {
            for length in 0..file.len() {
                let (packets, error) = read_all(&file[..length]);
                let whole: Vec<_> = packets.iter().map(|p| p.bytes().to_vec()).collect();
                assert_eq!(whole, expected[..whole.len()]);
                match error {
                    None => {}
                    Some(Error::NotACapture { what, .. }) => {
                        assert!(length < 60 && what.contains("ends within"), "{what}");
                    }
                    Some(Error::CaptureCut { packet, offset, .. }) => {
                        assert_eq!(packet, whole.len() as u64 + 1);
                        let missing = expected.get(whole.len()).map_or(0, Vec::len);
                        let end = offset as usize + overhead + missing.next_multiple_of(4);
                        assert!((offset as usize) < length && length < end.max(length + 1));
                    }
                    Some(error) => panic!("{builder:?} cut at {length}: {error}"),
                }
            }
        }
    }
}

#[test]
fn other_link_types_are_refused_by_number_and_name() {
    for builder in Builder::all() {
        for file in [
            builder.pcap(113, &sample_packets()),
            builder.pcapng(113, &sample_packets()),
        ] {
            let (packets, error) = read_all(&file);
            assert!(packets.is_empty());
            let text = error.expect("113 is not Ethernet").to_string();
            assert!(text.contains("link type 113 (LINUX_SLL)"), "{text}");
        }
    }
}

#[test]
fn an_absurd_length_is_damage_or_a_cut_and_takes_little_memory() {
    let builder = Builder {
        big_endian: false,
        nanos: true,
    };
    let mut file = builder.pcap(1, &sample_packets()[..2]);
    for word in [0, 0, u32::MAX, u32::MAX] {
        file.extend(builder.u32(word));
    }
    let (packets, error) = read_all(&file);
    assert_eq!(packets.len(), 2);
    assert!(
        matches!(error, Some(Error::CaptureCut { packet: 3, .. })),
        "{error:?}"
    );
    file.resize(64 << 20, 0);
    let (packets, error) = read_all(&file);
    assert_eq!(packets.len(), 2);
    let text = error.expect("the record is too long").to_string();
    assert!(text.contains("damaged at packet 3 (byte 93)"), "{text}");
}

#[test]
fn something_else_is_called_so() {
    for bytes in [
        &b""[..],
        b"\x1f\x8b",
        b"#!/bin/sh\necho this is no capture\n",
    ] {
        let (_, error) = read_all(bytes);
        let text = error.expect("not a capture").to_string();
        assert!(text.starts_with("the capture is not a capture: "), "{text}");
    }
}

/// A directory for this test, removed at the end.
struct Directory(std::path::PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let unique = format!("thalweg-io-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_capture_port_copies_a_capture_and_counts_the_cut() {
    let directory = Directory::new("port");
    let (input, output) = (directory.0.join("in.pcap"), directory.0.join("out.pcap"));
    let builder = Builder {
        big_endian: true,
        nanos: true,
    };
    let packets: Vec<_> = (0..50).map(|n| vec![n as u8; 60 + n]).collect();
    let mut file = builder.pcap(1, &packets);
    file.truncate(file.len() - 1);
    std::fs::write(&input, &file).unwrap();

    let mut port = CapturePort::open(PortId(4), Some(&input), Some(&output)).unwrap();
    let (mut pool, mut burst) = (PacketPool::with_capacity(40, 2048), Vec::new());
    let mut bursts = Vec::new();
    while port.status() != PortStatus::Finished {
        port.receive(&mut pool, &mut burst, Instant::ZERO);
        assert!(burst.iter().all(|packet| packet.in_port() == PortId(4)));
        bursts.push(burst.len());
        port.send(&mut pool, &mut burst);
    }
    assert_eq!(bursts, [32, 17]);
    assert_eq!(pool.available(), 40);
    let counters = port.counters();
    assert_eq!((counters.received_packets, counters.sent_packets), (49, 49));
    assert_eq!(
        counters.drops.iter().collect::<Vec<_>>(),
        [(DropReason::Truncated, 1)]
    );
    let text = port.error().expect("the capture is cut").to_string();
    assert!(
        text.contains("in.pcap ends in the middle of packet 50"),
        "{text}"
    );

    let copied: Result<Vec<_>, _> = CaptureReader::open(&output).unwrap().collect();
    for (index, packet) in copied.unwrap().iter().enumerate() {
        assert_eq!(packet.bytes(), packets[index]);
        assert_eq!(packet.received_at().as_nanos(), builder.time(index));
    }
}

#[test]
fn a_missing_file_is_named() {
    let path = std::path::Path::new("/nonexistent/x.pcap");
    for result in [
        CapturePort::open(PortId(1), Some(path), None),
        CapturePort::open(PortId(1), None, Some(path)),
    ] {
        assert!(
            result
                .unwrap_err()
                .to_string()
                .contains("/nonexistent/x.pcap")
        );
    }
}

/// Reads to the end and checks that the reader stays there.
fn read_arbitrary(bytes: &[u8]) {
    if let Ok(mut reader) = CaptureReader::new(bytes) {
        let mut packet = Packet::default();
        for _ in 0..=bytes.len() {
            if !matches!(reader.read_into(&mut packet), Ok(true)) {
                assert!(matches!(reader.read_into(&mut packet), Ok(false)));
                return;
            }
        }
        panic!("more packets than bytes");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_arbitrary(&bytes);
    }

    #[test]
    fn damaged_captures_never_panic(
        kind in 0..8_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let builder = Builder { big_endian: kind & 1 != 0, nanos: kind & 2 != 0 };
        let mut file = match kind & 4 {
            0 => builder.pcap(1, &sample_packets()),
            _ => builder.pcapng(1, &sample_packets()),
        };
        for (index, byte) in changes {
            let index = index.index(file.len());
            file[index] = byte;
        }
        read_arbitrary(&file);
    }
}

#[test]
fn a_packet_that_was_shortened_keeps_its_length_through_a_port() {
    let directory = Directory::new("front");
    let (input, output) = (directory.0.join("in.pcap"), directory.0.join("out.pcap"));
    let mut front = Packet::from_bytes(&[7; 60]);
    front.set_cut_bytes(1_440);
    let mut writer = CaptureWriter::create(&input).unwrap();
    writer.write_packet(&front, Instant::ZERO).unwrap();
    writer.write(&[8; 64], Instant::ZERO).unwrap();
    writer.into_inner().unwrap();

    let mut port = CapturePort::open(PortId(4), Some(&input), Some(&output)).unwrap();
    let (mut pool, mut burst) = (PacketPool::with_capacity(40, 2048), Vec::new());
    port.receive(&mut pool, &mut burst, Instant::ZERO);
    port.send(&mut pool, &mut burst);
    let counters = port.counters();
    assert_eq!(
        (counters.received_bytes, counters.sent_bytes),
        (1_564, 1_564)
    );
    let mut reader = CaptureReader::open(&output).unwrap();
    let mut packet = pool.take().unwrap();
    let mut lengths = Vec::new();
    while reader.read_into(&mut packet).unwrap() {
        lengths.push((packet.len(), packet.original_len()));
    }
    assert_eq!(lengths, [(60, 1_500), (64, 64)]);
    assert_eq!(reader.shortened_packets(), 1);
}

#[test]
fn two_writers_append_to_one_capture_in_microseconds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p1.pcap");
    let append = || CaptureWriter::append(&path).unwrap();
    let mut writers = [append(), append()];
    for number in 0..3_usize {
        let writer = &mut writers[number % 2];
        writer
            .write(&[number as u8; 60], Instant::from_nanos(1_234_567))
            .unwrap();
        writer.flush().unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[..4], 0xa1b2_c3d4_u32.to_ne_bytes());
    let packets: Result<Vec<_>, _> = CaptureReader::new(&bytes[..]).unwrap().collect();
    let packets: Vec<Packet> = packets.unwrap();
    let firsts: Vec<u8> = packets.iter().map(|packet| packet.bytes()[0]).collect();
    assert_eq!(firsts, [0, 1, 2]);
    assert_eq!(packets[0].received_at(), Instant::from_nanos(1_234_000));
}
