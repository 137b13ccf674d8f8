//! Two tunnels of one host, each the other's end, exchange packets.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant as Clock};

use thalweg_io::{Port, TunnelDevice, TunnelDeviceSettings, TunnelHub, TunnelOpenError, TunnelWay};
use thalweg_packet::wire::{EtherType, IpProtocol, Ipv4Repr, UdpRepr};
use thalweg_packet::{Instant, Packet, PacketPool, PortId, TunnelValues};
use thalweg_tunnel::{TunnelPort, TunnelType};

/// The numbers of the two devices.
pub(crate) const ONE: PortId = PortId(1);
pub(crate) const OTHER: PortId = PortId(2);

/// Options of an interface.
pub(crate) type Options<'a> = &'a [(&'a str, &'a str)];

/// A UDP port that nothing uses.
pub(crate) fn free_port() -> u16 {
    let socket = UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"));
    socket.unwrap().local_addr().unwrap().port()
}

/// The settings of a device of this type with these options.
pub(crate) fn settings(
    number: PortId,
    tunnel_type: TunnelType,
    options: Options<'_>,
) -> TunnelDeviceSettings {
    let name = format!("t{number}");
    let parsed = TunnelPort::parse(&name, tunnel_type, options.iter().copied()).unwrap();
    assert_eq!(parsed.warnings, []);
    TunnelDeviceSettings {
        number,
        name,
        port: parsed.port,
        datapath_port: number.0,
        bridge: 0,
        way: TunnelWay::Sockets,
    }
}

/// Opens a device of this type with these options.
pub(crate) fn open(
    hub: &TunnelHub,
    number: PortId,
    tunnel_type: TunnelType,
    options: Options<'_>,
) -> Result<TunnelDevice, TunnelOpenError> {
    hub.open(settings(number, tunnel_type, options))
}

/// A frame with an IPv4 packet and a UDP source port.
pub(crate) fn frame(source_port: u16, len: usize) -> Vec<u8> {
    let udp = UdpRepr {
        source_port,
        destination_port: 7,
        payload_len: len - 42,
    };
    let ip = Ipv4Repr {
        dscp: 0,
        ecn: 0,
        identification: 7,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset_bytes: 0,
        ttl: 33,
        protocol: IpProtocol::UDP,
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
        options: &[],
        payload_len: len - 34,
    };
    let mut frame = vec![0; len];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 8]);
    frame[12..14].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
    ip.emit(&mut frame[14..34]);
    udp.emit(&mut frame[34..42]);
    for (index, byte) in frame[42..].iter_mut().enumerate() {
        *byte = (index * 7 + len) as u8;
    }
    frame
}

/// Sends a frame with these values.
pub(crate) fn send(device: &mut TunnelDevice, frames: &[Vec<u8>], values: &TunnelValues) {
    let mut pool = PacketPool::with_capacity(64, 2_048);
    let packets = frames.iter().map(|frame| {
        let mut packet = Packet::from_bytes(frame);
        packet.tunnel_mut().clone_from(values);
        packet
    });
    let mut burst = packets.collect();
    let before = device.counters();
    device.send(&mut pool, &mut burst);
    let after = device.counters();
    let sent = after.sent_packets - before.sent_packets;
    assert_eq!(
        sent,
        frames.len() as u64,
        "{:?}",
        after.drops.iter().collect::<Vec<_>>()
    );
}

/// Receives by any of the devices until `count` packets have come.
pub(crate) fn receive(devices: &mut [&mut TunnelDevice], count: usize) -> Vec<Packet> {
    let mut pool = PacketPool::with_capacity(64, 2_048);
    let (mut burst, start) = (Vec::new(), Clock::now());
    while burst.len() < count {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the packets arrive"
        );
        for device in devices.iter_mut() {
            device.receive(&mut pool, &mut burst, Instant::from_nanos(3));
        }
        std::thread::yield_now();
    }
    burst
}

/// The values of a packet whose outer addresses are these, with the usual time to live.
pub(crate) fn values_between(source: IpAddr, destination: IpAddr) -> TunnelValues {
    let mut values = TunnelValues::default();
    values.ttl = 64;
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            values.ipv4_source = source.into();
            values.ipv4_destination = destination.into();
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            values.ipv6_source = source.into();
            values.ipv6_destination = destination.into();
        }
        _ => panic!("both are of one family"),
    }
    values
}

/// A tunnel to be tried: its type, its options, and values that are carried.
pub(crate) struct Case<'a> {
    pub(crate) tunnel_type: TunnelType,
    pub(crate) options: Options<'a>,
    pub(crate) sent: TunnelValues,
    /// Turns the sent values into the arriving ones.
    pub(crate) arrives: fn(&mut TunnelValues),
    pub(crate) is_bare: bool,
}

/// Exchanges packets between two tunnels whose addresses and keys are fixed, in both directions,
/// and then from one that takes all from packets.
pub(crate) fn exchange(hub: &TunnelHub, case: &Case<'_>, addresses: [&str; 2]) {
    let pair = Pair {
        hub,
        case,
        port: free_port().to_string(),
        addresses,
    };
    pair.exchange_fixed();
    pair.exchange_by_packet();
}

/// The two ends of a case.
struct Pair<'a> {
    hub: &'a TunnelHub,
    case: &'a Case<'a>,
    port: String,
    addresses: [&'a str; 2],
}

/// A frame that fits, and one that is longer than a packet of the pool.
fn two_frames() -> [Vec<u8>; 2] {
    [frame(1, 60), frame(2, 3_000)]
}

impl Pair<'_> {
    fn open(&self, number: PortId, own: &[(&str, &str)]) -> TunnelDevice {
        let mut options = [self.case.options, own].concat();
        if self.case.tunnel_type.default_port().is_some() {
            options.push(("dst_port", &self.port));
        }
        open(self.hub, number, self.case.tunnel_type, &options).unwrap()
    }

    /// Values with the addresses of a packet from one end to the other.
    fn addressed(&self, from: &str, to: &str) -> TunnelValues {
        let parse = |text: &str| text.parse::<IpAddr>().unwrap();
        let addresses = values_between(parse(from), parse(to));
        let mut values = self.case.sent.clone();
        values.ttl = addresses.ttl;
        values.ipv4_source = addresses.ipv4_source;
        values.ipv4_destination = addresses.ipv4_destination;
        values.ipv6_source = addresses.ipv6_source;
        values.ipv6_destination = addresses.ipv6_destination;
        values
    }

    /// Checks packets of a port that came from one end to the other.
    fn check(&self, packets: &[Packet], number: PortId, id: u64, (from, to): (&str, &str)) {
        let mut values = self.addressed(from, to);
        values.id = id;
        (self.case.arrives)(&mut values);
        let arriving = two_frames().map(|mut frame| {
            if self.case.is_bare {
                frame[..12].fill(0);
            }
            frame
        });
        for packet in packets {
            assert_eq!(packet.in_port(), number);
            assert_eq!(packet.received_at(), Instant::from_nanos(3));
            assert_eq!(packet.tunnel(), Some(&values));
            assert!(arriving.iter().any(|frame| frame == packet.bytes()));
        }
    }

    fn exchange_fixed(&self) {
        let [one, other] = self.addresses;
        let ends = [("local_ip", one), ("remote_ip", other)];
        let ends_back = [("local_ip", other), ("remote_ip", one)];
        let keys = [("in_key", "7"), ("out_key", "9")];
        let keys_back = [("in_key", "9"), ("out_key", "7")];
        let mut first = self.open(ONE, &[ends, keys].concat());
        let mut second = self.open(OTHER, &[ends_back, keys_back].concat());
        send(&mut first, &two_frames(), &self.case.sent);
        let received = receive(&mut [&mut first, &mut second], 2);
        self.check(&received, OTHER, 9, (one, other));
        send(&mut second, &two_frames(), &self.case.sent);
        let received = receive(&mut [&mut first, &mut second], 2);
        self.check(&received, ONE, 7, (other, one));
        assert_eq!(second.counters().received_packets, 2);
    }

    fn exchange_by_packet(&self) {
        let [one, other] = self.addresses;
        let all = [("remote_ip", "flow"), ("local_ip", "flow"), ("key", "flow")];
        let ends_back = [("local_ip", other), ("remote_ip", one)];
        let key = [("key", "flow"), ("ttl", "64")];
        let mut first = self.open(ONE, &all);
        let mut second = self.open(OTHER, &[ends_back, key].concat());
        let mut values = self.addressed(one, other);
        values.ttl = self.case.sent.ttl;
        values.id = 0x3ff;
        send(&mut first, &two_frames(), &values);
        let received = receive(&mut [&mut first, &mut second], 2);
        self.check(&received, OTHER, 0x3ff, (one, other));
    }
}
