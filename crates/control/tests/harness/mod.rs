//! A device on a model, and short forms of messages.

#![allow(dead_code, reason = "each test file uses a part")]

use thalweg_control::model::Model;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::{
    ActionCall, Code, Device, DeviceConfig, EntryKey, Failure, Initial, InitialEntry, Match,
    StreamEvent, StreamId, Value, read_text,
};
use thalweg_packet::Instant;

pub(crate) const EVERYTHING: &str = include_str!("../../testdata/everything.p4info.txtpb");

pub(crate) const MAC: u32 = 0x0200_0001;
pub(crate) const ROUTE: u32 = 0x0200_0002;
pub(crate) const ACL: u32 = 0x0200_0003;
pub(crate) const KEYLESS: u32 = 0x0200_0004;
pub(crate) const FIXED: u32 = 0x0200_0005;
pub(crate) const ECMP: u32 = 0x0200_0006;
pub(crate) const INDIRECT: u32 = 0x0200_0007;
pub(crate) const NO_ACTION: u32 = 0x0100_0001;
pub(crate) const FORWARD: u32 = 0x0100_0002;
pub(crate) const DROP: u32 = 0x0100_0003;
pub(crate) const SELECTOR: u32 = 0x1100_0001;
pub(crate) const PROFILE: u32 = 0x1100_0002;
pub(crate) const DIGEST: u32 = 0x1700_0001;
pub(crate) const PRIMARY: StreamId = StreamId(1);

pub(crate) fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// A device with the program that has everything, and a primary with election id 1.
pub(crate) fn device() -> Device<Model> {
    let mut device = bare_device();
    let action = p4::set_forwarding_pipeline_config_request::Action::VerifyAndCommit;
    device
        .handle_set_pipeline(&pipeline_request(action, Some(config())), at(0))
        .expect("the program is one of a model");
    device
}

/// A device without a program.
pub(crate) fn bare_device() -> Device<Model> {
    let mut model = Model::default();
    model.initial = Initial {
        entries: vec![InitialEntry {
            table: FIXED,
            key: EntryKey {
                priority: 0,
                matches: vec![Match::Exact(Value::from(0x800))],
            },
            action: ActionCall {
                action: NO_ACTION,
                arguments: Vec::new(),
            },
            is_const: true,
        }],
        defaults: vec![(
            MAC,
            ActionCall {
                action: NO_ACTION,
                arguments: Vec::new(),
            },
        )],
        ..Initial::default()
    };
    let mut device = Device::new(DeviceConfig::default(), model);
    device.handle_message(PRIMARY, &arbitration(1, "", Some(1)));
    drain(&mut device);
    device
}

pub(crate) fn config() -> p4::ForwardingPipelineConfig {
    p4::ForwardingPipelineConfig {
        p4info: Some(read_text(EVERYTHING).expect("it is P4Info")),
        p4_device_config: bytes::Bytes::from_static(b"{}"),
        cookie: Some(p4::forwarding_pipeline_config::Cookie { cookie: 42 }),
    }
}

pub(crate) fn pipeline_request(
    action: p4::set_forwarding_pipeline_config_request::Action,
    config: Option<p4::ForwardingPipelineConfig>,
) -> p4::SetForwardingPipelineConfigRequest {
    p4::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(id(1)),
        action: action as i32,
        config,
        ..Default::default()
    }
}

pub(crate) fn id(low: u64) -> p4::Uint128 {
    p4::Uint128 { high: 0, low }
}

pub(crate) fn arbitration(
    device: u64,
    role: &str,
    election: Option<u64>,
) -> p4::StreamMessageRequest {
    let update = p4::MasterArbitrationUpdate {
        device_id: device,
        role: (!role.is_empty()).then(|| p4::Role {
            name: role.to_owned(),
            ..Default::default()
        }),
        election_id: election.map(id),
        status: None,
    };
    p4::StreamMessageRequest {
        update: Some(p4::stream_message_request::Update::Arbitration(update)),
    }
}

pub(crate) fn drain(device: &mut Device<Model>) -> Vec<(StreamId, StreamEvent)> {
    std::iter::from_fn(|| device.poll_transmit()).collect()
}

pub(crate) fn exact(id: u32, value: &[u8]) -> p4::FieldMatch {
    let value = bytes::Bytes::copy_from_slice(value);
    let exact = p4::field_match::Exact { value };
    field(id, p4::field_match::FieldMatchType::Exact(exact))
}

pub(crate) fn lpm(id: u32, value: &[u8], prefix_len: i32) -> p4::FieldMatch {
    let value = bytes::Bytes::copy_from_slice(value);
    let lpm = p4::field_match::Lpm { value, prefix_len };
    field(id, p4::field_match::FieldMatchType::Lpm(lpm))
}

pub(crate) fn ternary(id: u32, value: &[u8], mask: &[u8]) -> p4::FieldMatch {
    let ternary = p4::field_match::Ternary {
        value: bytes::Bytes::copy_from_slice(value),
        mask: bytes::Bytes::copy_from_slice(mask),
    };
    field(id, p4::field_match::FieldMatchType::Ternary(ternary))
}

pub(crate) fn range(id: u32, low: &[u8], high: &[u8]) -> p4::FieldMatch {
    let range = p4::field_match::Range {
        low: bytes::Bytes::copy_from_slice(low),
        high: bytes::Bytes::copy_from_slice(high),
    };
    field(id, p4::field_match::FieldMatchType::Range(range))
}

pub(crate) fn optional(id: u32, value: &[u8]) -> p4::FieldMatch {
    let value = bytes::Bytes::copy_from_slice(value);
    let optional = p4::field_match::Optional { value };
    field(id, p4::field_match::FieldMatchType::Optional(optional))
}

fn field(id: u32, kind: p4::field_match::FieldMatchType) -> p4::FieldMatch {
    p4::FieldMatch {
        field_id: id,
        field_match_type: Some(kind),
    }
}

pub(crate) fn forward(port: &[u8]) -> p4::Action {
    let param = |param_id, value: &[u8]| p4::action::Param {
        param_id,
        value: bytes::Bytes::copy_from_slice(value),
    };
    p4::Action {
        action_id: FORWARD,
        params: vec![param(1, port), param(2, &[2])],
    }
}

pub(crate) fn plain(action_id: u32) -> p4::Action {
    p4::Action {
        action_id,
        params: Vec::new(),
    }
}

pub(crate) fn does(action: p4::Action) -> Option<p4::TableAction> {
    Some(p4::TableAction {
        r#type: Some(p4::table_action::Type::Action(action)),
    })
}

pub(crate) fn member_id(id: u32) -> Option<p4::TableAction> {
    Some(p4::TableAction {
        r#type: Some(p4::table_action::Type::ActionProfileMemberId(id)),
    })
}

pub(crate) fn group_id(id: u32) -> Option<p4::TableAction> {
    Some(p4::TableAction {
        r#type: Some(p4::table_action::Type::ActionProfileGroupId(id)),
    })
}

pub(crate) fn one_shot(weights: &[i32]) -> Option<p4::TableAction> {
    let actions = weights
        .iter()
        .zip(1_u8..)
        .map(|(weight, port)| p4::ActionProfileAction {
            action: Some(forward(&[port])),
            weight: *weight,
            watch_kind: None,
        });
    let set = p4::ActionProfileActionSet {
        action_profile_actions: actions.collect(),
        ..Default::default()
    };
    Some(p4::TableAction {
        r#type: Some(p4::table_action::Type::ActionProfileActionSet(set)),
    })
}

pub(crate) fn entry(
    table_id: u32,
    r#match: Vec<p4::FieldMatch>,
    action: Option<p4::TableAction>,
) -> p4::TableEntry {
    p4::TableEntry {
        table_id,
        r#match,
        action,
        ..Default::default()
    }
}

pub(crate) fn mac(last: u8) -> p4::TableEntry {
    entry(MAC, vec![exact(1, &[0xaa, last])], does(forward(&[1])))
}

pub(crate) fn member(profile: u32, id: u32, port: u8) -> Kind {
    Kind::ActionProfileMember(p4::ActionProfileMember {
        action_profile_id: profile,
        member_id: id,
        action: Some(forward(&[port])),
    })
}

pub(crate) fn group(profile: u32, id: u32, members: &[(u32, i32)]) -> Kind {
    let members = members
        .iter()
        .map(|(member_id, weight)| p4::action_profile_group::Member {
            member_id: *member_id,
            weight: *weight,
            watch_kind: None,
        });
    Kind::ActionProfileGroup(p4::ActionProfileGroup {
        action_profile_id: profile,
        group_id: id,
        members: members.collect(),
        max_size: 4,
    })
}

pub(crate) fn insert(kind: Kind) -> p4::Update {
    update(p4::update::Type::Insert, kind)
}

pub(crate) fn modify(kind: Kind) -> p4::Update {
    update(p4::update::Type::Modify, kind)
}

pub(crate) fn delete(kind: Kind) -> p4::Update {
    update(p4::update::Type::Delete, kind)
}

pub(crate) fn update(r#type: p4::update::Type, kind: Kind) -> p4::Update {
    p4::Update {
        r#type: r#type as i32,
        entity: Some(p4::Entity { entity: Some(kind) }),
    }
}

pub(crate) fn write_request(updates: Vec<p4::Update>) -> p4::WriteRequest {
    p4::WriteRequest {
        device_id: 1,
        election_id: Some(id(1)),
        updates,
        ..Default::default()
    }
}

pub(crate) fn write(device: &mut Device<Model>, updates: Vec<p4::Update>) -> Result<(), Failure> {
    device.handle_write(&write_request(updates), at(0))
}

/// The code of each update; the call must have failed for some.
pub(crate) fn codes(outcome: Result<(), Failure>) -> Vec<Code> {
    match outcome {
        Ok(()) => panic!("every update was done"),
        Err(Failure::Call(problem)) => panic!("the call failed: {problem}"),
        Err(Failure::Parts(verdicts)) => verdicts
            .iter()
            .map(|verdict| {
                verdict
                    .as_ref()
                    .map_or_else(|problem| problem.code, |()| Code::Ok)
            })
            .collect(),
    }
}

pub(crate) fn read(device: &mut Device<Model>, kind: Kind) -> Vec<Kind> {
    let (messages, end) = device.handle_read(&p4::ReadRequest {
        device_id: 1,
        entities: vec![p4::Entity { entity: Some(kind) }],
        ..Default::default()
    });
    end.unwrap_or_else(|failure| panic!("{failure:?}"));
    let entities = messages.into_iter().flat_map(|message| message.entities);
    entities.filter_map(|entity| entity.entity).collect()
}

/// Reads everything that can be read.
pub(crate) fn read_all(device: &mut Device<Model>) -> Vec<Kind> {
    use p4::packet_replication_engine_entry::Type as Replication;
    let replication = |kind| {
        Kind::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(kind) })
    };
    let direct = p4::TableEntry {
        counter_data: Some(Default::default()),
        meter_config: Some(Default::default()),
        ..Default::default()
    };
    let defaults = p4::TableEntry {
        is_default_action: true,
        ..direct.clone()
    };
    let kinds = [
        Kind::TableEntry(direct),
        Kind::TableEntry(defaults),
        Kind::ActionProfileMember(Default::default()),
        Kind::ActionProfileGroup(Default::default()),
        Kind::CounterEntry(Default::default()),
        Kind::MeterEntry(Default::default()),
        Kind::RegisterEntry(Default::default()),
        Kind::DirectCounterEntry(Default::default()),
        Kind::DirectMeterEntry(Default::default()),
        replication(Replication::MulticastGroupEntry(Default::default())),
        replication(Replication::CloneSessionEntry(Default::default())),
        Kind::ValueSetEntry(Default::default()),
        Kind::DigestEntry(Default::default()),
    ];
    kinds
        .into_iter()
        .flat_map(|kind| read(device, kind))
        .collect()
}
