//! Answers given by Open vSwitch 3.1.0: resubmits, bounds, buckets, action sets, reserved
//! ports.
//!
//! Each was obtained from it (`cargo xtask ovs-trace`). The random comparison (`cargo xtask
//! differential`) covers the same ground, but not its edges.

use std::fmt::Write as _;

use thalweg_packet::{Instant, Packet, PacketPool, PortId, standard as f};
use thalweg_pipeline::text::{LOCAL_PORT, parse_rules};
use thalweg_pipeline::{
    Change, Config, DropReason, Effect, OVS_COMPARED, Operation, Outbox, Pipeline, PortState,
    Translation, forward,
};

/// A frame from 02:00:00:00:00:02 to 02:00:00:00:00:01, with an EtherType for experiments.
const FRAME: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];

/// A frame with three MPLS labels.
const LABELLED: [u8; 26] = [
    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0x47, 0, 1, 0, 64, 0, 2, 0, 64, 0, 3, 1, 64,
];

/// What happened to a packet from port 1.
struct Seen {
    /// The ports it left by, in order; 0 for the controller.
    ports: Vec<u32>,
    passes: Vec<Translation>,
    learned: usize,
}

fn pipeline(rules: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(Config::default());
    let numbers = [1, 2, 3, 4, LOCAL_PORT.0];
    let ports = numbers.map(|number| {
        let state = PortState {
            is_up: true,
            floods: number < 4,
            forwards: true,
            peer: None,
        };
        Operation::SetPort(PortId(number), state)
    });
    let rules = parse_rules("rules", rules).expect("the test's rules are right");
    let operations = ports
        .into_iter()
        .chain(rules.into_change().operations)
        .collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the test's rules can be loaded");
    pipeline
}

fn see(rules: &str, frame: &[u8]) -> Seen {
    let pipeline = pipeline(rules);
    let mut packet = Packet::from_bytes(frame);
    packet.set_received(PortId(1), Instant::ZERO);
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let passes = forward(&pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    let sent = outbox.sent.iter().map(|(port, _)| port.0);
    Seen {
        ports: sent.chain(outbox.to_controller.iter().map(|_| 0)).collect(),
        passes,
        learned: outbox.stations_seen.len(),
    }
}

fn ports(rules: &str) -> Vec<u32> {
    see(rules, &FRAME).ports
}

/// Why nothing of the packet leaves, although its rules send.
fn failure(rules: &str) -> Option<DropReason> {
    let seen = see(rules, &FRAME);
    assert_eq!(seen.ports, []);
    let pass = &seen.passes[0];
    assert!(pass.continuations.is_empty());
    let drop = pass
        .drop_reason
        .map(|reason| Effect::Drop { reason, copies: 1 });
    assert_eq!(pass.effects.first(), drop.as_ref());
    assert_eq!(pass.effects.len(), 1 + seen.learned);
    pass.drop_reason
}

/// Tables 0 to `last - 1`, each with a rule that looks up the next table.
fn forward_chain(last: u32) -> String {
    let rules = (0..last).map(|table| format!("table={table},actions=resubmit(,{})\n", table + 1));
    rules.collect()
}

/// `times` nested lookups of table 0, then `actions`.
fn backward_chain(times: u32, actions: &str) -> String {
    let mut text = String::new();
    for turn in 0..times {
        let next = turn + 1;
        let _ = writeln!(
            text,
            "table=0,reg0={turn},actions=load:{next}->NXM_NX_REG0[],resubmit(,0)"
        );
    }
    text + &format!("table=0,reg0={times},actions={actions}\n")
}

#[test]
fn resubmits_that_lead_forward_are_not_deep() {
    let chain = |last| format!("{}table={last},actions=output:3", forward_chain(last));
    assert_eq!(ports(&chain(65)), [3]);
    assert_eq!(ports(&chain(254)), [3]);
    // Nor are gotos bounded by depth, and clones only add to the nested copies.
    let clones = chain(200)
        .replace("resubmit", "clone(resubmit")
        .replace(")\n", "))\n");
    assert_eq!(ports(&clones), [3]);
    let gotos = backward_chain(63, "goto_table:1") + "table=1,actions=output:3";
    assert_eq!(ports(&gotos), [3]);
}

#[test]
fn resubmits_that_do_not_lead_forward_are_deep() {
    assert_eq!(ports(&backward_chain(64, "output:3")), [3]);
    let deep = Some(DropReason::RecursionTooDeep);
    assert_eq!(failure(&backward_chain(65, "output:3")), deep);
    // At the bound, no further lookup or group is possible.
    let goto = backward_chain(64, "goto_table:1") + "table=1,actions=output:3";
    assert_eq!(failure(&goto), deep);
    let group = "group_id=1,type=all,bucket=actions=output:3\n";
    assert_eq!(ports(&(backward_chain(63, "group:1") + group)), [3]);
    assert_eq!(failure(&(backward_chain(64, "group:1") + group)), deep);
}

#[test]
fn buckets_are_deep() {
    let chain = |groups: u32| {
        let mut text = format!("group_id={groups},type=indirect,bucket=actions=output:3\n");
        for group in (1..groups).rev() {
            let next = group + 1;
            let _ = writeln!(
                text,
                "group_id={group},type=indirect,bucket=actions=group:{next}"
            );
        }
        text + "actions=group:1"
    };
    assert_eq!(ports(&chain(64)), [3]);
    assert_eq!(failure(&chain(65)), Some(DropReason::RecursionTooDeep));
}

/// Table 253 restarts at table 0, sixteen times: 254 lookups each time.
fn sixteen_rounds(end: u32) -> String {
    let mut text = forward_chain(253);
    for turn in 0..16 {
        let next = turn + 1;
        let _ = writeln!(
            text,
            "table=253,reg0={turn},actions=load:{next}->NXM_NX_REG0[],resubmit(,0)"
        );
    }
    text + &format!("table={end},priority=40000,reg0=16,actions=output:2\n")
}

#[test]
fn lookups_have_a_bound_of_their_own() {
    assert_eq!(ports(&sixteen_rounds(32)), [2]);
    assert_eq!(
        failure(&sixteen_rounds(33)),
        Some(DropReason::TooManyLookups)
    );
    // Lookups in tables without a rule count too.
    let many = vec!["resubmit(,2)"; 64].join(",");
    let rules = |more: usize| {
        let first = [vec!["resubmit(,1)"; 63], vec!["resubmit(,3)"; more]].concat();
        format!(
            "actions={},output:3\ntable=1,actions={many}",
            first.join(",")
        )
    };
    assert_eq!(ports(&rules(1)), [3]);
    assert_eq!(failure(&rules(2)), Some(DropReason::TooManyLookups));
}

#[test]
fn the_stack_has_a_bound_where_a_lookup_or_a_group_follows() {
    let rules = |bits: &str, pushes: usize, end: &str| {
        let mut text = "group_id=1,type=all,bucket=actions=output:3\n".to_owned();
        let mut table = 0;
        let mut left = pushes;
        while left > 0 {
            let count = left.min(1000);
            left -= count;
            let list = vec![format!("push:{bits}"); count].join(",");
            let next = if left > 0 {
                format!("resubmit(,{})", table + 1)
            } else {
                end.to_owned()
            };
            let _ = writeln!(text, "table={table},actions={list},{next}");
            table += 1;
        }
        text + "table=200,actions=output:3"
    };
    for end in ["resubmit(,200)", "goto_table:200", "group:1"] {
        assert_eq!(ports(&rules("NXM_NX_XXREG0[]", 3855, end)), [3], "{end}");
        let deep = Some(DropReason::StackTooDeep);
        assert_eq!(failure(&rules("NXM_NX_XXREG0[]", 3856, end)), deep, "{end}");
    }
    assert_eq!(
        ports(&rules("NXM_NX_REG0[0]", 32_767, "resubmit(,200)")),
        [3]
    );
    let deep = Some(DropReason::StackTooDeep);
    assert_eq!(
        failure(&rules("NXM_NX_REG0[0]", 32_768, "resubmit(,200)")),
        deep
    );
    assert_eq!(ports(&rules("NXM_NX_XXREG0[]", 3856, "output:2")), [2]);
}

#[test]
fn a_failed_walk_does_nothing_of_what_it_came_to() {
    let deep = Some(DropReason::RecursionTooDeep);
    for rules in [
        "actions=output:2,resubmit(,0)",
        "actions=output:2,controller,resubmit(,0),output:3",
        "actions=mod_dl_src:02:00:00:00:00:09,output:2,clone(resubmit(,0)),output:3",
        "actions=output:2,write_actions(resubmit(,1))\ntable=1,actions=output:3,resubmit(,1)",
        "group_id=1,type=all,bucket=actions=output:2,bucket=actions=resubmit(,0),\
         bucket=actions=output:2\nactions=group:1,output:3",
        "actions=output:2,load:0xfff9->NXM_NX_REG0[],output:NXM_NX_REG0[]",
        "actions=output:2,output:TABLE",
    ] {
        assert_eq!(failure(rules), deep, "{rules}");
    }
}

#[test]
fn a_failed_walk_has_taught_what_it_taught() {
    for rules in [
        "actions=normal,resubmit(,0)",
        "actions=clone(push_vlan:0x8100,normal,output:2),resubmit(,0)",
    ] {
        assert_eq!(failure(rules), Some(DropReason::RecursionTooDeep));
        assert!(see(rules, &FRAME).learned > 0, "{rules}");
    }
}

/// If a pass fails, only its own effects are lost, not those of earlier passes.
#[test]
fn a_pass_fails_by_itself() {
    let rules = "table=0,priority=2,mpls,mpls_bos=0,actions=output:2,pop_mpls:0x8847,resubmit(,1)\n\
                 table=1,actions=output:3,resubmit(,1)";
    let seen = see(rules, &LABELLED);
    assert_eq!(seen.ports, [2]);
    let reasons: Vec<_> = seen.passes.iter().map(|pass| pass.drop_reason).collect();
    assert_eq!(reasons, [None, Some(DropReason::RecursionTooDeep)]);
    // A pass that fails after it was cut sends nothing on to the next pass.
    let rules = "table=0,mpls,actions=clone(pop_mpls:0x8847,resubmit(,1)),resubmit(,2)\n\
                 table=1,actions=output:3\ntable=2,actions=resubmit(,2)";
    let seen = see(rules, &LABELLED);
    assert_eq!((seen.ports.len(), seen.passes.len()), (0, 1));
}

#[test]
fn buckets_and_action_sets_execute_all_writes_in_order() {
    let writes = "set_field:0xa0a0007->xxreg0,set_field:0x50/0xffff->reg4,\
                  set_field:0x100000/0x100000->reg4,resubmit(,1)";
    let matches = "table=1,xxreg0=0xa0a0007,reg4=0x100050,actions=output:2";
    for kind in [
        "select,bucket=weight:100,actions",
        "all,bucket=actions",
        "indirect,bucket",
    ] {
        let rules = format!("group_id=1,type={kind}={writes}\nactions=group:1\n{matches}");
        assert_eq!(ports(&rules), [2], "{kind}");
    }
    let set = format!("actions=write_actions({writes})\n{matches}");
    assert_eq!(ports(&set), [2]);
    let sets = "actions=write_actions(set_field:0x50/0xffff->reg4,resubmit(,2)),goto_table:1\n\
                table=1,actions=write_actions(set_field:0x100000/0x100000->reg4)\n\
                table=2,reg4=0x100050,actions=output:2";
    assert_eq!(ports(sets), [2]);
}

#[test]
fn a_move_between_writes_takes_what_was_there_then() {
    let list = "set_field:1->reg1,move:NXM_NX_REG1[]->NXM_NX_REG2[],set_field:2->reg1,\
                move:NXM_NX_REG1[]->NXM_NX_REG3[],move:NXM_NX_REG2[]->NXM_NX_REG1[],resubmit(,1)";
    let end = "table=1,reg1=1,reg2=1,reg3=2,actions=output:2";
    assert_eq!(ports(&format!("actions=write_actions({list})\n{end}")), [2]);
    let bucket = format!("group_id=1,type=all,bucket=actions={list}\nactions=group:1\n{end}");
    assert_eq!(ports(&bucket), [2]);
}

#[test]
fn sets_begin_with_what_comes_once_and_end_with_what_counts_most() {
    let ends = |list: &str| {
        ports(&format!(
            "actions=write_actions({list})\ntable=1,actions=output:4"
        ))
    };
    assert_eq!(ends("output:2,output:3"), [3]);
    assert_eq!(ends("output:2,resubmit(,1)"), [2]);
    assert_eq!(ends("resubmit(,1)"), [4]);
    assert_eq!(ends("set_field:1->reg0"), []);
    // The write applies to the pushed tag, though the write comes first.
    let pushed = "actions=write_actions(mod_vlan_vid:5,push_vlan:0x8100,resubmit(,1))\n\
                  table=1,dl_vlan=5,actions=output:2";
    assert_eq!(ports(pushed), [2]);
}

#[test]
fn buckets_pass_over_what_no_set_can_hold() {
    let bucket = |list: &str| {
        let rule = "actions=load:2->NXM_NX_REG0[],group:1,output:3";
        ports(&format!(
            "group_id=1,type=all,bucket=actions={list}\n{rule}"
        ))
    };
    assert_eq!(bucket("clone(output:2)"), [3]);
    assert_eq!(bucket("exit,output:2"), [2, 3]);
    assert_eq!(
        bucket("push:NXM_NX_REG0[],pop:NXM_NX_REG1[],output:2"),
        [2, 3]
    );
    assert_eq!(bucket("output:NXM_NX_REG0[]"), [3]);
    assert_eq!(bucket("note:01.02,output:2"), [2, 3]);
    assert_eq!(bucket("controller(userdata=01.02),output:2"), [2, 3]);
    assert_eq!(bucket("controller(userdata=01.02)"), [3]);
    assert_eq!(bucket("controller(max_len=20)"), [3, 0]);
    // The lists that they lead to can do all that.
    let rules = "group_id=1,type=all,bucket=actions=resubmit(,1)\nactions=group:1,output:3\n\
                 table=1,actions=clone(output:2),output:4";
    assert_eq!(ports(rules), [2, 4, 3]);
}

#[test]
fn a_field_can_name_a_reserved_port() {
    let by = |number: u32, bits: &str| {
        ports(&format!(
            "table=0,reg2=0,actions=load:1->NXM_NX_REG2[],load:{number}->NXM_NX_REG1[],\
             output:NXM_NX_REG1{bits}\ntable=0,reg2=1,actions=output:4"
        ))
    };
    let all = [2, 3, 4, LOCAL_PORT.0];
    for bits in ["[]", "[0..15]"] {
        assert_eq!(by(0xfff7, bits), []);
        assert_eq!(by(0xfff8, bits), [1]);
        assert_eq!(by(0xfff9, bits), [4]);
        assert_eq!(by(0xfffa, bits), [2, 3]);
        assert_eq!(by(0xfffb, bits), [2, 3]);
        assert_eq!(by(0xfffc, bits)[..3], all[..3]);
        assert_eq!(by(0xfffd, bits), [0]);
        assert_eq!(by(0xfffe, bits), [LOCAL_PORT.0]);
        assert_eq!(by(0xffff, bits), []);
    }
    // OpenFlow 1.1 writes reserved ports with 32 bits; registers do not.
    assert_eq!(by(0xffff_fff8, "[]"), []);
    assert_eq!(by(0xffff_fff8, "[0..15]"), [1]);
    // Eight bits never are a reserved port.
    assert_eq!(by(0xfff8, "[0..7]"), []);
}

#[test]
fn the_first_table_can_be_sent_to() {
    let rules = "table=0,reg2=0,actions=load:1->NXM_NX_REG2[],output:TABLE,output:3\n\
                 table=0,reg2=1,actions=output:4";
    assert_eq!(ports(rules), [4, 3]);
    let bucket = "group_id=1,type=all,bucket=actions=TABLE\n\
                  table=0,reg2=0,actions=load:1->NXM_NX_REG2[],group:1\n\
                  table=0,reg2=1,actions=output:4";
    assert_eq!(ports(bucket), [4]);
}

/// `normal` reads addresses and tags, even where only a field's value selects it.
#[test]
fn a_field_that_names_normal_has_the_key_that_it_needs() {
    let rules = "actions=load:0xfffa->NXM_NX_REG1[0..15],output:NXM_NX_REG1[0..15]";
    let seen = see(rules, &FRAME);
    assert_eq!((seen.ports, seen.learned), (vec![2, 3], 1));
}

#[test]
fn each_answer_is_for_one_port_and_kind_of_frame_if_asked_for() {
    let pipeline = Pipeline::new(Config {
        compared: OVS_COMPARED,
        ..Config::default()
    });
    let mut packet = Packet::from_bytes(&FRAME);
    packet.set_received(PortId(1), Instant::ZERO);
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    let passes = forward(&pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    let layout = pipeline.layout();
    let examined = |field| layout.get(&passes[0].mask, field);
    assert_eq!(examined(f::IN_PORT), Some(u32::MAX.into()));
    assert_eq!(examined(f::ETH_TYPE), Some(0xffff));
    assert_eq!(examined(f::IP_FRAG), Some(3));
}
