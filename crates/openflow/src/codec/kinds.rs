//! The kind of each message.

use crate::message::connection::AsyncForm;
use crate::message::packet::PacketInFormat;
use crate::message::{Kind, Message, Reply, Request};

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
