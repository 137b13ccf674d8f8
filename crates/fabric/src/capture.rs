//! Captures the packets of a link in a file that other programs read.
//!
//! A run keeps a record for each packet that a watched port accepts
//! ([`crate::Simulation::watch`]). The caller takes the records and writes them
//! ([`CaptureWriter`]). A frame has the format of the links in SwitchV2P's published code: the
//! two bytes of PPP (RFC 1661) that ns-3's point-to-point links have, IPv4, and UDP to port
//! 667 with the tenant's IPv4 packet. If the run's outer headers leave no room for UDP, it is
//! IPv4 in IPv4. A control packet is UDP to port 333. Tags have no size in that code, so
//! frames omit them. Payloads are zeros.
//!
//! The time of a record is when the packet's first bit leaves. Records of one port are in
//! order.
//!
//! A frame is kept up to [`SNAP_BYTES`]; its record has the original length.

use std::io::Write;
use std::net::Ipv4Addr;

use pcap_file::pcap::{PcapHeader, PcapTsResolution, PcapWriteError, PcapWriter, RawPcapPacket};
use pcap_file::{DataLink, Endianness};
use thalweg_packet::wire::{IpProtocol, PacketBuilder, TcpFlags};
use thalweg_v2p::{Address, Body, Packet};

use crate::Time;
use crate::id::PortId;
use crate::tcp::{Segment, TcpConfig, Towards};

/// The kept length of a frame.
pub const SNAP_BYTES: usize = 192;

/// PPP's protocol number of IPv4.
const PPP_IPV4: [u8; 2] = [0x00, 0x21];
const IPV4_BYTES: u32 = 20;
const UDP_BYTES: u32 = 8;
const TENANT_PORT: u16 = 667;
const CONTROL_PORT: u16 = 333;
/// The ports of tenants: the first dynamic one (RFC 6335 section 6), its offset by flow, and a
/// fixed one.
const FIRST_SOURCE_PORT: u16 = 49_152;
const SOURCE_PORTS: u32 = 16_384;
const SERVICE_PORT: u16 = 5_001;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
const PICOS_PER_NANO: u64 = 1_000;

/// A packet that a watched port accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Captured {
    /// The time at which its first bit left.
    pub at: Time,
    /// The port.
    pub port: PortId,
    /// The frame, up to [`SNAP_BYTES`].
    pub frame: Vec<u8>,
    /// The original length.
    pub wire_bytes: u32,
}

/// The sequence and acknowledgment numbers to write for a TCP segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
}

/// The content of a frame apart from its addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    /// A tenant's datagram, or a control packet.
    Datagram,
    /// A segment, with its numbers.
    Segment(&'a Segment, Numbers, &'a TcpConfig),
}

/// Makes a frame of `wire_bytes` bytes, of which `outer_bytes` are outer headers.
pub(crate) fn frame_of(
    packet: &Packet,
    content: Content<'_>,
    wire_bytes: u32,
    outer_bytes: u32,
) -> Vec<u8> {
    let has_udp = outer_bytes >= PPP_IPV4.len() as u32 + IPV4_BYTES + UDP_BYTES;
    let inner_bytes = wire_bytes.saturating_sub(outer_bytes);
    let inner = inner_of(packet, content, inner_bytes);
    let (from, to) = (ipv4(packet.outer_source), ipv4(packet.outer_destination));
    let outer = PacketBuilder::new().ipv4(from, to).ttl(packet.ttl);
    let outer = match (packet.body, has_udp) {
        (Body::Data(_), true) => outer.udp(TENANT_PORT, TENANT_PORT),
        (Body::Data(_), false) => outer.protocol(IpProtocol::IPV4),
        _ => outer.udp(CONTROL_PORT, CONTROL_PORT),
    };
    [&PPP_IPV4[..], &outer.payload(&inner).build()].concat()
}

fn inner_of(packet: &Packet, content: Content<'_>, bytes: u32) -> Vec<u8> {
    let Body::Data(data) = packet.body else {
        return vec![0; bytes as usize];
    };
    let addresses = (ipv4(data.inner_source), ipv4(data.inner_destination));
    let client_port = FIRST_SOURCE_PORT + (packet.flow % SOURCE_PORTS) as u16;
    let inner = PacketBuilder::new().ipv4(addresses.0, addresses.1);
    match content {
        Content::Datagram => {
            let payload = vec![0; bytes.saturating_sub(IPV4_BYTES + UDP_BYTES) as usize];
            let inner = inner.udp(client_port, SERVICE_PORT);
            inner.payload(&payload).build()
        }
        Content::Segment(segment, numbers, config) => {
            let (from, to) = match segment.towards {
                Towards::Receiver => (client_port, SERVICE_PORT),
                Towards::Sender => (SERVICE_PORT, client_port),
            };
            let shift = window_shift(config.buffer_bytes);
            let window = if segment.is_syn {
                u32::from(u16::MAX)
            } else {
                config.buffer_bytes >> shift
            };
            inner
                .tcp(from, to)
                .tcp_flags(flags_of(segment))
                .tcp_numbers(numbers.sequence, numbers.acknowledgment)
                .tcp_window(window.min(u32::from(u16::MAX)) as u16)
                .tcp_options(&options_of(segment, config, shift))
                .payload(&vec![0; segment.payload_bytes as usize])
                .build()
        }
    }
}

fn flags_of(segment: &Segment) -> TcpFlags {
    let is_opening = segment.is_syn && segment.towards == Towards::Receiver;
    let set = [
        (segment.is_syn, TcpFlags::SYN),
        (segment.is_fin, TcpFlags::FIN),
        (segment.has_echo, TcpFlags::ECE),
        (!is_opening, TcpFlags::ACK),
    ];
    let set = set.into_iter().filter(|(is_set, _)| *is_set);
    TcpFlags(set.fold(0, |flags, (_, flag)| flags | flag.0))
}

/// Options: timestamps (RFC 7323); on a SYN window scale and SACK permitted, otherwise SACK
/// (RFC 2018).
fn options_of(segment: &Segment, config: &TcpConfig, shift: u8) -> Vec<u8> {
    let mut bytes = vec![8, 10];
    bytes.extend(segment.timestamp.to_be_bytes());
    bytes.extend(segment.timestamp_echo.to_be_bytes());
    if segment.is_syn {
        bytes.extend([3, 3, shift, 4, 2]);
    } else if segment.block_count > 0 {
        bytes.extend([5, 2 + 8 * segment.block_count]);
        for block in segment.blocks() {
            for number in [block.start, block.end] {
                let sequence = number.wrapping_mul(config.segment_bytes).wrapping_add(1);
                bytes.extend(sequence.to_be_bytes());
            }
        }
    }
    // Pad to whole words with "no operation".
    bytes.resize(bytes.len().next_multiple_of(4), 1);
    bytes
}

/// The bits by which a window is shifted to fit (RFC 7323 section 2.3).
fn window_shift(bytes: u32) -> u8 {
    let bits = u32::BITS - bytes.leading_zeros();
    bits.saturating_sub(u16::BITS).min(14) as u8
}

fn ipv4(address: Address) -> Ipv4Addr {
    address.to_ipv4().unwrap_or(Ipv4Addr::UNSPECIFIED)
}

/// Writes captured packets as pcap, with times in nanoseconds.
///
/// ```
/// use thalweg_fabric::{CaptureWriter, Config, FatTree, NodeId, Placement, Scheme, Simulation};
/// use thalweg_fabric::{Time, TraceLine};
///
/// let shape = FatTree::leaf_spine(2, 2, 2, 1);
/// let config = Config::artifact(shape, Placement::even(4, 4), Scheme::Direct);
/// let line = TraceLine { source: 0, destination: 3, start: Time::ZERO, flow: 1, bytes: 64 };
/// let mut run = Simulation::new(&config, &[line]).unwrap();
/// let server = run.topology().servers()[0];
/// let port = run.topology().ports(server).next().unwrap();
/// run.watch(port);
/// let mut writer = CaptureWriter::new(Vec::new()).unwrap();
/// while run.step() {
///     while let Some(captured) = run.poll_captured() {
///         writer.write(&captured).unwrap();
///     }
/// }
/// assert_eq!(writer.packets(), 1);
/// ```
#[derive(Debug)]
pub struct CaptureWriter<W: Write> {
    writer: PcapWriter<W>,
    packets: u64,
}

impl<W: Write> CaptureWriter<W> {
    /// Writes the header of a capture. Wrap a file in a [`std::io::BufWriter`].
    ///
    /// # Errors
    /// If `writer` fails.
    pub fn new(writer: W) -> std::io::Result<CaptureWriter<W>> {
        let header = PcapHeader {
            snaplen: SNAP_BYTES as u32,
            datalink: DataLink::PPP,
            ts_resolution: PcapTsResolution::NanoSecond,
            endianness: Endianness::native(),
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(writer, header).map_err(failed)?;
        Ok(CaptureWriter { writer, packets: 0 })
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn write(&mut self, captured: &Captured) -> std::io::Result<()> {
        let nanos = captured.at.as_picos() / PICOS_PER_NANO;
        let packet = RawPcapPacket {
            ts_sec: u32::try_from(nanos / NANOS_PER_SECOND).unwrap_or(u32::MAX),
            ts_frac: (nanos % NANOS_PER_SECOND) as u32,
            incl_len: captured.frame.len() as u32,
            orig_len: captured.wire_bytes,
            data: captured.frame.as_slice().into(),
        };
        self.writer.write_raw_packet(&packet).map_err(failed)?;
        self.packets += 1;
        Ok(())
    }

    /// Packets written.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// If buffered data cannot be written.
    pub fn finish(self) -> std::io::Result<W> {
        let mut writer = self.writer.into_inner();
        writer.flush()?;
        Ok(writer)
    }
}

fn failed(error: PcapWriteError) -> std::io::Error {
    std::io::Error::other(error)
}
