//! Shared parts of the port tests: frames, sending them, and waiting for them.

mod af_xdp;
mod offload;
mod packet_socket;
mod tap;
mod tunnel;

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thalweg_io::{AfPacketPort, BURST, DropReason, Port, PortCounters, ReceiveMethod};
use thalweg_packet::{Instant, PacketPool, PortId};

use crate::namespace::{Namespace, eventually};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A local experimental EtherType (IEEE 802, 9.2.3): nothing else here sends it.
const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];

/// Turns each function into one test per receive method.
macro_rules! over_every_method {
    ($($test:ident,)*) => {
        mod messages {
            $(#[test] fn $test() { super::$test(thalweg_io::ReceiveMethod::Messages); })*
        }

        mod ring {
            $(#[test] fn $test() { super::$test(thalweg_io::ReceiveMethod::Ring); })*
        }
    };
}
use over_every_method;

pub(super) fn pool() -> PacketPool {
    PacketPool::with_capacity(256, 2048)
}

pub(super) fn frame(len_bytes: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len_bytes).map(|n| (n * 7 + len_bytes) as u8).collect();
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8]);
    frame[12..14].copy_from_slice(&EXPERIMENTAL);
    frame
}

/// Waits until a descriptor is readable or the time has passed.
pub(super) fn wait(descriptors: &[BorrowedFd<'_>]) {
    let mut list: Vec<_> = descriptors
        .iter()
        .map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN))
        .collect();
    let timeout = Timespec::try_from(Duration::from_millis(50)).unwrap();
    poll(&mut list, Some(&timeout)).unwrap();
}

/// Whether a worker that sleeps on this port would wake up.
pub(super) fn is_ready(port: &dyn Port) -> bool {
    let descriptor = port.descriptor().unwrap();
    let mut list = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    poll(&mut list, Some(&Timespec::default())).unwrap() > 0
}

/// Receives until `count` frames have come.
pub(super) fn receive(port: &mut dyn Port, pool: &mut PacketPool, count: usize) -> Vec<Vec<u8>> {
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

pub(super) fn send(port: &mut dyn Port, pool: &mut PacketPool, frames: &[Vec<u8>]) {
    let mut burst = Vec::new();
    for frame in frames {
        let mut packet = pool.take().expect("the pool is large enough");
        packet.fill(frame);
        burst.push(packet);
    }
    port.send(pool, &mut burst);
    assert!(burst.is_empty());
}

pub(super) fn drops(counters: &PortCounters) -> Vec<(DropReason, u64)> {
    counters.drops.iter().collect()
}

pub(super) fn af_packet(
    namespace: &Namespace,
    interface: &str,
    method: ReceiveMethod,
) -> AfPacketPort {
    namespace.enter(|| AfPacketPort::open(PortId(7), interface, method).unwrap())
}

/// The folded sum of 16-bit words: a second, plain RFC 1071.
pub(super) fn sum(parts: &[&[u8]]) -> u16 {
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

/// Whether an untagged TCP or UDP frame has a transport checksum, and a correct one.
pub(super) fn is_checksum_right(frame: &[u8]) -> bool {
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
