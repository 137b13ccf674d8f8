//! Writes the body of each kind of message.

use super::{
    bundle, connection, flow, group, meter, monitor, nicira, packet, pieces, port, queue, stats,
    switch, table,
};
use crate::matching::Match;
use crate::message::connection::{AsyncForm, RequestForward};
use crate::message::group::{GroupCommand, GroupMod};
use crate::message::monitor::{MonitorCommand, MonitorRequest, MonitorUpdate};
use crate::message::packet::PacketInFormat;
use crate::message::port::PortNumber;
use crate::message::{Kind, Message, Reply, Request};
use crate::version::Version;
use crate::wire::Writer;

/// The kind of a message, and whether more of a multipart message follow.
pub(super) fn kind_of(message: &Message) -> (Kind, bool) {
    let kind = match message {
        Message::Request(request, more) => return (request_kind(request), *more),
        Message::Reply(reply, more) => return (reply_kind(reply), *more),
        Message::Hello(_) => Kind::Hello,
        Message::Error(_) => Kind::Error,
        Message::EchoRequest(_) => Kind::EchoRequest,
        Message::EchoReply(_) => Kind::EchoReply,
        Message::FeaturesRequest => Kind::FeaturesRequest,
        Message::FeaturesReply(_) => Kind::FeaturesReply,
        Message::GetConfigRequest => Kind::GetConfigRequest,
        Message::GetConfigReply(_) => Kind::GetConfigReply,
        Message::SetConfig(_) => Kind::SetConfig,
        Message::PacketIn(packet) => match packet.format {
            PacketInFormat::Standard => Kind::PacketIn,
            PacketInFormat::Nicira => Kind::NxPacketIn,
            PacketInFormat::Nicira2 => Kind::NxPacketIn2,
        },
        Message::FlowRemoved(flow) if flow.is_nicira => Kind::NxFlowRemoved,
        Message::FlowRemoved(_) => Kind::FlowRemoved,
        Message::PortStatus(_) => Kind::PortStatus,
        Message::TableStatus(_) => Kind::TableStatus,
        Message::PacketOut(_) => Kind::PacketOut,
        Message::FlowMod(flow) if flow.is_nicira => Kind::NxFlowMod,
        Message::FlowMod(_) => Kind::FlowMod,
        Message::GroupMod(_) => Kind::GroupMod,
        Message::PortMod(_) => Kind::PortMod,
        Message::TableMod(_) => Kind::TableMod,
        Message::MeterMod(_) => Kind::MeterMod,
        Message::BarrierRequest => Kind::BarrierRequest,
        Message::BarrierReply => Kind::BarrierReply,
        Message::QueueConfigRequest(_) => Kind::QueueConfigRequest,
        Message::QueueConfigReply(..) => Kind::QueueConfigReply,
        Message::RoleRequest(role) if role.is_nicira => Kind::NxRoleRequest,
        Message::RoleRequest(_) => Kind::RoleRequest,
        Message::RoleReply(role) if role.is_nicira => Kind::NxRoleReply,
        Message::RoleReply(_) => Kind::RoleReply,
        Message::RoleStatus(_) => Kind::RoleStatus,
        Message::GetAsyncRequest => Kind::GetAsyncRequest,
        Message::GetAsyncReply(_) => Kind::GetAsyncReply,
        Message::SetAsync(form, _) => match form {
            AsyncForm::Standard => Kind::SetAsync,
            AsyncForm::Nicira => Kind::NxSetAsync,
            AsyncForm::Nicira2 => Kind::NxSetAsync2,
        },
        Message::RequestForward(_) => Kind::RequestForward,
        Message::BundleControl(_) => Kind::BundleControl,
        Message::BundleAdd(_) => Kind::BundleAdd,
        Message::FlowModTableId(_) => Kind::FlowModTableId,
        Message::SetFlowFormat(_) => Kind::SetFlowFormat,
        Message::SetPacketInFormat(_) => Kind::SetPacketInFormat,
        Message::FlowAge => Kind::FlowAge,
        Message::SetControllerId(_) => Kind::SetControllerId,
        Message::MonitorCancel(_) => Kind::MonitorCancel,
        Message::MonitorPaused => Kind::MonitorPaused,
        Message::MonitorResumed => Kind::MonitorResumed,
        Message::TlvTableMod(_) => Kind::TlvTableMod,
        Message::TlvTableRequest => Kind::TlvTableRequest,
        Message::TlvTableReply(_) => Kind::TlvTableReply,
        Message::Resume(_) => Kind::Resume,
        Message::CtFlushZone(_) => Kind::CtFlushZone,
        Message::CtFlush(_) => Kind::CtFlush,
    };
    (kind, false)
}

/// The message by which OpenFlow 1.4 and later say the same: what monitors do stands in
/// multipart messages there.
pub(super) fn in_version(version: Version, message: &Message) -> Option<Message> {
    if version < Version::V14 {
        return None;
    }
    let update = match message {
        Message::MonitorPaused => MonitorUpdate::Paused,
        Message::MonitorResumed => MonitorUpdate::Resumed,
        Message::MonitorCancel(id) => {
            let request = MonitorRequest {
                id: *id,
                command: MonitorCommand::Delete,
                flags: 0,
                out_port: PortNumber(0),
                out_group: 0,
                table: 0,
                matching: Match::default(),
            };
            return Some(Message::Request(Request::Monitor(vec![request]), false));
        }
        _ => return None,
    };
    Some(Message::Reply(Reply::Monitor(vec![update]), false))
}

/// Whether a version that has a message of this kind can say what this one says.
pub(super) fn can_say(version: Version, message: &Message) -> bool {
    match message {
        // Nicira's message of 1.0 has buckets' commands, that of 1.1 to 1.4 has not.
        Message::GroupMod(GroupMod { command, .. }) => {
            let is_of_buckets = matches!(
                command,
                GroupCommand::InsertBucket | GroupCommand::RemoveBucket
            );
            !is_of_buckets || version == Version::V10 || version == Version::V15
        }
        Message::RequestForward(RequestForward::Group(_, change)) => {
            can_say(version, &Message::GroupMod(change.clone()))
        }
        Message::QueueConfigRequest(port) => queue::may_ask(version, *port),
        Message::RequestForward(RequestForward::Meter(..)) => version >= Version::V13,
        Message::Request(Request::Monitor(requests), _) => {
            let adds = |request: &MonitorRequest| request.command == MonitorCommand::Add;
            version >= Version::V14 || requests.iter().all(adds)
        }
        Message::Reply(Reply::Monitor(updates), _) => {
            let is_event = |update: &MonitorUpdate| {
                !matches!(update, MonitorUpdate::Paused | MonitorUpdate::Resumed)
            };
            version >= Version::V14 || updates.iter().all(is_event)
        }
        _ => true,
    }
}

fn request_kind(request: &Request) -> Kind {
    match request {
        Request::Description => Kind::DescriptionRequest,
        Request::Flow(asked) if asked.is_nicira => Kind::NxFlowRequest,
        Request::Flow(_) => Kind::FlowRequest,
        Request::Aggregate(asked) if asked.is_nicira => Kind::NxAggregateRequest,
        Request::Aggregate(_) => Kind::AggregateRequest,
        Request::Table => Kind::TableRequest,
        Request::Port(_) => Kind::PortRequest,
        Request::Queue(_) => Kind::QueueRequest,
        Request::Group(_) => Kind::GroupRequest,
        Request::GroupDesc(_) => Kind::GroupDescRequest,
        Request::GroupFeatures => Kind::GroupFeaturesRequest,
        Request::Meter(_) => Kind::MeterRequest,
        Request::MeterConfig(_) => Kind::MeterConfigRequest,
        Request::MeterFeatures => Kind::MeterFeaturesRequest,
        Request::TableFeatures(_) => Kind::TableFeaturesRequest,
        Request::TableDesc => Kind::TableDescRequest,
        Request::PortDesc(_) => Kind::PortDescRequest,
        Request::QueueDesc(_) => Kind::QueueDescRequest,
        Request::Monitor(_) => Kind::MonitorRequest,
        Request::IpfixBridge => Kind::IpfixBridgeRequest,
        Request::IpfixFlow => Kind::IpfixFlowRequest,
    }
}

pub(super) fn reply_kind(reply: &Reply) -> Kind {
    match reply {
        Reply::Description(_) => Kind::DescriptionReply,
        Reply::Flow(true, _) => Kind::NxFlowReply,
        Reply::Flow(false, _) => Kind::FlowReply,
        Reply::Aggregate(true, _) => Kind::NxAggregateReply,
        Reply::Aggregate(false, _) => Kind::AggregateReply,
        Reply::Table(_) => Kind::TableReply,
        Reply::Port(_) => Kind::PortReply,
        Reply::Queue(_) => Kind::QueueReply,
        Reply::Group(_) => Kind::GroupReply,
        Reply::GroupDesc(_) => Kind::GroupDescReply,
        Reply::GroupFeatures(_) => Kind::GroupFeaturesReply,
        Reply::Meter(_) => Kind::MeterReply,
        Reply::MeterConfig(_) => Kind::MeterConfigReply,
        Reply::MeterFeatures(_) => Kind::MeterFeaturesReply,
        Reply::TableFeatures(_) => Kind::TableFeaturesReply,
        Reply::TableDesc(_) => Kind::TableDescReply,
        Reply::PortDesc(_) => Kind::PortDescReply,
        Reply::QueueDesc(_) => Kind::QueueDescReply,
        Reply::Monitor(_) => Kind::MonitorReply,
        Reply::IpfixBridge(_) => Kind::IpfixBridgeReply,
        Reply::IpfixFlow(_) => Kind::IpfixFlowReply,
    }
}

/// Writes a message's body.
pub(super) fn body(version: Version, message: &Message, writer: &mut Writer) {
    match message {
        Message::Error(error) => error.encode(writer),
        Message::EchoRequest(data) | Message::EchoReply(data) => writer.put(data),
        Message::FeaturesReply(features) => switch::put_features(version, features, writer),
        Message::GetConfigReply(config) | Message::SetConfig(config) => {
            switch::put_config(version, *config, writer);
        }
        Message::PacketIn(packet) => packet::put_in(version, packet, writer),
        Message::Resume(packet) => packet::put_properties(version, packet, writer),
        Message::FlowRemoved(flow) => flow::put_removed(version, flow, writer),
        Message::PortStatus(status) => port::put_status(version, status, writer),
        Message::TableStatus(status) => table::put_status(status, writer),
        Message::PacketOut(packet) => packet::put_out(version, packet, writer),
        Message::FlowMod(flow) => flow::put_mod(version, flow, writer),
        Message::GroupMod(group) => group::put_mod(version, group, writer),
        Message::PortMod(asked) => port::put_mod(version, asked, writer),
        Message::TableMod(asked) => table::put_mod(version, asked, writer),
        Message::MeterMod(asked) => meter::put_mod(asked, writer),
        Message::QueueConfigRequest(port) => queue::put_config_request(version, *port, writer),
        Message::QueueConfigReply(port, queues) => {
            queue::put_config_reply(version, *port, queues, writer);
        }
        Message::RoleRequest(role) | Message::RoleReply(role) => {
            connection::put_role(*role, writer);
        }
        Message::RoleStatus(status) => connection::put_role_status(*status, writer),
        Message::GetAsyncReply(config) | Message::SetAsync(AsyncForm::Standard, config) => {
            connection::put_async(version, config, writer);
        }
        Message::SetAsync(AsyncForm::Nicira, config) => connection::put_masks(config, writer),
        Message::SetAsync(AsyncForm::Nicira2, config) => {
            connection::put_properties(config, writer);
        }
        Message::RequestForward(forward) => connection::put_forward(version, forward, writer),
        Message::BundleControl(control) => bundle::put_control(control, writer),
        Message::BundleAdd(add) => bundle::put_add(add, writer),
        Message::FlowModTableId(is_on) => nicira::put_switch(*is_on, writer),
        Message::SetFlowFormat(number) | Message::MonitorCancel(number) => writer.u32(*number),
        Message::SetPacketInFormat(format) => writer.u32(*format as u32),
        Message::SetControllerId(id) | Message::CtFlushZone(id) => nicira::put_id(*id, writer),
        Message::TlvTableMod(asked) => nicira::put_tlv_mod(asked, writer),
        Message::TlvTableReply(table) => nicira::put_tlv_table(table, writer),
        Message::CtFlush(flush) => nicira::put_ct_flush(flush, writer),
        Message::Request(request, _) => put_request(version, request, writer),
        Message::Reply(reply, _) => pieces::put_all(version, reply, writer),
        Message::Hello(_)
        | Message::FeaturesRequest
        | Message::GetConfigRequest
        | Message::BarrierRequest
        | Message::BarrierReply
        | Message::GetAsyncRequest
        | Message::FlowAge
        | Message::MonitorPaused
        | Message::MonitorResumed
        | Message::TlvTableRequest => {}
    }
}

fn put_request(version: Version, request: &Request, writer: &mut Writer) {
    match request {
        Request::Flow(asked) | Request::Aggregate(asked) => {
            flow::put_request(version, asked, writer);
        }
        Request::Port(port) => port::put_stats_request(version, *port, writer),
        Request::Queue(asked) | Request::QueueDesc(asked) => {
            queue::put_request(version, *asked, writer);
        }
        Request::Group(number) | Request::Meter(number) | Request::MeterConfig(number) => {
            stats::put_number(*number, writer);
        }
        Request::GroupDesc(group) => group::put_desc_request(version, *group, writer),
        Request::TableFeatures(tables) => {
            for features in tables {
                table::put_features(version, features, writer);
            }
        }
        Request::PortDesc(port) => port::put_desc_request(version, *port, writer),
        Request::Monitor(requests) => monitor::put_requests(version, requests, writer),
        Request::Description
        | Request::Table
        | Request::GroupFeatures
        | Request::MeterFeatures
        | Request::TableDesc
        | Request::IpfixBridge
        | Request::IpfixFlow => {}
    }
}
