//! The work for one packet is bounded, whatever rules and groups it meets.

use std::fmt::Write as _;

use thalweg_packet::wire::{MacAddress, PacketBuilder, TcpFlags};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{
    Action, Change, ChangeError, Config, DropReason, Effect, Flow, Operation, Outbox, Pipeline,
    PortState, Selector, Translation, forward,
};

/// The limit on effects.
const LIMIT: usize = 4096;

fn pipeline(rules: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(Config::default());
    let port = |number, is_up| {
        let floods = true;
        Operation::SetPort(
            PortId(number),
            PortState {
                is_up,
                floods,
                forwards: true,
                peer: None,
            },
        )
    };
    let ports = [port(1, true), port(2, true), port(3, false)];
    let rules = parse_rules("rules", rules).expect("the test's rules are right");
    let operations = ports
        .into_iter()
        .chain(rules.into_change().operations)
        .collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the test's rules can be loaded");
    pipeline
}

fn tcp() -> Vec<u8> {
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    let builder = PacketBuilder::ethernet(address(1), address(2));
    let builder = builder.ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    builder.tcp(1000, 80).tcp_flags(TcpFlags(2)).build()
}

/// Forwards a packet that comes in by port 1.
fn walk(pipeline: &Pipeline, outbox: &mut Outbox) -> Vec<Translation> {
    let mut packet = Packet::from_bytes(&tcp());
    packet.set_received(PortId(1), Instant::ZERO);
    forward(pipeline, pipeline.version(), packet, outbox).expect("a frame")
}

fn outbox() -> Outbox {
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    outbox
}

/// Groups of ten buckets, each naming the next group: 10^15 paths through them.
fn nested_groups(bucket: impl Fn(u32) -> String, last: &str) -> String {
    let mut text = format!("group_id=15,{last}\n");
    for group in (1..15).rev() {
        let _ = write!(text, "group_id={group},type=all");
        (0..10).for_each(|_| text.push_str(&bucket(group + 1)));
        text.push('\n');
    }
    text
}

#[test]
fn groups_that_name_groups_are_not_followed_without_end() {
    let groups = nested_groups(
        |next| format!(",bucket=actions=group:{next}"),
        "type=all,bucket=actions=output:2",
    );
    let pipeline = pipeline(&format!("{groups}actions=group:1"));
    let passes = walk(&pipeline, &mut outbox());
    assert_eq!(passes[0].drop_reason, Some(DropReason::TooMuchWork));
    // Each step costs nine units: eight for the copy, one for the action.
    assert!(passes[0].trace.len() < 65_536 / 9);
}

#[test]
fn groups_that_watch_groups_are_not_followed_without_end() {
    let groups = nested_groups(
        |next| format!(",bucket=watch_group:{next},actions=output:2"),
        "type=ff,bucket=watch_port:3,actions=output:2",
    );
    let groups = groups.replacen("group_id=1,type=all", "group_id=1,type=ff", 1);
    let pipeline = pipeline(&format!("{groups}actions=group:1"));
    let passes = walk(&pipeline, &mut outbox());
    assert_eq!(passes[0].drop_reason, Some(DropReason::NoLiveBucket));
}

/// Group 1 sends to port 2 if group 2, which it watches, is alive, and else to port 3.
#[test]
fn a_watched_group_is_alive_if_a_bucket_is_that_watches_nothing() {
    let sent = |watched: &str| {
        let pipeline = pipeline(&format!(
            "group_id=2,{watched}\n\
             group_id=1,type=ff,bucket=watch_group:2,actions=output:2,\
             bucket=watch_port:2,actions=output:3\nactions=group:1"
        ));
        let mut outbox = outbox();
        walk(&pipeline, &mut outbox);
        outbox.sent[0].0.0
    };
    assert_eq!(sent("type=all,bucket=actions=drop"), 2);
    assert_eq!(sent("type=indirect,bucket=actions=drop"), 2);
    assert_eq!(sent("type=all,bucket=watch_port:3,actions=drop"), 3);
    assert_eq!(sent("type=all"), 3);
    // A bucket of weight zero is never chosen.
    assert_eq!(sent("type=select,bucket=weight:0,actions=drop"), 3);
    assert_eq!(sent("type=select,bucket=weight:1,actions=drop"), 2);
}

#[test]
fn effects_of_copies_count_like_those_of_the_packet() {
    let clone = "clone(set_field:10.0.0.9->nw_src,output:2)";
    let list = vec![clone; 64].join(",");
    let table = vec!["resubmit(,1)"; 64].join(",");
    let pipeline = pipeline(&format!(
        "table=0,ip,actions={table}\ntable=1,ip,actions={list}"
    ));
    let passes = walk(&pipeline, &mut outbox());
    assert_eq!(count(&passes[0].effects), LIMIT);
    let refused = Effect::Drop {
        reason: DropReason::TooManyEffects,
        copies: (64 * 64 - LIMIT / 2) as u32,
    };
    assert_eq!(passes[0].effects[0], refused);
}

/// The number of effects, without drop counts.
fn count(effects: &[Effect]) -> usize {
    let of = |effect: &Effect| match effect {
        Effect::Drop { .. } => 0,
        Effect::Clone(nested) => count(nested),
        Effect::ByLength { .. } => 1 + effect.lists().map(count).sum::<usize>(),
        _ => 1,
    };
    effects.iter().map(of).sum()
}

#[test]
fn a_full_pipeline_can_be_modified_but_not_added_to() {
    let config = Config {
        rules: 3,
        ..Config::default()
    };
    let mut pipeline = Pipeline::new(config);
    let rules = |text| parse_rules("rules", text).expect("the rules are right");
    let three = rules("in_port=1,actions=drop\nin_port=2,actions=drop\nin_port=3,actions=drop");
    let mut apply = |operation| {
        let applied = pipeline.apply(&Change::one(operation), Instant::ZERO);
        let version = pipeline.version();
        assert_eq!(
            pipeline.rule_count(version),
            pipeline.rules(version).count()
        );
        pipeline.reclaim(version);
        applied.map(|_| ())
    };
    for flow in three.flows.clone() {
        apply(Operation::Add(flow)).expect("there is room");
    }
    let again = three.flows[0].clone();
    for priority in 0..10 {
        let actions = [Action::SetVlan {
            id: Some(priority),
            priority: None,
            adds_tag: true,
        }];
        apply(Operation::Modify(Selector::default(), actions.into())).expect("none is new");
        apply(Operation::Add(again.clone())).expect("it takes the place of another");
        let more = Flow::default();
        let refused = apply(Operation::Add(more));
        assert!(matches!(refused, Err(ChangeError::RulesFull { .. })));
    }
    // The same number may be kept for readers of older versions, but no more.
    let modify = |id| {
        let actions = [Action::PushVlan(0x8100), Action::PopMpls(id)];
        let modify = Operation::Modify(Selector::default(), actions.into());
        Change::one(modify)
    };
    assert!(pipeline.apply(&modify(1), Instant::ZERO).is_ok());
    let refused = pipeline.apply(&modify(2), Instant::ZERO);
    assert!(matches!(refused, Err(ChangeError::RulesFull { .. })));
    assert_eq!(pipeline.rule_count(pipeline.version()), 3);
}

/// The only effect for a packet whose walk met a bound.
fn failed(reason: DropReason) -> Effect {
    Effect::Drop { reason, copies: 1 }
}

fn teaches(effect: &Effect) -> bool {
    matches!(effect, Effect::Learn { .. })
}

/// A rule that looks up table 1 `times` times, and the rule of table 1.
fn repeated(times: usize, actions: &str) -> String {
    let table = vec!["resubmit(,1)"; times].join(",");
    format!("table=0,ip,actions={table}\ntable=1,ip,actions={actions}")
}

/// Each of these would run for very long if only lookups and effects were bounded.
#[test]
fn lists_of_actions_are_not_executed_without_end() {
    let list = |action: &str, times| vec![action; times].join(",");
    let wide = "move:NXM_NX_XXREG0[]->NXM_NX_XXREG1[]";
    let tags = list("push_vlan:0x8100,pop_vlan", 2000);
    let full_stack = list("push:NXM_NX_XXREG0[]", 1024);
    let clones = format!("{full_stack},{}", list("clone(output:2)", 3000));
    let labels = list("clone(push_mpls:0x8847,pop_mpls:0x0800,dec_ttl)", 2000);
    let registers: Vec<String> = (0..1000)
        .map(|bit| format!("move:NXM_NX_REG0[{}]->NXM_NX_REG1[{}]", bit % 32, bit / 32))
        .collect();
    let action_set = format!("write_actions({},output:2)", registers.join(","));
    let bucket = format!("{},output:2,dec_ttl", registers[..150].join(","));
    let unsorted = format!(
        "group_id=1,type=all{}",
        format!(",bucket={bucket}").repeat(30)
    );
    let many = format!("group_id=1,type=select{}", ",bucket=output:2".repeat(4096));
    let dead = format!(
        "group_id=1,type=ff{}",
        ",bucket=watch_port:3,output:2".repeat(4096)
    );
    let to_group = repeated(2000, "group:1");
    for (name, rules) in [
        ("moves", repeated(2000, &list(wide, 2000))),
        ("tags", repeated(2000, &tags)),
        ("stacks", repeated(100, &clones)),
        ("labels", repeated(100, &labels)),
        ("action sets", repeated(2000, &action_set)),
        (
            "buckets that are no sets",
            format!("{unsorted}\n{to_group}"),
        ),
        ("buckets to choose from", format!("{many}\n{to_group}")),
        ("buckets that are dead", format!("{dead}\n{to_group}")),
        ("floods", repeated(2000, &list("normal", 2000))),
    ] {
        let pipeline = pipeline(&rules);
        let passes = walk(&pipeline, &mut outbox());
        let effects: Vec<&Effect> = passes[0]
            .effects
            .iter()
            .filter(|effect| !teaches(effect))
            .collect();
        assert_eq!(effects, [&failed(DropReason::TooMuchWork)], "{name}");
    }
}

#[test]
fn there_is_no_end_of_functions() {
    let clones = vec!["clone(dec_ttl,output:2)"; 64].join(",");
    let table = vec!["resubmit(,1)"; 64].join(",");
    let rules = format!(
        "table=0,ip,actions={table},dec_ttl,move:NXM_NX_IP_TTL[]->NXM_NX_REG0[0..7],resubmit(,2)\n\
         table=1,ip,actions={clones}\ntable=2,reg0=1,actions=output:2"
    );
    let pipeline = pipeline(&rules);
    let passes = walk(&pipeline, &mut outbox());
    assert!(passes[0].trace.len() > 64);
}
