//! The option and its packets: known bytes, round trips, and every refusal.

mod lab;

use lab::*;
use proptest::prelude::*;
use thalweg_packet::wire::{
    EtherType, GENEVE_PORT, GeneveOption, Ipv4View, Ipv6View, MacAddress, PacketBuilder, UdpView,
    WireError,
};
use thalweg_v2p::wire::*;
use thalweg_v2p::*;

fn ipv6(text: &str) -> Address {
    Address::new(text.parse().unwrap()).unwrap()
}

fn emitted(option: &OptionRepr) -> Vec<u8> {
    let mut bytes = vec![0xa5; option.buffer_len()];
    option.emit(&mut bytes);
    bytes
}

/// The example of `docs/v2p-wire-format.md`.
#[test]
fn the_bytes_are_those_of_the_document() {
    let tags = Tags {
        hit: Some(SwitchId(0x0102_0304)),
        source_version: MapVersion(5),
        resolved_version: MapVersion(6),
        origin: Some(address(10, 1, 2, 3)),
        misdelivery: Some(Stale {
            place: address(10, 1, 4, 1),
            version: MapVersion(6),
        }),
        carried: promoted(Mapping {
            key: Key {
                vni: Vni::new(0x0a0b0c).unwrap(),
                address: ipv6("fd00::1"),
            },
            place: address(10, 1, 9, 9),
            version: MapVersion(7),
        }),
    };
    #[rustfmt::skip]
    let expected = [
        1, 0, 0x04, 0x7f,
        1, 2, 3, 4,
        0, 0, 0, 0, 0, 0, 0, 5,
        0, 0, 0, 0, 0, 0, 0, 6,
        10, 1, 2, 3,
        10, 1, 4, 1, 0, 0, 0, 0, 0, 0, 0, 6,
        0x0a, 0x0b, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0, 7,
        0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 10, 1, 9, 9,
    ];
    assert_eq!(emitted(&OptionRepr::Data(tags)), expected);
    assert_eq!(OptionRepr::parse(&expected), Ok(OptionRepr::Data(tags)));

    let mapping = mapping(key(1), address(10, 1, 9, 9));
    #[rustfmt::skip]
    let mut expected = [
        1, 1, 0, 0x20,
        0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        10, 128, 0, 1, 10, 1, 9, 9,
    ];
    assert_eq!(emitted(&OptionRepr::Learning(mapping)), expected);
    expected[1] = 2;
    assert_eq!(emitted(&OptionRepr::Invalidation(mapping)), expected);
    assert_eq!(emitted(&OptionRepr::Data(Tags::default())), [1, 0, 0, 0]);
}

#[test]
fn the_longest_option_fits_and_the_bound_is_exact() {
    let place = ipv6("fd00::9");
    let version = MapVersion(1);
    let key = Key {
        vni: Vni::MAX,
        address: place,
    };
    let tags = Tags {
        hit: Some(SwitchId(u32::MAX)),
        source_version: version,
        resolved_version: version,
        origin: Some(place),
        misdelivery: Some(Stale { place, version }),
        carried: spilled(Mapping {
            key,
            place,
            version,
        }),
    };
    assert_eq!(OptionRepr::Data(tags).buffer_len(), OptionRepr::MAX_LEN);
    // Geneve's bound on the value of an option.
    const { assert!(OptionRepr::MAX_LEN <= 124) };
}

#[test]
fn each_malformation_has_its_error() {
    let good = emitted(&OptionRepr::Learning(mapping(key(1), address(10, 1, 9, 9))));
    let with = |index: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[index] = byte;
        OptionRepr::parse(&bytes)
    };
    assert_eq!(with(0, 2), Err(OptionError::UnknownFormat));
    assert_eq!(with(1, 3), Err(OptionError::UnknownKind));
    assert_eq!(with(2, 0x10), Err(OptionError::BadFlags), "a reserved flag");
    assert_eq!(
        with(3, 0x21),
        Err(OptionError::BadFlags),
        "a hit in a learning packet"
    );
    assert_eq!(
        with(3, 0x60),
        Err(OptionError::BadFlags),
        "a promotion in a learning packet"
    );
    assert_eq!(with(3, 0), Err(OptionError::NoMapping));
    assert_eq!(with(7, 1), Err(OptionError::ReservedByte));
    assert_eq!(
        OptionRepr::parse(&[&good[..], &[0; 4]].concat()),
        Err(OptionError::TrailingBytes)
    );
    for len in 0..good.len() {
        assert_eq!(
            OptionRepr::parse(&good[..len]),
            Err(OptionError::Truncated),
            "{len}"
        );
    }
    let data = |flags: [u8; 2], records: &[u8]| {
        OptionRepr::parse(&[&[1, 0], &flags[..], records].concat())
    };
    assert_eq!(data([0, 0x02], &[0; 8]), Err(OptionError::ZeroVersion));
    assert_eq!(data([0, 0x04], &[0; 8]), Err(OptionError::ZeroVersion));
    assert_eq!(data([0x01, 0x08], &[0; 16]), Err(OptionError::BadAddress));
    let disguised = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    assert_eq!(data([0x01, 0x08], &disguised), Err(OptionError::BadAddress));
    for stray in [[0x01, 0], [0x02, 0], [0x04, 0], [0x08, 0], [0, 0x40]] {
        assert_eq!(
            data(stray, &[0; 32]),
            Err(OptionError::BadFlags),
            "{stray:?}"
        );
    }
    assert_eq!(
        OptionRepr::parse(&[1, 2, 0, 0]),
        Err(OptionError::NoMapping)
    );
}

fn any_address() -> impl Strategy<Value = Address> {
    let ipv4 = any::<u32>().prop_map(|bits| Address::from_ipv4(bits.into()));
    prop_oneof![
        ipv4,
        (1..=u128::MAX).prop_filter_map("none", Address::from_bits)
    ]
}

fn any_mapping() -> impl Strategy<Value = Mapping> {
    let fields = (
        0..=0xff_ffff_u32,
        any_address(),
        any_address(),
        any::<u64>(),
    );
    fields.prop_map(|(vni, address, place, version)| {
        let key = Key {
            vni: Vni::new(vni).unwrap(),
            address,
        };
        Mapping {
            key,
            place,
            version: MapVersion(version),
        }
    })
}

fn any_tags() -> impl Strategy<Value = Tags> {
    let stale = (any_address(), any::<u64>());
    let stale = stale.prop_map(|(place, version)| Stale {
        place,
        version: MapVersion(version),
    });
    let carried = (any_mapping(), any::<bool>()).prop_map(|(mapping, is_promoted)| {
        let carried = if is_promoted {
            promoted(mapping)
        } else {
            spilled(mapping)
        };
        carried.unwrap()
    });
    let version = || prop_oneof![Just(0), any::<u64>()].prop_map(MapVersion);
    (
        prop::option::of(any::<u32>().prop_map(SwitchId)),
        version(),
        version(),
        prop::option::of(any_address()),
        prop::option::of(carried),
        prop::option::of(stale),
    )
        .prop_map(
            |(hit, source_version, resolved_version, origin, carried, misdelivery)| Tags {
                hit,
                source_version,
                resolved_version,
                origin,
                carried,
                misdelivery,
            },
        )
}

fn any_option() -> impl Strategy<Value = OptionRepr> {
    prop_oneof![
        any_tags().prop_map(OptionRepr::Data),
        any_mapping().prop_map(OptionRepr::Learning),
        any_mapping().prop_map(OptionRepr::Invalidation),
    ]
}

proptest! {
    #[test]
    fn options_come_back(option in any_option()) {
        let bytes = emitted(&option);
        prop_assert!(bytes.len().is_multiple_of(4) && bytes.len() <= OptionRepr::MAX_LEN);
        prop_assert_eq!(OptionRepr::parse(&bytes), Ok(option));
    }

    /// Each option has one encoding: accepted bytes are written back unchanged.
    #[test]
    fn bytes_come_back(option in any_option(), flips in prop::collection::vec(any::<u16>(), 0..3)) {
        let mut bytes = emitted(&option);
        let bits = 8 * bytes.len();
        for flip in flips {
            let bit = usize::from(flip) % bits;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if let Ok(option) = OptionRepr::parse(&bytes) {
            prop_assert_eq!(emitted(&option), bytes);
        }
    }

    #[test]
    fn packets_come_back(
        tags in any_tags(),
        outer in any::<[u32; 2]>(),
        is_ipv6 in any::<bool>(),
        header in any::<(u8, u16, u8)>(),
    ) {
        let frame = tenant_frame();
        let outer = outer.map(|bits| match is_ipv6 {
            false => Address::from_ipv4(bits.into()),
            true => Address::from_bits(0xfd00 << 112 | u128::from(bits)).unwrap(),
        });
        let mut sent = packet(key(1), outer[0], key(2), outer[1]);
        (sent.ttl, sent.flow) = (header.0, header.1.into());
        data_mut(&mut sent).tags = tags;
        let datagram = Datagram {
            traffic_class: header.2,
            payload: &frame,
            ..Datagram::control(sent)
        };
        let mut bytes = vec![0xa5; datagram.buffer_len() + 3];
        let len = datagram.emit(&mut bytes).unwrap();
        prop_assert_eq!(len, bytes.len() - 3);
        prop_assert_eq!(Datagram::parse(&bytes), Ok(datagram), "what pads it does not matter");
        for cut in 0..len {
            prop_assert!(Datagram::parse(&bytes[..cut]).is_err());
        }
    }
}

/// A frame from the machine 1 to the machine 2 of the tenant 7.
fn tenant_frame() -> Vec<u8> {
    let [source, destination] = [key(1), key(2)].map(|key| key.address.to_ipv4().unwrap());
    ethernet()
        .ipv4(source, destination)
        .udp(1, 2)
        .payload(b"inner")
        .build()
}

fn ethernet() -> PacketBuilder {
    PacketBuilder::ethernet(
        MacAddress([2, 0, 0, 0, 0, 1]),
        MacAddress([2, 0, 0, 0, 0, 2]),
    )
}

/// The outer headers, made by the packet crate's builder.
fn outer() -> PacketBuilder {
    let [source, destination] = [host(0, 0), gateway(0)].map(|host| host.to_ipv4().unwrap());
    ethernet().ipv4(source, destination).udp(777, GENEVE_PORT)
}

/// The IP packet of a frame.
fn ip(frame: PacketBuilder) -> Vec<u8> {
    frame.build()[14..].to_vec()
}

fn option_bytes(class: u16, kind: u8, data: &[u8]) -> Vec<u8> {
    let option = GeneveOption { class, kind, data };
    let mut bytes = vec![0; option.buffer_len()];
    option.emit(&mut bytes);
    bytes
}

fn ours(option: &OptionRepr) -> Vec<u8> {
    option_bytes(OPTION_CLASS, OPTION_TYPE, &emitted(option))
}

/// A Geneve packet over IPv4 with these options around the tenant's frame.
fn geneve(options: &[u8], is_control: bool) -> Vec<u8> {
    let mut bytes = vec![options.len() as u8 / 4, if is_control { 0x80 } else { 0 }];
    bytes.extend(EtherType::ETHERNET.0.to_be_bytes());
    bytes.extend([0, 0, 7, 0]);
    bytes.extend(options);
    bytes.extend(tenant_frame());
    ip(outer().payload(&bytes))
}

#[test]
fn a_packet_of_someone_else_is_read_and_ours_is_read_by_someone_else() {
    let bytes = ip(outer().geneve(7).encapsulating(
        ethernet()
            .vlan(5, 0)
            .ipv6("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()),
    ));
    let datagram = Datagram::parse(&bytes).unwrap();
    let packet = datagram.packet;
    assert_eq!(
        (packet.outer_source, packet.outer_destination),
        (host(0, 0), gateway(0))
    );
    assert_eq!((packet.flow, packet.ttl), (777, 64));
    let data = data(&packet);
    assert_eq!(
        (data.inner_source, data.inner_destination),
        (ipv6("fd00::1"), ipv6("fd00::2"))
    );
    assert_eq!((data.vni.number(), data.tags), (7, Tags::default()));

    let mut again = vec![0; datagram.buffer_len()];
    datagram.emit(&mut again).unwrap();
    assert_eq!(again.len(), bytes.len(), "an empty option is not written");
    let view = Ipv4View::new_checked(&again).unwrap();
    assert!(view.has_valid_checksum());
    let udp = UdpView::new_checked(view.payload()).unwrap();
    assert_eq!(
        (udp.source_port(), udp.destination_port()),
        (777, GENEVE_PORT)
    );
}

#[test]
fn options_of_others_stay_and_keep_their_order() {
    let (first, last) = (
        option_bytes(0x0102, 3, &[1; 4]),
        option_bytes(0x0103, 0x83, &[2; 8]),
    );
    let tags = Tags {
        hit: Some(SwitchId(3)),
        ..Tags::default()
    };
    let all = [&first[..], &ours(&OptionRepr::Data(tags)), &last].concat();
    let bytes = geneve(&all, false);
    let mut datagram = Datagram::parse(&bytes).unwrap();
    assert_eq!(
        (datagram.options_before, datagram.options_after),
        (&first[..], &last[..])
    );
    assert_eq!(data(&datagram.packet).tags, tags);
    data_mut(&mut datagram.packet).tags.carried = spilled(mapping(key(9), host(1, 1)));
    let mut again = vec![0; datagram.buffer_len()];
    datagram.emit(&mut again).unwrap();
    let read = Datagram::parse(&again).unwrap();
    assert_eq!(read.packet, datagram.packet);
    assert_eq!(read.options_before, [first, last].concat());
    assert_eq!(read.payload, tenant_frame());
}

#[test]
fn control_packets_come_back_over_both_families() {
    let mapping = mapping(key(1), ipv6("fd00::7"));
    for (source, destination) in [(host(0, 0), host(0, 1)), (ipv6("fd00::a"), ipv6("fd00::b"))] {
        for body in [Body::Learning(mapping), Body::Invalidation(mapping)] {
            let packet = Packet {
                outer_source: source,
                outer_destination: destination,
                ttl: INITIAL_TTL,
                flow: 0,
                body,
            };
            let mut bytes = vec![0; Datagram::control(packet).buffer_len()];
            Datagram::control(packet).emit(&mut bytes).unwrap();
            assert_eq!(Datagram::parse(&bytes).unwrap(), Datagram::control(packet));
            let sixth = bytes[0] >> 4 == 6;
            assert!(!sixth || Ipv6View::new_checked(&bytes).is_ok());
        }
    }
}

#[test]
fn each_packet_that_is_not_ours_has_its_error() {
    use DatagramError as E;
    let learning = OptionRepr::Learning(mapping(key(1), host(1, 1)));
    let foreign = OptionRepr::Learning(mapping(tenant_key(8, 1), host(1, 1)));
    let tags = OptionRepr::Data(Tags {
        hit: Some(SwitchId(3)),
        ..Tags::default()
    });
    let twice = [ours(&tags), ours(&tags)].concat();
    let malformed = option_bytes(OPTION_CLASS, OPTION_TYPE, &[9, 0, 0, 0]);
    let [a, b] = [host(0, 0), gateway(0)].map(|host| host.to_ipv4().unwrap());
    let mut bad_ip = geneve(&[], false);
    bad_ip[8] ^= 1;
    let mut bad_udp = geneve(&[], false);
    *bad_udp.last_mut().unwrap() ^= 1;
    let arp = ethernet().arp_request(MacAddress([2, 0, 0, 0, 0, 1]), a, b);
    let disguised = "::ffff:10.0.0.1".parse().unwrap();
    let disguised = ethernet().ipv6("fd00::1".parse().unwrap(), disguised);
    for (bytes, error) in [
        (vec![], E::Wire(WireError::Truncated)),
        (vec![0x50; 60], E::Wire(WireError::BadVersion)),
        (geneve(&twice, false), E::RepeatedOption),
        (
            geneve(&malformed, false),
            E::Option(OptionError::UnknownFormat),
        ),
        (geneve(&ours(&learning), false), E::ControlFlag),
        (geneve(&ours(&tags), true), E::ControlFlag),
        (geneve(&[], true), E::ControlFlag),
        (geneve(&ours(&foreign), true), E::ForeignNetwork),
        (bad_ip, E::BadChecksum),
        (bad_udp, E::BadChecksum),
        (ip(ethernet().ipv4(a, b).udp(1, 53)), E::NotGeneve),
        (ip(ethernet().ipv4(a, b).tcp(1, GENEVE_PORT)), E::NotGeneve),
        (
            ip(outer().geneve(7).encapsulating(arp)),
            E::NoInnerAddresses,
        ),
        (
            ip(outer().geneve(7).encapsulating(disguised)),
            E::NoInnerAddresses,
        ),
    ] {
        assert_eq!(
            Datagram::parse(&bytes).map(|datagram| datagram.packet),
            Err(error)
        );
    }
    assert!(Datagram::parse(&geneve(&ours(&learning), true)).is_ok());
}

#[test]
fn what_cannot_be_written_is_refused() {
    let frame = tenant_frame();
    let packet = packet(key(1), host(0, 0), key(2), gateway(0));
    let datagram = Datagram {
        payload: &frame,
        ..Datagram::control(packet)
    };
    let emit = |datagram: Datagram<'_>| datagram.emit(&mut vec![0; datagram.buffer_len()]);
    assert_eq!(emit(datagram), Ok(datagram.buffer_len()));
    let mut short = vec![0; datagram.buffer_len() - 1];
    assert_eq!(datagram.emit(&mut short), Err(EmitError::BufferTooShort));
    let mut mixed = datagram;
    mixed.packet.outer_destination = ipv6("fd00::1");
    assert_eq!(emit(mixed), Err(EmitError::MixedFamilies));
    let others = [0; 252];
    let full = Datagram {
        options_before: &others,
        ..datagram
    };
    assert_eq!(emit(full), Err(EmitError::OptionsTooLong));
    let long = vec![0; 1 << 16];
    let long = Datagram {
        payload: &long,
        ..datagram
    };
    assert_eq!(emit(long), Err(EmitError::PacketTooLong));
}
