//! Frames over a cable between two packet sockets, for each receive method.

use thalweg_io::{DropReason, Port, PortStatus, ReceiveMethod};
use thalweg_packet::{Instant, PacketPool, PortId};

use super::{af_packet, drops, frame, is_ready, over_every_method, pool, receive, send};
use crate::namespace::{Cable, eventually};

over_every_method! {
    frames_of_every_size_cross_a_cable_whole_and_counted,
    packets_say_where_and_when_they_arrived,
    vlan_tags_that_the_kernel_takes_out_are_put_back,
    frames_longer_than_the_buffers_arrive_whole,
    what_the_kernel_drops_is_counted,
    a_long_stream_arrives_whole_and_in_order,
    the_kernel_is_asked_for_this_method,
    an_empty_pool_delays_frames_and_loses_none,
    the_link_is_followed_down_up_and_away,
}

fn frames_of_every_size_cross_a_cable_whole_and_counted(method: ReceiveMethod) {
    let cable = Cable::new("sizes");
    let mut left = af_packet(&cable.left, "va", method);
    let mut right = af_packet(&cable.right, "vb", method);
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

fn packets_say_where_and_when_they_arrived(method: ReceiveMethod) {
    let cable = Cable::new("origin");
    let mut left = af_packet(&cable.left, "va", method);
    let mut right = af_packet(&cable.right, "vb", method);
    let (mut pool, mut burst) = (pool(), Vec::new());
    send(&mut left, &mut pool, &[frame(60)]);
    eventually("the frame arrives", || {
        right.receive(&mut pool, &mut burst, Instant::from_nanos(3));
        !burst.is_empty()
    });
    assert_eq!(burst[0].in_port(), PortId(7));
    assert_eq!(burst[0].received_at(), Instant::from_nanos(3));
}

fn vlan_tags_that_the_kernel_takes_out_are_put_back(method: ReceiveMethod) {
    let cable = Cable::new("vlan");
    let mut left = af_packet(&cable.left, "va", method);
    let mut right = af_packet(&cable.right, "vb", method);
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
    // The longest possible frame: the kernel allows one customer tag beyond the MTU.
    let mut longest = frame(1514);
    longest.splice(12..12, [0x81, 0x00, 0x00, 0x64]);
    frames.push(longest);
    send(&mut left, &mut pool, &frames);
    assert_eq!(receive(&mut right, &mut pool, frames.len()), frames);
}

fn frames_longer_than_the_buffers_arrive_whole(method: ReceiveMethod) {
    let cable = Cable::new("jumbo");
    cable.left.ip(&["link", "set", "va", "mtu", "65535"]);
    cable.right.ip(&["link", "set", "vb", "mtu", "65535"]);
    let mut left = af_packet(&cable.left, "va", method);
    let mut right = af_packet(&cable.right, "vb", method);
    let mut pool = PacketPool::with_capacity(64, 256);
    let frames: Vec<_> = [256, 257, 9014, 60_000, 65_549].map(frame).into();
    send(&mut left, &mut pool, &frames);
    assert_eq!(receive(&mut right, &mut pool, frames.len()), frames);
    assert_eq!(drops(&right.counters()), []);
}

fn what_the_kernel_drops_is_counted(method: ReceiveMethod) {
    let cable = Cable::new("flood");
    let mut left = af_packet(&cable.left, "va", method);
    let mut right = af_packet(&cable.right, "vb", method);
    let mut pool = pool();
    let burst: Vec<_> = vec![frame(60); 200];
    for _ in 0..500 {
        send(&mut left, &mut pool, &burst);
    }
    assert_eq!(left.counters().sent_packets, 100_000);
    let mut burst = Vec::new();
    eventually("all frames are accounted for", || {
        right.receive(&mut pool, &mut burst, Instant::ZERO);
        pool.put_burst(&mut burst);
        let counters = right.counters();
        counters.received_packets + counters.drops.count(DropReason::KernelDropped) == 100_000
    });
    let dropped = right.counters().drops.count(DropReason::KernelDropped);
    assert!(dropped > 0, "the queue is shorter than the flood");
    assert_eq!(right.counters().drops.total(), dropped);
}

/// Goes around the ring many times, with frames of all sizes at the ends of its blocks.
fn a_long_stream_arrives_whole_and_in_order(method: ReceiveMethod) {
    let cable = Cable::new("stream");
    let mut left = af_packet(&cable.left, "va", method);
    let mut right = af_packet(&cable.right, "vb", method);
    let mut pool = pool();
    let mut number = 0_u64;
    for _ in 0..400 {
        let frames: Vec<_> = std::iter::repeat_with(|| {
            number += 1;
            let mut frame = frame(60 + (number * 7919 % 1455) as usize);
            frame[14..22].copy_from_slice(&number.to_be_bytes());
            frame
        })
        .take(200)
        .collect();
        send(&mut left, &mut pool, &frames);
        assert!(receive(&mut right, &mut pool, frames.len()) == frames);
    }
    assert_eq!(right.counters().received_packets, number);
    assert_eq!(drops(&right.counters()), []);
}

/// The kernel lists the function that it calls for arriving frames.
fn the_kernel_is_asked_for_this_method(method: ReceiveMethod) {
    let cable = Cable::new("method");
    let _port = af_packet(&cable.right, "vb", method);
    let list = cable
        .right
        .enter(|| std::fs::read_to_string("/proc/thread-self/net/ptype").unwrap());
    let line = list.lines().find(|line| line.contains("vb")).unwrap();
    let function = match method {
        ReceiveMethod::Messages => " packet_rcv",
        ReceiveMethod::Ring => " tpacket_rcv",
    };
    assert!(line.contains(function), "{line}");
}

fn an_empty_pool_delays_frames_and_loses_none(method: ReceiveMethod) {
    let cable = Cable::new("pool");
    let mut left = af_packet(&cable.left, "va", method);
    let mut right = af_packet(&cable.right, "vb", method);
    let frames: Vec<_> = (60..160).map(frame).collect();
    send(&mut left, &mut pool(), &frames);
    let mut small = PacketPool::with_capacity(3, 2048);
    assert_eq!(receive(&mut right, &mut small, frames.len()), frames);
    let least = match method {
        ReceiveMethod::Messages => 33,
        // A call also ends at the end of a block, and the timer decides where that is.
        ReceiveMethod::Ring => 1,
    };
    assert!(right.counters().pool_refusals >= least);
}

fn the_link_is_followed_down_up_and_away(method: ReceiveMethod) {
    let cable = Cable::new("link");
    let mut left = af_packet(&cable.left, "va", method);
    let mut right = af_packet(&cable.right, "vb", method);
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
        eventually("no old news is left that would wake a worker", || {
            port.receive(&mut pool, &mut Vec::new(), Instant::ZERO);
            !is_ready(port)
        });
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
