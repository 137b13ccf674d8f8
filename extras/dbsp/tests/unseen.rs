//! Shows what a view of recorded packets cannot see but a cache of regions must.

mod lab;

use lab::{Counts, Frame, Lab, key_of, pipeline};
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_pipeline::{DropReason, Effect, translate};

fn packet_to(address: [u8; 4]) -> Frame {
    let mac = |last| MacAddress([2, 0, 0, 0, 0, last]);
    let builder = PacketBuilder::ethernet(mac(1), mac(2));
    let bytes = builder
        .ipv4([192, 0, 2, 1].into(), address.into())
        .udp(1, 2)
        .build();
    Frame { in_port: 1, bytes }
}

#[test]
fn an_insert_that_meets_the_region_and_not_the_sample_leaves_the_view_as_it_was() {
    let rules = "priority=1,ip,nw_dst=10.0.0.0/8,actions=output:2";
    let mut lab = Lab::new(pipeline(1..=2, rules), vec![packet_to([10, 0, 0, 1])], 2)
        .expect("all actions are modelled");
    let sample = key_of(&lab.pipeline, &packet_to([10, 0, 0, 1])).expect("has headers");
    let other = key_of(&lab.pipeline, &packet_to([10, 9, 0, 1])).expect("has headers");
    let at = |lab: &Lab, key: &[u64]| translate(&lab.pipeline, key, lab.pipeline.version());

    // One entry would answer both: they agree on its mask.
    let entry = at(&lab, &sample);
    let mut words = sample.iter().zip(&other).zip(&entry.mask);
    assert!(words.all(|((sample, other), mask)| (sample ^ other) & mask == 0));
    assert_eq!(at(&lab, &other).effects, entry.effects);
    let before = lab.view.answer(0).expect("recorded");

    let mut counts = Counts::default();
    let insert = "add priority=2,ip,nw_dst=10.9.0.0/16,actions=drop";
    lab.change(insert, &mut counts, "the insert");

    // The view is right about the recorded packet, and reports no change.
    assert_eq!((counts.same, counts.changed), (1, 0));
    assert_eq!(lab.view.answer(0), Some(before));
    // Another packet of the region now has another answer: the entry is wrong as it stands.
    let reason = DropReason::Action;
    assert_eq!(
        at(&lab, &other).effects,
        [Effect::Drop { reason, copies: 1 }]
    );
    assert_ne!(at(&lab, &other).effects, entry.effects);
    // With the recorded packet, the interpreter shows it too: the answer stays, and the mask
    // grows.
    assert_eq!(at(&lab, &sample).effects, entry.effects);
    assert_ne!(at(&lab, &sample).mask, entry.mask);
}
