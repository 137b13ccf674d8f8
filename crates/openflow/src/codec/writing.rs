//! Writes the body of each kind of message.

use super::kinds::kind_of;
use super::{
    bundle, connection, flow, group, meter, monitor, nicira, packet, pieces, port, queue, stats,
    switch, table,
};
use crate::matching::Match;
use crate::message::connection::{AsyncForm, RequestForward};
use crate::message::group::{GroupCommand, GroupMod};
use crate::message::monitor::{MonitorCommand, MonitorRequest, MonitorUpdate};
use crate::message::{Message, Reply, Request};
use crate::port_number::PortNumber;
use crate::version::Version;
use crate::wire::Writer;

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
        Message::RequestForward(forward) => put_forward(version, forward, writer),
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

/// Writes another controller's change, a message in a message.
fn put_forward(version: Version, forward: &RequestForward, writer: &mut Writer) {
    let (xid, message) = match forward {
        RequestForward::Group(xid, group) => (*xid, Message::GroupMod(group.clone())),
        RequestForward::Meter(xid, meter) => (*xid, Message::MeterMod(meter.clone())),
    };
    let (kind, _) = kind_of(&message);
    let Some(mut inner) = super::begin(version, xid, kind, false) else {
        return;
    };
    body(version, &message, &mut inner);
    if let Some(bytes) = super::finish(inner) {
        writer.put(&bytes);
    }
}
