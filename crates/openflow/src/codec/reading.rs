//! Reads the body of each kind of message.

use bytes::Bytes;

use super::{
    Context, bundle, connection, flow, group, meter, monitor, nicira, packet, port, queue, stats,
    switch, table,
};
use crate::error::Refusal;
use crate::error_message::ErrorMessage;
use crate::message::connection::AsyncForm;
use crate::message::packet::PacketInFormat;
use crate::message::{Kind, Message, Reply, Request};
use crate::version::Version;
use crate::wire::Reader;

/// What reading a body depends on.
pub(super) struct Body {
    pub(super) version: Version,
    pub(super) xid: u32,
    pub(super) context: Context,
    /// Whether more messages of a multipart message follow.
    pub(super) more: bool,
}

impl Body {
    pub(super) fn read(&mut self, kind: Kind, body: &mut Reader<'_>) -> Result<Message, Refusal> {
        let version = self.version;
        Ok(match kind {
            Kind::Hello => Message::Hello(connection::decode_hello(version.number(), body)?),
            Kind::Error => Message::Error(ErrorMessage::decode(version, body)?),
            Kind::EchoRequest => Message::EchoRequest(Bytes::copy_from_slice(body.rest())),
            Kind::EchoReply => Message::EchoReply(Bytes::copy_from_slice(body.rest())),
            Kind::FeaturesRequest => Message::FeaturesRequest,
            Kind::FeaturesReply => Message::FeaturesReply(switch::decode_features(version, body)?),
            Kind::GetConfigRequest => Message::GetConfigRequest,
            Kind::GetConfigReply => {
                Message::GetConfigReply(switch::decode_config(version, true, body)?)
            }
            Kind::SetConfig => Message::SetConfig(switch::decode_config(version, false, body)?),
            Kind::PacketIn => Message::PacketIn(packet::decode_in(version, body)?),
            Kind::NxPacketIn => Message::PacketIn(packet::decode_nx_in(body)?),
            Kind::NxPacketIn2 => {
                let format = PacketInFormat::Nicira2;
                Message::PacketIn(packet::decode_properties(format, body)?)
            }
            Kind::Resume => {
                let format = PacketInFormat::Nicira2;
                Message::Resume(packet::decode_properties(format, body)?)
            }
            Kind::FlowRemoved => Message::FlowRemoved(flow::decode_removed(version, body)?),
            Kind::NxFlowRemoved => Message::FlowRemoved(flow::decode_nx_removed(body)?),
            Kind::PortStatus => Message::PortStatus(port::decode_status(version, body)?),
            Kind::PacketOut => Message::PacketOut(packet::decode_out(version, body)?),
            Kind::FlowMod => {
                let flow_mod = flow::decode_mod(version, self.context, body)?;
                Message::FlowMod(Box::new(flow_mod))
            }
            Kind::NxFlowMod => {
                let flow_mod = flow::decode_nx_mod(version, self.context, body)?;
                Message::FlowMod(Box::new(flow_mod))
            }
            Kind::GroupMod => Message::GroupMod(group::decode_mod(version, body)?),
            Kind::PortMod => Message::PortMod(port::decode_mod(version, body)?),
            Kind::TableMod => Message::TableMod(table::decode_mod(version, body)?),
            Kind::MeterMod => Message::MeterMod(meter::decode_mod(body)?),
            Kind::BarrierRequest => Message::BarrierRequest,
            Kind::BarrierReply => Message::BarrierReply,
            other => return self.read_more(other, body),
        })
    }

    fn read_more(&mut self, kind: Kind, body: &mut Reader<'_>) -> Result<Message, Refusal> {
        let version = self.version;
        Ok(match kind {
            Kind::QueueConfigRequest => {
                Message::QueueConfigRequest(queue::decode_config_request(version, body)?)
            }
            Kind::QueueConfigReply => {
                let (port, queues) = queue::decode_config_reply(version, body)?;
                Message::QueueConfigReply(port, queues)
            }
            Kind::RoleRequest => Message::RoleRequest(connection::decode_role(false, body)?),
            Kind::NxRoleRequest => Message::RoleRequest(connection::decode_role(true, body)?),
            Kind::RoleReply => Message::RoleReply(connection::decode_role(false, body)?),
            Kind::NxRoleReply => Message::RoleReply(connection::decode_role(true, body)?),
            Kind::RoleStatus => Message::RoleStatus(connection::decode_role_status(body)?),
            Kind::GetAsyncRequest => Message::GetAsyncRequest,
            Kind::GetAsyncReply => {
                Message::GetAsyncReply(connection::decode_async(version, true, body)?)
            }
            Kind::SetAsync => {
                let config = connection::decode_async(version, false, body)?;
                Message::SetAsync(AsyncForm::Standard, config)
            }
            Kind::NxSetAsync => {
                Message::SetAsync(AsyncForm::Nicira, connection::decode_masks(version, body)?)
            }
            Kind::NxSetAsync2 => {
                let config = connection::decode_properties(version, false, body)?;
                Message::SetAsync(AsyncForm::Nicira2, config)
            }
            Kind::TableStatus => Message::TableStatus(table::decode_status(body)?),
            Kind::RequestForward => {
                Message::RequestForward(connection::decode_forward(self.context, body)?)
            }
            Kind::BundleControl => Message::BundleControl(bundle::decode_control(body)?),
            Kind::BundleAdd => Message::BundleAdd(bundle::decode_add(version, self.xid, body)?),
            Kind::MonitorCancel => Message::MonitorCancel(body.u32()?),
            Kind::MonitorPaused => Message::MonitorPaused,
            Kind::MonitorResumed => Message::MonitorResumed,
            Kind::SetFlowFormat => Message::SetFlowFormat(body.u32()?),
            Kind::FlowModTableId => Message::FlowModTableId(nicira::decode_switch(body)?),
            Kind::SetPacketInFormat => {
                Message::SetPacketInFormat(nicira::decode_packet_in_format(body)?)
            }
            Kind::FlowAge => Message::FlowAge,
            Kind::SetControllerId => Message::SetControllerId(nicira::decode_id(body)?),
            Kind::TlvTableMod => Message::TlvTableMod(nicira::decode_tlv_mod(body)?),
            Kind::TlvTableRequest => Message::TlvTableRequest,
            Kind::TlvTableReply => Message::TlvTableReply(nicira::decode_tlv_table(body)?),
            Kind::CtFlushZone => Message::CtFlushZone(nicira::decode_id(body)?),
            Kind::CtFlush => Message::CtFlush(nicira::decode_ct_flush(body)?),
            other => match self.request(other, body)? {
                Some(request) => Message::Request(request, self.more),
                None => Message::Reply(self.reply(other, body)?, self.more),
            },
        })
    }

    fn request(&self, kind: Kind, body: &mut Reader<'_>) -> Result<Option<Request>, Refusal> {
        let version = self.version;
        Ok(Some(match kind {
            Kind::DescriptionRequest => Request::Description,
            Kind::FlowRequest => Request::Flow(flow::decode_request(version, body)?),
            Kind::NxFlowRequest => Request::Flow(flow::decode_nx_request(body)?),
            Kind::AggregateRequest => Request::Aggregate(flow::decode_request(version, body)?),
            Kind::NxAggregateRequest => Request::Aggregate(flow::decode_nx_request(body)?),
            Kind::TableRequest => Request::Table,
            Kind::PortRequest => Request::Port(port::decode_stats_request(version, body)?),
            Kind::QueueRequest => Request::Queue(queue::decode_request(version, body)?),
            Kind::GroupRequest => Request::Group(stats::decode_number(body)?),
            Kind::GroupDescRequest => {
                Request::GroupDesc(group::decode_desc_request(version, body)?)
            }
            Kind::GroupFeaturesRequest => Request::GroupFeatures,
            Kind::MeterRequest => Request::Meter(stats::decode_number(body)?),
            Kind::MeterConfigRequest => Request::MeterConfig(stats::decode_number(body)?),
            Kind::MeterFeaturesRequest => Request::MeterFeatures,
            Kind::TableFeaturesRequest => {
                Request::TableFeatures(table::decode_features(version, body)?)
            }
            Kind::TableDescRequest => Request::TableDesc,
            Kind::PortDescRequest => Request::PortDesc(port::decode_desc_request(version, body)?),
            Kind::QueueDescRequest => Request::QueueDesc(queue::decode_request(version, body)?),
            Kind::MonitorRequest => Request::Monitor(monitor::decode_requests(version, body)?),
            Kind::IpfixBridgeRequest => Request::IpfixBridge,
            Kind::IpfixFlowRequest => Request::IpfixFlow,
            _ => return Ok(None),
        }))
    }

    fn reply(&self, kind: Kind, body: &mut Reader<'_>) -> Result<Reply, Refusal> {
        let version = self.version;
        Ok(match kind {
            Kind::DescriptionReply => Reply::Description(switch::decode_description(body)?),
            Kind::FlowReply => {
                let read = |body: &mut Reader<'_>| flow::decode_stats(version, body);
                Reply::Flow(false, all(body, read)?)
            }
            Kind::NxFlowReply => Reply::Flow(true, all(body, flow::decode_nx_stats)?),
            Kind::AggregateReply => Reply::Aggregate(false, flow::decode_aggregate(version, body)?),
            Kind::NxAggregateReply => {
                Reply::Aggregate(true, flow::decode_aggregate(Version::V10, body)?)
            }
            Kind::TableReply => {
                let read = |body: &mut Reader<'_>| table::decode_stats(version, body);
                Reply::Table(all(body, read)?)
            }
            Kind::PortReply => {
                let read = |body: &mut Reader<'_>| port::decode_stats(version, body);
                Reply::Port(all(body, read)?)
            }
            Kind::QueueReply => {
                let read = |body: &mut Reader<'_>| queue::decode_stats(version, body);
                Reply::Queue(all(body, read)?)
            }
            Kind::GroupReply => {
                let read = |body: &mut Reader<'_>| group::decode_stats(version, body);
                Reply::Group(all(body, read)?)
            }
            Kind::GroupDescReply => {
                let read = |body: &mut Reader<'_>| group::decode_desc(version, body);
                Reply::GroupDesc(all(body, read)?)
            }
            Kind::GroupFeaturesReply => Reply::GroupFeatures(group::decode_features(body)?),
            Kind::MeterReply => Reply::Meter(all(body, meter::decode_stats)?),
            Kind::MeterConfigReply => Reply::MeterConfig(all(body, meter::decode_config)?),
            Kind::MeterFeaturesReply => {
                Reply::MeterFeatures(meter::decode_features(version, body)?)
            }
            Kind::TableFeaturesReply => {
                Reply::TableFeatures(table::decode_features(version, body)?)
            }
            Kind::TableDescReply => Reply::TableDesc(all(body, table::decode_desc)?),
            Kind::PortDescReply => {
                let read = |body: &mut Reader<'_>| port::decode_desc(version, body);
                Reply::PortDesc(all(body, read)?)
            }
            Kind::QueueDescReply => Reply::QueueDesc(all(body, queue::decode_desc)?),
            Kind::MonitorReply => {
                let read = |body: &mut Reader<'_>| monitor::decode_update(version, body);
                Reply::Monitor(all(body, read)?)
            }
            Kind::IpfixBridgeReply => Reply::IpfixBridge(nicira::decode_ipfix(body)?),
            Kind::IpfixFlowReply => Reply::IpfixFlow(all(body, nicira::decode_ipfix)?),
            other => unreachable!("{other:?} was read before"),
        })
    }
}

/// Reads entries until nothing is left.
fn all<T>(
    body: &mut Reader<'_>,
    read: impl Fn(&mut Reader<'_>) -> Result<T, Refusal>,
) -> Result<Vec<T>, Refusal> {
    let mut entries = Vec::new();
    while !body.is_empty() {
        entries.push(read(body)?);
    }
    Ok(entries)
}
