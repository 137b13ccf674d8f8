//! Changes that no text can express: those that a program can build from the public types.
//!
//! None makes the pipeline panic, now or when a packet comes. A refused change leaves the
//! pipeline unchanged; an accepted one can be executed, printed and undone.

mod by_program;

use std::sync::Arc;

use proptest::prelude::*;
use thalweg_packet::{FieldId, Instant, Packet, PacketPool, PortId, standard as f};
use thalweg_pipeline::{
    Action, Actions, BridgeId, Bucket, Change, ChangeError, Flow, Group, GroupId, GroupKind,
    HashedField, MacMove, Match, Operation, Outbox, Output, Pipeline, PortState, Selection,
    SelectionMethod, Selector, Slice, Station, Subfield, TableId, Write, forward,
};

use by_program::{action, frames, operation, picture};

fn pipeline() -> Pipeline {
    by_program::pipeline(12)
}

/// Executes and prints everything in the pipeline.
fn use_it(pipeline: &Pipeline) {
    for (id, _) in pipeline.rules(pipeline.version()) {
        let flow = pipeline.flow_of(id).expect("it exists");
        let _ = flow.to_string();
    }
    for frame in frames() {
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        outbox.grows = true;
        let mut packet = Packet::from_bytes(&frame);
        packet.set_received(PortId(1), Instant::ZERO);
        forward(pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(6000)
    })]

    #[test]
    fn a_change_is_done_whole_or_not_at_all(
        operations in prop::collection::vec(operation(), 1..5),
    ) {
        let mut pipeline = pipeline();
        let before = picture(&pipeline);
        let change = Change { operations };
        match pipeline.apply(&change, Instant::from_nanos(7)) {
            Ok(_) => use_it(&pipeline),
            Err(error) => {
                prop_assert!(!error.to_string().is_empty());
                prop_assert_eq!(picture(&pipeline), before, "{}", error);
            }
        }
    }

    #[test]
    fn an_action_is_let_in_or_refused(action in action()) {
        let mut pipeline = pipeline();
        let before = picture(&pipeline);
        let flow = Flow {
            actions: [action].into(),
            ..Flow::default()
        };
        match pipeline.apply(&Change::adding([flow]), Instant::ZERO) {
            Ok(_) => use_it(&pipeline),
            Err(_) => prop_assert_eq!(picture(&pipeline), before),
        }
    }
}

fn refusal(action: Action) -> String {
    let flow = Flow {
        actions: [Action::DecTtl, action].into(),
        ..Flow::default()
    };
    let error = pipeline().apply(&Change::adding([flow]), Instant::ZERO);
    error.expect_err("the action cannot be done").to_string()
}

/// Checks that an action is refused, with a text that says where and why.
fn refused(action: Action, expected: &str) {
    let text = refusal(action.clone());
    assert!(text.starts_with("operation 0: action 1: "), "{text}");
    assert!(text.contains(expected), "{action:?}: {text}");
}

fn bits(field: FieldId, offset: u16, width_bits: u16) -> Subfield {
    Subfield {
        slices: [Slice {
            field,
            offset,
            width_bits,
        }]
        .into(),
    }
}

fn set(field: FieldId, value: u128, mask: u128) -> Action {
    Action::SetField([Write { field, value, mask }].into())
}

fn moved(source: Subfield, destination: Subfield) -> Action {
    Action::Move {
        source,
        destination,
    }
}

fn set_vlan(id: Option<u16>, priority: Option<u8>) -> Action {
    Action::SetVlan {
        id,
        priority,
        adds_tag: true,
    }
}

#[test]
fn bits_that_cannot_be_written_or_read_are_refused() {
    let reg1 = || bits(f::REG1, 0, 32);
    let output = |source| Action::Output(Output::Field(source));
    for (action, expected) in [
        (set(f::IP_DST, 1 << 32, 1 << 32), "nw_dst has 32 bits"),
        (set(f::IP_DST, 3, 1), "bits outside the mask"),
        (set(f::IP_DST, 0, 0), "selects no bit of nw_dst"),
        (set(f::ETH_TYPE, 1, 1), "field eth_type is read-only"),
        (set(f::VLAN_TCI_INNER, 1, 1), "vlan_tci_inner is read-only"),
        (set(FieldId(999), 1, 1), "no field number 999"),
        (Action::SetField([].into()), "nothing to write"),
        (Action::Push(bits(f::REG0, 30, 3)), "3 bits from bit 30 up"),
        (Action::Push(bits(f::REG0, !0, !0)), "reg0, which has 32"),
        (Action::Push(bits(f::REG0, 0, 0)), "0 bits from bit 0"),
        (Action::Pop(bits(f::PRESENT_IPV4, 0, 1)), "read-only"),
        (moved(bits(f::IP_DST, 0, 31), reg1()), "31 bits cannot be"),
        (moved(reg1(), bits(f::IP_PROTO, 0, 8)), "nw_proto is read"),
        (output(bits(f::REG0, 0, 33)), "which has 32"),
        (output(Subfield { slices: [].into() }), "no bits"),
        (Action::WriteMetadata { value: 2, mask: 1 }, "outside the"),
    ] {
        refused(action, expected);
    }
}

#[test]
fn actions_that_mean_nothing_are_refused() {
    let resubmit = Action::Resubmit {
        in_port: None,
        table: None,
        with_tuple: false,
    };
    let goto = |table| Action::Goto(TableId(table));
    for (action, expected) in [
        (set_vlan(Some(4096), None), "VLANs 0 to 4095"),
        (set_vlan(None, Some(8)), "priorities 0 to 7"),
        (set_vlan(None, None), "neither id nor priority"),
        (Action::PushVlan(0x0800), "0x8100 or 0x88a8"),
        (Action::PushMpls(0x8100), "0x8847 or 0x8848"),
        (Action::Group(GroupId(!0)), "groups have numbers up to"),
        (goto(255), "tables have numbers up to 254"),
        (resubmit, "name a port or a table"),
        (Action::Clone([goto(1)].into()), "a rule's own list"),
        (Action::WriteActions([Action::Exit].into()), "cannot hold"),
    ] {
        refused(action, expected);
    }
    let nested = Action::Clone([Action::DecTtl, Action::PushVlan(1)].into());
    refused(nested, "action 1: action 1: push_vlan:0x0001");
}

#[test]
fn subfields_wider_than_a_number_are_refused() {
    let slice = |field| Slice {
        field,
        offset: 0,
        width_bits: 128,
    };
    let wide = |count| Subfield {
        slices: vec![slice(f::IPV6_SRC); count].into(),
    };
    assert!(refusal(Action::Push(wide(2))).contains("256 bits; 128 fit"));
    assert!(refusal(Action::Push(wide(1000))).contains("128000 bits"));
}

/// A subfield may be wider than a port number. A number too large then means no port, not the
/// last one.
#[test]
fn a_number_too_large_for_a_port_is_no_port() {
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let wide = Subfield::whole(f::METADATA, 64);
    let number = |value| {
        Action::SetField(
            [Write {
                field: f::METADATA,
                value,
                mask: !0 >> 64,
            }]
            .into(),
        )
    };
    for (value, sent) in [(1 << 32, 0), (u128::from(u32::MAX), 1)] {
        let mut pipeline = pipeline();
        let flow = Flow {
            priority: 9,
            actions: [number(value), Action::Output(Output::Field(wide.clone()))].into(),
            ..Flow::default()
        };
        let operations = vec![
            Operation::SetPort(PortId(u32::MAX), state),
            Operation::Add(flow),
        ];
        pipeline
            .apply(&Change { operations }, Instant::ZERO)
            .expect("the rule is right");
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        let mut packet = Packet::from_bytes(&frames()[0]);
        packet.set_received(PortId(1), Instant::ZERO);
        forward(&pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
        assert_eq!(outbox.sent.len(), sent);
    }
}

#[test]
fn instructions_out_of_order_are_refused() {
    let flow = Flow {
        actions: [Action::Goto(TableId(1)), Action::DecTtl].into(),
        ..Flow::default()
    };
    let error = pipeline().apply(&Change::adding([flow]), Instant::ZERO);
    let text = error.expect_err("the goto is not last").to_string();
    assert!(
        text.contains("action 1: instructions come in this order"),
        "{text}"
    );
}

#[test]
fn lists_nest_only_so_deep() {
    let nested = |depth: usize| {
        let one = Action::DecTtl;
        (1..depth).fold(one, |inner, _| Action::Clone(Arc::new([inner])))
    };
    let add = |action| {
        let flow = Flow {
            actions: [action].into(),
            ..Flow::default()
        };
        pipeline().apply(&Change::adding([flow]), Instant::ZERO)
    };
    assert!(add(nested(32)).is_ok());
    let error = add(nested(33)).expect_err("too deep");
    assert!(error.to_string().contains("deeper than 32"), "{error}");
}

#[test]
fn conditions_on_bits_that_do_not_exist_are_refused() {
    let on = |field, mask| {
        let mut matching = Match::default();
        matching.add(field, 0, mask).expect("no contradiction");
        matching
    };
    for matching in [
        on(FieldId(999), 1),
        on(f::IP_DST, 1 << 32),
        on(f::IN_PORT, u128::MAX),
    ] {
        let selector = Selector {
            matching: matching.clone(),
            ..Selector::default()
        };
        let flow = Flow {
            matching,
            ..Flow::default()
        };
        for operation in [
            Operation::Add(flow),
            Operation::Modify(selector.clone(), [].into()),
            Operation::Delete(selector),
        ] {
            let error = pipeline().apply(&Change::one(operation), Instant::ZERO);
            assert!(
                matches!(error, Err(ChangeError::BadRule { .. })),
                "{error:?}"
            );
        }
    }
}

#[test]
fn buckets_and_stations_are_checked() {
    let group = |kind, actions: Actions| Group {
        id: GroupId(3),
        kind,
        buckets: vec![Bucket {
            id: 7,
            weight: 0,
            watch_port: None,
            watch_group: None,
            actions,
            max_length: 0,
        }],
    };
    let hashing = |mask, only_with| {
        let field = f::IP_DST;
        let hashed = HashedField {
            field,
            mask,
            only_with,
        };
        let method = SelectionMethod::Fields(vec![hashed]);
        GroupKind::Select(Selection {
            method,
            parameter: 0,
        })
    };
    let cases = [
        (
            group(hashing(1 << 40, None), [].into()),
            "bits past a field's end",
        ),
        (
            group(hashing(1, Some(f::IP_SRC)), [].into()),
            "no presence bit",
        ),
        (
            group(GroupKind::All, [Action::PushVlan(1)].into()),
            "bucket 7: action 0: push_vlan",
        ),
        (
            group(GroupKind::All, [Action::Goto(TableId(1))].into()),
            "bucket 7: action 0",
        ),
    ];
    for (group, expected) in cases {
        let error = pipeline().apply(&Change::one(Operation::SetGroup(group)), Instant::ZERO);
        let text = error.expect_err("the group cannot be had").to_string();
        assert!(text.contains(expected), "{text}");
    }
    let moved = MacMove {
        station: Station {
            bridge: BridgeId::default(),
            vlan: 1,
            mac: 1 << 48,
        },
        port: None,
    };
    let moved = Change::one(Operation::MoveMacs(vec![moved]));
    assert!(pipeline().apply(&moved, Instant::ZERO).is_err());
}
