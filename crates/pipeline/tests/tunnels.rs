//! Values of tunnels: what rules match, write and remove, and what leaves with a packet.

mod loaded;

use loaded::pipeline;
use thalweg_packet::{
    Instant, Packet, PacketPool, PortId, TunnelPart, TunnelValues, standard as f,
};
use thalweg_pipeline::text::{parse_flow, parse_match};
use thalweg_pipeline::{Outbox, Pipeline, forward};

/// The ports that a packet leaves by, with the values of its tunnel there.
fn sent(pipeline: &Pipeline, tunnel: Option<TunnelValues>) -> Vec<(u32, Option<TunnelValues>)> {
    let mut frame = vec![0; 60];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    frame[17] = 46;
    frame[22] = 64;
    let mut packet = Packet::from_bytes(&frame);
    packet.set_received(PortId(1), Instant::ZERO);
    if let Some(values) = tunnel {
        packet.tunnel_mut().clone_from(&values);
    }
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    forward(pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    let sent = outbox.sent.iter();
    sent.map(|(port, packet)| (port.0, packet.tunnel().cloned()))
        .collect()
}

fn values(parts: &[(TunnelPart, u128)]) -> TunnelValues {
    let mut values = TunnelValues::default();
    for (part, value) in parts {
        values.set(*part, *value);
    }
    values
}

#[test]
fn an_option_is_present_or_absent_whatever_its_value() {
    let rules = "priority=3,tun_metadata1=0,actions=2\n\
                 priority=2,tun_metadata1,actions=3\n\
                 priority=1,actions=4\n";
    let pipeline = pipeline(rules);
    let port = |option: Option<u128>| {
        let parts = option.map(|value| (TunnelPart::Option(1), value));
        sent(&pipeline, Some(values(parts.as_slice())))[0].0
    };
    assert_eq!([None, Some(0), Some(7)].map(port), [4, 2, 3]);
}

#[test]
fn what_rules_write_leaves_with_the_packet() {
    let rules = "actions=2,set_field:7->tun_id,set_field:0x1234->tun_metadata0,\
                 set_field:2001:db8::1->tun_ipv6_dst,set_field:oam->tun_flags,3,\
                 delete_field:tun_metadata0,4\n";
    let came = values(&[(TunnelPart::Id, 1), (TunnelPart::Option(5), 9)]);
    let written = values(&[
        (TunnelPart::Id, 7),
        (TunnelPart::Option(0), 0x1234),
        (TunnelPart::Option(5), 9),
        (TunnelPart::Ipv6Destination, 0x2001_0db8 << 96 | 1),
        (TunnelPart::Flags, 1),
    ]);
    let mut without = written.clone();
    without.set(TunnelPart::Options, 1 << 5);
    let expected = vec![
        (2, Some(came.clone())),
        (3, Some(written)),
        (4, Some(without)),
    ];
    assert_eq!(sent(&pipeline(rules), Some(came)), expected);
}

#[test]
fn later_passes_see_what_earlier_ones_wrote() {
    let rules = "ip,actions=set_field:5->tun_id,move:NXM_NX_TUN_ID[0..7]->NXM_NX_TUN_METADATA3[8..15],\
                 push_mpls:0x8847,pop_mpls:0x0800,resubmit(,1)\n\
                 table=1,priority=2,tun_id=5,tun_metadata3=0x500,actions=3\n\
                 table=1,priority=1,actions=4\n";
    let leaves = sent(&pipeline(rules), None);
    let expected = values(&[(TunnelPart::Id, 5), (TunnelPart::Option(3), 0x500)]);
    assert_eq!(leaves, vec![(3, Some(expected))]);
}

#[test]
fn conditions_and_actions_read_back() {
    for text in [
        "tun_id=0x5,tun_ipv6_src=fe80::/10,tun_gbp_id=7,tun_gbp_flags=0x40,tun_flags=+oam,\
         tun_metadata0,tun_metadata2=0x5,tun_metadata63=0x1/0xff",
        "tun_erspan_ver=1,tun_erspan_idx=0x3,tun_erspan_dir=1,tun_erspan_hwid=0x3f",
        "gtpu_flags=0x30,gtpu_msgtype=255",
    ] {
        let matching = parse_match(text).expect("right conditions");
        assert_eq!(matching.to_string(), text);
    }
    let text = "actions=set_field:0x5/0xff->tun_metadata7,delete_field:tun_metadata7,\
                set_field:9->tun_gbp_id,set_field:oam->tun_flags,\
                move:NXM_NX_REG14[0..14]->NXM_NX_TUN_METADATA0[16..30]";
    let flow = parse_flow(text).expect("right actions");
    assert!(flow.to_string().ends_with(text), "{flow}");
    assert!(parse_flow("actions=delete_field:reg0").is_err());
    let option = parse_match("tun_metadata4").expect("a condition");
    assert_eq!(
        option.term(f::TUN_OPTIONS).map(|term| term.mask),
        Some(1 << 4)
    );
}
