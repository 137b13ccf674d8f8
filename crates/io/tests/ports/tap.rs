//! Taps, and ports of which it is found out what they are.

use std::net::UdpSocket;

use thalweg_io::{DropReason, Port, PortConfig, PortStatus, ReceiveMethod, TapPort};
use thalweg_packet::{Instant, PacketPool, PortId};

use super::{TIMEOUT, drops, frame, is_checksum_right, receive, send};
use crate::namespace::{Cable, Namespace, eventually};

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
        let ring = |name| {
            let receive = Some(ReceiveMethod::Ring);
            let port = PortConfig::new(PortId(1), name);
            thalweg_io::open(&PortConfig { receive, ..port })
        };
        assert!(ring("va").is_ok());
        let text = ring("another").err().unwrap().to_string();
        assert!(
            text.contains("`another`") && text.contains("of kind `tap`"),
            "{text}"
        );
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
