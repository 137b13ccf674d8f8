//! A walk resumed after another parse keeps its state.

mod loaded;

use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::{Outbox, forward};

/// The ports that an IPv4 packet from port 1 leaves by, in two passes.
fn outputs(rules: &str) -> Vec<u32> {
    let pipeline = loaded::pipeline(rules);
    let mut frame = vec![0; 34];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    frame[17] = 20;
    frame[22] = 64;
    let mut packet = Packet::from_bytes(&frame);
    packet.set_received(PortId(1), Instant::ZERO);
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let passes = forward(&pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    assert_eq!(passes.len(), 2);
    outbox.sent.iter().map(|(port, _)| port.0).collect()
}

#[test]
fn the_input_port_and_the_tunnel_stay_as_they_were_written() {
    let sent = outputs(
        "ip,actions=load:3->NXM_OF_IN_PORT[],set_field:7->tun_id,push_mpls:0x8847,\
         pop_mpls:0x0800,resubmit(,1)\n\
         table=1,in_port=3,tun_id=7,actions=output:1,output:3,output:2",
    );
    assert_eq!(sent, [1, 2]);
}

#[test]
fn the_number_of_a_continuation_is_no_condition_of_rules() {
    let sent = outputs(
        "ip,actions=push_mpls:0x8847,pop_mpls:0x0800,resubmit(,1)\n\
         table=1,priority=2,recirc_id=1,actions=output:2\n\
         table=1,priority=1,actions=output:3",
    );
    assert_eq!(sent, [3]);
}
