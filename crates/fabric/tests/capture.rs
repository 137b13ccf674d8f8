//! Captures of links: other programs must read in them what the simulation did.

use pcap_file::pcap::PcapReader;
use thalweg_fabric::*;
use thalweg_packet::wire::{Ipv4View, TcpFlags, TcpOption, TcpView, UdpView};

const FRAMING_BYTES: usize = 2;

fn config() -> Config {
    let shape = FatTree::leaf_spine(2, 2, 2, 1);
    Config::artifact(shape, Placement::even(8, 4), Scheme::NoCache)
}

fn line(bytes: u64) -> TraceLine {
    TraceLine {
        source: 0,
        destination: 7,
        start: Time::from_micros(1),
        flow: 3,
        bytes,
    }
}

/// Runs while watching both directions of a server's link; returns the captured packets.
fn captured(config: &Config, trace: &[TraceLine]) -> (Simulation, Vec<Captured>, [PortId; 2]) {
    let mut run = Simulation::new(config, trace).unwrap();
    let server = run.topology().servers()[0];
    let up = run.topology().ports(server).next().unwrap();
    let tor = run.topology().peer(up);
    let mut ports = run.topology().ports(tor);
    let down = ports
        .find(|&port| run.topology().peer(port) == server)
        .unwrap();
    run.watch(up);
    run.watch(down);
    let mut records = Vec::new();
    while run.step() {
        while let Some(record) = run.poll_captured() {
            records.push(record);
        }
    }
    assert_eq!(run.captures_missed(), 0);
    (run, records, [up, down])
}

/// The bytes after PPP, IPv4 and UDP to port 667.
fn inner(frame: &[u8]) -> &[u8] {
    assert_eq!(frame[..FRAMING_BYTES], [0x00, 0x21]);
    // A truncated frame still states its whole length, so only headers are checked.
    let outer = Ipv4View::new_header_checked(&frame[FRAMING_BYTES..]).unwrap();
    assert!(outer.has_valid_checksum());
    let udp = UdpView::new_header_checked(&frame[FRAMING_BYTES + 20..]).unwrap();
    assert_eq!((udp.source_port(), udp.destination_port()), (667, 667));
    &frame[FRAMING_BYTES + 28..]
}

#[test]
fn a_connection_reads_as_one() {
    let config = Config {
        transport: Transport::Tcp(TcpConfig::artifact()),
        ..config()
    };
    let bytes = 20_000;
    let (run, records, ports) = captured(&config, &[line(bytes)]);
    for port in ports {
        let of_port = || records.iter().filter(|record| record.port == port);
        let counters = run.port_counters(port);
        assert_eq!(of_port().count() as u64, counters.sent);
        let total: u64 = of_port().map(|record| u64::from(record.wire_bytes)).sum();
        assert_eq!(total, counters.sent_bytes);
        assert!(
            of_port()
                .zip(of_port().skip(1))
                .all(|(one, next)| one.at <= next.at)
        );
    }
    let mut next = 0;
    let mut flags = Vec::new();
    for record in records.iter().filter(|record| record.port == ports[0]) {
        let inner = inner(&record.frame);
        let ip = Ipv4View::new_header_checked(inner).unwrap();
        let tcp = TcpView::new_checked(&inner[20..]).unwrap();
        assert_eq!(tcp.sequence(), next);
        let payload = ip.total_len() - 20 - tcp.header_len();
        if record.frame.len() as u32 == record.wire_bytes {
            let pseudo = ip.pseudo_header((ip.total_len() - 20) as u16);
            assert!(tcp.has_valid_checksum(pseudo));
        }
        let options: Vec<_> = tcp.options().map(Result::unwrap).collect();
        assert!(matches!(options[0], TcpOption::Timestamps { .. }));
        let counts = [TcpFlags::SYN, TcpFlags::FIN].map(|flag| tcp.flags().0 & flag.0 != 0);
        let counted: u32 = counts.into_iter().map(u32::from).sum();
        next += payload as u32 + counted;
        flags.push(tcp.flags());
    }
    assert_eq!(next, bytes as u32 + 2);
    assert_eq!(flags[0], TcpFlags::SYN);
    assert_eq!(flags[1], TcpFlags::ACK);
    let mut acknowledged = Vec::new();
    for record in records.iter().filter(|record| record.port == ports[1]) {
        let tcp = TcpView::new_checked(&inner(&record.frame)[20..]).unwrap();
        acknowledged.push(tcp.acknowledgment());
    }
    assert!(acknowledged.is_sorted());
    assert_eq!(acknowledged[0], 1);
    assert_eq!(*acknowledged.last().unwrap(), bytes as u32 + 2);
}

#[test]
fn a_capture_is_read_back_by_the_library() {
    let (_, records, ports) = captured(&config(), &[line(64)]);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].port, ports[0]);
    // 122 bytes as the published code counts them, including PPP's two.
    assert_eq!((records[0].wire_bytes, records[0].frame.len()), (122, 122));
    assert_eq!(records[0].at, Time::from_micros(1));
    let udp = UdpView::new_checked(&inner(&records[0].frame)[20..]).unwrap();
    assert_eq!(udp.payload(), [0; 64]);
    let mut writer = CaptureWriter::new(Vec::new()).unwrap();
    writer.write(&records[0]).unwrap();
    assert_eq!(writer.packets(), 1);
    let bytes = writer.finish().unwrap();
    let mut reader = PcapReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.header().datalink, pcap_file::DataLink::PPP);
    let packet = reader.next_packet().unwrap().unwrap();
    assert_eq!(packet.timestamp(), std::time::Duration::from_micros(1));
    assert_eq!(
        (packet.data(), packet.orig_len()),
        (&records[0].frame[..], 122)
    );
    assert!(reader.next_packet().is_none());
}

#[test]
fn what_is_watched_changes_nothing_and_is_bounded() {
    let trace: Vec<TraceLine> = (0..70_000_u32)
        .map(|number| TraceLine {
            start: Time::from_nanos(u64::from(number) * 20),
            ..line(64)
        })
        .collect();
    let mut plain = Simulation::new(&config(), &trace).unwrap();
    let mut watched = plain.clone();
    let server = watched.topology().servers()[0];
    watched.watch(watched.topology().ports(server).next().unwrap());
    plain.run();
    watched.run();
    assert_eq!(plain.report(), watched.report());
    assert_eq!(watched.captures_missed(), 70_000 - 65_536);
    let mut kept = 0;
    while watched.poll_captured().is_some() {
        kept += 1;
    }
    assert_eq!(kept, 65_536);
}
