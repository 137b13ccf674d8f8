//! Outputs to tunnels: the values of outer headers stand in front of them.

use std::net::IpAddr;

use thalweg_packet::standard as f;
use thalweg_packet::{PortId, TunnelValues};
use thalweg_pipeline::Effect;
use thalweg_tunnel::{Endpoints, InnerIp, TunnelFlags, TunnelMetadata};

use super::reading::read;
use crate::datapath_text::{ActionWriter, TunnelOutput};

/// Ports 1 and 2 are tunnels with the id that the packet has; 3 drops all, 4 is none.
fn ask(port: PortId, values: &TunnelValues, inner: Option<InnerIp>) -> TunnelOutput {
    let to = match port.0 {
        1 => "1.1.1.1",
        2 => "2001:db8::2",
        3 => return TunnelOutput::Dropped,
        _ => return TunnelOutput::Untouched,
    };
    let to: IpAddr = to.parse().unwrap();
    let from: IpAddr = match to {
        IpAddr::V4(_) => "0.0.0.0".parse().unwrap(),
        IpAddr::V6(_) => "::".parse().unwrap(),
    };
    TunnelOutput::Sent(Box::new(TunnelMetadata {
        id: values.id,
        endpoints: Endpoints::new(from, to).unwrap(),
        tos: inner.unwrap().tos & 3,
        ttl: 64,
        destination_port: if port.0 == 2 { 4789 } else { 0 },
        flags: TunnelFlags::DONT_FRAGMENT | TunnelFlags::KEY,
        ..TunnelMetadata::default()
    }))
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
