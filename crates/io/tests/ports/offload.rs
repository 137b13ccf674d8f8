//! Frames of the kernel's own stack over a cable, with the work it leaves to a network card.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg_io::{
    AfXdpPort, DropReason, Port, PortStatus, ReceiveMethod, TapPort, XdpMode, XdpSettings,
    send_burst,
};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};

use super::{TIMEOUT, af_packet, drops, is_checksum_right, over_every_method, pool, receive, wait};
use crate::namespace::{Cable, Namespace, eventually};

over_every_method! {
    partial_checksums_from_the_kernels_stack_are_completed,
    tcp_with_super_frames_crosses_two_ports,
    super_frames_stay_whole_between_two_ports,
}

fn partial_checksums_from_the_kernels_stack_are_completed(method: ReceiveMethod) {
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
    let mut port = af_packet(&cable.right, "vb", method);
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

/// Forwards between two ports until told to stop and nothing comes; returns the longest frame seen.
fn forward(left: &mut dyn Port, right: &mut dyn Port, stop: &AtomicBool) -> usize {
    let mut pool = PacketPool::with_capacity(512, 2048);
    let (mut burst, mut longest) = (Vec::new(), 0);
    loop {
        let is_over = stop.load(Ordering::Relaxed);
        left.receive(&mut pool, &mut burst, Instant::ZERO);
        let mut is_idle = burst.is_empty();
        longest = burst.iter().map(Packet::len).fold(longest, usize::max);
        send_burst(right, &mut pool, &mut burst);
        right.receive(&mut pool, &mut burst, Instant::ZERO);
        is_idle &= burst.is_empty();
        longest = burst.iter().map(Packet::len).fold(longest, usize::max);
        send_burst(left, &mut pool, &mut burst);
        match is_idle {
            // What hosts had sent until then is forwarded, so that all counts agree.
            true if is_over => return longest,
            true => wait(&[left.descriptor().unwrap(), right.descriptor().unwrap()]),
            false => {}
        }
    }
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn tcp_with_super_frames_crosses_two_ports(method: ReceiveMethod) {
    let longest = tcp_crosses_two_ports(method, false);
    assert!(longest.iter().all(|longest| *longest <= 1514));
}

fn super_frames_stay_whole_between_two_ports(method: ReceiveMethod) {
    let longest = tcp_crosses_two_ports(method, true);
    // The ring cuts them.
    let are_whole = |longest: &usize| *longest > 1514;
    assert_eq!(
        longest.iter().all(are_whole),
        method == ReceiveMethod::Messages,
        "{longest:?}"
    );
}

/// Frames that no chunk would hold are cut by the kernel, since the driver takes none.
#[test]
fn tcp_crosses_two_ports_of_af_xdp() {
    let (first, second) = (host("tcp4", "10.1.0.1"), host("tcp5", "10.1.0.2"));
    let open = |cable: &Cable| {
        let settings = XdpSettings {
            mode: XdpMode::Native,
            ..XdpSettings::default()
        };
        let opened = || AfXdpPort::open(PortId(7), "vb", settings).unwrap();
        cable.right.enter(opened)
    };
    let (mut left, mut right) = (open(&first), open(&second));
    let target = "10.1.0.2:5001".parse().unwrap();
    let longest = transfer((&first.left, &mut left), (&second.left, &mut right), target);
    assert_eq!(longest, 1514);
    for host in [&first.left, &second.left] {
        assert_eq!(tcp_segments(host).0, 0, "checksums were completed");
    }
    // What a queue of the kernel has no room for is counted, and TCP repeats it.
    for port in [left.counters(), right.counters()] {
        let all_drops = drops(&port);
        let is_full = |drop: &(DropReason, u64)| drop.0 == DropReason::QueueFull;
        assert!(all_drops.iter().all(is_full), "{all_drops:?}");
    }
}

/// Sends from a host, by its port and the other one, to an address of the other host; returns the
/// longest frame that passed.
fn transfer(
    (from, left): (&Namespace, &mut dyn Port),
    (to, right): (&Namespace, &mut dyn Port),
    target: SocketAddr,
) -> usize {
    let stop = AtomicBool::new(false);
    let data: Vec<u8> = (0..4_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let listener = to.enter(|| TcpListener::bind(target).unwrap());
    listener.set_nonblocking(true).unwrap();
    std::thread::scope(|scope| {
        let switch = scope.spawn(|| forward(left, right, &stop));
        let sender = scope.spawn(|| {
            from.enter(|| {
                let mut stream = TcpStream::connect_timeout(&target, TIMEOUT).unwrap();
                stream.set_write_timeout(Some(TIMEOUT)).unwrap();
                stream.write_all(&data).unwrap();
            })
        });
        // Stops the thread even if a step fails, so that the test ends.
        let stop_at_end = StopAtEnd(&stop);
        let mut accepted = None;
        eventually("the connection is there", || {
            accepted = listener.accept().ok();
            accepted.is_some()
        });
        let (mut stream, _) = accepted.unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut received = Vec::new();
        let result = stream.read_to_end(&mut received);
        drop(stop_at_end);
        result.unwrap();
        sender.join().unwrap();
        let (got, sent) = (received.len(), data.len());
        assert!(received == data, "{got} of {sent} bytes");
        switch.join().unwrap()
    })
}

/// TCP segments that a host received with a wrong checksum, and all that it sent.
fn tcp_segments(host: &Namespace) -> (u64, u64) {
    let text = host.enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap());
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let mut words = || lines.next().unwrap().split_whitespace();
    let counts: std::collections::BTreeMap<_, _> = words().zip(words()).collect();
    let count = |name: &str| -> u64 { counts[name].parse().unwrap() };
    // Linux counts segments that it sends again apart.
    (
        count("InCsumErrors"),
        count("OutSegs") + count("RetransSegs"),
    )
}

/// A cable whose left end is a host with this address.
fn host(purpose: &str, address: &str) -> Cable {
    let cable = Cable::with_ipv6(purpose);
    let (prefix, more): (_, &[&str]) = match address.contains(':') {
        true => ("/64", &["nodad"]),
        false => ("/24", &[]),
    };
    let address = format!("{address}{prefix}");
    let command = ["addr", "add", &address, "dev", "va"];
    cable.left.ip(&[&command[..], more].concat());
    cable
}

/// Two hosts, each with segmentation offload on, and two ports between them; returns the longest
/// frames that passed, by IPv4 and by IPv6.
fn tcp_crosses_two_ports(method: ReceiveMethod, keeps_whole: bool) -> Vec<usize> {
    let mut longest = Vec::new();
    for (left_address, right_address) in [("10.1.0.1", "10.1.0.2"), ("fd00::1", "fd00::2")] {
        let (first, second) = (host("tcp1", left_address), host("tcp2", right_address));
        let (mut left, mut right) = (
            af_packet(&first.right, "vb", method),
            af_packet(&second.right, "vb", method),
        );
        if keeps_whole {
            left.keep_whole();
            right.keep_whole();
        }
        let target = SocketAddr::new(right_address.parse().unwrap(), 5001);
        longest.push(transfer(
            (&first.left, &mut left),
            (&second.left, &mut right),
            target,
        ));
        let (left, right) = (left.counters(), right.counters());
        assert_eq!((drops(&left), drops(&right)), (vec![], vec![]));
        assert_eq!(left.received_packets, right.sent_packets);
        assert_eq!(right.received_bytes, left.sent_bytes);
        // Ports count segments as the hosts do; neighbours ask each other too, in few packets.
        for (host, port) in [(&first.left, &left), (&second.left, &right)] {
            let (wrong, segments) = tcp_segments(host);
            assert_eq!(wrong, 0);
            // A ring keeps frames of a block that is not full.
            let others = port.received_packets.abs_diff(segments);
            let is_counted = others < 20 || method == ReceiveMethod::Ring;
            assert!(is_counted, "{segments}: {port:?}");
        }
    }
    longest
}

/// A host behind a tap and one behind a cable, in both directions.
#[test]
fn a_tap_gives_and_takes_whole_frames() {
    for keeps_whole in [false, true] {
        let inner = Namespace::new("tap");
        let mut tap = inner.enter(|| TapPort::open(PortId(1), "tap0", None).unwrap());
        inner.ip(&["addr", "add", "10.1.0.1/24", "dev", "tap0"]);
        let cable = host("tcp3", "10.1.0.2");
        let mut port = af_packet(&cable.right, "vb", ReceiveMethod::Messages);
        if keeps_whole {
            tap.keep_whole();
            port.keep_whole();
        }
        let outer = &cable.left;
        let targets = ["10.1.0.2:5001", "10.1.0.1:5002"].map(|text| text.parse().unwrap());
        let away = transfer((&inner, &mut tap), (outer, &mut port), targets[0]);
        let back = transfer((outer, &mut port), (&inner, &mut tap), targets[1]);
        assert_eq!((away > 1514, back > 1514), (keeps_whole, keeps_whole));
        assert_eq!(
            (drops(&tap.counters()), drops(&port.counters())),
            (vec![], vec![])
        );
        assert_eq!(tap.counters().received_bytes, port.counters().sent_bytes);
        assert_eq!(
            tap.counters().sent_packets,
            port.counters().received_packets
        );
        for (host, port) in [(&inner, tap.counters()), (outer, port.counters())] {
            let (wrong, segments) = tcp_segments(host);
            assert_eq!(wrong, 0);
            assert!(
                port.received_packets.abs_diff(segments) < 20,
                "{segments}: {port:?}"
            );
        }
    }
}
