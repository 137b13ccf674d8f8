//! What a controller is told of a packet: who sent it, why, and what the packet has besides its
//! bytes. Expected answers are Open vSwitch 3.1's.

mod loaded;

use loaded::pipeline;
use thalweg_packet::{FieldId, Instant, Packet, PacketPool, PortId, standard as f};
use thalweg_pipeline::text::parse_flow;
use thalweg_pipeline::{Author, Notice, Outbox, PacketInReason, Passes, Pipeline, Sender, TableId};

use PacketInReason::{Action, ActionSet, Group, InvalidTtl, MissRule, NoMatch, PacketOut};

/// The notices about an IPv4 packet from port 1, each with the number of bytes told.
fn told_of(pipeline: &Pipeline, out: Option<&str>) -> Vec<(Notice, usize)> {
    let mut frame = vec![0; 34];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    (frame[17], frame[22]) = (20, 64);
    let mut packet = Packet::from_bytes(&frame);
    packet.set_received(PortId(1), Instant::ZERO);
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let mut passes = Passes::new(pipeline, pipeline.version(), packet, &mut outbox);
    if let Some(actions) = out {
        let flow = parse_flow(&format!("actions={actions}")).expect("they are right");
        passes = passes.with_actions(flow.actions, &[]);
    }
    passes.for_each(|pass| drop(pass.expect("a frame")));
    let told = outbox.to_controller.drain(..);
    told.map(|(notice, packet)| (notice, packet.len()))
        .collect()
}

fn reasons(rules: &str, out: Option<&str>) -> Vec<PacketInReason> {
    let told = told_of(&pipeline(rules), out);
    told.into_iter().map(|(notice, _)| notice.reason).collect()
}

#[test]
fn the_reason_is_that_of_the_place_unless_the_action_names_one() {
    // A table-miss rule has priority 0 and matches everything.
    let rules = "priority=0,actions=controller(max_len=20),controller(userdata=01),resubmit(,1)\n\
                 table=1,actions=controller(max_len=30)\n\
                 table=1,priority=0,tcp,actions=controller";
    assert_eq!(reasons(rules, None), [MissRule, MissRule, Action]);
    let rules = "priority=0,ip,actions=controller,controller(reason=no_match)";
    assert_eq!(reasons(rules, None), [Action, NoMatch]);
    // Only a bucket's own actions are of the group.
    let rules = "group_id=1,type=all,bucket=resubmit(,1),bucket=controller\n\
                 actions=group:1\n\
                 table=1,actions=controller";
    assert_eq!(reasons(rules, None), [Action, Group]);
    // All that an action set leads to is of the set.
    let rules = "actions=write_actions(resubmit(,1))\n\
                 table=1,actions=controller,controller(userdata=03)";
    assert_eq!(reasons(rules, None), [ActionSet, Action]);
    let rules = "priority=0,actions=controller,resubmit(,1)\n\
                 table=1,ip,actions=set_field:1->nw_ttl,dec_ttl";
    let out = Some("controller,controller(userdata=05),resubmit(,0)");
    assert_eq!(
        reasons(rules, out),
        [PacketOut, Action, PacketOut, InvalidTtl]
    );
    // A pause has the reason that it names.
    let rules = "priority=0,actions=controller(pause)";
    assert_eq!(reasons(rules, None), [Action]);
}

fn senders(rules: &str) -> Vec<Sender> {
    let told = told_of(&pipeline(rules), None);
    told.into_iter()
        .map(|(notice, _)| *notice.sender.expect("a rule sent it"))
        .collect()
}

fn origins(rules: &str) -> Vec<(u8, Option<u64>)> {
    let senders = senders(rules).into_iter();
    senders
        .map(|sender| (sender.table.number(), sender.cookie))
        .collect()
}

#[test]
fn the_rule_is_that_of_the_list_even_behind_another_parse() {
    let rules = |more: &str| {
        format!(
            "cookie=1,ip,actions=resubmit(,1),controller,goto_table:3\n\
             table=1,cookie=2,ip,actions={more}resubmit(,2),controller\n\
             table=2,cookie=3,actions=controller\n\
             table=3,cookie=4,actions=controller"
        )
    };
    let expected = [(2, Some(3)), (1, Some(2)), (0, Some(1)), (3, Some(4))];
    assert_eq!(origins(&rules("")), expected);
    assert_eq!(
        origins(&rules("push_mpls:0x8847,pop_mpls:0x0800,")),
        expected
    );
    // The action set is the first rule's.
    let set = "cookie=1,actions=write_actions(controller),goto_table:1\n\
               table=1,cookie=2,actions=output:2,goto_table:2\n\
               table=2,cookie=3,ip,actions=output:3";
    assert_eq!(origins(set), [(0, Some(1))]);
}

#[test]
fn an_action_set_that_is_executed_takes_no_more_actions() {
    let rules = |more: &str| {
        format!(
            "ip,actions=write_actions(resubmit(,1))\n\
             table=1,actions={more}resubmit(,2),write_actions(controller)\n\
             table=2,reg0=0,nw_tos=0,ip,actions=drop"
        )
    };
    assert_eq!(origins(&rules("")), []);
    assert_eq!(origins(&rules("push_mpls:0x8847,pop_mpls:0x0800,")), []);
}

#[test]
fn what_is_beside_the_packet_is_told() {
    let fields = |rules: &str| -> Vec<(FieldId, u128)> {
        let senders = senders(rules);
        senders[0].fields.to_vec()
    };
    // So that the key has them.
    let reads = "table=9,priority=1,reg0=1,reg1=1,metadata=1,tun_id=1,in_port=1,actions=drop\n";
    assert_eq!(fields(&format!("{reads}actions=controller")), []);
    let written = format!(
        "{reads}actions=set_field:5->reg1,set_field:6->metadata,set_field:7->tun_id,\
         set_field:0->in_port,controller"
    );
    let mut expected = vec![(f::METADATA, 6), (f::TUN_ID, 7), (f::IN_PORT, 0)];
    expected.push((f::register_field(1), 5));
    expected.sort_unstable();
    assert_eq!(fields(&written), expected);
    let unread = "actions=set_field:5->reg1,load:6->OXM_OF_METADATA[],\
                  push:NXM_NX_REG1[],pop:NXM_NX_REG3[],controller";
    let registers = [f::register_field(1), f::register_field(3)];
    let mut expected = vec![(f::METADATA, 6), (registers[0], 5), (registers[1], 5)];
    expected.sort_unstable();
    assert_eq!(fields(unread), expected, "no rule reads them");
    let tunnel = "actions=set_field:7->tun_id,controller";
    assert_eq!(fields(tunnel), [(f::TUN_ID, 7)], "no rule reads it");
}

#[test]
fn a_paused_packet_is_whole_and_has_what_is_left() {
    let rules = "cookie=1,actions=push:NXM_OF_IN_PORT[],set_field:5->reg0,push:NXM_NX_REG0[0..11],\
                 write_actions(output:3),goto_table:1\n\
                 table=1,cookie=2,reg0=5,actions=clone(output:4),controller(pause,max_len=20,id=7,\
                 userdata=01.02),output:2,goto_table:2";
    let told = told_of(&pipeline(rules), None);
    let [(notice, 34)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!((notice.total_len_bytes, notice.controller_id), (34, 7));
    assert_eq!(*notice.userdata, [1, 2]);
    let sender = notice.sender.as_ref().expect("a rule sent it");
    assert_eq!((sender.table, sender.cookie), (TableId(1), Some(2)));
    assert_eq!(*sender.fields, [(f::REG0, 5)]);
    let continuation = sender.continuation.as_ref().expect("it is paused");
    let [list] = &*continuation.lists else {
        panic!("{continuation:?}");
    };
    assert_eq!((list.table, list.author), (TableId(1), Author::Cookie(2)));
    assert_eq!(list.actions.len(), 2);
    assert_eq!(continuation.action_set.len(), 1);
    assert_eq!(continuation.end, Some((TableId(0), Author::Cookie(1))));
    let stack = continuation.stack.iter().map(|saved| saved.to_bytes());
    assert_eq!(stack.collect::<Vec<_>>(), [vec![0, 1], vec![0, 5]]);
}
