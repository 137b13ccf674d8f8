//! Outputs to tunnels: the values of outer headers stand in front of them.

use std::net::IpAddr;

use thalweg_packet::standard as f;
use thalweg_packet::{PortId, TunnelValues};
use thalweg_pipeline::Effect;
use thalweg_tunnel::{Endpoints, TunnelFlags, TunnelMetadata};

use super::reading::read;
use crate::datapath_text::{
    ActionWriter, DatapathFlow, FlowWriter, Leaving, OptionBits, TunnelOutput,
};

/// Ports 1, 2 and 5 are tunnels with the id that the packet has, the last of them without Ethernet;
/// 3 drops all, 4 is none.
fn ask(port: PortId, values: &TunnelValues, leaving: Leaving) -> TunnelOutput {
    let to = match port.0 {
        1 | 5 => "1.1.1.1",
        2 => "2001:db8::2",
        3 => return TunnelOutput::Dropped,
        _ => return TunnelOutput::Untouched,
    };
    let to: IpAddr = to.parse().unwrap();
    let from: IpAddr = match to {
        IpAddr::V4(_) => "0.0.0.0".parse().unwrap(),
        IpAddr::V6(_) => "::".parse().unwrap(),
    };
    let values = TunnelMetadata {
        id: values.id,
        endpoints: Endpoints::new(from, to).unwrap(),
        tos: leaving.inner.unwrap().tos & 3,
        ttl: 64,
        destination_port: if port.0 == 2 { 4789 } else { 0 },
        flags: TunnelFlags::DONT_FRAGMENT | TunnelFlags::KEY,
        ..TunnelMetadata::default()
    };
    TunnelOutput::Sent {
        values: Box::new(values),
        is_layer3: port.0 == 5,
    }
}

#[test]
fn values_are_written_where_they_change() {
    let flow = read(
        "in_port(9),eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=6,tos=1,ttl=7,frag=no),\
         tcp(src=1,dst=2)",
    );
    let set = |value| Effect::Set {
        field: f::TUN_ID,
        value,
        mask: u128::from(u64::MAX),
    };
    let output = |port| Effect::Output(PortId(port));
    let effects = [
        set(5),
        output(1),
        output(4),
        output(1),
        output(3),
        set(0x2a),
        output(2),
    ];
    let writer = ActionWriter {
        ports: &|port| port.0.to_string(),
        recirculations: &|number| number,
        senders: &|_| 0,
        tunnels: &ask,
    };
    assert_eq!(
        writer.write(&effects, &flow).text,
        "set(tunnel(tun_id=0x5,dst=1.1.1.1,tos=0x1,ttl=64,flags(df|key))),1,4,1,\
         set(tunnel(tun_id=0x2a,ipv6_dst=2001:db8::2,tos=0x1,ttl=64,tp_dst=4789,flags(df|key))),2"
    );
}

#[test]
fn a_tunnel_without_ethernet_takes_it_off_for_itself() {
    let flow = read(
        "in_port(9),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(tos=0,ttl=7,frag=no)",
    );
    let writer = ActionWriter {
        ports: &|port| port.0.to_string(),
        recirculations: &|number| number,
        senders: &|_| 0,
        tunnels: &ask,
    };
    let shown = |ports: &[u32]| {
        let effects = ports.iter().map(|port| Effect::Output(PortId(*port)));
        writer.write(&effects.collect::<Vec<_>>(), &flow).text
    };
    let entered = "set(tunnel(tun_id=0,dst=1.1.1.1,ttl=64,flags(df|key))),pop_eth,5";
    assert_eq!(shown(&[5]), entered);
    let back = "push_eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02)";
    assert_eq!(shown(&[5, 4]), format!("{entered},{back},4"));
}

#[test]
fn an_option_that_was_deleted_is_not_sent() {
    let mut flow = read("in_port(9),tunnel(src=1.1.1.1,dst=2.2.2.2)");
    flow.key.set(f::TUN_OPTIONS, 1 << 7);
    flow.key.set(f::tunnel_option_field(7), 5);
    let left = std::cell::RefCell::new(Vec::new());
    let writer = ActionWriter {
        ports: &|port| port.0.to_string(),
        recirculations: &|number| number,
        senders: &|_| 0,
        tunnels: &|_, values, _| {
            left.borrow_mut().push(values.options().to_vec());
            TunnelOutput::Untouched
        },
    };
    let deleted = Effect::Set {
        field: f::TUN_OPTIONS,
        value: 0,
        mask: 1 << 7,
    };
    let output = Effect::Output(PortId(1));
    writer.write(&[output.clone(), deleted, output], &flow);
    assert_eq!(*left.borrow(), [vec![(7, 5)], Vec::new()]);
}

/// Class 0x0102 with type 3 is `tun_metadata7`, of four bytes.
fn option_of(_: PortId, field: thalweg_packet::FieldId) -> Option<OptionBits> {
    (field == f::tunnel_option_field(7)).then_some(OptionBits {
        class: 0x102,
        kind: 3,
        len_bytes: 4,
        bits: None,
    })
}

#[test]
fn options_of_tunnels_are_read() {
    let flow = read(
        "tunnel(tun_id=0x1,src=1.1.1.1,dst=2.2.2.2,erspan(ver=2,dir=1,hwid=0x7),\
         vxlan(gbp(id=0xbeef,flags=0x8)),gtpu(flags=0x30,msgtype=255),\
         geneve({class=0x102,type=0x3,len=4,0xb}{class=0xffff,type=0,len=0}),flags(df|key))",
    );
    for (field, value) in [
        (f::TUN_ERSPAN_VER, 2),
        (f::TUN_ERSPAN_DIR, 1),
        (f::TUN_ERSPAN_HWID, 7),
        (f::TUN_GBP_ID, 0xbeef),
        (f::TUN_GBP_FLAGS, 8),
        (f::TUN_GTPU_FLAGS, 0x30),
        (f::TUN_GTPU_MSGTYPE, 255),
    ] {
        assert_eq!(flow.key.get(field), value, "{field:?}");
    }
    let whole = OptionBits {
        class: 0x102,
        kind: 3,
        len_bytes: 4,
        bits: Some((0xb, 0xffff_ffff)),
    };
    let empty = OptionBits {
        class: 0xffff,
        kind: 0,
        len_bytes: 0,
        bits: Some((0, 0)),
    };
    assert_eq!(flow.options, [whole, empty]);
    assert_eq!(flow.tunnel_flags, 0b1010, "df and key");
}

#[test]
fn options_of_tunnels_are_written_as_far_as_they_are_compared() {
    let mut flow = read("in_port(9),tunnel(src=1.1.1.1,dst=2.2.2.2)");
    let number = |port: PortId| port.0.to_string();
    let written = |flow: &DatapathFlow| {
        let text = FlowWriter::new(&number)
            .with_options(&option_of)
            .write(flow);
        let start = text.find("tunnel(").expect("it is from a tunnel");
        text[start..].split("),in_port").next().unwrap().to_owned() + ")"
    };
    let plain = "tunnel(src=1.1.1.1,dst=2.2.2.2)";
    assert_eq!(written(&flow), plain);
    let option = f::tunnel_option_field(7);
    flow.key.set(option, 0x1234);
    flow.mask.set(option, 0xff);
    assert_eq!(written(&flow), plain, "it is absent");
    flow.key.set(f::TUN_OPTIONS, 1 << 7);
    let before = plain.strip_suffix(')').unwrap();
    let expected = "geneve({class=0x102,type=0x3,len=4,0x34/0xff})";
    assert_eq!(written(&flow), format!("{before},{expected})"));
    flow.mask.set(option, 0xffff_ffff);
    flow.mask.set(f::TUN_ERSPAN_VER, 0xf);
    flow.key.set(f::TUN_ERSPAN_VER, 1);
    let expected = "geneve({class=0x102,type=0x3,len=4,0x1234}),erspan(ver=1)";
    assert_eq!(written(&flow), format!("{before},{expected})"));
    // The written text can be read.
    assert_eq!(
        read(&written(&flow)).options[0].bits,
        Some((0x1234, 0xffff_ffff))
    );
}
