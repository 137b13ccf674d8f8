//! Answers to single packets, as given by Open vSwitch 3.1.

use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{
    Change, Config, DropReason, Operation, Outbox, Pipeline, PortState, forward,
};

fn hex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
    pairs.map(|pair| byte(pair).unwrap()).collect()
}

/// The frames that leave by ports 1 to 3, and the reason if none does.
fn answer(rules: &str, packet: &[u8]) -> (Vec<(u32, Vec<u8>)>, Option<DropReason>) {
    let mut pipeline = Pipeline::new(Config::default());
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = (1..=3).map(|port| Operation::SetPort(PortId(port), state));
    let rules = parse_rules("rules", rules).expect("the test's rules are right");
    let operations = ports.chain(rules.into_change().operations).collect();
    let change = Change { operations };
    pipeline
        .apply(&change, Instant::ZERO)
        .expect("they can be loaded");
    let mut packet = Packet::from_bytes(packet);
    packet.set_received(PortId(1), Instant::ZERO);
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let passes = forward(&pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    let sent = outbox.sent.iter();
    let sent = sent.map(|(port, packet)| (port.0, packet.bytes().to_vec()));
    (sent.collect(), passes[passes.len() - 1].drop_reason)
}

#[test]
fn normal_forwards_nothing_to_reserved_addresses() {
    let to = |destination: &str| {
        answer(
            "actions=normal",
            &hex(&format!("{destination}02000000000288b5")),
        )
    };
    let reserved = (0..16).map(|last| format!("0180c20000{last:02x}"));
    let cfm = (0..8).map(|last| format!("01000cccccc{last:x}"));
    let others = [
        "00e02b000000",
        "00e02b000004",
        "00e02b000006",
        "01000c000000",
        "01000ccccccc",
        "01000ccccccd",
        "01000ccdcdcd",
    ];
    for address in reserved.chain(cfm).chain(others.map(String::from)) {
        let (sent, reason) = to(&address);
        assert!(sent.is_empty(), "{address}");
        assert_eq!(reason, Some(DropReason::ReservedAddress), "{address}");
    }
    for address in [
        "0180c2000010",
        "00e02b000001",
        "00e02b000005",
        "00e02b000007",
        "01000c000001",
        "01000cccccc8",
        "01000ccccccb",
        "01000cccccce",
        "01000ccdcdce",
        "0180c1ffffff",
    ] {
        assert_eq!(to(address).0.len(), 2, "{address}");
    }
}

/// The bytes after the last label are not read as a label.
#[test]
fn a_label_can_be_exchanged_by_a_pop_and_a_push() {
    let ip = "4500001c00000000401166cf0a0000010a00000203e807d000080000";
    let frame = |label: &str| hex(&format!("020000000001020000000002{label}{ip}"));
    let rules = |pop| format!("mpls,actions=pop_mpls:{pop},push_mpls:0x8847,output:2");
    // Label 0, the bottom of the stack, with a TTL of 64.
    let (sent, _) = answer(&rules("0x8847"), &frame("8847000101ff"));
    assert_eq!(sent, [(2, frame("884700000140"))]);
    let rules_again = "mpls,actions=pop_mpls:0x8847,resubmit(,1)\n\
                       table=1,mpls,mpls_label=0,mpls_bos=0,actions=output:3";
    let (sent, _) = answer(rules_again, &frame("8847000101ff"));
    assert_eq!(sent, [(3, frame("8847"))]);
    // Above another label, the new label copies it; above IP, the TTL comes from IP.
    let (sent, _) = answer(&rules("0x8847"), &frame("8847000100ff0002011e"));
    assert_eq!(sent, [(2, frame("88470002001e0002011e"))]);
    let (sent, _) = answer(&rules("0x0800"), &frame("8847000101ff"));
    assert_eq!(sent, [(2, frame("884700000140"))]);
}
