//! Ports on real interfaces, in network namespaces that each test makes for itself.
//!
//! These tests need root and iproute2; without them they fail and say so. Traffic stays inside
//! the namespaces, which are removed at the end of a test, also if it panics.

mod namespace;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use namespace::{Cable, Namespace, eventually};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thalweg_io::{
    AfPacketPort, BURST, DropReason, Port, PortConfig, PortCounters, PortStatus, TapPort,
};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A local experimental EtherType (IEEE 802, 9.2.3): nobody else here sends it.
const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];

fn pool() -> PacketPool {
    PacketPool::with_capacity(256, 2048)
}

fn frame(len_bytes: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len_bytes).map(|n| (n * 7 + len_bytes) as u8).collect();
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8]);
    frame[12..14].copy_from_slice(&EXPERIMENTAL);
    frame
}

/// Waits until one of the descriptors is readable or the time has passed.
fn wait(descriptors: &[BorrowedFd<'_>]) {
    let mut list: Vec<_> = descriptors
        .iter()
        .map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN))
        .collect();
    let timeout = Timespec::try_from(Duration::from_millis(50)).unwrap();
    poll(&mut list, Some(&timeout)).unwrap();
}

/// Receives until `count` frames have come.
fn receive(port: &mut dyn Port, pool: &mut PacketPool, count: usize) -> Vec<Vec<u8>> {
    let (mut burst, mut frames) = (Vec::new(), Vec::new());
    eventually("the frames arrive", || {
        wait(&[port.descriptor().unwrap()]);
        port.receive(pool, &mut burst, Instant::from_nanos(3));
        assert!(burst.len() <= BURST);
        frames.extend(burst.iter().map(|packet| packet.bytes().to_vec()));
        pool.put_burst(&mut burst);
        frames.len() >= count
    });
    frames
}

fn send(port: &mut dyn Port, pool: &mut PacketPool, frames: &[Vec<u8>]) {
    let mut burst = Vec::new();
    for frame in frames {
        let mut packet = pool.take().expect("the pool is large enough");
        packet.fill(frame);
        burst.push(packet);
    }
    port.send(pool, &mut burst);
    assert!(burst.is_empty());
}

fn drops(counters: &PortCounters) -> Vec<(DropReason, u64)> {
    counters.drops.iter().collect()
}

fn af_packet(namespace: &Namespace, interface: &str) -> AfPacketPort {
    namespace.enter(|| AfPacketPort::open(PortId(7), interface).unwrap())
}

#[test]
fn frames_of_every_size_cross_a_cable_whole_and_counted() {
    let cable = Cable::new("sizes");
    let mut left = af_packet(&cable.left, "va");
    let mut right = af_packet(&cable.right, "vb");
    let mut pool = pool();
    let frames: Vec<_> = (14..=1514).map(frame).collect();
    for frames in frames.chunks(50) {
        send(&mut left, &mut pool, frames);
        assert_eq!(receive(&mut right, &mut pool, frames.len()), frames);
    }
    let too_short = vec![0; 13];
    send(&mut left, &mut pool, &[frame(1515), too_short, frame(60)]);
    assert_eq!(receive(&mut right, &mut pool, 1), [frame(60)]);

    let bytes: usize = (14..=1514).sum::<usize>() + 60;
    let (sent, received) = (left.counters(), right.counters());
    assert_eq!((sent.sent_packets, sent.sent_bytes), (1502, bytes as u64));
    assert_eq!(received.received_packets, 1502);
    assert_eq!(received.received_bytes, bytes as u64);
    assert_eq!(
        drops(&sent),
        [(DropReason::TooShort, 1), (DropReason::TooLong, 1)]
    );
    assert_eq!(drops(&received), []);
    assert_eq!(
        sent.received_packets, 0,
        "what a port sends it does not receive"
    );
}

#[test]
fn packets_say_where_and_when_they_arrived() {
    let cable = Cable::new("origin");
    let mut left = af_packet(&cable.left, "va");
    let mut right = af_packet(&cable.right, "vb");
    let (mut pool, mut burst) = (pool(), Vec::new());
    send(&mut left, &mut pool, &[frame(60)]);
    eventually("the frame arrives", || {
        right.receive(&mut pool, &mut burst, Instant::from_nanos(3));
        !burst.is_empty()
    });
    assert_eq!(burst[0].in_port(), PortId(7));
    assert_eq!(burst[0].received_at(), Instant::from_nanos(3));
}

#[test]
fn vlan_tags_that_the_kernel_takes_out_are_put_back() {
    let cable = Cable::new("vlan");
    let mut left = af_packet(&cable.left, "va");
    let mut right = af_packet(&cable.right, "vb");
    let mut pool = pool();
    let tags: [&[u8]; 5] = [
        &[0x81, 0x00, 0xa0, 0x64],                         // priority 5, VLAN 100
        &[0x81, 0x00, 0x00, 0x00],                         // the null VLAN
        &[0x81, 0x00, 0xff, 0xff],                         // all bits
        &[0x88, 0xa8, 0x10, 0x02],                         // a service tag
        &[0x88, 0xa8, 0x10, 0x02, 0x81, 0x00, 0x00, 0x07], // and a customer tag behind it
    ];
    let mut frames = Vec::new();
    for tag in tags {
        for length in [16, 60, 1000] {
            let mut tagged = frame(length);
            tagged.splice(12..12, tag.iter().copied());
            frames.push(tagged);
        }
    }
    // The longest frame of all: the kernel allows one customer tag beyond the MTU.
    let mut longest = frame(1514);
    longest.splice(12..12, [0x81, 0x00, 0x00, 0x64]);
    frames.push(longest);
    send(&mut left, &mut pool, &frames);
    assert_eq!(receive(&mut right, &mut pool, frames.len()), frames);
}

#[test]
fn frames_longer_than_the_buffers_arrive_whole() {
    let cable = Cable::new("jumbo");
    cable.left.ip(&["link", "set", "va", "mtu", "65535"]);
    cable.right.ip(&["link", "set", "vb", "mtu", "65535"]);
    let mut left = af_packet(&cable.left, "va");
    let mut right = af_packet(&cable.right, "vb");
    let mut pool = PacketPool::with_capacity(64, 256);
    let frames: Vec<_> = [256, 257, 9014, 60_000, 65_549].map(frame).into();
    send(&mut left, &mut pool, &frames);
    assert_eq!(receive(&mut right, &mut pool, frames.len()), frames);
    assert_eq!(drops(&right.counters()), []);
}

#[test]
fn what_the_kernel_drops_is_counted() {
    let cable = Cable::new("flood");
    let mut left = af_packet(&cable.left, "va");
    let mut right = af_packet(&cable.right, "vb");
    let mut pool = pool();
    let burst: Vec<_> = vec![frame(60); 200];
    for _ in 0..300 {
        send(&mut left, &mut pool, &burst);
    }
    assert_eq!(left.counters().sent_packets, 60_000);
    let mut burst = Vec::new();
    eventually("all frames are accounted for", || {
        right.receive(&mut pool, &mut burst, Instant::ZERO);
        pool.put_burst(&mut burst);
        let counters = right.counters();
        counters.received_packets + counters.drops.count(DropReason::KernelDropped) == 60_000
    });
    let dropped = right.counters().drops.count(DropReason::KernelDropped);
    assert!(dropped > 0, "the queue is shorter than the flood");
    assert_eq!(right.counters().drops.total(), dropped);
}

#[test]
fn an_empty_pool_delays_frames_and_loses_none() {
    let cable = Cable::new("pool");
    let mut left = af_packet(&cable.left, "va");
    let mut right = af_packet(&cable.right, "vb");
    let frames: Vec<_> = (60..160).map(frame).collect();
    send(&mut left, &mut pool(), &frames);
    let mut small = PacketPool::with_capacity(3, 2048);
    assert_eq!(receive(&mut right, &mut small, frames.len()), frames);
    assert!(right.counters().pool_refusals >= 33);
}

#[test]
fn the_link_is_followed_down_up_and_away() {
    let cable = Cable::new("link");
    let mut left = af_packet(&cable.left, "va");
    let mut right = af_packet(&cable.right, "vb");
    let mut pool = pool();
    eventually("the link is up", || right.status() == PortStatus::Up);

    cable.left.ip(&["link", "set", "va", "down"]);
    eventually("its peer sees it", || right.status() == PortStatus::Down);
    assert_eq!(left.status(), PortStatus::Down);
    send(&mut left, &mut pool, &[frame(60), frame(61)]);
    assert_eq!(drops(&left.counters()), [(DropReason::LinkDown, 2)]);

    cable.left.ip(&["link", "set", "va", "up"]);
    for port in [&mut left, &mut right] {
        eventually("it is up again", || port.status() == PortStatus::Up);
    }
    send(&mut left, &mut pool, &[frame(62)]);
    assert_eq!(receive(&mut right, &mut pool, 1), [frame(62)]);
    send(&mut right, &mut pool, &[frame(63)]);
    assert_eq!(receive(&mut left, &mut pool, 1), [frame(63)]);

    cable.left.ip(&["link", "set", "va", "down"]);
    cable.left.ip(&["link", "set", "va", "name", "vz"]);
    cable.left.ip(&["link", "set", "vz", "up"]);
    eventually("a new name is the same link", || {
        left.status() == PortStatus::Up
    });

    cable.left.ip(&["link", "del", "vz"]);
    for port in [&mut left, &mut right] {
        eventually("it is gone", || port.status() == PortStatus::Gone);
        let before = port.counters().drops.count(DropReason::LinkDown);
        send(port, &mut pool, &[frame(60)]);
        port.receive(&mut pool, &mut Vec::new(), Instant::ZERO);
        let after = port.counters();
        assert_eq!(after.drops.count(DropReason::LinkDown), before + 1);
        assert_eq!(after.drops.total(), before + 1);
    }
}

/// The sum of 16-bit words, folded: RFC 1071, once more and plainly.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
            sum += u32::from(word);
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    sum as u16
}

/// Whether the transport checksum of an untagged TCP or UDP frame is right and present.
fn is_checksum_right(frame: &[u8]) -> bool {
    let (addresses, protocol, transport) = match frame[12..14] {
        [0x08, 0x00] => {
            let header = usize::from(frame[14] & 15) * 4;
            let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            assert_eq!(
                sum(&[&frame[14..14 + header]]),
                0xffff,
                "the IPv4 header's own"
            );
            (&frame[26..34], frame[23], &frame[14 + header..end])
        }
        [0x86, 0xdd] => (&frame[22..54], frame[20], &frame[54..]),
        _ => return false,
    };
    let length = (transport.len() as u32).to_be_bytes();
    let field = if protocol == 17 { 6 } else { 16 };
    transport[field..field + 2] != [0, 0]
        && sum(&[addresses, &[0, protocol], &length, transport]) == 0xffff
}

#[test]
fn partial_checksums_from_the_kernels_stack_are_completed() {
    let cable = Cable::with_ipv6("csum");
    let left = &cable.left;
    left.ip(&["addr", "add", "10.1.0.1/24", "dev", "va"]);
    left.ip(&["addr", "add", "fd00::1/64", "dev", "va", "nodad"]);
    for address in ["10.1.0.2", "fd00::2"] {
        left.ip(&[
            "neigh",
            "add",
            address,
            "lladdr",
            "02:00:00:00:00:02",
            "dev",
            "va",
        ]);
    }
    let mut port = af_packet(&cable.right, "vb");
    eventually("the link is up", || port.status() == PortStatus::Up);
    let mut pool = pool();
    for (source, target) in [
        ("10.1.0.1:5000", "10.1.0.2:4242"),
        ("[fd00::1]:5000", "[fd00::2]:4242"),
    ] {
        let socket = left.enter(|| UdpSocket::bind(source).unwrap());
        let payloads: Vec<Vec<u8>> = [1, 2, 31, 1000, 1400].map(|n| vec![0x5a; n]).into();
        for payload in &payloads {
            socket.send_to(payload, target).unwrap();
        }
        let udp = |frame: &&Vec<u8>| frame.ends_with(&[0x5a]) && frame.len() > 40;
        let mut frames = Vec::new();
        eventually("all datagrams arrive", || {
            frames.extend(receive(&mut port, &mut pool, 1).iter().filter(udp).cloned());
            frames.len() == payloads.len()
        });
        for (frame, payload) in frames.iter().zip(&payloads) {
            assert!(frame.ends_with(payload));
            assert!(is_checksum_right(frame), "UDP to {target}: {frame:02x?}");
        }
        let stream = left.enter(|| {
            std::thread::spawn({
                let target = target.parse().unwrap();
                move || TcpStream::connect_timeout(&target, Duration::from_millis(200))
            })
        });
        let is_syn = |frame: &Vec<u8>| match frame[12..14] {
            [0x08, 0x00] => frame[23] == 6,
            [0x86, 0xdd] => frame[20] == 6,
            _ => false,
        };
        eventually("the first segment arrives", || {
            let frames = receive(&mut port, &mut pool, 1);
            let syn = frames.iter().find(|frame| is_syn(frame));
            syn.inspect(|frame| assert!(is_checksum_right(frame), "{frame:02x?}"))
                .is_some()
        });
        assert!(stream.join().unwrap().is_err(), "nobody answers");
    }
}

/// Forwards between two ports until told to stop; gives the longest frame seen.
fn forward(left: &mut dyn Port, right: &mut dyn Port, stop: &AtomicBool) -> usize {
    let mut pool = PacketPool::with_capacity(512, 2048);
    let (mut burst, mut longest) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        left.receive(&mut pool, &mut burst, Instant::ZERO);
        let mut is_idle = burst.is_empty();
        longest = burst.iter().map(Packet::len).fold(longest, usize::max);
        right.send(&mut pool, &mut burst);
        right.receive(&mut pool, &mut burst, Instant::ZERO);
        is_idle &= burst.is_empty();
        longest = burst.iter().map(Packet::len).fold(longest, usize::max);
        left.send(&mut pool, &mut burst);
        if is_idle {
            wait(&[left.descriptor().unwrap(), right.descriptor().unwrap()]);
        }
    }
    longest
}

/// Two hosts, each with segmentation offload on, and two ports between them.
#[test]
fn tcp_with_super_frames_crosses_two_ports() {
    for (left_address, right_address) in [("10.1.0.1", "10.1.0.2"), ("fd00::1", "fd00::2")] {
        let (first, second) = (Cable::with_ipv6("tcp1"), Cable::with_ipv6("tcp2"));
        let prefix = if left_address.contains(':') {
            "/64"
        } else {
            "/24"
        };
        for (cable, address) in [(&first, left_address), (&second, right_address)] {
            let mut command = vec!["addr", "add"];
            let address = format!("{address}{prefix}");
            command.extend([&address, "dev", "va"]);
            if prefix == "/64" {
                command.push("nodad");
            }
            cable.left.ip(&command);
        }
        let (mut left, mut right) = (
            af_packet(&first.right, "vb"),
            af_packet(&second.right, "vb"),
        );
        let stop = AtomicBool::new(false);
        let data: Vec<u8> = (0..4_000_000_u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let target = std::net::SocketAddr::new(right_address.parse().unwrap(), 5001);
        let listener = second.left.enter(|| TcpListener::bind(target).unwrap());
        std::thread::scope(|scope| {
            let switch = scope.spawn(|| forward(&mut left, &mut right, &stop));
            let sender = scope.spawn(|| {
                first.left.enter(|| {
                    let mut stream = TcpStream::connect_timeout(&target, TIMEOUT).unwrap();
                    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
                    stream.write_all(&data).unwrap();
                })
            });
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            let mut received = Vec::new();
            let result = stream.read_to_end(&mut received);
            stop.store(true, Ordering::Relaxed);
            result.unwrap();
            sender.join().unwrap();
            assert!(
                received == data,
                "{} of {} bytes",
                received.len(),
                data.len()
            );
            assert!(switch.join().unwrap() <= 1514);
        });
        let (left, right) = (left.counters(), right.counters());
        assert_eq!((drops(&left), drops(&right)), (vec![], vec![]));
        assert_eq!(left.received_packets, right.sent_packets);
        assert_eq!(right.received_bytes, left.sent_bytes);
    }
}

#[test]
fn a_tap_carries_both_ways_and_is_gone_when_deleted() {
    let host = Namespace::new("tap");
    let mut tap = host.enter(|| TapPort::open(PortId(2), "tap0", Some(1400)).unwrap());
    host.ip(&["addr", "add", "10.2.0.1/24", "dev", "tap0"]);
    host.ip(&[
        "neigh",
        "add",
        "10.2.0.2",
        "lladdr",
        "02:00:00:00:00:02",
        "dev",
        "tap0",
    ]);
    assert!(host.ip(&["link", "show", "tap0"]).contains("mtu 1400"));
    eventually("it is up", || tap.status() == PortStatus::Up);
    // Shorter than the frames: they go on behind it.
    let mut pool = PacketPool::with_capacity(64, 256);
    let socket = host.enter(|| UdpSocket::bind("10.2.0.1:5000").unwrap());
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut bytes = 0;
    for length in [1, 214, 215, 1000, 1372] {
        let payload: Vec<u8> = (0..length).map(|n| n as u8).collect();
        socket.send_to(&payload, "10.2.0.2:6000").unwrap();
        let mut frame = receive(&mut tap, &mut pool, 1).remove(0);
        assert_eq!(frame.len(), 42 + length);
        assert!(frame.ends_with(&payload) && is_checksum_right(&frame));
        bytes += frame.len() as u64;
        // The same back: addresses and ports swapped, which no checksum notices.
        for (first, second, count) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
            let (before, after) = frame.split_at_mut(second);
            before[first..first + count].swap_with_slice(&mut after[..count]);
        }
        send(&mut tap, &mut pool, &[frame]);
        let mut answer = [0; 2000];
        let (count, from) = socket.recv_from(&mut answer).unwrap();
        assert_eq!((&answer[..count], from.port()), (&payload[..], 6000));
    }
    send(&mut tap, &mut pool, &[vec![0; 13]]);
    let counters = tap.counters();
    assert_eq!(
        (counters.received_packets, counters.received_bytes),
        (5, bytes)
    );
    assert_eq!((counters.sent_packets, counters.sent_bytes), (5, bytes));
    assert_eq!(drops(&counters), [(DropReason::TooShort, 1)]);

    host.ip(&["link", "set", "tap0", "down"]);
    assert_eq!(tap.status(), PortStatus::Down);
    send(&mut tap, &mut pool, &[frame(60)]);
    assert_eq!(tap.counters().drops.count(DropReason::LinkDown), 1);

    host.ip(&["link", "del", "tap0"]);
    assert_eq!(tap.status(), PortStatus::Gone);
    send(&mut tap, &mut pool, &[frame(60)]);
    tap.receive(&mut pool, &mut Vec::new(), Instant::ZERO);
    assert_eq!(tap.counters().drops.count(DropReason::LinkDown), 2);
    assert_eq!(tap.counters().drops.total(), 3);
}

#[test]
fn auto_opens_what_exists_and_makes_what_does_not() {
    let cable = Cable::new("auto");
    cable.left.enter(|| {
        let open = |name| thalweg_io::open(&PortConfig::new(PortId(1), name));
        let mut existing = open("va").unwrap();
        eventually("it is up", || existing.status() == PortStatus::Up);
        assert!(!is_tap(&cable.left, "va"));
        let mut made = open("newtap").unwrap();
        eventually("it is up", || made.status() == PortStatus::Up);
        assert!(is_tap(&cable.left, "newtap"));
        let text = TapPort::open(PortId(1), "va", None)
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("opening a tap on interface `va` failed"),
            "{text}"
        );
        let text = TapPort::open(PortId(1), "newtap", None)
            .unwrap_err()
            .to_string();
        assert!(text.contains("another program holds it"), "{text}");
    });
}

fn is_tap(namespace: &Namespace, interface: &str) -> bool {
    namespace
        .ip(&["-details", "link", "show", interface])
        .contains("tun type tap")
}
