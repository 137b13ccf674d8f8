//! The flow-mods of the benchmark, and the traffic whose answers they change.

use bytes::Bytes;
use thalweg_openflow::action::{Action, Instructions};
use thalweg_openflow::message::Message;
use thalweg_openflow::message::bundle::{
    ATOMIC, BundleAdd, BundleControl, BundleControlType, ORDERED,
};
use thalweg_openflow::message::flow::{FlowCommand, FlowFlags, FlowMod, FlowStatsRequest};
use thalweg_openflow::message::group::ANY_GROUP;
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::{Condition, FieldId, Match};

/// The cookie of all rules that the client adds; rules of the traffic have others.
const COOKIE: u64 = 0x6265_6e63_6800_0000;
/// Above the rules that the traffic meets.
const PRIORITY: u16 = 1_000;
/// The first source address of the traffic ([`thalweg_workload::MicroCase::macs`]).
const FIRST_SOURCE: u128 = 0x0201_0000_0000;
/// The flags of all bundles.
const FLAGS: u16 = ATOMIC | ORDERED;

/// Adds the rule with a number: its source address is that of the traffic's flow with that
/// number. Rules are of four forms, in turn.
pub(super) fn add(number: u32) -> FlowMod {
    let mut conditions = vec![
        Condition::exact(FieldId::ETH_SRC, FIRST_SOURCE + u128::from(number)),
        Condition::exact(FieldId::ETH_TYPE, 0x0800),
    ];
    let host = 0x1400_0000 | u128::from(number & 0xff_ffff);
    match number % 4 {
        0 => {}
        1 => conditions.push(Condition::exact(FieldId::IP_DST, host)),
        2 => conditions.push(Condition::masked(FieldId::IP_DST, host, 0xffff_ff00)),
        _ => {
            conditions.push(Condition::exact(FieldId::NW_PROTO, 17));
            conditions.push(Condition::exact(FieldId::UDP_DST, 80));
        }
    }
    flow_mod(FlowCommand::Add, conditions)
}

/// Deletes all that [`add`] added.
pub(super) fn delete_all() -> FlowMod {
    FlowMod {
        cookie: COOKIE,
        cookie_mask: u64::MAX,
        ..flow_mod(FlowCommand::Delete, Vec::new())
    }
}

fn flow_mod(command: FlowCommand, conditions: Vec<Condition>) -> FlowMod {
    let apply = match command {
        FlowCommand::Add => vec![Action::Output {
            port: PortNumber(2),
            max_length: 0,
        }],
        _ => Vec::new(),
    };
    FlowMod {
        is_nicira: false,
        command,
        table: 0,
        new_cookie: COOKIE,
        cookie: 0,
        cookie_mask: 0,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        priority: PRIORITY,
        buffer: None,
        out_port: PortNumber::ANY,
        out_group: ANY_GROUP,
        flags: FlowFlags::default(),
        importance: 0,
        matching: Match { conditions },
        instructions: Instructions {
            apply,
            ..Instructions::default()
        },
    }
}

/// Asks for all rules that [`add`] added.
pub(super) fn dump() -> FlowStatsRequest {
    FlowStatsRequest {
        cookie: COOKIE,
        cookie_mask: u64::MAX,
        ..FlowStatsRequest::all()
    }
}

/// Opens, closes or commits a bundle.
pub(super) fn bundle(kind: BundleControlType, bundle: u32) -> Message {
    Message::BundleControl(BundleControl {
        bundle,
        kind,
        flags: FLAGS,
        properties: Bytes::new(),
    })
}

/// Puts a message into a bundle.
pub(super) fn bundled(bundle: u32, message: Vec<u8>) -> Message {
    Message::BundleAdd(BundleAdd {
        bundle,
        flags: FLAGS,
        message: message.into(),
        properties: Bytes::new(),
    })
}
