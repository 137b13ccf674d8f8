//! An observed walk is the plain one: what an observer sees changes nothing, and the fields
//! that no rule reads decide nothing.

mod by_program;

use std::collections::BTreeSet;

use proptest::prelude::*;
use thalweg_packet::{FieldId, Headers, Instant, Layout, PortId, Receipt, standard as f};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{
    Beginning, Change, Config, DropReason, Observer, Operation, Outbox, Passes, Pipeline,
    PortState, PortVlans, PriorityTags, SeenFields, Sight, StepKind, Translation, VlanMode,
    VlanSet, observe, translate,
};
use thalweg_workload::{PacketSource, RandomConfig, RandomPipeline};

use by_program::{frames, operation, pipeline};

/// Counts what it sees.
#[derive(Default)]
struct Counts {
    tables: usize,
    actions: usize,
    failures: Vec<DropReason>,
    ends: usize,
    /// The destination address and `reg3` at the end.
    last: (u128, u128),
}

impl Observer for Counts {
    const OBSERVES: bool = true;

    fn see(&mut self, sight: &Sight<'_>, _nesting: u32, fields: SeenFields<'_>) {
        match sight {
            Sight::Table { .. } => self.tables += 1,
            Sight::Action(_) => self.actions += 1,
            Sight::Failed(bound) => self.failures.push(*bound),
            Sight::End { .. } => {
                self.ends += 1;
                self.last = (fields.get(f::ETH_DST), fields.get(f::REG3));
            }
            _ => {}
        }
    }
}

fn full_layout(pipeline: &Pipeline) -> Layout {
    let used = pipeline.layout().used().iter().copied();
    let all: BTreeSet<FieldId> = f::all_but_options().chain(used).collect();
    Layout::new(pipeline.fields().clone(), &all).expect("the standard fields fit")
}

/// The words of a packet in a layout.
fn words(layout: &Layout, in_port: u32, frame: &[u8]) -> Option<Vec<u64>> {
    let headers = Headers::parse(frame).ok()?;
    let mut words = vec![0; layout.words()];
    layout.extract(frame, &headers, &Receipt::from_port(in_port), &mut words);
    Some(words)
}

/// The mask in the words of the pipeline's layout.
fn narrowed(pipeline: &Pipeline, full: &Layout, mask: &[u64]) -> Vec<u64> {
    let narrow = pipeline.layout();
    let mut bits = vec![0; narrow.words()];
    for (field, mask) in full.fields_in(mask) {
        // Every walk reads the pass, which concerns only pipelines that recirculate.
        if field == f::RECIRC_ID && narrow.slot(field).is_none() {
            continue;
        }
        assert!(narrow.slot(field).is_some(), "{field:?} is read by no rule");
        narrow.set(&mut bits, field, mask);
    }
    bits.truncate(narrow.ingress_words());
    bits
}

fn kinds(translation: &Translation) -> Vec<StepKind> {
    translation.trace.kinds().collect()
}

/// Compares both walks of a packet; returns what the observer saw.
fn compare(pipeline: &Pipeline, in_port: u32, frame: &[u8]) -> Option<Counts> {
    let full = full_layout(pipeline);
    let narrow = words(pipeline.layout(), in_port, frame)?;
    let wide = words(&full, in_port, frame)?;
    let version = pipeline.version();
    let plain = translate(pipeline, &narrow, version);
    let mut counts = Counts::default();
    let observed = observe(pipeline, (&full, &wide), None, version, &mut counts);
    assert_eq!(observed.effects, plain.effects);
    assert_eq!(observed.continuations, plain.continuations);
    assert_eq!(observed.drop_reason, plain.drop_reason);
    assert_eq!(kinds(&observed), kinds(&plain));
    assert_eq!(observed.trace.inputs(), plain.trace.inputs());
    assert_eq!(narrowed(pipeline, &full, &observed.mask), plain.mask);
    assert_eq!(counts.ends, 1);
    Some(counts)
}

#[test]
fn random_pipelines_answer_alike() {
    let (mut walks, mut actions) = (0, 0);
    for seed in 0..60 {
        let config = match seed % 2 {
            0 => RandomConfig::default(),
            _ => RandomConfig::broad(),
        };
        let config = RandomConfig {
            conjoins: seed % 6 < 2,
            ..config
        };
        let random = RandomPipeline::new(&config, seed).expect("a sound configuration");
        let groups = random.groups().iter().map(|group| format!("{group}\n"));
        let text: String = groups.chain([random.rules_text()]).collect();
        let rules = parse_rules("random", &text).expect("generated rules are right");
        let state = PortState {
            is_up: true,
            floods: true,
            forwards: true,
            peer: None,
        };
        let ports = (1..=config.ports).map(|port| Operation::SetPort(PortId(port), state));
        let modes = [
            VlanMode::Access { tag: 1 },
            VlanMode::NativeUntagged {
                tag: 2,
                trunks: VlanSet::ALL,
            },
            VlanMode::Tunnel {
                tag: 1,
                customers: VlanSet::of([0, 100]),
                tpid: 0x88a8,
            },
        ];
        let vlans = (2..).map(PortId).zip(modes).map(|(port, mode)| {
            let priority_tags = PriorityTags::IfNonzero;
            let is_protected = seed % 8 == 7;
            let vlans = PortVlans {
                mode,
                priority_tags,
                is_protected,
            };
            Operation::SetPortVlans(port, vlans.into())
        });
        let vlans = vlans.filter(|_| seed % 4 == 3);
        let ports = ports.chain(vlans);
        let operations = ports.chain(rules.into_change().operations).collect();
        let mut pipeline = Pipeline::new(Config::default());
        let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
        applied.expect("generated rules are right");
        let mut packets = PacketSource::new(&config, seed);
        for _ in 0..100 {
            let packet = packets.next_packet();
            let counts = compare(&pipeline, packet.in_port, &packet.bytes);
            walks += usize::from(counts.is_some());
            actions += counts.map_or(0, |counts| counts.actions);
        }
    }
    assert!(walks > 3_000 && actions > 4_000, "{walks}, {actions}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(500)
    })]

    #[test]
    fn pipelines_by_program_answer_alike(
        operations in prop::collection::vec(operation(), 0..12),
    ) {
        let mut pipeline = pipeline(1_000);
        for operation in operations {
            // A refused operation changes nothing.
            let _ = pipeline.apply(&Change::one(operation), Instant::ZERO);
        }
        for frame in frames() {
            compare(&pipeline, 1, &frame);
        }
    }
}

fn made_of(rules: &str) -> Pipeline {
    let rules = parse_rules("rules", rules).expect("the test's rules are right");
    let mut pipeline = Pipeline::new(Config::default());
    let applied = pipeline.apply(&rules.into_change(), Instant::ZERO);
    applied.expect("the test's rules can be loaded");
    pipeline
}

#[test]
fn fields_that_no_rule_reads_are_seen() {
    let pipeline = made_of("actions=set_field:02:00:00:00:00:07->eth_dst,load:5->NXM_NX_REG3[]");
    assert!(pipeline.layout().slot(f::ETH_DST).is_none());
    let counts = compare(&pipeline, 1, &frames()[0]).expect("a frame");
    assert_eq!(counts.last, (0x0200_0000_0007, 5));
    assert_eq!((counts.tables, counts.actions), (1, 2));
}

#[test]
fn a_bound_is_seen_once() {
    let pipeline = made_of("actions=resubmit(,0)");
    let counts = compare(&pipeline, 1, &frames()[0]).expect("a frame");
    assert_eq!(counts.failures, [DropReason::RecursionTooDeep]);
}

/// A walk that begins with actions is that of a packet-out.
#[test]
fn a_list_of_actions_walks_as_a_packet_out() {
    let pipeline = made_of("table=1,actions=controller,dec_ttl");
    let rule = parse_rules(
        "rules",
        "ip,actions=set_field:3->reg1,resubmit(,1),controller",
    );
    let actions = rule.expect("the test's rule is right").flows[0]
        .actions
        .clone();
    let full = full_layout(&pipeline);
    let wide = words(&full, 1, &frames()[0]).expect("a frame");
    let mut counts = Counts::default();
    let version = pipeline.version();
    let observed = observe(
        &pipeline,
        (&full, &wide),
        Some(actions.clone()),
        version,
        &mut counts,
    );
    let mut packet = thalweg_packet::Packet::from_bytes(&frames()[0]);
    packet.set_received(PortId(1), Instant::ZERO);
    let mut outbox = Outbox::new(thalweg_packet::PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let passes = Passes::new(&pipeline, version, packet, &mut outbox);
    let mut passes = passes
        .with_beginning(Beginning::default())
        .with_actions(actions, &[]);
    let plain = passes.next().expect("a pass").expect("a frame").translation;
    assert_eq!(observed.effects, plain.effects);
    assert_eq!((counts.tables, counts.actions), (1, 5));
}
