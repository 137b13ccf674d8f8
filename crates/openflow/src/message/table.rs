//! The numbers of all messages, in each version.
//!
//! A row has the kind, where its number lives, the first and the last version, and the number
//! (OpenFlow's specifications; Open vSwitch for Nicira's and ONF's extensions).

use crate::version::Version::{self, V10, V11, V12, V13, V14, V15};

/// Where a message's number lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// The header's type.
    Standard,
    /// Nicira's subtype of an experimenter's message.
    Nicira,
    /// The Open Networking Foundation's.
    Onf,
    /// The type of a multipart request.
    Request,
    /// Nicira's subtype of an experimenter's multipart request.
    NiciraRequest,
    /// The Open Networking Foundation's.
    OnfRequest,
    /// The type of a multipart reply.
    Reply,
    /// Nicira's.
    NiciraReply,
    /// The Open Networking Foundation's.
    OnfReply,
}

use Place::{
    Nicira, NiciraReply, NiciraRequest, Onf, OnfReply, OnfRequest, Reply, Request, Standard,
};

macro_rules! kinds {
    ($($kind:ident: $($place:ident $first:ident $last:ident $number:literal),+;)*) => {
        /// A kind of message.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Kind { $($kind),* }

        static ROWS: &[(Kind, Place, Version, Version, u32)] = &[
            $($((Kind::$kind, $place, $first, $last, $number)),+),*
        ];
    };
}

kinds! {
    Hello: Standard V10 V15 0;
    Error: Standard V10 V15 1;
    EchoRequest: Standard V10 V15 2;
    EchoReply: Standard V10 V15 3;
    FeaturesRequest: Standard V10 V15 5;
    FeaturesReply: Standard V10 V15 6;
    GetConfigRequest: Standard V10 V15 7;
    GetConfigReply: Standard V10 V15 8;
    SetConfig: Standard V10 V15 9;
    PacketIn: Standard V10 V15 10;
    NxPacketIn: Nicira V10 V15 17;
    NxPacketIn2: Nicira V10 V15 30;
    FlowRemoved: Standard V10 V15 11;
    NxFlowRemoved: Nicira V10 V15 14;
    PortStatus: Standard V10 V15 12;
    PacketOut: Standard V10 V15 13;
    FlowMod: Standard V10 V15 14;
    NxFlowMod: Nicira V10 V15 13;
    GroupMod: Nicira V10 V10 31, Standard V11 V15 15;
    PortMod: Standard V10 V10 15, Standard V11 V15 16;
    TableMod: Standard V11 V15 17;
    BarrierRequest: Standard V10 V10 18, Standard V11 V15 20;
    BarrierReply: Standard V10 V10 19, Standard V11 V15 21;
    QueueConfigRequest: Standard V10 V10 20, Standard V11 V13 22;
    QueueConfigReply: Standard V10 V10 21, Standard V11 V13 23;
    RoleRequest: Standard V12 V15 24;
    NxRoleRequest: Nicira V10 V15 10;
    RoleReply: Standard V12 V15 25;
    NxRoleReply: Nicira V10 V15 11;
    GetAsyncRequest: Standard V13 V15 26;
    GetAsyncReply: Standard V13 V15 27;
    SetAsync: Standard V13 V15 28;
    NxSetAsync: Nicira V10 V15 19;
    NxSetAsync2: Nicira V10 V13 27;
    MeterMod: Standard V13 V15 29;
    RoleStatus: Onf V13 V13 1911, Standard V14 V15 30;
    TableStatus: Standard V14 V15 31;
    RequestForward: Nicira V10 V12 132, Onf V13 V13 2350, Standard V14 V15 32;
    BundleControl: Onf V13 V13 2300, Standard V14 V15 33;
    BundleAdd: Onf V13 V13 2301, Standard V14 V15 34;
    MonitorCancel: Nicira V10 V12 21, Onf V13 V13 1870;
    MonitorPaused: Nicira V10 V12 22, Onf V13 V13 1871;
    MonitorResumed: Nicira V10 V12 23, Onf V13 V13 1872;
    SetFlowFormat: Nicira V10 V10 12;
    FlowModTableId: Nicira V10 V15 15;
    SetPacketInFormat: Nicira V10 V15 16;
    FlowAge: Nicira V10 V15 18;
    SetControllerId: Nicira V10 V15 20;
    TlvTableMod: Nicira V10 V15 24;
    TlvTableRequest: Nicira V10 V15 25;
    TlvTableReply: Nicira V10 V15 26;
    Resume: Nicira V10 V15 28;
    CtFlushZone: Nicira V10 V15 29;
    CtFlush: Nicira V10 V15 32;
    DescriptionRequest: Request V10 V15 0;
    DescriptionReply: Reply V10 V15 0;
    FlowRequest: Request V10 V15 1;
    NxFlowRequest: NiciraRequest V10 V10 0;
    FlowReply: Reply V10 V15 1;
    NxFlowReply: NiciraReply V10 V10 0;
    AggregateRequest: Request V10 V15 2;
    NxAggregateRequest: NiciraRequest V10 V10 1;
    AggregateReply: Reply V10 V15 2;
    NxAggregateReply: NiciraReply V10 V10 1;
    TableRequest: Request V10 V15 3;
    TableReply: Reply V10 V15 3;
    PortRequest: Request V10 V15 4;
    PortReply: Reply V10 V15 4;
    QueueRequest: Request V10 V15 5;
    QueueReply: Reply V10 V15 5;
    GroupRequest: NiciraRequest V10 V10 7, Request V11 V15 6;
    GroupReply: NiciraReply V10 V10 7, Reply V11 V15 6;
    GroupDescRequest: NiciraRequest V10 V10 8, Request V11 V15 7;
    GroupDescReply: NiciraReply V10 V10 8, Reply V11 V15 7;
    GroupFeaturesRequest: NiciraRequest V10 V11 9, Request V12 V15 8;
    GroupFeaturesReply: NiciraReply V10 V11 9, Reply V12 V15 8;
    MeterRequest: Request V13 V15 9;
    MeterReply: Reply V13 V15 9;
    MeterConfigRequest: Request V13 V15 10;
    MeterConfigReply: Reply V13 V15 10;
    MeterFeaturesRequest: Request V13 V15 11;
    MeterFeaturesReply: Reply V13 V15 11;
    TableFeaturesRequest: Request V13 V15 12;
    TableFeaturesReply: Reply V13 V15 12;
    PortDescRequest: Request V10 V15 13;
    PortDescReply: Reply V10 V15 13;
    TableDescRequest: Request V14 V15 14;
    TableDescReply: Reply V14 V15 14;
    QueueDescRequest: Request V14 V15 15;
    QueueDescReply: Reply V14 V15 15;
    MonitorRequest: NiciraRequest V10 V12 2, OnfRequest V13 V13 1870, Request V14 V15 16;
    MonitorReply: NiciraReply V10 V12 2, OnfReply V13 V13 1870, Reply V14 V15 16;
    IpfixBridgeRequest: NiciraRequest V10 V15 3;
    IpfixBridgeReply: NiciraReply V10 V15 3;
    IpfixFlowRequest: NiciraRequest V10 V15 4;
    IpfixFlowReply: NiciraReply V10 V15 4;
}

/// The kind with a number.
pub(crate) fn kind_of(version: Version, place: Place, number: u32) -> Option<Kind> {
    let is_it = |row: &&(Kind, Place, Version, Version, u32)| {
        row.1 == place && row.4 == number && row.2 <= version && version <= row.3
    };
    ROWS.iter().find(is_it).map(|row| row.0)
}

/// The name of a message's type, for logs.
///
/// # Panics
/// If there are fewer than two bytes.
pub fn type_name(message: &[u8]) -> String {
    let number = message[1];
    let version = Version::from_number(message[0]);
    let kind = version.and_then(|version| kind_of(version, Place::Standard, number.into()));
    kind.map_or_else(|| format!("type {number}"), |kind| format!("{kind:?}"))
}

/// The number of a kind; `None` if the version has no such message.
pub(crate) fn place_of(version: Version, kind: Kind) -> Option<(Place, u32)> {
    let mut rows = ROWS.iter();
    let row = rows.find(|row| row.0 == kind && row.2 <= version && version <= row.3)?;
    Some((row.1, row.4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_the_standard_have_names() {
        assert_eq!(type_name(&[6, 14, 0, 8]), "FlowMod");
        assert_eq!(type_name(&[1, 15, 0, 8]), "PortMod");
        assert_eq!(type_name(&[4, 4, 0, 8]), "type 4");
        assert_eq!(type_name(&[99, 14]), "type 14");
    }

    #[test]
    fn a_number_means_one_kind_in_a_version() {
        for version in Version::ALL {
            for row in ROWS
                .iter()
                .filter(|row| row.2 <= version && version <= row.3)
            {
                assert_eq!(kind_of(version, row.1, row.4), Some(row.0));
                assert_eq!(place_of(version, row.0), Some((row.1, row.4)));
            }
        }
    }
}
