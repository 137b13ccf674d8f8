//! FTP and TFTP through `ct(commit,alg=...)`: payloads, numbers, and the announced connections.
//!
//! Every frame that leaves is read by a parser of others, which also computes its checksums.

mod loaded;

use std::net::{IpAddr, SocketAddr};

use etherparse::{NetSlice, SlicedPacket, TransportSlice, UdpHeader};
use thalweg_packet::wire::{MacAddress, PacketBuilder, TcpFlags};
use thalweg_packet::{Packet, PacketPool, PortId};
use thalweg_pipeline::{Outbox, Pipeline, forward};

const CLIENT: &str = "10.0.0.1:1000";
const PUBLIC: &str = "192.0.2.100:1000";
const SERVER: &str = "10.0.0.2:21";

const SYN_ACK: TcpFlags = TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0);

/// The client is at port 1, the server at port 2. The first packet of a related connection
/// leaves by port 3, the others by port 4.
fn rules(protocol: &str, commit: &str) -> String {
    format!(
        "\
table=0,{protocol},ct_state=-trk,actions=ct(table=1,nat)
table=1,priority=9,ct_state=+inv+trk,actions=drop
table=1,priority=8,ct_state=+new+rel+trk,{protocol},actions=ct(commit,nat),output:3
table=1,priority=8,ct_state=+est+rel+trk,actions=output:4
table=1,priority=7,ct_state=+new-rel+trk,in_port=1,{protocol},actions=ct(commit,{commit}),output:2
table=1,priority=7,ct_state=+est-rel+trk,in_port=1,actions=output:2
table=1,priority=7,ct_state=+est-rel+trk,in_port=2,actions=output:1"
    )
}

/// A segment or a datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    ends: [SocketAddr; 2],
    /// Sequence and acknowledgment; zero for UDP.
    numbers: (u32, u32),
    payload: String,
}

fn end(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

fn seen(from: &str, to: &str, numbers: (u32, u32), payload: &str) -> Seen {
    Seen {
        ends: [end(from), end(to)],
        numbers,
        payload: payload.to_owned(),
    }
}

fn ip([from, to]: [SocketAddr; 2]) -> PacketBuilder {
    let ethernet = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]));
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from, to),
        (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from, to),
        _ => panic!("ends of two families"),
    }
}

impl Seen {
    fn tcp(&self, flags: TcpFlags) -> Vec<u8> {
        let [from, to] = self.ends;
        ip(self.ends)
            .tcp(from.port(), to.port())
            .tcp_flags(flags)
            .tcp_numbers(self.numbers.0, self.numbers.1)
            .tcp_window(8_000)
            // No operation, twice: the payload follows options.
            .tcp_options(&[1, 1, 1, 1])
            .payload(self.payload.as_bytes())
            .pad_to(60)
            .build()
    }

    fn udp(&self) -> Vec<u8> {
        let [from, to] = self.ends;
        let builder = ip(self.ends).udp(from.port(), to.port());
        builder.payload(self.payload.as_bytes()).build()
    }

    /// Reads a frame; its lengths and checksums must be right.
    fn read(frame: &[u8]) -> Seen {
        let sliced = SlicedPacket::from_ethernet(frame).expect("a packet");
        let net = sliced.net.expect("IP");
        let addresses: [IpAddr; 2] = match &net {
            NetSlice::Ipv4(ip) => {
                let header = ip.header().to_header();
                assert_eq!(header.header_checksum, header.calc_header_checksum());
                let header = ip.header();
                [
                    header.source_addr().into(),
                    header.destination_addr().into(),
                ]
            }
            NetSlice::Ipv6(ip) => {
                let header = ip.header();
                [
                    header.source_addr().into(),
                    header.destination_addr().into(),
                ]
            }
            NetSlice::Arp(_) => panic!("no IP"),
        };
        let (ports, numbers, payload, checksums) = match sliced.transport.expect("a transport") {
            TransportSlice::Tcp(tcp) => {
                let header = tcp.to_header();
                let expected = match addresses {
                    [IpAddr::V4(from), IpAddr::V4(to)] => {
                        tcp.calc_checksum_ipv4(from.octets(), to.octets())
                    }
                    [IpAddr::V6(from), IpAddr::V6(to)] => {
                        tcp.calc_checksum_ipv6(from.octets(), to.octets())
                    }
                    _ => panic!("ends of two families"),
                };
                let numbers = (header.sequence_number, header.acknowledgment_number);
                let ports = [header.source_port, header.destination_port];
                let checksums = (header.checksum, expected.expect("not too long"));
                (ports, numbers, tcp.payload(), checksums)
            }
            TransportSlice::Udp(udp) => {
                let header: UdpHeader = udp.to_header();
                let [IpAddr::V4(from), IpAddr::V4(to)] = addresses else {
                    panic!("datagrams are of IPv4 here")
                };
                let (from, to) = (from.octets(), to.octets());
                let expected = header.calc_checksum_ipv4_raw(from, to, udp.payload());
                let ports = [header.source_port, header.destination_port];
                let checksums = (header.checksum, expected.expect("not too long"));
                (ports, (0, 0), udp.payload(), checksums)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(checksums.0, checksums.1, "the checksum of the transport");
        let [from, to] = [0, 1].map(|at| SocketAddr::new(addresses[at], ports[at]));
        Seen {
            ends: [from, to],
            numbers,
            payload: String::from_utf8_lossy(payload).into_owned(),
        }
    }
}

/// A pipeline with ports 1 to 4, and its connections.
struct Rig {
    pipeline: Pipeline,
    outbox: Outbox,
}

impl Rig {
    fn new(protocol: &str, commit: &str) -> Rig {
        let pipeline = loaded::pipeline(&rules(protocol, commit));
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        outbox.grows = true;
        Rig { pipeline, outbox }
    }

    /// What leaves of a frame that comes in by a port, and by which port.
    fn send(&mut self, port: u32, frame: &[u8]) -> Option<(u32, Seen)> {
        let mut packet = Packet::from_bytes(frame);
        packet.set_received(PortId(port), self.outbox.now);
        let version = self.pipeline.version();
        forward(&self.pipeline, version, packet, &mut self.outbox).expect("a frame");
        let (port, packet) = self.outbox.sent.pop()?;
        assert_eq!(self.outbox.sent.len(), 0);
        Some((port.0, Seen::read(packet.bytes())))
    }

    /// Sends a segment without flags but ACK.
    fn tcp(&mut self, port: u32, segment: &Seen) -> Option<(u32, Seen)> {
        self.send(port, &segment.tcp(TcpFlags::ACK))
    }

    /// Opens a connection from the client, which knows the server as `server`; both ends go on
    /// with 100. `outside` are the ends that the server knows.
    fn open(&mut self, client: &str, server: &str, outside: [&str; 2]) {
        let [from, to] = outside;
        let syn = seen(client, server, (99, 0), "").tcp(TcpFlags::SYN);
        let expected = seen(from, to, (99, 0), "");
        assert_eq!(self.send(1, &syn), Some((2, expected)));
        let syn_ack = seen(to, from, (99, 100), "").tcp(SYN_ACK);
        let expected = seen(server, client, (99, 100), "");
        assert_eq!(self.send(2, &syn_ack), Some((1, expected)));
    }

    /// Opens an announced connection from `port`: its first packet is related, then it is
    /// established. `inside` are the ends that the listener knows.
    fn data(&mut self, ports: [u32; 2], outside: [&str; 2], inside: [&str; 2]) {
        let syn = seen(outside[0], outside[1], (499, 0), "").tcp(TcpFlags::SYN);
        let expected = seen(inside[0], inside[1], (499, 0), "");
        assert_eq!(self.send(ports[0], &syn), Some((3, expected)));
        let syn_ack = seen(inside[1], inside[0], (799, 500), "").tcp(SYN_ACK);
        let expected = seen(outside[1], outside[0], (799, 500), "");
        assert_eq!(self.send(ports[1], &syn_ack), Some((4, expected)));
        let bytes = seen(outside[0], outside[1], (500, 800), "bytes");
        let expected = seen(inside[0], inside[1], (500, 800), "bytes");
        assert_eq!(self.tcp(ports[0], &bytes), Some((4, expected)));
    }
}

#[test]
fn an_active_client_behind_a_translation() {
    let mut rig = Rig::new("tcp", "alg=ftp,nat(src=192.0.2.100)");
    rig.open(CLIENT, SERVER, [PUBLIC, SERVER]);
    // Without an announcement nothing moves.
    let greeting = seen(SERVER, PUBLIC, (100, 100), "220 hello\r\n");
    let expected = seen(SERVER, CLIENT, (100, 100), "220 hello\r\n");
    assert_eq!(rig.tcp(2, &greeting), Some((1, expected)));

    let (inside, outside) = ("PORT 10,0,0,1,15,160\r\n", "PORT 192,0,2,100,15,160\r\n");
    for _ in 0..2 {
        let port = seen(CLIENT, SERVER, (100, 111), inside);
        let expected = seen(PUBLIC, SERVER, (100, 111), outside);
        assert_eq!(rig.tcp(1, &port), Some((2, expected)), "and sent again");
    }
    let answer = seen(SERVER, PUBLIC, (111, 125), "200 ok\r\n");
    let expected = seen(SERVER, CLIENT, (111, 122), "200 ok\r\n");
    assert_eq!(rig.tcp(2, &answer), Some((1, expected)));

    // A second one adds its own change.
    let (inside, outside) = ("port 10,0,0,1,0,9\r\n", "port 192,0,2,100,0,9\r\n");
    let port = seen(CLIENT, SERVER, (122, 119), inside);
    let expected = seen(PUBLIC, SERVER, (125, 119), outside);
    assert_eq!(rig.tcp(1, &port), Some((2, expected)));
    let answer = seen(SERVER, PUBLIC, (119, 147), "200 ok\r\n");
    let expected = seen(SERVER, CLIENT, (119, 141), "200 ok\r\n");
    assert_eq!(rig.tcp(2, &answer), Some((1, expected)));
    let list = seen(CLIENT, SERVER, (141, 127), "LIST\r\n");
    let expected = seen(PUBLIC, SERVER, (147, 127), "LIST\r\n");
    assert_eq!(rig.tcp(1, &list), Some((2, expected)));

    for port in [4000, 9] {
        let [public, client] = ["192.0.2.100", "10.0.0.1"].map(|ip| format!("{ip}:{port}"));
        let server = "10.0.0.2:20";
        rig.data([2, 1], [server, &public], [server, &client]);
    }
    let other = seen("10.0.0.2:20", "192.0.2.100:4001", (1, 0), "").tcp(TcpFlags::SYN);
    assert_eq!(rig.send(2, &other), None, "it was not announced");
    let counters = rig.outbox.connections.tracker().counters();
    assert_eq!(counters.announcements_rewritten, 3);
    assert_eq!((counters.expected, counters.expectations_refused), (3, 0));
}

#[test]
fn a_passive_server_behind_a_translation() {
    let mut rig = Rig::new("tcp", "alg=ftp,nat(dst=10.0.0.2)");
    rig.open(CLIENT, "192.0.2.100:21", [CLIENT, SERVER]);
    let inside = "227 Entering Passive Mode (10,0,0,2,156,64).\r\n";
    let outside = "227 Entering Passive Mode (192,0,2,100,156,64).\r\n";
    let answer = seen(SERVER, CLIENT, (100, 100), inside);
    let expected = seen("192.0.2.100:21", CLIENT, (100, 100), outside);
    assert_eq!(rig.tcp(2, &answer), Some((1, expected)));
    let [inside_end, outside_end] = [inside, outside].map(|text| 100 + text.len() as u32);
    let next = seen(
        CLIENT,
        "192.0.2.100:21",
        (100, outside_end),
        "RETR file\r\n",
    );
    let expected = seen(CLIENT, SERVER, (100, inside_end), "RETR file\r\n");
    assert_eq!(rig.tcp(1, &next), Some((2, expected)));
    let answer = seen(SERVER, CLIENT, (inside_end, 111), "150 ok\r\n");
    let expected = seen("192.0.2.100:21", CLIENT, (outside_end, 111), "150 ok\r\n");
    assert_eq!(rig.tcp(2, &answer), Some((1, expected)));
    let (client, listener) = ("10.0.0.1:5555", "10.0.0.2:40000");
    rig.data([1, 2], [client, "192.0.2.100:40000"], [client, listener]);
}

#[test]
fn an_extended_reply_names_no_address_and_stays() {
    let mut rig = Rig::new("tcp", "alg=ftp,nat(dst=10.0.0.2)");
    rig.open(CLIENT, "192.0.2.100:21", [CLIENT, SERVER]);
    let text = "229 Entering Extended Passive Mode (|||40000|)\r\n";
    let answer = seen(SERVER, CLIENT, (100, 100), text);
    let expected = seen("192.0.2.100:21", CLIENT, (100, 100), text);
    assert_eq!(rig.tcp(2, &answer), Some((1, expected)));
    let (client, listener) = ("10.0.0.1:5555", "10.0.0.2:40000");
    rig.data([1, 2], [client, "192.0.2.100:40000"], [client, listener]);
    let counters = rig.outbox.connections.tracker().counters();
    assert_eq!(
        (counters.expected, counters.announcements_rewritten),
        (1, 0)
    );
}

#[test]
fn an_active_client_of_ipv6() {
    let mut rig = Rig::new("tcp6", "alg=ftp,nat(src=2001:db8:1:2:3:4:5:6)");
    let (client, public) = ("[fc00::1]:1000", "[2001:db8:1:2:3:4:5:6]:1000");
    let server = "[fc00::2]:21";
    rig.open(client, server, [public, server]);
    let inside = "EPRT |2|fc00::1|4000|\r\n";
    let outside = "EPRT |2|2001:db8:1:2:3:4:5:6|4000|\r\n";
    let port = seen(client, server, (100, 100), inside);
    let expected = seen(public, server, (100, 100), outside);
    assert_eq!(rig.tcp(1, &port), Some((2, expected)));
    let [inside_end, outside_end] = [inside, outside].map(|text| 100 + text.len() as u32);
    let answer = seen(server, public, (100, outside_end), "200 ok\r\n");
    let expected = seen(server, client, (100, inside_end), "200 ok\r\n");
    assert_eq!(rig.tcp(2, &answer), Some((1, expected)));
    let outside = ["[fc00::2]:20", "[2001:db8:1:2:3:4:5:6]:4000"];
    rig.data([2, 1], outside, ["[fc00::2]:20", "[fc00::1]:4000"]);
}

#[test]
fn connections_without_translation_are_related_and_keep_their_bytes() {
    let mut rig = Rig::new("tcp", "alg=ftp");
    rig.open(CLIENT, SERVER, [CLIENT, SERVER]);
    let port = seen(CLIENT, SERVER, (100, 100), "PORT 10,0,0,1,15,160\r\n");
    assert_eq!(rig.tcp(1, &port), Some((2, port.clone())));
    let passive = seen(SERVER, CLIENT, (100, 122), "227 ok 10,0,0,2,156,64 \r\n");
    assert_eq!(rig.tcp(2, &passive), Some((1, passive.clone())));
    let active = ["10.0.0.2:20", "10.0.0.1:4000"];
    rig.data([2, 1], active, active);
    let passive = ["10.0.0.1:5555", "10.0.0.2:40000"];
    rig.data([1, 2], passive, passive);
}

#[test]
fn an_announcement_of_a_third_host_is_invalid() {
    let mut rig = Rig::new("tcp", "alg=ftp,nat(src=192.0.2.100)");
    rig.open(CLIENT, SERVER, [PUBLIC, SERVER]);
    let port = seen(CLIENT, SERVER, (100, 100), "PORT 10,0,0,7,15,160\r\n");
    assert_eq!(rig.tcp(1, &port), None);
    let counters = rig.outbox.connections.tracker().counters();
    assert_eq!((counters.bad_announcements, counters.expected), (1, 0));
}

#[test]
fn a_tftp_transfer_is_related_to_its_request() {
    for (commit, public) in [
        ("alg=tftp", "10.0.0.1:5000"),
        ("alg=tftp,nat(src=192.0.2.100:700-700)", "192.0.2.100:700"),
    ] {
        let mut rig = Rig::new("udp", commit);
        let (client, server) = ("10.0.0.1:5000", "10.0.0.2:69");
        let read = seen(client, server, (0, 0), "\0\x01file\0octet\0");
        let expected = seen(public, server, (0, 0), &read.payload);
        assert_eq!(rig.send(1, &read.udp()), Some((2, expected)));
        let block = seen("10.0.0.2:3333", public, (0, 0), "\0\x03\0\x01bytes");
        let expected = seen("10.0.0.2:3333", client, (0, 0), &block.payload);
        assert_eq!(rig.send(2, &block.udp()), Some((3, expected)));
        let taken = seen(client, "10.0.0.2:3333", (0, 0), "\0\x04\0\x01");
        let expected = seen(public, "10.0.0.2:3333", (0, 0), &taken.payload);
        assert_eq!(rig.send(1, &taken.udp()), Some((4, expected)));
    }
}
