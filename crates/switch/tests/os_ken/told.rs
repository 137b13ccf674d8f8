//! What a controller reads back is what it sent, where several messages mean the same.

use thalweg_openflow::action::{Action, Instructions};
use thalweg_openflow::message::Message;
use thalweg_openflow::message::flow::FlowCommand;
use thalweg_openflow::message::group::{ANY_GROUP, Bucket, GroupCommand, GroupMod, GroupType};
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::message::{Reply, Request};
use thalweg_openflow::{Condition, FieldId, Match};

use crate::run::{Bench, flow_mod};

fn output(port: PortNumber, max_length: u16) -> Action {
    Action::Output { port, max_length }
}

/// Changes the entry for IPv4, and reads it back.
fn told_of(bench: &mut Bench, command: FlowCommand, asked: &Instructions) -> Instructions {
    let mut change = flow_mod(command, 0);
    let ipv4 = Condition::exact(FieldId::ETH_TYPE, 0x0800);
    change.matching = Match {
        conditions: vec![ipv4],
    };
    change.instructions = asked.clone();
    bench.client.send(&Message::FlowMod(Box::new(change)));
    bench.client.barrier().expect("it is done");
    let flows = bench.flows().expect("they are told");
    assert_eq!(flows.len(), 1);
    flows[0].instructions.clone()
}

#[test]
fn the_length_of_outputs_is_told_as_it_was_sent_last() {
    let mut bench = Bench::start();
    let with = |length| Instructions {
        apply: vec![
            Action::SetNwTos(32),
            Action::SetNwTtl(9),
            output(PortNumber(2), length),
            output(PortNumber::CONTROLLER, 60),
            Action::Clone(vec![output(PortNumber::FLOOD, length)]),
        ],
        write: Some(vec![output(PortNumber(3), length)]),
        ..Instructions::default()
    };
    // From OpenFlow 1.2 on, the type of service is written by its field.
    let as_told = |length| {
        let mut told = with(length);
        told.apply[0] = Action::SetField {
            field: FieldId::IP_DSCP,
            value: thalweg_openflow::Value::from_number(8, 1),
            mask: None,
            form: thalweg_openflow::action::SetForm::SetField,
        };
        told
    };
    let told = told_of(&mut bench, FlowCommand::Add, &with(128));
    assert_eq!(told, as_told(128));
    // Nothing else changes, and then more does.
    let told = told_of(&mut bench, FlowCommand::Modify, &with(0xffe5));
    assert_eq!(told, as_told(0xffe5));
    let told = told_of(&mut bench, FlowCommand::ModifyStrict, &with(0));
    assert_eq!(told, as_told(0));
    bench.stop();
}

#[test]
fn the_length_of_outputs_is_told_of_each_bucket() {
    let mut bench = Bench::start();
    let bucket = |id: u32, max_length| Bucket {
        id,
        weight: Some(0),
        watch_port: PortNumber::ANY,
        watch_group: ANY_GROUP,
        actions: vec![output(PortNumber(2 + id), max_length)],
    };
    let buckets = vec![bucket(0, 0xffff), bucket(1, 7)];
    let group = GroupMod {
        command: GroupCommand::Add,
        kind: GroupType::All,
        group: 5,
        command_bucket: thalweg_openflow::message::group::ALL_BUCKETS,
        buckets: buckets.clone(),
        selection: None,
    };
    bench.client.send(&Message::GroupMod(group));
    bench.client.barrier().expect("it is done");
    let told = bench.client.ask(Request::GroupDesc(5)).expect("it is told");
    let [Reply::GroupDesc(told)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(told[0].buckets, buckets);
    bench.stop();
}
