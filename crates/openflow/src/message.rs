//! Messages: one type for each kind, for all versions.

mod table;

pub mod bundle;
pub mod connection;
pub mod continuation;
pub(crate) mod counts;
pub mod flow;
pub mod group;
pub mod meter;
pub mod monitor;
pub mod nicira;
pub mod packet;
pub mod port;
pub mod switch;

pub use table::type_name;
pub(crate) use table::{Kind, Place, kind_of, place_of};

use bytes::Bytes;

use crate::error_message::ErrorMessage;
use crate::port_number::PortNumber;
use bundle::{BundleAdd, BundleControl};
use connection::{AsyncConfig, AsyncForm, Hello, RequestForward, RoleMessage, RoleStatus};
use flow::{AggregateStats, FlowMod, FlowRemoved, FlowStats, FlowStatsRequest};
use group::{GroupDesc, GroupFeatures, GroupMod, GroupStats};
use meter::{MeterConfig, MeterFeatures, MeterMod, MeterStats};
use monitor::{MonitorRequest, MonitorUpdate};
use nicira::{CtFlush, IpfixStats, TlvTable, TlvTableMod};
use packet::{PacketIn, PacketInFormat, PacketOut};
use port::{PortDesc, PortMod, PortStats, PortStatus, QueueDesc, QueueRequest, QueueStats};
use switch::{
    Description, Features, SwitchConfig, TableDesc, TableFeatures, TableMod, TableStats,
    TableStatus,
};

/// A message without its header.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Message {
    Hello(Hello),
    Error(ErrorMessage),
    EchoRequest(Bytes),
    EchoReply(Bytes),
    FeaturesRequest,
    FeaturesReply(Features),
    GetConfigRequest,
    GetConfigReply(SwitchConfig),
    SetConfig(SwitchConfig),
    PacketIn(PacketIn),
    FlowRemoved(FlowRemoved),
    PortStatus(PortStatus),
    TableStatus(TableStatus),
    PacketOut(PacketOut),
    FlowMod(Box<FlowMod>),
    GroupMod(GroupMod),
    PortMod(PortMod),
    TableMod(TableMod),
    MeterMod(MeterMod),
    BarrierRequest,
    BarrierReply,
    /// Of one port; `ANY` for all (OpenFlow 1.0 to 1.3).
    QueueConfigRequest(PortNumber),
    QueueConfigReply(PortNumber, Vec<QueueDesc>),
    RoleRequest(RoleMessage),
    RoleReply(RoleMessage),
    RoleStatus(RoleStatus),
    GetAsyncRequest,
    GetAsyncReply(AsyncConfig),
    SetAsync(AsyncForm, AsyncConfig),
    RequestForward(RequestForward),
    BundleControl(BundleControl),
    BundleAdd(BundleAdd),
    /// Whether the messages that follow have the table in their command (OpenFlow 1.0).
    FlowModTableId(bool),
    /// The form of flow entries that the switch sends; 0 is OpenFlow 1.0's, 2 NXM.
    SetFlowFormat(u32),
    SetPacketInFormat(PacketInFormat),
    /// Asks for ages in `NXST_FLOW` replies.
    FlowAge,
    SetControllerId(u16),
    MonitorCancel(u32),
    MonitorPaused,
    MonitorResumed,
    TlvTableMod(TlvTableMod),
    TlvTableRequest,
    TlvTableReply(TlvTable),
    Resume(PacketIn),
    CtFlushZone(u16),
    CtFlush(CtFlush),
    /// A request for statistics or descriptions, and whether more requests of it follow.
    Request(Request, bool),
    /// A reply, and whether more replies of it follow.
    Reply(Reply, bool),
}

/// Requests for statistics and descriptions (multipart messages).
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Request {
    Description,
    Flow(FlowStatsRequest),
    Aggregate(FlowStatsRequest),
    Table,
    Port(PortNumber),
    Queue(QueueRequest),
    /// Of one group; `ALL_GROUPS` for all.
    Group(u32),
    GroupDesc(u32),
    GroupFeatures,
    Meter(u32),
    MeterConfig(u32),
    MeterFeatures,
    TableFeatures(Vec<TableFeatures>),
    TableDesc,
    PortDesc(PortNumber),
    QueueDesc(QueueRequest),
    Monitor(Vec<MonitorRequest>),
    IpfixBridge,
    IpfixFlow,
}

/// Replies to [`Request`]s.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Reply {
    Description(Description),
    /// Whether it travels as `NXST_FLOW`, and the entries.
    Flow(bool, Vec<FlowStats>),
    /// Whether it travels as `NXST_AGGREGATE`, and the sums.
    Aggregate(bool, AggregateStats),
    Table(Vec<TableStats>),
    Port(Vec<PortStats>),
    Queue(Vec<QueueStats>),
    Group(Vec<GroupStats>),
    GroupDesc(Vec<GroupDesc>),
    GroupFeatures(GroupFeatures),
    Meter(Vec<MeterStats>),
    MeterConfig(Vec<MeterConfig>),
    MeterFeatures(MeterFeatures),
    TableFeatures(Vec<TableFeatures>),
    TableDesc(Vec<TableDesc>),
    PortDesc(Vec<PortDesc>),
    QueueDesc(Vec<QueueDesc>),
    Monitor(Vec<MonitorUpdate>),
    IpfixBridge(IpfixStats),
    IpfixFlow(Vec<IpfixStats>),
}
