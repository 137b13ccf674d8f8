//! AF_XDP ports on a cable, compared with packet sockets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_io::{
    AfXdpPort, DropReason, Error, Port, PortConfig, PortKind, PortStatus, ReceiveMethod, XdpMode,
    XdpSettings,
};
use thalweg_packet::{Instant, PacketPool, PortId};

use super::{af_packet, drops, frame, is_ready, pool, receive, send};
use crate::namespace::{Cable, Namespace, eventually};

const MESSAGES: ReceiveMethod = ReceiveMethod::Messages;

/// Turns each function into one test per mode that a veth pair has.
macro_rules! over_both_modes {
    ($($test:ident,)*) => {
        mod native {
            $(#[test] fn $test() { super::$test(thalweg_io::XdpMode::Native); })*
        }

        mod generic {
            $(#[test] fn $test() { super::$test(thalweg_io::XdpMode::Generic); })*
        }
    };
}

over_both_modes! {
    the_same_frames_arrive_and_leave_as_by_a_packet_socket,
    frames_of_every_size_cross_a_cable_whole_and_counted,
    a_long_stream_arrives_whole_and_in_order,
    an_empty_pool_delays_frames_and_loses_none,
    partial_checksums_are_completed,
    what_the_kernel_drops_is_counted,
    no_room_is_lost_while_frames_arrive_and_are_taken,
    the_link_is_followed_down_up_and_away,
    frames_for_an_interface_without_carrier_are_dropped_one_by_one,
    every_queue_is_received_from,
    as_many_queues_as_there_are_can_be_asked_for,
    the_program_goes_with_the_port,
    a_port_of_all_queues_is_gone_when_there_are_others,
    polling_works_with_a_driver_that_polls_or_not,
}

fn settings(mode: XdpMode) -> XdpSettings {
    XdpSettings {
        mode,
        ..XdpSettings::default()
    }
}

fn try_once(
    namespace: &Namespace,
    interface: &str,
    settings: XdpSettings,
) -> Result<AfXdpPort, Error> {
    namespace.enter(|| AfXdpPort::open(PortId(7), interface, settings))
}

/// Opens a port on an interface that no other port has any more. A child that another test forks
/// holds what was closed until it runs its program.
fn try_af_xdp(
    namespace: &Namespace,
    interface: &str,
    settings: XdpSettings,
) -> Result<AfXdpPort, Error> {
    let mut result = None;
    eventually("the interface is free", || {
        result = Some(try_once(namespace, interface, settings));
        !matches!(result, Some(Err(Error::InterfaceTaken { .. })))
    });
    result.unwrap()
}

fn af_xdp(namespace: &Namespace, interface: &str, mode: XdpMode) -> AfXdpPort {
    let mut port = None;
    // As above.
    eventually("the program of the last port is gone", || {
        port = match try_af_xdp(namespace, interface, settings(mode)) {
            Err(Error::XdpTaken { .. }) => None,
            opened => Some(opened.unwrap()),
        };
        port.is_some()
    });
    let port = port.unwrap();
    assert_eq!(port.mode(), mode);
    port
}

/// What `ip link` says of a program on the interface.
fn program_on(namespace: &Namespace, interface: &str) -> Option<&'static str> {
    let shown = namespace.ip(&["link", "show", "dev", interface]);
    let is_there = |word: &str| shown.split_whitespace().any(|one| one == word);
    assert_eq!(
        shown.contains("name thalweg_xdp"),
        shown.contains("prog/xdp")
    );
    match (is_there("xdp"), is_there("xdpgeneric")) {
        (true, false) => Some("native"),
        (false, true) => Some("generic"),
        _ => None,
    }
}

/// Random frames, some of them of TCP and UDP, some with tags; from a small generator.
fn random_frames(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut next = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut frames = Vec::new();
    for _ in 0..count {
        let mut frame = frame(60 + next(1400));
        match next(4) {
            0 => frame[12..14].copy_from_slice(&[0x08, 0x00]),
            1 => frame[12..14].copy_from_slice(&[0x86, 0xdd]),
            2 => drop(frame.splice(12..12, [0x81, 0x00, 0, next(250) as u8])),
            _ => {}
        }
        let at = 18 + next(frame.len() - 18);
        frame[at] = next(256) as u8;
        frames.push(frame);
    }
    frames
}

/// The same frames both ways, once with a packet socket at the far end and once with AF_XDP.
fn the_same_frames_arrive_and_leave_as_by_a_packet_socket(mode: XdpMode) {
    let mut results = Vec::new();
    for is_xdp in [false, true] {
        let cable = Cable::new("twin");
        let mut near = af_packet(&cable.left, "va", MESSAGES);
        let mut far: Box<dyn Port> = match is_xdp {
            false => Box::new(af_packet(&cable.right, "vb", MESSAGES)),
            true => Box::new(af_xdp(&cable.right, "vb", mode)),
        };
        let mut pool = pool();
        let (mut there, mut back) = (Vec::new(), Vec::new());
        for seed in 0..20 {
            let frames = random_frames(seed, 60);
            send(&mut near, &mut pool, &frames);
            let arrived = receive(&mut *far, &mut pool, frames.len());
            assert!(arrived == frames, "seed {seed}");
            send(&mut *far, &mut pool, &arrived);
            back.extend(receive(&mut near, &mut pool, frames.len()));
            there.extend(arrived);
        }
        assert!(there == back);
        assert_eq!(
            (drops(&near.counters()), drops(&far.counters())),
            (vec![], vec![])
        );
        results.push((there, near.counters(), far.counters()));
    }
    assert!(results[0] == results[1]);
}

fn frames_of_every_size_cross_a_cable_whole_and_counted(mode: XdpMode) {
    let cable = Cable::new("sizes");
    let mut left = af_xdp(&cable.left, "va", mode);
    let mut right = af_xdp(&cable.right, "vb", mode);
    let mut pool = pool();
    let frames: Vec<_> = (14..=1514).map(frame).collect();
    for frames in frames.chunks(50) {
        send(&mut left, &mut pool, frames);
        assert_eq!(receive(&mut right, &mut pool, frames.len()), frames);
    }
    let mut tagged = frame(1514);
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x64]);
    let too_short = vec![0; 13];
    let others = [
        frame(1515),
        frame(1518),
        too_short,
        frame(4000),
        tagged.clone(),
    ];
    send(&mut left, &mut pool, &others);
    assert_eq!(receive(&mut right, &mut pool, 1), [tagged]);

    let bytes: usize = (14..=1514).sum::<usize>() + 1518;
    let (sent, received) = (left.counters(), right.counters());
    assert_eq!((sent.sent_packets, sent.sent_bytes), (1502, bytes as u64));
    assert_eq!(received.received_packets, 1502);
    assert_eq!(received.received_bytes, bytes as u64);
    assert_eq!(
        drops(&sent),
        [(DropReason::TooShort, 1), (DropReason::TooLong, 3)]
    );
    assert_eq!(drops(&received), []);
    assert_eq!(sent.received_packets, 0);
}

/// Goes around the rings many times.
fn a_long_stream_arrives_whole_and_in_order(mode: XdpMode) {
    let cable = Cable::new("stream");
    let mut left = af_xdp(&cable.left, "va", mode);
    let mut right = af_xdp(&cable.right, "vb", mode);
    let mut pool = pool();
    let mut number = 0_u64;
    for _ in 0..200 {
        let frames: Vec<_> = std::iter::repeat_with(|| {
            number += 1;
            let mut frame = frame(60 + (number * 7919 % 1455) as usize);
            frame[14..22].copy_from_slice(&number.to_be_bytes());
            frame
        })
        .take(100)
        .collect();
        send(&mut left, &mut pool, &frames);
        assert!(receive(&mut right, &mut pool, frames.len()) == frames);
    }
    assert_eq!(left.counters().sent_packets, number);
    assert_eq!(right.counters().received_packets, number);
    assert_eq!(
        (drops(&left.counters()), drops(&right.counters())),
        (vec![], vec![])
    );
}

fn an_empty_pool_delays_frames_and_loses_none(mode: XdpMode) {
    let cable = Cable::new("pool");
    let mut left = af_packet(&cable.left, "va", MESSAGES);
    let mut right = af_xdp(&cable.right, "vb", mode);
    let frames: Vec<_> = (60..110).map(frame).collect();
    send(&mut left, &mut pool(), &frames);
    let (mut few, mut burst, mut arrived) =
        (PacketPool::with_capacity(3, 2048), Vec::new(), Vec::new());
    eventually("all frames arrive", || {
        right.receive(&mut few, &mut burst, Instant::from_nanos(3));
        assert!(burst.len() <= 3);
        for packet in &burst {
            assert_eq!(
                (packet.in_port(), packet.received_at()),
                (PortId(7), Instant::from_nanos(3))
            );
            arrived.push(packet.bytes().to_vec());
        }
        few.put_burst(&mut burst);
        arrived.len() == frames.len()
    });
    assert_eq!(arrived, frames);
    assert!(right.counters().pool_refusals > 0);
    assert_eq!(drops(&right.counters()), []);
    assert!(!is_ready(&right));
}

/// What a host's own stack sends over a veth pair has no checksum yet.
fn partial_checksums_are_completed(mode: XdpMode) {
    let cable = Cable::new("csum");
    let left = &cable.left;
    left.ip(&["addr", "add", "10.1.0.1/24", "dev", "va"]);
    let neighbour = ["10.1.0.2", "lladdr", "02:00:00:00:00:02", "dev", "va"];
    left.ip(&[&["neigh", "add"][..], &neighbour].concat());
    let mut port = af_xdp(&cable.right, "vb", mode);
    let mut pool = pool();
    let socket = left.enter(|| std::net::UdpSocket::bind("10.1.0.1:5000").unwrap());
    let mut arrived = BTreeMap::new();
    for length in [1, 2, 31, 1000, 1400_usize] {
        socket
            .send_to(&vec![0x5a; length], "10.1.0.2:4242")
            .unwrap();
        eventually("the datagram arrives", || {
            for frame in receive(&mut port, &mut pool, 1) {
                arrived.insert(frame.len(), frame);
            }
            arrived.contains_key(&(42 + length))
        });
        let frame = &arrived[&(42 + length)];
        assert!(super::is_checksum_right(frame), "{frame:02x?}");
    }
}

/// Frames that nothing takes out of the ring end at the port, and are counted there.
fn what_the_kernel_drops_is_counted(mode: XdpMode) {
    let cable = Cable::new("flood");
    let mut left = af_packet(&cable.left, "va", MESSAGES);
    let mut right = af_xdp(&cable.right, "vb", mode);
    let mut pool = pool();
    let burst: Vec<_> = vec![frame(60); 32];
    for _ in 0..200 {
        send(&mut left, &mut pool, &burst);
    }
    let sent = left.counters().sent_packets;
    assert_eq!(sent, 6400);
    let mut burst = Vec::new();
    eventually("all frames are accounted for", || {
        right.receive(&mut pool, &mut burst, Instant::ZERO);
        pool.put_burst(&mut burst);
        let counters = right.counters();
        counters.received_packets + counters.drops.count(DropReason::KernelDropped) == sent
    });
    let dropped = right.counters().drops.count(DropReason::KernelDropped);
    assert!(
        dropped >= 6400 - 2 * 2048,
        "the rings are shorter than the flood"
    );
    assert_eq!(right.counters().drops.total(), dropped);
}

/// Whatever happens between two processors, all of the memory can be filled again.
fn no_room_is_lost_while_frames_arrive_and_are_taken(mode: XdpMode) {
    let cable = Cable::new("room");
    let mut left = af_packet(&cable.left, "va", MESSAGES);
    let mut right = af_xdp(&cable.right, "vb", mode);
    let frames: Vec<_> = vec![frame(60); 32];
    let is_over = AtomicBool::new(false);
    let (mut pool, mut burst) = (pool(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pool = super::pool();
            for _ in 0..4000 {
                send(&mut left, &mut pool, &frames);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        loop {
            let was_over = is_over.load(Ordering::Relaxed);
            right.receive(&mut pool, &mut burst, Instant::ZERO);
            let is_empty = burst.is_empty();
            pool.put_burst(&mut burst);
            if was_over && is_empty {
                return;
            }
        }
    });
    let before = right.counters();
    for _ in 0..2048 / 32 {
        send(&mut left, &mut pool, &frames);
    }
    receive(&mut right, &mut pool, 2048);
    let after = right.counters();
    assert_eq!(after.received_packets - before.received_packets, 2048);
    assert_eq!(after.drops, before.drops);
}

fn the_link_is_followed_down_up_and_away(mode: XdpMode) {
    let cable = Cable::new("link");
    let mut left = af_xdp(&cable.left, "va", mode);
    let mut right = af_xdp(&cable.right, "vb", mode);
    let mut pool = pool();
    assert_eq!(left.status(), PortStatus::Up);
    cable.left.ip(&["link", "set", "va", "down"]);
    assert_eq!(left.status(), PortStatus::Down);
    let frames: Vec<_> = (60..100).map(frame).collect();
    send(&mut left, &mut pool, &frames);
    assert_eq!(drops(&left.counters()), [(DropReason::LinkDown, 40)]);
    assert_eq!(left.counters().sent_packets, 0);

    cable.left.ip(&["link", "set", "va", "up"]);
    eventually("the link is up", || {
        (left.status(), right.status()) == (PortStatus::Up, PortStatus::Up)
    });
    // What was dropped does not come later.
    let first = frame(200);
    eventually("a frame passes again", || {
        send(&mut left, &mut pool, std::slice::from_ref(&first));
        let mut burst = Vec::new();
        right.receive(&mut pool, &mut burst, Instant::ZERO);
        let all_are_new = burst.iter().all(|packet| packet.bytes() == first);
        assert!(all_are_new);
        let came = !burst.is_empty();
        pool.put_burst(&mut burst);
        came
    });
    cable.left.ip(&["link", "del", "va"]);
    assert_eq!(
        (left.status(), right.status()),
        (PortStatus::Gone, PortStatus::Gone)
    );
    let before = left.counters().drops.count(DropReason::LinkDown);
    send(&mut left, &mut pool, &frames);
    assert_eq!(
        left.counters().drops.count(DropReason::LinkDown),
        before + 40
    );
}

fn frames_for_an_interface_without_carrier_are_dropped_one_by_one(mode: XdpMode) {
    let cable = Cable::new("carrier");
    let mut left = af_xdp(&cable.left, "va", mode);
    let mut pool = pool();
    cable.right.ip(&["link", "set", "vb", "down"]);
    eventually("the carrier is gone", || left.status() == PortStatus::Down);
    let frames: Vec<_> = (60..160).map(frame).collect();
    send(&mut left, &mut pool, &frames);
    let counters = left.counters();
    assert_eq!(counters.sent_packets + counters.drops.total(), 100);
    assert_eq!(drops(&counters), [(DropReason::LinkDown, 100)]);
    cable.right.ip(&["link", "set", "vb", "up"]);
    eventually("the link is up", || left.status() == PortStatus::Up);
    let mut right = af_packet(&cable.right, "vb", MESSAGES);
    send(&mut left, &mut pool, &frames);
    assert_eq!(receive(&mut right, &mut pool, 100), frames);
    assert_eq!(left.counters().sent_packets, 100);
}

/// A pair with four queues each; the sender's queue is the receiver's.
fn four_queues() -> (Namespace, Namespace) {
    let (left, right) = (Namespace::new("queues"), Namespace::new("queues"));
    let four = ["numrxqueues", "4", "numtxqueues", "4"];
    let ends = [
        &["link", "add", "va"][..],
        &four,
        &["type", "veth", "peer", "name", "vb"],
        &four,
        &["netns", &right.name],
    ];
    left.ip(&ends.concat());
    left.ip(&["link", "set", "va", "up"]);
    right.ip(&["link", "set", "vb", "up"]);
    eventually("the link is up", || {
        right
            .ip(&["link", "show", "dev", "vb"])
            .contains("state UP")
    });
    (left, right)
}

fn every_queue_is_received_from(mode: XdpMode) {
    let (left, right) = four_queues();
    let mut port = af_xdp(&right, "vb", mode);
    assert!(
        port.remarks()[0].ends_with("on 4 queues"),
        "{:?}",
        port.remarks()
    );
    left.ip(&["addr", "add", "10.1.0.1/24", "dev", "va"]);
    let neighbour = ["10.1.0.2", "lladdr", "02:00:00:00:00:02", "dev", "va"];
    left.ip(&[&["neigh", "add"][..], &neighbour].concat());
    let mut pool = pool();
    // The stack picks a queue by the hash of a socket's addresses, or by the processor.
    for source in 5000..5064_u16 {
        let socket = left.enter(|| std::net::UdpSocket::bind(("10.1.0.1", source)).unwrap());
        socket
            .send_to(&source.to_be_bytes(), "10.1.0.2:4242")
            .unwrap();
    }
    let mut sources = Vec::new();
    eventually("all datagrams arrive", || {
        let frames = receive(&mut port, &mut pool, 1);
        let is_udp =
            |frame: &&Vec<u8>| frame.len() >= 44 && frame[12..14] == [8, 0] && frame[23] == 17;
        sources.extend(
            frames
                .iter()
                .filter(is_udp)
                .map(|frame| frame[34..36].to_vec()),
        );
        sources.len() == 64
    });
    sources.sort();
    sources.dedup();
    assert_eq!(sources.len(), 64);
}

fn as_many_queues_as_there_are_can_be_asked_for(mode: XdpMode) {
    let (_left, right) = four_queues();
    let some = |queues| XdpSettings {
        queues: Some(queues),
        ..settings(mode)
    };
    let text = try_once(&right, "vb", some(5)).unwrap_err().to_string();
    assert!(
        text.contains("has 4 receive queues, and 5 were asked for"),
        "{text}"
    );
    let two = try_af_xdp(&right, "vb", some(2)).unwrap();
    let remarks = two.remarks();
    assert!(remarks[0].ends_with("on 2 queues"), "{remarks:?}");
    assert_eq!(remarks[1], "frames of the last 2 queues stay the host's");
}

fn the_program_goes_with_the_port(mode: XdpMode) {
    let cable = Cable::new("gone");
    let port = af_xdp(&cable.right, "vb", mode);
    let expected = mode.to_string();
    assert_eq!(program_on(&cable.right, "vb"), Some(expected.as_str()));
    // A second one is refused, in either mode, and does no harm.
    for other in [XdpMode::BestEffort, XdpMode::Native, XdpMode::Generic] {
        let taken = try_once(&cable.right, "vb", settings(other));
        assert!(
            matches!(taken, Err(Error::InterfaceTaken { .. })),
            "{taken:?}"
        );
    }
    drop(port);
    eventually("the program is gone", || {
        program_on(&cable.right, "vb").is_none()
    });
    let mut again = af_xdp(&cable.right, "vb", mode);
    let mut left = af_packet(&cable.left, "va", MESSAGES);
    let mut pool = pool();
    send(&mut left, &mut pool, &[frame(60)]);
    assert_eq!(receive(&mut again, &mut pool, 1), [frame(60)]);
}

/// Runs ethtool in a namespace.
fn ethtool(namespace: &Namespace, arguments: &[&str]) {
    let status = namespace.spawn("ethtool", arguments).wait().unwrap();
    assert!(status.success(), "this test needs ethtool");
}

/// A pair of interfaces with room for two queues, of which one is in use.
fn growing_pair(mode: XdpMode) -> (Namespace, AfXdpPort) {
    let host = Namespace::new("grow");
    let two = ["numrxqueues", "2", "numtxqueues", "2"];
    let ends = [
        &["link", "add", "va"][..],
        &two,
        &["type", "veth", "peer", "name", "vb"],
        &two,
    ];
    host.ip(&ends.concat());
    // A driver takes no program while the other end has more queues.
    ethtool(&host, &["-L", "va", "tx", "1"]);
    ethtool(&host, &["-L", "vb", "rx", "1"]);
    host.ip(&["link", "set", "va", "up"]);
    host.ip(&["link", "set", "vb", "up"]);
    let port = af_xdp(&host, "vb", mode);
    assert!(port.remarks()[0].ends_with("on one queue"));
    (host, port)
}

fn a_port_of_all_queues_is_gone_when_there_are_others(mode: XdpMode) {
    let (host, mut port) = growing_pair(mode);
    eventually("the link is up", || port.status() == PortStatus::Up);
    ethtool(&host, &["-L", "vb", "rx", "2"]);
    assert_eq!(port.status(), PortStatus::Gone);
    drop(port);
    let again = af_xdp(&host, "vb", mode);
    assert!(again.remarks()[0].ends_with("on 2 queues"));
}

/// A veth pair does not poll; what is asked of it is taken all the same.
fn polling_works_with_a_driver_that_polls_or_not(mode: XdpMode) {
    let cable = Cable::new("poll");
    let wanted = XdpSettings {
        busy_poll_us: Some(20),
        ..settings(mode)
    };
    let mut right = try_af_xdp(&cable.right, "vb", wanted).unwrap();
    let mut left = af_packet(&cable.left, "va", MESSAGES);
    let mut pool = pool();
    let frames: Vec<_> = (60..160).map(frame).collect();
    send(&mut left, &mut pool, &frames);
    assert_eq!(receive(&mut right, &mut pool, 100), frames);
    send(&mut right, &mut pool, &frames);
    assert_eq!(receive(&mut left, &mut pool, 100), frames);
}

#[test]
fn a_veth_pair_refuses_zero_copy_and_best_effort_says_so() {
    let cable = Cable::new("zero");
    let zero = settings(XdpMode::NativeWithZeroCopy);
    let text = try_af_xdp(&cable.right, "vb", zero)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("no AF_XDP in mode `native-with-zerocopy`: binding a queue failed")
            && text.contains("use `best-effort`"),
        "{text}"
    );
    let port = try_af_xdp(&cable.right, "vb", settings(XdpMode::BestEffort)).unwrap();
    assert_eq!(port.mode(), XdpMode::Native);
    let remarks = port.remarks();
    assert!(
        remarks[0].starts_with("AF_XDP, native-with-zerocopy, is not possible: binding a queue"),
        "{remarks:?}"
    );
    assert_eq!(remarks[1], "AF_XDP, native, on one queue");
    assert!(remarks[2].contains("rxvlan off"), "{remarks:?}");
}

/// A driver takes short frames only; any interface does in generic mode, up to a chunk.
#[test]
fn long_frames_are_refused_by_the_mtu() {
    let cable = Cable::new("mtu");
    for mtu in ["3818", "3819"] {
        cable.left.ip(&["link", "set", "va", "mtu", mtu]);
        cable.right.ip(&["link", "set", "vb", "mtu", mtu]);
        let opened = try_af_xdp(&cable.right, "vb", settings(XdpMode::BestEffort));
        match mtu {
            "3818" => {
                let mut port = opened.unwrap();
                assert_eq!(port.mode(), XdpMode::Generic);
                assert!(port.remarks()[1].contains("attaching a program failed"));
                let mut left = af_packet(&cable.left, "va", MESSAGES);
                let mut pool = PacketPool::with_capacity(64, 4096);
                let frames = [frame(3832), frame(60)];
                send(&mut left, &mut pool, &frames);
                assert_eq!(receive(&mut port, &mut pool, 2), frames);
                send(&mut port, &mut pool, &frames);
                assert_eq!(receive(&mut left, &mut pool, 2), frames);
            }
            _ => {
                let text = opened.unwrap_err().to_string();
                assert!(
                    text.contains("MTU of 3819 bytes") && text.contains("room for 3818"),
                    "{text}"
                );
            }
        }
    }
}

/// A claim stays behind in the namespace that an interface left; its program goes along.
#[test]
fn a_program_of_another_one_is_left_alone() {
    let cable = Cable::new("other");
    let mut holder = af_xdp(&cable.right, "vb", XdpMode::Generic);
    let other = Namespace::new("other");
    cable.right.ip(&["link", "set", "vb", "netns", &other.name]);
    other.ip(&["link", "set", "vb", "up"]);
    assert_eq!(holder.status(), PortStatus::Gone);
    for mode in XdpMode::ALL {
        let taken = try_af_xdp(&other, "vb", settings(mode));
        match mode {
            // What it cannot have is said first.
            XdpMode::NativeWithZeroCopy => {
                assert!(matches!(taken, Err(Error::XdpRefused { .. })), "{taken:?}");
            }
            _ => assert!(matches!(taken, Err(Error::XdpTaken { .. })), "{taken:?}"),
        }
        assert_eq!(program_on(&other, "vb"), Some("generic"));
    }
    drop(holder);
    af_xdp(&other, "vb", XdpMode::Native);
}

#[test]
fn auto_takes_a_packet_socket_on_a_veth_pair_and_says_why() {
    let cable = Cable::new("auto");
    let config = PortConfig::new(PortId(1), "vb");
    assert_eq!(config.kind, PortKind::Auto);
    let remarks = || {
        let mut opened = None;
        // As for `af_xdp`.
        eventually("the interface is free", || {
            opened = match cable.right.enter(|| thalweg_io::open_with_remarks(&config)) {
                Err(Error::InterfaceTaken { .. }) => None,
                opened => Some(opened.unwrap()),
            };
            opened.is_some()
        });
        let opened = opened.unwrap();
        let has_program = program_on(&cable.right, "vb").is_some();
        assert_eq!((opened.xdp_mode, has_program), (None, false));
        opened.remarks.concat()
    };
    let said = remarks();
    assert!(said.starts_with("a packet socket: VLAN tags"), "{said}");
    cable.right.ip(&["addr", "add", "10.1.0.1/24", "dev", "vb"]);
    let said = remarks();
    assert!(
        said.starts_with("a packet socket: this host has an address"),
        "{said}"
    );

    // Without tags and addresses the kernel is asked, and says no.
    cable.right.ip(&["addr", "flush", "dev", "vb"]);
    ethtool(&cable.right, &["-K", "vb", "rxvlan", "off"]);
    let said = remarks();
    let no = "a packet socket: AF_XDP: interface `vb` has no AF_XDP in mode `native-with-zerocopy`";
    assert!(said.starts_with(no), "{said}");
}
