//! Sockets that carry tunnels: UDP, and raw IP for GRE. `udp(7)`, `raw(7)`, `ip(7)`, `ipv6(7)`.
//!
//! A datagram comes with what its IP header said: both addresses, type of service and time to
//! live, as control messages. They are asked for in the same way when a datagram is sent. The
//! messages are written and read as bytes, by the kernel's layout of `struct cmsghdr`.

use std::io;
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use thalweg_packet::Packet;

use super::{Overflow, check, const_vector, option, set_option, socket, vector};
use crate::BURST;

/// Bytes of queued datagrams (and their bookkeeping) that the kernel may hold, each way.
const QUEUE_BYTES: libc::c_int = 8 << 20;

/// `SO_MEMINFO` of `asm-generic/socket.h`, and the place of the count of drops in its answer.
const SO_MEMINFO: libc::c_int = 55;
const MEMINFO_WORDS: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// `UDP_NO_CHECK6_RX` of `linux/udp.h`.
const UDP_NO_CHECK6_RX: libc::c_int = 102;

/// Room for all control messages of a datagram.
const CONTROL_BYTES: usize = 160;

/// The most datagrams that one message stands for: `UDP_MAX_SEGMENTS` of older kernels.
pub(crate) const SEGMENTS_MAX: usize = 64;
/// The most bytes of such a message: those of a datagram over IPv4, less some for IP options.
pub(crate) const SEGMENTS_BYTES_MAX: usize = 65_000;

/// The length of `struct cmsghdr`: a length, a level and a type.
const CONTROL_HEADER_BYTES: usize = size_of::<usize>() + 8;

/// The family of a socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum IpFamily {
    V4,
    V6,
}

impl IpFamily {
    pub(crate) const ALL: [IpFamily; 2] = [IpFamily::V4, IpFamily::V6];

    pub(crate) fn of(address: IpAddr) -> IpFamily {
        match address {
            IpAddr::V4(_) => IpFamily::V4,
            IpAddr::V6(_) => IpFamily::V6,
        }
    }

    fn domain(self) -> i32 {
        match self {
            IpFamily::V4 => libc::AF_INET,
            IpFamily::V6 => libc::AF_INET6,
        }
    }
}

/// What carries a tunnel's header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Carrier {
    Udp,
    Gre,
}

/// What the IP header of a received datagram said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    /// The length; it exceeds the packet's room if the datagram continues in the overflow area.
    pub(crate) len_bytes: usize,
    pub(crate) source: SocketAddr,
    /// `None` if the kernel did not say it.
    pub(crate) destination: Option<IpAddr>,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    /// The length of each datagram but the last if this stands for several (`UDP_GRO`); else 0.
    pub(crate) segment_bytes: usize,
    /// The datagram was longer than all room.
    pub(crate) is_cut: bool,
}

impl Datagram {
    pub(crate) const EMPTY: Datagram = Datagram {
        len_bytes: 0,
        source: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        destination: None,
        tos: 0,
        ttl: 0,
        segment_bytes: 0,
        is_cut: false,
    };
}

/// What the IP header of a datagram to be sent shall say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Departure {
    pub(crate) destination: SocketAddr,
    /// `None` leaves the choice to the kernel's routes.
    pub(crate) source: Option<IpAddr>,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    /// The mark by which the kernel routes it.
    pub(crate) mark: Option<u32>,
}

/// A non-blocking socket.
#[derive(Debug)]
pub(crate) struct DatagramSocket {
    descriptor: OwnedFd,
    family: IpFamily,
}

impl DatagramSocket {
    /// A socket that receives datagrams to a UDP port of this host, or all GRE (`port` is 0).
    pub(crate) fn for_receiving(
        family: IpFamily,
        carrier: Carrier,
        port: u16,
    ) -> io::Result<DatagramSocket> {
        let socket = DatagramSocket::new(family, carrier)?;
        for (force, plain) in [
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        ] {
            let descriptor = &socket.descriptor;
            set_option(descriptor, libc::SOL_SOCKET, force, &QUEUE_BYTES)
                .or_else(|_| set_option(descriptor, libc::SOL_SOCKET, plain, &QUEUE_BYTES))?;
        }
        let (level, options) = match family {
            IpFamily::V4 => (
                libc::IPPROTO_IP,
                [libc::IP_PKTINFO, libc::IP_RECVTOS, libc::IP_RECVTTL],
            ),
            IpFamily::V6 => (
                libc::IPPROTO_IPV6,
                [
                    libc::IPV6_RECVPKTINFO,
                    libc::IPV6_RECVTCLASS,
                    libc::IPV6_RECVHOPLIMIT,
                ],
            ),
        };
        for option in options {
            set_option(&socket.descriptor, level, option, &1_i32)?;
        }
        if carrier == Carrier::Udp {
            // A kernel that does not know it gives each datagram alone.
            let _ = set_option(&socket.descriptor, libc::SOL_UDP, libc::UDP_GRO, &1_i32);
        }
        if (family, carrier) == (IpFamily::V6, Carrier::Udp) {
            // RFC 6935: tunnels may go without a checksum.
            let level = libc::IPPROTO_UDP;
            set_option(&socket.descriptor, level, UDP_NO_CHECK6_RX, &1_i32)?;
        }
        let any = match family {
            IpFamily::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpFamily::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        rustix::net::bind(&socket.descriptor, &SocketAddr::new(any, port))?;
        Ok(socket)
    }

    /// A socket that sends, from a port that the kernel chooses for it.
    pub(crate) fn for_sending(
        family: IpFamily,
        carrier: Carrier,
        dont_fragment: bool,
        has_checksum: bool,
    ) -> io::Result<DatagramSocket> {
        let socket = DatagramSocket::new(family, carrier)?;
        let descriptor = &socket.descriptor;
        // Nothing is read from it, so nothing may gather there.
        set_option(descriptor, libc::SOL_SOCKET, libc::SO_RCVBUF, &0_i32)?;
        set_option(descriptor, libc::SOL_SOCKET, libc::SO_SNDBUF, &QUEUE_BYTES)?;
        let (level, option) = match family {
            IpFamily::V4 => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            IpFamily::V6 => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
        };
        let discovery = match dont_fragment {
            true => libc::IP_PMTUDISC_DO,
            false => libc::IP_PMTUDISC_DONT,
        };
        set_option(descriptor, level, option, &discovery)?;
        // Over IPv6 there always is a checksum.
        if (family, carrier, has_checksum) == (IpFamily::V4, Carrier::Udp, false) {
            set_option(descriptor, libc::SOL_SOCKET, libc::SO_NO_CHECK, &1_i32)?;
        }
        Ok(socket)
    }

    fn new(family: IpFamily, carrier: Carrier) -> io::Result<DatagramSocket> {
        let (kind, protocol) = match carrier {
            Carrier::Udp => (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
            Carrier::Gre => (libc::SOCK_RAW, libc::IPPROTO_GRE),
        };
        let descriptor = socket(family.domain(), kind, protocol)?;
        if (family, carrier) == (IpFamily::V6, Carrier::Udp) {
            let level = libc::IPPROTO_IPV6;
            set_option(&descriptor, level, libc::IPV6_V6ONLY, &1_i32)?;
        }
        Ok(DatagramSocket { descriptor, family })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The number of datagrams that the kernel dropped for lack of room, since the beginning.
    pub(crate) fn dropped(&self) -> u64 {
        let words = [0_u32; MEMINFO_WORDS];
        let words = option(&self.descriptor, libc::SOL_SOCKET, SO_MEMINFO, words);
        words.map_or(0, |words| u64::from(words[MEMINFO_DROPS]))
    }

    /// Receives up to one datagram into the receive area of each packet; returns the number.
    pub(crate) fn receive(
        &self,
        packets: &mut [Packet],
        overflow: &mut Overflow,
        datagrams: &mut [Datagram; BURST],
    ) -> io::Result<usize> {
        // SAFETY: zeros are a value of these structures of the C library (1).
        let (mut messages, mut vectors, mut sources): (
            [libc::mmsghdr; BURST],
            [[libc::iovec; 2]; BURST],
            [libc::sockaddr_in6; BURST],
        ) = unsafe { (zeroed(), zeroed(), zeroed()) };
        let mut controls = [Control::EMPTY; BURST];
        let count = packets.len().min(BURST);
        let parts = packets.iter_mut().zip(overflow.parts());
        for (index, (packet, overflow)) in parts.enumerate().take(count) {
            vectors[index] = [vector(packet.receive_area()), vector(overflow)];
            let header = &mut messages[index].msg_hdr;
            header.msg_iov = vectors[index].as_mut_ptr();
            header.msg_iovlen = vectors[index].len() as _;
            header.msg_name = std::ptr::from_mut(&mut sources[index]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in6>() as u32;
            header.msg_control = controls[index].bytes.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES as _;
        }
        // SAFETY: the first `count` messages point to parts of the arrays above, to the packets'
        // storage and to the overflow area, with their sizes. Each part is in one message only.
        // All of them are borrowed mutably until the end of this function (2), and nothing moves
        // them in between.
        let arrived = unsafe {
            libc::recvmmsg(
                self.descriptor.as_raw_fd(),
                messages.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        check(arrived)?;
        for (index, message) in messages[..arrived as usize].iter().enumerate() {
            let control = &mut controls[index];
            control.len = message.msg_hdr.msg_controllen.min(CONTROL_BYTES);
            datagrams[index] = Datagram {
                len_bytes: message.msg_len as usize,
                source: address_of(&sources[index], self.family),
                is_cut: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                ..control.datagram()
            };
        }
        Ok(arrived as usize)
    }

    /// Sends datagrams in order until one is refused; returns the number sent.
    ///
    /// An error means that the first was refused.
    pub(crate) fn send(&self, datagrams: &[(&[u8], Departure)]) -> io::Result<usize> {
        // SAFETY: zeros are a value of these structures of the C library (1).
        let (mut messages, mut vectors): ([libc::mmsghdr; BURST], [libc::iovec; BURST]) =
            unsafe { (zeroed(), zeroed()) };
        let mut controls = [Control::EMPTY; BURST];
        // SAFETY: zeros are a value of this structure (1).
        let mut destinations: [libc::sockaddr_in6; BURST] = unsafe { zeroed() };
        let count = datagrams.len().min(BURST);
        for (index, (bytes, departure)) in datagrams[..count].iter().enumerate() {
            controls[index].ask_for(departure, self.family);
            destinations[index] = address_for(departure.destination);
            vectors[index] = const_vector(bytes);
            let header = &mut messages[index].msg_hdr;
            header.msg_iov = &raw mut vectors[index];
            header.msg_iovlen = 1;
            header.msg_name = std::ptr::from_mut(&mut destinations[index]).cast();
            header.msg_namelen = name_bytes(self.family);
            header.msg_control = controls[index].bytes.as_mut_ptr().cast();
            header.msg_controllen = controls[index].len as _;
        }
        // SAFETY: the first `count` messages point to the arrays above with their sizes, and the
        // vectors to the datagrams, which are borrowed until the call returns (2). It reads
        // them, and writes only `msg_len` of each message.
        let sent = unsafe {
            libc::sendmmsg(
                self.descriptor.as_raw_fd(),
                messages.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT,
            )
        };
        check(sent)?;
        Ok(sent as usize)
    }

    /// Sends datagrams to one place as one message, which the kernel or the card cuts
    /// (`UDP_SEGMENT`); all but the last have one length. At most [`SEGMENTS_MAX`] and
    /// [`SEGMENTS_BYTES_MAX`], and by a socket that writes checksums.
    pub(crate) fn send_segments(
        &self,
        segments: &[&[u8]],
        departure: &Departure,
    ) -> io::Result<()> {
        let mut control = Control::EMPTY;
        control.ask_for(departure, self.family);
        let each = segments.first().map_or(0, |first| first.len()) as u16;
        control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &each.to_ne_bytes());
        // SAFETY: zeros are a value of these structures of the C library (1).
        let (mut header, mut vectors): (libc::msghdr, [libc::iovec; SEGMENTS_MAX]) =
            unsafe { (zeroed(), zeroed()) };
        let count = segments.len().min(SEGMENTS_MAX);
        for (vector, bytes) in vectors.iter_mut().zip(segments) {
            *vector = const_vector(bytes);
        }
        let mut destination = address_for(departure.destination);
        header.msg_iov = vectors.as_mut_ptr();
        header.msg_iovlen = count as _;
        header.msg_name = std::ptr::from_mut(&mut destination).cast();
        header.msg_namelen = name_bytes(self.family);
        header.msg_control = control.bytes.as_mut_ptr().cast();
        header.msg_controllen = control.len as _;
        // SAFETY: the header points to the arrays above with their sizes, and `count` of the
        // vectors to the segments, which are borrowed until the call returns (2). It only reads.
        let sent = unsafe {
            libc::sendmsg(
                self.descriptor.as_raw_fd(),
                &raw const header,
                libc::MSG_DONTWAIT,
            )
        };
        match sent {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// The length of an address of a family, as the kernel wants it.
fn name_bytes(family: IpFamily) -> u32 {
    match family {
        IpFamily::V4 => size_of::<libc::sockaddr_in>() as u32,
        IpFamily::V6 => size_of::<libc::sockaddr_in6>() as u32,
    }
}

/// The address in a structure that has room for both families. Port and family are at the same
/// place in both; an IPv4 address lies where IPv6 has its flow label.
fn address_of(address: &libc::sockaddr_in6, family: IpFamily) -> SocketAddr {
    let ip = match family {
        IpFamily::V4 => IpAddr::from(address.sin6_flowinfo.to_ne_bytes()),
        IpFamily::V6 => IpAddr::from(address.sin6_addr.s6_addr),
    };
    SocketAddr::new(ip, u16::from_be(address.sin6_port))
}

/// The reverse of [`address_of`].
fn address_for(address: SocketAddr) -> libc::sockaddr_in6 {
    // SAFETY: zeros are a value of this structure (1).
    let mut filled: libc::sockaddr_in6 = unsafe { zeroed() };
    filled.sin6_port = address.port().to_be();
    match address.ip() {
        IpAddr::V4(ip) => {
            filled.sin6_family = libc::AF_INET as u16;
            filled.sin6_flowinfo = u32::from_ne_bytes(ip.octets());
        }
        IpAddr::V6(ip) => {
            filled.sin6_family = libc::AF_INET6 as u16;
            filled.sin6_addr.s6_addr = ip.octets();
        }
    }
    filled
}

/// Control messages, one behind the other.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control {
    bytes: [u8; CONTROL_BYTES],
    len: usize,
}

impl Control {
    const EMPTY: Control = Control {
        bytes: [0; CONTROL_BYTES],
        len: 0,
    };

    /// Adds a message.
    fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let len = CONTROL_HEADER_BYTES + data.len();
        let message = &mut self.bytes[self.len..self.len + len];
        let (header, body) = message.split_at_mut(CONTROL_HEADER_BYTES);
        let (length, kinds) = header.split_at_mut(size_of::<usize>());
        length.copy_from_slice(&len.to_ne_bytes());
        kinds[..4].copy_from_slice(&level.to_ne_bytes());
        kinds[4..].copy_from_slice(&kind.to_ne_bytes());
        body.copy_from_slice(data);
        self.len += len.next_multiple_of(size_of::<usize>());
    }

    /// Asks for what a departure says.
    fn ask_for(&mut self, departure: &Departure, family: IpFamily) {
        let (tos, ttl) = (i32::from(departure.tos), i32::from(departure.ttl));
        let (level, tos_kind, ttl_kind) = match family {
            IpFamily::V4 => (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL),
            IpFamily::V6 => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT),
        };
        self.push(level, tos_kind, &tos.to_ne_bytes());
        self.push(level, ttl_kind, &ttl.to_ne_bytes());
        match departure.source {
            // `struct in_pktinfo`: the interface, the source, and what only received ones have.
            Some(IpAddr::V4(source)) => {
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&source.octets());
                self.push(level, libc::IP_PKTINFO, &info);
            }
            // `struct in6_pktinfo`: the source and the interface.
            Some(IpAddr::V6(source)) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&source.octets());
                self.push(level, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        if let Some(mark) = departure.mark {
            self.push(libc::SOL_SOCKET, libc::SO_MARK, &mark.to_ne_bytes());
        }
    }

    /// Reads the messages of a received datagram; those of other kinds are skipped.
    fn datagram(&self) -> Datagram {
        let mut datagram = Datagram::EMPTY;
        let mut rest = &self.bytes[..self.len];
        while let Some((length, after)) = rest.split_first_chunk::<{ size_of::<usize>() }>() {
            let len = usize::from_ne_bytes(*length);
            if len < CONTROL_HEADER_BYTES || len > rest.len() {
                break;
            }
            let word = |at: usize| i32::from_ne_bytes([0, 1, 2, 3].map(|byte| after[at + byte]));
            let data = &rest[CONTROL_HEADER_BYTES..len];
            match (word(0), word(4)) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    // The address in the header is behind the interface and the local address.
                    let address = data.get(8..12).and_then(|data| data.first_chunk::<4>());
                    datagram.destination = address.map(|address| IpAddr::from(*address));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let address = data.first_chunk::<16>();
                    datagram.destination = address.map(|address| IpAddr::from(*address));
                }
                // One byte for IPv4, an integer for IPv6.
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    datagram.tos = small(data);
                }
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    datagram.ttl = small(data);
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let length = data
                        .first_chunk::<4>()
                        .map_or(0, |word| i32::from_ne_bytes(*word));
                    datagram.segment_bytes = usize::try_from(length).unwrap_or(0);
                }
                _ => {}
            }
            rest = rest
                .get(len.next_multiple_of(size_of::<usize>())..)
                .unwrap_or_default();
        }
        datagram
    }
}

/// A number under 256, in one byte or in an integer.
fn small(data: &[u8]) -> u8 {
    match data.first_chunk::<4>() {
        Some(word) => i32::from_ne_bytes(*word) as u8,
        None => data.first().copied().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_carries_what_was_asked_for() {
        let cases: [(IpFamily, IpAddr); 2] = [
            (IpFamily::V4, "127.0.0.3".parse().unwrap()),
            (IpFamily::V6, "::1".parse().unwrap()),
        ];
        for (family, address) in cases {
            let receiver = DatagramSocket::for_receiving(family, Carrier::Udp, 0).unwrap();
            let bound = rustix::net::getsockname(receiver.descriptor()).unwrap();
            let port = SocketAddr::try_from(bound).unwrap().port();
            let sender = DatagramSocket::for_sending(family, Carrier::Udp, true, false).unwrap();
            let departure = Departure {
                destination: SocketAddr::new(address, port),
                source: Some(address),
                tos: 0x29,
                ttl: 9,
                mark: None,
            };
            let sent: [(&[u8], Departure); 2] = [(b"one", departure), (&[7; 3_000], departure)];
            assert_eq!(sender.send(&sent).unwrap(), 2);
            let mut packets = [0; 4].map(|_| Packet::with_capacity(2_048));
            let mut overflow = Overflow::new();
            let mut datagrams = [Datagram::EMPTY; BURST];
            let count = receiver.receive(&mut packets, &mut overflow, &mut datagrams);
            assert_eq!(count.unwrap(), 2);
            for datagram in &datagrams[..2] {
                assert_eq!(datagram.source.ip(), address);
                assert_ne!(datagram.source.port(), 0);
                assert_eq!(datagram.destination, Some(address));
                assert_eq!((datagram.tos, datagram.ttl), (0x29, 9));
            }
            assert_eq!(datagrams[0].len_bytes, 3);
            assert_eq!(&packets[0].receive_area()[..3], b"one");
            assert_eq!(datagrams[1].len_bytes, 3_000);
            assert_eq!(overflow.behind(1)[..3_000 - 2_048], [7; 3_000 - 2_048]);
            assert_eq!(receiver.dropped(), 0);
        }
    }

    #[test]
    fn no_bytes_make_the_control_messages_panic() {
        let mut random = 1_u32;
        for _ in 0..20_000 {
            let mut control = Control::EMPTY;
            control.len = CONTROL_BYTES;
            for byte in &mut control.bytes {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Small numbers are lengths, levels and kinds that mean something.
                *byte = if random >> 30 == 0 {
                    (random >> 24) as u8 & 63
                } else {
                    0
                };
            }
            control.bytes[..size_of::<usize>()].copy_from_slice(&28_usize.to_ne_bytes());
            let _ = control.datagram();
        }
        let mut control = Control::EMPTY;
        control.push(libc::IPPROTO_IP, libc::IP_TTL, &9_i32.to_ne_bytes());
        control.push(libc::IPPROTO_IP, libc::IP_TOS, &[5]);
        let read = control.datagram();
        assert_eq!((read.ttl, read.tos, read.destination), (9, 5, None));
    }
}
