//! Packets of hostile tunnels, and the texts that configure tunnels.
//!
//! ```text
//!   input: a byte for the kind of tunnel, whose high bit says that checksums are made right, and
//!          the outer frame
//! ```
//!
//! 1. No bytes make decapsulation or the hash of a source port panic.
//! 2. A packet that is taken out lies in the outer one.
//! 3. It can be put in again, and is then read as the same.
//! 4. The options that a map understands are the same after they are written again.
//! 5. No text makes the parsers of options, routes and neighbours panic; what an interface's
//!    options say is printed as options that say the same.

use std::net::{IpAddr, Ipv4Addr};

use thalweg_packet::checksum::checksum;
use thalweg_packet::wire::MacAddress;
use thalweg_packet::{Headers, Instant, Packet};
use thalweg_tunnel::{
    Decapsulated, HeaderSettings, InnerType, InterfaceAddress, LinkAddresses, NeighborCache,
    OptionMap, OptionMapping, OuterHeader, ParsedTunnelPort, PerPacket, SourcePorts, TunnelContent,
    TunnelKind, TunnelMetadata, TunnelOptions, TunnelPort, TunnelRoutes, TunnelType, VxlanFlavour,
    decapsulate_frame, decapsulate_ip, decapsulate_payload, five_tuple_hash,
};

const LINK: LinkAddresses = LinkAddresses {
    source: MacAddress([2; 6]),
    destination: MacAddress([4; 6]),
};

/// Runs one input.
pub fn run(input: &[u8]) {
    let [first, frame @ ..] = input else {
        return;
    };
    let kind = TunnelKind::ALL[usize::from(first & 0x7f) % TunnelKind::ALL.len()];
    let mut frame = frame.to_vec();
    if first & 0x80 != 0 {
        repair(&mut frame);
    }
    let metadata = TunnelMetadata::default();
    for told in [
        decapsulate_frame(kind, &frame),
        decapsulate_ip(kind, &frame),
        decapsulate_payload(kind, &frame, metadata),
    ]
    .into_iter()
    .flatten()
    {
        put_in_again(kind, &told, &frame);
    }
    if let Ok(headers) = Headers::parse(&frame) {
        five_tuple_hash(&frame, &headers);
    }
    if let Ok(options) = TunnelOptions::parse(&frame) {
        map(&options);
    }
    if let Ok(text) = std::str::from_utf8(&input[1..]) {
        read_options(
            TunnelType::ALL[usize::from(*first) % TunnelType::ALL.len()],
            text,
        );
        read_commands(text);
    }
}

/// Reads words as options, `NAME=VALUE` each.
fn read_options(tunnel_type: TunnelType, text: &str) {
    let words = text.split_whitespace();
    let options = words.filter_map(|word| word.split_once('='));
    let Ok(ParsedTunnelPort { port, .. }) = TunnelPort::parse("t0", tunnel_type, options) else {
        return;
    };
    let options = port.options();
    // An ERSPAN port without a version prints one that is refused.
    if options.contains(&("erspan_ver", "0".to_owned())) {
        return;
    }
    // The extensions of VXLAN are not printed.
    let extensions = match port.extensions.flavour() {
        VxlanFlavour::GenericProtocol => Some(("exts", "gpe")),
        VxlanFlavour::GroupPolicy | VxlanFlavour::Plain => None,
    };
    let again = options.iter().map(|(name, value)| (*name, value.as_str()));
    let again = again.chain(extensions);
    let again = TunnelPort::parse("t0", tunnel_type, again).expect("options that were printed");
    assert_eq!(again.port.options(), options);
}

/// Reads words as the arguments of commands about routes and neighbours.
fn read_commands(text: &str) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let everywhere = InterfaceAddress {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        prefix_len: 0,
    };
    let mut routes = TunnelRoutes::default();
    if routes.add_command(&words, |_| vec![everywhere]).is_ok() {
        assert_eq!(routes.rows().count(), 1);
        assert!(routes.show_command().lines().count() == 2);
    }
    let _ = routes.lookup_command(&words);
    let _ = routes.delete_command(&words);
    let mut neighbors = NeighborCache::new(1);
    if let [bridge, address, mac] = words[..] {
        let is_set = neighbors.set_command([bridge, address, mac], Instant::ZERO);
        assert_eq!(neighbors.len(), usize::from(is_set.is_ok()));
    }
    let _ = neighbors.aging_command(words.first().copied(), Instant::ZERO);
    if let [least, most] = words[..] {
        SourcePorts::default().range_command(Some([least, most]));
    }
}

/// Makes the checksum of an IPv4 header right, and that of UDP absent.
fn repair(frame: &mut [u8]) {
    if let Some(header) = frame.get_mut(14..34) {
        header[10..12].fill(0);
        let sum = checksum(header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        let is_udp = header[9] == 17;
        if let (true, Some(sum)) = (is_udp, frame.get_mut(40..42)) {
            sum.fill(0);
        }
    }
}

fn put_in_again(kind: TunnelKind, told: &Decapsulated, frame: &[u8]) {
    let TunnelContent::Packet { range, inner } = &told.content else {
        return;
    };
    let packet = &frame[range.clone()];
    let kind = match (kind, inner) {
        (TunnelKind::Vxlan(_), InnerType::Bare(_)) => {
            TunnelKind::Vxlan(VxlanFlavour::GenericProtocol)
        }
        (kind, _) => kind,
    };
    let settings = HeaderSettings {
        has_sequence: false,
        may_omit_ipv6_checksum: true,
    };
    let header = OuterHeader::for_frame(kind, &told.metadata, LINK, *inner, settings)
        .expect("what came out of a tunnel can go into one");
    let mut outer = Packet::from_bytes(packet);
    let variable = PerPacket {
        source_port: told.metadata.source_port,
        ..PerPacket::default()
    };
    if header.push(&mut outer, variable).is_err() {
        assert!(packet.len() > 60_000, "a short packet fits");
        return;
    }
    let again = decapsulate_frame(kind, outer.bytes()).expect("a packet of our own");
    let TunnelContent::Packet { range, inner: kept } = again.content else {
        panic!("a packet became a message");
    };
    assert_eq!(&outer.bytes()[range], packet);
    assert_eq!(kept, *inner);
    let mut expected = told.metadata.clone();
    let mut read = again.metadata;
    if kind == TunnelKind::Gtpu {
        // A checksum is always sent, and flags of zero are not.
        read.flags = expected.flags;
        if expected.gtpu.flags == 0 {
            expected.gtpu.flags = read.gtpu.flags;
        }
    }
    assert_eq!(read, expected);
}

fn map(options: &TunnelOptions) {
    let mut map = OptionMap::default();
    for (index, option) in (0..).zip(options.iter()) {
        // Repeated options, and those past the space, stay without a field.
        let _ = map.add(&[OptionMapping {
            class: option.class,
            kind: option.kind,
            len_bytes: option.data.len() as u8,
            index,
        }]);
    }
    assert!(map.used_bytes() <= 256);
    if let Ok(values) = map.values_of(options) {
        let written = map.options_of(&values).expect("fewer than were read");
        assert_eq!(map.values_of(&written), Ok(values));
    }
}
