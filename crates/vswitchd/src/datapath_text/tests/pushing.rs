//! Native tunnels: the headers as Open vSwitch's own tests have them, and the actions around them.

use std::net::IpAddr;

use thalweg_packet::wire::{GeneveOption, MacAddress};
use thalweg_packet::{PortId, TunnelValues};
use thalweg_pipeline::Effect;
use thalweg_tunnel::{
    Endpoints, ErspanValues, HeaderSettings, InnerType, LinkAddresses, OuterHeader, TunnelFlags,
    TunnelMetadata, TunnelOptions, TunnelType, VxlanFlavour,
};

use super::reading::read;
use crate::datapath_text::{ActionWriter, Leaving, TunnelOutput, push_header_text};

/// A header of a tunnel, as text.
fn shown(tunnel_type: TunnelType, (from, to): (&str, &str), metadata: TunnelMetadata) -> String {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let metadata = TunnelMetadata {
        endpoints: Endpoints::new(address(from), address(to)).unwrap(),
        ttl: 64,
        destination_port: tunnel_type.default_port().unwrap_or(0),
        ..metadata
    };
    let link = LinkAddresses {
        source: MacAddress::from_u64(0xaa55_aa55_0000),
        destination: MacAddress::from_u64(0xf8bc_1244_34b6),
    };
    let kind = tunnel_type.kind(VxlanFlavour::Plain);
    let settings = HeaderSettings {
        has_sequence: tunnel_type == TunnelType::Gre && metadata.tos == SEQUENCED,
        ..HeaderSettings::default()
    };
    let header = OuterHeader::for_frame(kind, &metadata, link, InnerType::Ethernet, settings);
    push_header_text(&header.unwrap(), tunnel_type)
}

/// The type of service of headers that have a sequence number.
const SEQUENCED: u8 = 4;

const V4: (&str, &str) = ("1.1.2.88", "1.1.2.92");
const V6: (&str, &str) = ("2001:cafe::88", "2001:cafe::92");

fn keyed(id: u64) -> TunnelMetadata {
    TunnelMetadata {
        id,
        flags: TunnelFlags::KEY,
        ..TunnelMetadata::default()
    }
}

const ETHERNET: &str = "eth(dst=f8:bc:12:44:34:b6,src=aa:55:aa:55:00:00,dl_type=";

/// The beginning of a header of this size and type, over IPv4.
fn v4(size: usize, number: u32, protocol: u8) -> String {
    format!(
        "header(size={size},type={number},{ETHERNET}0x0800),\
         ipv4(src=1.1.2.88,dst=1.1.2.92,proto={protocol},tos=0,ttl=64,frag=0x4000),"
    )
}

/// The same over IPv6.
fn v6(size: usize, number: u32, protocol: u8) -> String {
    format!(
        "header(size={size},type={number},{ETHERNET}0x86dd),\
         ipv6(src=2001:cafe::88,dst=2001:cafe::92,label=0,proto={protocol},tclass=0x0,hlimit=64),"
    )
}

fn whole(metadata: TunnelMetadata) -> TunnelMetadata {
    TunnelMetadata {
        flags: metadata.flags | TunnelFlags::DONT_FRAGMENT,
        ..metadata
    }
}

/// The expected texts are those of `tunnel-push-pop.at` and `tunnel-push-pop-ipv6.at`.
#[test]
fn headers_over_udp_are_written_as_open_vswitch_writes_them() {
    let vxlan = shown(TunnelType::Vxlan, V4, whole(keyed(0x7b)));
    let rest = "udp(src=0,dst=4789,csum=0x0),vxlan(flags=0x8000000,vni=0x7b))";
    assert_eq!(vxlan, v4(50, 4, 17) + rest);
    let vxlan = shown(TunnelType::Vxlan, V6, keyed(0x7b));
    let rest = "udp(src=0,dst=4789,csum=0xffff),vxlan(flags=0x8000000,vni=0x7b))";
    assert_eq!(vxlan, v6(70, 4, 17) + rest);
    let mut options = TunnelOptions::default();
    let option = GeneveOption {
        class: 0xffff,
        kind: 0x80,
        data: &[0, 0, 0, 0xa],
    };
    options.push(&option).unwrap();
    let with_option = TunnelMetadata {
        options,
        ..whole(keyed(0x7b))
    };
    let rest = "udp(src=0,dst=6081,csum=0x0),\
                geneve(crit,vni=0x7b,options({class=0xffff,type=0x80,len=4,0xa})))";
    assert_eq!(
        shown(TunnelType::Geneve, V4, with_option),
        v4(58, 5, 17) + rest
    );
}

#[test]
fn headers_of_gre_are_written_as_open_vswitch_writes_them() {
    let rest = "gre((flags=0x2000,proto=0x6558),key=0x1c8))";
    let gre = shown(TunnelType::Gre, V4, whole(keyed(0x1c8)));
    assert_eq!(gre, v4(42, 3, 47) + rest);
    let gre = shown(TunnelType::Gre, V6, keyed(0x1c8));
    assert_eq!(gre, v6(62, 109, 47) + rest);
    let sequenced = TunnelMetadata {
        tos: SEQUENCED,
        ..whole(keyed(0x1c8))
    };
    let start = v4(46, 3, 47).replace("tos=0", "tos=0x4");
    let rest = "gre((flags=0x3000,proto=0x6558),key=0x1c8,seq=0x0))";
    assert_eq!(shown(TunnelType::Gre, V4, sequenced), start + rest);
    let erspan = |id, erspan| TunnelMetadata {
        erspan,
        ..keyed(id)
    };
    let one = ErspanValues {
        version: 1,
        index: 3,
        ..ErspanValues::default()
    };
    let two = ErspanValues {
        version: 2,
        direction: 1,
        hardware_id: 7,
        ..ErspanValues::default()
    };
    let first = shown(TunnelType::Erspan, V4, whole(erspan(0x7b, one)));
    let rest = "erspan(ver=1,sid=0x7b,idx=0x3))";
    assert_eq!(first, v4(50, 107, 47) + rest);
    let second = shown(TunnelType::Ip6Erspan, V6, erspan(0x237, two));
    let rest = "erspan(ver=2,sid=0x237,dir=1,hwid=0x7))";
    assert_eq!(second, v6(74, 108, 47) + rest);
}

/// Port 1 is a native tunnel, 2 one whose frames are dropped, 3 takes packets out of tunnels, 5
/// is a native tunnel without Ethernet, and 6 one that marks packets.
fn ask(port: PortId, _: &TunnelValues, leaving: Leaving) -> TunnelOutput {
    let target = leaving.target.expect("it is a packet of IP");
    assert_eq!(target.address, IpAddr::from([10, 0, 0, 2]));
    assert_eq!((target.protocol.0, target.port), (17, 4789));
    match port.0 {
        1 | 2 | 5 | 6 => TunnelOutput::Pushed {
            push: "tnl_push(..)".to_owned(),
            then: if port.0 == 2 { "" } else { "8,9" }.to_owned(),
            is_layer3: port.0 == 5,
            mark: (port.0 == 6).then_some(0x4d2),
        },
        3 => TunnelOutput::Popped(4789),
        _ => TunnelOutput::Untouched,
    }
}

#[test]
fn what_a_native_tunnel_does_stands_in_a_copy_unless_it_is_last() {
    let flow = read(
        "in_port(9),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),\
         ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,ttl=7,frag=no),udp(src=1,dst=4789)",
    );
    let writer = ActionWriter {
        ports: &|port| port.0.to_string(),
        recirculations: &|number| number,
        senders: &|_| 0,
        tunnels: &ask,
    };
    for (ports, expected) in [
        (&[1][..], "tnl_push(..),8,9"),
        (&[1, 4], "clone(tnl_push(..),8,9),4"),
        (&[4, 1], "4,tnl_push(..),8,9"),
        (&[2], "drop"),
        (&[2, 4], "4"),
        (&[3], "tnl_pop(4789)"),
        (&[3, 4], "tnl_pop(4789),4"),
        (&[6], "set(skb_mark(0x4d2)),tnl_push(..),8,9"),
        (
            &[6, 4],
            "set(skb_mark(0x4d2)),clone(tnl_push(..),8,9),set(skb_mark(0)),4",
        ),
        (&[5], "pop_eth,tnl_push(..),8,9"),
    ] {
        let effects = ports.iter().map(|port| Effect::Output(PortId(*port)));
        let effects: Vec<Effect> = effects.collect();
        assert_eq!(writer.write(&effects, &flow).text, expected, "{ports:?}");
    }
}
