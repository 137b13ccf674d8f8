//! Tests of taps, of claims, and of ports whose interface is found or goes away.

use std::net::UdpSocket;

use thalweg_io::{
    AfPacketPort, DropReason, LinkWatch, Port, PortConfig, PortKind, PortStatus, ReceiveMethod,
    TapPort,
};
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
    // Shorter than the frames, so they continue in the overflow area.
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
        // Sends it back with addresses and ports swapped, which leaves the checksums
        // unchanged.
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
fn auto_opens_what_exists_and_makes_nothing() {
    let cable = Cable::new("auto");
    cable.left.enter(|| {
        let config = |name| PortConfig::new(PortId(1), name);
        let open = |config: PortConfig| thalweg_io::open(&config);
        let mut existing = open(config("va")).unwrap();
        eventually("it is up", || existing.status() == PortStatus::Up);
        assert!(!is_tap(&cable.left, "va"));
        drop(existing);
        let text = open(config("av")).err().unwrap().to_string();
        assert!(
            text.contains("no interface `av`") && text.contains("which has `lo`, `va`: "),
            "{text}"
        );
        let names = thalweg_io::interfaces().unwrap();
        assert_eq!(names, ["lo", "va"], "none was made");
        let tap = |name| PortConfig {
            kind: PortKind::Tap,
            ..config(name)
        };
        let mut made = open(tap("newtap")).unwrap();
        eventually("it is up", || made.status() == PortStatus::Up);
        assert!(is_tap(&cable.left, "newtap"));
        let ring = |config| PortConfig {
            receive: Some(ReceiveMethod::Ring),
            ..config
        };
        assert!(open(ring(config("va"))).is_ok());
        let text = open(ring(tap("another"))).err().unwrap().to_string();
        assert!(
            text.contains("`another`") && text.contains("of kind `tap`"),
            "{text}"
        );
        let text = open(tap("va")).err().unwrap().to_string();
        assert!(
            text.contains("opening a tap on interface `va` failed"),
            "{text}"
        );
        let text = open(tap("newtap")).err().unwrap().to_string();
        assert!(text.contains("another program holds it"), "{text}");
    });
}

#[test]
fn an_interface_is_one_port_in_its_namespace() {
    let cable = Cable::new("claim");
    let taken = |namespace: &Namespace, kind, name: &str| {
        let config = PortConfig {
            kind,
            ..PortConfig::new(PortId(2), name)
        };
        let opened = namespace.enter(|| thalweg_io::open(&config));
        let text = opened.err().expect("it has a port").to_string();
        let expected = format!("interface `{name}` is a port of this switch already");
        assert!(text.contains(&expected), "{text}");
    };
    let open = |namespace: &Namespace, name: &str| {
        let config = PortConfig::new(PortId(1), name);
        namespace.enter(|| thalweg_io::open(&config).unwrap())
    };
    let port = open(&cable.left, "va");
    taken(&cable.left, PortKind::AfPacket, "va");
    // An alternative name and a rename both lead to the same interface.
    cable
        .left
        .ip(&["link", "property", "add", "dev", "va", "altname", "wan"]);
    taken(&cable.left, PortKind::AfPacket, "wan");
    cable.left.ip(&["link", "set", "va", "down"]);
    cable.left.ip(&["link", "set", "va", "name", "vc"]);
    taken(&cable.left, PortKind::AfPacket, "vc");
    // Every namespace counts indexes from the same number, and names may repeat too.
    cable.right.ip(&["link", "set", "vb", "down"]);
    cable.right.ip(&["link", "set", "vb", "name", "vc"]);
    let index = |namespace: &Namespace, name: &str| {
        let text = namespace.ip(&["-o", "link", "show", name]);
        text.split(':').next().unwrap().to_owned()
    };
    assert_eq!(index(&cable.left, "vc"), index(&cable.right, "vc"));
    let other = open(&cable.right, "vc");
    drop((port, other));
    drop(open(&cable.left, "vc"));
    // A tap, and a packet socket that would see the same packets.
    let tap = cable
        .left
        .enter(|| TapPort::open(PortId(1), "tap0", None).unwrap());
    taken(&cable.left, PortKind::AfPacket, "tap0");
    drop(tap);
}

#[test]
fn a_port_is_gone_with_its_interface_even_if_another_has_its_index() {
    let cable = Cable::new("again");
    let host = &cable.left;
    let index = |name: &str| {
        let text = host.ip(&["-o", "link", "show", name]);
        text.split(':').next().unwrap().to_owned()
    };
    // With a peer, so that it has carrier.
    let add_again = |name: &str, number: &str| {
        let veth = ["link", "add", name, "index", number, "type", "veth"];
        host.ip(&[&veth[..], &["peer", "name", "d1"]].concat());
        host.ip(&["link", "set", name, "up"]);
        host.ip(&["link", "set", "d1", "up"]);
    };
    for method in [ReceiveMethod::Messages, ReceiveMethod::Ring] {
        host.ip(&["link", "add", "d0", "type", "veth", "peer", "name", "d1"]);
        let number = index("d0");
        let mut port = host.enter(|| AfPacketPort::open(PortId(1), "d0", method).unwrap());
        assert_ne!(port.status(), PortStatus::Gone);
        host.ip(&["link", "del", "d0"]);
        assert_eq!(port.status(), PortStatus::Gone);
        add_again("d0", &number);
        assert_eq!(port.status(), PortStatus::Gone);
        drop(port);
        let mut port = host.enter(|| AfPacketPort::open(PortId(1), "d0", method).unwrap());
        eventually("it is up", || port.status() == PortStatus::Up);
        // An interface that moves to another namespace is gone as well.
        host.ip(&["link", "set", "d0", "netns", &cable.right.name]);
        assert_eq!(port.status(), PortStatus::Gone);
        cable.right.ip(&["link", "del", "d0"]);
    }
    let mut tap = host.enter(|| TapPort::open(PortId(1), "t0", None).unwrap());
    let number = index("t0");
    host.ip(&["link", "del", "t0"]);
    add_again("t0", &number);
    assert_eq!(tap.status(), PortStatus::Gone);
}

#[test]
fn a_watch_wakes_when_interfaces_come_change_and_go() {
    let host = Namespace::new("watch");
    let watch = host.enter(|| LinkWatch::open().unwrap());
    let (sender, news) = std::sync::mpsc::channel();
    // The thread ends with the test.
    std::thread::spawn(move || while watch.wait().is_ok() && sender.send(()).is_ok() {});
    for change in [
        &["link", "add", "d0", "type", "veth", "peer", "name", "d1"][..],
        &["link", "set", "d0", "up"],
        &["link", "set", "d0", "down"],
        &["link", "set", "d0", "name", "d2"],
        &["link", "del", "d2"],
    ] {
        while news.try_recv().is_ok() {}
        host.ip(change);
        news.recv_timeout(TIMEOUT)
            .unwrap_or_else(|_| panic!("{change:?}"));
    }
}

fn is_tap(namespace: &Namespace, interface: &str) -> bool {
    namespace
        .ip(&["-details", "link", "show", interface])
        .contains("tun type tap")
}
