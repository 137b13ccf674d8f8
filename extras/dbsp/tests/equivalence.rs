//! Compares the query's answers with the interpreter's, for every packet and after every
//! change.

mod lab;

use lab::{Counts, Frame, Lab, pipeline};
use thalweg_dbsp::{End, Unsupported, ViewError};
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_workload::{ChangeMix, ChangeSource, FlowConfig, PacketSource, PipelineKind};
use thalweg_workload::{RandomConfig, RandomPipeline, draw_flows};

fn random_frames(config: &RandomConfig, seed: u64, count: usize) -> Vec<Frame> {
    let mut source = PacketSource::new(config, seed);
    let draw = |_| {
        let packet = source.next_packet();
        Frame {
            in_port: packet.in_port,
            bytes: packet.bytes,
        }
    };
    (0..count).map(draw).collect()
}

#[test]
fn random_pipelines_have_the_interpreters_answers() {
    let mut counts = Counts::default();
    for seed in 0..12 {
        let config = RandomConfig {
            tables: [2, 4, 6][seed as usize % 3],
            rules_per_table: [6, 12, 24][seed as usize / 4],
            ..RandomConfig::default()
        };
        let mut rules = RandomPipeline::new(&config, seed).expect("a sound configuration");
        let frames = random_frames(&config, seed, 200);
        let pipeline = pipeline(1..=config.ports, &rules.rules_text());
        // Too few steps for some walks, so that the ends of circuits are tested too.
        let steps = [3, 10, 10, 10][seed as usize % 4];
        let mut lab = Lab::new(pipeline, frames, steps).expect("all actions are modelled");
        lab.compare(&mut counts, &format!("seed {seed}"));
        for number in 0..25 {
            let change = rules.next_change().to_string();
            let context = format!("seed {seed}, change {number}: {change}");
            lab.change(&change, &mut counts, &context);
        }
    }
    assert!(counts.same > 40_000 && counts.changed > 500, "{counts:?}");
    assert!(counts.too_deep > 0, "{counts:?}");
}

#[test]
fn generated_pipelines_have_the_interpreters_answers() {
    for kind in [PipelineKind::Ofd, PipelineKind::Psc] {
        let mut counts = Counts::default();
        let generated = kind.generate(1_000, 7).expect("a sound size");
        let flows = draw_flows(&generated, &FlowConfig::new(400, 7)).expect("enough flows");
        let frames = flows.iter().map(|(flow, _)| Frame {
            in_port: flow.in_port,
            bytes: flow.packet(60),
        });
        let pipeline = pipeline(generated.ports.iter().copied(), &generated.rules_text());
        let mut lab = Lab::new(pipeline, frames.collect(), 8).expect("all actions are modelled");
        lab.compare(&mut counts, "before any change");
        let changes = ChangeSource::new(&generated, ChangeMix::Random, 7).expect("enough rules");
        for (number, change) in changes.take(80).enumerate() {
            let context = format!("{kind:?}, change {number}: {change}");
            lab.change(&change.to_string(), &mut counts, &context);
        }
        assert_eq!(counts.same, 81 * 400, "{kind:?}: {counts:?}");
        assert!(counts.changed > 20, "{kind:?}: {counts:?}");
    }
}

#[test]
fn what_is_not_modelled_is_refused_and_nothing_happens() {
    let pipeline = pipeline(1..=3, "table=0,priority=1,in_port=1,actions=output:2");
    let frames = vec![Frame {
        in_port: 1,
        bytes: vec![0; 60],
    }];
    let mut lab = Lab::new(pipeline, frames, 2).expect("all actions are modelled");
    let mut counts = Counts::default();
    let refused = thalweg_pipeline::text::parse_changes("change", "add priority=9,actions=flood");
    let refused = &refused.expect("a change")[0].change;
    let now = thalweg_packet::Instant::ZERO;
    let delta = lab.pipeline.apply(refused, now).expect("a good rule");
    let error = lab.view.follow(&lab.pipeline, &delta).expect_err("refused");
    assert!(matches!(
        &error,
        ViewError::Unsupported(Unsupported::Action("flood"))
    ));
    assert!(error.to_string().contains("flood"));
    let undo = "delete_strict priority=9";
    lab.change(undo, &mut counts, "the rule is gone again");
    assert_eq!(counts.same, 1);
}

#[test]
fn a_deeper_circuit_sees_the_rest_of_a_walk() {
    let rules: String = (0..20)
        .map(|table| {
            let next = table + 1;
            format!("table={table},priority=1,actions=resubmit(,{next}),output:{next}\n")
        })
        .collect();
    let frames = vec![Frame {
        in_port: 30,
        bytes: vec![0; 60],
    }];
    let mut lab = Lab::new(pipeline(1..=30, &rules), frames, 5).expect("modelled");
    let mut counts = Counts::default();
    lab.compare(&mut counts, "five steps");
    assert_eq!((counts.too_deep, counts.same), (1, 0));
    lab.view.rebuild(21).expect("the circuit runs");
    lab.compare(&mut counts, "as many as there are lookups");
    assert_eq!((counts.too_deep, counts.same), (1, 1));
}

#[test]
fn a_walk_ends_where_the_packet_would_be_parsed_anew() {
    let rules = "table=0,priority=1,vlan_tci=0x1000/0x1000,actions=pop_vlan,goto_table:1\n\
                 table=1,priority=1,actions=output:2";
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    let tagged = |tags: u16| {
        let builder = PacketBuilder::ethernet(mac, mac);
        let builder = (1..=tags).fold(builder, |builder, tag| builder.vlan(tag, 0));
        let addresses = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let bytes = builder.ipv4(addresses.0, addresses.1).udp(1, 2).build();
        Frame { in_port: 1, bytes }
    };
    let frames = (0..4).map(tagged).collect();
    let lab = Lab::new(pipeline(1..=2, rules), frames, 2).expect("modelled");
    let mut counts = Counts::default();
    lab.compare(&mut counts, "none to three tags");
    assert_eq!((counts.same, counts.recirculated), (3, 1));
    assert_eq!(lab.view.answer(3).expect("recorded").end, End::Recirculates);
}

#[test]
fn a_packet_that_is_forgotten_is_gone_and_its_number_can_be_used_again() {
    let rules = "priority=1,in_port=1,actions=output:2\npriority=1,in_port=2,actions=output:1";
    let pipeline = pipeline(1..=2, rules);
    let frame = |in_port| Frame {
        in_port,
        bytes: vec![0; 60],
    };
    let other = lab::key_of(&pipeline, &frame(2)).expect("has headers");
    let mut lab = Lab::new(pipeline, vec![frame(1)], 1).expect("modelled");
    let first = lab.view.answer(0).expect("recorded");
    assert_eq!(lab.view.record([(0, &other[..])]).expect("runs"), [0]);
    let second = lab.view.answer(0).expect("recorded");
    assert_ne!(first, second);
    lab.view.forget([0]).expect("runs");
    assert!(lab.view.is_empty() && lab.view.answer(0).is_none());
}
